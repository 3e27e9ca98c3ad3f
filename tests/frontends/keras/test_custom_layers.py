"""Custom layers: their parameters, their shapes, and what is wrong with their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.errors import UsageError
from cnn_convertor.frontends.keras.custom import load_custom_layers
from cnn_convertor.ir import ops
from frontends.keras.reading import read, refused

CUSTOM = """
custom_layer = {'Twice': (('factor', 'sizes', 'exact'), lambda config, shape: (shape[0] * 2, shape[1], config['depth']))}
"""


def custom_file(folder: Path, text: str) -> Path:
    (folder / "layers.py").write_text(text)
    return folder / "layers.py"


def test_a_custom_layer_has_its_parameters_and_shape(model: Any, tmp_path: Path) -> None:
    custom = custom_file(tmp_path, CUSTOM)
    settings = {"factor": 2.5, "sizes": [1, 2], "exact": True, "depth": 7, "unused": "text"}
    graph = read(model.single("Twice", **settings), custom_layers=custom)
    parameters = (("factor", 2.5), ("sizes", (1, 2)), ("exact", True))
    assert graph["x"].op == ops.Custom("Twice", parameters, ops.Shape(6, 10, 7))


@pytest.mark.parametrize("value", ["text", None, {}, [], [1, 2.5], [[1]]], ids=repr)
def test_other_parameters_are_refused(model: Any, tmp_path: Path, value: Any) -> None:
    custom = custom_file(tmp_path, CUSTOM)
    path = model.single("Twice", factor=value, sizes=[1], exact=False, depth=1)
    (problem,) = refused(path, custom_layers=custom)
    assert problem.startswith("DV303") and "'factor'" in problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "no dictionary"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit", "SystemExit"),
        ("custom_layer = {'A': 3}", "'A'"),
        ("custom_layer = {'A': ('name', len)}", "'A'"),
        ("custom_layer = (", "SyntaxError"),
        ("custom_layer = {'A b': ((), len), 'A-b': ((), len)}", "types of custom layers 'A b' and 'A-b' .* 'A_b'"),
        ("custom_layer = {'A': (('int', 'int_'), len)}", "parameters of the custom layer 'A' 'int' and 'int_'"),
    ],
)
def test_a_broken_file_of_custom_layers_says_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_custom_layers(custom_file(tmp_path, text))
    assert str(caught.value).startswith("DV115: ") and "layers.py" in str(caught.value)


def test_a_missing_file_of_custom_layers_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="DV115: there is no such file"):
        load_custom_layers(tmp_path / "nothing.py")


@pytest.mark.parametrize(
    "function", ["lambda c, s: 1 / 0", "lambda c, s: (1, 2)", "lambda c, s: None", "lambda c, s: (0, 1, 1)"]
)
def test_a_broken_shape_function_is_named(model: Any, tmp_path: Path, function: str) -> None:
    custom = custom_file(tmp_path, f"custom_layer = {{'A': ((), {function})}}")
    with pytest.raises(UsageError, match=r'DV116: the custom layer\'s shape function(.|\n)*"x" \(A\)'):
        read(model.single("A"), custom_layers=custom)


@pytest.mark.parametrize("function", ["lambda c, shape: (shape[0] * 0.5, 1, 1)", "lambda c, shape: shape"])
def test_a_shape_function_of_one_input_learns_that_it_gets_a_list(model: Any, tmp_path: Path, function: str) -> None:
    custom = custom_file(tmp_path, f"custom_layer = {{'A': ((), {function})}}")
    layers = [model.layer("InputLayer", "in", batch_input_shape=[None, 6, 5, 4]), model.layer("A", "x", "in", "in")]
    with pytest.raises(UsageError, match=r"DV116(.|\n)*list of shapes: \[\(5, 6, 4\), \(5, 6, 4\)\]"):
        read(model.h5(model.functional(layers, ["in"], ["x"])), custom_layers=custom)
