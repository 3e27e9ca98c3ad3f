"""What the frontend makes of random networks computes what Caffe's formulas compute."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest

from cnn_convertor.errors import ConvertorError
from cnn_convertor.verification.caffe_network import read_network
from cnn_convertor.verification.formula_runner import outputs_of
from frontends.loading import load_caffe
from reference import random_caffe
from reference.random_trials import Trial, deviation, report

AT_MOST = 1e-5


def compared(seed: int, folder: Path) -> Trial:
    made = random_caffe.network(seed, folder)
    if not made.types:
        return Trial(made.types, refused="no layer")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = load_caffe(made.definition, made.weights)
    except ConvertorError as error:
        return Trial(made.types, refused=error.problems[0].code)
    given = made.inputs["data"].reshape(-1)
    inputs = {}
    for node in graph.inputs:
        height, width, channels = graph.shape(node.name)
        inputs[node.name] = given.reshape(channels, height, width).transpose(1, 2, 0)
    expected = {}
    for output, top in outputs_of(graph, read_network(made.definition, made.weights)).items():
        height, width, channels = graph.shape(output)
        expected[output] = made.values.tops[top].reshape(channels, height, width).transpose(1, 2, 0)
    found = deviation(graph, inputs, expected)
    assert found <= AT_MOST, f"seed {seed}: {found}\n{made.definition.read_text()}"
    return Trial(made.types, found)


@pytest.mark.slow
def test_random_networks_compute_what_caffe_computes(random_seeds: range, tmp_path: Path) -> None:
    trials = [compared(seed, tmp_path) for seed in random_seeds]
    logging.getLogger(__name__).info(report("Caffe's formulas", trials))
    assert sum(not trial.refused for trial in trials) > 0.8 * len(trials)
