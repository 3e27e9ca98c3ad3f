"""Hostile names of layers, files and folders do nothing in any output: each compiles and parses, and none leaves its folder."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from cnn_convertor import cli
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.sources.rendering import render
from cnn_convertor.emulation.build import INCLUDE
from cnn_convertor.pipeline import build, load
from examples import caffemodel
from frontends.onnx.networks import Network, helper
from test_escaping import HOSTILE

FILE = "m'*?? $(touch pwned) `touch pwned` <b>&@mainpage#\\.onnx"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDER = "a b#c$d'e%f&g"
NAMES = [name for name in dict.fromkeys(HOSTILE) if name and name.isprintable() | name.isascii()]
OUTPUTS = NAMES[::10]


def network() -> Network:
    """A chain with every name; six of the maps are outputs."""
    kernel = np.eye(8, dtype=np.float32).reshape(8, 8, 1, 1)
    nodes, last = [], "input <i>\n"
    for position, name in enumerate(NAMES):
        if position % 16 == 7:
            nodes.append(helper.make_node("Softmax", [last], [name], axis=1))
        else:
            nodes.append(helper.make_node("Conv", [last, "w"], [name]))
        last = name
    return Network(nodes, {"input <i>\n": np.zeros((1, 8, 4, 4), np.float32)}, {"w": kernel})


class Converted(NamedTuple):
    """root: where everything happens. folder: of the outputs."""

    root: Path
    ini: Path
    folder: Path

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory, compiler: None) -> Converted:
    """A conversion with every kind of output, in a folder and of a file with hostile names."""
    root = tmp_path_factory.mktemp("hostile")
    home = root / FOLDER
    home.mkdir()
    network().write(home / FILE, outputs=OUTPUTS)
    ini = home / "net.ini"
    ini.write_text(
        f'[INPUT]\nname = class\ndefinition = "{FILE}"\n[OUTPUT]\noutput_folder = "out {FOLDER}"\ngenerate_source = 1\n'
        "generate_doxy = 1\ngenerate_dot = 1\nselftest = 1\npython_module = net\n[OPTIONAL]\n"
        "graphviz_path = $(touch pwned)\\\n"
    )
    assert cli.main(["-q", str(ini)]) == 0
    return Converted(root, ini, home / f"out {FOLDER}" / "class")


def test_the_outputs_are_the_usual_files(converted: Converted) -> None:
    assert {path.relative_to(converted.folder).as_posix() for path in converted.folder.rglob("*") if path.is_file()} == {
        "class_gen.h", "class_gen.cpp", "class_cpu.h", "class.dot", "class.json", "class_weights.bin",
        "class_selftest.cpp", "net.cpp", "doc/Doxyfile", "doc/pages.dox",
    }  # fmt: skip
    home = converted.ini.parent
    assert {path.name for path in home.iterdir()} == {FILE, "net.ini", f"out {FOLDER}"}
    assert [path.name for path in converted.root.iterdir()] == [FOLDER]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("program", ["g++", "clang++"])
@pytest.mark.parametrize("source", ["class_gen.cpp", "class_selftest.cpp"])
def test_the_sources_compile_without_a_warning(program: str, source: str, converted: Converted) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"no {program}")
    command = [program, "-std=c++11", "-fsyntax-only", "-trigraphs", "-Wall", "-Wextra", "-Werror", "-I", str(INCLUDE)]
    subprocess.run([*command, source], cwd=converted.folder, check=True)


def test_no_line_of_code_comes_from_a_name(converted: Converted) -> None:
    """Without comments and strings, names appear in the constants of the outputs alone."""
    for file in ("class_gen.h", "class_gen.cpp", "class_selftest.cpp", "net.cpp"):
        code = re.sub(r'//.*|"(?:[^"\\\n]|\\.)*"|\bkOutput_\w+', "", converted.text(file))
        assert not re.search("pwned|alert|touch|passwd|[^\x00-\x7f]", code), file


def test_the_manifest_has_the_names_as_they_are(converted: Converted) -> None:
    manifest = json.loads(converted.text("class.json"))
    found = {name for layer in manifest["layers"] for name in layer["computes"]}
    assert found >= set(NAMES)
    assert [output["name"] for output in manifest["outputs"]] == OUTPUTS
    assert converted.text("class.json").isascii()


def test_graphviz_draws_every_name_as_text(converted: Converted) -> None:
    if shutil.which("dot") is None:
        pytest.skip("no Graphviz")
    drawn = subprocess.run(["dot", "-Tsvg", "class.dot"], cwd=converted.folder, capture_output=True, check=True).stdout
    tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(drawn).iter()}
    assert tags <= {"svg", "g", "title", "polygon", "path", "text"}


@pytest.mark.slow
def test_doxygen_shows_every_name_as_text(converted: Converted, tmp_path: Path) -> None:
    if shutil.which("doxygen") is None:
        pytest.skip("no Doxygen")
    copy = tmp_path / "class"
    shutil.copytree(converted.folder, copy)
    done = subprocess.run(["doxygen"], cwd=copy / "doc", capture_output=True, text=True, check=True)
    assert "pages.dox" not in done.stderr
    page = (copy / "doc" / "html" / "index.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "<img src=x" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_the_audit_finds_nothing(converted: Converted, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", str(converted.folder / "class_gen.cpp")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.isprintable() for line in lines)
    (outputs,) = (line for line in lines if line.startswith("outputs: "))
    assert outputs.count('", "') >= len(OUTPUTS) - 1


def test_the_network_runs_and_its_outputs_keep_their_names(
    converted: Converted, tmp_path: Path, compiler: None
) -> None:
    np.save(tmp_path / "given.npy", np.ones((1, 4, 4, 8), np.float32))
    saved = tmp_path / "saved.npz"
    given = str(tmp_path / "given.npy")
    assert cli.main(["run", "-q", str(converted.ini), "--inputs", given, "--output", str(saved)]) == 0
    with np.load(saved) as archive:
        assert list(archive) == OUTPUTS


def test_an_export_writes_into_its_folder_alone(converted: Converted, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli.main(["layouts", "export", "-q", str(converted.ini), "--target", "dv700", "--output", str(out)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert all(re.fullmatch(r"[\w.-]+", path.name) for path in out.iterdir())
    layers = {entry["layer"] for entry in json.loads((out / "manifest.json").read_text())["surfaces"]}
    assert layers <= {*NAMES, "input <i>\n"}


def test_an_inspection_is_json_and_lines(converted: Converted, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(converted.ini), "--json"]) == 0
    found = {row["name"] for row in json.loads(capsys.readouterr().out)["layers"]}
    assert found >= set(NAMES)
    assert cli.main(["inspect", str(converted.ini), "-v"]) == 0
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())


# --- names that Caffe and Keras read -------------------------------------------------------------------------------------


def caffe(names: Sequence[str], folder: Path) -> Path:
    """A chain of convolutions with these names, every character written in octal."""

    def quoted(name: str) -> str:
        return '"' + "".join(f"\\{byte:03o}" for byte in name.encode()) + '"'

    text = "input: 'data' input_shape { dim: 1 dim: 8 dim: 4 dim: 4 }\n"
    for before, name in zip(["data", *names], names, strict=False):
        text += f"layer {{ name: {quoted(name)} type: 'Convolution' bottom: {quoted(before)} top: {quoted(name)}\n"
        text += "  convolution_param { num_output: 8 kernel_size: 1 bias_term: false } }\n"
    (folder / "net.prototxt").write_text(text)
    kernel = np.eye(8, dtype=np.float32).reshape(8, 8, 1, 1)
    caffemodel.write(folder / "net.caffemodel", [(name, "Convolution", [kernel]) for name in names])
    return folder / "net.prototxt"


def keras(names: Sequence[str], folder: Path) -> Path:
    """The example with other names of its layers."""
    with zipfile.ZipFile(EXAMPLES / "digits_keras" / "digits.keras") as given:
        members = {name: given.read(name) for name in given.namelist()}
    config = json.loads(members["config.json"])
    others = dict(zip([layer["name"] for layer in config["config"]["layers"]], names, strict=False))

    def renamed(value: Any) -> Any:
        match value:
            case dict():
                return {key: renamed(inner) for key, inner in value.items()}
            case list():
                return [renamed(inner) for inner in value]
            case _:
                return others.get(value, value) if isinstance(value, str) else value

    members["config.json"] = json.dumps(renamed(config)).encode()
    with zipfile.ZipFile(folder / "net.keras", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return folder / "net.keras"


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("write", [caffe, keras])
def test_names_of_other_frameworks_change_no_code(write: Callable[[Sequence[str], Path], Path], tmp_path: Path) -> None:
    def code(names: Sequence[str]) -> str:
        definition = write(names, tmp_path)
        config = Config(definition=definition, name="network", generate_source=True)
        config = replace(config, data=definition.with_suffix(".caffemodel") if write is caffe else definition)
        graph = load(config)
        found = {origin.layer for node in graph.nodes for origin in node.origins}
        assert found & set(names) == found - {"data"} and len(found) > 10
        texts = render(build(graph, config), RenderOptions("m"))
        text = texts["network_gen.h"] + texts["network_gen.cpp"]
        return re.sub(r'//.*|"(?:[^"\\\n]|\\.)*"|\bkOutput_\w+', "", text)

    plain = [f"layer{position}" for position in range(len(NAMES))]
    assert code(NAMES) == code(plain)
    assert code([*NAMES[17:], *NAMES[:17]]) == code(plain)


def test_nothing_ran(converted: Converted) -> None:
    assert [path for path in (*converted.root.rglob("*pwned*"), *Path().glob("*pwned*")) if path.name == "pwned"] == []
