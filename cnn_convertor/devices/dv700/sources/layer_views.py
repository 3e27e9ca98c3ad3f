"""Layers and their commands, as rows of C++ and as a drawing for the templates."""

from collections.abc import Sequence
from typing import TypeAlias

from cnn_convertor.codegen.cpp import bool_literal, c_string
from cnn_convertor.codegen.custom_structs import dims_of, parameters
from cnn_convertor.codegen.description import shape_text
from cnn_convertor.codegen.kernels import kernel_view, maximizes
from cnn_convertor.devices.dv700.encode.registers import OUTPUT_ADDS, OUTPUT_CONCATENATES, TRANSPOSED, encode
from cnn_convertor.devices.dv700.runs import (
    Layer,
    PackedByCpu,
    PoolingKind,
    Program,
    Run,
    Weights,
    operand_of,
    topo_of,
)
from cnn_convertor.devices.program import CustomCall, ElementType, LayerType
from cnn_convertor.devices.words import describe
from cnn_convertor.errors import Origin
from cnn_convertor.escaping import identifier
from cnn_convertor.ir.ops import ONE

_LAYER_TITLES = {
    LayerType.INPUT: "network input",
    LayerType.CONV: "convolution block",
    LayerType.FLATTEN: "flatten to HWC order, on the CPU",
    LayerType.CONCAT: "concatenation, in place",
    LayerType.COPY_CONCAT: "concatenation, copied by the CPU",
    LayerType.SOFTMAX: "softmax in FP16, by the SDK on the CPU",
    LayerType.CUSTOM: "custom layer, on the CPU",
}
_HEX_DIGITS = {
    **dict.fromkeys(("conv_pad", "pool_pad"), 8),
    **dict.fromkeys(("p", "conv_stride", "conv_dilation", "pool_size", "pool_stride"), 4),
    **dict.fromkeys(("pool_avg_param", "actfunc_param"), 4),
}
Assignment: TypeAlias = tuple[str, object, str]  # field, value, comment
_COMMENT_COLUMN = 48  # fixed, so that a changed value moves no other line's comment


def layer_views(program: Program) -> list[dict[str, object]]:
    """Every layer, for the templates."""
    positions: dict[int, list[int]] = {}
    for position, output in enumerate(program.outputs):
        positions.setdefault(output, []).append(position)
    return [_layer_view(program, index, positions.get(index, [])) for index in range(len(program.layers))]


def _layer_view(program: Program, index: int, output_positions: list[int]) -> dict[str, object]:
    layer = program.layers[index]
    text = ", ".join(f"{shape_text(tensor)} at {tensor.offset}" for tensor in layer.inputs)
    return {
        "index": index,
        "name": c_string(layer.name),
        "type": layer.type.value,
        "title": layer_title(layer),
        "origins": _origin_texts(layer.origins),
        "flow": f"{text + ' -> ' if text else ''}{shape_text(layer.output)} at {layer.output.offset}",
        "input_text": ", ".join(shape_text(tensor) for tensor in layer.inputs),
        "output_text": shape_text(layer.output),
        "output_offset": layer.output.offset,
        "output_bytes": layer.output.nbytes,
        "command": _command_view(program, layer) if layer.runs else None,
        "rows": _lines("layer", layer_rows(layer)),
        "sources": layer.sources if layer.lists_sources else (),
        "custom": None if layer.custom is None else _custom_view(program, layer, layer.custom),
        "cpu": None if layer.cpu is None else kernel_view(program, layer),
        "maximizes": maximizes(layer),
        "output_positions": output_positions,
    }


def _custom_view(program: Program, layer: Layer, custom: CustomCall) -> dict[str, str]:
    name = identifier(custom.type)
    return {"identifier": name, "declaration": f"custom_param_{name} param = {{{parameters(program, layer, custom)}}}"}


def _origin_texts(origins: Sequence[Origin]) -> list[str]:
    return [f'"{origin.layer}" ({origin.type})' for origin in origins]


def layer_title(layer: Layer) -> str:
    return _LAYER_TITLES[layer.type] if layer.cpu is None else f"{describe(layer.cpu)}, on the CPU"


def _lines(owner: str, assignments: Sequence[Assignment]) -> list[str]:
    """Assignments as lines of code. owner: the C++ object that has the fields."""
    codes = ((f"{owner}.{field} = {value};", comment) for field, value, comment in assignments)
    return [f"{code:<{_COMMENT_COLUMN}}  // {comment}" if comment else code for code, comment in codes]


def layer_rows(layer: Layer) -> list[Assignment]:
    """What a layer's fields become, but for its name, its type and what belongs to the type."""
    first = layer.inputs[0] if layer.inputs else layer.output
    reads_nothing = layer.cpu is not None and not layer.inputs
    rows: list[Assignment] = [
        ("input_offs", 0 if reads_nothing else first.offset, "bytes"),
        ("output_offs", layer.output.offset, "bytes"),
        ("output_size", layer.output.nbytes, "bytes"),
    ]
    if layer.softmax is not None:
        rows += _dim_rows("input_dim", layer.softmax.dims, "")
    else:
        rows += _dim_rows("input_dim", () if reads_nothing else dims_of(first))
    rows += _dim_rows("output_dim", dims_of(layer.output))
    rows += [
        ("is_output", bool_literal(layer.is_output), ""),
        ("is_f32_output", bool_literal(layer.output.type is ElementType.FLOAT), ""),
        ("is_input_hw_layout", bool_literal(layer.from_device), ""),
    ]
    if layer.softmax is not None:
        rows.append(("softmax_axis", layer.softmax.axis, "of a row-major array"))
    return rows


def _dim_rows(field: str, dims: Sequence[int], names: str = "WHC") -> list[Assignment]:
    """Dimensions and their number. names: of three; one is the channels."""
    comments = names if len(dims) == len(names) else names[-1:] * len(dims) or [""] * len(dims)
    sizes = [(f"{field}[{i}]", dim, comment) for i, (dim, comment) in enumerate(zip(dims, comments, strict=True))]
    return [*sizes, (f"{field}_size", len(dims), "")]


def _command_view(program: Program, layer: Layer) -> dict[str, object]:
    """The command of a layer that runs on the device."""
    return {
        "rows": _lines("cmd", command_rows(program, layer)),
        "runs": [
            {"origins": _origin_texts(run.origins), "rows": _lines(f"cmd.run[{index}]", run_rows(run))}
            for index, run in enumerate(layer.runs)
        ],
    }


def command_rows(program: Program, layer: Layer) -> list[Assignment]:
    """What the fields of a command become, but for its runs."""
    first = layer.runs[0].input
    operand = operand_of(layer)
    adds = operand is not None
    return [
        ("topo", f"0x{topo_of(layer):08X}", "runs that write to external memory"),
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
        ("eltwise_buf.offs", 0 if operand is None else operand.offset, ""),
        ("output_mode", OUTPUT_ADDS if adds else OUTPUT_CONCATENATES, "adds eltwise_buf" if adds else ""),
    ]


def run_rows(run: Run) -> list[Assignment]:
    """What the fields of a run become."""
    comments = _run_comments(run)
    rows: list[Assignment] = []
    for field, value in encode(run)._asdict().items():
        if field == "weight_offs":
            memory = {type(None): "nullptr", Weights: "weights_mem_", PackedByCpu: "io_mem_"}
            rows.append(("weight_buf.mem", memory[type(run.weights)], ""))
            field = "weight_buf.offs"
        shown = f"0x{value:0{_HEX_DIGITS[field]}X}" if field in _HEX_DIGITS else value
        rows.append((field, shown, comments.get(field, "")))
    return rows


def _run_comments(run: Run) -> dict[str, str]:
    """Register -> its value in words."""
    comments = {"m": "output channels"}
    convolution, pooling = run.convolution, run.pooling
    if run.factors is not None:
        comments |= {
            "conv_enable": run.factors.kind.name.lower(),
            "p": f"kernel {ONE}",
            "weight_buf.offs": f"{run.factors.packed.nbytes} bytes, which the CPU writes",
            "weight_fmt": "FP16",
        }
    if convolution is not None:
        comments |= {
            "conv_enable": convolution.kind.name.lower().replace("_", " "),
            "p": f"kernel {convolution.kernel}",
            "weight_buf.offs": f"{convolution.weights.nbytes} bytes",
            "weight_fmt": "8-bit palette" if convolution.weights.packed.palette else "FP16",
            "conv_pad": "left {2}, right {3}, top {0}, bottom {1}".format(*convolution.padding),
            "conv_stride": str(convolution.stride),
            "conv_dilation": str(convolution.dilation),
        }
    if pooling is not None:
        comments |= {
            "pool_enable": pooling.kind.name.lower(),
            "pool_size": str(pooling.kernel),
            "pool_stride": str(pooling.stride),
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
