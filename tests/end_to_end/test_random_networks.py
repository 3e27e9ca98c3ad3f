"""Random small networks run on the emulated device as a plain reading of their graph says: chains, branches, sums, joins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.errors import UnsupportedError
from cnn_convertor.verification.compare import sqnr
from reference import ir_reference, random_networks
from verification.trials import network, samples

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

SEEDS = 80
LAYERS = 10
AT_LEAST_DB = 45.0
LEAST_RMS = 0.125  # of outputs: what is smaller has come of numbers around 1 that cancel, and has their errors


@pytest.mark.rotating(turns=4)
def test_random_networks(tmp_path: Path) -> None:
    tried = 0
    for seed in range(SEEDS):
        graph = random_networks.network(seed, LAYERS)
        transposed, fusion = bool(seed % 2), "full" if seed % 4 < 2 else "proven"
        try:
            trial = network(graph, tmp_path / str(seed), transpose_weight=transposed, fusion=fusion)
        except UnsupportedError:
            continue
        tried += 1
        inputs = samples(random_networks.inputs_for(graph, seed))
        expected = ir_reference.run(graph, {name: values[0].astype(np.float64) for name, values in inputs.items()})
        for output, values in zip(graph.outputs, trial.run(inputs).outputs, strict=True):
            ratio = sqnr(values[0], expected[output], least_rms=LEAST_RMS)
            assert ratio >= AT_LEAST_DB, f"seed {seed}, {output}: {ratio:.1f} dB\n{graph}"
    assert tried >= SEEDS // 4
