"""Loadables that the convertor writes: their lists are the vendor's, and what they compute is right."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.firmware.dependency_graph import task_of
from cnn_convertor.devices.nvdla.firmware.descriptors import Cube
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareTask
from cnn_convertor.devices.nvdla.loadable.container import container_bytes, read_container
from cnn_convertor.devices.nvdla.loadable.contents import MemoryFlag, contents_of
from cnn_convertor.devices.nvdla.loadable.loadable_file import Loadable, read_loadable
from cnn_convertor.devices.nvdla.loadable.loadable_writing import (
    LoadableMemory,
    LoadableTensor,
    WritingError,
    loadable_bytes,
)
from cnn_convertor.devices.nvdla.loadable.playback import memory_after
from cnn_convertor.devices.nvdla.loadable.processor_tasks import (
    ProcessorKind,
    ProcessorMap,
    ProcessorOperation,
    ProcessorTask,
)
from cnn_convertor.devices.nvdla.operations import HardwareOperation
from cnn_convertor.layouts.nvdla.memory_forms import FULL
from cnn_convertor.layouts.nvdla.precision import Precision
from devices.nvdla.operations_by_hand import convolution, cube, flying, point, pool, table
from devices.nvdla.reference import weights_to_memory

RANDOM = np.random.default_rng(5)
KERNELS = RANDOM.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float16)  # kernel, row, column, channel
DENSE = RANDOM.normal(0, 0.3, (10, 4, 4, 8)).astype(np.float16)
BIAS = RANDOM.normal(0, 0.3, 18).astype(np.float16)
X = RANDOM.normal(0, 1, (8, 8, 3)).astype(np.float16)
INPUT, PROBABILITIES, POOLED = 3, 4, 5  # memories behind weights and maps
VERSIONS = ("0.12", "0.11")


def packed_weights(kernels: NDArray[np.float16]) -> bytes:
    as_bits = kernels.view(np.uint16).astype(np.int64)
    return weights_to_memory(as_bits, 64, 16, 128, "<u2")


def pieces() -> list[tuple[int, bytes]]:
    first, dense = packed_weights(KERNELS), packed_weights(DENSE)
    return [(0, first), (4096, BIAS[:8].tobytes()), (4128, BIAS[8:].tobytes()), (8192, dense)]


def softmax_of(source: Cube, target: Cube) -> ProcessorTask:
    maps = [
        ProcessorMap(
            each.address,
            each.offset,
            each.size,
            Precision.FP16,
            FULL,
            each.width,
            each.height,
            each.channel,
            each.line_stride,
            each.surf_stride,
        )
        for each in (source, target)
    ]
    operation = ProcessorOperation(ProcessorKind.SOFTMAX, 1.0, 1.0, (1.0, 1.0, 0.0), maps[0], maps[1])
    return ProcessorTask((operation,))


def network() -> tuple[list[FirmwareTask | ProcessorTask], list[LoadableMemory], list[LoadableTensor]]:
    """Convolution, largest of squares, twice the result, dense layer, softmax; maps share the I/O memory."""
    x, convolved = cube(0, 8, 8, 3, INPUT), cube(64, 8, 8, 8)
    pooled, twice, logits = cube(0, 4, 4, 8, POOLED), cube(4096, 4, 4, 8), cube(64, 1, 1, 10)
    operations = [
        convolution(x, 8, 3, 1, 0),
        point(flying(convolved), convolved, bias=4096, relu=True, fused_with=0),
        pool(convolved, pooled, 2, after=(1,)),
        point(pooled, twice, add=pooled, after=(2,)),
        convolution(twice, 10, 4, 0, 8192, after=(3,)),
        point(flying(logits), logits, bias=4128, after=(2,), fused_with=4),
    ]
    output = cube(0, 1, 1, 10, PROBABILITIES)
    tasks: list[FirmwareTask | ProcessorTask] = [task_of(operations, 6), softmax_of(logits, output)]
    memories = [LoadableMemory(8192 + len(pieces()[3][1]), pieces())]
    memories += [LoadableMemory(size) for size in (8192, x.size, output.size, pooled.size)]
    tensors = [
        LoadableTensor("x", INPUT, (8, 8, 3), x.line_stride, x.surf_stride, False),
        LoadableTensor("prob", PROBABILITIES, (1, 1, 10), 32, 32, True),
        LoadableTensor("pooled", POOLED, (4, 4, 8), pooled.line_stride, pooled.surf_stride, True),
    ]
    return tasks, memories, tensors


def written(folder: Path, version: str) -> Loadable:
    path = folder / "net.nvdla"
    path.write_bytes(loadable_bytes(*network(), version))
    return read_loadable(path)


def expected() -> dict[str, NDArray[np.float32]]:
    """In FP32."""
    padded = np.pad(X.astype(np.float32), ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    convolved = np.einsum("hwcrs,krsc->hwk", windows, KERNELS.astype(np.float32)) + BIAS[:8]
    pooled = np.maximum(convolved, 0).reshape(4, 2, 4, 2, 8).max((1, 3))
    logits = np.einsum("hwc,khwc->k", 2 * pooled, DENSE.astype(np.float32)) + BIAS[8:]
    powers = np.exp(logits - logits.max())
    return {"prob": (powers / powers.sum()).reshape(1, 1, 10), "pooled": pooled}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_written_network_computes_what_it_should(compiler: None, version: str, tmp_path: Path) -> None:
    loadable = written(tmp_path, version)
    assert loadable.findings("nvdla-full") == ()
    assert [each.name for each in loadable.outputs] == ["prob", "pooled"]
    found = loadable.run("nvdla-full", {"x": X})
    assert set(found) == set(expected())
    for name, values in expected().items():
        np.testing.assert_allclose(found[name].astype(np.float32), values, rtol=0.01, atol=0.004, err_msg=name)
    operations = next(each for each in loadable.tables() if each.title == "operations")
    assert [row[2] for row in operations.rows] == ["CONV", "SDP", "PDP", "SDP", "CONV", "SDP", "SOFTMAX"]


def test_both_versions_leave_the_same_memory(compiler: None, tmp_path: Path) -> None:
    left = []
    for version in VERSIONS:
        contents = written(tmp_path, version).contents
        memory = memory_after(contents, NV_FULL, {"x": X})
        left.append([bytes(memory[contents.memories[number].address]) for number in range(1, 6)])
    assert left[0] == left[1]
    assert any(left[0][1])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_network_gives_the_same_bytes(version: str) -> None:
    assert bytes(loadable_bytes(*network(), version)) == bytes(loadable_bytes(*network(), version))


def test_lists_of_recorded_files_survive(shared: Path) -> None:
    paths = sorted((shared / "vectors" / "nvdla_ops" / "regression").glob("*/loadable.fbuf"))
    for path in paths:
        container = read_container(path.read_bytes())
        assert read_container(bytes(container_bytes(container))) == container, path.parent.name
    assert len(paths) == 11


def test_lenet_gets_the_lists_of_its_compiler(shared: Path) -> None:
    """Written of its tasks, memories and tensors. Its compiler gives the processor's tasks the addresses of all tasks."""
    original = read_loadable(shared / "vectors" / "nvdla_ops" / "regression" / "NN_L0_0" / "loadable.fbuf").contents
    memories = []
    for number in range(1, 19):
        placed = original.memories[number]
        memories.append(LoadableMemory(placed.entry.size, [(at, blob.data) for at, blob in placed.pieces.items()]))
    tensors = []
    for tensor in (*original.inputs, *original.outputs):
        shape = (tensor.h, tensor.w, tensor.c)
        is_output = tensor in original.outputs
        tensors.append(LoadableTensor(tensor.name, tensor.mem_id, shape, tensor.stride_1, tensor.stride_2, is_output))
    tasks = [task.contents for task in original.tasks]
    found = contents_of(read_container(bytes(loadable_bytes(tasks, memories, tensors, "0.11"))))
    container, recorded = found.container, original.container
    assert [task.contents for task in found.tasks] == [task.contents for task in original.tasks]
    for name in ("version", "events", "submits", "tensors", "relocations", "addresses"):
        assert getattr(container, name) == getattr(recorded, name), name
    for task, other in zip(container.tasks, recorded.tasks, strict=True):
        assert replace(task, address_list=()) == replace(other, address_list=())
    assert container.tasks[1].address_list == recorded.tasks[1].address_list
    for number, first in ((0, 19), (2, 31)):
        assert container.tasks[number].address_list == (first, *range(1, 19), *range(first, first + 6))
    for memory, expected_one in zip(container.memories, recorded.memories, strict=True):
        assert replace(memory, contents=()) == replace(expected_one, contents=())
    lists = [blob for blob in container.blobs if blob.interface and blob.name != "task-2-addr0"]
    assert lists == [blob for blob in recorded.blobs if blob.interface and blob.name != "task-2-addr0"]


def test_tables_are_in_the_file() -> None:
    source, output = cube(0, 1, 1, 16), cube(64, 1, 1, 16)
    operations = [point(source, output, lut=table(0)), point(output, source, lut=table(1), after=(0,))]
    data = loadable_bytes([task_of(operations, 3)], [LoadableMemory(32), LoadableMemory(128)], [])
    (task,) = contents_of(read_container(bytes(data))).tasks
    assert isinstance(task.contents, FirmwareTask)
    assert [operation.lut for operation in task.contents.operations] == [table(0), table(1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_strides_may_change_only_where_a_tensor_is_used_from_its_begin(version: str) -> None:
    counts = []
    for offset in (0, 32):
        x = cube(offset, 1, 1, 16, 2)
        tensors = [LoadableTensor("x", 2, (1, 1, 16), 32, 32, False)]
        tasks = [task_of([pool(x, cube(0, 1, 1, 16, 1))], 3)]
        data = loadable_bytes(tasks, [LoadableMemory(64), LoadableMemory(64)], tensors, version)
        counts.append(len(read_container(bytes(data)).relocations))
    assert counts == [2, 0]


def test_too_many_places_for_a_task_are_refused() -> None:
    operations: Sequence[HardwareOperation] = [pool(cube(32 * n, 1, 1, 16), cube(0, 1, 1, 16, 1)) for n in range(6140)]
    memories = [LoadableMemory(32), LoadableMemory(32 * 6140)]
    tasks = [task_of(operations, 3)]
    assert read_container(bytes(loadable_bytes(tasks, memories, [], "0.12"))).tasks
    with pytest.raises(WritingError, match="a task has 6,148 addresses, more than the runtime's 6,144"):
        loadable_bytes(tasks, memories, [], "0.11")


def test_weights_are_copied_once() -> None:
    """But for one piece at a time, which flatbuffers copies twice."""
    size, part = 32 << 20, 2 << 20
    memories = [LoadableMemory(size, [(offset, bytes(part)) for offset in range(0, size, part)])]
    tracemalloc.start()
    data = loadable_bytes([], memories, [])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size < len(data) and peak < 1.1 * size


def test_inputs_and_outputs_are_numbered_apart() -> None:
    bound = read_container(bytes(loadable_bytes(*network()))).memories
    numbers = {entry.id: (entry.bind_id, MemoryFlag(entry.flags)) for entry in bound if entry.flags & 12}
    allocated = MemoryFlag.ALLOC
    outputs = {PROBABILITIES: (0, allocated | MemoryFlag.OUTPUT), POOLED: (1, allocated | MemoryFlag.OUTPUT)}
    assert numbers == {INPUT: (0, allocated | MemoryFlag.INPUT), **outputs}
