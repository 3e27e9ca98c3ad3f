"""No output of any command takes the place of what the command reads, by whatever name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from cnn_convertor import cli
from cnn_convertor.cli.entry import commands
from cnn_convertor.cli.shared_options import Output

ROOT = Path(__file__).resolve().parents[2]
BOARD = ROOT / "cnn_convertor/devices/dv700/boards/dv740.toml"
EXAMPLE = ROOT / "examples/digits_keras/digits_keras2.h5"


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a model with external data, its ini file, a device, samples, and a table of buffers."""
    monkeypatch.chdir(tmp_path)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")]
    weights = numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32), "w")
    sides = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in SHAPES.items()]
    model = helper.make_model(helper.make_graph(nodes, "net", sides[:1], sides[1:], [weights]), ir_version=8)
    model.opset_import[0].version = 13
    save(model, "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    write_ini()
    shutil.copy(BOARD, "board.toml")
    np.save("x.npy", np.zeros((8, 8, 3), np.float32))
    Path("t.csv").write_text("id,lower,upper,size\na,0,1,4\n")
    return tmp_path


SHAPES = {"x": [1, 3, 8, 8], "y": [1, 8, 6, 6]}


def write_ini(name: str = "n", definition: str = "m.onnx", device: str = "board.toml", more: str = "") -> None:
    Path("n.ini").write_text(
        f"[INPUT]\nname = {name}\ndefinition = {definition}\norigin = ONNX\n{more}\n"
        "[OUTPUT]\noutput_folder = out\ngenerate_source = 1\ngenerate_dot = 1\ngenerate_doxy = 1\nreport = 1\n"
        f"[OPTIONAL]\ndevice = {device}\n"
    )


# Each option that names an output, of each command -> arguments of the command without it, and the files that it reads.
INPUTS = "n.ini m.onnx w.data board.toml"
WRITING = {
    "convert --depfile": ("convert n.ini", INPUTS),
    "run --output": ("run n.ini --inputs x.npy", f"{INPUTS} x.npy"),
    "verify --json": ("verify n.ini", INPUTS),
    "verify --times": ("verify n.ini --board out", "n.ini"),
    "sweep --html": ("sweep n.ini --vary quantization=0", INPUTS),
    "sweep --csv": ("sweep n.ini --vary quantization=0", INPUTS),
    "sweep --json": ("sweep n.ini --vary quantization=0", INPUTS),
    "report --html": ("report n.ini", INPUTS),
    "report --json": ("report n.ini", INPUTS),
    "report --svg": ("report n.ini", INPUTS),
    "report --memory-svg": ("report n.ini", INPUTS),
    "init --output": ("init m.onnx", "m.onnx"),
    "layouts plan --output": ("layouts plan t.csv", "t.csv"),
    "layouts pack target": ("layouts pack --to hwc8 --from HWC x.npy", "x.npy"),
    "layouts unpack target": ("layouts unpack --from HWC --shape 8,8,3 --element float32 x.npy", "x.npy"),
    "layouts convert target": ("layouts convert --from HWC --to CHW x.npy", "x.npy"),
}
WITHOUT_INPUTS = {"layouts describe --output"}  # it reads no file


def written_by(group: click.Group, path: str = "") -> Iterator[str]:
    """Each parameter of each command that names a file to be written."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from written_by(command, f"{path}{name} ")
            continue
        for parameter in command.params:
            if isinstance(parameter.type, Output):
                longest = parameter.opts[-1] if isinstance(parameter, click.Option) else parameter.name
                yield f"{path}{name} {longest}"


def test_every_option_that_names_an_output_has_its_case() -> None:
    assert {*written_by(commands)} == {*WRITING, *WITHOUT_INPUTS}


CASES = [(option, path) for option, (_, paths) in WRITING.items() for path in paths.split()]


@pytest.mark.parametrize("way", ["path", "link", "hard link"])
@pytest.mark.parametrize(("option", "path"), CASES)
def test_no_output_replaces_an_input(
    option: str, path: str, way: str, network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.read_bytes() for file in network.iterdir()}
    target = {"path": path, "link": "link.npz", "hard link": "hard.npz"}[way]
    if way == "link":
        Path(target).symlink_to(path)
    elif way == "hard link":
        os.link(path, target)
    name = option.rpartition(" ")[2]
    given = [name, target] if name.startswith("-") else [target]
    assert cli.main([*WRITING[option][0].split(), *given]) != 0
    error = capsys.readouterr().err
    assert "DV100" in error or "DV840: x.npy: hwc8 has blocks" in error
    assert {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize("option", [option for option, (_, paths) in WRITING.items() if paths.startswith(INPUTS)])
def test_no_output_replaces_a_model_that_the_library_of_hdf5_opens(
    option: str, network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(EXAMPLE, "m.h5")
    os.link("m.h5", "hard.npz")
    np.save("x.npy", np.zeros((8, 8, 1), np.float32))
    Path("n.ini").write_text(Path("n.ini").read_text().replace("m.onnx\norigin = ONNX", "m.h5"))
    assert cli.main([*WRITING[option][0].split(), option.rpartition(" ")[2], "hard.npz"]) == 2
    assert "DV100" in capsys.readouterr().err and Path("m.h5").read_bytes() == EXAMPLE.read_bytes()


def test_a_first_ini_file_replaces_nothing(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("w.data").read_bytes()
    assert cli.main(["init", "m.onnx", "-o", "w.data"]) == 2
    assert "DV162" in capsys.readouterr().err and Path("w.data").read_bytes() == before


@pytest.mark.parametrize("input_name", ["n.json", "n.dot", "n_weights.bin", "n_gen.cpp", "n.html", "doc/pages.dox"])
@pytest.mark.parametrize("key", ["definition", "external data", "device", "ini", "custom_layer", "calibrate"])
@pytest.mark.parametrize("jobs", [[], ["--jobs", "2"]], ids=["here", "processes"])
def test_no_conversion_replaces_an_input(
    input_name: str, key: str, jobs: list[str], network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = network / "out/n" / input_name
    kept.parent.mkdir(parents=True)
    more: list[str] = []
    match key:
        case "definition":
            shutil.copy("m.onnx", kept)
            shutil.copy("w.data", kept.parent)
            write_ini(definition=str(kept))
        case "external data":
            kept.write_bytes(Path("w.data").read_bytes())
            Path("w.data").unlink()
            os.link(kept, "w.data")
        case "device":
            shutil.copy("board.toml", kept)
            Path("board.toml").unlink()
            Path("board.toml").symlink_to(kept)
        case "ini":
            Path("n.ini").rename(kept)
            Path("n.ini").symlink_to(kept)
        case "custom_layer":
            kept.write_text("")
            write_ini(more=f"custom_layer = {kept}")
        case "calibrate":
            shutil.copy("x.npy", kept)
            Path("x.npy").unlink()
            Path("x.npy").symlink_to(kept)
            more = ["--calibrate", "x.npy"]
    content = kept.read_bytes()
    outcome = cli.main(["convert", "n.ini", *more, *jobs])
    assert kept.read_bytes() == content
    code = "DV208" if (key, input_name) == ("definition", "n.json") else "DV100"  # no model of ONNX ends in .json
    assert outcome == 2 and code in capsys.readouterr().err
