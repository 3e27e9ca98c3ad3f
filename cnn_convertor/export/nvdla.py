"""Export target: NVDLA."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cnn_convertor.errors import Problem, UnsupportedError, warn
from cnn_convertor.export.parts import Part, Role, reshaped, ungrouped, with_channels
from cnn_convertor.export.surface import Surface, Target, surface
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.ops import ONE
from cnn_convertor.layouts.layout import Layout
from cnn_convertor.layouts.nvdla import features, weights
from cnn_convertor.layouts.nvdla.memory_forms import MemoryForm
from cnn_convertor.layouts.nvdla.pixels import signed_pixels
from cnn_convertor.layouts.nvdla.precision import Precision

MODES = ("image", "winograd", "compressed")
FULL_MODES = ("winograd", "compressed")  # of nv_full alone
_NEEDS = {
    "image": "an input of up to 4 channels that only convolutions read",
    "winograd": "kernels of 3x3, or 5x5 to 9x9 of stride 2 or 3",
}


@dataclass(frozen=True, slots=True)
class Nvdla(Target):
    """Weights for direct convolution and deconvolution, SDP operands, feature data.

    A fully connected layer is a convolution with a kernel of its input's size. The hardware has no groups: kernels are zero
    for the channels of other groups. Operands have 16 bits in all precisions.

    form: of the configuration. modes: image: inputs of up to 4 channels are pixels, with extended weights. winograd: suitable kernels are transformed.
    compressed: weights are stored without zeros where that is smaller.
    """

    name: str
    precision: Precision
    form: MemoryForm
    modes: frozenset[str] = frozenset()

    def surfaces(self, parts: Iterable[Part]) -> Iterator[Surface]:
        used = {"compressed"}  # known only after writing
        for surface_ in Target.surfaces(self, _affine(tuple(parts))):
            used |= {mode for mode in ("image", "winograd") if mode in surface_.layout.name}
            yield surface_
        for mode in sorted(self.modes - used):
            warn(Problem("DV857", f'no array uses the mode "{mode}"', hint=f"it needs {_NEEDS[mode]}"))

    def surfaces_of(self, part: Part) -> Iterator[Surface]:
        match part.role:
            case Role.WEIGHTS if part.stride is not None:
                yield from self._deconvolution(part)
            case Role.WEIGHTS if self._is_image(part, part.shape[1]):
                yield self._for_image(part)
            case Role.WEIGHTS if self._is_for_winograd(part):
                yield self._for_winograd(part)
            case Role.WEIGHTS:
                assert part.values is not None
                yield self._kernels(
                    part, weights.direct(self.precision, self.form), ungrouped(part.values, part.groups)
                )
            case Role.INPUT | Role.OUTPUT:
                height, width, channels = part.shape
                shape = (channels, height, width)
                values = part.values and reshaped(part.values, shape, (2, 0, 1))
                pixels = self._is_image(part, channels)
                layout = (
                    signed_pixels(self.precision, channels)
                    if pixels
                    else features.feature_data(self.precision, self.form)
                )
                yield surface(part, layout, values, shape)
            case _:
                assert part.values is not None
                pair = len(part.shape) == 2
                layout = features.operand(self.precision, self.form, data_size=2, operands=2 if pair else 1)
                cube = (*part.shape, 1, 1)
                yield surface(part, layout, reshaped(part.values, cube), cube, axes=int(pair))

    def _is_image(self, part: Part, channels: int) -> bool:
        return "image" in self.modes and part.is_image and channels <= 4

    def _is_for_winograd(self, part: Part) -> bool:
        window = part.window
        if "winograd" not in self.modes or window is None or window.dilation != ONE:
            return False
        down, right = window.stride
        return down == right and weights.is_for_winograd(*window.kernel, right)

    def _for_image(self, part: Part) -> Surface:
        """Weights for pixels of one channel or four."""
        assert part.values is not None and part.window is not None
        kernels = with_channels(part.values, 4 if part.shape[1] > 1 else 1)
        _, channels, rows, columns = kernels.shape
        extension = weights.post_extension(channels, rows, columns, stride_x=part.window.stride.width, form=self.form)
        notes = {"channels": part.shape[1], "post_extension": extension}
        return self._kernels(part, weights.image(self.precision, extension, self.form), kernels, **notes)

    def _for_winograd(self, part: Part) -> Surface:
        """Kernels of 4x4, quantized after the transform."""
        assert part.values is not None and part.window is not None
        kernels = ungrouped(part.values, part.groups)
        stride = part.window.stride.width
        channels = weights.winograd_channels(kernels.shape[1], self.precision, stride=stride)

        def transformed(values: Array) -> Array:
            if not np.isfinite(values).all():  # reported with all other errors
                return np.full((len(values), channels, 4, 4), np.nan, np.float32)
            return weights.in_reals(values, self.precision, stride=stride)

        kernels_4x4 = kernels.map_rows(transformed, (channels, 4, 4))
        notes = {"kernel": list(part.window.kernel), "stride": [stride, stride], "channels": kernels.shape[1]}
        return self._kernels(part, weights.winograd(self.precision), kernels_4x4, **notes)

    def _kernels(self, part: Part, layout: Layout, kernels: Constant, **notes: Any) -> Surface:
        groups = part.groups if part.groups > 1 else None
        result = surface(part, layout, kernels, kernels.shape, axes=1, groups=groups, **notes)
        return replace(result, may_be_sparse="compressed" in self.modes)

    def _deconvolution(self, part: Part) -> Iterator[Surface]:
        """One surface per phase of the stride."""
        assert part.values is not None and part.stride is not None
        if part.window is not None and part.window.dilation != ONE:
            message = f"NVDLA has no deconvolution with a dilation of {'x'.join(map(str, part.window.dilation))}"
            raise UnsupportedError.of("DV851", message, part.where, "the targets cldnn or bpu")
        kernels = ungrouped(part.values, part.groups)
        (down, right) = part.stride
        height, width = kernels.shape[2:]
        taps = (-(-height // down), -(-width // right))
        for number in range(down * right):

            def phase(values: Array, number: int = number) -> Array:
                return np.asarray(weights.split_sets(values, stride_y=down, stride_x=right)[number])

            values = kernels.map_rows(phase, (kernels.shape[1], *taps))
            notes = {"set": number, "sets": down * right, "stride": [down, right], "kernel": [height, width]}
            yield self._kernels(part, weights.deconvolution(self.precision, self.form), values, **notes)


def _affine(parts: Sequence[Part]) -> Iterator[Part]:
    """Merge factors and shifts into pairs (2, C): the SDP adds, then multiplies."""
    shifts = {part.node: part for part in parts if part.role is Role.SHIFT}
    for part in parts:
        if part.role is Role.FACTOR:
            assert part.values is not None
            shift = shifts.get(part.node)
            yield replace(
                part,
                role=Role.AFFINE,
                shape=(2, *part.shape),
                values=_add_and_multiply(part, part.values, None if shift is None else shift.values),
            )
        elif part.role is not Role.SHIFT:
            yield part


def _add_and_multiply(part: Part, factor: Constant, shift: Constant | None) -> Constant:
    """x * factor + shift as (x + added) * factor."""

    def read(rows: slice) -> Array:
        multiplied = factor.load().astype(np.float64)
        moved = np.zeros_like(multiplied) if shift is None else shift.load().astype(np.float64)
        if np.any((multiplied == 0) & (moved != 0)):
            message = "a channel has the factor 0 and a shift; NVDLA adds before it multiplies"
            raise UnsupportedError.of("DV851", message, part.where, "train without such channels, or prune them")
        added = np.divide(moved, multiplied, out=np.zeros_like(moved), where=multiplied != 0)
        return np.stack([added, multiplied]).astype(np.float32)[rows]

    return Constant((2, *factor.shape), read)
