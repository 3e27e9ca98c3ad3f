"""The audit of convolutions, operations on points and copies: one that fits, and each way in which it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.devices.nvdla.firmware.descriptors import (
    BdmaOperation,
    BdmaSurfaces,
    Common,
    Consumer,
    Converter,
    Converters,
    ConvOperation,
    ConvSurfaces,
    Cube,
    Engine,
    MemoryKind,
    NetworkDescriptor,
    SdpOperation,
    SdpSurfaces,
    SdpUnit,
    Transfer,
)
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareOperation, FirmwareTask
from cnn_convertor.devices.nvdla.loadable.container import MemoryEntry, TaskEntry
from cnn_convertor.devices.nvdla.loadable.contents import AddressSpot, LoadableContents, LoadableTask, PlacedMemory
from cnn_convertor.devices.nvdla.loadable.loadable_file import Loadable, read_loadable
from cnn_convertor.errors import Problem
from development.fuzz.written_loadables import Pooling
from devices.nvdla.recorded_descriptors import cases

NONE = Consumer(-1, 0)
NOWHERE = Cube(MemoryKind.HW, -1, 0, 0, 9, 5, 20, 0, 0, 0)  # 9 x 5 x 20, to the SDP
# 24 channels on nv_small: 3 atoms a pixel, 33 entries a line, and 3x3 kernels of 216 bytes.
SOURCE = Cube(0, 0, 0, 1848, 11, 7, 24, 88, 616, 0)
WEIGHTS = Cube(0, 1, 0, 4320, 3, 3, 24, 0, 0, 0)
SURFACES = ConvSurfaces(WEIGHTS, replace(NOWHERE, width=0), replace(NOWHERE, width=0), SOURCE, NOWHERE, 0, 0)
PLAIN = Converter(1, 0, 0, 0)
CONVOLUTION = ConvOperation(
    conv_mode=0,
    data_reuse=0,
    weight_reuse=0,
    skip_data_rls=0,
    skip_weight_rls=0,
    entry_per_slice=33,
    data_format=36,
    pixel_mapping=0,
    fetch_grain=1,
    batch=1,
    weight_format=0,
    data_bank=1,
    weight_bank=2,
    batch_stride=0,
    post_extension=0,
    pixel_override=0,
    release=7,
    input_width_csc=11,
    input_height_csc=7,
    input_channel_csc=24,
    kernel_width_csc=3,
    kernel_height_csc=3,
    kernel_channel_csc=24,
    input_width_cmac=9,
    input_height_cmac=5,
    bytes_per_kernel=216,
    mean_ry=0,
    mean_gu=0,
    mean_bv=0,
    mean_ax=0,
    mean_format=0,
    conv_stride_x=1,
    conv_stride_y=1,
    pad_x_left=0,
    pad_x_right=0,
    pad_y_top=0,
    pad_y_bottom=0,
    dilation_x=1,
    dilation_y=1,
    pra_truncate=0,
    in_precision=0,
    out_precision=0,
    pad_val=0,
    in_cvt=PLAIN,
    out_cvt=PLAIN,
)


def findings(engine: Engine, op: Any, surfaces: Any, device: str, container: Loadable) -> tuple[Problem, ...]:
    """Of one operation on memories of 1848, 4320 and 256 bytes."""
    spots = []
    for number, size in enumerate((1848, 4320, 256)):
        entry = MemoryEntry(number, 0, 1, size, 4096, (), (), 0, 0)
        spots.append(AddressSpot(PlacedMemory(entry, 0x8000_0000 + number * 0x10000, {}), 0))
    operation = FirmwareOperation(0, Common(0, 0, engine, 0, (NONE,) * 6, NONE), op, surfaces, None)
    network = NetworkDescriptor(0, 0, 0, -1, -1, -1, -1, (-1,) * 6, 1, 1, 0, 3, 0, 0)
    task = LoadableTask(TaskEntry(0, 1, 0, (), (), ()), tuple(spots), FirmwareTask(network, (operation,)), False)
    contents = LoadableContents(container.contents.container, {}, (task,))
    return Loadable("net.nvdla", contents, (), ()).findings(device)


@pytest.fixture
def container(tmp_path: Path) -> Loadable:
    return read_loadable(Pooling().write(tmp_path))


def test_a_convolution_that_fits_has_no_finding(container: Loadable) -> None:
    assert findings(Engine.CONV, CONVOLUTION, SURFACES, "nvdla-small", container) == ()


@pytest.mark.parametrize(
    ("changes", "code", "reason"),
    [
        ({"conv_mode": 1}, "DV918", "nv_small has no WINOGRAD"),
        ({"weight_format": 1}, "DV918", "nv_small has no COMPRESSION"),
        ({"batch": 2}, "DV918", "nv_small has no BATCH"),
        ({"post_extension": 1}, "DV918", "nv_small has no POST_EXTENSION"),
        ({"out_precision": 2}, "DV918", "out_precision is fp16, which nv_small lacks"),
        ({"in_precision": 3}, "DV918", "in_precision is 3, which nv_small lacks"),
        ({"data_format": 37}, "DV919", "data_format is 37; it is 0 to 36"),
        ({"conv_stride_x": 9}, "DV919", "conv_stride_x is 9; it is 1 to 8"),
        ({"pad_y_top": 32}, "DV919", "pad_y_top is 32; it is 0 to 31"),
        ({"in_cvt": replace(PLAIN, truncate=64)}, "DV919", "in_cvt.truncate is 64; it is 0 to 63"),
        ({"out_cvt": replace(PLAIN, scale=2)}, "DV919", "out_cvt.scale is 2; it is 1 to 1"),
        ({"entry_per_slice": 32}, "DV922", "entry_per_slice is 32; a line of its input takes 33"),
        ({"bytes_per_kernel": 215}, "DV922", "bytes_per_kernel is 215; its sizes give 216"),
        ({"pad_x_left": 1}, "DV922", "dst_data.width is 9; its input gives 10"),
        ({"dilation_y": 2}, "DV922", "dst_data.height is 5; its input gives 3"),
        ({"data_bank": 0}, "DV923", "0 banks for data and 2 for weights are not in the 32 banks"),
        ({"data_bank": 31}, "DV923", "31 banks for data and 2 for weights are not in the 32 banks"),
    ],
)
def test_a_convolution_that_does_not_fit_is_found(
    changes: Mapping[str, Any], code: str, reason: str, container: Loadable
) -> None:
    found = findings(Engine.CONV, replace(CONVOLUTION, **changes), SURFACES, "nvdla-small", container)
    assert [problem for problem in found if problem.code == code and reason in problem.message]


@pytest.mark.parametrize(
    ("cube", "changes", "code", "reason"),
    [
        (
            "weight_data",
            {"size": 4312},
            "DV922",
            "weight_data.size is 4,312; 20 kernels need a multiple of 8 from 4,320 on",
        ),
        ("weight_data", {"size": 4324}, "DV922", "weight_data.size is 4,324"),
        ("weight_data", {"offset": 8}, "DV921", "weight_data ends after 4,328 bytes, but its memory has 4,320"),
        ("src_data", {"surf_stride": 620}, "DV920", "src_data.surf_stride is 0x26c, not a multiple of 8"),
        ("src_data", {"height": 300}, "DV923", "its 300 lines take 9,900 entries; the data banks have 512"),
    ],
)
def test_a_cube_that_does_not_fit_is_found(
    cube: str, changes: Mapping[str, Any], code: str, reason: str, container: Loadable
) -> None:
    surfaces = replace(SURFACES, **{cube: replace(getattr(SURFACES, cube), **changes)})
    found = findings(Engine.CONV, CONVOLUTION, surfaces, "nvdla-small", container)
    assert [problem for problem in found if problem.code == code and reason in problem.message]


def test_a_group_of_kernels_larger_than_its_banks_is_found(container: Loadable) -> None:
    wide = replace(CONVOLUTION, kernel_channel_csc=8192, bytes_per_kernel=73728, weight_bank=2)
    found = findings(Engine.CONV, wide, SURFACES, "nvdla-small", container)
    assert any("a group of 8 kernels has 589,824 bytes; the weight banks have 8,192" in each.message for each in found)


IDLE = SdpUnit(0, 2, 0, 0, 0, 0, 0, 0, 0, 1, Converters(PLAIN, PLAIN))
PIXEL = Cube(0, 0, 0, 24, 1, 1, 20, 8, 8, 0)
BIASES = Cube(0, 1, 0, 48, 1, 1, 20, 16, 16, 0)
POINT = SdpOperation(0, 0, -1, PLAIN, 0, 1, 0, replace(IDLE, enable=1, type=2, mode=1, precision=1), IDLE, IDLE)
POINT_SURFACES = SdpSurfaces(PIXEL, BIASES, BIASES, BIASES, replace(PIXEL, address=2))


def test_an_operation_on_points_that_fits_has_no_finding(container: Loadable) -> None:
    assert findings(Engine.SDP, POINT, POINT_SURFACES, "nvdla-small", container) == ()


@pytest.mark.parametrize(
    ("op", "surfaces", "code", "reason"),
    [
        ({"y_op": replace(IDLE, enable=1)}, {}, "DV918", "nv_small has no EW"),
        ({"y_op": replace(IDLE, enable=1, act=2)}, {}, "DV918", "nv_small has no LUT"),
        ({"x1_op": replace(POINT.x1_op, truncate=64)}, {}, "DV919", "x1_op.truncate is 64; it is 0 to 63"),
        ({}, {"dst_data": replace(PIXEL, channel=19)}, "DV922", "dst_data.channel is 19; its input has 20"),
        ({"x1_op": replace(POINT.x1_op, type=3)}, {}, "DV922", "x1_data.surf_stride is 16; for one pixel it is 32"),
    ],
)
def test_an_operation_on_points_that_does_not_fit_is_found(
    op: Mapping[str, Any], surfaces: Mapping[str, Any], code: str, reason: str, container: Loadable
) -> None:
    found = findings(Engine.SDP, replace(POINT, **op), replace(POINT_SURFACES, **surfaces), "nvdla-small", container)
    assert [problem for problem in found if problem.code == code and reason in problem.message]


TRANSFER = Transfer(0, 2, 64, 2, 64, 128, 1, 0, 0)


@pytest.mark.parametrize(
    ("changes", "code", "reason"),
    [
        ({"line_size": 48}, "DV920", "transfer 0: line_size is 48, not a multiple of 32"),
        ({"line_repeat": 0}, "DV919", "transfer 0: line_repeat is 0; it is 1 to 8192"),
        ({"source_address": 9}, "DV921", "transfer 0: its source is at address 9"),
        ({"line_repeat": 3}, "DV921", "transfer 0: its destination has 320 bytes, but its memory has 256"),
    ],
)
def test_a_copy_that_does_not_fit_is_found(
    changes: Mapping[str, Any], code: str, reason: str, container: Loadable
) -> None:
    surfaces = BdmaSurfaces(0, 0, 1, (replace(TRANSFER, **changes),))
    found = findings(Engine.BDMA, BdmaOperation(1), surfaces, "nvdla-full", container)
    assert [problem for problem in found if problem.code == code and reason in problem.message]


def test_a_copy_that_fits_has_no_finding_where_there_are_copies(container: Loadable) -> None:
    surfaces = BdmaSurfaces(0, 0, 1, (TRANSFER,))
    assert findings(Engine.BDMA, BdmaOperation(1), surfaces, "nvdla-full", container) == ()
    (found,) = findings(Engine.BDMA, BdmaOperation(1), surfaces, "nvdla-large", container)
    assert (found.code, found.message) == ("DV918", "nv_large has no BDMA")


def test_recorded_layers_have_no_finding(shared: Path, container: Loadable) -> None:
    for case in cases(shared):
        buffers = {each["address_index"]: each for each in case.values["buffers"].values()}
        spots = []
        for number in range(max(buffers) + 1):
            place = buffers.get(number, {"dma_address": 0, "bytes": 0})
            entry = MemoryEntry(number, 0, 1, place["bytes"], 4096, (), (), 0, 0)
            spots.append(AddressSpot(PlacedMemory(entry, place["dma_address"], {}), 0))
        task = LoadableTask(TaskEntry(0, 1, 0, (), (), ()), tuple(spots), case.task, False)
        contents = LoadableContents(container.contents.container, {}, (task,))
        assert Loadable(case.name, contents, (), ()).findings(case.configuration.device) == (), case.name
