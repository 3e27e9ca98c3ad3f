"""Recorded layers, computed by plain formulas on what the layouts read from memory, give the recorded outputs.

A wrong place of any element of input, weights or operands shows in the outputs.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.firmware.conv import FEATURE
from cnn_convertor.devices.nvdla.firmware.descriptors import Converter, ConvOperation, Cube, Engine, SdpUnit
from cnn_convertor.layouts.layout import nbytes
from cnn_convertor.layouts.nvdla import features, pixels, weights
from cnn_convertor.layouts.nvdla.memory_forms import MemoryForm
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import pack, unpack
from devices.nvdla.recorded_descriptors import Case, cases

Integers: TypeAlias = NDArray[np.int64]
NAMES = {"int8": Precision.INT8, "int16": Precision.INT16, "float16": Precision.FP16}


def rounded(values: Integers, shift: int) -> Integers:
    """To nearest, ties away from zero."""
    return np.asarray(np.sign(values) * ((np.abs(values) + (1 << shift >> 1)) >> shift), np.int64)


def clipped(values: Integers, bits: int) -> Integers:
    return values.clip(-(1 << bits - 1), (1 << bits - 1) - 1)


def converted(values: Integers, converter: Converter, offset: Any) -> Integers:
    return clipped(clipped(rounded((values - offset) * converter.scale, converter.truncate), 17), 8)


def convolved(source: Integers, kernels: Integers, op: ConvOperation, output: Cube) -> Integers:
    """(K, H, W) of a padded map (C, H, W) and kernels (K, C, R, S)."""
    _, channels, rows, columns = kernels.shape
    sides = ((0, 0), (op.pad_y_top, op.pad_y_bottom), (op.pad_x_left, op.pad_x_right))
    pad = int(np.array(op.pad_val).astype(np.int8))  # the low byte
    padded = np.pad(source[:channels], sides, constant_values=pad)
    result = np.zeros((len(kernels), output.height, output.width), np.int64)
    for r, s in np.ndindex(rows, columns):
        top, left = r * op.dilation_y, s * op.dilation_x
        down = slice(top, top + (output.height - 1) * op.conv_stride_y + 1, op.conv_stride_y)
        right = slice(left, left + (output.width - 1) * op.conv_stride_x + 1, op.conv_stride_x)
        result += np.einsum("kc,chw->khw", kernels[:, :, r, s], padded[:, down, right])
    return result


def read_input(case: Case, op: ConvOperation, form: MemoryForm) -> Integers:
    """(C, H, W), after the input's converter."""
    memory, place = case.before("src"), case.values["buffers"]["src"]["layout"]
    if "pixel_format" not in place:
        layout = features.feature_data(
            NAMES[place["dtype"]], form, line_stride=place["line"], surface_stride=place["surf"]
        )
        source = unpack(memory, layout, (place["C"], place["H"], place["W"])).astype(np.int64)
        return converted(source, op.in_cvt, op.in_cvt.offset) if op.in_cvt.enable else source
    given = pixels.FORMATS[pixels.NAMES[op.data_format]]
    planes = [memory]
    strides = [place["line"]]
    if len(given.planes) == 2:
        planes = [memory[: place["plane2_offset"]], memory[place["plane2_offset"] :]]
        strides.append(place["line_uv"])
    height, width = place["H"], place["W"]
    planes = [plane[: height * stride] for plane, stride in zip(planes, strides, strict=True)]
    image = pixels.unpack_pixels(planes, given, height, width, strides=strides).astype(np.int64).transpose(2, 0, 1)
    if op.pixel_override or not op.in_cvt.enable:
        image = image.astype(np.int8).astype(np.int64)
    if not op.in_cvt.enable:
        return image
    means = np.array([op.mean_ry, op.mean_gu, op.mean_bv, op.mean_ax])[: len(image), None, None]
    return converted(image, op.in_cvt, means if op.mean_format else op.in_cvt.offset)


def read_operands(case: Case, name: str, unit: SdpUnit, form: MemoryForm) -> tuple[Any, Any]:
    """Addend and factor of a unit, each (C, H, W) or a number."""
    if not unit.mode:
        return np.int16(unit.alu_operand).astype(np.int64), np.int16(unit.mul_operand).astype(np.int64)
    place = case.values["buffers"][name]["layout"]
    both = len(place["components"]) == 2
    shape = (place["C"], place["H"], place["W"])
    strides = {"line_stride": place["line"], "surface_stride": place["surf"]}
    layout = features.operand(
        Precision.INT8, form, data_size=place["component_bytes"], operands=len(place["components"]), **strides
    )
    memory = case.before(name)
    values = unpack(memory, layout, (2, *shape) if both else shape).astype(np.int64)
    return (values[0], values[1]) if both else (values, values)


def applied(values: Integers, unit: SdpUnit, addend: Any, factor: Any) -> Integers:
    if not unit.enable:
        return values
    if unit.type in (2, 3):
        shifted = clipped(addend << unit.shift_value, 32)
        values = {0: np.maximum, 1: np.minimum, 2: np.add}[unit.alu_type](values, shifted)
    scaled = values * factor if unit.type in (1, 3) else values
    scaled = clipped(rounded(scaled, unit.truncate), 32)
    values = np.where(values >= 0, values, scaled) if unit.act == 3 else scaled
    return np.maximum(values, 0) if unit.act == 1 else values


def checked(case: Case) -> bool:
    """Compute a layer of int8 and compare it. False: it has what these formulas lack."""
    conv, point, *others = case.task.operations
    op = conv.op
    if others or point.op.y_op.enable or (op.out_precision, point.op.dst_precision) != (0, 0):
        return False
    form, place = case.configuration.form, case.values["buffers"]["weight"]["layout"]
    layout = weights.direct(Precision.INT8, form)
    if op.data_format < FEATURE:
        layout = weights.image(Precision.INT8, (1, 2, 4)[op.post_extension], form)
    shape = (place["K"], place["C"], place["R"], place["S"])
    memory = case.before("weight")
    size = nbytes(layout, shape)
    assert conv.surfaces.weight_data.size in (size, -(-size // 128) * 128)  # a layer alone may have more than entries
    kernels = unpack(memory[:size], layout, shape)
    np.testing.assert_array_equal(pack(kernels, layout), memory[:size])
    sums = convolved(read_input(case, op, form), kernels.astype(np.int64), op, conv.surfaces.dst_data)
    values = clipped(rounded(sums, op.out_cvt.truncate), 32)
    for name, unit in (("x1", point.op.x1_op), ("x2", point.op.x2_op)):
        values = applied(values, unit, *read_operands(case, name, unit, form))
    expected = converted(values, point.op.out_cvt, point.op.out_cvt.offset)
    given = case.values["buffers"]["dst"]["layout"]
    layout = features.feature_data(Precision.INT8, form, line_stride=given["line"], surface_stride=given["surf"])
    found = unpack(case.after("dst"), layout, (given["C"], given["H"], given["W"]))
    np.testing.assert_array_equal(found, expected, case.name)
    return True


@pytest.mark.parametrize(
    ("kind", "least"),
    [("nv_full_conv_int8", 40), ("nv_small_conv_int8", 60), ("nv_full_image_int8", 15), ("nv_small_image_int8", 12)],
)
def test_layers_on_what_the_layouts_read_are_the_recorded_ones(kind: str, least: int, shared: Path) -> None:
    same = Counter(checked(case) for case in cases(shared) if case.name.startswith(kind))
    assert same[True] >= least


@pytest.mark.parametrize("name", ["nv_small_network_int8_001", "nv_small_network_int8_002", "nv_full_network_int8_000"])
def test_weights_of_networks_are_padded_to_entries(name: str, shared: Path) -> None:
    """On nv_small a convolution reads its weights behind the entries of the one before, so more padding is wrong."""
    case = next(case for case in cases(shared) if case.name == name)
    addresses = {each["address_index"]: each["layout"] for each in case.values["buffers"].values()}
    sizes = {}
    for operation in case.task.operations:
        if operation.engine is Engine.CONV:
            weight = operation.surfaces.weight_data
            place = addresses[weight.address]
            layout = weights.direct(Precision.INT8, case.configuration.form)
            sizes[weight.address] = weight.size, nbytes(layout, tuple(place[axis] for axis in "KCRS"))
    assert len(sizes) >= 3 and all(found == expected for found, expected in sizes.values())
