"""The input layer, and layers that do nothing, at least after training."""

from cnn_convertor.errors import ModelError
from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.reading import KerasReading, keras
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Shape

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


@keras.reads(
    "InputLayer", settings="batch_shape batch_input_shape sparse ragged", ignores="optional", makes=[ops.Input],
    limits="at most three axes and the batch; channels and steps are defined; sparse, ragged: False",
)  # fmt: skip
def input_layer(reading: KerasReading) -> Value:
    batch_shape = next((s for name in ("batch_shape", "batch_input_shape") if (s := reading.take(name))), None)
    for name in ("sparse", "ragged"):
        if reading.flag(name, False):
            reading.refuse(f"a {name} input is not supported", f"use {name}=False")
    if not isinstance(batch_shape, list) or not all(n is None or isinstance(n, int) for n in batch_shape):
        hint = "put a keras.Input(shape=(height, width, channels)) before the first layer and save the model again"
        raise ModelError.of("DV206", "the input's size is not in the file", reading.origin, hint)
    if len(batch_shape) not in (2, 3, 4):
        hint = "use an input of (batch, height, width, channels)"
        reading.refuse(f"an input of {len(batch_shape)} axes is not supported", hint)
    axes = reading.map_axes(len(batch_shape))
    shape = _input_shape(reading, batch_shape[1:], axes)
    op = ops.Input(shape, axes.value, reading.integers)
    return Value(reading.builder.add(reading.layer.name, op, (), reading.origin), axes)


def _input_shape(reading: KerasReading, sizes: list[int | None], axes: Axes) -> Shape:
    lengths: dict[str, int | None] = {"H": 1, "W": 1, "C": 1, **dict(zip(axes.value, sizes, strict=True))}
    if reading.size is not None and axes in (Axes.HWC, Axes.CHW):
        lengths["H"], lengths["W"] = reading.size
    height, width, channels = (lengths[axis] for axis in "HWC")
    if channels is None:
        reading.refuse("the number of the input's channels is not defined", "give the input a shape with its channels")
    if axes in (Axes.WC, Axes.CW) and width is None:
        reading.refuse("the number of the input's steps is not defined", "give the input a shape with its steps")
    if height is None or width is None:
        hint = "set width_override and height_override in the ini file"
        raise ModelError.of("DV206", "the input's height and width are not defined", reading.origin, hint)
    return Shape(height, width, channels)


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
