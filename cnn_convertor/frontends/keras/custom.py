"""Layer types that the user defines: firmware implements them, a Python file gives their shapes."""

import runpy
import shlex
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from cnn_convertor.errors import Origin, UnsupportedError, UsageError
from cnn_convertor.escaping import identifier, member
from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.reading import KerasReading
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Parameter, Shape

# (names of the settings to hand to the firmware, function of (config, input shape) that gives the output shape)
CustomLayer: TypeAlias = tuple[Sequence[str], Callable[..., Any]]
EXPECTED = "custom_layer = {'TypeName': (('parameter', ...), lambda config, input_shape: output_shape)}"


def load_custom_layers(path: Path) -> dict[str, CustomLayer]:
    """Run the user's file and take its `custom_layer`. Raises UsageError."""
    where = Origin(str(path))
    write = f"write {EXPECTED}"
    if not path.is_file():
        problem = "there is no such file of custom layers"
        raise UsageError.of("DV115", problem, where, "check custom_layer in the ini file")
    try:
        layers = runpy.run_path(str(path)).get("custom_layer")
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        problem = f"the file of custom layers fails: {type(error).__name__}: {error}"
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = error.lineno if isinstance(error, SyntaxError) else next(reversed(lines), None)
        hint = f"`python {shlex.quote(str(path))}` must run without an error, in the same Python environment"
        raise UsageError.of("DV115", problem, Origin(str(path), line=line), hint) from error
    if not isinstance(layers, Mapping):
        raise UsageError.of("DV115", "the file defines no dictionary `custom_layer`", where, write)
    for name, entry in layers.items():
        match entry:
            case ([*params], function) if callable(function) and all(isinstance(p, str) for p in (name, *params)):
                pass
            case _:
                problem = f"the custom layer {name!r} is not (parameter names, function)"
                raise UsageError.of("DV115", problem, where, write)
    _refuse_twins("types of custom layers", layers, identifier, where)
    for name, (params, _) in layers.items():
        _refuse_twins(f"parameters of the custom layer {name!r}", params, member, where)
    return {name: (tuple(params), function) for name, (params, function) in layers.items()}


def _refuse_twins(what: str, names: Iterable[str], in_cpp: Callable[[str], str], where: Origin) -> None:
    first: dict[str, str] = {}
    for name in names:
        twin = first.setdefault(in_cpp(name), name)
        if twin != name:
            problem = f"the {what} {twin!r} and {name!r} have the same name in C++, {in_cpp(name)!r}"
            raise UsageError.of("DV115", problem, where, "rename one of them")


def read_custom(reading: KerasReading, layer: CustomLayer) -> Value:
    names, shape_function = layer
    parameters = tuple((name, _parameter(reading, name)) for name in names)
    shape = _output_shape(reading, shape_function)
    axes = reading.inputs[0].axes if reading.inputs else Axes.HWC
    if axes is not Axes.CHW:
        axes = Axes.C if axes is Axes.C and shape.is_vector else Axes.HWC
    name = reading.add(ops.Custom(reading.layer.type, parameters, shape), *(value.node for value in reading.inputs))
    return Value(name, axes)


def _parameter(reading: KerasReading, name: str) -> Parameter:
    config = reading.layer.config
    if name not in config:
        problem = f"the layer has no setting {name!r}, which the custom layer file names"
        raise UnsupportedError.of("DV303", problem, reading.origin, f"its settings are {', '.join(config)}")
    value = config[name]
    items = value if isinstance(value, list) else [value]
    for kind in (bool, int, float):
        if items and all(type(item) is kind for item in items):
            return tuple(items) if isinstance(value, list) else value
    problem = f"the parameter {name!r} is {value!r}, which cannot be passed to firmware"
    raise UnsupportedError.of("DV303", problem, reading.origin, "use an int, a bool, a float, or a list of one of them")


def _output_shape(reading: KerasReading, function: Callable[..., Any]) -> Shape:
    """Ask the user's function; its shapes are (width, height, channels), and several inputs come as a list."""
    shapes = [(s.width, s.height, s.channels) for s in (reading.builder.shape(value.node) for value in reading.inputs)]
    argument = shapes[0] if len(shapes) == 1 else shapes
    hint = "give (width, height, channels)"
    if len(shapes) > 1:
        hint += f". The layer has {len(shapes)} inputs, so the function gets a list of shapes: {shapes}"
    try:
        returned = function(dict(reading.layer.config), argument)
        sizes = [int(n) for n in returned]
    except Exception as error:  # the user's code may raise anything
        reason = f"the custom layer's shape function fails: {type(error).__name__}: {error}"
        raise UsageError.of("DV116", reason, reading.origin, hint) from error
    if len(sizes) == 1:
        sizes = [1, 1, *sizes]
    if len(sizes) != 3 or min(sizes) < 1:
        reason = f"the custom layer's shape function gives {returned!r}"
        raise UsageError.of("DV116", reason, reading.origin, hint)
    width, height, channels = sizes
    return Shape(height, width, channels)
