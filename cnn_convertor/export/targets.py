"""The targets of an export: how each lays out the arrays of a network."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cnn_convertor.errors import Problem, UnsupportedError, UsageError, warn
from cnn_convertor.export.parts import Part, Role, gathered, regrouped, reshaped, ungrouped, with_channels
from cnn_convertor.export.quantising import Symmetric
from cnn_convertor.export.surface import Surface
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.ops import ONE
from cnn_convertor.layouts import bpu, cldnn
from cnn_convertor.layouts.layout import DType, Layout, nbytes
from cnn_convertor.layouts.nvdla import features, weights
from cnn_convertor.layouts.nvdla.pixels import signed_pixels
from cnn_convertor.layouts.nvdla.precision import Precision

ELEMENTS = ("float32", "float16", "int16", "int8")
NVDLA = {"nvdla-fp16": Precision.FP16, "nvdla-int16": Precision.INT16, "nvdla-int8": Precision.INT8}
DV700 = "dv700"
MODES = ("image", "winograd", "compressed")  # of NVDLA
_FORMS = (
    *NVDLA,
    *(f"{name}:{mode}" for name in NVDLA for mode in MODES),
    "cldnn:FORMAT[,FORMAT...]",
    "bpu",
    "bpu:ALIGN",
    "bpu:x3",
    DV700,
)


class Target(ABC):
    """Lays out the arrays of an optimised network."""

    name: str

    @abstractmethod
    def surfaces(self, parts: Sequence[Part]) -> Iterator[Surface]:
        """The surfaces in the order of the parts. Raises ConvertorError for what the target cannot take, all of it."""


def target_of(text: str, element: str | None = None) -> Target | None:
    """The target that is called so; None for the DV700, whose memory is made from the program.

    element: the type of all elements, where the target leaves it open. Raises UsageError.
    """
    kind, _, rest = text.partition(":")
    if element is not None and element not in ELEMENTS:
        raise UsageError(Problem("DV850", f'elements of the type "{element}"', hint=", ".join(ELEMENTS)))
    if element is not None and kind not in ("cldnn", "bpu"):
        raise UsageError(Problem("DV850", f"{text} says itself what its elements are", hint="no --element"))
    if kind in NVDLA and (kind == text or set(rest.split(",")) <= set(MODES)):
        return Nvdla(text, NVDLA[kind], frozenset(rest.split(",")) - {""})
    if text == DV700:
        return None
    if kind == "cldnn" and rest:
        return Cldnn(text, [cldnn.format_of(name) for name in rest.split(",")], np.dtype(element or "float16"))
    if kind == "bpu" and (text == "bpu" or rest == "x3" or (rest.isdecimal() and int(rest) > 0)):
        return Bpu(text, rest, np.dtype(element or "float32"))
    near = difflib.get_close_matches(text, _FORMS, 1)
    hint = (near or [", ".join((*NVDLA, *_FORMS[-5:]))])[0]
    if kind == "cldnn":
        hint = "cldnn:os_is_yx_isv16_osv16,b_fs_yx_fsv16"
    if kind in NVDLA:
        hint = f"{kind}:{','.join(MODES)}, or some of these"
    raise UsageError(Problem("DV850", f'there is no target "{text}"', hint=hint))


def _collected(parts: Iterable[Part], each: Callable[[Part], Iterator[Surface]]) -> Iterator[Surface]:
    """The surfaces of every part, and in the end all that is wrong with any of them."""
    problems: list[Problem] = []
    for part in parts:
        with gathered(problems):
            yield from each(part)
    if problems:
        raise UnsupportedError(problems)


def surface(
    part: Part, layout: Layout, values: Constant | None, shape: tuple[int, ...], *, axes: int = 0, **notes: Any
) -> Surface:
    """axes: how many of the first axes have scales of their own."""
    symmetric = Symmetric(axes, binary=part.role is Role.SLOPES)
    more = {name: value for name, value in notes.items() if value is not None}
    return Surface(
        part.node, part.layer, part.type, part.operator, part.role, layout, shape, values, part.where, symmetric, more
    )


# --- NVDLA -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Nvdla(Target):
    """Weights for direct convolution and deconvolution, operands of the SDP, feature data.

    A fully connected layer is a convolution whose kernel is as large as its input. The hardware knows no groups: kernels
    are zero for the channels of the other groups. Operands are of 16 bits in every precision.

    modes: image: inputs of up to 4 channels are pixels, and the weights that read them are extended. winograd: kernels that
    can be are transformed. compressed: weights are stored without zeros where that takes fewer bytes.
    """

    name: str
    precision: Precision
    modes: frozenset[str] = frozenset()

    def surfaces(self, parts: Sequence[Part]) -> Iterator[Surface]:
        used = {"compressed"}  # which is known when all is written
        for made in _collected(_affine(parts), self._surfaces):
            used |= {mode for mode in ("image", "winograd") if mode in made.layout.name}
            yield made
        for mode in sorted(self.modes - used):
            hint = "inputs of up to 4 channels that only convolutions read, or kernels of 3x3 (or a stride of 2 or 3)"
            warn(Problem("DV857", f'nothing in the network is stored in the mode "{mode}"', hint=hint))

    def _surfaces(self, part: Part) -> Iterator[Surface]:
        match part.role:
            case Role.WEIGHTS if part.stride is not None:
                yield from self._deconvolution(part)
            case Role.WEIGHTS if self._is_image(part, part.shape[1]):
                yield self._for_image(part)
            case Role.WEIGHTS if self._is_for_winograd(part):
                yield self._for_winograd(part)
            case Role.WEIGHTS:
                assert part.values is not None
                yield self._kernels(part, weights.direct(self.precision), ungrouped(part.values, part.groups))
            case Role.INPUT | Role.OUTPUT:
                height, width, channels = part.shape
                shape = (channels, height, width)
                values = part.values and reshaped(part.values, shape, (2, 0, 1))
                pixels = self._is_image(part, channels)
                layout = signed_pixels(self.precision, channels) if pixels else features.feature_data(self.precision)
                yield surface(part, layout, values, shape)
            case _:
                assert part.values is not None
                pair = len(part.shape) == 2
                layout = features.operand(self.precision, data_size=2, operands=2 if pair else 1)
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
        """The weights for pixels, which have one channel or four."""
        assert part.values is not None and part.window is not None
        kernels = with_channels(part.values, 4 if part.shape[1] > 1 else 1)
        _, channels, rows, columns = kernels.shape
        extension = weights.post_extension(channels, rows, columns, stride_x=part.window.stride.width)
        notes = {"channels": part.shape[1], "post_extension": extension}
        return self._kernels(part, weights.image(self.precision, extension), kernels, **notes)

    def _for_winograd(self, part: Part) -> Surface:
        """Kernels of 4x4, whatever they were; their numbers are made integers after they are transformed."""
        assert part.values is not None and part.window is not None
        kernels, stride = ungrouped(part.values, part.groups), part.window.stride.width
        channels = weights.winograd_channels(kernels.shape[1], self.precision, stride=stride)

        def transformed(values: Array) -> Array:
            if not np.isfinite(values).all():  # to be told of with all that is wrong
                return np.full((len(values), channels, 4, 4), np.nan, np.float32)
            return weights.in_reals(values, self.precision, stride=stride)

        made = kernels.map_rows(transformed, (channels, 4, 4))
        notes = {"kernel": list(part.window.kernel), "stride": [stride, stride], "channels": kernels.shape[1]}
        return self._kernels(part, weights.winograd(self.precision), made, **notes)

    def _kernels(self, part: Part, layout: Layout, kernels: Constant, **notes: Any) -> Surface:
        groups = part.groups if part.groups > 1 else None
        made = surface(part, layout, kernels, kernels.shape, axes=1, groups=groups, **notes)
        return replace(made, may_be_sparse="compressed" in self.modes)

    def _deconvolution(self, part: Part) -> Iterator[Surface]:
        """One surface for each phase of the stride."""
        assert part.values is not None and part.stride is not None
        if part.window is not None and part.window.dilation != ONE:
            message = f"NVDLA has no deconvolution with a dilation of {'x'.join(map(str, part.window.dilation))}"
            raise UnsupportedError(
                Problem("DV851", message, part.where, "cldnn or bpu, which take kernels as they are")
            )
        kernels, (down, right) = ungrouped(part.values, part.groups), part.stride
        height, width = kernels.shape[2:]
        taps = (-(-height // down), -(-width // right))
        for number in range(down * right):

            def phase(values: Array, number: int = number) -> Array:
                return np.asarray(weights.split_sets(values, stride_y=down, stride_x=right)[number])

            values = kernels.map_rows(phase, (kernels.shape[1], *taps))
            notes = {"set": number, "sets": down * right, "stride": [down, right], "kernel": [height, width]}
            yield self._kernels(part, weights.deconvolution(self.precision), values, **notes)


def _affine(parts: Sequence[Part]) -> Iterator[Part]:
    """Factors and shifts as pairs (2, C) of the SDP, which adds first and multiplies then."""
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
            message = "a channel is multiplied by 0 before something is added, and NVDLA adds before it multiplies"
            raise UnsupportedError(Problem("DV851", message, part.where, "train without such channels, or prune them"))
        added = np.divide(moved, multiplied, out=np.zeros_like(moved), where=multiplied != 0)
        return np.stack([added, multiplied]).astype(np.float32)[rows]

    return Constant((2, *factor.shape), read)


# --- clDNN -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cldnn(Target):
    """Each array in the first of the given formats that has its axes; maps and vectors in bfyx if none has.

    element: of weights and maps; vectors stay real numbers.

    Formats with an axis g are for layers with groups, the others for those without. Kernels are not rotated.
    """

    name: str
    formats: Sequence[Layout]
    element: DType

    def surfaces(self, parts: Sequence[Part]) -> Iterator[Surface]:
        used = set()
        for made in _collected(parts, self._surfaces):
            used.add(made.layout.name)
            yield made
        unused = [layout.name for layout in self.formats if layout.name not in used]
        if unused:
            reason = f"nothing in the network is stored as {', '.join(unused)}"
            warn(Problem("DV857", reason, hint="an earlier format takes it all, or none has such axes"))

    def _surfaces(self, part: Part) -> Iterator[Surface]:
        if part.role is Role.WEIGHTS:
            assert part.values is not None
            axes = "oiyx" if part.groups == 1 else "goiyx"
            values: Constant | None = part.values if part.groups == 1 else regrouped(part.values, part.groups)
            assert values is not None
            shape = values.shape
        else:
            axes = "bfyx"
            height, width, channels = part.shape if part.role.is_map else (1, 1, *part.shape)
            shape = (1, channels, height, width)
            order = (2, 0, 1) if part.role.is_map else None
            values = part.values and reshaped(part.values, shape, order)
        layout = self._choose(part, axes, shape)
        if layout.axes != axes:  # what the format leaves out is of extent 1
            values = values and _without(values, axes, layout.axes)
            shape = tuple(n for axis, n in zip(axes, shape, strict=True) if axis in layout.axes)
        scales = sum(axis in "go" for axis in layout.axes) if part.role is Role.WEIGHTS else 0
        stride = None if part.stride is None else list(part.stride)
        yield surface(part, layout.of(_element(part, self.element)), values, shape, axes=scales, stride=stride)

    def _choose(self, part: Part, axes: str, shape: tuple[int, ...]) -> Layout:
        for layout in self.formats:
            if fits(layout, axes, shape):
                return layout
        if axes == "bfyx":
            return cldnn.format_of("bfyx")
        extents = " ".join(f"{axis}={n}" for axis, n in zip(axes, shape, strict=True))
        given = ", ".join(layout.name for layout in self.formats)
        message = f"no format among {given} holds weights of {extents}"
        raise UnsupportedError(
            Problem("DV852", message, part.where, f"add one that does: {', '.join(self._near(axes, shape))}")
        )

    def _near(self, axes: str, shape: tuple[int, ...]) -> list[str]:
        """Formats that would do, those first whose names are like the given ones."""
        names = [name for name in (*cldnn.WEIGHTS, *cldnn.SPECIAL) if fits(cldnn.format_of(name), axes, shape)]
        given = [layout.name for layout in self.formats]
        return sorted(names, key=lambda name: -max(difflib.SequenceMatcher(None, name, g).ratio() for g in given))[:3]


def fits(layout: Layout, axes: str, shape: Sequence[int]) -> bool:
    """Whether a format has all axes of an array but those of extent 1, and no others; bits hold no numbers, images no place."""
    if layout.name in (*cldnn.BITS, *cldnn.IMAGES) or not set(layout.axes) <= set(axes):
        return False
    spare = {axis for axis, n in zip(axes, shape, strict=True) if n == 1 and axis in "yx"}
    if not set(axes) - set(layout.axes) <= spare:
        return False
    try:
        kept = [n for axis, n in zip(axes, shape, strict=True) if axis in layout.axes]
        cldnn.check_shape(layout, kept)
        nbytes(layout, kept)
    except UsageError:
        return False
    return True


def _element(part: Part, element: DType) -> DType:
    """What an array is made of: integers are for weights and maps; a bias in 8 bits would lose more than all of these."""
    is_small = part.role is not Role.WEIGHTS and not part.role.is_map
    return np.dtype(np.float32) if element.kind == "i" and is_small else element


def _without(values: Constant, axes: str, kept: str) -> Constant:
    assert kept[0] == axes[0]
    rest = tuple(n for axis, n in zip(axes, values.shape, strict=True) if axis in kept)[1:]
    return values.map_rows(lambda array: array.reshape(len(array), *rest), rest)


# --- Horizon BPU -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bpu(Target):
    """Tensors with the channels last, as hbDNNTensorProperties describes them, rows (the last axis) rounded up.

    How weights lie inside of a compiled model is not published: these are tensors of the same kind, (O, H, W, I / groups).
    """

    name: str
    rule: str
    element: DType

    def surfaces(self, parts: Sequence[Part]) -> Iterator[Surface]:
        return _collected(parts, self._surfaces)

    def _surfaces(self, part: Part) -> Iterator[Surface]:
        stride = None if part.stride is None else list(part.stride)
        groups = part.groups if part.groups > 1 else None
        values, axes, shape = part.values, "c", part.shape
        if part.role is Role.WEIGHTS:
            assert values is not None
            out, channels, height, width = part.shape
            axes, shape = "ohwi", (out, height, width, channels)
            values = values.map_rows(lambda array: array.transpose(0, 2, 3, 1), shape[1:])
        elif part.role.is_map:
            axes, shape = "nhwc", (1, *part.shape)
            values = values and reshaped(values, shape)
        properties = self._properties(part, shape)
        yield surface(
            part,
            _named(properties, axes),
            values,
            shape,
            axes=int(part.role is Role.WEIGHTS),
            groups=groups,
            stride=stride,
            tensor={
                "type": properties.type,
                "validShape": list(properties.valid_shape),
                "alignedShape": list(properties.aligned_shape),
                "stride": list(properties.stride),
                "alignedByteSize": properties.aligned_byte_size,
            },
        )

    def _properties(self, part: Part, shape: tuple[int, ...]) -> bpu.TensorProperties:
        stored = _element(part, self.element)
        kind = next(name for name, element in bpu.TYPES.items() if element == stored.name)
        if self.rule != "x3":
            return bpu.plain(shape, kind, row_align=int(self.rule or 1), tensor_layout=bpu.TensorLayout.NHWC)
        if len(shape) == 4:
            return bpu.x3(shape, kind, bpu.TensorLayout.NHWC, is_input=part.role is Role.INPUT)
        return bpu.plain(shape, kind, row_align=bpu.x3_row)


def _named(properties: bpu.TensorProperties, axes: str) -> Layout:
    """The layout of a tensor, its axes called by their letters."""
    layout = properties.layout
    terms = tuple(replace(term, axis=axis) for term, axis in zip(layout.terms, axes, strict=True))
    name = "bpu_nhwc" if len(axes) == 4 else ""
    return Layout(axes, terms, layout.element, layout.base_align, layout.total_align, name)
