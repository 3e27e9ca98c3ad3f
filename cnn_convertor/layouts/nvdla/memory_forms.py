"""What of an NVDLA configuration decides its formats in memory."""

from typing import NamedTuple

from cnn_convertor.layouts.layout import refuse
from cnn_convertor.layouts.nvdla.precision import Precision


class MemoryForm(NamedTuple):
    """Sizes of a configuration's memory formats; devices/nvdla/configurations.py says where each is from.

    atom: bytes of channels that lie together in feature data, and the multiple that addresses and strides are
    channels: per block of weights, in every precision (atomic-C)
    kernels: per group of weights (atomic-K), of each precision that the configuration computes in
    entry: bytes; weights are padded to a multiple of it (an entry of the convolution buffer)
    rows: of an image's kernel that its weights can combine (post-extension)
    """

    name: str
    atom: int
    channels: int
    kernels: dict[Precision, int]
    entry: int
    rows: int = 1

    def group(self, precision: Precision) -> int:
        """Kernels per group of weights. Raises UsageError for a precision that the configuration lacks."""
        if precision not in self.kernels:
            names = ", ".join(each.value for each in self.kernels)
            refuse("DV917", f"nvdla-{self.name} does not compute in {precision.value}", names)
        return self.kernels[precision]

    def named(self, kind: str) -> str:
        """The name of a layout of this configuration; those of the full one are nvdla_..."""
        return f"nvdla_{kind}" if self.name == FULL.name else f"nvdla_{self.name.replace('-', '_')}_{kind}"


_INT8 = Precision.INT8
FULL = MemoryForm("full", 32, 64, {_INT8: 32, Precision.INT16: 16, Precision.FP16: 16}, 128, rows=4)
LARGE = MemoryForm("large", 32, 64, {_INT8: 32}, 64, rows=4)
SMALL = MemoryForm("small", 8, 8, {_INT8: 8}, 8)
SMALL_256 = MemoryForm("small-256", 8, 32, {_INT8: 8}, 32)
SMALL_256_FULL = MemoryForm("small-256-full", 32, 32, {_INT8: 8}, 32)
MEDIUM_512 = MemoryForm("medium-512", 32, 32, {_INT8: 16}, 32)
MEDIUM_1024_FULL = MemoryForm("medium-1024-full", 32, 64, {_INT8: 16}, 64)
FORMS = {form.name: form for form in (FULL, LARGE, SMALL, SMALL_256, SMALL_256_FULL, MEDIUM_512, MEDIUM_1024_FULL)}
