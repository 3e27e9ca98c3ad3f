"""Descriptors become the bytes that they were read from."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cnn_convertor.devices.nvdla.firmware import descriptors
from cnn_convertor.devices.nvdla.firmware.descriptors import Cube, pack_descriptor, size_of, unpack_descriptor
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareTask
from cnn_convertor.devices.nvdla.loadable.loadable_file import read_loadable

KINDS = [
    descriptors.NetworkDescriptor,
    descriptors.Common,
    *descriptors.OPERATIONS.values(),
    *descriptors.SURFACES.values(),
    descriptors.Lut,
]


def test_descriptors_of_recorded_loadables_become_their_bytes(shared: Path) -> None:
    compared = Counter[str]()
    for path in sorted((shared / "vectors" / "nvdla_ops" / "regression").glob("*/loadable.fbuf")):
        for task in read_loadable(path).contents.tasks:
            if not isinstance(task.contents, FirmwareTask):
                continue
            network = task.contents.network
            lists = {
                "operation": (network.operation_desc_index, 116),
                "surfaces": (network.surface_desc_index, 644),
                "common": (network.dependency_graph_index, 36),
                "lut": (network.lut_data_index, 700),
            }
            held = {name: _bytes_at(task.spots[index]) for name, (index, _) in lists.items() if index >= 0}
            assert pack_descriptor(network) == _used(type(network), False, _bytes_at(task.spots[0]))
            for number, operation in enumerate(task.contents.operations):
                values = {"operation": operation.op, "surfaces": operation.surfaces, "common": operation.common}
                if operation.lut is not None:
                    values["lut"] = operation.lut
                for name, value in values.items():
                    place = operation.op.lut_index if name == "lut" else number
                    found = pack_descriptor(value, older=task.older)
                    expected = _used(type(value), task.older, held[name][place * lists[name][1] :])
                    assert found == expected, (path.parent.name, number, name)
                    compared[type(value).__name__] += 1
    assert set(compared) == {kind.__name__ for kind in KINDS} - {"NetworkDescriptor"}


def _used(kind: Any, older: bool, held: bytes) -> bytes:
    """A descriptor's bytes in memory, with 0 for the reserved ones."""
    used = pack_descriptor(unpack_descriptor(kind, b"\xff" * size_of(kind, older=older), older=older), older=older)
    return bytes(byte & mask for byte, mask in zip(held, used, strict=False))


def _bytes_at(spot: Any) -> bytes:
    initial: bytes = spot.memory.initial
    return initial[spot.offset :]


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_any_value_survives(kind: Any, older: bool) -> None:
    random = Random(kind.__name__)
    for _ in range(20):
        value = unpack_descriptor(kind, random.randbytes(size_of(kind, older=older)), older=older)
        packed = pack_descriptor(value, older=older)
        assert len(packed) == size_of(kind, older=older)
        assert unpack_descriptor(kind, packed, older=older) == value


def test_an_offset_is_not_lost_in_older_cubes() -> None:
    with pytest.raises(AssertionError, match="no offset"):
        pack_descriptor(Cube(0, 1, 64, 32, 1, 1, 16, 32, 32, 0), older=True)


def test_a_number_that_its_field_does_not_hold_is_refused() -> None:
    with pytest.raises(struct.error):
        pack_descriptor(Cube(0, 1 << 15, 0, 32, 1, 1, 16, 32, 32, 0))
