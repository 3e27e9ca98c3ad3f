"""Random networks with attention compute what onnxruntime does, after all passes of the graph."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.passes import optimize
from frontends.onnx.random_attention import network
from frontends.onnx.test_random_networks import PASSED, outcome

pytestmark = pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")


@pytest.mark.slow
def test_random_networks_compute_attention_as_onnxruntime_does(random_seeds: range, tmp_path: Path) -> None:
    with np.errstate(all="ignore"):
        outcomes = Counter(outcome(network(seed), seed, tmp_path / "net.onnx", optimize) for seed in random_seeds)
    logging.getLogger(__name__).info("%s", dict(outcomes.most_common()))
    assert set(outcomes) == {PASSED}
