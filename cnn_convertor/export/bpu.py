"""Export target: Horizon's BPU."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cnn_convertor.export.parts import Part, Role, reshaped
from cnn_convertor.export.surface import Surface, Target, element_for, surface
from cnn_convertor.layouts import bpu
from cnn_convertor.layouts.layout import DType, Layout


@dataclass(frozen=True, slots=True)
class Bpu(Target):
    """Channels-last tensors as described by hbDNNTensorProperties, with padded rows (the last axis).

    The weight layout inside compiled models is not published; weights are tensors (O, H, W, I / groups).
    """

    name: str
    rule: str
    element: DType

    def surfaces_of(self, part: Part) -> Iterator[Surface]:
        stride = None if part.stride is None else list(part.stride)
        groups = part.groups if part.groups > 1 else None
        values = part.values
        axes = "c"
        shape = part.shape
        if part.role is Role.WEIGHTS:
            assert values is not None
            out, channels, height, width = part.shape
            axes = "ohwi"
            shape = (out, height, width, channels)
            values = values.map_rows(lambda array: array.transpose(0, 2, 3, 1), shape[1:])
        elif part.role.is_map:
            axes = "nhwc"
            shape = (1, *part.shape)
            values = values and reshaped(values, shape)
        properties = self._properties(part, shape)
        is_weights = part.role is Role.WEIGHTS
        quantized = bpu.QuantiType.SCALE if properties.element.kind == "i" else bpu.QuantiType.NONE
        yield surface(
            part,
            _named(properties, axes),
            values,
            shape,
            axes=int(is_weights),
            groups=groups,
            stride=stride,
            tensor={
                "type": properties.type,
                "validShape": list(properties.valid_shape),
                "alignedShape": list(properties.aligned_shape),
                "stride": list(properties.stride),
                "alignedByteSize": properties.aligned_byte_size,
                "quantiType": quantized.name,  # the manifest lists the scales, for any target
                "quantizeAxis": 0 if is_weights and quantized is not bpu.QuantiType.NONE else -1,
            },
        )

    def _properties(self, part: Part, shape: tuple[int, ...]) -> bpu.TensorProperties:
        stored = element_for(part, self.element)
        kind = next(name for name, element in bpu.TYPES.items() if element == stored.name)
        if self.rule != "x3":
            return bpu.plain(shape, kind, row_align=int(self.rule or 1), tensor_layout=bpu.TensorLayout.NHWC)
        if len(shape) == 4:
            return bpu.x3(shape, kind, bpu.TensorLayout.NHWC, is_input=part.role is Role.INPUT)
        return bpu.plain(shape, kind, row_align=bpu.x3_row)


def _named(properties: bpu.TensorProperties, axes: str) -> Layout:
    """The layout of a tensor with the given axis letters."""
    layout = properties.layout
    terms = tuple(replace(term, axis=axis) for term, axis in zip(layout.terms, axes, strict=True))
    name = "bpu_nhwc" if len(axes) == 4 else ""
    return Layout(axes, terms, layout.element, layout.base_align, layout.total_align, name)
