"""Looks at the numbers of layers as they become FP16: refuses those that do not fit, and warns of what is lost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.half import Loss, loss, to_half
from cnn_convertor.devices.program import ElementType, StoredArray
from cnn_convertor.errors import Origin, Problem, UnsupportedError, warn

Half = NDArray[np.float16]
_NAMED_LAYERS = 5  # in a warning
_SMALLEST = 2.0**-24  # the smallest number of FP16 above 0
_SMALLEST_NORMAL = 2.0**-14
_GOOD_SQNR = 60.0  # dB: rounding normal FP16 numbers alone leaves 66 or more
_SMALL_SHARE = 1e-4  # of a layer's weights: of a million, some always lie that close to 0
_LARGE_SHARE = 0.1  # of a layer's weights: without so many, its results may well change
_BOUNDED = "train again with a bound on the weights, and look for batch norm variances that are zero or negative"
_REPLACED = "if it is a number that the model adds, such as a mask, write one from -60000 to 60000 in its place"


class HalfCheck:
    """Looks at all numbers of one layer as they become FP16.

    where, weights: the layer, and how many weights it has.
    flushed: how many weights were not 0 and became 0. subnormal: how many lost digits since they are below 2**-14.
    signal: the sum of the squares of all weights, or less where it is large.
    """

    def __init__(self, where: Origin | None, weights: int) -> None:
        self.where = where
        self.weights = weights
        self.flushed = self.subnormal = 0
        self.signal = 0.0

    @property
    def flushed_share(self) -> float:
        return self.flushed / self.weights

    @property
    def sqnr(self) -> float:
        """dB that the weights have left when numbers below 2**-14 are rounded to multiples of 2**-24, as they are."""
        noise = (self.subnormal + self.flushed) * _SMALLEST**2 / 12  # of an error that is anything up to half of that
        if noise == 0 or self.signal == 0:
            return math.inf
        return 10 * math.log10(self.signal / noise)

    def halve(self, values: NDArray[np.float32], what: str) -> Half:
        """The values as FP16. Raises UnsupportedError when one of them is too large or NaN."""
        half, lost = halved(values, what, self.where)
        if what == "weight":  # a bias that becomes 0 is less than any number of the map that it is added to
            self.flushed += lost.flushed
            normal = values.size - lost.subnormal - lost.flushed
            # Skip the exact sum if 10 % of the values are normal: that alone bounds the SQNR above the threshold.
            self.signal += (
                normal * _SMALLEST_NORMAL**2
                if 10 * normal > values.size
                else float(np.square(values, dtype=float).sum())
            )
            self.subnormal += lost.subnormal
        return half


def halved(values: NDArray[np.float32], what: str, where: Origin | None) -> tuple[Half, Loss]:
    """The values of a layer as FP16, and what that loses. Raises UnsupportedError when one of them is too large or NaN."""
    half = to_half(values)
    lost = loss(values, half)
    if lost.overflowed.size:
        value = values.reshape(-1)[lost.overflowed[0]]
        flaw = "is NaN" if np.isnan(value) else f"of {value:g} does not fit FP16 (65504 at most)"
        raise UnsupportedError(
            Problem(
                "DV501",
                f"a {what} {flaw} after folding; {lost.overflowed.size} such values",
                where,
                f"{_REPLACED}; otherwise {_BOUNDED}" if what in ("bias", "constant") else _BOUNDED,
            )
        )
    return half, lost


def encoded(array: StoredArray) -> NDArray[np.uint8]:
    """The bytes of what a function of the CPU reads beside maps. Raises UnsupportedError for what FP16 does not hold."""
    values = array.values.load().reshape(-1)
    if array.type is ElementType.HALF:
        return halved(values, "constant", array.where)[0].astype("<f2", copy=False).view(np.uint8)
    return values.astype("<f4", copy=False).view(np.uint8)


def warn_of_losses(checks: Sequence[HalfCheck]) -> None:
    """One warning of each kind for the whole network."""
    _warn_of_zeros(checks)
    _warn_of_subnormals(checks)


def _warn_of_zeros(checks: Sequence[HalfCheck]) -> None:
    """One warning for the whole network, naming the layers that lost the largest share of their weights."""
    losers = sorted((c for c in checks if c.flushed_share >= _SMALL_SHARE), key=lambda c: c.flushed_share, reverse=True)
    if not losers:
        return
    origins = [c.where or Origin("") for c in losers]
    parts = (f'{c.flushed} of {c.weights} in "{o.layer}"' for c, o in zip(losers, origins, strict=True))
    share = losers[0].flushed_share
    hint = "nothing, if `verify` passes: so few weights seldom matter"
    if share >= _LARGE_SHARE:
        hint = (
            f'"{origins[0].layer}" computes without {share:.1%} of its weights: run `verify`, and if the outputs suffer, '
            "scale the layer's weights up and the next layer's down"
        )
    warn(
        Problem(
            "DV502",
            f"weights too small for FP16 became 0: {_first_of(parts, len(losers))}",
            Origin(origins[0].file),
            hint,
        )
    )


def _warn_of_subnormals(checks: Sequence[HalfCheck]) -> None:
    """One warning for the whole network, naming the layers whose weights as a whole lost most by being small."""
    losers = sorted((c for c in checks if c.subnormal and c.sqnr < _GOOD_SQNR), key=lambda c: c.sqnr)
    if not losers:
        return
    origins = [c.where or Origin("") for c in losers]
    parts = (
        f'{c.subnormal / c.weights:.1%} of "{origin.layer}", which keeps about {c.sqnr:.0f} dB'
        for c, origin in zip(losers, origins, strict=True)
    )
    warn(
        Problem(
            "DV504",
            f"weights below {_SMALLEST_NORMAL:.2g} have fewer digits in FP16: {_first_of(parts, len(losers))}",
            Origin(origins[0].file),
            "scale the layer's weights up and the next layer's down, if `verify` shows that the results suffer",
        )
    )


def _first_of(parts: Iterable[str], count: int) -> str:
    """Some of the parts of a sentence, and how many more there are."""
    named = list(islice(parts, _NAMED_LAYERS))
    others = count - len(named)
    return ", ".join(named) + (f", and in {others} other layer{'s' * (others > 1)}" if others else "")
