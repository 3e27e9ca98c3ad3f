"""Why layers cannot be converted, and a way out."""

from collections.abc import Mapping

from cnn_convertor.errors import Origin, Problem
from cnn_convertor.frontends.keras.model import KerasLayer
from cnn_convertor.frontends.keras.operations import operation_name
from cnn_convertor.frontends.keras.reading import keras

LAMBDAS = frozenset({"TFOpLambda", "SlicingOpLambda"})  # functions of TensorFlow, in files of Keras 2
KERAS_1 = "the file is of Keras 1: load it with Keras 2 (up to TensorFlow 2.15, or tf_keras), and save it again"
ANYWAY = "define it as a custom layer, or replace it"

_RECURRENT = "the device runs no recurrent layers: use convolutions over time (Conv1D with padding='causal'), or run this part elsewhere"
_ATTENTION = "use MultiHeadAttention, Attention or Dot, or end the network before it and run the rest elsewhere"
_TEXT = "it does not work on images: do this in the application, and start the network after it"
_WRAPPER = "use the layer itself, without the wrapper"
_VOLUME = "the device has no 3D layers: use the 2D layers, with the depth among the channels"
ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "StackedRNNCells", "CuDNNLSTM", "CuDNNGRU"), _RECURRENT),
    **dict.fromkeys(("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), _RECURRENT),
    **dict.fromkeys(("GroupQueryAttention", "AdditiveAttention", "EinsumDense"), _ATTENTION),
    **dict.fromkeys(("TextVectorization", "StringLookup", "IntegerLookup", "Hashing", "HashedCrossing", "CategoryEncoding"), _TEXT),
    **dict.fromkeys(("Discretization", "MelSpectrogram", "STFTSpectrogram"), _TEXT),
    **dict.fromkeys(("Embedding", "ReversibleEmbedding"), "look the vectors up in the application, and start the network after it"),
    "Masking": "steps cannot be skipped: remove the layer and give all steps",
    "Lambda": "Python code is not converted: use layers (Rescaling, Multiply, Reshape), or define it as a custom layer",
    **dict.fromkeys(("SpectralNormalization", "Wrapper"), _WRAPPER),
    **{f"{name}3D": _VOLUME for name in (
        "Conv", "SeparableConv", "MaxPooling", "AveragePooling", "GlobalMaxPooling", "GlobalAveragePooling", "UpSampling", "ZeroPadding",
        "Cropping", "SpatialDropout", "AdaptiveMaxPooling", "AdaptiveAveragePooling")},
    "Conv3DTranspose": _VOLUME,
    **dict.fromkeys(("LocallyConnected1D", "LocallyConnected2D"), "its kernel differs from pixel to pixel: use a convolution"),
    **dict.fromkeys(("TFSMLayer", "TorchModuleWrapper", "FlaxLayer", "JaxLayer"), "its code is not converted: build it of Keras layers"),
    **dict.fromkeys(("Convolution1D", "Convolution2D", "AtrousConvolution1D", "AtrousConvolution2D", "Deconvolution2D"), KERAS_1),
    **dict.fromkeys(("SeparableConvolution2D", "Merge", "MaxoutDense", "Highway", "TimeDistributedDense"), KERAS_1),
    "TensorFlowOpLayer": "load and save the model with Keras 2.4 or later, or use a layer instead",
    "RandomCrop": "it resizes images at inference: use Resizing or CenterCrop",
}  # fmt: skip


def unsupported(layer: KerasLayer, origin: Origin) -> Problem:
    type = layer.type
    if layer.is_foreign and keras.get(type) is not None:
        what = f"layers of a class {type} that is not Keras's own are not supported"
        return Problem("DV301", what, origin, ANYWAY)
    if layer.is_operation or type in LAMBDAS:
        what = operation_name(type, layer.config)
        hint = "use a layer instead, such as keras.layers.Add"
        return Problem("DV301", f"the operation {what} between layers cannot be converted", origin, hint)
    return Problem("DV301", f"layers of the type {type} cannot be converted", origin, ADVICE.get(type, ANYWAY))
