"""An ini file that `init` writes gives the configuration of its model, and says what it guesses."""

from __future__ import annotations

from pathlib import Path
from shutil import copy

import numpy as np
import pytest

from cnn_convertor.config import KEYS, Config, name_of
from cnn_convertor.conversion.first_ini import first_ini, guessed_preprocessing
from cnn_convertor.devices.settings import Quantization
from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def scaled(factor: float, *, between: bool = False) -> Graph:
    """A network that scales its input first, or behind a pool."""
    scale = ops.Scale(Constant.of(np.full(3, factor)))
    pool = ops.MaxPool2d(ops.Window(ops.Pair(1, 1)))
    nodes = [Node("x", ops.Input(Shape(4, 4, 3)))]
    if between:
        nodes.append(Node("p", pool, ("x",), (Origin("net", "pool"),)))
    nodes.append(Node("y", scale, (nodes[-1].name,), (Origin("net", "rescale"),)))
    return Graph(tuple(nodes), ("y",))


@pytest.mark.parametrize("model", ["digits.keras", "digits_keras2.h5"])
def test_the_ini_file_of_a_model_can_be_read(model: str, tmp_path: Path) -> None:
    source = EXAMPLES / "digits_keras" / model
    ini = tmp_path / "net.ini"
    ini.write_text(first_ini(source, ini), encoding="utf-8")
    config = Config.read(ini)
    assert (config.name, config.definition.resolve()) == (name_of(source), source)
    assert config.output_folder == tmp_path / "output" and config.generate_source
    assert config.quantization is Quantization.AUTO
    assert config.mean == () and config.scale is None


def test_every_key_is_in_the_file_once() -> None:
    text = first_ini(EXAMPLES / "digits_keras" / "digits.keras", None)
    lines = [
        line.lstrip("# ").partition(" ")[0] for line in text.splitlines() if " = " in line[:40] or " =" in line[:40]
    ]
    assert lines == [key.name for key in KEYS]


def test_weights_beside_a_definition_are_named(tmp_path: Path) -> None:
    source = next((EXAMPLES / "digits_caffe").glob("*.prototxt"))
    weights = next((EXAMPLES / "digits_caffe").glob("*.caffemodel"))
    copy(source, tmp_path / "net.prototxt")
    copy(weights, tmp_path / "net.caffemodel")
    copy(weights, tmp_path / "other.caffemodel")
    assert "\ndata = net.caffemodel " in first_ini(tmp_path / "net.prototxt", tmp_path / "net.ini")
    (tmp_path / "net.caffemodel").unlink()
    copy(weights, tmp_path / "net_iter_10000.caffemodel")  # as Caffe names a snapshot
    assert "\ndata = net_iter_10000.caffemodel " in first_ini(tmp_path / "net.prototxt", tmp_path / "net.ini")


def test_weights_that_are_not_found_are_asked_for(tmp_path: Path) -> None:
    source = next((EXAMPLES / "digits_caffe").glob("*.prototxt"))
    copy(source, tmp_path / "net.prototxt")
    for name in ("one.caffemodel", "other.caffemodel"):  # either may be meant
        (tmp_path / name).touch()
    (line,) = [each for each in first_ini(tmp_path / "net.prototxt", None).splitlines() if each.startswith("# data =")]
    assert line.endswith("; to be set: the definition has no weights")


@pytest.mark.parametrize(("factor", "scale"), [(1 / 255, "1"), (-1 / 127.5, "1"), (4.4, "1/255"), (1.0, "1/255")])
def test_a_first_layer_that_scales_shows_the_range_of_values(factor: float, scale: str) -> None:
    mean, found = guessed_preprocessing(scaled(factor))
    assert (mean.key, mean.value, found.key, found.value) == ("mean", "0", "scale", scale)
    assert "guessed" in found.reason and '"rescale"' in found.reason


def test_nothing_is_guessed_if_a_pool_comes_first() -> None:
    assert guessed_preprocessing(scaled(1 / 255, between=True)) == ()


@pytest.mark.parametrize(
    ("file", "name"),
    [("a-b.c.keras", "a_b"), ("24net.keras", "24net"), ("...keras", "network"), ("ä.h5", "network"), ("DMP_Network.h5", "network")],
)  # fmt: skip
def test_names_are_made_of_file_names(file: str, name: str) -> None:
    assert name_of(Path(file)) == name


def test_paths_with_comments_in_them_are_quoted(tmp_path: Path) -> None:
    model = tmp_path / "a#b;c.keras"
    copy(EXAMPLES / "digits_keras" / "digits.keras", model)
    ini = tmp_path / "net.ini"
    ini.write_text(first_ini(model, ini), encoding="utf-8")
    assert Config.read(ini).definition == model


@pytest.mark.parametrize("name", ['a"b.keras', "a\nb.keras", " a.keras"])
def test_paths_that_an_ini_file_cannot_name_are_refused(name: str, tmp_path: Path) -> None:
    model = tmp_path / name
    copy(EXAMPLES / "digits_keras" / "digits.keras", model)
    with pytest.raises(UsageError, match="DV162"):
        first_ini(model, tmp_path / "net.ini")


def test_an_ini_file_that_exists_is_kept(tmp_path: Path) -> None:
    ini = tmp_path / "net.ini"
    ini.write_text("mine")
    with pytest.raises(UsageError, match="DV162: the file exists already"):
        first_ini(EXAMPLES / "digits_keras" / "digits.keras", ini)


@pytest.mark.parametrize("model", ["net.ini", "missing.keras"])
def test_only_models_have_ini_files(model: str) -> None:
    with pytest.raises(UsageError, match="DV162"):
        first_ini(EXAMPLES / "digits_keras" / model, None)
