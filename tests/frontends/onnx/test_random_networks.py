"""Random networks compute what onnxruntime does, or are refused; damaged files are refused.

`python -m frontends.onnx.test_random_networks 2000`, with tests/ and the checkout in PYTHONPATH, tries as many networks.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError
from cnn_convertor.verification.compare import sqnr
from frontends.onnx.networks import load, onnx, results_of, to_map
from frontends.onnx.random_networks import network

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime judges the results")

SEEDS, DAMAGED = 60, 150
AT_LEAST_DB = 80.0
MOST_SECONDS = 5.0
PASSED, INVALID = "passed", "onnxruntime refuses it"


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


def outcome(seed: int, path: Path) -> str:
    """PASSED, INVALID, or the codes with which the network is refused. Fails where results differ."""
    model = network(seed)
    (image,) = model.graph.input
    dims = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
    inputs = {image.name: np.random.default_rng(seed).standard_normal(dims).astype(np.float32)}
    wanted = expected(model, inputs)
    if wanted is None or not all(np.isfinite(values).all() for values in wanted):
        return INVALID
    onnx.save(model, path)
    try:
        graph = load(path)
    except ConvertorError as error:
        return ", ".join(sorted({f"{p.code} {p.where.type if p.where else ''}" for p in error.problems}))
    for found, values in zip(results_of(graph, inputs), wanted, strict=True):
        ratio = sqnr(found[None], to_map(values)[None], least_rms=1e-3)
        assert ratio >= AT_LEAST_DB, f"seed {seed}: {ratio:.1f} dB\n{onnx.printer.to_text(model)[:4000]}"
    return PASSED


@pytest.mark.parametrize("start", range(0, SEEDS, 20))
def test_random_networks(start: int, tmp_path: Path) -> None:
    outcomes = Counter(outcome(seed, tmp_path / "net.onnx") for seed in range(start, start + 20))
    assert outcomes[PASSED] >= 8, outcomes


def test_a_damaged_file_is_refused_or_read(tmp_path: Path) -> None:
    for seed in range(DAMAGED):
        try_damaged(seed, tmp_path / "net.onnx")


def try_damaged(seed: int, path: Path) -> bool:
    """Whether a network in which some bytes are changed, lost or repeated is still read. Fails after MOST_SECONDS."""
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
    start = time.monotonic()
    try:
        load(path)
    except ConvertorError:
        return False
    finally:
        assert time.monotonic() - start < MOST_SECONDS, f"seed {seed} takes long"
    return True


def main(count: int) -> None:
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as folder, np.errstate(all="ignore"):
        path = Path(folder) / "net.onnx"
        for name, result in Counter(outcome(seed, path) for seed in range(count)).most_common():
            sys.stdout.write(f"{result} {name}\n")
        read = sum(try_damaged(seed, path) for seed in range(count))
        sys.stdout.write(f"of {count} damaged files, {count - read} refused and {read} read\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
