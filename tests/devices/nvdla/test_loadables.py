"""Loadables: read in both versions, refused where their lists contradict each other, listed, checked and played."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla import NAMES, playing
from cnn_convertor.devices.nvdla.configurations import CONFIGURATIONS, NV_FULL, Configuration
from cnn_convertor.devices.nvdla.firmware.dispatching import Firmware, FirmwareTask
from cnn_convertor.devices.nvdla.firmware.register_settings import Places
from cnn_convertor.devices.nvdla.loadable import playback
from cnn_convertor.devices.nvdla.loadable.loadable_file import Loadable, read_loadable
from cnn_convertor.devices.nvdla.loadable.playback import memory_after
from cnn_convertor.devices.nvdla.playing import Access, Played
from cnn_convertor.devices.registry import compiled_format
from cnn_convertor.errors import ConvertorError, ModelError, UnsupportedError, UsageError
from cnn_convertor.layouts.nvdla.features import feature_data
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import Bytes, unpack
from development.fuzz.mutation import mutate_bytes
from development.fuzz.targets import loadable as read_all
from development.fuzz.written_loadables import NONE, Pooling

GOLDENS = {
    "BDMA_L0_0": "nvdla-full",
    "CDP_L0_0_large": "nvdla-large",
    "CDP_L0_0_small": "nvdla-small",
    "CONV_D_L0_0": "nvdla-full",
    "CONV_D_L0_0_small": "nvdla-small",
    "NN_L0_0": "nvdla-full",
    "PDP_L0_0": "nvdla-full",
    "PDP_L0_0_large": "nvdla-large",
    "RBK_L0_0": "nvdla-full",
    "SDP_X1_L0_0": "nvdla-full",
    "SDP_X1_L0_0_small": "nvdla-small",
}


def regression(shared: Path, name: str) -> Path:
    return shared / "vectors" / "nvdla_ops" / "regression" / name


def zeros(network: Loadable) -> dict[str, NDArray[Any]]:
    return {each.name: np.zeros(each.shape, each.element) for each in network.inputs}


def with_wrong_atoms(values: NDArray[np.int8]) -> bytes:
    """A map of nv_small as the vendor stored it: read from atoms of 8 bytes as if they had 32, so 704 of 2,048 bytes."""
    height, width, channels = values.shape
    memory = np.zeros(values.size, np.int8)
    for h, w, c in np.ndindex(*values.shape):
        memory[c // 8 * 8 * width * height + h * 8 * width + w * 8 + c % 8] = values[h, w, c]
    order = [c + 32 * w + 64 * h for c in range(channels) for h in range(height) for w in range(width)]
    return memory[order].tobytes()


@pytest.mark.parametrize("name", GOLDENS)
def test_regression_loadables_give_their_goldens(compiler: None, name: str, shared: Path) -> None:
    network = read_loadable(regression(shared, name) / "loadable.fbuf")
    (found,) = network.run(GOLDENS[name], zeros(network)).values()
    with np.load(regression(shared, name) / "data.npz") as arrays:
        golden = arrays["golden"].tobytes()
    if GOLDENS[name] == "nvdla-small":
        assert with_wrong_atoms(found) == golden
    else:
        assert np.ascontiguousarray(found.transpose(2, 0, 1)).tobytes() == golden


def _address(addresses: list[int], index: int, offset: int) -> int:
    return addresses[index] + offset


@pytest.mark.parametrize("name", GOLDENS)
def test_the_firmware_writes_what_was_recorded_for_loadables(name: str, shared: Path) -> None:
    folder = regression(shared, name)
    played_on = json.loads((folder / "case.json").read_text(encoding="utf-8"))["configuration_played_on"]
    configuration = CONFIGURATIONS[played_on]
    with np.load(folder / "data.npz") as arrays:
        trace = arrays["register_trace"]
    expected = [(int(address), int(value)) for is_write, address, value in trace if is_write]
    status = configuration.bases["GLB"] + 0x0C
    found = []
    for task in read_loadable(folder / "loadable.fbuf").contents.tasks:
        if not isinstance(task.contents, FirmwareTask):
            continue
        addresses = [spot.address for spot in task.spots] + [0]  # the last one for the index -1
        firmware = Firmware(task.contents, Places(configuration, partial(_address, addresses)))
        found += firmware.start()
        for address, value in expected:
            if address == status and not firmware.done:
                found += firmware.interrupt(value)
        assert firmware.done
    assert [(write.address, write.value) for write in found] == expected


@pytest.mark.parametrize("digit", ["eight_inverted", "one_inverted", "seven_raw", "six_inverted", "three_inverted"])
def test_lenet_computes_the_recorded_maps_of_a_digit(compiler: None, digit: str, shared: Path) -> None:
    """Each map after a layer, and the logits; the first task copies the input."""
    network = read_loadable(regression(shared, "NN_L0_0") / "loadable.fbuf")
    with np.load(regression(shared, "NN_L0_0_digits") / f"{digit}.npz") as arrays:
        recorded = {int(name.removeprefix("memory_")): arrays[name] for name in arrays.files}
    image = unpack(recorded[1], feature_data(Precision.FP16), (1, 28, 28)).transpose(1, 2, 0)
    memory = memory_after(network.contents, NV_FULL, {"data": image})
    assert len(recorded) == 8
    for number, expected in recorded.items():
        found = np.frombuffer(memory[network.contents.memories[number].address], np.float16)
        np.testing.assert_array_equal(found, expected.view(np.float16), str(number))


@pytest.mark.parametrize("older", [False, True], ids=["0.12", "0.11"])
@pytest.mark.parametrize(("device", "atom"), [("nvdla-small", 8), ("nvdla-full", 32), ("nvdla-large", 32)])
def test_both_versions_of_descriptors_are_read_and_played(
    compiler: None, device: str, atom: int, older: bool, tmp_path: Path
) -> None:
    network = read_loadable(Pooling(atom=atom, older=older).write(tmp_path))
    assert [(each.name, each.shape, each.element) for each in network.inputs] == [("x", (4, 6, 11), "int8")]
    assert network.findings(device) == ()
    x = np.random.default_rng(0).integers(-128, 128, (4, 6, 11)).astype(np.int8)
    found = network.run(device, {"x": x})["y"]
    np.testing.assert_array_equal(found, x.reshape(2, 2, 3, 2, 11).max((1, 3)))


def test_the_version_of_the_blobs_decides(tmp_path: Path) -> None:
    """Descriptors without offsets in a file that says 0.12 are read shifted, so the map has no sense."""
    network = read_loadable(Pooling(older=True, version=12).write(tmp_path))
    assert network.findings("nvdla-small")


def test_tables_list_operations_surfaces_memories_and_weights(tmp_path: Path) -> None:
    tables = {table.title: table for table in read_loadable(Pooling().write(tmp_path)).tables()}
    assert list(tables) == ["operations", "surfaces", "memories", "weights"]
    assert tables["operations"].rows == ((0, 0, "PDP", "int8", "6x4x11", "3x2x11", 0),)
    assert tables["surfaces"].rows[0] == (0, 0, "src", "6x4x11", 5, 0, 384, 48, 192)
    assert tables["memories"].rows[5] == (5, "0x80005000", 384, "input x", "")
    assert tables["weights"].rows == ()
    for table in tables.values():
        assert all(len(row) == len(table.columns) for row in table.rows)


ADDRESS = [("H", 3), ("H", 99), ("Q", 0), ("Q", 0)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lists": {"submits": []}}, "it has no submits"),
        ({"lists": {"tasks": []}}, "it has no tasks"),
        ({"lists": {"submits": [[("H", 0), ("H*", [0, 0])]]}}, "submits task 0 twice"),
        ({"lists": {"submits": [[("H", 0), ("H*", [7])]]}}, "submits task 7 which it does not have"),
        ({"lists": {"addresses": [ADDRESS]}}, "names address 0, which is nowhere"),
        ({"lists": {"addresses": [ADDRESS, ADDRESS]}}, "address 3 is there twice"),
        ({"lists": {"blobs": []}}, 'memory 0 holds "net", which the file does not have'),
        ({"lists": {"tensors": []}}, "input 0 has no tensor"),
        ({"sizes": {0: 8}}, 'memory 0 of 8 bytes cannot hold "net"'),
        ({"sizes": {4: 1 << 40}}, "its memories need more than 512 MB"),
        ({"sizes": {5: 100}}, 'tensor "x" is not in its memory'),
        ({"interface": 3}, "task 0 is for interface 3"),
        ({"network": {"operations": 2}}, "its dependency graph ends after byte 36"),
        ({"network": {"op": 4}}, "the file holds nothing for its list of operations"),
        ({"network": {"op": -1}}, "its list of operations is at address -1"),
        ({"network": {"heads": (-1,) * 6}}, "no engine comes to operation 0"),
        ({"network": {"heads": (0, -1, -1, -1, -1, -1)}}, "the chain of BDMA operations breaks at 0"),
        ({"common": {"type": 9}}, "operation 0 has the type 9"),
        ({"common": {"consumers": [(5, 1), *[NONE] * 5]}}, "operation 0 names operation 5"),
        ({"common": {"consumers": [NONE, NONE, NONE, (0, 1), NONE, NONE]}}, "the chain of PDP operations breaks at 0"),
        ({"channels": 0}, 'the tensor "x" has the sizes 1 x 0 x 4 x 6'),
    ],
)
def test_lists_that_contradict_each_other_are_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="DV912") as error:
        read_loadable(Pooling(**changes).write(tmp_path))
    assert reason in error.value.problems[0].message


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", bytes(64), b"\xff" * 64, Pooling().file()[:200]])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.nvdla"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"DV91[12]"):
        read_loadable(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="DV910: cannot read the loadable: No such file"):
        read_loadable(tmp_path / "net.nvdla")


def test_lists_that_share_their_bytes_do_not_grow_beyond_the_file() -> None:
    """A list of many tables that are one table costs as much as the file is long, not their product."""
    content = bytearray(Pooling().file())
    at = content.index(struct.pack("<I", 7))  # the length of a list of seven
    content[at : at + 4] = struct.pack("<I", 1 << 30)
    assert code_of(bytes(content)) == "DV911"


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(24))
def test_damaged_loadables_are_read_or_refused(seed: int) -> None:
    random = Random(seed)
    content = Pooling(older=seed % 2 == 0).file()
    codes = set()
    for _ in range(30):
        damaged = bytearray(content)
        for _ in range(random.randint(1, 5)):
            damaged[random.randrange(len(damaged))] = random.choice([0, 1, 127, 128, 255])
        codes |= {code_of(bytes(damaged)), code_of(mutate_bytes(content, random, ()))}
    assert codes <= {"", "DV911", "DV912"} and len(codes) > 1


def code_of(content: bytes) -> str:
    """Of the refusal of a file; empty for one that is read."""
    try:
        read_all(content)
    except ConvertorError as error:
        return error.problems[0].code
    return ""


AUDITED = [
    ({"operation": {"precision": 2}}, "DV918", "precision is fp16, which nv_small lacks"),
    ({"operation": {"src.type": 1}}, "DV918", "src_data is in SRAM, and nv_small has no CVIF"),
    ({"operation": {"width": 8}}, "DV919", "pool_width is 8; it is 0 to 7"),
    ({"operation": {"split": 65}}, "DV919", "split_num is 65; it is 1 to 64"),
    ({"operation": {"stride_x": 9}}, "DV919", "stride_x is 9; it is 1 to 8"),
    ({"operation": {"left": 2}}, "DV919", "its padding of 2 and 0 is not smaller than its kernel of 2"),
    ({"operation": {"src.channel": 8193}}, "DV919", "src_data.channel is 8193; it is 1 to 8192"),
    ({"operation": {"dst.type": 7}}, "DV919", "dst_data.type is 7"),
    ({"operation": {"src.offset": 4}}, "DV920", "src_data.address is 0x80005004, not a multiple of 8"),
    ({"operation": {"dst.line": 28}}, "DV920", "dst_data.line_stride is 0x1c, not a multiple of 8"),
    ({"operation": {"src.address": 50}}, "DV921", "src_data is at address 50, which the task does not have"),
    ({"operation": {"src.surface": 4096}}, "DV921", "src_data ends after 4,288 bytes, but its memory has 384"),
    ({"operation": {"dst.size": 1000}}, "DV921", "dst_data ends after 1,000 bytes, but its memory has 96"),
    ({"operation": {"dst.width": 4}}, "DV922", "dst_data.width is 4; its input gives 3"),
    ({"operation": {"src.line": 40}}, "DV922", "src_data.line_stride is 40; a line has 48 bytes"),
]


@pytest.mark.parametrize(("changes", "code", "reason"), AUDITED)
def test_the_audit_finds_what_a_configuration_cannot_do(
    changes: dict[str, Any], code: str, reason: str, tmp_path: Path
) -> None:
    findings = read_loadable(Pooling(**changes).write(tmp_path)).findings("nvdla-small")
    found = [finding for finding in findings if finding.code == code and reason in finding.message]
    assert len(found) == 1 and found[0].hint
    assert str(found[0].where).endswith('layer "task 0, operation 0" (PDP)')


def test_limits_are_reached_without_a_finding(tmp_path: Path) -> None:
    written = Pooling(
        width=16,
        height=16,
        operation={"width": 7, "height": 7, "stride_x": 8, "stride_y": 8, "dst.width": 2, "dst.height": 2},
    )
    assert read_loadable(written.write(tmp_path)).findings("nvdla-small") == ()


def test_a_refusal_names_the_task_and_the_register(tmp_path: Path) -> None:
    network = read_loadable(Pooling(operation={"split": 0}).write(tmp_path))
    with pytest.raises(
        UnsupportedError, match=r"DV913: task 0: PDP_RDMA.D_OPERATION_MODE_CFG has 8 bits, which do not hold -1"
    ):
        network.run("nvdla-small", zeros(network))


def test_a_kernel_without_a_reciprocal_is_refused(tmp_path: Path) -> None:
    network = read_loadable(Pooling(operation={"height": 8}).write(tmp_path))
    with pytest.raises(UnsupportedError, match="DV913: task 0: the kernel of a pool has a side of 9, more than 8"):
        network.run("nvdla-small", zeros(network))


def test_a_refusal_of_the_twin_is_one_of_the_loadable(compiler: None, tmp_path: Path) -> None:
    network = read_loadable(Pooling(operation={"dst.width": 4}).write(tmp_path))
    with pytest.raises(UnsupportedError, match="DV913: task 0: the twin of nv_small refuses it") as error:
        network.run("nvdla-small", zeros(network))
    assert "audit" in error.value.problems[0].hint


def test_a_task_gets_the_memories_that_it_names(
    compiler: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one with the number 4 is large, and none of the seven addresses is in it."""
    written = Pooling(sizes={4: 1 << 28})
    task = [("H", 0), ("I", 1), ("h", -1), ("H*", [0, 1, 2, 3, 3, 5, 6]), ("H*", []), ("H*", [])]
    network = read_loadable(replace(written, lists={"tasks": [task]}).write(tmp_path))
    passed: list[int] = []

    def play(configuration: Configuration, memory: dict[int, Bytes], accesses: list[Access]) -> Played:
        passed.extend(memory)
        return playing.play(configuration, memory, accesses)

    monkeypatch.setattr(playback, "play", play)
    x = np.full((4, 6, 11), 7, np.int8)
    np.testing.assert_array_equal(network.run("nvdla-small", {"x": x})["y"], x[:2, :3])
    placed = network.contents.memories
    assert passed == [placed[number].address for number in (0, 1, 2, 3, 5, 6)]


def test_an_unknown_device_is_refused(tmp_path: Path) -> None:
    network = read_loadable(Pooling().write(tmp_path))
    with pytest.raises(UsageError, match='DV914: loadables run on no device "nvdla-smal"; did you mean "nvdla-small"'):
        network.findings("nvdla-smal")


def test_the_registry_names_the_devices_of_loadables() -> None:
    form = compiled_format(Path("net.NVDLA"))
    assert form is not None and form.devices == NAMES == tuple(each.device for each in CONFIGURATIONS.values())
    assert compiled_format(Path("net.onnx")) is None


def test_recorded_memory_lies_where_the_runtime_has_it(shared: Path) -> None:
    network = read_loadable(regression(shared, "NN_L0_0") / "loadable.fbuf")
    recorded = json.loads((regression(shared, "NN_L0_0") / "case.json").read_text(encoding="utf-8"))["memories"]
    addresses = {number: placed.address for number, placed in network.contents.memories.items()}
    assert addresses == {each["id"]: each["dma_address"] for each in recorded}


def test_features_of_tensors_are_those_of_the_configuration() -> None:
    layout = feature_data(Precision.FP16, NV_FULL.form, line_stride=64, surface_stride=128)
    memory = np.arange(64, dtype=np.float16).view(np.uint8)
    assert unpack(memory, layout, (3, 2, 2))[2, 1, 1] == 32 + 16 + 2
