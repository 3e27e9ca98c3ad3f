"""Export target: clDNN."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cnn_convertor.errors import Problem, UnsupportedError, UsageError, near_names, warn
from cnn_convertor.export.parts import Part, Role, regrouped, reshaped
from cnn_convertor.export.surface import Surface, Target, element_for, surface
from cnn_convertor.ir.constant import Constant
from cnn_convertor.layouts import cldnn
from cnn_convertor.layouts.layout import DType, Layout, nbytes


@dataclass(frozen=True, slots=True)
class Cldnn(Target):
    """Stores each array in the first given format with its axes; maps and vectors default to bfyx.

    element: of weights and maps; vectors stay floating point. Formats with an axis g are for layers with groups, others for
    layers without. Kernels are not rotated.
    """

    name: str
    formats: Sequence[Layout]
    element: DType

    def surfaces(self, parts: Iterable[Part]) -> Iterator[Surface]:
        used = set()
        for surface_ in Target.surfaces(self, parts):
            used.add(surface_.layout.name)
            yield surface_
        unused = [layout.name for layout in self.formats if layout.name not in used]
        if unused:
            reason = f"the formats {', '.join(unused)} are unused"
            warn(Problem("DV857", reason, hint="an earlier format applies, or no array has such axes"))

    def surfaces_of(self, part: Part) -> Iterator[Surface]:
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
        if layout.axes != axes:  # missing axes have extent 1
            values = values and _without(values, axes, layout.axes)
            shape = tuple(n for axis, n in zip(axes, shape, strict=True) if axis in layout.axes)
        scales = sum(axis in "go" for axis in layout.axes) if part.role is Role.WEIGHTS else 0
        stride = None if part.stride is None else list(part.stride)
        yield surface(part, layout.of(element_for(part, self.element)), values, shape, axes=scales, stride=stride)

    def _choose(self, part: Part, axes: str, shape: tuple[int, ...]) -> Layout:
        for layout in self.formats:
            if fits(layout, axes, shape):
                return layout
        if axes == "bfyx":
            return cldnn.format_of("bfyx")
        extents = " ".join(f"{axis}={n}" for axis, n in zip(axes, shape, strict=True))
        names = ", ".join(layout.name for layout in self.formats)
        message = f"none of the formats {names} fits weights of {extents}"
        hint = f"add one that does: {', '.join(self._near(axes, shape))}"
        raise UnsupportedError.of("DV852", message, part.where, hint)

    def _near(self, axes: str, shape: tuple[int, ...]) -> list[str]:
        """Formats that fit, those with names similar to the given ones first."""
        names = [name for name in (*cldnn.WEIGHTS, *cldnn.SPECIAL) if fits(cldnn.format_of(name), axes, shape)]
        near = [name for layout in self.formats for name in near_names(layout.name, names, n=3)]
        return list(dict.fromkeys(near + names))[:3]


def fits(layout: Layout, axes: str, shape: Sequence[int]) -> bool:
    """Whether a format has exactly the axes of an array, except for extent-1 ones; not one-bit or image formats."""
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


def _without(values: Constant, axes: str, kept: str) -> Constant:
    assert kept[0] == axes[0]
    rest = tuple(n for axis, n in zip(axes, values.shape, strict=True) if axis in kept)[1:]
    return values.map_rows(lambda array: array.reshape(len(array), *rest), rest)
