"""Writes sources in the conventions of the vendor's convertor: its order of fields, its flags, its layer types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

Dims = tuple[int, ...]  # width, height, channels; or channels alone
RELU, PRELU = 2, 4
MAX, AVERAGE = 1, 2


class Run(NamedTuple):
    """weights: their offset in bytes. palette: 8-bit weights."""

    m: int
    p: int = 0
    weights: int = 0
    palette: bool = False
    pad: int = 0
    stride: int = 0x101
    pool: int = 0
    pool_size: int = 0
    pool_stride: int = 0x101
    factor: int = 0
    act: int = 0


class Layer(NamedTuple):
    """lines: the statements of the layer's type. hw: is_input_hw_layout. output: the index in output_layers_.

    name: empty where the source sets none, as those of early 2019.
    """

    type: str
    name: str
    input: tuple[int, Dims]
    made: tuple[int, Dims]
    hw: bool
    command: Sequence[str] = ()
    lines: Sequence[str] = ()
    is_float: bool = False
    output: int | None = None


def conv(
    name: str,
    input: tuple[int, Dims],
    made: tuple[int, Dims],
    *runs: Run,
    hw: bool = True,
    topo: int = 1,
    add: int | None = None,
    order: int = 0,
    version: int = 1,
    output: int | None = None,
) -> Layer:
    """A layer of the convolution block. add: the offset of the map that it adds."""
    conf = "get_layer({index}).conv_conf" + "_v1" * version
    lines = [f"dmp_dv_cmdraw_conv_v{version}& conf = {conf};", "conf.header.size = sizeof(conf);"]
    lines += ["conf.header.device_type = DMP_DV_DEV_CONV;", f"conf.header.version = {version};"]
    cmd = "conf"
    if version == 1:
        cmd = "cmd"
        lines += ["dmp_dv_cmdraw_conv_v0& cmd = conf.conv_cmd;", "cmd.header.size = sizeof(cmd);"]
        lines += ["cmd.header.device_type = DMP_DV_DEV_CONV;", "cmd.header.version = 0;"]
    w, h, c = (1, 1, *input[1])[-3:]
    lines += [f"{cmd}.topo = 0x{topo:x};  // [31:0] Output Destination of each run, 0 = UBUF, 1 = EXTMEM"]
    lines += [f"{cmd}.{field} = {value};" for field, value in {"w": w, "h": h, "z": 1, "c": c}.items()]
    lines += [f"{cmd}.input_circular_offset = 0x{order:x};"]
    lines += [f"{cmd}.input_buf.mem = io_mem_;", f"{cmd}.input_buf.offs = {input[0]};"]
    lines += [f"{cmd}.output_buf.mem = io_mem_;", f"{cmd}.output_buf.offs = {made[0]};"]
    lines += [
        f"{cmd}.eltwise_buf.mem = {'NULL' if add is None else 'io_mem_'};",
        f"{cmd}.eltwise_buf.offs = {add or 0};",
    ]
    lines += [f"{cmd}.output_mode = {int(add is not None)};  // 0 = concat, 1 = eltwise add"]
    for index, run in enumerate(runs):
        lines += [f"{cmd}.run[{index}].{field} = {value};" for field, value in _registers(run).items()]
    return Layer("LT_CONV", name, input, made, hw, lines, output=output)


def _registers(run: Run) -> dict[str, str]:
    numbers = {"m": run.m, "conv_enable": int(run.p > 0), "p": run.p, "pz": 1}
    memory = {"weight_buf.mem": "weights_mem_" if run.p else "NULL", "weight_buf.offs": str(run.weights)}
    rest = {
        "weight_fmt": (3 if run.palette else 1) if run.p else 0, "conv_pad": run.pad, "conv_stride": run.stride,
        "conv_dilation": 0, "pool_enable": run.pool, "pool_size": run.pool_size, "pool_stride": run.pool_stride,
        "pool_pad": 0, "pool_avg_param": run.factor, "actfunc": run.act, "actfunc_param": 0, "rectifi_en": 0, "lrn": 0,
    }  # fmt: skip
    return {k: hex(v) for k, v in numbers.items()} | memory | {k: hex(v) for k, v in rest.items()}


def weight_bytes(m: int, c: int, p: int, *, palette: bool = False, prelu: bool = False) -> int:
    """Bytes of packed weights: section 4 of the device's specification, for square kernels without dilation."""
    tiles = {7: c, 5: -(-c // 2), 3: -(-c // 8), 1: -(-c // 64)}[p | 1]
    data = -(-m // 8) * (32 if prelu else 16) + 72 * (1 if palette else 2) * m * tiles
    return 512 * palette + -(-data // 16) * 16


def flatten(name: str, input: tuple[int, Dims], made: int, output: int | None = None) -> Layer:
    return Layer("LT_FLATTEN", name, input, (made, (prod(input[1]),)), hw=True, output=output)


def concat(name: str, made: tuple[int, Dims]) -> Layer:
    """The runtime does nothing; the layer names no inputs."""
    return Layer("LT_CONCAT", name, made, made, hw=True)


def copy_concat(name: str, input: tuple[int, Dims], made: tuple[int, Dims], inputs: Sequence[int]) -> Layer:
    array = ", ".join(f"&layers_[{index}]" for index in inputs)
    lines = [f"static fpga_layer *input_layers[] = {{ {array} }};", f"layer.input_layer_num = {len(inputs)};"]
    return Layer("LT_COPY_CONCAT", name, input, made, True, (), [*lines, "layer.input_layers = input_layers;"])


def softmax(
    name: str, input: tuple[int, Dims], made: tuple[int, Dims], axis: int, *, hw: bool = True, output: int | None = None
) -> Layer:
    return Layer("LT_SOFTMAX", name, input, made, hw, (), [f"layer.softmax_axis = {axis};"], output=output)


def custom(name: str, kind: str, input: tuple[int, Dims], made: tuple[int, Dims], output: int | None = None) -> Layer:
    lines = [f"static custom_param_{kind} custom_param;", "custom_param.scale = 0.5f;"]
    lines += [f"layer.custom_proc_ptr = &custom_callback_{kind};", "layer.custom_param = &custom_param;"]
    return Layer("LT_CUSTOM", name, input, made, True, (), lines, is_float=True, output=output)


def source(name: str, layers: Sequence[Layer], *, weights: int, io: int, transposed: bool = False) -> str:
    """The text of NAME_gen.cpp."""
    calls = "".join(f"  Layer_{index}();\n" for index in range(len(layers)))
    outputs = sum(layer.output is not None for layer in layers)
    start = f"""\
/*
 *  Generated by a convertor in the vendor's conventions. (C) nobody
 */
#include "{name}_gen.h"


C{name}::C{name}() {{

}}

C{name}::~C{name}() {{

}}

bool C{name}::Initialize() {{
{"  is_weight_transposed = true;" if transposed else ""}
  if (!ReserveMemory({weights}, {io})) {{
    return false;
  }}

  set_num_layers({len(layers)});
  set_num_output_layers({outputs});

{calls}
  return true;
}}
"""
    return start + "".join(f"\n{_function(name, index, layer)}" for index, layer in enumerate(layers))


def _function(name: str, index: int, layer: Layer) -> str:
    size = prod(layer.made[1]) * (4 if layer.is_float else 2)
    lines = [*(line.format(index=index) for line in layer.command), f"fpga_layer& layer = get_layer({index});"]
    lines += [f'layer.name = "{layer.name}";'] * bool(layer.name)
    lines += [f"layer.type = {layer.type};", f"layer.input_offs = {layer.input[0]};"]
    lines += [f"layer.output_offs = {layer.made[0]};", f"layer.output_size = {size};"]
    for field, dims in {"input": layer.input[1], "output": layer.made[1]}.items():
        lines += [f"layer.{field}_dim[{i}] = {dim};" for i, dim in enumerate(dims)]
        lines += [f"layer.{field}_dim_size = {len(dims)};"]
    flags = {"output": layer.output is not None, "f32_output": layer.is_float, "input_hw_layout": layer.hw}
    lines += [f"layer.is_{flag} = {str(value).lower()};" for flag, value in flags.items()]
    lines += layer.lines
    if layer.output is not None:
        lines += [f"output_layers_[{layer.output}] = &layer;"]
    body = "".join(f"  {line}\n" for line in lines)
    return f"//Layer_{index}\n//  ->: {layer.name}\nvoid C{name}::Layer_{index}() {{\n{body}}}//end of  Layer_{index}\n"


def pooled(run: Run) -> Run:
    """With a maximum pool of 2x2 behind it."""
    return run._replace(pool=MAX, pool_size=0x202, pool_stride=0x202)


def twelve_net(*, axis: int = 2, hw: bool = True, made: int = 2) -> str:
    """A face detector's first network: two outputs, one of them a softmax over a map of 2 channels."""
    sizes = [
        weight_bytes(10, 3, 3, prelu=True),
        weight_bytes(16, 10, 3, prelu=True),
        weight_bytes(32, 16, 3, prelu=True),
    ]
    sizes += [weight_bytes(made, 32, 1), weight_bytes(4, 32, 1)]
    at = [sum(sizes[:i]) for i in range(6)]
    place = [0, 225792, 410064, 692688, 1233680, 1500000, 1800000]
    layers = [
        conv(
            "pool1",
            (place[0], (168, 224, 3)),
            (place[1], (83, 111, 10)),
            pooled(Run(10, 3, at[0], act=PRELU)),
            hw=False,
        ),
        conv("PReLU2", (place[1], (83, 111, 10)), (place[2], (81, 109, 16)), Run(16, 3, at[1], act=PRELU)),
        conv("PReLU3", (place[2], (81, 109, 16)), (place[3], (79, 107, 32)), Run(32, 3, at[2], act=PRELU)),
        conv("conv4-1", (place[3], (79, 107, 32)), (place[4], (79, 107, made)), Run(made, 1, at[3])),
        softmax("prob1", (place[4], (79, 107, made)), (place[5], (79, 107, made)), axis, hw=hw, output=0),
        conv("conv4-2", (place[3], (79, 107, 32)), (place[6], (79, 107, 4)), Run(4, 1, at[4]), output=1),
    ]
    return source("12Net", layers, weights=at[5], io=2000000)


def digits(*, axis: int = 2, order: int = 0x8000, transposed: bool = True, hw: bool = True) -> str:
    """A classifier with 8-bit weights and natural memory order: a flatten, two fully connected layers, a softmax."""
    sizes = [weight_bytes(20, 1, 5, palette=True), weight_bytes(500, 2880, 1, palette=True), weight_bytes(10, 500, 1)]
    at = [sum(sizes[:i]) for i in range(4)]
    layers = [
        conv(
            "pool1", (0, (28, 28, 1)), (2048, (12, 12, 20)), pooled(Run(20, 5, at[0], palette=True, act=RELU)),
            hw=False, order=order,
        ),
        flatten("flatten", (2048, (12, 12, 20)), 16384),
        conv(
            "ip1", (16384, (2880,)), (32768, (1, 1, 500)), Run(500, 1, at[1], palette=True, act=RELU), hw=False, order=order
        ),
        conv("ip2", (32768, (1, 1, 500)), (36864, (10,)), Run(10, 1, at[2]), order=order),
        softmax("prob", (36864, (1, 1, 10)), (40960, (10,)), axis, hw=hw, output=0),
    ]  # fmt: skip
    return source("Digits", layers, weights=at[3], io=65536, transposed=transposed)


def branches(*, version: int = 1, factor: int = 0x2C00) -> str:
    """Branches in one command, a concatenation in place that names no inputs, one that is copied, a residual addition."""
    sizes = [weight_bytes(16, 8, 1), weight_bytes(8, 8, 1), weight_bytes(12, 8, 3), weight_bytes(5, 24, 1)]
    sizes += [weight_bytes(7, 24, 3), weight_bytes(12, 12, 3)]
    at = [sum(sizes[:i]) for i in range(7)]
    data, cat, few, more, joined, sum_, pooled = 0, 2048, 6144, 8192, 10240, 12288, 14336
    layers = [
        conv(
            "inception", (data, (8, 8, 8)), (cat, (8, 8, 28)), Run(16, 1, at[0], act=RELU), Run(8, 1, at[1], act=RELU),
            Run(12, 3, at[2], pad=0x01010101), hw=False, topo=0b101, version=version,
        ),
        concat("cat", (cat, (8, 8, 28))),
        conv("few", (cat, (8, 8, 24)), (few, (8, 8, 5)), Run(5, 1, at[3]), version=version),
        conv("more", (cat, (8, 8, 24)), (more, (8, 8, 7)), Run(7, 3, at[4], pad=0x01010101), version=version),
        copy_concat("odd", (few, (8, 8, 5)), (joined, (8, 8, 12)), [2, 3]),
        conv("sum", (joined, (8, 8, 12)), (sum_, (8, 8, 12)), Run(12, 3, at[5], pad=0x01010101, act=RELU), add=joined, version=version),
        conv(
            "pool", (sum_, (8, 8, 12)), (pooled, (2, 2, 12)),
            Run(12, pool=AVERAGE, pool_size=0x404, pool_stride=0x404, factor=factor), version=version,
        ),
        custom("mine", "Lambda", (pooled, (2, 2, 12)), (16384, (2, 2, 12)), output=0),
    ]  # fmt: skip
    return source("Branches", layers, weights=at[6], io=32768)


def early(*, hw: bool = False) -> str:
    """A source in the form of early 2019: commands of version 0, layers without names. hw: the flag of its concatenation."""
    sizes = [weight_bytes(16, 8, 1), weight_bytes(12, 28, 1)]
    data, cat, map, flat, probabilities = 0, 2048, 6144, 8192, 10240
    layers = [
        conv("", (data, (8, 8, 8)), (cat, (8, 8, 16)), Run(16, 1, act=RELU), hw=False, version=0),
        conv("", (data, (8, 8, 8)), (cat + 2048, (8, 8, 12)), Run(12, 1, sizes[0]), hw=False, version=0),
        concat("", (cat, (8, 8, 28)))._replace(hw=hw),
        conv("", (cat, (8, 8, 28)), (map, (8, 8, 12)), Run(12, 1, sizes[0] + weight_bytes(12, 8, 1)), version=0),
        flatten("", (map, (8, 8, 12)), flat),
        softmax("", (flat, (768,)), (probabilities, (768,)), 0, hw=False, output=0),
    ]
    return source("Early", layers, weights=sizes[0] + weight_bytes(12, 8, 1) + sizes[1], io=16384)


def save(text: str, folder: Path) -> Path:
    """The path of a source, beside the header that it includes."""
    path = folder / "Net_gen.cpp"
    path.write_text(text, encoding="utf-8")
    include = re.search(r'#include "(\w+_gen\.h)"', text)
    assert include is not None
    (folder / include[1]).write_text(declaration(text), encoding="utf-8")
    return path


def declaration(text: str) -> str:
    """The text of NAME_gen.h."""
    network = re.search(r"bool (\w+)::Initialize", text)
    assert network is not None
    name = network[1]
    functions = re.findall(rf"^void {name}::(\w+)\(", text, re.MULTILINE)
    kinds = sorted(set(re.findall(r"custom_param_(\w+) custom_param;", text)))
    lines = ["#pragma once", '#include "dmp_network.h"']
    lines += [f"struct custom_param_{kind} {{ float scale; }};" for kind in kinds]
    callback = "fpga_layer &layer, void *custom_param, uint8_t *io_ptr"
    lines += [f"void custom_callback_{kind}({callback});" for kind in kinds]
    lines += [f"class {name} : public CDMP_Network {{", " public:", f"  {name}();"]
    lines += [f"  virtual ~{name}();", "  virtual bool Initialize();", " private:"]
    lines += [f"  void {function}();" for function in dict.fromkeys(functions)]
    return "\n".join([*lines, "  fpga_layer *inputs_[2];", "};", ""])
