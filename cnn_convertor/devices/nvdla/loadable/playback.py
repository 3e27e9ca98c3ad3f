"""Plays a loadable: its tasks one after the other, on the twin and on this processor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareTask, Interrupt
from cnn_convertor.devices.nvdla.firmware.register_settings import FieldError
from cnn_convertor.devices.nvdla.loadable.container import TensorEntry
from cnn_convertor.devices.nvdla.loadable.contents import LoadableContents, LoadableTask, accesses_of
from cnn_convertor.devices.nvdla.loadable.processor_tasks import ProcessorMap, ProcessorTask, computed
from cnn_convertor.devices.nvdla.loadable.tensor_memory import read_tensor, write_tensor
from cnn_convertor.devices.nvdla.playing import Access, AccessKind, play
from cnn_convertor.errors import UsageError
from cnn_convertor.layouts.packing import Bytes


class PlaybackError(ValueError):
    """A loadable cannot be played on a configuration."""


def played(
    contents: LoadableContents, configuration: Configuration, inputs: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Name of an output -> (H, W, C). inputs: the same for each input, of the tensor's type.

    Raises PlaybackError, or ConvertorError as the twin does.
    """
    memory = memory_after(contents, configuration, inputs)
    with _fitting():
        return {
            tensor.name: read_tensor(tensor, configuration, _memory_of(contents, tensor, memory))
            for tensor in contents.outputs
        }


def memory_after(
    contents: LoadableContents, configuration: Configuration, inputs: Mapping[str, NDArray[Any]]
) -> dict[int, Bytes]:
    """Address of each memory -> its bytes after the last task. Raises as `played` does."""
    memory = {placed.address: placed.initial for placed in contents.memories.values()}
    with _fitting():
        for tensor in contents.inputs:
            write_tensor(tensor, configuration, inputs[tensor.name], _memory_of(contents, tensor, memory))
    for task in contents.tasks:
        if isinstance(task.contents, FirmwareTask):
            _play_on_twin(task, task.contents, configuration, memory)
        else:
            _compute(task, memory)
    return memory


@contextmanager
def _fitting() -> Iterator[None]:
    """What a layout raises for a map that does not fit its memory becomes PlaybackError."""
    try:
        yield
    except UsageError as error:
        raise PlaybackError(error.problems[0].message) from None


def _memory_of(contents: LoadableContents, tensor: TensorEntry, memory: Mapping[int, Bytes]) -> Bytes:
    """The bytes of a tensor; writing to them writes to the memory."""
    return memory[contents.memories[tensor.mem_id].address][tensor.offset :]


def _play_on_twin(
    task: LoadableTask, firmware: FirmwareTask, configuration: Configuration, memory: dict[int, Bytes]
) -> None:
    calls = []
    try:
        for step in accesses_of(task, firmware, configuration):
            if isinstance(step, Interrupt):
                calls.append(Access(AccessKind.WAIT, value=step.status))
            else:
                calls.append(Access(AccessKind.WRITE, step.address, step.value))
    except FieldError as error:
        raise PlaybackError(f"task {task.entry.id}: {error}") from None
    named = {spot.memory.address: memory[spot.memory.address] for spot in task.spots}
    result = play(configuration, named, calls)
    if result.refusal:
        raise PlaybackError(f"task {task.entry.id}: the twin of {configuration.name} refuses it: {result.refusal}")
    for address, content in result.memory.items():
        memory[address] = np.frombuffer(content, np.uint8)


def _compute(task: LoadableTask, memory: Mapping[int, Bytes]) -> None:
    assert isinstance(task.contents, ProcessorTask)
    try:
        with _fitting():
            for operation in task.contents.operations:
                computed(operation, _map(task, operation.source, memory), _map(task, operation.target, memory))
    except ValueError as error:
        raise PlaybackError(f"task {task.entry.id}, for the processor: {error}") from None


def _map(task: LoadableTask, place: ProcessorMap, memory: Mapping[int, Bytes]) -> Bytes:
    if not 0 <= place.address < len(task.spots):
        raise ValueError(f"it names address {place.address}, which the task does not have")
    spot = task.spots[place.address]
    return memory[spot.memory.address][spot.offset + place.offset :]
