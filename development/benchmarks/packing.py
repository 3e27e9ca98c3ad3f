"""What packing costs beside a bare cast: python -m development.benchmarks.packing

Both sides of a ratio run in turns and the best of several rounds counts, so that it means the same on a busy machine.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import BinaryIO

import click
import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.weights.streams import PackedShape, half_codes, pack, palette_codes
from cnn_convertor.devices.half import to_half
from cnn_convertor.ir.ops import Pair
from cnn_convertor.quantize import fit, histogram
from development.benchmarks.rounds import best_times

ROUNDS = 5
CAST_AT_A_TIME = 1 << 20  # weights

# VGG16's convolutions and fully connected layers: kernel size, input channels, output channels.
VGG16 = {
    "conv1_1": (3, 3, 64),
    "conv1_2": (3, 64, 64),
    "conv2_1": (3, 64, 128),
    "conv2_2": (3, 128, 128),
    "conv3_1": (3, 128, 256),
    "conv3_2": (3, 256, 256),
    "conv4_1": (3, 256, 512),
    "conv4_2": (3, 512, 512),
    "fc6": (1, 25088, 4096),
    "fc7": (1, 4096, 4096),
    "fc8": (1, 4096, 1000),
}


def random_weights(*shape: int) -> NDArray[np.float32]:
    weights = np.random.default_rng(0).standard_normal(shape, np.float32)
    weights *= np.float32(np.sqrt(2 / np.prod(shape[1:])))
    return weights


def compare_packing(name: str, size: int, channels: int, kernels: int, output: BinaryIO) -> None:
    weights = random_weights(kernels, channels, size, size)
    shape = PackedShape(kernels, channels, Pair(size, size))
    bias = np.zeros(kernels, np.float16)
    palette = fit(histogram(to_half(weights[:8])))

    def cast() -> None:
        output.seek(0)
        flat = weights.reshape(-1)
        output.writelines(
            flat[start : start + CAST_AT_A_TIME].astype(np.float16).data
            for start in range(0, flat.size, CAST_AT_A_TIME)
        )

    def packed() -> None:
        output.seek(0)
        output.writelines(piece.data for piece in pack(shape, half_codes(lambda rows: weights[rows]), bias=bias))

    def indexed() -> None:
        output.seek(0)
        read = palette_codes(half_codes(lambda rows: weights[rows]), palette)
        output.writelines(
            piece.data for piece in pack(replace(shape, palette=True), read, bias=bias, palette=palette.centers)
        )

    bare, ours, small = best_times(ROUNDS, cast, packed, indexed)
    report(name, weights.size, bare, FP16=ours, palette=small)


def report(name: str, count: int, bare: float, **others: float) -> None:
    columns = "".join(
        f"   {label} {seconds / count * 1e9:5.2f} ns, {seconds / bare:4.2f} times" for label, seconds in others.items()
    )
    print(f"{name:24} {count:>11,}   astype {bare / count * 1e9:5.2f} ns{columns}")


def compare_half(name: str, scale: float) -> None:
    values = np.random.default_rng(0).standard_normal(1 << 22, np.float32) * np.float32(scale)
    bare, ours = best_times(ROUNDS, lambda: discard(values.astype(np.float16)), lambda: discard(to_half(values)))
    report(name, values.size, bare, to_half=ours)


def discard(_: object) -> None:
    """Take a result that is not wanted."""


def compare_fit() -> None:
    counts = histogram(to_half(random_weights(4096, 4096)))
    (seconds,) = best_times(ROUNDS, lambda: discard(fit(counts)))
    print(f"{'fit a palette':24} {np.count_nonzero(counts):>11,} different values   {seconds * 1e3:.1f} ms")


@click.command()
def main() -> None:
    """What packing weights costs beside a bare cast; about a minute."""
    print("Casting alone")
    compare_half("values of about 1e-2", 1e-2)
    compare_half("values of about 1e-6", 1e-6)
    print("Casting and writing, beside casting, packing and writing")
    with tempfile.TemporaryFile() as output:
        for name, (size, channels, kernels) in VGG16.items():
            compare_packing(name, size, channels, kernels, output)
    compare_fit()


if __name__ == "__main__":
    main()
