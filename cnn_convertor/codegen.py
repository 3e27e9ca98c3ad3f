"""Renders a program as the texts that firmware is built from; every value is final before this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2
import numpy as np
from numpy.typing import NDArray

from cnn_convertor import __version__, escaping
from cnn_convertor.calls import Argument, Call, call_of, title
from cnn_convertor.devices.dv700.encode.registers import OUTPUT_ADDS, OUTPUT_CONCATENATES, TRANSPOSED, encode, legend
from cnn_convertor.devices.dv700.memory.memory_layout import is_chunked
from cnn_convertor.devices.dv700.program import (
    CustomCall,
    ElementType,
    Layer,
    LayerType,
    PoolingKind,
    Program,
    Run,
    Tensor,
)
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.errors import Origin
from cnn_convertor.files import Contents
from cnn_convertor.ir.ops import Pair, Parameter

_LAYER_TITLES = {
    LayerType.INPUT: "network input",
    LayerType.CONV: "convolution block",
    LayerType.FLATTEN: "flatten to HWC order, on the CPU",
    LayerType.CONCAT: "concatenation, in place",
    LayerType.COPY_CONCAT: "concatenation, copied by the CPU",
    LayerType.SOFTMAX: "softmax in FP16, by the SDK on the CPU",
    LayerType.CUSTOM: "custom layer, on the CPU",
}
_HEX_FIELDS = {
    "p",
    "conv_pad",
    "conv_stride",
    "conv_dilation",
    "pool_size",
    "pool_stride",
    "pool_pad",
    "pool_avg_param",
}
_HEX_FIELDS |= {"actfunc_param"}
_MOST_EXPECTED_IN_SOURCE = 1024  # values; more go to a file of their own


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Which texts to render. model: the file name to name in them; python_module: empty for none."""

    model: str
    source: bool = True
    doxygen: bool = False
    dot: bool = False
    python_module: str = ""
    graphviz_path: str = ""


def render(program: Program, options: RenderOptions) -> dict[str, str]:
    """File name -> contents, for all texts of the options. The same program gives the same texts."""
    values = {
        "made_by": _made_by(options.model),
        "name": program.name,
        "class_name": class_name(program),
        "header_name": f"{program.name}_gen.h",
        "description": description(program),
        "transposed": program.transposed,
        "weight_bytes": program.weight_bytes,
        "io_bytes": program.io_bytes,
        "layers": [_layer(program, index) for index in range(len(program.layers))],
        "outputs": program.outputs,
        "output_constants": _output_constants(program),
        "legend": legend(),
        "inputs": [
            _TensorView(tensor.offset, tensor.nbytes, f'"{name}" {_shape(tensor)}') for name, tensor in program.inputs
        ],
        "customs": _customs(program),
        "module": options.python_module,
        "graphviz_path": options.graphviz_path,
        "has_dot": options.dot,
        "calls": frozenset().union(*(call_of(layer.cpu).names for layer in program.layers if layer.cpu is not None)),
    }
    files: dict[str, str] = {}
    if options.source:
        files[f"{program.name}_gen.h"] = _render("network.h.j2", values)
        files[f"{program.name}_gen.cpp"] = _render("network.cpp.j2", values)
        if values["calls"]:
            files[f"{program.name}_cpu.h"] = _render("network_cpu.h.j2", values)
    if options.dot:
        files[f"{program.name}.dot"] = _render("network.dot.j2", {**values, **_drawing(program)})
    if options.doxygen:
        files["doc/Doxyfile"] = _render("Doxyfile.j2", values)
        files["doc/pages.dox"] = _render("pages.dox.j2", values)
    if options.python_module:
        files[f"{options.python_module}.cpp"] = _render("python_module.cpp.j2", values)
    return files


def emit(program: Program, options: RenderOptions) -> dict[str, Contents]:
    """File name -> contents of everything that runs a program: its texts and its packed weights.

    Raises ConvertorError while the weights are read when some cannot be packed.
    """
    weights = encode_all(program.weights, transposed=program.transposed)
    return {**render(program, options), f"{program.name}_weights.bin": weights}


def render_selftest(
    program: Program,
    *,
    model: str,
    levels: NDArray[np.uint16],
    generator: tuple[int, int],
    outputs: Sequence[NDArray[np.float32]],
) -> dict[str, str | list[NDArray[np.uint8]]]:
    """The source of a test of the generated network, and the file of its expected outputs where they are many.

    levels: FP16 bits of the values that the input is made of. generator: multiplier and increment of what draws them.
    outputs: what the network must give, each as it lies in memory.
    """
    expected = np.concatenate(outputs).astype("<f4")
    in_source = expected.size <= _MOST_EXPECTED_IN_SOURCE
    values = {
        "made_by": _made_by(model),
        "name": program.name,
        "class_name": class_name(program),
        "header_name": f"{program.name}_gen.h",
        "inputs": [{"offset": tensor.offset, "elements": tensor.shape.size} for _, tensor in program.inputs],
        "levels": [f"0x{level:04X}" for level in levels],
        "multiplier": generator[0],
        "increment": generator[1],
        "output_sizes": [output.size for output in outputs],
        "in_source": in_source,
        "expected": [_literal("float", value) for value in expected.tolist()] if in_source else [],
        "min_sqnr": 40,
    }
    files: dict[str, str | list[NDArray[np.uint8]]] = {
        f"{program.name}_selftest.cpp": _render("selftest.cpp.j2", values)
    }
    if not in_source:
        files[f"{program.name}_selftest.bin"] = [expected.view(np.uint8)]
    return files


def class_name(program: Program) -> str:
    """The C++ class. The name of a network may begin with a digit; with the C it is an identifier."""
    return f"C{program.name}"


def _made_by(model: str) -> str:
    return f"made by cnn-convertor {__version__} from {escaping.comment(model)}, do not edit"


def _render(template: str, values: dict[str, object]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> jinja2.Environment:
    """Templates lie in the package when it is installed, beside it in a checkout."""
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([here / "templates", here.parent / "templates"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for filter in (escaping.comment, escaping.text, escaping.dot, escaping.doxygen):
        environment.filters[filter.__name__] = filter
    return environment


# --- what the network needs and gives, in words --------------------------------------------------------------------------


def description(program: Program) -> list[str]:
    """What an application must know: where inputs go, what outputs hold, how much memory there is."""
    order = "H, W, C" if program.transposed else "W, H, C"
    lines = [f"{program.name}: {program.weight_bytes} bytes of weights, {program.io_bytes} bytes of I/O memory."]
    for name, tensor in program.inputs:
        lines.append(
            f'Input "{name}": {_shape(tensor)} FP16 at offset {tensor.offset}, in the order {_order(tensor, order)}.'
        )
    for position, (index, (name, tensor)) in enumerate(zip(program.outputs, program.results, strict=True)):
        layer = program.layers[index]
        if layer.type is LayerType.FLATTEN:  # what was flattened tells more than the length of the vector
            lines.append(f'Output {position} "{name}": {_shape(layer.inputs[0])}, in the order H, W, C.')
        else:
            lines.append(f'Output {position} "{name}": {_shape(tensor)}{_output_order(tensor, order)}.')
    return lines


def _order(tensor: Tensor, order: str) -> str:
    if tensor.shape.is_vector:
        return "C"
    return f"{order}, in chunks of 8 channels" if is_chunked(tensor.shape) else order


def _output_order(tensor: Tensor, order: str) -> str:
    if tensor.shape.is_vector:
        return ""
    if tensor.is_plain:
        return ", in the order H, W, C"
    return f", in the order {_order(tensor, order)}"


def _shape(tensor: Tensor) -> str:
    """W x H x C, as the SDK counts; a vector is its length."""
    height, width, channels = tensor.shape
    return str(channels) if tensor.shape.is_vector else f"{width}x{height}x{channels}"


def _output_constants(program: Program) -> list[tuple[str, int, str]]:
    """The C++ constant, index and name of each output."""
    taken: dict[str, None] = {}
    for name, _ in program.results:
        constant = f"kOutput_{_identifier(name)}"
        while constant in taken:
            constant += "_"
        taken[constant] = None
    return [(constant, i, name) for i, (constant, (name, _)) in enumerate(zip(taken, program.results, strict=True))]


# --- layers --------------------------------------------------------------------------------------------------------------


class _TensorView(NamedTuple):
    offset: int
    nbytes: int
    text: str


_COMMENT_COLUMN = 48  # fixed, so that a changed value moves no other line's comment


def _rows(owner: str, assignments: Sequence[tuple[str, object, str]]) -> list[str]:
    """(field, value, comment) -> lines of code. owner: the C++ object that has the fields."""
    codes = ((f"{owner}.{field} = {value};", comment) for field, value, comment in assignments)
    return [f"{code:<{_COMMENT_COLUMN}}  // {comment}" if comment else code for code, comment in codes]


def _layer(program: Program, index: int) -> dict[str, object]:
    """What the templates must know of one layer."""
    layer = program.layers[index]
    first = layer.inputs[0] if layer.inputs else layer.output
    text = ", ".join(f"{_shape(tensor)} at {tensor.offset}" for tensor in layer.inputs)
    return {
        "index": index,
        "name": layer.name,
        "type": layer.type.value,
        "title": _title(layer),
        "origins": _origins(layer.origins),
        "flow": f"{text + ' -> ' if text else ''}{_shape(layer.output)} at {layer.output.offset}",
        "input_text": " ".join(_shape(tensor) for tensor in layer.inputs),
        "output_text": _shape(layer.output),
        "command": _command(program, layer) if layer.runs else None,
        "rows": _layer_rows(layer, first),
        "sources": layer.sources if layer.lists_sources else (),
        "custom": None
        if layer.custom is None
        else {
            "identifier": _identifier(layer.custom.type),
            "declaration": f"custom_param_{_identifier(layer.custom.type)} param = "
            f"{{{_parameters(program, layer, layer.custom)}}}",
        },
        "cpu": None if layer.cpu is None else _cpu_call(layer, call_of(layer.cpu)),
        "output_positions": [position for position, output in enumerate(program.outputs) if output == index],
    }


def _origins(origins: Sequence[Origin]) -> list[str]:
    return [f'"{origin.layer}" ({origin.type})' for origin in origins]


def _title(layer: Layer) -> str:
    return _LAYER_TITLES[layer.type] if layer.cpu is None else f"{title(layer.cpu)}, on the CPU"


def _layer_rows(layer: Layer, first: Tensor) -> list[str]:
    reads_nothing = layer.cpu is not None and not layer.inputs
    rows: list[tuple[str, object, str]] = [
        ("input_offs", 0 if reads_nothing else first.offset, "bytes"),
        ("output_offs", layer.output.offset, "bytes"),
        ("output_size", layer.output.nbytes, "bytes"),
    ]
    if layer.softmax is not None:
        rows += _dim_rows("input_dim", layer.softmax.dims, "")
    else:
        rows += _dim_rows("input_dim", () if reads_nothing else _dims(first))
    rows += _dim_rows("output_dim", _dims(layer.output))
    rows += [
        ("is_output", _bool(layer.is_output), ""),
        ("is_f32_output", _bool(layer.output.type is ElementType.FLOAT), ""),
        ("is_input_hw_layout", _bool(layer.from_device), ""),
    ]
    if layer.softmax is not None:
        rows.append(("softmax_axis", layer.softmax.axis, "of a row-major array"))
    return _rows("layer", rows)


def _dim_rows(field: str, dims: Sequence[int], names: str = "WHC") -> list[tuple[str, object, str]]:
    """Dimensions and their number. names: of three; one is the channels."""
    comments = names if len(dims) == len(names) else names[-1:] * len(dims) or [""] * len(dims)
    sizes = [(f"{field}[{i}]", dim, comment) for i, (dim, comment) in enumerate(zip(dims, comments, strict=True))]
    return [*sizes, (f"{field}_size", len(dims), "")]


def _dims(tensor: Tensor) -> tuple[int, ...]:
    height, width, channels = tensor.shape
    return (channels,) if tensor.shape.is_vector else (width, height, channels)


def _bool(value: bool) -> str:
    return "true" if value else "false"


# --- commands ------------------------------------------------------------------------------------------------------------


def _command(program: Program, layer: Layer) -> dict[str, object]:
    """The command of a layer that runs on the device."""
    first = layer.runs[0].input
    adds = len(layer.inputs) > 1
    rows: list[tuple[str, object, str]] = [
        ("topo", f"0x{layer.topo:08X}", "runs that write to external memory"),
        ("w", first.width, ""),
        ("h", first.height, ""),
        ("z", 1, ""),
        ("c", first.channels, ""),
        ("input_circular_offset", f"0x{TRANSPOSED if program.transposed else 0:04X}", "0x8000: maps lie in HWC order"),
        ("input_buf.mem", "io_mem_", ""),
        ("input_buf.offs", layer.inputs[0].offset, ""),
        ("output_buf.mem", "io_mem_", ""),
        ("output_buf.offs", layer.output.offset, ""),
        ("eltwise_buf.mem", "io_mem_" if adds else "nullptr", ""),
        ("eltwise_buf.offs", layer.inputs[1].offset if adds else 0, ""),
        ("output_mode", OUTPUT_ADDS if adds else OUTPUT_CONCATENATES, "adds eltwise_buf" if adds else ""),
    ]
    return {
        "rows": _rows("cmd", rows),
        "runs": [
            {"origins": _origins(run.origins), "rows": _run_rows(f"cmd.run[{index}]", run)}
            for index, run in enumerate(layer.runs)
        ],
    }


def _run_rows(owner: str, run: Run) -> list[str]:
    comments = _run_comments(run)
    rows: list[tuple[str, object, str]] = []
    for field, value in encode(run)._asdict().items():
        if field == "weight_offs":
            rows.append(("weight_buf.mem", "nullptr" if run.convolution is None else "weights_mem_", ""))
            field = "weight_buf.offs"
        wide = field in {"conv_pad", "pool_pad"}
        shown = f"0x{value:0{8 if wide else 4}X}" if field in _HEX_FIELDS else value
        rows.append((field, shown, comments.get(field, "")))
    return _rows(owner, rows)


def _run_comments(run: Run) -> dict[str, str]:
    """What the registers say, in words."""
    comments = {"m": "output channels"}
    convolution, pooling = run.convolution, run.pooling
    if convolution is not None:
        comments |= {
            "conv_enable": convolution.kind.name.lower().replace("_", " "),
            "p": f"kernel {_by(convolution.kernel)} (width x height)",
            "weight_buf.offs": f"{convolution.weights.nbytes} bytes",
            "weight_fmt": "8-bit palette" if convolution.weights.packed.palette else "FP16",
            "conv_pad": "left {2}, right {3}, top {0}, bottom {1}".format(*convolution.padding),
            "conv_stride": _by(convolution.stride),
            "conv_dilation": _by(convolution.dilation),
        }
    if pooling is not None:
        comments |= {
            "pool_enable": pooling.kind.name.lower(),
            "pool_size": f"{_by(pooling.kernel)} (width x height)",
            "pool_stride": _by(pooling.stride),
            "pool_pad": "left {2}, right {3}, top {0}, bottom {1}".format(*pooling.padding),
        }
        if pooling.kind is PoolingKind.AVERAGE:
            comments["pool_avg_param"] = f"{pooling.factor:.7g}"
    if run.activation is not None:
        comments["actfunc"] = type(run.activation).__name__
        slope = getattr(run.activation, "slope", 0.0)
        if slope:
            comments["actfunc_param"] = f"slope {slope:.7g}"
    return comments


def _by(pair: Pair) -> str:
    return f"{pair.width}x{pair.height}"


# --- layers on the CPU whose source is generated -------------------------------------------------------------------------

_TAKES_A_LIST = {"Concat"}  # functions of any number of maps


def _cpu_call(layer: Layer, call: Call) -> dict[str, object]:
    """The maps that a function on the CPU works on, and its call."""
    names = ["x"] if len(layer.inputs) == 1 else [f"x{position}" for position in range(len(layer.inputs))]
    maps = [f"{{{', '.join(names)}}}"] if call.function in _TAKES_A_LIST else names
    arguments = map(_argument, call.arguments)
    return {
        "tensors": [
            f"{name}(io, {tensor.offset}, {', '.join(map(str, tensor.shape))}, {_format(tensor)})"
            for name, tensor in zip((*names, "y"), (*layer.inputs, layer.output), strict=True)
        ],
        "call": f"{call.function}({', '.join((*maps, 'y', *arguments))})",
    }


def _format(tensor: Tensor) -> str:
    """The C++ name of how a map lies in memory."""
    if tensor.type is ElementType.HALF:
        return "kHalf"
    return "kFloatPlain" if tensor.is_plain else "kFloat"


def _argument(value: Argument) -> str:
    match value:
        case Call(function=function, arguments=arguments):
            return f"{function}{{{', '.join(map(_argument, arguments))}}}"
        case tuple():
            return f"{{{', '.join([_argument(item) for item in value])}}}"
        case bool():
            return _literal("bool", value)
        case int():
            return _literal("int", value)
        case float():
            return _literal("float", value)
        case str():
            return value


# --- custom layers -------------------------------------------------------------------------------------------------------


class _Field(NamedTuple):
    """A member of a parameter struct, wide enough for its value in every layer. length: None for a single value."""

    name: str
    kind: str
    length: int | None

    @property
    def declaration(self) -> str:
        return f"{self.kind} {self.name}" if self.length is None else f"{self.kind} {self.name}[{self.length}]"

    def literal(self, value: Parameter) -> str:
        """The value as an initializer of the member."""
        items = [_literal(self.kind, item) for item in _items(value)]
        return items[0] if self.length is None else f"{{{', '.join(items)}}}"


def _customs(program: Program) -> list[dict[str, object]]:
    """The custom types in the network, each with the members of its struct."""
    types = dict.fromkeys(layer.custom.type for layer in program.layers if layer.custom is not None)
    return [
        {
            "type": t,
            "identifier": _identifier(t),
            "fields": list(_fields(program, t).values()),
            "inputs": _listed_inputs(program, t),
        }
        for t in types
    ]


def _listed_inputs(program: Program, custom_type: str) -> int:
    """How many inputs the struct of a custom type lists: the most that a layer of the type reads, 0 if each reads one."""
    layers = (layer for layer in program.layers if layer.custom is not None and layer.custom.type == custom_type)
    most = max(len(layer.inputs) for layer in layers)
    return most if most > 1 else 0


def _input_literal(tensor: Tensor) -> str:
    """The initializer of an entry of `inputs`: offset, dim, dim_size, is_f32, is_hwc."""
    dims = _dims(tensor)
    is_f32 = _bool(tensor.type is ElementType.FLOAT)
    return f"{{{tensor.offset}, {{{', '.join(map(str, dims))}}}, {len(dims)}, {is_f32}, {_bool(tensor.is_plain)}}}"


def _fields(program: Program, custom_type: str) -> dict[str, _Field]:
    """Parameter name -> member, in the order in which the layers name them; lists are as long as the longest."""
    values: dict[str, list[Parameter]] = {}
    for layer in program.layers:
        if layer.custom is not None and layer.custom.type == custom_type:
            for name, value in layer.custom.parameters:
                values.setdefault(name, []).append(value)
    fields = {}
    for name, found in values.items():
        items = [item for value in found for item in _items(value)]
        kind = next(k for k, types in _KINDS.items() if all(isinstance(item, types) for item in items))
        is_list = any(isinstance(value, tuple) for value in found)
        fields[name] = _Field(_member(name), kind, max(1, *(len(_items(v)) for v in found)) if is_list else None)
    return fields


_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (bool, int),
    "float": (bool, int, float),
}  # narrowest first


def _items(value: Parameter) -> tuple[bool | int | float, ...]:
    return value if isinstance(value, tuple) else (value,)


def _identifier(name: str) -> str:
    """The name, for a part of an identifier."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


def _member(name: str) -> str:
    """The name as an identifier."""
    word = _identifier(name)
    taken = word in escaping.CPP_KEYWORDS or word == "inputs"  # every struct may list its inputs
    return f"_{word}" if not word or word[0].isdigit() else f"{word}_" if taken else word


def _literal(kind: str, value: bool | int | float) -> str:
    if kind == "bool":
        return _bool(bool(value))
    if kind == "int":
        return str(int(value))
    with np.errstate(over="ignore"):
        text = str(np.float32(value))
    return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(text, f"{text}f")


def _parameters(program: Program, layer: Layer, custom: CustomCall) -> str:
    """The initializer of a layer's parameter struct; what the layer does not have is zero."""
    values = dict(custom.parameters)
    fields = _fields(program, custom.type)
    items = [field.literal(values[name]) if name in values else "{}" for name, field in fields.items()]
    if _listed_inputs(program, custom.type):
        items.append(f"{{{', '.join(map(_input_literal, layer.inputs))}}}")
    return ", ".join(items)


# --- drawing -------------------------------------------------------------------------------------------------------------

_COLORS = {LayerType.CONV: '"#cfe8ff"', LayerType.INPUT: '"#e8e8e8"', LayerType.CONCAT: '"#f4f4f4"'}
_CPU_COLOR = '"#ffe3c4"'


def _drawing(program: Program) -> dict[str, object]:
    """Nodes and edges; inputs that are no layers get a node, too."""
    nodes: list[dict[str, str]] = []
    edges: list[dict[str, str]] = []
    inputs = {tensor.offset: f"input_{position}" for position, (_, tensor) in enumerate(program.inputs)}
    if not any(layer.type is LayerType.INPUT for layer in program.layers):
        for name, tensor in program.inputs:
            color = _COLORS[LayerType.INPUT]
            nodes.append({"id": inputs[tensor.offset], "label": f"{name}\n{_shape(tensor)}", "color": color})
    for index, layer in enumerate(program.layers):
        names = [origin.layer for origin in layer.origins] or [layer.name]
        label = "\n".join([f"{index}: {_title(layer)}", *dict.fromkeys(names), _shape(layer.output)])
        nodes.append({"id": f"layer_{index}", "label": label, "color": _COLORS.get(layer.type, _CPU_COLOR)})
        for tensor, source in zip(layer.inputs, layer.sources, strict=True):
            start = inputs[tensor.offset] if source is None else f"layer_{source}"
            edges.append({"source": start, "target": f"layer_{index}", "label": _shape(tensor)})
    return {"nodes": nodes, "edges": edges}
