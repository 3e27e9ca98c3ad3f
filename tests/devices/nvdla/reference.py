"""What NVDLA computes, as slow plain formulas: whole numbers, and fractions that are rounded at the end of each operation.

Maps are (height, width, channels), kernels (kernel, row, column, channel). Halves are their 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]


def clip(value: int, bits: int) -> int:
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


def rnd(value: int, shift: int) -> int:
    """Nearest, ties away from zero."""
    if shift == 0:
        return value
    magnitude = (abs(value) + (1 << (shift - 1))) >> shift
    return magnitude if value >= 0 else -magnitude


def shifted(value: int, shift: int) -> int:
    """Right by a positive shift, left by a negative one."""
    return rnd(value, shift) if shift >= 0 else value << -shift


# --- memory ------------------------------------------------------------------------------------------------------------


def to_memory(values: Numbers, atom_bytes: int, element: str) -> bytes:
    """A packed map: surfaces of atoms."""
    height, width, channels = values.shape
    lanes = atom_bytes // np.dtype(element).itemsize
    surfaces = -(-channels // lanes)
    whole = np.zeros((height, width, surfaces * lanes), element)
    whole[:, :, :channels] = values
    return whole.reshape(height, width, surfaces, lanes).transpose(2, 0, 1, 3).tobytes()


def from_memory(contents: bytes | memoryview, shape: tuple[int, int, int], atom_bytes: int, element: str) -> Numbers:
    height, width, channels = shape
    lanes = atom_bytes // np.dtype(element).itemsize
    surfaces = -(-channels // lanes)
    whole = np.frombuffer(contents, element).reshape(surfaces, height, width, lanes).transpose(1, 2, 0, 3)
    return whole.reshape(height, width, surfaces * lanes)[:, :, :channels]


def weights_to_memory(kernels: Numbers, atomic_c: int, atomic_k: int, entry_bytes: int, element: str) -> bytes:
    """Groups of kernels; blocks of channels, rows, columns, kernels, channels."""
    parts = []
    for first in range(0, len(kernels), atomic_k):
        group = kernels[first : first + atomic_k]
        for channel in range(0, kernels.shape[3], atomic_c):
            block = group[:, :, :, channel : channel + atomic_c]
            parts.append(block.transpose(1, 2, 0, 3).astype(element).tobytes())
    contents = b"".join(parts)
    return contents + bytes(-len(contents) % entry_bytes)


def contracted(values: Numbers, strides: tuple[int, int], channels: int) -> Numbers:
    """RUBIK: each of the x * y sets of channels fills one of the x * y positions that an element becomes."""
    height, width, _ = values.shape
    result = np.zeros((height * strides[1], width * strides[0], channels), values.dtype)
    for y, x in np.ndindex(strides[1], strides[0]):
        first = (y * strides[0] + x) * channels
        result[y :: strides[1], x :: strides[0]] = values[:, :, first : first + channels]
    return result


def planes_to_memory(values: Numbers) -> bytes:
    """RUBIK: a plane for each channel, whose lines end with zeros at a multiple of 32 bytes."""
    height, width, channels = values.shape
    line = -(-width * values.itemsize // 32) * 32 // values.itemsize
    planes = np.zeros((channels, height, line), values.dtype)
    planes[:, :, :width] = values.transpose(2, 0, 1)
    return planes.tobytes()


def copied(before: Numbers, source: Numbers, moves: Sequence[tuple[int, int]], size: int) -> Numbers:
    """BDMA: the bytes of `before`, with `size` bytes of the source from each offset to another: (from, to)."""
    after = before.copy()
    for start, to in moves:
        after[to : to + size] = source[start : start + size]
    return after


# --- pixels ------------------------------------------------------------------------------------------------------------

# Number of a format -> bytes of a component, and the order of components in the memory of each plane.
PIXELS = {
    0: (1, ("R",)),
    12: (1, ("RGBA",)),
    13: (1, ("BGRA",)),
    14: (1, ("ARGB",)),
    15: (1, ("ABGR",)),
    28: (1, ("Y", "VU")),
    29: (1, ("Y", "UV")),
    3: (2, ("R",)),
    5: (2, ("R",)),
    8: (2, ("RGBA",)),
}


def pixels_to_memory(values: Numbers, number: int, line: int) -> list[bytes]:
    """Each plane of an image of (height, width, components R, G, B, A or Y, U, V). line: bytes from one line to the next."""
    size, orders = PIXELS[number]
    planes = []
    for order in orders:
        places = [("YUV" if "Y" in orders else "RGBA").index(component) for component in order]
        plane = np.zeros((len(values), line), np.uint8)
        content = np.ascontiguousarray(values[:, :, places]).astype(f"<u{size}")
        plane[:, : values.shape[1] * len(order) * size] = content.view(np.uint8).reshape(len(values), -1)
        planes.append(plane.tobytes())
    return planes


def pixel_weights_to_memory(
    kernels: Numbers, atomic_c: int, atomic_k: int, entry_bytes: int, element: str, rows_together: int
) -> bytes:
    """Elements of a row are channels. rows_together: of the post-extension, which needs all elements of them in one block."""
    count, rows, columns, components = kernels.shape
    wide = kernels.reshape(count, rows, 1, columns * components)
    if rows_together == 1:
        return weights_to_memory(wide, atomic_c, atomic_k, entry_bytes, element)
    contents = b""
    for first in range(0, count, atomic_k):
        for row in range(0, rows, rows_together):
            contents += wide[first : first + atomic_k, row : row + rows_together].astype(element).tobytes()
    return contents + bytes(-len(contents) % entry_bytes)


def in_converted(values: Numbers, offsets: Sequence[int], scale: int, truncate: int, bits: int) -> Numbers:
    """offsets: of each component."""
    result = np.zeros(values.shape, np.int64)
    for place in np.ndindex(*values.shape):
        result[place] = clip(clip(rnd((int(values[place]) - offsets[place[-1]]) * scale, truncate), 17), bits)
    return result


# --- whole numbers -----------------------------------------------------------------------------------------------------


def windows(
    source: Numbers,
    size: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: Sequence[int],
    pad: float,
) -> Numbers:
    """(height, width, rows, columns, channels) of what each kernel position sees. size: rows, columns; the others: x, y."""
    left, right, top, bottom = pads
    padded = np.pad(source, ((top, bottom), (left, right), (0, 0)), constant_values=pad)
    rows, columns = size
    height = (padded.shape[0] - (rows - 1) * dilations[1] - 1) // strides[1] + 1
    width = (padded.shape[1] - (columns - 1) * dilations[0] - 1) // strides[0] + 1
    seen = np.zeros((height, width, rows, columns, source.shape[2]), padded.dtype)
    for row in range(rows):
        for column in range(columns):
            y = row * dilations[1]
            x = column * dilations[0]
            part = padded[
                y : y + (height - 1) * strides[1] + 1 : strides[1], x : x + (width - 1) * strides[0] + 1 : strides[0]
            ]
            seen[:, :, row, column] = part
    return seen


def convolved(seen: Numbers, kernels: Numbers, truncate: int) -> list[list[list[int]]]:
    """seen: of `windows`. Exact sums, rounded and clipped to 32 bits."""
    sums = np.einsum("yxrsc,krsc->yxk", seen.astype(object), kernels.astype(object))
    rounded: list[list[list[int]]] = [[[clip(rnd(v, truncate), 32) for v in pixel] for pixel in line] for line in sums]
    return rounded


@dataclass(frozen=True)
class Stage:
    """A unit X of SDP. algorithm: 0 maximum, 1 minimum, 2 sum; None: no ALU. factor: None: no multiplication."""

    algorithm: int | None = None
    operand: int = 0
    left: int = 0
    factor: int | None = None
    right: int = 0
    prelu: bool = False
    relu: bool = False

    def of(self, value: int) -> int:
        operand = clip(self.operand << self.left, 32)
        if self.algorithm is not None:
            value = (max(value, operand), min(value, operand), value + operand)[self.algorithm]
        if not (self.prelu and value >= 0):
            value = clip(rnd(value * (1 if self.factor is None else self.factor), self.right), 32)
        return max(value, 0) if self.relu else value


def out_converted(value: int, offset: int, scale: int, shift: int, bits: int) -> int:
    return clip(clip(rnd((value - offset) * scale, shift), 17), bits)


def pooled(
    source: Numbers,
    method: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pads: Sequence[int],
    reciprocals: tuple[int, int],
    pad_values: Sequence[int],
) -> Numbers:
    """Integers. kernel, strides, reciprocals: of width, height. pad_values: of 0 to 7 positions."""
    left, right, top, bottom = pads
    height = (source.shape[0] + top + bottom - kernel[1]) // strides[1] + 1
    width = (source.shape[1] + left + right - kernel[0]) // strides[0] + 1
    result = np.zeros((height, width, source.shape[2]), source.dtype)
    for y in range(height):
        rows = [r for r in range(y * strides[1] - top, y * strides[1] - top + kernel[1]) if 0 <= r < source.shape[0]]
        for x in range(width):
            start = x * strides[0] - left
            columns = [c for c in range(start, start + kernel[0]) if 0 <= c < source.shape[1]]
            for channel in range(source.shape[2]):
                values = [[int(source[r, c, channel]) for c in columns] for r in rows]
                if method:
                    flat = [value for row in values for value in row]
                    result[y, x, channel] = max(flat) if method == 1 else min(flat)
                    continue
                total = sum(sum(row) + pad_values[kernel[0] - len(columns)] for row in values)
                total += pad_values[kernel[1] - len(rows)] * kernel[0]
                total = rnd(rnd(total * reciprocals[0], 16) * reciprocals[1], 16)
                result[y, x, channel] = np.array(total).astype(source.dtype)
    return result


def chosen(kinds: Sequence[str], priorities: tuple[int, int, int]) -> int:
    """The table that counts. kinds: below, above or hit, of each. priorities: below, above, hybrid."""
    if kinds.count("hit") == 1:
        return kinds.index("hit")
    if kinds[0] == kinds[1] != "hit":
        return priorities[0 if kinds[0] == "below" else 1]
    return priorities[2]


@dataclass(frozen=True)
class Tables:
    """LE and LO of integers. fraction: bits of a position between entries; bits: of the result."""

    le: Sequence[int]
    lo: Sequence[int]
    exponential: bool
    offset: int
    selects: tuple[int, int]
    starts: tuple[int, int]
    ends: tuple[int, int]
    scales: tuple[tuple[int, int], tuple[int, int]]  # of each table, below and above
    shifts: tuple[tuple[int, int], tuple[int, int]]
    priorities: tuple[int, int, int]  # below, above, hybrid
    bits: int

    def _place(self, table: int, x: int) -> tuple[str, Fraction]:
        """Below, above or hit, and the position."""
        last = len(self.lo if table else self.le) - 1
        distance = x - self.starts[table]
        if distance <= 0:
            return "below", Fraction(0)
        if table == 0 and self.exponential:
            power = distance.bit_length() - 1
            place = power - self.offset + Fraction(distance - (1 << power), 1 << power)
        else:
            select = self.selects[table]
            place = Fraction(distance, 1 << select) if select >= 0 else Fraction(distance << -select)
        if place < 0:
            return "below", Fraction(0)
        return ("above" if place >= last else "hit"), place

    def of(self, x: int, between: Callable[[int, int, Fraction], int], bias_of_zero: bool) -> int:
        """between: of two entries and a position. bias_of_zero: an offset of 0 also moves the start."""
        places = [self._place(table, x) for table in (0, 1)]
        kinds = [kind for kind, _ in places]
        table = chosen(kinds, self.priorities)
        kind, place = places[table]
        entries = self.lo if table else self.le
        if kind == "hit":
            return between(entries[int(place)], entries[int(place) + 1], place - int(place))
        above = int(kind == "above")
        bound = (self.ends if above else self.starts)[table]
        if not above and table == 0 and self.exponential and (self.offset > 0 or (bias_of_zero and self.offset == 0)):
            bound += 1 << self.offset
        slope = shifted((x - bound) * self.scales[table][above], self.shifts[table][above])
        return clip(entries[-1 if above else 0] + (slope if bias_of_zero else clip(slope, 32)), self.bits)


def between_sdp(low: int, high: int, place: Fraction) -> int:
    f = int(place * 2**35)
    return clip(rnd(low * (2**35 - f) + high * f, 35), 32)


def between_cdp(low: int, high: int, place: Fraction) -> int:
    return clip(low + rnd((high - low) * int(place * 2**16), 16), 16)


def responded(
    source: Numbers, size: int, tables: Tables, into: tuple[int, int, int], out: tuple[int, int, int], bits: int
) -> Numbers:
    """CDP of integers. into, out: offset, scale, shift of the converters."""
    result = np.zeros_like(source)
    for y, x in np.ndindex(*source.shape[:2]):
        values = [clip(rnd((int(v) - into[0]) * into[1], into[2]), bits + 1) for v in source[y, x]]
        for channel, own in enumerate(values):
            around = values[max(channel - size // 2, 0) : channel + size // 2 + 1]
            table = tables.of(sum(v * v for v in around), between_cdp, bias_of_zero=True)
            result[y, x, channel] = clip(rnd((table * own - out[0]) * out[1], out[2]), bits)
    return result


# --- floating point ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Float:
    """A format. Numbers are fractions with a sign of zero, (value, negative); halves come and go as bits."""

    exponent: int
    fraction: int

    @property
    def least(self) -> Fraction:
        return Fraction(2) ** (2 - (1 << (self.exponent - 1)))

    @property
    def most(self) -> Fraction:
        return (2 - Fraction(1, 1 << self.fraction)) * Fraction(2) ** ((1 << (self.exponent - 1)) - 1)

    def rounded(self, value: Fraction, *, flush_first: bool = False) -> Fraction:
        """Nearest, ties to even; what stays below the least number is 0."""
        if value == 0 or (flush_first and abs(value) < self.least):
            return Fraction(0)
        power = Fraction(1)
        magnitude = abs(value)
        while magnitude >= 2 * power:
            power *= 2
        while magnitude < power:
            power /= 2
        unit = power / (1 << self.fraction)
        result = round(magnitude / unit) * unit
        if result < self.least:
            return Fraction(0)
        return min(result, self.most) * (1 if value > 0 else -1)


FP32 = Float(8, 23)
FP17 = Float(6, 10)


def half_value(bits: int) -> Fraction:
    """Of a finite half."""
    exponent, fraction = bits >> 10 & 31, bits & 1023
    magnitude = (
        Fraction(fraction, 1 << 24) if exponent == 0 else Fraction(1024 + fraction) * Fraction(2) ** (exponent - 25)
    )
    return -magnitude if bits >> 15 else magnitude


def half_bits(value: Fraction) -> int:
    """Nearest, ties to even, without infinity. The sign of zero is not kept."""
    magnitude = min(abs(value), half_value(0x7BFF))
    unit = Fraction(1, 1 << 24)
    while magnitude >= 2048 * unit:
        unit *= 2
    number = round(magnitude / unit)
    shift = (unit * (1 << 24)).numerator.bit_length() - 1
    bits = number if shift == 0 else (shift << 10) + number
    return min(bits, 0x7BFF) | (0x8000 if value < 0 else 0)


def sum32(first: Fraction, second: Fraction) -> Fraction:
    return FP32.rounded(first + second, flush_first=True)


def sum17(first: Fraction, second: Fraction) -> Fraction:
    return FP17.rounded(first + second, flush_first=True)


@dataclass(frozen=True)
class HalfTables:
    """LE and LO of halves; what finds an entry is in fp32. bits: of a position between entries."""

    le: Sequence[Fraction]
    lo: Sequence[Fraction]
    exponential: bool
    offset: int
    selects: tuple[int, int]
    starts: tuple[Fraction, Fraction]
    ends: tuple[Fraction, Fraction]
    slopes: tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]  # of each table, below and above
    priorities: tuple[int, int, int]  # below, above, hybrid
    bits: int

    def _place(self, table: int, x: Fraction) -> tuple[str, Fraction]:
        """Below, above or hit, and the position, whose fraction is cut."""
        distance = sum32(x, -self.starts[table])
        if distance <= 0:
            return "below", Fraction(0)
        place = distance / Fraction(2) ** self.selects[table]
        if table == 0 and self.exponential:
            power = 0
            while Fraction(2) ** (power + 1) <= distance:
                power += 1
            while Fraction(2) ** power > distance:
                power -= 1
            place = power - self.offset + distance / Fraction(2) ** power - 1
        if place < 0:
            return "below", place
        cut = Fraction(int(place * 2**self.bits), 2**self.bits)
        return ("above" if place >= (256 if table else 64) else "hit"), cut

    def of(self, x: Fraction, between: Callable[[Fraction, Fraction, Fraction], Fraction]) -> Fraction:
        places = [self._place(table, x) for table in (0, 1)]
        table = chosen([kind for kind, _ in places], self.priorities)
        kind, place = places[table]
        entries = self.lo if table else self.le
        if kind == "hit":
            return between(entries[int(place)], entries[int(place) + 1], place - int(place))
        above = kind == "above"
        bound = (self.ends if above else self.starts)[table]
        if not above and table == 0 and self.exponential:
            bound = sum32(bound, Fraction(2) ** self.offset)
        distance = FP17.rounded(sum32(x, -bound))
        return sum17(FP17.rounded(distance * self.slopes[table][above]), entries[-1 if above else 0])


def between_sdp_halves(low: Fraction, high: Fraction, place: Fraction) -> Fraction:
    return sum17(FP17.rounded(FP17.rounded(1 - place) * low), FP17.rounded(FP17.rounded(place) * high))


def between_cdp_halves(low: Fraction, high: Fraction, place: Fraction) -> Fraction:
    return sum17(FP17.rounded(FP17.rounded(sum32(high, -low)) * FP17.rounded(place)), low)


def responded_halves(source: Numbers, size: int, tables: HalfTables) -> list[list[list[Fraction]]]:
    """CDP of halves, not yet rounded to halves."""
    height, width, channels = source.shape
    result = [[[Fraction(0)] * channels for _ in range(width)] for _ in range(height)]
    for y, x in np.ndindex(height, width):
        values = [half_value(int(v)) for v in source[y, x]]
        around = [Fraction(0)] * 4 + [FP32.rounded(v * v) for v in values] + [Fraction(0)] * 4
        for channel, own in enumerate(values):
            squares = around[channel : channel + 9]
            total = sum32(sum32(squares[3], squares[5]), squares[4])
            for distance in range(2, size // 2 + 1):
                total = sum32(total, sum32(squares[4 - distance], squares[4 + distance]))
            result[y][x][channel] = FP17.rounded(own * tables.of(total, between_cdp_halves))
    return result


def booth(data: int, weight: int, sign: int, shift: int) -> int:
    """A product of mantissas as CMAC aligns it: a sum and a carry, cut separately."""
    partials = []
    increments = []
    for digit in range(8):
        code = ((weight << 1) >> (2 * digit) & 7) ^ (7 if sign else 0)
        product = {0: 0, 7: 0, 3: data << 1, 4: data << 1}.get(code, data)
        if code in (4, 5, 6):
            partials.append(~product & 0xFFFF)
            increments.append(1)
        else:
            partials.append(product | 0x10000)
            increments.append(0)
    rows = [partial << (2 * digit) for digit, partial in enumerate(partials)]
    for digit in (1, 2, 3, 5, 6, 7):
        rows[digit] |= increments[digit - 1] << (2 * digit - 2)
    low = [*rows[:4], increments[3] << 6]
    high = [*rows[4:], increments[7] << 14]
    total, carry = compressed(compressed(low) + compressed(high))
    if shift >= 32:
        return 0
    constant = -(((1 << 32) - 0xAAAB0000) // (1 << shift))  # rounded up
    value = ((total >> shift) + (carry >> shift) + constant) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def compressed(rows: list[int]) -> list[int]:
    """Of 32 bits: triples become a sum and a carry, until two are left."""
    while len(rows) > 2:
        made = []
        whole = len(rows) // 3 * 3
        for a, b, c in zip(*[iter(rows[:whole])] * 3, strict=True):
            made += [a ^ b ^ c, ((a & b | b & c | a & c) << 1) & 0xFFFFFFFF]
        rows = made + rows[whole:]
    return rows


class Cacc:
    """The accumulator of halves, as an exact number of at most 40 bits."""

    def __init__(self) -> None:
        self.mantissa = 0
        self.exponent = 0

    def add(self, data: Sequence[int], weights: Sequence[int]) -> None:
        """One step: halves of up to 64 lanes, without NaN."""
        pairs = [(d, w) for d, w in zip(data, weights, strict=True) if d & 0x7FFF and w & 0x7FFF]
        if not pairs:
            return
        most = max((d >> 12 & 7) + (w >> 12 & 7) for d, w in pairs)
        total = 0
        for d, w in pairs:
            shift = 4 * (most - (d >> 12 & 7) - (w >> 12 & 7))
            total += booth(_mantissa(d), _mantissa(w), (d ^ w) >> 15, shift)
        if total:
            self._accumulate(total, 4 * most)

    def _accumulate(self, total: int, exponent: int) -> None:
        lift = 37 - _length(total)
        added = total << (lift + 2)
        exponent = exponent - lift + 49
        own = self.exponent if self.mantissa else 0
        # Both as multiples of 2^(top - 40), with 40 bits below; more is dropped.
        top = max(exponent, own)
        first = self._aligned(self.mantissa, top - own)
        second = self._aligned(added, top - exponent)
        whole = first + second
        bits = 40
        if not -(1 << 39) <= whole >> 40 < 1 << 39:
            top += 1
            bits = 41
        else:
            lift = 39 - _length(whole >> 40)
            whole <<= lift
            top -= lift
        kept = whole >> bits
        guard = whole >> (bits - 1) & 1
        sticky = bool(whole & ((1 << (bits - 1)) - 1))
        if guard and (kept >= 0 or sticky):
            kept += 1
        if kept >= 1 << 39:
            kept >>= 1
            top += 1
        self.mantissa = kept
        self.exponent = top if kept else 0

    @staticmethod
    def _aligned(value: int, distance: int) -> int:
        return (value << 40) >> distance if distance <= 40 else 0

    def value(self) -> Fraction:
        """As fp32, rounded half up in magnitude."""
        magnitude = abs(self.mantissa)
        if magnitude != 1 << 39:
            magnitude = (magnitude + (1 << 14)) >> 15 << 15
        return Fraction(magnitude if self.mantissa > 0 else -magnitude) * Fraction(2) ** (self.exponent - 101)


def _mantissa(bits: int) -> int:
    exponent = bits >> 10 & 31
    return (bits & 1023) << 1 if exponent == 0 else (1024 | bits & 1023) << (exponent & 3)


def _length(value: int) -> int:
    return (value if value >= 0 else ~value).bit_length()
