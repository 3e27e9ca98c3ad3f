"""A second accelerator needs no more than the port: a toy goes from an ini file to sources that are verified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor import Config, convert
from cnn_convertor.devices import registry
from cnn_convertor.errors import UnsupportedError
from cnn_convertor.trials.verify import verify
from devices import toy
from examples import caffemodel

NET = """name: "net"
layer { name: "in" type: "Input" top: "in" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 5 } } }
layer { name: "a" type: "Convolution" bottom: "in" top: "a" convolution_param { num_output: 6 kernel_size: %d } }
layer { name: "b" type: "Convolution" bottom: "a" top: "b" convolution_param { num_output: 2 kernel_size: 1 } }
layer { name: "c" type: "Convolution" bottom: "a" top: "c" convolution_param { num_output: 3 kernel_size: 1 } }
"""


@pytest.fixture
def ini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "FAMILIES", (*registry.FAMILIES, toy.FAMILY))
    return written(tmp_path, kernel=1)


def written(folder: Path, kernel: int) -> Path:
    draw = np.random.default_rng(0).normal
    (folder / "net.prototxt").write_text(NET % kernel)
    shapes = {"a": (6, 3, kernel, kernel), "b": (2, 6, 1, 1), "c": (3, 6, 1, 1)}
    layers = [(name, "Convolution", [draw(size=shape), draw(size=shape[:1])]) for name, shape in shapes.items()]
    caffemodel.write(folder / "net.caffemodel", layers)
    ini = folder / "net.ini"
    ini.write_text(
        "[INPUT]\nname = net\ndefinition = net.prototxt\ndata = net.caffemodel\n[OUTPUT]\noutput_folder = out\n"
        "generate_source = 1\n[OPTIONAL]\ndevice = toy\n"
    )
    return ini


@pytest.mark.usefixtures("compiler")
def test_a_toy_goes_from_an_ini_file_to_verified_sources(ini: Path) -> None:
    convert(ini)
    assert {path.name for path in (ini.parent / "out" / "net").iterdir()} >= {
        "net_gen.cpp",
        "net_gen.h",
        "net_weights.bin",
    }
    result = verify(Config.read(ini), disk=True, layers=True)
    assert result.passed
    assert [output.name for output in result.outputs] == ["b", "c"]
    assert all(output.sqnr > 120 for output in result.outputs)  # FP32
    assert {row.comparison.name for row in result.layers} == {"a", "b", "c"}


@pytest.mark.usefixtures("compiler")
def test_a_wrong_weight_of_the_toy_is_found(ini: Path) -> None:
    convert(ini)
    weights = ini.parent / "out" / "net" / "net_weights.bin"
    values = np.fromfile(weights, "<f4")
    values[3] *= 1.001
    values.tofile(weights)
    result = verify(Config.read(ini), disk=True)
    assert not result.passed
    assert result.different_layers == ("a", "b", "c")


def test_the_toy_names_what_it_cannot_compute(ini: Path) -> None:
    written(ini.parent, kernel=3)
    with pytest.raises(UnsupportedError, match="the toy computes convolutions of 1x1 alone") as refusal:
        convert(ini)
    (problem,) = refusal.value.problems
    assert problem.where is not None and problem.where.layer == "a"
