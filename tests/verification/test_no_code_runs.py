"""Verification gives untrusted files to Keras; code in them never runs."""

from __future__ import annotations

import json
import marshal
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import pytest

from cnn_convertor.config import Config
from cnn_convertor.errors import ConvertorError, ModelError
from cnn_convertor.frontends.keras.model_files import open_model
from cnn_convertor.pipeline import load
from cnn_convertor.verification.keras_models import load_model

pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="keras reads the files")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits_keras"
RAN = "ran"  # the file that code would write
BODY = b64encode(marshal.dumps(compile(f"open({RAN!r}, 'w')", "lambda", "eval"))).decode()
LAMBDA = {"module": "keras", "class_name": "__lambda__", "config": {"code": BODY, "defaults": None, "closure": None}}
SMUGGLED: dict[str, Any] = {
    "a lambda": LAMBDA,
    "a Lambda layer": {"module": "keras.layers", "class_name": "Lambda", "config": {"name": "x", "function": LAMBDA}},
    "a function of Python": {"module": "builtins", "class_name": "function", "config": "exec", "registered_name": "exec"},
    "a function of the system": {"module": "os", "class_name": "function", "config": "system", "registered_name": "x"},
    "a module": {"module": "evil", "class_name": "Evil", "config": {}},
    "a download": {"module": "keras.src.utils.file_utils", "class_name": "get_file", "config": {"fname": RAN, "origin": "file:///etc/hostname"}},
}  # fmt: skip
SETTINGS = (
    "kernel_initializer",
    "kernel_regularizer",
    "kernel_constraint",
    "activity_regularizer",
    "dtype",
    "activation",
)


@pytest.fixture(autouse=True)
def nothing_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working directory with a module to import; nothing in it runs."""
    (tmp_path / "evil.py").write_text(f"open({RAN!r}, 'w')\nclass Evil: pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    assert not (tmp_path / RAN).exists()


@pytest.mark.usefixtures("hdf5_in_this_process")
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("what", SMUGGLED)
def test_no_setting_of_a_layer_runs_code(what: str, setting: str, tmp_path: Path) -> None:
    path = tmp_path / "net.keras"
    with zipfile.ZipFile(EXAMPLE / "digits.keras") as given, zipfile.ZipFile(path, "w") as archive:
        for name in given.namelist():
            config = json.loads(given.read(name)) if name == "config.json" else None
            if config is not None:
                config["config"]["layers"][1]["config"][setting] = SMUGGLED[what]
            archive.writestr(name, given.read(name) if config is None else json.dumps(config))
    try:
        load(Config.of(path))
        load_model(open_model(path), path, None)
    except ConvertorError:
        pass  # refused, or never looked at


def with_lambda(path: Path, inbound: list[Any]) -> Path:
    """The example as a file of Keras 2, with one more layer."""
    layer = {
        "name": "evil",
        "function": [BODY, None, None],
        "function_type": "lambda",
        "module": "evil",
        "arguments": {},
    }
    with h5py.File(EXAMPLE / "digits_keras2.h5") as given, h5py.File(path, "w") as file:
        for name, value in given.attrs.items():
            file.attrs[name] = value
        given.copy("model_weights", file)
        config = json.loads(given.attrs["model_config"])
        config["config"]["layers"].append(
            {"class_name": "Lambda", "name": "evil", "config": layer, "inbound_nodes": inbound}
        )
        file.attrs["model_config"] = json.dumps(config)
    return path


def test_a_lambda_layer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConvertorError, match="DV301: layers of the type Lambda cannot be converted"):
        load(Config.of(with_lambda(tmp_path / "net.h5", [[["image", 0, 0, {}]]])))


def test_a_lambda_layer_that_nothing_reads_is_not_loaded(tmp_path: Path) -> None:
    path = with_lambda(tmp_path / "net.h5", [])
    with pytest.raises(ModelError, match="DV712"):
        load_model(open_model(path), path, None)


@pytest.mark.usefixtures("hdf5_in_this_process")
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("what", SMUGGLED)
def test_no_setting_in_json_runs_code(what: str, setting: str, tmp_path: Path) -> None:
    path, whole = tmp_path / "net.json", EXAMPLE / "digits.keras"
    with zipfile.ZipFile(whole) as given:
        config = json.loads(given.read("config.json"))
    config["config"]["layers"][1]["config"][setting] = SMUGGLED[what]
    path.write_text(json.dumps(config))
    try:
        load(Config.of(path, data=whole))
        load_model(open_model(path), whole, None)
    except ConvertorError:
        pass  # refused, or never looked at


@pytest.mark.parametrize("weights", ["net.h5", "net.weights.h5"])
def test_a_lambda_layer_in_json_is_not_loaded(weights: str, tmp_path: Path) -> None:
    with h5py.File(with_lambda(tmp_path / "net.h5", [])) as file:
        about = {"keras_version": "2.4.0", "backend": "tensorflow"}
        (tmp_path / "net.json").write_text(json.dumps({**json.loads(file.attrs["model_config"]), **about}))
    with zipfile.ZipFile(EXAMPLE / "digits.keras") as archive:
        (tmp_path / "net.weights.h5").write_bytes(archive.read("model.weights.h5"))
    with pytest.raises(ModelError, match="DV712"):
        load_model(open_model(tmp_path / "net.json"), tmp_path / weights, None)
