"""The firmware's half writes the registers that the public firmware wrote."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.devices.nvdla.configurations import NV_FULL, NV_SMALL
from cnn_convertor.devices.nvdla.firmware import descriptors
from cnn_convertor.devices.nvdla.firmware.descriptors import Consumer, Engine, size_of
from cnn_convertor.devices.nvdla.firmware.dispatching import (
    Firmware,
    FirmwareOperation,
    FirmwareTask,
    Interrupt,
    accesses,
    settings_of,
)
from cnn_convertor.devices.nvdla.firmware.register_settings import FieldError, Places, writes
from devices.nvdla.recorded_descriptors import Case, cases

# Of each configuration and kind, how many there are.
RECORDED = {
    "nv_full": "bdma 4, cdp_fp16 12, cdp_int16 2, cdp_int8 10, conv_fp16 40, conv_int16 2, conv_int8 46, conv_sdp_pdp_fp16 4, "
    "conv_sdp_pdp_int8 5, deconv 1, image_fp16 5, image_int8 15, lut_fp16 8, lut_int8 8, network_fp16 2, network_int8 1, "
    "pdp_fp16 21, pdp_int16 2, pdp_int8 17, rubik 10, sdp_convert 4, sdp_fp16 30, sdp_int16 3, sdp_int8 30",
    "nv_small": "cdp_int8 9, conv_int8 64, conv_sdp_pdp_int8 5, image_int8 12, network_int8 2, pdp_int8 28, sdp_int8 22",
}


def answered(case: Case) -> list[tuple[int, int]]:
    """What the firmware writes when the interrupts are those of the recording."""
    status = case.configuration.bases["GLB"] + 0x0C
    firmware = Firmware(case.task, case.places)
    found = firmware.start()
    for address, value in case.writes:
        if address == status:
            found += firmware.interrupt(value)
    assert firmware.done
    return [(write.address, write.value) for write in found]


def test_every_recorded_case_gets_the_recorded_writes_in_order(shared: Path) -> None:
    equal = Counter[tuple[str, str]]()
    for case in cases(shared):
        assert answered(case) == case.writes, case.name
        equal[case.values["configuration"], case.values["kind"]] += 1
    for configuration, counts in RECORDED.items():
        for entry in counts.split(", "):
            kind, count = entry.split()
            assert equal.pop((configuration, kind)) == int(count)
    assert not equal


def test_interrupts_that_come_together_leave_the_same_writes(shared: Path) -> None:
    """In another order: but each operation is programmed and enabled once, with the same values."""
    for case in cases(shared):
        status = case.configuration.bases["GLB"] + 0x0C
        found = [access for access in accesses(case.task, case.places) if not isinstance(access, Interrupt)]
        kept = Counter((write.address, write.value) for write in found if write.address != status)
        assert kept == Counter(write for write in case.writes if write[0] != status), case.name


SIZES = {
    descriptors.NetworkDescriptor: 40,
    descriptors.Common: 36,
    descriptors.Converter: 8,
    descriptors.Cube: 32,
    descriptors.ConvOperation: 92,
    descriptors.ConvSurfaces: 172,
    descriptors.SdpUnit: 32,
    descriptors.SdpOperation: 116,
    descriptors.SdpSurfaces: 160,
    descriptors.PdpOperation: 52,
    descriptors.PdpSurfaces: 64,
    descriptors.CdpOperation: 24,
    descriptors.CdpSurfaces: 64,
    descriptors.RubikOperation: 4,
    descriptors.RubikSurfaces: 64,
    descriptors.BdmaSurfaces: 644,
    descriptors.Lut: 700,
}
OLDER_SIZES = {
    descriptors.Cube: 28,
    descriptors.ConvSurfaces: 152,
    descriptors.SdpSurfaces: 140,
    descriptors.PdpSurfaces: 56,
}


def test_descriptors_have_the_sizes_of_the_firmware_s_structures() -> None:
    assert {kind: size_of(kind) for kind in SIZES} == SIZES
    assert {kind: size_of(kind, older=True) for kind in OLDER_SIZES} == OLDER_SIZES


def test_an_older_cube_has_no_offset() -> None:
    numbers = (1).to_bytes(2, "little") + bytes(2) + (77).to_bytes(4, "little") + bytes(20)
    older = descriptors.unpack_descriptor(descriptors.Cube, numbers, older=True)
    newer = descriptors.unpack_descriptor(descriptors.Cube, numbers + bytes(4))
    assert (older.type, older.offset, older.size) == (1, 0, 77)
    assert (newer.type, newer.offset, newer.size) == (1, 77, 0)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("SDP.D_DATA_CUBE_WIDTH", 8192, r"D_DATA_CUBE_WIDTH has 13 bits, which do not hold 8192"),
        ("SDP.D_DATA_CUBE_WIDTH", -1, r"D_DATA_CUBE_WIDTH has 13 bits, which do not hold -1"),
        ("CSC.D_BANK", {"WEIGHT_BANK": -1}, r"CSC.D_BANK.WEIGHT_BANK has 5 bits, which do not hold -1"),
        ("SDP.D_CVT_SCALE", -32769, r"SDP.D_CVT_SCALE has 16 bits, which do not hold -32769"),
        ("CSC.D_BANK", {"DATA_BANK": 32}, r"CSC.D_BANK.DATA_BANK has 5 bits"),
        ("RBK.D_MISC_CFG", 0, "nv_small has no RBK"),
    ],
)
def test_a_value_that_a_register_cannot_hold_is_refused(name: str, value: int | dict[str, int], reason: str) -> None:
    with pytest.raises(FieldError, match=reason):
        list(writes([(name, value)], NV_SMALL))


def test_fields_of_nv_full_are_narrower() -> None:
    bank = [("CSC.D_BANK", {"DATA_BANK": 16})]
    assert [write.value for write in writes(bank, NV_SMALL)] == [16]
    with pytest.raises(FieldError, match="DATA_BANK has 4 bits"):
        list(writes(bank, NV_FULL))


PLAIN = descriptors.Converter(1, 0, 0, 0)
CUBE = descriptors.Cube(0, 0, 0, 64, 1, 1, 32, 32, 32, 32)
COPY = descriptors.Transfer(0, 1, 64, 1, 64, 64, 1, 64, 64)
POOL = descriptors.PdpOperation(0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 0, 0, 0, 0, 0, (0,) * 7)


def nowhere(index: int, offset: int) -> int:
    return 0x8000_0000


@pytest.mark.parametrize(
    ("engine", "op", "surfaces", "reason"),
    [
        (
            Engine.BDMA,
            descriptors.BdmaOperation(1),
            descriptors.BdmaSurfaces(0, 0, 1, (replace(COPY, line_size=48),)),
            "a copy has lines of 48 bytes, not a multiple of 32",
        ),
        (
            Engine.BDMA,
            descriptors.BdmaOperation(1),
            descriptors.BdmaSurfaces(0, 0, 1, (replace(COPY, surface_repeat=8193),)),
            "its surfaces 8193 times, not 1 to 8,192",
        ),
        (
            Engine.CDP,
            descriptors.CdpOperation(0, 0, -1, PLAIN, PLAIN, 4, 0, 0),
            descriptors.CdpSurfaces(CUBE, CUBE),
            "a window of channels has 3, 5, 7 or 9, not 4",
        ),
        (
            Engine.PDP,
            replace(POOL, stride_y=9),
            descriptors.PdpSurfaces(CUBE, CUBE),
            "a pool has strides of 2 and 9, more than 8",
        ),
        (
            Engine.PDP,
            replace(POOL, precision=2, padding_value=(1,) * 7),
            descriptors.PdpSurfaces(CUBE, CUBE),
            "padding has a value, which FP16 has not",
        ),
        (
            Engine.RUBIK,
            descriptors.RubikOperation(1, 0, 1, 1),
            descriptors.RubikSurfaces(CUBE, replace(CUBE, plane_stride=40)),
            "planes lie 40 bytes apart, not a multiple of 32",
        ),
    ],
)
def test_what_the_firmware_does_not_accept_is_refused(engine: Engine, op: Any, surfaces: Any, reason: str) -> None:
    common = descriptors.Common(0, 0, engine, 0, (Consumer(-1, 0),) * 6, Consumer(-1, 0))
    operation = FirmwareOperation(0, common, op, surfaces, None)
    with pytest.raises(FieldError, match=reason):
        list(settings_of(operation, Places(NV_FULL, nowhere)))


def test_a_convolution_with_an_output_scale_is_refused(shared: Path) -> None:
    case = next(case for case in cases(shared) if case.name == "nv_small_conv_int8_000")
    first = case.task.operations[0]
    scaled = first._replace(op=replace(first.op, out_cvt=descriptors.Converter(2, 0, 1, 0)))
    with pytest.raises(FieldError, match="the output of a convolution has no scale and no offset"):
        list(settings_of(scaled, case.places))


def test_operations_that_wait_for_each_other_are_refused(shared: Path) -> None:
    case = next(case for case in cases(shared) if case.name == "nv_small_pdp_int8_000")
    (operation,) = case.task.operations
    assert operation.engine is Engine.PDP
    waiting = operation._replace(
        common=descriptors.Common(0, 0, Engine.PDP, 1, (Consumer(-1, 0),) * 6, Consumer(-1, 0))
    )
    with pytest.raises(FieldError, match="wait for each other"):
        list(accesses(FirmwareTask(case.task.network, (waiting,)), Places(NV_SMALL, lambda index, offset: 0)))
