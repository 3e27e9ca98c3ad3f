"""Caffe's formulas give what real Caffe gave, and what the frontend reads where OpenCV differs from Caffe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.caffe.layers import caffe as readers
from cnn_convertor.samples import Preparation, random_samples, shapes_of
from cnn_convertor.verification import frameworks
from cnn_convertor.verification.caffe_network import evaluate, input_dims, read_network
from cnn_convertor.verification.formulas import FORMULAS
from examples import caffemodel
from frontends.loading import load_caffe
from reference import ir_reference
from verification.trials import config

RANDOM = np.random.default_rng(5)


def test_every_layer_that_converts_has_a_formula() -> None:
    assert set(readers) - {"Input"} == set(FORMULAS)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["caffe", "caffe_models"])
def test_formulas_give_what_caffe_gave(folder: str, shared: Path) -> None:
    compared = 0
    for path in sorted((shared / "vectors" / folder).glob("*/case.json")):
        facts = json.loads(path.read_text())
        weights = path.parent / facts.get("caffemodel", "weights.caffemodel")
        layers = read_network(
            path.parent / facts.get("prototxt", "deploy.prototxt"), weights if weights.exists() else None
        )
        files = {name: path.parent / given["file"] for name, given in facts["inputs"].items()}
        inputs = {
            name: np.load(files.get(name, next(iter(files.values())))).astype(np.float64) for name in input_dims(layers)
        }
        found = evaluate(layers, inputs)
        types = {layer.name: layer.type for layer in layers}
        for given in (each for each in facts["outputs"].values() if types[each["layer"]] in FORMULAS):
            expected = np.load(path.parent / given["file"])
            values = found.tops[given["layer"], given["top_index"]]
            assert values.shape == expected.shape, path
            largest = max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5 * largest, err_msg=str(path))
            compared += 1
    assert compared >= {"caffe": 139, "caffe_models": 8}[folder]


# --- where OpenCV differs ------------------------------------------------------------------------------------------------

Weights = list[NDArray[Any]]

# What OpenCV does otherwise -> the network after its input `data` (1 x 8 x 6 x 8), whose last layer is `op`, and its weights.
DIFFERENT: dict[str, tuple[str, Weights]] = {
    "LRN without alpha": ('type: "LRN" lrn_param { local_size: 3 }', []),
    "LRN with k": ('type: "LRN" lrn_param { local_size: 3 alpha: 0.5 k: 2 }', []),
    "a pool padded on one axis": (
        'type: "Pooling" pooling_param { pool: AVE kernel_h: 1 kernel_w: 3 stride: 2 pad_h: 0 pad_w: 1 }',
        [],
    ),
    "a max pool padded on one axis": (
        'type: "Pooling" pooling_param { pool: MAX kernel_h: 3 kernel_w: 1 stride: 2 pad_h: 1 pad_w: 0 }',
        [],
    ),
    "a dilated depthwise kernel with pad 1": (
        'type: "Convolution" convolution_param { num_output: 8 group: 8 kernel_size: 3 dilation: 2 pad: 1 bias_term: false }',
        [RANDOM.normal(size=(8, 1, 3, 3))],
    ),
    "DepthwiseConvolution": (
        'type: "DepthwiseConvolution" convolution_param { num_output: 8 group: 8 kernel_size: 3 bias_term: false }',
        [RANDOM.normal(size=(8, 1, 3, 3))],
    ),
    "InnerProduct with transpose": (
        'type: "InnerProduct" inner_product_param { num_output: 5 transpose: true bias_term: false }',
        [RANDOM.normal(size=(384, 5))],
    ),
    "Log with a base": ('type: "Log" log_param { base: 2 shift: 20 }', []),
    "Swish with beta": ('type: "Swish" swish_param { beta: 2 }', []),
    "a dilated deconvolution": (
        'type: "Deconvolution" convolution_param { num_output: 8 group: 8 kernel_size: 2 dilation: 2 bias_term: false }',
        [RANDOM.normal(size=(8, 1, 2, 2))],
    ),
    "fractions of PriorBox sizes": (
        'bottom: "data" type: "PriorBox" prior_box_param { min_size: 2.75 max_size: 4.5 aspect_ratio: 2 variance: 0.1 }',
        [],
    ),
}  # fmt: skip


def network(folder: Path, text: str, weights: Weights) -> Any:
    """A configuration: the input `data`, and one layer `op`, or the layers of a text."""
    definition, data = folder / "net.prototxt", folder / "net.caffemodel"
    layers = text if text.startswith("layer") else f'layer {{ name: "op" bottom: "data" top: "op" {text} }}'
    definition.write_text(f'input: "data" input_shape {{ dim: [1, 8, 6, 8] }}\n{layers}')
    if not weights:
        return config(definition)
    caffemodel.write(data, [("op", "Any", weights)])
    return config(definition, data)


def errors(chosen: Any) -> list[float]:
    """The largest error of each output of the formulas against the tests' own reading of the graph."""
    graph = load_caffe(chosen.definition, chosen.data)
    inputs = random_samples(shapes_of(graph), Preparation(), samples=2, seed=3).inputs
    found = frameworks.run(chosen.model, graph, inputs)
    plain = [ir_reference.run(graph, {name: maps[i] for name, maps in inputs.items()}) for i in range(2)]
    return [
        float(np.abs(maps - np.stack([values[output] for values in plain])).max())
        for output, maps in zip(graph.outputs, found.outputs.values(), strict=True)
    ]


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_formulas_are_right_where_opencv_differs(name: str, tmp_path: Path) -> None:
    assert max(errors(network(tmp_path, *DIFFERENT[name]))) < 1e-4


def test_every_output_of_a_slice_is_compared_with_its_own_top(tmp_path: Path) -> None:
    text = """layer { name: "cut" type: "Slice" bottom: "data" top: "a" top: "b" slice_param { slice_point: 3 } }
        layer { name: "relu" type: "ReLU" bottom: "a" top: "relu" }"""
    found = errors(network(tmp_path, text, []))
    assert len(found) == 2 and max(found) < 1e-6


def test_stages_count(tmp_path: Path) -> None:
    text = """layer { name: "abs" type: "AbsVal" bottom: "data" top: "abs" }
        layer { name: "op" type: "Power" bottom: "abs" top: "abs" power_param { shift: 1 } include { stage: "other" } }
        layer { name: "relu" type: "ReLU" bottom: "abs" top: "relu" }"""
    assert max(errors(network(tmp_path, text, []))) < 1e-6


def test_a_network_that_formulas_cannot_read_has_a_way_out(tmp_path: Path) -> None:
    chosen = network(tmp_path, 'type: "ReLU"', [RANDOM.normal(size=1)])
    graph = load_caffe(chosen.definition, chosen.data)
    chosen.data.write_bytes(b"\xff")  # the file changes after it has been converted
    with pytest.raises(ConvertorError, match="DV712: Caffe's formulas cannot be applied to the network: ") as caught:
        frameworks.run(chosen.model, graph, {"data": np.zeros((1, 6, 8, 8), np.float32)})
    assert caught.value.problems[0].hint.startswith("give the expected outputs together with the inputs")
