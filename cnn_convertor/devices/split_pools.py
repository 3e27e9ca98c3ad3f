"""Splits pools that are too large for a device into chains of small ones.

Pools are separable: each axis is split by itself, and the chains are brought to one length.
"""

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import NamedTuple, Protocol

from cnn_convertor.ir.ops import Padding, Pair, Shape, Window

LONGEST_CHAIN = 32  # max pools; a longer search takes too long for pools of hundreds of pixels without a chain


class PoolLimits(Protocol):
    """Sides of windows that a device has: of max pools any of some, of average pools up to the largest."""

    @property
    def max_pool_heights(self) -> tuple[int, ...]: ...

    @property
    def max_pool_widths(self) -> tuple[int, ...]: ...

    @property
    def max_average_pool(self) -> int: ...


class AxisWindow(NamedTuple):
    """A window on one axis: `before` and `after` are padding."""

    kernel: int
    stride: int
    before: int = 0
    after: int = 0


def split_max(window: Window, shape: Shape, limits: PoolLimits) -> list[Window] | None:
    """Windows of an equal chain of max pools; None if there is none."""
    rows, columns = _axes(window)
    for count in range(1, min(max(window.kernel), LONGEST_CHAIN) + 1):
        vertical = _max_axis(rows, shape.height, count, limits.max_pool_heights)
        horizontal = _max_axis(columns, shape.width, count, limits.max_pool_widths)
        if vertical is not None and horizontal is not None:
            return _windows(vertical, horizontal)
    return None


def split_average(window: Window, shape: Shape, limits: PoolLimits) -> list[Window] | None:
    """Windows of an equal chain of sums; None if there is none."""
    rows, columns = _axes(window)
    vertical = _sum_axis(rows, shape.height, limits.max_average_pool)
    horizontal = _sum_axis(columns, shape.width, limits.max_average_pool)
    if vertical is None or horizontal is None:
        return None
    while len(vertical) < len(horizontal):
        vertical.append(AxisWindow(1, 1))
    while len(horizontal) < len(vertical):
        horizontal.append(AxisWindow(1, 1))
    return _windows(vertical, horizontal)


def _axes(window: Window) -> tuple[AxisWindow, AxisWindow]:
    pad = window.padding
    return (
        AxisWindow(window.kernel.height, window.stride.height, pad.top, pad.bottom),
        AxisWindow(window.kernel.width, window.stride.width, pad.left, pad.right),
    )


def _windows(vertical: list[AxisWindow], horizontal: list[AxisWindow]) -> list[Window]:
    return [
        Window(
            Pair(v.kernel, h.kernel),
            Pair(v.stride, h.stride),
            padding=Padding(v.before, v.after, h.before, h.after),
        )
        for v, h in zip(vertical, horizontal, strict=True)
    ]


def _max_axis(axis: AxisWindow, size: int, count: int, allowed: tuple[int, ...]) -> list[AxisWindow] | None:
    """A chain of `count` pools with allowed kernels; None if there is none."""
    if _covers_all(axis, size):
        chain = _cover(size, count, allowed)
        if chain is not None:
            return chain
    for kernels in _products(axis.kernel, count, allowed):
        chain = _strided(axis, kernels)
        if chain is not None:
            return chain
    return _overlapping(axis, count, allowed)


def _covers_all(axis: AxisWindow, size: int) -> bool:
    """Whether one window covers the whole axis."""
    return axis.before + size + axis.after < axis.kernel + axis.stride and axis.kernel >= axis.before + size


def _cover(size: int, count: int, allowed: tuple[int, ...]) -> list[AxisWindow] | None:
    """Windows side by side over the whole axis and some padding, which is never the maximum. Least padding first."""
    choices = sorted(_choices(count, allowed), key=math.prod)
    for kernels in choices:
        if math.prod(kernels) < size:
            continue
        chain, left = [], size
        for kernel in kernels:
            out = -(-left // kernel)
            chain.append(AxisWindow(kernel, kernel, 0, out * kernel - left))
            left = out
        if all(step.after < step.kernel for step in chain):
            return chain
    return None


def _strided(axis: AxisWindow, kernels: tuple[int, ...]) -> list[AxisWindow] | None:
    """Windows side by side inside the large one, whose stride must be a multiple of each part."""
    chain, stride = [], axis.stride
    for position, kernel in enumerate(kernels):
        last = position == len(kernels) - 1
        if not last and stride % kernel:
            return None
        chain.append(AxisWindow(kernel, stride if last else kernel))
        stride //= kernel
    if axis.before or axis.after >= kernels[0]:
        return None  # the parts would not start with the large window
    chain[0] = chain[0]._replace(after=axis.after)
    return chain


def _overlapping(axis: AxisWindow, count: int, allowed: tuple[int, ...]) -> list[AxisWindow] | None:
    """Windows with stride 1: kernels a, b, ... cover a + b + ... - (count - 1); the last one has the stride.

    The padding is distributed so that no window sees padding alone.
    """
    for kernels in _choices(count, allowed):
        if sum(kernels) - (count - 1) != axis.kernel:
            continue
        before = axis.before
        after = axis.after
        chain = []
        for kernel in kernels:
            here_before = min(before, kernel - 1)
            here_after = min(after, kernel - 1)
            chain.append(AxisWindow(kernel, 1, here_before, here_after))
            before, after = before - here_before, after - here_after
        if before == after == 0:
            chain[-1] = chain[-1]._replace(stride=axis.stride)
            return chain
    return None


def _choices(count: int, allowed: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All non-increasing tuples of `count` kernels."""
    return combinations_with_replacement(sorted(allowed, reverse=True), count)


def _products(kernel: int, count: int, allowed: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return (kernels for kernels in _choices(count, allowed) if math.prod(kernels) == kernel)


def _sum_axis(axis: AxisWindow, size: int, limit: int) -> list[AxisWindow] | None:
    """A chain of sums, each over at most `limit` elements. Padding is zeros, so a sum may have more of it."""
    if axis.kernel <= limit:
        return [axis]
    if axis.kernel == axis.before + size + axis.after:
        chain, left = [], size
        while left > limit:
            kernel = next((k for k in range(limit, 1, -1) if left % k == 0), limit)
            out = -(-left // kernel)
            chain.append(AxisWindow(kernel, kernel, 0, out * kernel - left))
            left = out
        return [*chain, AxisWindow(left, 1)]
    for kernel in range(limit, 1, -1):
        if axis.kernel % kernel == 0 and axis.stride % kernel == 0:
            rest = _sum_axis(
                AxisWindow(axis.kernel // kernel, axis.stride // kernel), _outputs(axis, size, kernel), limit
            )
            if rest is not None:
                return [axis._replace(kernel=kernel, stride=kernel), *rest]
    return None


def _outputs(axis: AxisWindow, size: int, kernel: int) -> int:
    return (axis.before + size + axis.after - kernel) // kernel + 1
