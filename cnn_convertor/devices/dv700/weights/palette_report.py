"""How the weights of a layer are stored, and why."""

from __future__ import annotations

from typing import NamedTuple

from cnn_convertor.devices.facts import Reason
from cnn_convertor.ir.constant import Constant
from cnn_convertor.quantize import Palette, Quality


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
