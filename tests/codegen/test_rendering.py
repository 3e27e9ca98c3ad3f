"""Generated texts: as they were (golden), compiled, unmoved by any name, and the same every time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.codegen import text_templates
from cnn_convertor.codegen.description import description
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.dv700.emulating import install
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.sources.rendering import emit, render
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.emulation import build as emulation_build
from cnn_convertor.errors import Origin, UnsupportedError
from cnn_convertor.files.replacing import replace_all
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.layouts.notation import parse
from cnn_convertor.workers.compiler import find_compiler
from codegen.small_programs import (
    build,
    compile_,
    every_kind_of_layer,
    small,
    write,
)
from conftest import Golden
from reference import ir_reference, random_networks
from test_escaping import HOSTILE

EVERYTHING = RenderOptions("net.h5", doxygen=True, dot=True, python_module="pynet", graphviz_path="/usr/bin")


# --- golden --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [small, every_kind_of_layer], ids=["small", "every"])
def test_texts_are_as_they_were(graph: object, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_templates, "__version__", "1.2.3")
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


@pytest.mark.parametrize("transposed", [False, True])
def test_sources_compile(transposed: bool, tmp_path: Path) -> None:
    write(tmp_path, render(build(every_kind_of_layer(), transposed=transposed), RenderOptions("m")))
    compile_(tmp_path, "net_gen.cpp", "-fsyntax-only")


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


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
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
    compile_(bad, "net_gen.cpp", "-fsyntax-only")
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


@pytest.mark.slow
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
    assert description(program) == [
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
    *_, output = description(build(Graph(nodes, ("map",))))
    assert output == 'Output 0 "map": 2x3x2 (height x width x channels) in the order H, W, C.'


def test_the_description_names_atoms() -> None:
    program = build(every_kind_of_layer())
    atoms = parse("hwc: c/16 h w c%16")
    inputs = tuple((name, tensor._replace(layout=atoms)) for name, tensor in program.inputs)
    text = 'Input "mask": 8x8x8 (height x width x channels) in the order H, W, C, in atoms of 16 channels, FP16 at'
    assert description(replace(program, inputs=inputs))[2].startswith(text)


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
@pytest.mark.rotating(turns=4)
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


@pytest.mark.rotating
@pytest.mark.slow
def test_the_python_module_runs_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a class, and with the functions that the SDK's modules have."""
    pybind11 = pytest.importorskip("pybind11", reason="pybind11 is not installed")
    program = build(small())
    write(tmp_path, render(program, EVERYTHING))
    replace_all(tmp_path, {"w.bin": encode_all(program.weights, transposed=True)})
    for flags in ("LOOP_FLAGS", "LIBRARY_FLAGS"):
        monkeypatch.setattr(emulation_build, flags, ("-std=c++17", "-O0", "-pthread", "-fPIC"))
    library = emulation_build.device_library(find_compiler())
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
@pytest.mark.rotating(turns=4)
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
