"""Kernels and operands in the weight buffer: by plain formulas, and as the twin reads them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla import weight_packing
from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, bands_of
from cnn_convertor.devices.nvdla.cubes import NOWHERE, Place, packed_cube
from cnn_convertor.devices.nvdla.weight_packing import StoredArrays, StoredKernels, StoredOperands, aligned, packed
from cnn_convertor.errors import ConvertorWarning, Origin, UnsupportedError
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.layouts.nvdla import features
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import pack
from devices.nvdla.convolutions import INPUT, OFF, OUTPUT, WEIGHTS, Convolved, convolved, run

LAYER = Origin("net.onnx", "conv", "Conv")


def numbers(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def contents(*stored: StoredArrays, element: Any = np.float16, **options: Any) -> NDArray[Any]:
    return np.concatenate([*packed(stored, NV_FULL, **options)]).view(element)


def by_formula(kernels: NDArray[Any]) -> NDArray[Any]:
    """Kernels (K, C, R, S) in memory, element by element."""
    count, channels, rows, columns = kernels.shape
    result = np.zeros(kernels.size, kernels.dtype)
    for k, c, r, s in product(*map(range, kernels.shape)):
        group, block = k // 16 * 16, c // 64 * 64
        members, width = min(16, count - group), min(64, channels - block)
        before = group * channels * rows * columns + members * rows * columns * block
        result[before + ((r * columns + s) * members + k - group) * width + c - block] = kernels[k, c, r, s]
    return result


@pytest.mark.parametrize("shape", [(20, 70, 3, 2), (16, 64, 1, 1), (3, 5, 2, 3), (33, 130, 1, 2)])
@pytest.mark.parametrize("piece", [1, 5000, weight_packing.PIECE])
def test_kernels_lie_by_the_formula(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], piece: int) -> None:
    """Whatever the size of the pieces."""
    monkeypatch.setattr(weight_packing, "PIECE", piece)
    kernels = numbers(1, *shape)
    stored = StoredKernels(0, Constant.of(kernels), LAYER)
    found = contents(stored)
    assert found.nbytes == stored.nbytes(NV_FULL) == -(-kernels.size * 2 // 128) * 128
    assert found[: kernels.size].tobytes() == by_formula(kernels.astype(np.float16)).tobytes()
    assert not found[kernels.size :].any()
    unrounded = contents(stored, element=np.float32, unrounded=True)
    assert unrounded.nbytes == 2 * found.nbytes
    assert unrounded[: kernels.size].tobytes() == by_formula(kernels).tobytes()
    assert not unrounded[kernels.size :].any()


def test_groups_are_stored_with_zeros_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_packing, "PIECE", 1)
    own = numbers(2, 30, 2, 3, 3)
    dense = np.zeros((30, 6, 3, 3), np.float16)
    for kernel in range(30):
        first = kernel // 10 * 2
        dense[kernel, first : first + 2] = own[kernel]
    stored = StoredKernels(0, Constant.of(own), LAYER, groups=3)
    assert contents(stored)[: dense.size].tobytes() == by_formula(dense).tobytes()
    assert stored.nbytes(NV_FULL) == -(-dense.nbytes // 128) * 128


def test_operands_fill_whole_atoms() -> None:
    addends, factors = numbers(3, 20), numbers(4, 20)
    both = StoredOperands(0, (("bias", Constant.of(addends)), ("factor", Constant.of(factors))), LAYER)
    found = contents(both)
    assert both.nbytes(NV_FULL) == found.nbytes == 32 * 2 * 2
    assert (found[0:40:2] == addends.astype(np.float16)).all()
    assert (found[1:40:2] == factors.astype(np.float16)).all()
    assert not found[40:].any()
    one = StoredOperands(0, (("bias", Constant.of(addends)),), LAYER)
    assert contents(one, element=np.float32, unrounded=True).tolist() == [*addends.tolist(), *[0.0] * 12]


def test_operands_of_elements_lie_as_a_map_does() -> None:
    values = numbers(5, 20, 3, 4)
    stored = StoredOperands(0, (("constant", Constant.of(values)),), LAYER)
    found = contents(stored).reshape(2, 3, 4, 16)
    assert stored.nbytes(NV_FULL) == found.nbytes
    for c, y, x in product(range(20), range(3), range(4)):
        assert found[c // 16, y, x, c % 16] == np.float16(values[c, y, x])


def test_arrays_start_at_their_offsets() -> None:
    kernels = StoredKernels(0, Constant.of(numbers(6, 3, 5, 1, 1)), LAYER)
    bias = StoredOperands(aligned(kernels.nbytes(NV_FULL)), (("bias", Constant.of(numbers(7, 3))),), LAYER)
    for unrounded, scale in ((False, 1), (True, 2)):
        whole = contents(kernels, bias, element=np.uint8, unrounded=unrounded)
        start = scale * bias.offset
        alone = StoredOperands(0, bias.arrays, LAYER)
        assert bias.offset % 256 == 0
        assert whole[start:].tobytes() == contents(alone, element=np.uint8, unrounded=unrounded).tobytes()


def test_the_observer_sees_each_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_packing, "PIECE", 1)
    kernels = numbers(8, 40, 3, 1, 1)
    seen: list[NDArray[np.float32]] = []
    contents(StoredKernels(0, Constant.of(kernels), LAYER), observe=lambda _, values: seen.append(values))
    assert (np.concatenate(seen) == kernels).all()
    assert len(seen) == 3


def test_all_layers_with_numbers_beyond_fp16_are_named() -> None:
    kernels = StoredKernels(0, Constant.of(np.full((1, 1, 1, 1), 1e5)), LAYER)
    bias = StoredOperands(256, (("bias", Constant.of([np.nan])),), Origin("net.onnx", "other", "Conv"))
    with pytest.raises(UnsupportedError) as caught:
        contents(kernels, bias)
    assert [problem.code for problem in caught.value.problems] == ["DV501", "DV501"]
    assert [problem.where.layer for problem in caught.value.problems if problem.where] == ["conv", "other"]
    assert np.isfinite(contents(kernels, element=np.float32, unrounded=True)).all()


def test_weights_that_become_zero_are_counted_without_the_zeros_between_groups() -> None:
    kernels = np.full((16, 1, 1, 1), 1e-9)
    kernels[0] = 1
    with pytest.warns(ConvertorWarning, match='DV502: .* 15 of 16 in "conv"'):
        contents(StoredKernels(0, Constant.of(kernels), LAYER, groups=16))


def test_the_twin_reads_kernels_addends_and_factors(compiler: None) -> None:
    size = ConvolutionSize(Shape(3, 4, 70), 20, Window(Pair(2, 2)))
    kernels, addends, factors = numbers(9, 20, 70, 2, 2), numbers(10, 20), numbers(11, 20)
    stored = StoredKernels(0, Constant.of(kernels), LAYER)
    start = aligned(stored.nbytes(NV_FULL))
    operands = StoredOperands(start, (("bias", Constant.of(addends)), ("factor", Constant.of(factors))), LAYER)
    values = numbers(12, 3, 4, 70).astype(np.float16)
    source = packed_cube(size.input, Place(INPUT, 0), NV_FULL, Precision.FP16)
    output = packed_cube(size.output, Place(OUTPUT, 0), NV_FULL, Precision.FP16)
    memory = (
        pack(values.transpose(2, 0, 1), features.feature_data(Precision.FP16)).tobytes(),
        contents(stored, operands).tobytes(),
        bytes(output.size),
    )
    unit = replace(OFF, enable=1, type=3, mode=1, precision=2)  # adds, then multiplies, by channel
    cube = replace(NOWHERE, type=0, address=WEIGHTS, offset=start, width=1, height=1, channel=20)
    cube = replace(cube, size=operands.nbytes(NV_FULL), line_stride=64, surf_stride=64)
    one = Convolved(size, bands_of(size, NV_FULL, Precision.FP16), source, output, Place(WEIGHTS, 0))
    ran = run([one], memory, size.output, NV_FULL, Precision.FP16, (unit, cube))
    halves = [array.astype(np.float16).astype(float) for array in (kernels, addends, factors)]
    expected = (convolved(values, halves[0], size) + halves[1]) * halves[2]
    assert np.allclose(ran.output, expected, rtol=2**-10, atol=2**-12 * np.abs(expected).max())
