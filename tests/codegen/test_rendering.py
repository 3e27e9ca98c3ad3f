"""Generated texts: as they were (golden), compiled, unmoved by any name, and the same every time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor import codegen
from cnn_convertor.codegen import RenderOptions, emit, render, rendering
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.legalize import legalize
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.devices.dv700.rules import check
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.devices.dv700.weights.options import Quantization
from cnn_convertor.devices.dv700.weights.palettes import QuantizationOptions, choose
from cnn_convertor.emulation import build as emulation_build
from cnn_convertor.emulation.network import install
from cnn_convertor.errors import Origin, UnsupportedError
from cnn_convertor.files.replacing import replace_all
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from conftest import Golden
from reference import ir_reference, random_networks
from test_escaping import HOSTILE

INCLUDE = Path(codegen.__file__).parents[1] / "host" / "include"
FLAGS = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-I", str(INCLUDE)]
EVERYWHERE = QuantizationOptions(Quantization.PALETTE, threshold=0.0)
EVERYTHING = RenderOptions("net.h5", doxygen=True, dot=True, python_module="pynet", graphviz_path="/usr/bin")


def build(graph: Graph, *, name: str = "net", palette: bool = False, transposed: bool = True) -> Program:
    legal = legalize(optimize(graph), DV700, transposed=transposed)
    partitioned, steps = partition(legal, DV700, transposed=transposed)
    check(partitioned, steps, DV700, legal=legal)
    program = lower(partitioned, steps, name=name, transposed=transposed, original=graph)
    return choose(program, EVERYWHERE) if palette else program


def ones(*shape: int) -> Constant:
    return Constant.of(np.ones(shape))


TYPES = {"Conv2d": "Conv2D", "MaxPool2d": "MaxPooling2D", "BatchNorm": "BatchNormalization", "Relu": "ReLU"}


class Network:
    """A graph whose layers can be given other names."""

    def __init__(self, names: dict[str, str] | None = None) -> None:
        self.names = names or {}
        self.nodes: list[Node] = []

    def name(self, name: str) -> str:
        return self.names.get(name, name)

    def add(self, name: str, op: Op, *inputs: str) -> None:
        origin = Origin("net.h5", self.name(name), TYPES.get(type(op).__name__, type(op).__name__))
        self.nodes.append(Node(self.name(name), op, tuple(map(self.name, inputs)), (origin,)))

    def graph(self, *outputs: str) -> Graph:
        return Graph(tuple(self.nodes), tuple(map(self.name, outputs)))


SAME = Padding(1, 1, 1, 1)


def every_kind_of_layer(names: dict[str, str] | None = None, custom: str = "Mine") -> Graph:
    """Two inputs, a residual block, in-place and copied concatenations, flatten, softmax, a custom layer."""
    net = Network(names)
    net.add("image", ops.Input(Shape(8, 8, 3)))
    net.add("mask", ops.Input(Shape(8, 8, 8)))
    net.add("conv1", ops.Conv2d(ones(8, 3, 3, 3), ones(8), Window(Pair(3, 3), padding=SAME)), "image")
    net.add("relu1", ops.Activation(ops.Relu(0.25)), "conv1")
    net.add(
        "conv2",
        ops.Conv2d(ones(8, 8, 3, 5), None, Window(Pair(3, 5), dilation=Pair(2, 1), padding=Padding(2, 2, 2, 2))),
        "relu1",
    )
    net.add("add", ops.Add(ops.Relu6()), "conv2", "relu1")
    net.add("join", ops.Concat(), "add", "mask")
    net.add(
        "up", ops.ConvTranspose2d(ones(12, 16, 4, 4), ones(12), Window(Pair(4, 4), Pair(2, 2), padding=SAME)), "join"
    )
    net.add("prelu", ops.Activation(ops.PRelu(ones(12))), "up")
    net.add("pool", ops.MaxPool2d(Window(Pair(2, 3), Pair(2, 3), padding=Padding(0, 0, 0, 2))), "prelu")
    net.add("gap", ops.AveragePool2d(Window(Pair(8, 6))), "pool")
    net.add("fc", ops.Dense(ones(5, 12, 1, 1), ones(5)), "gap")
    net.add("both", ops.Concat(), "fc", "gap")
    net.add("prob", ops.Softmax(), "both")
    net.add("flat", ops.Reshape(Shape(1, 1, 12 * 48), Order.HWC), "pool")
    net.add(
        "mine", ops.Custom(custom, (("axis", 1), ("scale", 0.5), ("on", True), ("sizes", (1, 2))), Shape(1, 1, 2)), "fc"
    )
    return net.graph("prob", "flat", "mine", "pool")


def small() -> Graph:
    net = Network()
    net.add("input", ops.Input(Shape(8, 8, 1)))
    net.add("conv2d", ops.Conv2d(ones(16, 1, 3, 3), ones(16), Window(Pair(3, 3), padding=SAME)), "input")
    net.add("batch_normalization", ops.BatchNorm(ones(16), ones(16), None, ones(16), 0.001), "conv2d")
    net.add("re_lu", ops.Activation(ops.Relu()), "batch_normalization")
    net.add("max_pooling2d", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), "re_lu")
    net.add("flatten", ops.Reshape(Shape(1, 1, 256), Order.HWC), "max_pooling2d")
    net.add("dense", ops.Dense(ones(10, 256, 1, 1), ones(10)), "flatten")
    net.add("softmax", ops.Softmax(), "dense")
    return net.graph("softmax")


# --- golden --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [small, every_kind_of_layer], ids=["small", "every"])
def test_texts_are_as_they_were(graph: object, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "__version__", "1.2.3")
    name = "small" if graph is small else "every"
    program = build(small() if graph is small else every_kind_of_layer(), name=name, palette=graph is small)
    texts = render(program, EVERYTHING)
    assert set(texts) == {
        f"{name}_gen.h",
        f"{name}_gen.cpp",
        f"{name}.dot",
        "doc/Doxyfile",
        "doc/pages.dox",
        "pynet.cpp",
        f"{name}_cpu.h",
    }
    for file, text in texts.items():
        golden(f"{name}/{file}", text)


# --- what is written when ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "files"),
    [
        (RenderOptions("m"), {"net_gen.h", "net_gen.cpp", "net_cpu.h"}),
        (RenderOptions("m", source=False), set()),
        (RenderOptions("m", source=False, dot=True), {"net.dot"}),
        (RenderOptions("m", source=False, doxygen=True), {"doc/Doxyfile", "doc/pages.dox"}),
        (RenderOptions("m", source=False, python_module="mod"), {"mod.cpp"}),
    ],
)
def test_the_options_choose_the_files(options: RenderOptions, files: set[str]) -> None:
    assert set(render(build(small()), options)) == files


def test_every_file_says_who_made_it_first() -> None:
    texts = render(build(small()), EVERYTHING)
    for text in texts.values():
        assert re.match(r"(//|#) made by cnn-convertor \S+ from net\.h5, do not edit\n", text)
        assert text.endswith("\n") and not text.endswith("\n\n")
        assert not any(line != line.rstrip() for line in text.splitlines())


# --- the code ------------------------------------------------------------------------------------------------------------


def write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def compile_(folder: Path, file: str, *flags: str) -> str:
    """What the compiler prints to stdout; it must not complain."""
    result = subprocess.run(["g++", *FLAGS, *flags, file], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


@pytest.mark.parametrize("transposed", [False, True])
def test_sources_compile(transposed: bool, tmp_path: Path) -> None:
    write(tmp_path, render(build(every_kind_of_layer(), transposed=transposed), RenderOptions("m")))
    compile_(tmp_path, "net_gen.cpp", "-c")


LAYERS = [
    "image",
    "mask",
    "conv1",
    "relu1",
    "conv2",
    "add",
    "join",
    "up",
    "prelu",
    "pool",
    "gap",
    "fc",
    "both",
    "prob",
    "flat",
    "mine",
]


def hostile_names() -> list[dict[str, str]]:
    """Every hostile text is the name of some layer of one of these networks."""
    texts = [*HOSTILE, *(f"{text}{text}x" for text in HOSTILE)]
    return [
        {layer: f"{texts[(start + i) % len(texts)]}{'' if i % 2 else i}" for i, layer in enumerate(LAYERS)}
        for start in range(0, len(HOSTILE), len(LAYERS))
    ]


def code(folder: Path, name: str) -> str:
    """The network's code: preprocessed, without headers, with the same strings and the same constants of outputs."""
    text = compile_(folder, f"{name}_gen.cpp", "-E", "-P")
    text = text[text.index("class Cnet") :]
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', re.sub(r"kOutput_\w+", "kOutput", text))


@pytest.mark.parametrize("names", hostile_names())
def test_names_do_not_change_the_code(names: dict[str, str], tmp_path: Path) -> None:
    assert len(set(names.values())) == len(names)
    good, bad = tmp_path / "good", tmp_path / "bad"
    write(good, render(build(every_kind_of_layer()), RenderOptions("m")))
    program = build(every_kind_of_layer(names))
    hostile = 'm*/ ??/\n#error "\\'
    write(
        bad, render(program, RenderOptions(hostile, doxygen=True, dot=True, python_module="mod", graphviz_path=hostile))
    )
    assert code(bad, "net") == code(good, "net")
    compile_(bad, "net_gen.cpp", "-c")
    is_well_formed_dot((bad / "net.dot").read_text(encoding="utf-8"))
    is_one_comment((bad / "doc" / "pages.dox").read_text(encoding="utf-8"))
    assert len((bad / "doc" / "Doxyfile").read_text(encoding="utf-8").splitlines()) == 12


def test_the_names_that_firmware_reads_are_not_empty() -> None:
    """The SDK crashes when it assigns an empty name to a layer; a zero byte ends a name in C++."""
    net = [
        Node(name, ops.Activation(ops.Relu()), (before,), (Origin("", name),))
        for before, name in (("x", ""), ("", "\0a"))
    ]
    graph = Graph((Node("x", ops.Input(Shape(1, 1, 4))), *net), ("", "\0a"))
    texts = render(build(graph), RenderOptions("m"))
    names = re.findall(r'layer\.name = "(.*)";', texts["net_gen.cpp"])
    names += re.findall(r'^    \{"(.*?)", \d', texts["net_gen.h"], re.MULTILINE)
    assert len(names) > 3
    assert all(name and not name.startswith("\\0") for name in names), names


@pytest.mark.parametrize("name", ["graph", "Node", "edge", "strict", "subgraph", "digraph"])
def test_networks_may_have_the_names_of_keywords(name: str, tmp_path: Path) -> None:
    is_well_formed_dot(render(build(small(), name=name), RenderOptions("m", source=False, dot=True))[f"{name}.dot"])


@pytest.mark.parametrize("name", ["24Net", "class", "_"])
def test_networks_may_have_any_name_that_a_class_may_end_with(name: str, tmp_path: Path) -> None:
    write(tmp_path, render(build(small(), name=name), RenderOptions("m")))
    compile_(tmp_path, f"{name}_gen.cpp", "-fsyntax-only")


def test_outputs_have_constants(tmp_path: Path) -> None:
    """Each name becomes another identifier, in the order of the model's outputs."""
    names = ["fc/8", "fc 8", "fc-8_", "größe", "1"]
    nodes = [Node("x", ops.Input(Shape(1, 1, 4)))]
    nodes += [Node(str(i), ops.Activation(ops.Relu(i / 4)), ("x",), (Origin("", n),)) for i, n in enumerate(names)]
    texts = render(build(Graph(tuple(nodes), tuple("01234"))), RenderOptions("m"))
    found = re.findall(r"^    (kOutput_\w+) = (\d),  // (.*)$", texts["net_gen.h"], re.MULTILINE)
    assert found == [
        ("kOutput_fc_8", "0", "fc/8"),
        ("kOutput_fc_8_", "1", "fc 8"),
        ("kOutput_fc_8__", "2", "fc-8_"),
        ("kOutput_gr__e", "3", "größe"),
        ("kOutput_1", "4", "1"),
    ]
    write(tmp_path, texts)
    (tmp_path / "use.cpp").write_text('#include "net_gen.h"\nstatic_assert(Cnet::kOutput_fc_8__ == 2, "");\n')
    compile_(tmp_path, "use.cpp", "-fsyntax-only")


def test_each_run_says_which_layers_it_computes() -> None:
    source = render(build(small()), RenderOptions("m"))["net_gen.cpp"]
    comments = re.findall(r"\n\n((?:  // .*\n)+)  cmd\.run\[0\]\.m ", source)
    assert [re.findall(r'"(\w+)"', text) for text in comments] == [
        ["conv2d", "batch_normalization", "re_lu", "max_pooling2d"],
        ["flatten", "dense"],
    ]


def test_comments_behind_values_stand_in_one_column() -> None:
    source = render(build(every_kind_of_layer()), RenderOptions("m"))["net_gen.cpp"]
    assert len({line.index("  // ") for line in source.splitlines() if re.match(r"  \w.*;.*//", line)}) == 1


def test_sources_and_the_drawing_say_once_what_sizes_are() -> None:
    texts = render(build(every_kind_of_layer()), EVERYTHING)
    for name in ("net_gen.cpp", "net.dot"):
        assert texts[name].count("height x width x channels") == 1
    assert "kernel 3x5\n" in texts["net_gen.cpp"]


def test_sources_use_the_runtime_as_it_is() -> None:
    """Moving a string into a layer crashes; Commit builds the command lists, and a second one fails."""
    texts = render(build(every_kind_of_layer()), RenderOptions("m"))
    for text in texts.values():
        assert not re.search(r"std::string|std::to_string|GenerateCommandLists|Commit", text)
    assert re.findall(r"  layer\.name = (.)", texts["net_gen.cpp"]) == ['"'] * texts["net_gen.cpp"].count("layer.name")


# --- documents -----------------------------------------------------------------------------------------------------------

STRING = r'"(?:[^"\\\n]|\\.)*"'
DOT_LINES = [
    rf"digraph {STRING} \{{",
    r"  rankdir = TB;",
    rf"  (graph|node|edge) \[(\w+ = (\w+|{STRING})(, )?)+\];",
    rf"  \w+ \[label = {STRING}(, fillcolor = (\w+|{STRING}))?\];",
    rf"  (\w+) -> (\w+) \[label = {STRING}\];",
    r"\}",
]


def is_well_formed_dot(text: str) -> None:
    first, *lines = text.splitlines()
    assert first.startswith("// ")
    for line in lines:
        assert any(re.fullmatch(pattern, line) for pattern in DOT_LINES), line
    drawn = set(re.findall(r"^  (\w+) \[label", text, re.MULTILINE))
    for source, target in re.findall(r"^  (\w+) -> (\w+) ", text, re.MULTILINE):
        assert {source, target} <= drawn


def is_one_comment(text: str) -> None:
    first, second, *_ = text.splitlines()
    assert first.startswith("// ")
    assert second == "/**"
    assert text.endswith("\n*/\n")
    comment = text.removeprefix(first)
    assert comment.count("*/") == 1 and comment.count("/*") == 1
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}


def test_documents_are_well_formed() -> None:
    texts = render(build(every_kind_of_layer()), EVERYTHING)
    is_well_formed_dot(texts["net.dot"])
    is_one_comment(texts["doc/pages.dox"])


def test_the_description_says_what_an_application_must_know() -> None:
    program = build(every_kind_of_layer())
    image, mask = (tensor.offset for _, tensor in program.inputs)
    assert codegen.description(program) == [
        f"net: {program.weight_bytes} bytes of weights, {program.io_bytes} bytes of I/O memory.",
        f'Input "image": 8x8x3 (height x width x channels) in the order H, W, C, FP16 at offset {image}.',
        f'Input "mask": 8x8x8 (height x width x channels) in the order H, W, C, FP16 at offset {mask}.',
        'Output 0 "prob": 17 values.',
        'Output 1 "flat": 8x6x12 (height x width x channels) in the order H, W, C.',
        'Output 2 "mine": 2 values.',
        'Output 3 "pool": 8x6x12 (height x width x channels) in the order H, W, C.',
    ]


def test_the_description_of_a_reshaped_output_is_that_of_the_map() -> None:
    dense = ops.Dense(Constant.of(np.ones((12, 4, 1, 1))), None)
    nodes = (
        Node("x", ops.Input(Shape(1, 1, 4))),
        Node("fc", dense, ("x",)),
        Node("map", ops.Reshape(Shape(2, 3, 2), ops.Order.HWC), ("fc",)),
    )
    *_, output = codegen.description(build(Graph(nodes, ("map",))))
    assert output == 'Output 0 "map": 2x3x2 (height x width x channels) in the order H, W, C.'


def test_the_drawing_shows_that_a_command_reads_parts_of_an_input() -> None:
    nodes = (
        Node("x", ops.Input(Shape(6, 5, 16))),
        Node("a", ops.Crop(Shape(0, 0, 0), Shape(6, 5, 8)), ("x",)),
        Node("b", ops.Crop(Shape(0, 0, 8), Shape(6, 5, 16)), ("x",)),
        Node("c", ops.Add(), ("b", "a")),
    )
    program = build(Graph(nodes, ("c",)))
    assert len({tensor.offset for tensor in program.layers[1].inputs}) == 2, "the second part begins further on"
    assert str(render(program, EVERYTHING)["net.dot"]).count("layer_0 -> layer_1") == 2


# --- the same every time -------------------------------------------------------------------------------------------------

SCRIPT = """
import hashlib, codegen.test_rendering as t
texts = t.render(t.build(t.every_kind_of_layer(), palette=True), t.EVERYTHING)
print(hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest())
"""


@pytest.mark.slow
def test_texts_do_not_depend_on_the_order_of_hashes() -> None:
    tests = Path(__file__).parents[1]
    digests = set()
    for seed in ("0", "1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests)]),
        }
        command = [sys.executable, "-c", SCRIPT]
        digests.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(digests) == 1


# --- custom layers -------------------------------------------------------------------------------------------------------


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


# --- the Python module ---------------------------------------------------------------------------------------------------


PYTHON = """
import numpy as np, pynet
network = pynet.create()
assert network == 1 and pynet.create() == 2
try:
    pynet.put_input(2, np.zeros(64, np.float16))
except RuntimeError as error:
    assert str(error) == "the network has no memory: call initialize first"
else:
    raise AssertionError("taken")
assert pynet.initialize(network) and pynet.load_weights(network, "w.bin") and pynet.commit(network)
x = np.linspace(-1, 1, 64, dtype=np.float16)
pynet.put_input(network, x)
assert pynet.run_network(network) and pynet.get_output_layer_count(network) == 1
assert all(f(network) >= 0 for f in (pynet.get_conv_usec, pynet.get_fc_usec, pynet.get_cpu_usec))
result = pynet.get_final_output(network)
assert result.dtype == np.float32 and result.shape == (10,) and abs(result.sum() - 1) < 1e-5
assert (result == pynet.get_final_output(network, index=pynet.kOutput_softmax)).all()
for wrong in (x.astype(np.float32), x[:10], x[::2]):
    try:
        pynet.put_input(network, wrong)
    except RuntimeError as error:
        assert "contiguous float16 array of 64 values" in str(error)
    else:
        raise AssertionError("taken")
one = pynet.Cnet()
assert one.initialize() and one.load_weights("w.bin") and one.commit()
one.set_input(x)
assert one.run() and (one.get_output() == result).all() and one.output_count == 1
pynet.destroy(network)
for gone in (network, 7):
    try:
        pynet.initialize(gone)
    except IndexError as error:
        assert str(error) == f"there is no network {gone}"
    else:
        raise AssertionError("found")
"""


@pytest.mark.slow
def test_the_python_module_runs_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a class, and with the functions that the SDK's modules have."""
    pybind11 = pytest.importorskip("pybind11", reason="pybind11 is not installed")
    program = build(small())
    write(tmp_path, render(program, EVERYTHING))
    replace_all(tmp_path, {"w.bin": encode_all(program.weights, transposed=True)})
    for flags in ("LOOP_FLAGS", "LIBRARY_FLAGS"):
        monkeypatch.setattr(emulation_build, flags, ("-std=c++17", "-O1", "-pthread", "-fPIC"))
    library = emulation_build.device_library(emulation_build.find_compiler())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    includes = [f"-I{pybind11.get_include()}", f"-I{sysconfig.get_path('include')}"]
    sources = ["pynet.cpp", "net_gen.cpp", str(library), "-pthread"]
    compile_(tmp_path, *sources, "-shared", "-fPIC", *includes, "-o", f"pynet{suffix}")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", PYTHON], cwd=tmp_path, env=environment, check=True)


def test_the_python_module_knows_where_inputs_lie() -> None:
    program = build(every_kind_of_layer())
    text = render(program, EVERYTHING)["pynet.cpp"]
    places = re.findall(r"\{(\d+), (\d+)\},  // (.*)", text)
    assert places == [(str(t.offset), str(t.nbytes), f'"{name}" {t.shape}') for name, t in program.inputs]


# --- on the emulated device ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_networks_give_their_results_on_the_emulated_device(seed: int, tmp_path: Path) -> None:
    graph, program = next(legal_networks(100 * seed, transposed=seed % 2 == 0))
    network = install(graph, program, emit(program, RenderOptions("m")), tmp_path, device=DV700)
    x = {name: v.astype(np.float16).astype(np.float32) for name, v in random_networks.inputs_for(graph).items()}
    result = network.run({name: values[None] for name, values in x.items()}, exact=True)
    expected = ir_reference.run(graph, x)
    for name, output in zip(graph.outputs, result.outputs, strict=True):
        np.testing.assert_allclose(output[0], expected[name], atol=0.02 * max(1e-3, np.abs(expected[name]).max()))


def legal_networks(seed: int, *, transposed: bool) -> Iterator[tuple[Graph, Program]]:
    """Random networks that the device takes."""
    while True:
        graph = random_networks.network(seed, 8)
        seed += 1
        with suppress(UnsupportedError):
            yield graph, build(graph, transposed=transposed)
