"""What the frontend makes of random networks computes what Keras computes, as `verify` runs it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError
from cnn_convertor.verification import frameworks
from frontends.keras import networks
from frontends.loading import load_keras as load
from reference import random_keras
from reference.random_trials import Trial, deviation, report
from verification.trials import config

AT_MOST = 1e-4  # TensorFlow computes in FP32


def compared(keras: Any, seed: int, folder: Path) -> Trial:
    if seed % 25 == 0:  # it takes a second
        keras.backend.clear_session()
    made = random_keras.network(keras, seed)
    networks.randomize(made.model, seed)
    path = folder / ("m.keras" if seed % 2 else "m.h5")
    made.model.save(path)
    try:
        graph = load(path, path)
    except ConvertorError as error:
        return Trial(made.types, refused=error.problems[0].code)
    random = np.random.default_rng(seed)
    inputs = {node.name: random.normal(size=graph.shape(node.name)).astype(np.float32) for node in graph.inputs}
    reference = frameworks.run(config(path).model, graph, {name: maps[np.newaxis] for name, maps in inputs.items()})
    found = deviation(graph, inputs, {name: reference.outputs[n][0] for n, name in enumerate(graph.outputs)})
    assert found <= AT_MOST, f"seed {seed}: {found}, {made.types}"
    return Trial(made.types, found)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("hdf5_in_this_process")
def test_random_networks_compute_what_keras_computes(random_seeds: range, tmp_path: Path) -> None:
    keras = networks.imported()
    trials = [compared(keras, seed, tmp_path) for seed in random_seeds]
    logging.getLogger(__name__).info(report("Keras", trials))
    assert sum(not trial.refused for trial in trials) > 0.8 * len(trials)
