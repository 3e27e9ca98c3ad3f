"""What the frontend makes of random networks computes what Caffe's formulas compute."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.caffe import importer as caffe
from cnn_convertor.verification.caffe_network import read_network
from cnn_convertor.verification.formula_runner import outputs_of
from reference import ir_reference, random_caffe

NETWORKS, PARTS = 2000, 20


def compared(seed: int, folder: Path) -> Counter[str]:
    """The types of a network that was compared; none where it is refused."""
    made = random_caffe.network(seed, folder)
    if not made.types:
        return Counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = caffe.load(made.definition, made.weights)
    except ConvertorError as error:
        return Counter({f"refused: {problem.code}": 1 for problem in error.problems})
    shapes = {node.name: graph.shape(node.name) for node in graph.inputs}
    given = made.inputs["data"].reshape(-1)
    inputs = {
        name: given.reshape(shape.channels, shape.height, shape.width).transpose(1, 2, 0)
        for name, shape in shapes.items()
    }
    values = ir_reference.run(graph, inputs)
    for output, top in outputs_of(graph, read_network(made.definition, made.weights)).items():
        height, width, channels = graph.shape(output)
        expected = made.values.tops[top].reshape(channels, height, width).transpose(1, 2, 0)
        largest = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(
            values[output], expected, rtol=0, atol=1e-5 * largest, err_msg=f"seed {seed}: {made.definition.read_text()}"
        )
    return Counter([*made.types, "networks"])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_random_networks_compute_what_caffe_computes(part: int, tmp_path: Path) -> None:
    found = sum((compared(seed, tmp_path) for seed in range(part, NETWORKS, PARTS)), Counter[str]())
    assert found["networks"] > 0.6 * NETWORKS / PARTS, found
