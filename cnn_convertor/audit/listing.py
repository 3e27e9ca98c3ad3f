"""Lists the layers and commands of a network as text."""

from collections.abc import Iterator

from cnn_convertor.audit.command_checks import half
from cnn_convertor.audit.decoding import (
    AVERAGE_POOL,
    MAX_POOL,
    PALETTE,
    UPSAMPLE,
    Meaning,
    RegisterPair,
    Sides,
    meanings,
    operand_of,
)
from cnn_convertor.audit.flow import Flow
from cnn_convertor.audit.source_network import Map, SourceLayer, SourceNetwork
from cnn_convertor.audit.weight_checks import stream_of

_KINDS = {1: "conv", 3: "depthwise", 5: "deconv", 7: "depthwise deconv"}
_ACTIVATIONS = {1: "tanh", 3: "sigmoid", 4: "PReLU", 5: "ELU", 6: "ReLU6"}


def listing(network: SourceNetwork, flow: Flow) -> str:
    """A line for each layer, a line for each of its runs, and totals."""
    order = "HWC" if network.transposed else "WHC"
    lines = [
        f"{network.name}: {len(network.layers)} layers, maps in {order} order; sizes are height x width x channels"
    ]
    commands = macs = 0
    for layer in network.layers:
        lines.append(_layer(layer))
        if layer.is_on_device and layer.command is not None:
            commands += 1
            macs += sum(max(meaning.macs, 0) for meaning in meanings(layer.command))
            lines += [f"       {line}" for line in _runs(layer)]
    names = {layer.index: _quoted(layer.name) for layer in network.layers}
    outputs = ", ".join("nothing" if index is None else names.get(index, "nothing") for index in network.outputs)
    lines += [
        f"outputs: {outputs or 'none'}",
        f"commands: {commands}",
        f"multiply-accumulates: {macs:,}",
        f"weights: {network.weight_bytes:,} bytes",
        f"I/O memory: {network.io_bytes:,} bytes, at most {flow.peak:,} in use at a time",
    ]
    return "\n".join(lines) + "\n"


def _layer(layer: SourceLayer) -> str:
    """index, type, name, input -> output, bytes"""
    output = _at(layer.output_map, layer.output_offs)
    flow = f"{_at(layer.input_map, layer.input_offs)} -> {output}"
    if layer.type == "LT_INPUT":
        flow = output
    elif layer.sources:
        flow = f"layers {', '.join('?' if i is None else str(i) for i in layer.sources)} -> {output}"
    kind = " FP32" if layer.is_f32_output else ""
    return f"{layer.index:4}  {layer.type.removeprefix('LT_').lower()} {_quoted(layer.name)}: {flow}, {layer.output_size} bytes{kind}"


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _at(map: Map | None, offset: int) -> str:
    return f"{map or '?'}@{offset}"


def _runs(layer: SourceLayer) -> Iterator[str]:
    command = layer.command
    assert command is not None
    several = len(command.runs) > 1
    for meaning in meanings(command):
        parts = [
            part
            for part in (
                _convolution(meaning, transposed=command.is_transposed),
                *_pools(meaning),
                _activation(meaning),
            )
            if part
        ]
        operand = operand_of(command) if meaning.adds else None
        if operand is not None:
            parts.insert(1, f"add {operand}@{command.operand.offs}")
        prefix = (
            f"run {meaning.index}, to {'memory' if meaning.is_external else 'the unified buffer'}: " if several else ""
        )
        yield prefix + (", ".join(parts) or "nothing")


def _convolution(meaning: Meaning, *, transposed: bool) -> str:
    run, window = meaning.run, meaning.convolution
    if window is None:
        return ""
    stride = window.spread if meaning.is_deconvolution else window.stride
    words = [_KINDS.get(run.conv_enable, f"conv_enable {run.conv_enable}"), str(window.size)]
    words += [f"s{_short(stride)}", *_pad(window.pad)]
    if window.is_dilated:
        words.append(f"d{_short(window.dilation)}")
    stream = stream_of(meaning, transposed=transposed)
    words += [
        f"{meaning.input.channels}->{run.m}",
        "8-bit palette" if run.weight_fmt == PALETTE else "FP16",
        f"@{run.weight_offs}",
    ]
    return " ".join(words) + (f" {stream.nbytes} bytes" if stream else "")


def _pools(meaning: Meaning) -> Iterator[str]:
    run, window = meaning.run, meaning.pool
    if run.pool_enable == UPSAMPLE:
        yield "upsample 2x2"
    elif window is not None:
        name = {MAX_POOL: "max pool", AVERAGE_POOL: "average pool"}[run.pool_enable]
        words = [name, str(window.size), f"s{_short(window.stride)}", *_pad(window.pad)]
        if run.pool_enable == AVERAGE_POOL:
            words.append(f"factor {half(run.pool_avg_param):.4g}")
        yield " ".join(words)


def _activation(meaning: Meaning) -> str:
    run = meaning.run
    words = _ACTIVATIONS.get(run.actfunc, "" if run.actfunc == 0 else f"actfunc {run.actfunc}")
    if run.actfunc == 2:
        slope = half(run.actfunc_param)
        words = f"leaky ReLU {slope:.4g}" if slope else "ReLU"
    return f"{words}, absolute value".removeprefix(", ") if run.rectifi_en else words


def _short(pair: RegisterPair) -> str:
    """One number when both are equal."""
    return str(pair.x) if pair.x == pair.y else str(pair)


def _pad(pad: Sides) -> list[str]:
    if not any(pad):
        return []
    if len(set(pad)) == 1:
        return [f"p{pad.left}"]
    return [f"pad left {pad.left} right {pad.right} top {pad.top} bottom {pad.bottom}"]
