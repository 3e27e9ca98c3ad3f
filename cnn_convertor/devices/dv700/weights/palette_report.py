"""How the weights of a layer are stored, and why."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from cnn_convertor.ir.constant import Constant
from cnn_convertor.quantize import Palette, Quality


class Reason(Enum):
    """Why weights have a palette or none. The value is its text in reports."""

    ASKED = "all layers"
    OVERRIDE = "the ini file says so"
    PRELU = "PReLU"
    SLOPES = "slopes of PReLU"
    DEPTHWISE = "depthwise"
    LARGER = "a palette is not smaller"
    LOSSLESS = "nothing is lost"
    CLOSE = "little is lost"
    LOSSY = "too much would be lost"
    KEPT = "the outputs keep their SQNR"
    MISSED = "the outputs would lose too much"


class Choice(NamedTuple):
    """palette: None for FP16. quality: what a palette does to the weights, where one was fitted.

    kernels, bias: those of a calibrated palette, which has all values of the kernels; None for the layer's own, of which each
    weight becomes the nearest value of the palette.
    """

    palette: Palette | None
    quality: Quality | None
    reason: Reason
    kernels: Constant | None = None
    bias: Constant | None = None

    @property
    def loses(self) -> bool:
        """Whether there is a palette that does not hold all weights as they are in FP16."""
        return self.palette is not None and self.quality is not None and self.quality.noise > 0


class StoredLayer(NamedTuple):
    """The weights of one layer, for people. fp16_bytes, nbytes: of the blob, with FP16 weights and as it is.

    sqnr: dB that a palette keeps of the weights; None where none was fitted.
    zeros: share of the weights that are 0 in FP16; distinct: how many different values they have then.
    """

    layer: str
    palette: bool
    reason: Reason
    distinct: int | None
    zeros: float | None
    sqnr: float | None
    fp16_bytes: int
    nbytes: int
