"""Measures the differences between the device's maps and the framework's."""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.ir.graph import Graph
from cnn_convertor.quantize import decibels
from cnn_convertor.verification.results import Comparison

Real: TypeAlias = NDArray[np.float64]

_LEAST_SPREAD = 1e-6  # of values, over their magnitude: less is a constant
_LEAST_HALVES = 10 * 2.0**-24 / math.sqrt(12)  # RMS of values of which FP16, whose steps end at 2^-24, keeps 20 dB
_LEAST_PROBABILITY = 1e-30  # smaller ones are denormal in FP32, or 0
_LEAST_SHARE_KNOWN = 0.5


def compare(name: str, device: Maps, reference: Maps, *, least_rms: float = 0.0) -> Comparison:
    """Compare maps of N samples: (N, H, W, C), or (N, size). least_rms: a weaker reference counts as having this RMS.

    NaN and infinity that both sides have at the same elements are not an error, but a doubt.
    """
    assert device.shape[0] == reference.shape[0] and device.size == reference.size, f"{device.shape}, {reference.shape}"
    mine = device.reshape(len(device), -1).astype(np.float64)
    theirs = reference.reshape(len(device), -1).astype(np.float64)
    doubt = _doubt(mine, theirs)
    shared = ~np.isfinite(mine) & ((mine == theirs) | (np.isnan(mine) & np.isnan(theirs)))
    mine, theirs = np.where(shared, 0, mine), np.where(shared, 0, theirs)
    with np.errstate(invalid="ignore"):
        error = np.abs(mine - theirs)
    finite = bool(np.isfinite(error).all())
    is_vector = device.shape[-1] == math.prod(device.shape[1:]) > 1
    return Comparison(
        name=name,
        elements=mine.shape[1],
        max_error=float(error.max(initial=0)) if finite else math.inf,
        mean_error=float(error.mean()) if finite else math.inf,
        sqnr=sqnr(mine, theirs, least_rms=least_rms),
        cosine=_cosine(mine, theirs) if finite else 0.0,
        agreement=float(np.mean(mine.argmax(axis=1) == theirs.argmax(axis=1))) if is_vector else None,
        largest=max(_largest(mine), _largest(theirs)),
        doubt=doubt,
    )


def _doubt(mine: Real, theirs: Real) -> str:
    """Why equal values would prove nothing."""
    if not (np.isfinite(mine).all() and np.isfinite(theirs).all()):
        sides = {"the device": mine, "the framework": theirs}
        which = " and ".join(side for side, values in sides.items() if not np.isfinite(values).all())
        return f"NaN or infinity in the values of {which}"
    low = float(theirs.min(initial=math.inf))
    high = float(theirs.max(initial=-math.inf))
    if low == high == 0:
        return "all values are 0"
    if theirs.size > 1 and high - low <= _LEAST_SPREAD * max(abs(low), abs(high)):
        return f"all values are {high:.4g}"
    if theirs.size and float(np.sqrt(np.mean(np.square(theirs)))) < _LEAST_HALVES:
        return f"the values vanish in FP16: the largest is {max(abs(low), abs(high)):.2g}"
    return ""


def sqnr(device: NDArray[np.floating], reference: NDArray[np.floating], *, least_rms: float = 0.0) -> float:
    """Signal to noise in dB: the reference's power over the error's."""
    signal = np.asarray(reference, np.float64)
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN, which is found below
        noise = float(np.sum(np.square(np.asarray(device, np.float64) - signal)))
    if not math.isfinite(noise):
        return -math.inf
    power = max(float(np.sum(np.square(signal))), signal.size * least_rms**2)
    return decibels(power, noise)


def _cosine(mine: Real, theirs: Real) -> float:
    norms = float(np.linalg.norm(mine) * np.linalg.norm(theirs))
    if norms == 0:
        return 1.0 if not mine.any() and not theirs.any() else 0.0
    return min(1.0, float(np.vdot(mine, theirs)) / norms)


def _largest(values: Real) -> float:
    return float(np.abs(values).max(initial=0))


# --- detections ----------------------------------------------------------------------------------------------------------

_LABEL, _ASIDE = 1, 2  # a row is image, label, confidence, box; columns behind the label are compared


def matched_detections(device: Maps, reference: Maps) -> tuple[Maps, Maps]:
    """Confidences and boxes of both sides, (N, rows, 5), the reference's rows in the device's order.

    The order of rows with nearly the same confidence means nothing. Each row of the device, (N, rows, 7, 1), is paired with
    the nearest remaining row of its label; a row without a counterpart is paired with zeros.
    """
    samples = [_matched(mine[:, :, 0], theirs[:, :, 0]) for mine, theirs in zip(device, reference, strict=True)]
    mine, theirs = (np.stack(side) for side in zip(*samples, strict=True))
    return mine, theirs


def _matched(mine: Maps, theirs: Maps) -> tuple[Maps, Maps]:
    """The pairs of one sample."""
    left = [row for row in theirs if _is_detection(row)]
    sides: list[tuple[Maps, Maps]] = []
    nothing = np.zeros_like(mine[0])
    for row in filter(_is_detection, mine):
        near = [(float(np.abs(row - other).sum()), i) for i, other in enumerate(left) if other[_LABEL] == row[_LABEL]]
        sides.append((row, left.pop(min(near)[1]) if near else nothing))
    sides += [(nothing, row) for row in left]
    sides += [(nothing, nothing)] * (2 * len(mine) - len(sides))
    device, reference = (np.stack(side)[:, _ASIDE:] for side in zip(*sides, strict=True))
    return device, reference


def _is_detection(row: Maps) -> bool:
    """Whether a row has an image and a label: without any detection the first row has no label, the others no image."""
    return bool(row[0] >= 0 and row[_LABEL] >= 0)


# --- which map is which ------------------------------------------------------------------------------------------------


def layer_of(graph: Graph, node: str) -> str:
    """The framework layer whose output a node computes."""
    where = graph[node].where
    return node if where is None else where.layer


# --- softmax -----------------------------------------------------------------------------------------------------------


def before_softmax(name: str, logits: Maps, probabilities: Maps) -> Comparison | None:
    """Compare the input of a softmax, since its output hides errors when one probability is close to 1.

    logits: the device's, (N, H, W, C). probabilities: the framework's, whose logarithms are its logits but for a constant, so
    that both are compared without their mean over the channels. Logits that hardly differ count as 1, since an error of a
    logit is a relative error of a probability. Samples with too few probabilities far enough from 0 are left out; None
    when none is left.
    """
    sides = known_logits(logits, probabilities)
    return None if sides is None else compare(name, *sides, least_rms=1.0)


def known_logits(logits: Maps, probabilities: Maps) -> tuple[Maps, Maps] | None:
    """The device's logits and the framework's, as `before_softmax` compares them."""
    known = probabilities > _LEAST_PROBABILITY
    shown = known.reshape(len(known), -1).mean(axis=1) >= _LEAST_SHARE_KNOWN
    if not shown.any():
        return None
    logits = logits[shown]
    probabilities = probabilities[shown]
    known = known[shown]
    logarithms = np.log(np.where(known, probabilities, 1).astype(np.float64))
    return _centered(logits.astype(np.float64), known), _centered(logarithms, known)


def _centered(values: Real, known: NDArray[np.bool_]) -> Maps:
    """Known values minus their mean over the channels; 0 elsewhere."""
    count = np.maximum(known.sum(axis=-1, keepdims=True), 1)
    mean = np.where(known, values, 0).sum(axis=-1, keepdims=True) / count
    return np.where(known, values - mean, 0).astype(np.float32)
