"""Layers that call another layer."""

from dataclasses import replace

from cnn_convertor.errors import UnsupportedError
from cnn_convertor.frontends.keras.axes import Value
from cnn_convertor.frontends.keras.inputs import DROPOUTS
from cnn_convertor.frontends.keras.model import is_foreign
from cnn_convertor.frontends.keras.reading import HARMLESS, KerasReading, check_dtype, check_leftovers, keras
from cnn_convertor.frontends.keras.variables import BATCH_NORMALIZATIONS, wrapped
from cnn_convertor.frontends.readers import Settings
from cnn_convertor.ir import ops

# Layers that compute the same on all steps together as on each alone.
_ON_EACH_STEP = (
    "Activation", *BATCH_NORMALIZATIONS, "Dense", *DROPOUTS, "ELU", "Identity", "LayerNormalization", "LeakyReLU", "ReLU",
    "RMSNormalization", "Rescaling", "Softmax", "ThresholdedReLU", "UnitNormalization",
)  # fmt: skip


@keras.reads(
    "TimeDistributed", settings="layer", makes=[ops.Conv2d, ops.Dense],
    limits="of a layer that works on the last axes of a tensor: " + ", ".join(_ON_EACH_STEP),
)  # fmt: skip
def time_distributed(reading: KerasReading) -> Value:
    """Calls a layer on each step."""
    data = reading.take("layer")
    type, config = wrapped(reading.layer.config)
    inner = replace(reading.layer, type=type, config=config)
    reader = keras.get(type)
    if reader is None or type not in _ON_EACH_STEP or is_foreign(data):
        problem = f"layers of the type TimeDistributed, here of {type or 'no layer'}, cannot be converted"
        hint = "use the layer on maps: Dense and Conv1D work on every step"
        raise UnsupportedError.of("DV301", problem, reading.origin, hint)
    if len(reading.sizes(reading.input)) < 2:
        reading.misfit("the layer takes steps, not a vector")
    settings = Settings(config, {"dtype", *reader.settings}, HARMLESS | reader.ignores)
    called = replace(reading, layer=inner, settings=settings)
    check_dtype(called)
    value = reader.read(called)
    check_leftovers(called)
    assert isinstance(value, Value)
    return value
