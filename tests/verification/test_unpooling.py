"""The reference of a network with unpoolings: formulas with the device's maxima, and the values of their own map there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.ir.ops import Padding, Pair, Window
from cnn_convertor.pipeline import load
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification import framework_maps, frameworks
from cnn_convertor.verification.results import Verification
from cnn_convertor.verification.unpooling import DeviceMaxima, first_maxima, values_at
from examples import caffemodel
from frontends.loading import load_caffe
from reference import ir_reference
from verification.trials import change_files, config

HEADER = 'input: "x" input_shape { dim: 1 dim: 3 dim: 7 dim: 9 }\n'
POOL = """
layer { name: "pool%s" type: "Pooling" bottom: "%s" top: "p%s" top: "m%s" pooling_param { kernel_size: 2 stride: 2 } }
"""
UNPOOL = 'layer { name: "%s" type: "Upsample" bottom: "%s" bottom: "%s" top: "%s" upsample_param { %s } }\n'


def given(*shape: int, seed: int = 0) -> Any:
    """Small whole numbers, many of which are equal."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


# --- the framework -------------------------------------------------------------------------------------------------------


DEFINITIONS = {
    "by repetition": 'layer { name: "y" type: "Upsample" bottom: "x" top: "y" upsample_param { scale: 3 } }',
    "by two factors": 'layer { name: "y" type: "Upsample" bottom: "x" top: "y" upsample_param { scale_h: 2 scale_w: 3 } }',
    "by a mask, to a size": POOL % ("", "x", "", "") + UNPOOL % ("y", "p", "m", "y", "upsample_h: 7 upsample_w: 9"),
    "by a mask, to a size with more rows": POOL % ("", "x", "", "")
    + UNPOOL % ("y", "p", "m", "y", "scale: 2 upsample_h: 8 upsample_w: 9"),
    "by a mask, less a row and a column": POOL % ("", "x", "", "")
    + UNPOOL % ("y", "p", "m", "y", "scale: 2 pad_out_h: true pad_out_w: true"),
    "by the mask of windows that overlap": POOL.replace("kernel_size: 2", "kernel_size: 3 pad: 1") % ("", "x", "", "")
    + UNPOOL % ("y", "p", "m", "y", "upsample_h: 7 upsample_w: 9"),
    "of another phase": 'layer { name: "t" type: "Upsample" bottom: "x" top: "t" include { phase: TRAIN } upsample_param { scale: 2 } }'
    'layer { name: "y" type: "Upsample" bottom: "x" top: "y" upsample_param { scale: 3 } }',
    "several": POOL % (1, "x", 1, 1)
    + POOL % (2, "p1", 2, 2)
    + UNPOOL % ("a", "p2", "m2", "a", "upsample_h: 4 upsample_w: 5")
    + 'layer { name: "r" type: "Upsample" bottom: "a" top: "r" upsample_param { scale: 1 } }'
    + UNPOOL % ("y", "r", "m1", "y", "upsample_h: 7 upsample_w: 9"),
}


@pytest.mark.parametrize("case", DEFINITIONS)
def test_the_formula_and_the_plain_reading_agree(case: str, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(HEADER + DEFINITIONS[case])
    graph, images = load_caffe(path, path), given(2, 7, 9, 3)
    found = frameworks.run(config(path).model, graph, {"x": images})
    for sample, image in enumerate(images):
        values = ir_reference.run(graph, {"x": image})
        np.testing.assert_array_equal(found.outputs[0][sample], values[graph.outputs[0]])


def test_the_formula_unpools_by_the_maxima_of_the_device(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(HEADER + DEFINITIONS["by a mask, to a size"])
    images, others = given(2, 7, 9, 3), given(2, 7, 9, 3, seed=1)
    window = Window(Pair(2, 2), Pair(2, 2), padding=Padding(0, 1, 0, 1))
    choices = {"y": DeviceMaxima("x", others, window)}
    found = frameworks.run(config(path).model, load_caffe(path, path), {"x": images}, choices)
    places, pooled = first_maxima(others, window), values_at(images, first_maxima(images, window))
    unpooled = np.zeros((2, 63, 3))
    np.put_along_axis(unpooled, places.reshape(2, -1, 3), pooled.reshape(2, -1, 3), axis=1)
    np.testing.assert_array_equal(found.outputs[0], unpooled.reshape(2, 7, 9, 3))
    (maxima,) = found.maxima
    np.testing.assert_array_equal(maxima.chosen, values_at(images, places))
    np.testing.assert_array_equal(maxima.largest, pooled)


@pytest.mark.parametrize(
    "window",
    [
        Window(Pair(2, 2), Pair(2, 2)),
        Window(Pair(3, 2), Pair(1, 3), padding=Padding(1, 1, 1, 0)),
        Window(Pair(2, 2), dilation=Pair(2, 3)),
    ],
)
def test_the_first_maxima(window: Window) -> None:
    maps = given(2, 7, 9, 3)
    places = first_maxima(maps, window)
    for sample, image in enumerate(maps):
        windows = ir_reference.windows(image, window, fill=-np.inf).reshape(*places.shape[1:3], -1, 3)
        np.testing.assert_array_equal(values_at(maps, places)[sample], windows.max(axis=2))
        numbers = ir_reference.windows(np.arange(63.0).reshape(7, 9, 1), window, fill=-1).reshape(
            *places.shape[1:3], -1, 1
        )
        first = np.take_along_axis(numbers, windows.argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
        np.testing.assert_array_equal(places[sample], first)


# --- the device ----------------------------------------------------------------------------------------------------------


def convolution(name: str, bottom: str, relu: bool = True) -> str:
    settings = "num_output: 8 kernel_size: 3 pad: 1 bias_term: false"
    text = f'layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}" convolution_param {{ {settings} }} }}\n'
    return text + f'layer {{ name: "{name}_relu" type: "ReLU" bottom: "{name}" top: "{name}" }}\n' * relu


def segnet(*, swapped: bool = False) -> str:
    """Two maps of one size are pooled. swapped: each unpooling has the mask of the other pooling."""
    masks = ("mb", "ma") if swapped else ("ma", "mb")
    return (
        'input: "x" input_shape { dim: 1 dim: 3 dim: 12 dim: 10 }\n'
        + convolution("a", "x") + POOL % ("a", "a", "a", "a") + convolution("b", "x") + POOL % ("b", "b", "b", "b")
        + convolution("c", "pa", relu=False)
        + UNPOOL % ("ya", "c", masks[0], "ya", "scale: 2") + UNPOOL % ("yb", "pb", masks[1], "yb", "scale: 2")
        + 'layer { name: "sum" type: "Eltwise" bottom: "ya" bottom: "yb" top: "sum" }\n' + convolution("last", "sum", relu=False)
    )  # fmt: skip


@pytest.fixture
def network(tmp_path: Path) -> Config:
    """Its weights are random, so that rounding decides some maxima."""
    random = np.random.default_rng(3)
    shapes = {"a": (8, 3, 3, 3), "b": (8, 3, 3, 3), "c": (8, 8, 3, 3), "last": (8, 8, 3, 3)}
    caffemodel.write(
        tmp_path / "net.caffemodel",
        ((name, "Convolution", [random.normal(size=shape) / 8]) for name, shape in shapes.items()),
    )
    (tmp_path / "net.prototxt").write_text(segnet())
    return config(tmp_path / "net.prototxt", tmp_path / "net.caffemodel")


MAXIMA = {"maxima of a_relu, for ya", "maxima of b_relu, for yb"}


def outputs(result: Verification) -> dict[str, float]:
    """Name -> SQNR in dB."""
    return {output.name: output.sqnr for output in result.outputs}


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("transposed", [True, False])
def test_a_network_with_unpoolings_is_verified(network: Config, transposed: bool) -> None:
    chosen = replace(network, transpose_weight=transposed)
    result = verify(chosen, samples=framework_maps.KEPT + 3, layers=True)
    assert set(outputs(result)) == {"last", *MAXIMA}
    assert min(outputs(result).values()) > 55 and result.first_jump is None
    compared = {layer.comparison.name for layer in result.layers}
    assert {"a_relu", "ya", "b_relu", "yb"} <= compared  # "poolb" has two outputs


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_with_palettes_each_network_has_its_own_maxima(network: Config) -> None:
    result = verify(replace(network, quantization=True))
    assert result.passed
    beside = {both.fp16.name: both for both in result.beside}
    assert set(beside) == {"last", *MAXIMA}
    assert beside["last"].fp16.sqnr > 55 > beside["last"].palette.sqnr > 20


def last_of_equals(folder: Path) -> None:
    header = next(folder.glob("*_cpu.h"))
    text = header.read_text()
    assert "value > largest" in text
    header.write_text(text.replace("value > largest", "value >= largest"))


def nothing(_: Path) -> None:
    pass


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("definition", "change"), [(segnet(swapped=True), nothing), (segnet(), last_of_equals)])
def test_values_at_the_wrong_places_are_found(
    definition: str, change: Callable[[Path], None], network: Config, tmp_path: Path
) -> None:
    """The mask of another pooling, and the last of equal maxima in place of the first."""
    (tmp_path / "other.prototxt").write_text(definition)

    with pytest.MonkeyPatch.context() as patch:
        change_files(patch, change)
        result = verify(network, graph=load(replace(network, definition=tmp_path / "other.prototxt")), min_sqnr=40)
    assert not result.passed and min(outputs(result).values()) < 30
