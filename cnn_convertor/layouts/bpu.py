"""Tensors of Horizon's BPU, and NV12 images.

The contract for every chip is validShape, stride and alignedByteSize as the model reports them. Only the X3's stride rule is
published; for other chips, pass the strides.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import DType, Layout, Term, element_type, refuse, whole_numbers
from cnn_convertor.layouts.packing import Array, Buffer, Bytes, bytes_of, pack, unpack

_KINDS = {"S": "int", "U": "uint", "F": "float"}
_NUMBERS = "S8 U8 F16 S16 U16 F32 S32 U32 F64 S64 U64"
TYPES = {name: _KINDS[name[0]] + name[1:] for name in _NUMBERS.split()} | {
    "BOOL8": "bool"
}  # the layout of 4-bit values is undocumented


class TensorLayout(Enum):
    """The model's label. Only the strides define the layout."""

    NHWC = 0
    NCHW = 2
    NONE = 255


class QuantiType(Enum):
    NONE = 0
    SHIFT = 1
    SCALE = 2


@dataclass(frozen=True, slots=True)
class TensorQuantization:
    """The real values of a tensor's integers: x = (q - zero point) * scale, or x = q / 2 ** shift.

    scale, zero_point, shift: one number, or one per index along `axis`
    """

    type: QuantiType = QuantiType.NONE
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    shift: tuple[int, ...] = ()
    axis: int | None = None

    def check(self, shape: Sequence[int]) -> None:
        """Raise UsageError if it does not fit a tensor of that valid shape."""
        if not all(isinstance(number, int) and 0 <= number <= 255 for number in self.shift):
            refuse("DV820", f"shifts are whole numbers from 0 to 255, not {self.shift}")
        values = {QuantiType.NONE: (), QuantiType.SCALE: self.scale, QuantiType.SHIFT: self.shift}[self.type]
        expected = 1 if self.axis is None else shape[self.axis] if 0 <= self.axis < len(shape) else None
        if expected is None:
            refuse("DV820", f"quantizeAxis {self.axis} for a tensor of {len(shape)} axes")
        if self.type is not QuantiType.NONE and len(values) != expected:
            refuse("DV820", f"{len(values)} numbers for {expected} along axis {self.axis}", "count the valid shape")
        if self.type is QuantiType.SCALE and not all(math.isfinite(scale) and scale > 0 for scale in values):
            refuse("DV820", "scales must be positive")
        if self.zero_point and len(self.zero_point) != len(self.scale):
            refuse("DV820", f"{len(self.zero_point)} zero points for {len(self.scale)} scales")

    def quantize(self, values: npt.NDArray[np.floating[Any]], element: npt.DTypeLike) -> Array:
        """Real values as integers, rounded to nearest even, clipped to the type."""
        self.check(values.shape)
        dtype = element_type(element)
        real = values.astype(np.float64)
        if dtype.kind not in "iu":
            refuse("DV820", f"quantized values are integers, not {dtype}")
        if np.isnan(real).any():
            refuse("DV820", "NaN has no integer value")
        limits = np.iinfo(dtype)
        match self.type:
            case QuantiType.NONE:
                scaled = np.rint(real)
                if np.any(scaled != real) or np.any((real < limits.min) | (real > limits.max)):
                    refuse("DV820", f"without a scale, values must be whole numbers within {dtype}", "SCALE or SHIFT")
            case QuantiType.SCALE:
                scaled = real / self._along(self.scale, values.ndim)
                scaled = np.rint(scaled + self._along(self.zero_point or (0,), values.ndim))
            case QuantiType.SHIFT:
                scaled = np.rint(np.ldexp(real, self._along(self.shift, values.ndim).astype(np.int64)))
        # FP64 cannot represent the largest 64-bit integers; use the next number below.
        highest = float(limits.max) if int(float(limits.max)) <= limits.max else np.nextafter(float(limits.max), 0)
        return scaled.clip(limits.min, highest).astype(dtype)

    def dequantize(self, values: Array) -> npt.NDArray[np.float64]:
        self.check(values.shape)
        real = values.astype(np.float64)
        match self.type:
            case QuantiType.NONE:
                return real
            case QuantiType.SCALE:
                moved = real - self._along(self.zero_point or (0,), values.ndim)
                return np.asarray(moved * self._along(self.scale, values.ndim))
            case QuantiType.SHIFT:
                return np.asarray(np.ldexp(real, -self._along(self.shift, values.ndim).astype(np.int64)))

    def _along(self, numbers: Sequence[float], ndim: int) -> npt.NDArray[np.float64]:
        """Numbers along the quantized axis, for broadcasting."""
        array = np.array(numbers, np.float64)
        if self.axis is None or array.size == 1:
            return array
        return array.reshape([-1 if axis == self.axis else 1 for axis in range(ndim)])


@dataclass(frozen=True, slots=True)
class TensorProperties:
    """A tensor as hbDNNTensorProperties describes it. Shapes in elements, strides and sizes in bytes."""

    valid_shape: tuple[int, ...]
    type: str
    stride: tuple[int, ...]
    aligned_byte_size: int
    aligned_shape: tuple[int, ...] = ()
    tensor_layout: TensorLayout = TensorLayout.NONE
    quantization: TensorQuantization = TensorQuantization()

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            refuse("DV820", f'no element type "{self.type}": {", ".join(TYPES)}')
        shape = self.valid_shape
        stride = self.stride
        size = self.aligned_byte_size
        numbers = whole_numbers((*shape, *stride, size), "a tensor's shape and stride")
        if not shape or any(n < 1 and n != -1 for n in numbers[: len(shape)]):
            refuse("DV820", f"a tensor of the shape {shape} is empty")
        if len(stride) != len(shape) or -1 in shape or min(stride, default=1) < 1:
            refuse("DV820", f"strides {stride} for the shape {shape}", "replace the values the model leaves open")
        if stride[-1] != self.element.itemsize:
            refuse("DV820", f"elements of {self.type} are {self.element.itemsize} bytes, not {stride[-1]} apart")
        for axis, (outer, inner) in enumerate(pairwise(stride)):
            if outer < inner * shape[axis + 1]:
                refuse("DV820", f"stride[{axis}] = {outer} is less than {shape[axis + 1]} x {inner}")
        if size < stride[0] * shape[0]:
            refuse("DV820", f"alignedByteSize {size} is less than {stride[0]} x {shape[0]}")
        self.quantization.check(self.valid_shape)

    @property
    def element(self) -> DType:
        return np.dtype(TYPES[self.type])

    @property
    def layout(self) -> Layout:
        """The tensor as a layout whose terms have its strides."""
        if len(self.valid_shape) > len(_AXES):
            refuse("DV820", f"a tensor of {len(self.valid_shape)} axes")
        axes = _AXES[: len(self.valid_shape)]
        terms = [Term(axis, pitch=stride) for axis, stride in zip(axes, self.stride, strict=True)]
        return Layout(axes, tuple(terms), self.element, total_align=self.aligned_byte_size)

    def pack(self, array: Array, out: Buffer | None = None) -> Bytes:
        """Pack an array of the valid shape; padding is zero."""
        if array.shape != self.valid_shape:
            refuse("DV820", f"an array {array.shape} for the valid shape {self.valid_shape}")
        return pack(array, self.layout, out)

    def unpack(self, data: Buffer, *, copy: bool = True) -> Array:
        """The valid elements. copy=False: a view of the data."""
        return unpack(data, self.layout, self.valid_shape, copy=copy)


_AXES = "abcdefgh"  # labels do not identify axes


def plain(
    shape: Sequence[int],
    type_: str,
    *,
    row_align: Callable[[int], int] | int = 1,
    total_align: int = 1,
    tensor_layout: TensorLayout = TensorLayout.NONE,
    quantization: TensorQuantization = TensorQuantization(),
) -> TensorProperties:
    """A tensor with padded rows (the last axis): to a multiple of `row_align` bytes, or by its rule."""
    size = np.dtype(TYPES[type_]).itemsize if type_ in TYPES else refuse("DV820", f'no element type "{type_}"')
    shape = whole_numbers(shape, "a shape")
    if min(shape, default=0) < 1:
        refuse("DV820", f"a tensor of the shape {shape} is empty")
    if total_align < 1 or (isinstance(row_align, int) and row_align < 1):
        refuse("DV820", f"rows aligned to {row_align} bytes, tensors to {total_align}")
    row = shape[-1] * size
    row = -(-row // row_align) * row_align if isinstance(row_align, int) else row_align(row)
    if row % size:
        refuse("DV820", f"rows of {row} bytes for elements of {size} bytes", "another alignment")
    *strides, total = accumulate(reversed(shape[:-1]), operator.mul, initial=row)
    total = -(-total // total_align) * total_align
    aligned = (*shape[:-1], row // size)
    return TensorProperties(shape, type_, (*reversed(strides), size), total, aligned, tensor_layout, quantization)


def x3_row(size: int) -> int:
    """The X3's row length in bytes: the next 256 q + (0, 16, 32, 64 or 128)."""
    whole, rest = divmod(size, 256)
    return whole * 256 + next(step for step in (0, 16, 32, 64, 128, 256) if rest <= step)


def x3(
    shape: Sequence[int],
    type_: str,
    tensor_layout: TensorLayout,
    *,
    is_input: bool = False,
    quantization: TensorQuantization = TensorQuantization(),
) -> TensorProperties:
    """A tensor of the X3. Rows follow `x3_row`; NHWC inputs of up to 4 channels have an even height and a width of 32 n."""
    if len(shape) != 4:
        refuse("DV820", f"the X3's rule is for 4 axes, not {len(shape)}")
    if tensor_layout is not TensorLayout.NHWC or not is_input or shape[3] > 4:
        return plain(shape, type_, row_align=x3_row, tensor_layout=tensor_layout, quantization=quantization)
    batch, height, width, channels = shape
    aligned = (batch, -(-height // 2) * 2, -(-width // 32) * 32, channels)
    wide = plain(aligned, type_)
    return TensorProperties(
        tuple(shape), type_, wide.stride, wide.aligned_byte_size, aligned, tensor_layout, quantization
    )


# --- images --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NV12:
    """An image: a plane Y (height, width), then a plane of rows U0 V0 U1 V1 ... for each 2x2 pixels.

    align: row alignment in bytes: 16 on X3, X5 and J5, 32 on J6 and S100
    """

    height: int
    width: int
    align: int = 16

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1 or self.height % 2 or self.width % 2:
            refuse("DV821", f"an NV12 image of {self.height} x {self.width} pixels", "height and width must be even")
        if self.align < 1 or self.align % 2:
            refuse("DV821", f"NV12 rows cannot be aligned to {self.align} bytes")

    @property
    def stride(self) -> int:
        """Bytes from row to row, in both planes."""
        return -(-self.width // self.align) * self.align

    @property
    def planes(self) -> tuple[TensorProperties, TensorProperties]:
        """Y (1, H, W, 1) and UV (1, H / 2, W / 2, 2) as two tensors."""
        luma = self.stride * self.height
        chroma = self.stride * self.height // 2
        half = (1, self.height // 2, self.width // 2, 2)
        return (
            TensorProperties((1, self.height, self.width, 1), "U8", (luma, self.stride, 1, 1), luma),
            TensorProperties(half, "U8", (chroma, self.stride, 2, 1), chroma),
        )

    @property
    def nbytes(self) -> int:
        return self.stride * self.height * 3 // 2

    def pack(self, luma: Bytes, chroma: Bytes) -> Bytes:
        """Pack Y (H, W) and UV (H / 2, W / 2, 2) into one buffer."""
        half = (self.height // 2, self.width // 2, 2)
        if luma.shape != (self.height, self.width) or chroma.shape != half:
            shapes = f"Y {luma.shape} and UV {chroma.shape}"
            refuse("DV821", f"{shapes} for an image of {self.height} x {self.width} pixels", f"UV is {half}")
        image = np.empty(self.nbytes, np.uint8)
        y, uv = self.planes
        y.pack(luma.reshape(y.valid_shape), image[: y.aligned_byte_size])
        uv.pack(chroma.reshape(uv.valid_shape), image[y.aligned_byte_size :])
        return image

    def unpack(self, data: Buffer) -> tuple[Bytes, Bytes]:
        """Y (H, W) and UV (H / 2, W / 2, 2)."""
        image = bytes_of(data, self.nbytes)
        y, uv = self.planes
        return (
            y.unpack(image).reshape(self.height, self.width),
            uv.unpack(image[y.aligned_byte_size :]).reshape(uv.valid_shape[1:]),
        )
