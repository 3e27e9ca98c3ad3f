"""Custom layers in generated sources: their parameters, inputs, callbacks and names."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.sources.rendering import render
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from codegen.small_programs import (
    build,
    compile_,
    every_kind_of_layer,
    small,
    write,
)


def custom(*parameters: dict[str, ops.Parameter], types: str = "Mine") -> Program:
    """A network of one custom layer for each set of parameters."""
    nodes = [Node("x", ops.Input(Shape(1, 1, 4))), Node("a", ops.Activation(ops.Relu()), ("x",))]
    for i, values in enumerate(parameters):
        nodes.append(Node(f"c{i}", ops.Custom(types, tuple(values.items()), Shape(1, 1, 4)), ("a",)))
    return build(Graph(tuple(nodes), tuple(f"c{i}" for i in range(len(parameters)))))


CUSTOM_STRUCTS: list[tuple[str, list[dict[str, ops.Parameter]], list[str], list[str]]] = [
    ("none", [{}], [], ["{}"]),
    ("one of each", [{"a": 1, "b": True, "c": 0.5, "d": (1, 2), "e": (True,), "f": (0.5, 1e-5)}],
     ["int a;", "bool b;", "float c;", "int d[2];", "bool e[1];", "float f[2];"], ["{1, true, 0.5f, {1, 2}, {true}, {0.5f, 1e-05f}}"]),
    ("a whole number here, a fraction there", [{"a": 1}, {"a": 0.5}], ["float a;"], ["{1.0f}", "{0.5f}"]),
    ("a truth value here, a number there", [{"a": True}, {"a": 3}], ["int a;"], ["{1}", "{3}"]),
    ("lists of other lengths", [{"a": (1,)}, {"a": (1, 2, 3)}, {"a": ()}], ["int a[3];"], ["{{1}}", "{{1, 2, 3}}", "{{}}"]),
    ("a list here, a value there", [{"a": (1, 2), "b": 7}, {"a": 3, "b": 8}], ["int a[2];", "int b;"], ["{{1, 2}, 7}", "{{3}, 8}"]),
    ("an empty list", [{"a": ()}], ["bool a[1];"], ["{{}}"]),
    ("parameters that a layer does not have", [{"a": 1, "b": 2}, {"b": 3, "c": (1.0,)}], ["int a;", "int b;", "float c[1];"],
     ["{1, 2, {}}", "{{}, 3, {1.0f}}"]),
    ("no numbers", [{"a": float("inf"), "b": float("-inf"), "c": float("nan"), "d": 1e300, "e": 1e-300}],
     ["float a;", "float b;", "float c;", "float d;", "float e;"], ["{INFINITY, -INFINITY, NAN, INFINITY, 0.0f}"]),
    ("names that C++ has taken", [{"default": 1, "class": 2, "my-name": 3, "2d": 4}],
     ["int default_;", "int class_;", "int my_name;", "int _2d;"], ["{1, 2, 3, 4}"]),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(
    ("parameters", "fields", "values"), [c[1:] for c in CUSTOM_STRUCTS], ids=[c[0] for c in CUSTOM_STRUCTS]
)
def test_custom_layers(
    parameters: list[dict[str, ops.Parameter]], fields: list[str], values: list[str], tmp_path: Path
) -> None:
    texts = render(custom(*parameters), RenderOptions("m"))
    found = re.search(r"struct custom_param_Mine \{\n(.*?)\};", texts["net_gen.h"], re.DOTALL)
    assert found is not None
    assert [line.partition("//")[0].strip() for line in found[1].splitlines()] == [*fields, "Cnet_io::Map inputs[1];"]
    inputs = re.findall(r'(?:, )?(\{\{"a", \d+, 8, 1, 1, 4, 2, "hwc8"\}\})\};', texts["net_gen.cpp"])
    assert len(inputs) == len(values)
    structs = re.findall(r"custom_param_Mine param = (.*);", texts["net_gen.cpp"])
    assert [s.replace(i, "").replace(", }", "}") for s, i in zip(structs, inputs, strict=True)] == values
    write(tmp_path, texts)
    compile_(tmp_path, "net_gen.cpp", "-fsyntax-only")


def test_the_parameters_of_a_custom_layer_list_its_inputs(tmp_path: Path) -> None:
    """The SDK keeps a layer's list of inputs where it keeps a callback's address: a layer has one of them."""
    graph = Graph(
        (
            Node("a", ops.Input(Shape(1, 1, 4))),
            Node("b", ops.Activation(ops.Tanh()), ("a",)),
            Node("both", ops.Custom("Both", (), Shape(1, 1, 4)), ("a", "b")),
            Node("one", ops.Custom("Both", (), Shape(1, 1, 4)), ("b",)),
        ),
        ("both", "one"),
    )
    program = build(graph)
    texts = render(program, RenderOptions("m"))
    at = [[tensor.offset for tensor in layer.inputs] for layer in program.layers if layer.custom is not None]
    assert re.findall(r"custom_param_(\w+ param = .*);", texts["net_gen.cpp"]) == [
        f'Both param = {{{{{{"a", {at[0][0]}, 8, 1, 1, 4, 2, "hwc8"}}, {{"b", {at[0][1]}, 8, 1, 1, 4, 2, "hwc8"}}}}}}',
        f'Both param = {{{{{{"b", {at[1][0]}, 8, 1, 1, 4, 2, "hwc8"}}}}}}',
    ]
    assert "Cnet_io::Map inputs[2];" in texts["net_gen.h"]
    assert "input_layer" not in texts["net_gen.cpp"]
    write(tmp_path, texts)
    compile_(tmp_path, "net_gen.cpp", "-fsyntax-only")


def test_each_input_of_the_network_has_its_own_name_in_a_custom_layer() -> None:
    """They lie side by side in memory."""
    inputs = [Node(name, ops.Input(Shape(1, 1, 8))) for name in ("left", "right")]
    both = Node("both", ops.Custom("Both", (), Shape(1, 1, 8)), ("right", "left"))
    texts = render(build(Graph((*inputs, both), ("both",))), RenderOptions("m"))
    (maps,) = re.findall(r"custom_param_Both param = (.*);", texts["net_gen.cpp"])
    assert re.findall(r'{"(\w+)", ', maps) == ["right", "left"]


READS = """
#include <cstdio>
#include "net_gen.h"

int main() {
  static uint8_t io[1 << 16];
  const Cnet_io::Map maps[] = {%s};
  if (std::fread(io, 1, sizeof(io), stdin) == 0) return 1;
  for (const Cnet_io::Map &map : maps) {
    for (float value : Read(map, io)) std::printf("%%g ", static_cast<double>(value));
    std::puts("");
  }
}
"""


def test_the_reader_knows_every_memory_order(tmp_path: Path) -> None:
    memory, maps, expected = bytes(6), [], []
    for layout, kind, channels in product(("HWC", "hwc8", "whc8"), ("u1", "<f2", "<f4"), (1, 5, 8, 19)):
        values = np.arange(3 * 2 * channels).reshape(3, 2, channels)
        pixels = values if layout != "whc8" else values.transpose(1, 0, 2)
        chunks = [pixels] if layout == "HWC" else [pixels[..., first : first + 8] for first in range(0, channels, 8)]
        maps.append(f'{{"", {len(memory)}, 0, 3, 2, {channels}, {np.dtype(kind).itemsize}, "{layout}"}}')
        memory += b"".join(chunk.astype(kind).tobytes() for chunk in chunks)
        expected.append(values.ravel().tolist())
    write(tmp_path, {**render(custom({}), RenderOptions("m")), "main.cpp": READS % ", ".join(maps)})
    compile_(tmp_path, "main.cpp", "-Wconversion", "-Wshadow", "-o", "main")
    lines = subprocess.run([tmp_path / "main"], input=memory, capture_output=True, check=True).stdout.splitlines()
    assert [list(map(float, line.split())) for line in lines] == expected


def test_a_parameter_of_a_custom_layer_may_be_called_inputs(tmp_path: Path) -> None:
    texts = render(custom({"inputs": 3}), RenderOptions("m"))
    assert "int inputs_;" in texts["net_gen.h"]
    write(tmp_path, texts)
    compile_(tmp_path, "net_gen.cpp", "-fsyntax-only")


@pytest.mark.parametrize("graph", [small, every_kind_of_layer])
def test_a_layer_has_a_callback_or_a_list_of_inputs(graph: Callable[[], Graph]) -> None:
    source = render(build(graph()), RenderOptions("m"))["net_gen.cpp"]
    layers = source.split("\nvoid C")[1:]
    assert any("custom_proc_ptr" in layer for layer in layers)
    assert not [layer for layer in layers if "custom_proc_ptr" in layer and "input_layer" in layer]
    assert "LT_SOFTMAX" not in source


def test_types_of_custom_layers_become_identifiers(tmp_path: Path) -> None:
    texts = render(custom({"a": 1}, types="my pack*/age>Läyer\n"), RenderOptions("m", doxygen=True, dot=True))
    assert (
        "void custom_callback_my_pack__age_L_yer_(fpga_layer &layer, void *custom_param, uint8_t *io_ptr);"
        in texts["net_gen.h"]
    )
    write(tmp_path, texts)
    compile_(tmp_path, "net_gen.cpp", "-fsyntax-only")
