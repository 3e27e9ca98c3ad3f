"""Every public function takes a network in every form."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cnn_convertor
from cnn_convertor import Buffer, Config, ConvertorError, convert, convert_all, inspect, load, plan, run, sweep, verify
from cnn_convertor.ir.constant import Constant

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ONNX = EXAMPLES / "digits_pytorch" / "digits.onnx"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in ("net.ini", "digits.keras"):
        shutil.copy(EXAMPLES / "digits_keras" / file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def proto() -> Any:
    return pytest.importorskip("onnx").load(ONNX)


def keras_model() -> Any:
    pytest.importorskip("tensorflow")
    return pytest.importorskip("keras").models.load_model(EXAMPLES / "digits_keras" / "digits.keras")


FORMS = {
    "text": lambda: "net.ini",
    "path": lambda: Path("net.ini"),
    "model": lambda: "digits.keras",
    "config": lambda: Config.read("net.ini"),
    "bytes": ONNX.read_bytes,
    "onnx": proto,
    "keras": keras_model,
}


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_network_has_many_forms(form: str, folder: Path) -> None:
    network = FORMS[form]()
    made = convert(network, output_folder="made", name="net", device="zia-c3", fusion="full")
    assert "net_gen.cpp" in [path.name for path in made.files]
    assert all(path.is_file() and path.parts[:2] == ("made", "net") for path in made.files)
    assert (made.report.device.name, made.report.device.fusion) == ("zia-c3", "full")
    assert inspect(network, device="zia-c3").device.name == "zia-c3"
    values = (getattr(node.op, field.name) for node in load(network).nodes for field in fields(node.op))
    weights = [value.load() for value in values if isinstance(value, Constant)]
    assert len(weights) > 8
    assert all(np.isfinite(value).all() for value in weights)


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("form", FORMS)
def test_a_network_of_every_form_runs_and_is_verified(form: str, folder: Path) -> None:
    pytest.importorskip("tensorflow")
    network = FORMS[form]()
    images = np.load(EXAMPLES / "digits_test.npz")["images"][:2] / 16
    (scores,) = run(network, images).values()
    assert scores.shape == (2, 1, 1, 10)
    assert verify(network, inputs=images, quantization=False).passed
    assert all(row.figures for row in sweep(network, {"quantization": [False, "1"]}).rows)


def test_models_in_memory_leave_no_files_behind(folder: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    first = convert(ONNX.read_bytes())
    contents = [path.read_bytes() for path in first.files]
    assert {path.name for path in folder.iterdir()} - before == {"network"}
    assert [path.read_bytes() for path in convert(ONNX.read_bytes()).files] == contents


def test_paths_import_no_framework(folder: Path) -> None:
    code = "import sys, cnn_convertor as c; c.convert('net.ini'); print(sorted({'tensorflow', 'keras', 'onnx'} & {*sys.modules}))"
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("network", [None, 3, ["net.ini"], object(), np.zeros(3)])
def test_what_is_no_network_is_a_type_error(network: Any) -> None:
    for function in (convert, inspect, load, verify):
        with pytest.raises(
            TypeError, match=r"expected the path of an ini file or of a model, a Config, a Keras model.* not "
        ):
            function(network)
    with pytest.raises(TypeError, match="expected the path"):
        run(network, np.zeros(3))


def test_a_network_of_pytorch_names_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    module = type("Module", (), {"__module__": "torch.nn.modules.module"})
    with pytest.raises(TypeError, match=r"torch\.onnx\.export\(model"):
        convert(module())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fussion": "full"}, 'there is no option "fussion"; did you mean "fusion"'),
        ({"mean": object()}, "mean: expected a number"),
        ({"outputs": [1]}, "outputs: expected names of layers"),
        ({"scale": {"a": 1}}, "scale: expected a number"),
        ({"output_folder": 5}, "output_folder: expected a folder, not a value of type int"),
    ],
)
def test_wrong_types_of_options(options: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(TypeError, match=message):
        convert("net.ini", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fusion": "fast"}, 'fusion: expected proven, documented, full or none, not "fast"'),
        ({"quantization": 2}, 'quantization: expected 0, 1 or auto, not "2"'),
        ({"name": "a-b"}, "name: expected a name.*\n.*\n  try: name = a_b"),
        ({"output_folder": "~/a"}, 'output_folder: "~/a" begins with ~'),
        ({"width_override": 16}, "width_override and height_override must be given together"),
        ({"device": "zia"}, 'there is no device "zia"; did you mean "zia-c3"'),
        ({"mean": float("nan")}, "mean: expected a number"),
        ({"height_override": 2.5, "width_override": 2}, "height_override: expected a number of pixels"),
    ],
)
def test_wrong_values_of_options(options: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(ConvertorError, match=message):
        convert("net.ini", **options)


def test_values_are_as_python_has_them(folder: Path) -> None:
    given = Config.of(
        "digits.keras",
        mean=np.float32(0.5),
        scale=[2],
        outputs=["a", "b"],
        quantization="auto",
        device="zia-c3",
        data="digits.keras",
    )
    text = Config.of("digits.keras", mean="0.5", scale="2", outputs="a, b", quantization="auto", device="zia-c3")
    assert given == text
    assert (given.mean, given.scale, given.outputs) == ((0.5,), 2.0, ("a", "b"))


@pytest.mark.slow
def test_samples_calibrate_from_memory(folder: Path) -> None:
    images = np.load(EXAMPLES / "digits_test.npz")["images"][:4] / 16
    made = convert("net.ini", calibrate=images, quantization=True)
    assert made.report.calibration is not None
    assert (
        made.report.calibration
        == convert("net.ini", calibrate={"image": images.tolist()}, quantization="1").report.calibration
    )


def test_samples_of_a_wrong_type(folder: Path) -> None:
    for inputs in (object(), 3, {"image": None}):
        with pytest.raises(TypeError, match="expected a path, an array, or input names with arrays"):
            verify("net.ini", inputs=inputs)  # type: ignore[arg-type]
    with pytest.raises(ConvertorError, match="an array of 3 does not fit the input"):
        run("net.ini", {"other": np.zeros(3)})


def test_an_error_in_a_model_in_memory_names_no_temporary_folder() -> None:
    with pytest.raises(ConvertorError, match=r"DV201.*\n  --> network\.onnx\n"):
        convert(b"no model")


def test_arguments_of_a_wrong_form(folder: Path) -> None:
    with pytest.raises(TypeError, match="expected a list of networks"):
        convert_all("net.ini")
    with pytest.raises(TypeError, match="not a value of type list; convert_all takes several"):
        convert(["net.ini"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"on: expected Processes\(N\) or Cluster"):
        convert_all(["net.ini"], on=4)  # type: ignore[arg-type]
    for vary in ({"quantization": 0}, {"device": "zia-c3"}, ["quantization"]):
        with pytest.raises(TypeError, match="expected a mapping of keys to lists of values"):
            sweep("net.ini", vary)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected arrays: "):
        run("net.ini", [[1, 2], [3]])
    with pytest.raises(ConvertorError, match="expected at least one sample, not 0"):
        verify("net.ini", samples=0)


@pytest.mark.parametrize(
    ("buffers", "alignment", "message"),
    [
        ([Buffer("a", 1, 0, 1)] * 2, 1, "two buffers have the same name"),
        ([Buffer("a", -1, 0, 1)], 1, "a has a negative size"),
        ([Buffer("a", 1, 0, 1)], 0, "the alignment is at least 1, not 0"),
    ],
)
def test_buffers_that_cannot_be(buffers: list[Buffer], alignment: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(buffers, alignment=alignment)


def test_many_networks_are_converted_and_one_may_fail(folder: Path) -> None:
    made = convert_all(["net.ini", Config.of("digits.keras", name="other", outputs=["nothing"])], output_folder="made")
    assert [outcome.result is None for outcome in made] == [False, True]
    assert made[1].problems


def test_the_cache_is_an_option(folder: Path) -> None:
    first = convert("net.ini", cache_folder="cache")
    assert convert("net.ini", cache_folder="cache").files == first.files
    assert (folder / "cache" / "entries").is_dir()


def test_public_names_exist() -> None:
    for name in cnn_convertor.__all__:
        assert getattr(cnn_convertor, name) is not None
        assert name in dir(cnn_convertor)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = cnn_convertor.nothing_of_this_name


def test_results_show_themselves_in_a_notebook(folder: Path) -> None:
    assert convert("net.ini")._repr_html_().startswith("<iframe")


def test_a_model_in_memory_that_cannot_be_written(folder: Path) -> None:
    def save(self: object, filepath: str) -> None:
        raise ValueError("it has no inputs yet")

    names = {"__module__": "keras.models", "name": "mine", "save": save, "get_config": dict}
    with pytest.raises(ConvertorError, match="DV139: Keras cannot save the model: it has no inputs yet"):
        convert(type("Model", (), names)())
    proto = type("ModelProto", (), {"SerializeToString": lambda self: save(self, "")})
    with pytest.raises(ConvertorError, match="DV139: the ONNX model cannot be serialized"):
        convert(proto())
