"""NAME_selftest.cpp needs only the SDK's header, passes for a good network and fails for a bad one."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.conversion.convert import convert
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.sources import rendering
from cnn_convertor.devices.dv700.sources.selftest import SelfTest, record
from cnn_convertor.emulation.build import INCLUDE, SOURCES, device_library
from cnn_convertor.errors import UsageError
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.pipeline import build
from cnn_convertor.workers.compiler import find_compiler
from verification.trials import config

pytestmark = pytest.mark.usefixtures("compiler")

ROOT = Path(__file__).resolve().parents[2]
INI = ROOT / "examples" / "digits_caffe" / "net.ini"
STRICT = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pthread"]


def selftest(folder: Path) -> Path:
    """Convert with a self-test, and compile it."""
    written = convert(replace(Config.read(INI), output_folder=folder, selftest=True))
    made = written.files[0].parent
    compiler = find_compiler()
    sources = ["digits_caffe_selftest.cpp", "digits_caffe_gen.cpp"]
    command = [*compiler.command, *STRICT, f"-I{INCLUDE}", *sources, str(device_library(compiler)), "-o", "selftest"]
    subprocess.run(command, cwd=made, check=True)
    return made


def run(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    result = subprocess.run(["./selftest", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("in_source", [True, False], ids=["in source", "file"])
def test_the_selftest_passes_and_fails(in_source: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_source:
        monkeypatch.setattr(rendering, "_MOST_EXPECTED_IN_SOURCE", 0)
    made = selftest(tmp_path)
    assert (made / "digits_caffe_selftest.bin").exists() is not in_source
    assert run(made) == (0, ["output 0: pass", "pass"])

    weights = bytearray((made / "digits_caffe_weights.bin").read_bytes())
    last = len(weights) // 2 * 2 - 16 - 400
    weights[last : last + 400 : 2] = bytes(b ^ 0x40 for b in weights[last : last + 400 : 2])
    (made / "bad.bin").write_bytes(weights)
    assert run(made, "bad.bin")[0] == 1
    assert run(made, "none.bin") == (1, ["fail: cannot load none.bin"])
    if not in_source:
        assert run(made, "digits_caffe_weights.bin", "none.bin") == (1, ["fail: cannot read none.bin"])


def test_the_same_network_has_the_same_selftest(tmp_path: Path) -> None:
    chosen = replace(Config.read(INI), selftest=True)
    first, again = (convert(replace(chosen, output_folder=tmp_path / n)).files for n in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def recorded(graph: Graph, low: float, high: float) -> SelfTest:
    program = build(graph, config(Path("graph.keras")))
    return record(graph, program, low=low, high=high, device=DV700)


def test_inputs_are_drawn_from_the_levels(tmp_path: Path) -> None:
    graph = Graph((Node("a", ops.Input(Shape(1, 1, 500))), Node("b", ops.Activation(ops.Relu(1.0)), ("a",))), ("b",))
    test = recorded(graph, -2.0, 2.0)
    state, expected = 0, []
    for _ in range(500):
        state = (state * 1664525 + 1013904223) % 2**32
        expected.append(test.levels[state >> 24])
    assert np.array_equal(test.outputs[0].astype(np.float16).view(np.uint16), np.array(expected))


def test_custom_layers_have_their_code_in_the_firmware(tmp_path: Path) -> None:
    graph = Graph(
        (Node("a", ops.Input(Shape(1, 1, 8))), Node("b", ops.Custom("Mine", (), Shape(1, 1, 8)), ("a",))), ("b",)
    )
    with pytest.raises(UsageError, match="DV708"):
        recorded(graph, -1.0, 1.0)


@pytest.mark.rotating
@pytest.mark.slow
def test_the_documented_build_on_the_pc_compiles(tmp_path: Path) -> None:
    """Not optimized, and with one source in the place of the device's: a kit for the PC compiles each on its own."""
    page = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    (g\+\+ .*host/src/\*\.cpp) \\\n +(-o selftest)$", page, re.MULTILINE)
    made = convert(replace(Config.read(INI), output_folder=tmp_path, selftest=True)).files[0].parent
    host = made / "cnn_convertor" / "host"
    (host / "src").mkdir(parents=True)
    (host / "include").symlink_to(INCLUDE)
    sources = sorted(SOURCES.glob("*.cpp"))
    (host / "src" / "all.cpp").write_text("".join(f'#include "{path}"\n' for path in sources), encoding="utf-8")
    build = " ".join(command).replace("NAME", "digits_caffe")
    subprocess.run(f"{build} -O0", shell=True, cwd=made, check=True)
    assert run(made)[0] == 0
