"""Generated files, public headers and examples are C++11 without warnings, as boards with older compilers need."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from board.test_kit_bytes import DEFINITION
from cnn_convertor.board.kit import Inputs, write_kit
from cnn_convertor.codegen import kernels
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.probe.probe_files import write_probe
from cnn_convertor.devices.dv700.sources.rendering import render_selftest
from cnn_convertor.emulation.build import INCLUDE
from cnn_convertor.files.replacing import replace_all
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.pipeline import build, render
from codegen.small_programs import every_kind_of_layer
from emulation.test_classes import segmentation
from emulation.test_frames import camera
from examples import caffemodel
from verification.test_cpu_layers import DETECTING, everything
from verification.trials import config

ROOT = Path(__file__).resolve().parents[2]
STRICT = ["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{INCLUDE}"]
COMPILERS = ["g++", pytest.param("clang++", marks=pytest.mark.slow)]
ZIA_C3 = read_profile("zia-c3", Path())
HALVES = Window(Pair(2, 2), Pair(2, 2))


def unpooling() -> Graph:
    pool, unpool = ops.MaxPool2d(HALVES), ops.MaxUnpool(HALVES)
    return Graph(
        (Node("x", ops.Input(Shape(6, 6, 3))), Node("pool", pool, ("x",)), Node("out", unpool, ("pool", "x"))), ("out",)
    )


def softmax() -> Graph:
    relu = Node("relu", ops.Activation(ops.Relu()), ("x",))
    return Graph((Node("x", ops.Input(Shape(1, 1, 9))), relu, Node("out", ops.Softmax(), ("relu",))), ("out",))


def generate(folder: Path, graph: Graph, *, selftest: bool = False, **fields: Any) -> None:
    configuration = config(Path("graph.keras"), **fields)
    program = build(graph, configuration)
    texts = {}
    if selftest:
        outputs = [np.zeros(program.layers[index].output.shape.size, np.float32) for index in program.outputs]
        texts = render_selftest(program, model="m", levels=np.zeros(256, np.uint16), outputs=outputs)
    replace_all(folder, {**render(graph, program, Request.of(configuration)), **texts})


def kit(folder: Path) -> None:
    """Of a network from bytes to classes."""
    (folder / "net.prototxt").write_text(DEFINITION)
    caffemodel.write(folder / "net.caffemodel", [("scores", "Convolution", [np.ones((5, 3, 3, 3))])])
    fields: dict[str, Any] = {"device": ZIA_C3, "input": "u8", "mean": (128.0,), "scale": 1 / 128}
    write_kit(config(folder / "net.prototxt", folder / "net.caffemodel", **fields), folder, Inputs(samples=1))


def probe(folder: Path) -> None:
    write_probe(folder, ZIA_C3)


def public_headers(folder: Path) -> None:
    for header in INCLUDE.glob("*.h"):
        (folder / f"{header.stem}.cpp").write_text(f'#include "{header.name}"\n#include "{header.name}"\nint unused;\n')


def examples(folder: Path) -> None:
    for path in [ROOT / "examples" / "firmware", *(ROOT / "examples").glob("*/output/*")]:
        shutil.copytree(path, folder, dirs_exist_ok=True)


BYTES: dict[str, Any] = {"mean": (103.9, 116.8, 123.7), "scale": 0.017, "channel_order": "BGR", "input": "u8"}
SOURCES: dict[str, Callable[[Path], None]] = {
    "every kind of layer, custom ones too": lambda folder: generate(folder, every_kind_of_layer(), selftest=True),
    "the runtime's own layers": lambda folder: generate(folder, softmax(), softmax="sdk"),
    "functions on the CPU": lambda folder: generate(folder, everything().graph),
    "threads": lambda folder: generate(folder, unpooling(), cpu_threads=2),
    "unpooling": lambda folder: generate(folder, unpooling()),
    "detections": lambda folder: generate(folder, DETECTING[0]),
    "bytes and frames": lambda folder: generate(folder, camera(), selftest=True, device=ZIA_C3, **BYTES),
    "frames": lambda folder: generate(folder, camera(), device=ZIA_C3, mean=(128.0,)),
    "classes": lambda folder: generate(folder, segmentation(9), selftest=True, device=ZIA_C3),
    "a kit": kit,
    "the probe": probe,
    "public headers": public_headers,
    "examples": examples,
}


SLOW = {"functions on the CPU", "the probe"}


def write(name: str, folder: Path) -> Path:
    SOURCES[name](folder)
    for frame in folder.glob("*_frame.h"):
        (folder / "frame.cpp").write_text(f'#include "{frame.name}"\n')
    return folder


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(request.param, tmp_path_factory.mktemp("sources"))


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in SOURCES], indirect=True
)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_sources_are_cpp11(folder: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    sources = sorted(map(str, folder.glob("*.cpp")))
    assert sources
    result = subprocess.run([compiler, *STRICT, *sources], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_they_contain_every_function_of_the_cpu(tmp_path_factory: pytest.TempPathFactory) -> None:
    names = ("functions on the CPU", "threads", "unpooling", "detections", "classes")
    folders = [write(name, tmp_path_factory.mktemp("sources")) for name in names]
    texts = "".join((folder / "net_cpu.h").read_text() for folder in folders)
    for header in Path(kernels.__file__).parent.glob("*.h"):
        body = header.read_text().partition("namespace cpu_functions {")[2].partition("}  // namespace")[0]
        assert header.name == "order.h" or body.strip() in texts, header.name
