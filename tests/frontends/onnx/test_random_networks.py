"""Random networks of all operator sets compute what onnxruntime does, or are refused; damaged files are refused."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.conversion.inspection import inspect
from cnn_convertor.errors import ConvertorError
from cnn_convertor.ir.graph import Graph
from cnn_convertor.verification.compare import sqnr
from frontends.onnx.networks import load, onnx, results_of, to_map
from frontends.onnx.random_networks import network

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")]

LEAST = 800  # networks, and damaged files
AT_LEAST_DB = 80.0
MOST_SECONDS = 5.0
PASSED, INVALID, DIFFERENT = "passed", "onnxruntime refuses it", "different results, seed"


def expected(model: Any, inputs: dict[str, Any]) -> list[Any] | None:
    """What onnxruntime gives; None where it refuses the network."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, inputs))
    except Exception:  # noqa: BLE001  # onnxruntime raises exceptions of any type
        return None


def outcome(model: Any, seed: int, path: Path, rewrite: Callable[[Graph], Graph] = lambda graph: graph) -> str:
    """PASSED, INVALID, the codes with which the network is refused, or what differs, with the seed."""
    random, constants = np.random.default_rng(seed), {array.name for array in model.graph.initializer}
    inputs = {}
    for image in model.graph.input:
        if image.name not in constants:
            dims = [dim.dim_value or 1 for dim in image.type.tensor_type.shape.dim]
            inputs[image.name] = random.standard_normal(dims).astype(np.float32)
    wanted = expected(model, inputs)
    if wanted is None or not all(np.isfinite(values).all() for values in wanted):
        return INVALID
    onnx.save(model, path)
    try:
        graph = rewrite(load(path))
    except ConvertorError as error:
        return ", ".join(sorted({f"{p.code} {p.where.type if p.where else ''}" for p in error.problems}))
    for found, values in zip(results_of(graph, inputs), map(to_map, wanted), strict=True):
        if found.shape != values.shape:
            return f"{DIFFERENT} {seed}: {found.shape}, not {values.shape}"
        ratio = sqnr(found[None], values[None], least_rms=1e-3)
        if ratio < AT_LEAST_DB:
            return f"{DIFFERENT} {seed}: {ratio:.1f} dB"
    return PASSED


def test_random_networks_compute_what_onnxruntime_computes(random_seeds: range, tmp_path: Path) -> None:
    with np.errstate(all="ignore"):
        outcomes = Counter(outcome(network(seed), seed, tmp_path / "net.onnx") for seed in seeds(random_seeds))
    logging.getLogger(__name__).info("%s", dict(outcomes.most_common()))
    assert not [result for result in outcomes if result.startswith(DIFFERENT)]
    assert outcomes[PASSED] >= 0.9 * outcomes.total()


def test_a_damaged_network_is_refused_or_read(random_seeds: range, tmp_path: Path) -> None:
    read = Counter(try_damaged(seed, tmp_path / "net.onnx") for seed in seeds(random_seeds))
    logging.getLogger(__name__).info("%d refused, %d read", read[False], read[True])
    assert read[True]


def seeds(given: range) -> range:
    return range(given.start, given.start + max(len(given), LEAST))


def try_damaged(seed: int, path: Path) -> bool:
    """Whether a network in which some bytes are changed, lost or repeated is still inspected. Fails after MOST_SECONDS."""
    random = np.random.default_rng(seed)
    content = bytearray(network(seed).SerializeToString())
    for _ in range(int(random.integers(1, 4))):
        at, other = (int(n) for n in random.integers(0, len(content), 2))
        match int(random.integers(4)):
            case 0:
                content[at] = int(random.integers(256))
            case 1:
                content[at] ^= 1 << int(random.integers(8))
            case 2:
                del content[at : at + int(random.integers(1, 20))]
            case _:
                content[at:at] = content[other : other + int(random.integers(1, 20))]
    path.write_bytes(content)
    start = time.process_time()
    try:
        inspect(path)
    except ConvertorError:
        return False
    finally:
        assert time.process_time() - start < MOST_SECONDS, f"seed {seed} takes long"
    return True
