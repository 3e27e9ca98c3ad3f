"""The palette of a layer fits what it reads, and never judges worse than the palette of its weights alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fitting import grouped, layer_fit
from cnn_convertor.devices.dv700.fitting.layer_fit import FittedLayer, LayerTask, fit_layer, limit_share
from cnn_convertor.devices.dv700.fitting.layer_inputs import KeptFiles
from cnn_convertor.devices.dv700.weights.palettes import count
from cnn_convertor.devices.half import to_half
from cnn_convertor.ir.constant import Constant
from cnn_convertor.quantize import Palette, fit
from cnn_convertor.quantize.rounding import Rounded, descend, factors, nearest, nearest_plane

Array = NDArray[np.float32]
Real = NDArray[np.float64]
KERNELS = {"ordinary": (20, 12, 3, 3), "depthwise": (120, 1, 3, 3), "dense": (10, 150, 1, 1)}
PLACES = {"ordinary": 40, "depthwise": 40, "dense": 1}


def own_palette(kernels: Array) -> Palette:
    return fit(*count(Constant.of(kernels)))


def inputs_of(kind: str, path: Path, samples: int, seed: int, counts: Real) -> KeptFiles:
    """Correlated inputs, each sample with a mean of its own. counts: what errors of each channel count, at all places, (M,)."""
    kernels = KERNELS[kind]
    channels, taps = kernels[0] if kind == "depthwise" else kernels[1], kernels[2] * kernels[3]
    mixing = np.random.default_rng(7).normal(size=(6, channels * taps))
    random = np.random.default_rng(seed)
    kept = random.normal(size=(samples, PLACES[kind], 6)) @ mixing + random.normal(size=(samples, 1, 6)) @ mixing
    kept = (kept + 0.1 * random.normal(size=kept.shape) + 1).reshape(samples, PLACES[kind], channels, taps)
    means = kept.mean(axis=1).reshape(samples, channels, *kernels[2:])
    at_places = np.broadcast_to(counts, (samples, PLACES[kind], kernels[0])).astype(np.float32)
    np.savez(path, kept=kept.astype(np.float16), means=means, counts=at_places)
    return KeptFiles((path,))


def fitted(
    kind: str, folder: Path, samples: int = 40, counts: Real | None = None
) -> tuple[Array, Palette, FittedLayer]:
    kernels = np.random.default_rng(0).normal(size=KERNELS[kind]).astype(np.float32)
    np.save(folder / "kernels.npy", kernels)
    own = own_palette(kernels)
    counts = np.ones(len(kernels)) if counts is None else counts
    files = (inputs_of(kind, folder / f"{i}.npz", samples, seed, counts) for i, seed in ((0, 1), (1, 2)))
    task = LayerTask(folder / "kernels.npy", own, kind == "depthwise", *files)
    result = fit_layer(task).result
    assert result is not None
    return kernels, own, result


def keeps(kind: str, folder: Path, kernels: Array, stored: Array, channels: slice = slice(None)) -> float:
    """dB of a layer's outputs, apart from their mean, with the samples that judge."""
    with np.load(folder / "1.npz") as arrays, np.load(folder / "0.npz") as others:
        inputs = arrays["kept"].astype(np.float64) - others["means"].mean(axis=0).reshape(
            1, 1, *arrays["kept"].shape[2:]
        )
    formula = "npck,ck->npc" if kind == "depthwise" else "npck,mck->npm"
    maps = [
        np.einsum(
            formula,
            inputs,
            weights.astype(np.float64).reshape(
                *inputs.shape[2:] if kind == "depthwise" else (len(weights), *inputs.shape[2:])
            ),
        )
        for weights in (kernels, stored - kernels)
    ]
    signal, noise = (np.square(each[..., channels]).sum() for each in maps)
    return float(10 * np.log10(signal / noise))


@pytest.mark.parametrize("kind", KERNELS)
def test_a_layer_keeps_more_of_its_output(kind: str, tmp_path: Path) -> None:
    kernels, own, result = fitted(kind, tmp_path)
    stored = result.kernels.load()
    plain = own.centers[own.index[to_half(kernels).view(np.uint16)]].astype(np.float32)
    before, after = (keeps(kind, tmp_path, kernels, weights) for weights in (plain, stored))
    assert after > before + 1
    assert result.before < result.after <= result.limit < result.after + 3


@pytest.mark.parametrize("kind", KERNELS)
def test_what_is_stored_are_entries_of_the_palette(kind: str, tmp_path: Path) -> None:
    kernels, _, result = fitted(kind, tmp_path)
    centers, index = result.palette.centers, result.palette.index
    stored = result.kernels.load()
    assert result.entries.shape == kernels.shape and result.entries.dtype == np.uint8
    np.testing.assert_array_equal(stored, centers[result.entries].astype(np.float32))
    np.testing.assert_array_equal(centers[index[to_half(stored).view(np.uint16)]], stored.astype(np.float16))
    assert np.abs(stored - kernels).max() < 0.5, "each entry is at its own weight"


def test_a_kernel_with_many_inputs_has_several_hessians(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped, "_COLUMNS", 25)  # 108 inputs: 5 groups of 22 columns, of which 2 are empty
    kernels, _, result = fitted("ordinary", tmp_path)
    assert np.abs(result.kernels.load() - kernels).max() < 0.5 and result.after > result.before


def test_what_does_not_judge_better_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_fit, "_roundings", lambda *_: iter(()))
    kernels, own, result = fitted("ordinary", tmp_path)
    values = np.unique(own.centers.astype(np.float64))
    nearest = values[np.abs(kernels[..., None] - values).argmin(axis=-1)]
    np.testing.assert_array_equal(result.kernels.load(), nearest.astype(np.float32))
    assert result.before == result.after


@pytest.mark.parametrize("kind", KERNELS)
def test_channels_that_count_more_keep_more(kind: str, tmp_path: Path) -> None:
    counts = np.ones(KERNELS[kind][0])
    counts[0] = 1e4
    results = (fitted(kind, tmp_path, counts=each) for each in (None, counts))
    before, after = (keeps(kind, tmp_path, kernels, own.kernels.load(), slice(1)) for kernels, _, own in results)
    assert after > before + 1


@pytest.mark.parametrize("kind", KERNELS)
def test_how_many_inputs_are_in_memory_does_not_matter(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, whole = fitted(kind, tmp_path)
    monkeypatch.setattr(grouped, "_AT_A_TIME", 1)
    _, _, result = fitted(kind, tmp_path)
    np.testing.assert_array_equal(result.kernels.load(), whole.kernels.load())
    assert result.after == pytest.approx(whole.after)


# The mean square of a coordinate in a ball of volume 1, by hand: an interval, a disk, a ball.
BALLS = {1: 1 / 12, 2: 1 / (4 * np.pi), 3: (3 / (4 * np.pi)) ** (2 / 3) / 5, 4: 2**0.5 / (6 * np.pi)}


@pytest.mark.parametrize("columns", BALLS)
def test_the_limit_is_that_of_balls(columns: int) -> None:
    weights = np.random.default_rng(0).uniform(-1, 1, size=(2, columns, 10))
    values = np.linspace(-1, 1, 17)
    hessians, ones = np.tile(np.eye(columns), (2, 1, 1)), np.ones((1, 1, 1))
    share = limit_share(weights, hessians, Rounded(values, nearest(values, weights)), ones)
    assert share == pytest.approx(12 * BALLS[columns])


def test_the_limit_is_below_what_second_order_leaves() -> None:
    random = np.random.default_rng(0)
    weights, values, counts = random.uniform(-1, 1, size=(1, 3, 5000)), np.linspace(-1, 1, 65), np.ones((1, 1, 5000))
    counts[..., :1000] = 50
    hessians = np.ones((1, 3, 3)) + 0.1 * np.eye(3)
    plane = nearest_plane(weights, factors(hessians), values)
    plain, better = Rounded(values, nearest(values, weights)), descend(weights, hessians, plane, sweeps=9)
    of_plain, of_plane, of_better = (limit_share(weights, hessians, each, counts) for each in (plain, plane, better))
    assert of_plain < 0.5 * of_plane
    assert of_plane == pytest.approx(12 * BALLS[3], rel=0.1)
    assert of_plane < of_better < 1


def test_what_keeps_more_than_its_limit_is_at_its_limit() -> None:
    values, hessians, ones = np.linspace(-1, 1, 17), np.ones((1, 4, 4)) + 1e-6 * np.eye(4), np.ones((1, 1, 1))
    codes = np.random.default_rng(0).integers(17, size=(1, 4, 10))
    signs = np.array([1, -1, 1, -1])[np.newaxis, :, np.newaxis]
    cancelling = values[codes] + 0.04 * signs
    assert limit_share(cancelling, hessians, Rounded(values, codes), ones) == 1
    assert limit_share(values[codes], hessians, Rounded(values, codes), ones) == 1, "nothing is lost"
