"""A verification passes only when the values that it compares prove something."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import cnn_convertor
from cnn_convertor.board.kit import Inputs, write_kit
from cnn_convertor.cli import main
from cnn_convertor.config import Config
from cnn_convertor.conversion.convert import convert
from cnn_convertor.errors import ConvertorError, ConvertorWarning, Origin, UsageError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.trials.labels import read_classes
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.compare import compare
from cnn_convertor.verification.results import Verification
from development.benchmarks.damages import DAMAGES, measure
from reference import ir_reference
from verification.trials import config

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAMPLES = EXAMPLES / "digits_samples"
needs_compiler = pytest.mark.usefixtures("compiler")


def maps(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32).reshape(1, 1, 1, -1)


@pytest.mark.parametrize(
    ("device", "reference", "doubt"),
    [
        ((1, 2), (1, 2), ""),
        ((0, 0), (0, 0), "all values are 0"),
        ((0.5, 0.5), (0.5, 0.5), "all values are 0.5"),
        ((0.5, 0.25), (0.5, 0.5), "all values are 0.5"),
        ((2,), (2,), ""),
        ((0,), (0,), "all values are 0"),
        ((np.nan, 1), (np.nan, 1), "NaN or infinity in the values of the device and the framework"),
        ((np.inf, 1), (2, 1), "NaN or infinity in the values of the device"),
    ],
)
def test_values_that_prove_nothing_are_doubtful(
    device: tuple[float, ...], reference: tuple[float, ...], doubt: str
) -> None:
    assert compare("x", maps(*device), maps(*reference)).doubt == doubt


def chain(weight: float, bias: float, *then: ops.Op) -> Graph:
    """A fully connected layer "fc" of 8 numbers, and what follows it."""
    kernels = Constant.of(weight * np.random.default_rng(0).normal(size=(6, 8, 1, 1)))
    nodes = [Node("x", ops.Input(Shape(1, 1, 8)))]
    for name, op in zip(("fc", "y", "z"), (ops.Dense(kernels, Constant.of(np.full(6, bias))), *then), strict=False):
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name, type(op).__name__),)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def verified(graph: Graph, folder: Path, *known: str) -> Verification:
    """Compare a network with results that come with the inputs. known: layers beside the outputs whose results are given."""
    inputs = {"x": np.random.default_rng(1).normal(size=(3, 1, 1, 8)).astype(np.float16).astype(np.float32)}
    results = [ir_reference.run(graph, {"x": sample}) for sample in inputs["x"]]
    expected = {f"expected_{name}": np.stack([r[name] for r in results]) for name in (*graph.outputs, *known)}
    np.savez(folder / "given.npz", **inputs, **expected)  # type: ignore[arg-type]  # names are no keywords of numpy's
    return verify(config(Path("graph.keras")), graph=graph, inputs=folder / "given.npz")


@needs_compiler
def test_an_output_that_is_zero_everywhere_is_not_verified(tmp_path: Path) -> None:
    result = verified(chain(1, -500, ops.Activation(ops.Relu())), tmp_path)
    assert not result.failed and not result.passed
    assert [(o.name, o.doubt) for o in result.unverified] == [("y", "all values are 0")]


@needs_compiler
def test_a_saturated_softmax_is_not_verified_unless_its_input_is_known(tmp_path: Path) -> None:
    graph = chain(500, 0, ops.Softmax())
    result = verified(graph, tmp_path)
    assert result.outputs[0].sqnr > 100 and not result.passed
    assert [o.doubt for o in result.unverified] == ["the softmax is saturated on every sample"]
    known = verified(graph, tmp_path, "fc")
    assert known.passed and [o.name for o in known.outputs] == ["y", "fc, before y"]


@needs_compiler
def test_an_ordinary_softmax_is_verified(tmp_path: Path) -> None:
    result = verified(chain(1, 0, ops.Softmax()), tmp_path)
    assert result.passed and [o.name for o in result.outputs] == ["y", "y before softmax"]


# --- the command line ----------------------------------------------------------------------------------------------------


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """The ini file of a network whose files are written to a folder of its own."""
    for name in ("net.ini", "digits.prototxt", "digits.caffemodel"):
        shutil.copy(EXAMPLES / "digits_caffe" / name, tmp_path)
    return tmp_path / "net.ini"


@pytest.mark.slow
@needs_compiler
def test_files_of_other_settings_are_a_warning_of_one_line_and_an_error_for_disk(
    digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["verify", str(digits), "--samples", "1"]
    assert main(command) == 0
    assert "DV736" not in capsys.readouterr().err, "nothing was converted yet"
    source = next(path for path in convert(Config.read(digits)).files if path.name.endswith("_gen.cpp"))
    assert main(command) == 0
    assert "DV736" not in capsys.readouterr().err
    whole = source.read_bytes()
    source.write_bytes(whole.replace(b"actfunc = 2", b"actfunc = 3", 1))
    image = str(next(SAMPLES.glob("*.png")))
    for warned in (command, ["run", str(digits), "--input", image], ["report", str(digits), "--verify"]):
        assert main(warned) == 0
        said = capsys.readouterr().err
        assert said.count("warning DV736: files there are not those of this conversion: digits_caffe_gen.cpp\n") == 1
    assert main([*command, "--strict"]) == 1
    capsys.readouterr()
    assert main([*command, "--ub-size", "131072"]) == 0
    assert "DV736" not in capsys.readouterr().err, "the caller has overridden an option"
    with pytest.warns(ConvertorWarning, match="DV736"):
        write_kit(Config.read(digits), digits.with_name("kit"), Inputs(samples=1))
    capsys.readouterr()
    report = digits.with_name("report.json")
    assert main([*command, "--disk", "--json", str(report)]) == 1
    out, err = capsys.readouterr()
    assert "error DV718: the file is not what the conversion gives:" in err and "in Layer_0" in err
    assert "fail: what runs is not what the conversion gives: digits_caffe_gen.cpp" in out
    assert [each["file"] for each in json.loads(report.read_text())["stale_files"]] == [source.name]
    source.write_bytes(whole.replace(b"// made by cnn-convertor", b"// made by cnn-convertor 0.0.1", 1))
    assert main([*command, "--disk"]) == 0, "another version, the same code"
    source.unlink()
    capsys.readouterr()
    assert main([*command, "--disk"]) == 1
    assert "DV718: missing files" in capsys.readouterr().err


@pytest.mark.slow
@needs_compiler
def test_other_files_are_no_matter_where_the_caller_overrides_an_option(digits: Path) -> None:
    convert(Config.read(digits))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvertorWarning)
        assert cnn_convertor.verify(digits, samples=1, fusion="none").passed
    with pytest.raises(ConvertorError, match="DV718: the file is not what the conversion gives"):
        cnn_convertor.verify(digits, samples=1, fusion="none", disk=True)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@needs_compiler
def test_files_that_were_calibrated_are_verified_with_the_same_samples(
    digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digits.write_text(digits.read_text().replace("quantization = 0", "quantization = 1"))
    calibrate = ["--calibrate", str(SAMPLES)]
    assert main([str(digits), *calibrate]) == 0
    command = ["verify", str(digits), "--samples", "1", "--disk"]
    capsys.readouterr()
    assert main(command) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "error DV718: " in said and "give `verify` the same --calibrate" in said
    assert "digits_caffe_weights.bin" in said
    assert main([*command, *calibrate]) == 0


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@needs_compiler
def test_verify_of_the_disk_finds_a_damage_of_every_kind(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = Config.read(digits)
    folder = convert(config).files[0].parent
    whole = shutil.copytree(folder, digits.with_name("whole"))
    for damage in DAMAGES.values():
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
        assert damage(folder, config.name, random.Random(1))
        assert main(["verify", str(digits), "--samples", "1", "--disk"]) == 1
        assert "error" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_most_damages_are_found_everywhere(digits: Path) -> None:
    made, found = measure(Config.read(digits), 40, 0)
    for kind, count in made.items():
        assert {found[kind, judge] for judge in ("verify, a warning", "check", "audit")} == {count}
    for kind in set(made) - {"deleted file", "cut file"}:  # of which a report may be one, which does not run
        assert found[kind, "verify --disk"] == made[kind]
    changes = ("register", "offset")
    assert sum(found[kind, "audit without manifest"] for kind in changes) >= 0.9 * sum(made[kind] for kind in changes)


@needs_compiler
def test_a_network_whose_sources_are_not_written_is_compared_with_its_weights_alone(digits: Path) -> None:
    digits.write_text(digits.read_text().replace("generate_source = 1", "generate_source = 0"))
    weights = next(path for path in convert(Config.read(digits)).files if path.name.endswith("_weights.bin"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvertorWarning)
        assert verify(Config.read(digits), samples=1).passed
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.warns(ConvertorWarning, match="DV736.*digits_caffe_weights.bin"):
        assert verify(Config.read(digits), samples=1).passed


@needs_compiler
def test_labels_give_the_accuracy_of_both_sides(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = digits.with_name("labels.txt")
    labels.write_text("".join(f"{label}\n" for label in [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]))
    command = ["verify", str(digits), "--inputs", str(SAMPLES), "--labels", str(labels)]
    assert main(command) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["accuracy", "Caffe's", "formulas", "device"] in rows and ["prob", "90.0%", "90.0%"] in rows
    labels.write_text("zero\n")
    assert main(command) == 2
    assert "DV707: expected 10 lines, a class number for each sample" in capsys.readouterr().err
    for wrong in ("zero", "1" * 30, "-1", ""):
        labels.write_text("1\n" * 8 + f"{wrong}\n2\n")
        assert main(command) == 2
        assert f'DV707: line 9 is not a class number: "{wrong[:20]}"' in capsys.readouterr().err
    labels.write_text("1\n" * 9 + "10\n")
    assert main(command) == 2
    assert "DV707: line 10 has the class 10, but the network's classes end at 9" in capsys.readouterr().err


def test_labels_are_for_outputs_that_are_vectors(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("0\n")
    graph = Graph((Node("x", ops.Input(Shape(2, 2, 8))), Node("y", ops.Activation(ops.Relu()), ("x",))), ("y",))
    with pytest.raises(UsageError, match="DV707: accuracy is computed for outputs that are vectors"):
        read_classes(tmp_path / "labels.txt", 1, graph)


@needs_compiler
def test_run_warns_of_values_that_are_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cnn_convertor.trials import run as trials

    graph = chain(10000, 0)
    np.save(tmp_path / "x.npy", np.full((1, 8), 60000, np.float32))
    monkeypatch.setattr(trials, "read_whole", lambda _: graph)
    with pytest.warns(ConvertorWarning, match='DV719: the output "fc" holds NaN or infinity'):
        trials.run(config(Path("graph.keras")), tmp_path / "x.npy")


# --- results that are given ----------------------------------------------------------------------------------------------


@needs_compiler
def test_given_results_in_another_order_of_axes_are_refused(tmp_path: Path) -> None:
    kernels = Constant.of(np.random.default_rng(0).normal(size=(5, 2, 1, 1)))
    window = ops.Window(ops.Pair(1, 1))
    conv = Node("y", ops.Conv2d(kernels, None, window), ("x",), (Origin("net", "y", "Conv2D"),))
    graph = Graph((Node("x", ops.Input(Shape(3, 4, 2))), conv), ("y",))
    image = np.random.default_rng(1).normal(size=(3, 4, 2)).astype(np.float16).astype(np.float32)
    result = ir_reference.run(graph, {"x": image})["y"]
    chosen = config(Path("graph.keras"))
    np.savez(tmp_path / "right.npz", x=image[np.newaxis], expected_y=result[np.newaxis])
    assert verify(chosen, graph=graph, inputs=tmp_path / "right.npz").passed
    np.savez(tmp_path / "turned.npz", x=image[np.newaxis], expected_y=result.transpose(2, 0, 1)[np.newaxis])
    with pytest.raises(UsageError, match="DV707: expected_y has the shape N x 5x3x4, but the framework's order"):
        verify(chosen, graph=graph, inputs=tmp_path / "turned.npz")


def test_palettes_of_a_network_with_other_commands_are_the_same(tmp_path: Path) -> None:
    from cnn_convertor.devices.dv700.accelerator import Dv700
    from cnn_convertor.devices.dv700.weights.palettes import with_weights_of
    from cnn_convertor.devices.settings import Fusion
    from cnn_convertor.pipeline import build, load, plan

    chosen = replace(Config.read(EXAMPLES / "digits_caffe" / "net.ini"), quantization=True, fusion="full")
    graph = load(chosen)
    program = build(graph, chosen)
    unfused = with_weights_of(
        plan(graph, "net", Dv700.of(chosen.hardware, chosen.settings)._replace(fusion=Fusion.NONE)), program
    )
    assert len(unfused.layers) > len(program.layers)
    assert {w.where: w.choice for w in unfused.weights} == {w.where: w.choice for w in program.weights}
