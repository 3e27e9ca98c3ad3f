"""Layers that do nothing, at least after training."""

from cnn_convertor.frontends.keras.reading import KerasReading, keras
from cnn_convertor.frontends.keras.tensors import Value
from cnn_convertor.ir import ops

DROPOUTS = (
    "Dropout",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "GaussianNoise",
    "GaussianDropout",
    "AlphaDropout",
    "ActivityRegularization",
    "StochasticDepth",  # of keras.applications.convnext
    "FixedDropout",  # of older files of EfficientNet
)
AUGMENTATIONS = (
    "RandomBrightness", "RandomColorDegeneration", "RandomColorJitter", "RandomContrast", "RandomElasticTransform",
    "RandomErasing", "RandomFlip", "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective",
    "RandomPosterization", "RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear", "RandomTranslation", "RandomZoom",
)  # fmt: skip


@keras.reads(*AUGMENTATIONS, ignores="*", makes=[ops.Identity])
@keras.reads(
    "Identity", *DROPOUTS, ignores="rate stddev noise_shape seed data_format l1 l2 drop_path_rate",
    makes=[ops.Identity],
)  # fmt: skip
def identity(reading: KerasReading) -> Value:
    """Only for training."""
    return reading.input._replace(node=reading.add(ops.Identity()))


@keras.reads("Layer", makes=[ops.Identity])
def base_layer(reading: KerasReading) -> Value:
    """Keras's base class of layers, with which some networks of Keras 2 begin."""
    return reading.input._replace(node=reading.add(ops.Identity()))
