"""The firmware's half writes the registers that the public firmware wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cnn_convertor.devices.nvdla.configurations import NV_FULL, NV_SMALL
from cnn_convertor.devices.nvdla.firmware import descriptors
from cnn_convertor.devices.nvdla.firmware.descriptors import Consumer, Engine, size_of
from cnn_convertor.devices.nvdla.firmware.dispatching import Firmware, FirmwareTask, Interrupt, accesses
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


def test_operations_that_wait_for_each_other_are_refused(shared: Path) -> None:
    case = next(case for case in cases(shared) if case.name == "nv_small_pdp_int8_000")
    (operation,) = case.task.operations
    assert operation.engine is Engine.PDP
    waiting = operation._replace(
        common=descriptors.Common(0, 0, Engine.PDP, 1, (Consumer(-1, 0),) * 6, Consumer(-1, 0))
    )
    with pytest.raises(FieldError, match="wait for each other"):
        list(accesses(FirmwareTask(case.task.network, (waiting,)), Places(NV_SMALL, lambda index, offset: 0)))
