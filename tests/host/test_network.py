"""CDMP_Network runs a network with every type of layer, and the runner saves what it gives."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from host.device import RUNNER, SANITIZERS, build
from host.reference import Weights, Window, all_sides, convolve, pack, places, to_memory

if TYPE_CHECKING:
    from host.reference import Map

HERE = Path(__file__).resolve().parent


def integers(seed: int, *shape: int) -> Map:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float64)


WEIGHTS = Weights(integers(1, 8, 8, 3, 3) / 16, integers(2, 8))


@pytest.fixture(scope="session")
def runner(library: Path) -> Path:
    definitions = ['-DNETWORK_HEADER="network_gen.h"', "-DNETWORK_CLASS=CNetwork"]
    return build(
        library.with_name("runner"), *SANITIZERS, *definitions, f"-I{HERE}",
        str(RUNNER), str(HERE / "network_gen.cpp"), str(library), with_device=False,
    )  # fmt: skip


def run(runner: Path, folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [runner, folder / "weights.bin", folder / "input.bin", folder, *options],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


class Sample(NamedTuple):
    data: Map
    extra: Map

    def to_bytes(self, *, transposed: bool) -> bytes:
        return to_memory(self.data, transposed=transposed) + to_memory(self.extra, transposed=transposed)


def softmax(values: Map, axis: int) -> Map:
    powers = np.exp(values - values.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True), np.float64)


def expected_layers(sample: Sample, *, transposed: bool) -> dict[str, Map]:
    """What each layer leaves in memory."""

    def in_memory(values: Map) -> Map:
        flat = np.empty(values.size)
        flat[places(values.shape, transposed=transposed)] = values
        return flat

    conv = convolve(sample.data, WEIGHTS, Window((3, 3), pad=all_sides(1))).astype(np.float16).astype(np.float64)
    joined = np.concatenate([conv, sample.extra], axis=2)
    return {
        "data": in_memory(sample.data),
        "extra": in_memory(sample.extra),
        "conv": in_memory(conv),
        "joined": in_memory(joined),
        "flat": joined.ravel(),
        "pixels": joined.ravel(),
        "softmax": softmax(joined, 2).ravel(),
        "negated": -2 * softmax(joined, 2).ravel(),
        "rows": in_memory(softmax(conv, 0)),
    }


OUTPUTS = ["flat", "softmax", "negated", "rows"]
RTOL, ATOL = 1e-5, 4e-3  # of a softmax in FP16, times -2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "weights.bin").write_bytes(pack(WEIGHTS, transposed=False))
    (tmp_path / "input.bin").write_bytes(bytes(264))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, True], ids=["WHC", "HWC"])
@pytest.mark.parametrize("mode", ["plain", "DMP_DV_EXACT", "DMP_DV_CHECK_UNINITIALIZED"])
def test_every_layer_of_every_sample(runner: Path, folder: Path, transposed: bool, mode: str) -> None:
    samples = [Sample(integers(seed, 3, 4, 8), integers(seed + 10, 3, 4, 3)) for seed in (3, 4, 5)]
    (folder / "weights.bin").write_bytes(pack(WEIGHTS, transposed=transposed))
    (folder / "input.bin").write_bytes(b"".join(sample.to_bytes(transposed=transposed) for sample in samples))
    order = {"NETWORK_TRANSPOSED": "1"} if transposed else {}
    result = run(runner, folder, "--layers", **order, **({} if mode == "plain" else {mode: "1"}))
    assert result.returncode == 0, result.stderr

    expected = [expected_layers(sample, transposed=transposed) for sample in samples]
    outputs = np.fromfile(folder / "outputs.bin", np.float32)
    np.testing.assert_allclose(
        outputs, np.concatenate([layers[k] for layers in expected for k in OUTPUTS]), rtol=RTOL, atol=ATOL
    )
    layers = np.fromfile(folder / "layers.bin", np.float32).reshape(3, -1)
    index = json.loads((folder / "index.json").read_text())
    assert index["samples"] == 3
    assert [entry["name"] for entry in index["outputs"]] == OUTPUTS
    assert [entry["name"] for entry in index["layers"]] == list(expected[0])
    assert index["layers"][3] == {"name": "joined", "dims": [4, 3, 11], "count": 132, "offset": 96 + 36 + 96}
    for sample, values in zip(expected, layers, strict=True):
        for entry in index["layers"]:
            part = values[entry["offset"] : entry["offset"] + entry["count"]]
            np.testing.assert_allclose(part, sample[entry["name"]], rtol=RTOL, atol=ATOL, err_msg=entry["name"])


def test_exact_mode_keeps_unrounded_values_through_copies(runner: Path, folder: Path) -> None:
    """Maps go through LT_COPY_CONCAT and LT_FLATTEN."""
    weights = Weights(WEIGHTS.values() / 3, WEIGHTS.bias)
    sample = Sample(integers(3, 3, 4, 8), integers(13, 3, 4, 3))
    (folder / "weights.bin").write_bytes(pack(weights, transposed=False))
    (folder / "input.bin").write_bytes(sample.to_bytes(transposed=False))
    halves = Weights(weights.values().astype(np.float16).astype(np.float64), weights.bias)
    expected = convolve(sample.data, halves, Window((3, 3), pad=all_sides(1)))

    def error(**environment: str) -> float:
        assert run(runner, folder, **environment).returncode == 0
        flat = np.fromfile(folder / "outputs.bin", np.float32)[:132].reshape(3, 4, 11)[..., :8]
        return float(np.abs(flat - expected).max() / np.abs(expected).max())

    assert error(DMP_DV_EXACT="1") < 1e-6 < 1e-5 < error()


def test_layers_are_saved_only_when_asked_for(runner: Path, folder: Path) -> None:
    assert run(runner, folder).returncode == 0
    assert not (folder / "layers.bin").exists()


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (1167, 'weights.bin" has only 1167 bytes, the network needs 1168'),
        (1169, 'weights.bin" has more than the 1168 bytes that the network needs'),
    ],
)
def test_weights_have_exactly_the_reserved_size(runner: Path, folder: Path, size: int, message: str) -> None:
    (folder / "weights.bin").write_bytes(bytes(size))
    result = run(runner, folder)
    assert result.returncode == 1
    assert message in result.stderr


def test_missing_weights_are_named(runner: Path, folder: Path) -> None:
    (folder / "weights.bin").unlink()
    result = run(runner, folder)
    assert result.returncode == 1
    assert f'cannot open the weights file "{folder / "weights.bin"}"' in result.stderr


def test_input_must_hold_whole_samples(runner: Path, folder: Path) -> None:
    (folder / "input.bin").write_bytes(bytes(265))
    result = run(runner, folder)
    assert result.returncode == 1
    assert "input.bin has 265 bytes, a sample has 264" in result.stderr


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("uninitialized", 'layer "conv": cannot run: command 0 of the list: use of uninitialized map: the input reads'),
        ("kernel", 'layer "conv": run[0].p = 0x0909: a kernel of 9x9; 1 to 7 in each direction is possible'),
        ("size", 'error: layer "flat": LT_FLATTEN writes 264 bytes, output_size is 262'),
        ("axis", 'error: layer "softmax": LT_SOFTMAX writes nothing: softmax_axis is 3, not 0, 1 or 2'),
        ("union", 'error: layer "negated": custom_proc_ptr is no function: it shares its place with input_layer_num'),
    ],
)
def test_failures_name_the_layer(runner: Path, folder: Path, fault: str, message: str) -> None:
    result = run(runner, folder, NETWORK_FAULT=fault, DMP_DV_CHECK_UNINITIALIZED="1")
    assert result.returncode == 1
    assert message in result.stderr


def test_a_moved_short_name_is_found(runner: Path, folder: Path) -> None:
    """A board crashes: the layer's name is zero bytes. Here the sanitizer or the runner ends the program."""
    result = run(runner, folder, NETWORK_FAULT="crash")
    assert result.returncode == 1
    assert "null pointer" in result.stderr or "crashes in Initialize" in result.stderr
