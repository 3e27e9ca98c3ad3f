"""Arguments of functions that are called between layers."""

from collections.abc import Mapping
from typing import Any

from cnn_convertor.frontends.keras.axes import Value
from cnn_convertor.frontends.keras.model import TensorIndex
from cnn_convertor.frontends.keras.reading import KerasReading, plain

NO_BATCH = "not along the batch"  # a limit, in words
MISSING = object()
# Names of an argument that is a tensor.
TENSORS = ("x", "inputs", "input", "tensor", "value", "features", "images", "logits", "a")
# What every operation may take.
ARGUMENTS = frozenset({*TENSORS, *(f"argument {position}" for position in range(10))})


def argument(reading: KerasReading, position: int, *names: str, default: Any = MISSING) -> Any:
    """An argument of the function, by name or by position."""
    for name in (*names, f"argument {position}"):
        if name in reading.settings:
            return reading.take(name)
    if default is MISSING:
        reading.refuse(f"the argument {names[0] if names else position!r} is missing", "save the model again")
    return default


def tensor(reading: KerasReading, position: int = 0, *names: str) -> Value:
    """An argument that is a tensor of the network."""
    value = argument(reading, position, *names, *TENSORS)
    if not isinstance(value, TensorIndex):
        reading.refuse(f"the operation works on {value!r}, which is not a tensor of the network", "use a layer instead")
    return reading.inputs[value.input]


def integer(reading: KerasReading, value: Any, what: str) -> int:
    value = plain(value)
    if not isinstance(value, int) or isinstance(value, bool):
        reading.refuse(f"{what} is {value!r}, not a whole number")
    return value


def function_of(reading: KerasReading) -> str:
    return operation_name(reading.layer.type, reading.layer.config)


def operation_name(type: str, config: Mapping[str, Any]) -> str:
    """The name of an operation: Keras 3's class, or TensorFlow's function."""
    return str(config.get("function", type)).removeprefix("compat.v1.").removeprefix("compat.v2.")


def axes_of(reading: KerasReading, value: Value, axes: Any) -> list[int]:
    """Axes of a tensor, counted without the batch, sorted; None is all of them."""
    rank = len(reading.sizes(value)) + 1
    items = plain(axes)
    items = list(range(1, rank)) if items is None else items if isinstance(items, list) else [items]
    if not all(isinstance(item, int) and -rank <= item < rank for item in items):
        reading.refuse(f"a tensor of {rank} axes does not have the axes {axes!r}")
    positions = sorted({item % rank for item in items})
    if not positions or positions[0] == 0:
        reading.refuse("the axis of the batch is among the axes", "leave it out")
    return [axis - 1 for axis in positions]
