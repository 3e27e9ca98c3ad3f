"""The limits of the DV700 and its driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cnn_convertor.ir.ops import Padding, Pair, Shape

KERNEL_SIZES = range(1, 8)  # possible values of max_kernel_size
OF_BOARD = ("max_kernel_size", "ub_size", "deconvolves", "pools_unevenly", "pads_beyond_map", "pools_tiles")
UB_SIZES = range(1024, 1 << 31)  # possible values of ub_size


class Limits(NamedTuple):
    """A rule in rules.py checks each field, or legalize/ rewrites networks to stay within it."""

    max_kernel_size: int = 7
    ub_size: int = 655_360  # bytes of the unified buffer
    max_width: int = 2047
    max_height: int = 1024
    max_channels: int = 32_768  # of a convolution's input and output
    max_field: int = 65_535  # 16-bit fields: sizes of other maps
    max_runs: int = 32  # of a command: the bits of topo
    max_stride: int = 255  # 8 bits
    max_dilation: int = 255  # 8 bits
    max_padding_left_top: int = 127  # 7 bits
    max_padding_right_bottom: int = 255  # 8 bits
    max_pool_widths: tuple[int, ...] = (2, 3)
    max_pool_heights: tuple[int, ...] = (1, 2, 3)
    max_average_pool: int = 7
    max_exact_integer: int = 2048  # FP16 holds all integers up to it
    deconvolves: bool = True
    pools_unevenly: bool = True  # pools of different width and height
    pads_beyond_map: bool = True  # padding larger than the map
    pools_tiles: bool = False  # a max pool behind a convolution in several tiles

    @property
    def of_board(self) -> dict[str, int | bool]:
        """Those that differ between boards. The emulated device reads them from DMP_DV_UB_SIZE and so on."""
        return {name: getattr(self, name) for name in OF_BOARD}

    @property
    def largest_map(self) -> Pair:
        from cnn_convertor.ir.ops import Pair  # here, so that --help does not import numpy

        return Pair(self.max_height, self.max_width)

    @property
    def largest_padding(self) -> Padding:
        from cnn_convertor.ir.ops import Padding

        left_top = self.max_padding_left_top
        right_bottom = self.max_padding_right_bottom
        return Padding(left_top, right_bottom, left_top, right_bottom)

    def holds(self, shape: Shape) -> bool:
        """Whether a map is not too high and not too wide; channels have limits of their own."""
        return shape.height <= self.max_height and shape.width <= self.max_width
