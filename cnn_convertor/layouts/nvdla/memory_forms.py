"""What of an NVDLA configuration decides its formats in memory."""

from typing import NamedTuple

from cnn_convertor.layouts.nvdla.precision import Precision


class MemoryForm(NamedTuple):
    """Sizes of a configuration's memory formats; devices/nvdla/configurations.py says where each is from.

    atom: bytes of channels that lie together in feature data, and the multiple that addresses and strides are
    channels: per block of weights, in every precision (atomic-C)
    kernels: per group of weights (atomic-K), of each precision that the configuration computes in
    entry: bytes; weights are padded to a multiple of it (an entry of the convolution buffer)
    """

    name: str
    atom: int
    channels: int
    kernels: dict[Precision, int]
    entry: int


_INT8 = Precision.INT8
FULL = MemoryForm("full", 32, 64, {_INT8: 32, Precision.INT16: 16, Precision.FP16: 16}, 128)
LARGE = MemoryForm("large", 32, 64, {_INT8: 32}, 64)
SMALL = MemoryForm("small", 8, 8, {_INT8: 8}, 8)
SMALL_256 = MemoryForm("small-256", 8, 32, {_INT8: 8}, 32)
SMALL_256_FULL = MemoryForm("small-256-full", 32, 32, {_INT8: 8}, 32)
MEDIUM_512 = MemoryForm("medium-512", 32, 32, {_INT8: 16}, 32)
MEDIUM_1024_FULL = MemoryForm("medium-1024-full", 32, 64, {_INT8: 16}, 64)
FORMS = {form.name: form for form in (FULL, LARGE, SMALL, SMALL_256, SMALL_256_FULL, MEDIUM_512, MEDIUM_1024_FULL)}
