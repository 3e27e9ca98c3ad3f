"""Runs legalized graphs and programs with numpy; programs have a memory of their own.

A program's memory has one element per two bytes, initially NaN, so reading a map that was never
written, or was overwritten, gives another result. Written from the specification, independently of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.runs import ConvolutionKind, Layer, PoolingKind, Program, Run, topo_of
from cnn_convertor.devices.program import ElementType, LayerType
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Pair, Shape, Window
from reference import ir_reference

Real: TypeAlias = NDArray[np.float64]


def to_memory(values: NDArray[Any], *, transposed: bool) -> Real:
    """A map (H, W, C) in memory order: chunks of 8 channels, each W, H, C (H, W, C if transposed)."""
    chunks = [values[:, :, c : c + 8] for c in range(0, values.shape[2], 8)]
    return np.concatenate([(chunk if transposed else chunk.transpose(1, 0, 2)).reshape(-1) for chunk in chunks])


def from_memory(memory: Real, shape: Shape, *, transposed: bool) -> Real:
    """The map (H, W, C) of a memory."""
    height, width, channels = shape
    chunks, start = [], 0
    for c in range(0, channels, 8):
        k = min(8, channels - c)
        chunk = memory[start : start + height * width * k]
        chunks.append(
            chunk.reshape(height, width, k) if transposed else chunk.reshape(width, height, k).transpose(1, 0, 2)
        )
        start += height * width * k
    return np.concatenate(chunks, axis=2)


def on_cpu(op: ops.Op, inputs: Sequence[Real], *, transposed: bool) -> Any:
    """An operator's result, part of which may lie in memory order."""
    if not (isinstance(op, ops.InPieces) and op.keeps_map):
        return ir_reference.execute(op, *inputs)
    *_, written, average = ir_reference.results_of_steps(op, *inputs)
    parts: Any = [to_memory(written, transposed=transposed).reshape(1, 1, -1), average]
    return np.concatenate(parts, axis=-1)


def run_legal(graph: Graph, inputs: Mapping[str, Real], *, transposed: bool) -> dict[str, Real]:
    """Every node's value, where some reshapes are counted in memory order."""
    values: dict[str, Any] = {}
    for node in graph.nodes:
        arguments = [values[name] for name in node.inputs]
        match node.op:
            case ops.Input():
                values[node.name] = inputs[node.name]
            case ops.Reshape(shape=shape, order=ops.Order.MEMORY):
                values[node.name] = from_memory(
                    to_memory(arguments[0], transposed=transposed), shape, transposed=transposed
                )
            case ops.OnCpu(op=op):
                values[node.name] = on_cpu(op, arguments, transposed=transposed)
            case ops.ChannelSlice(first=first, count=count):
                values[node.name] = arguments[0][:, :, first : first + count]
            case _:
                values[node.name] = ir_reference.execute(node.op, *arguments)
        assert values[node.name].shape == tuple(graph.shape(node.name))
    return values


def as_output(values: NDArray[Any], op: ops.Op, *, transposed: bool) -> Real:
    """An output as the application sees it: H, W, C if it would be chunked, or is a custom layer's."""
    height, width, channels = values.shape
    if (channels > 8 and height * width > 1) or isinstance(op, ops.Custom):
        return values.reshape(-1)
    return to_memory(values, transposed=transposed)


def run(program: Program, inputs: Mapping[str, Real], custom: Mapping[str, Any] = {}) -> list[Real]:
    """The network's outputs in the final memory."""
    machine = Machine(program, custom)
    first = next((layer for layer in program.layers if layer.inputs or layer.type is LayerType.INPUT), None)
    if first is not None and first.type is not LayerType.INPUT:  # the application writes the first layer's input
        ((_, given),) = program.inputs
        assert (first.inputs[0].offset, first.inputs[0].nbytes) == (given.offset, given.nbytes)
    for name, tensor in program.inputs:
        machine.write(tensor.offset, to_memory(inputs[name], transposed=program.transposed))
    for layer in program.layers:
        machine.execute(layer)
    return [machine.read(program.layers[index].output) for index in program.outputs]


class Machine:
    def __init__(self, program: Program, custom: Mapping[str, Any]) -> None:
        assert program.io_bytes % 2 == 0
        self.program = program
        self.custom = custom
        self.memory = np.full(program.io_bytes // 2, np.nan)

    def write(self, offset: int, values: Real, size: int = 2) -> None:
        assert offset % 2 == 0 and offset + values.size * size <= self.program.io_bytes
        assert not np.isnan(values).any()
        start, count = offset // 2, values.size * size // 2
        self.memory[start : start + count] = np.nan
        self.memory[start : start + count : size // 2] = values

    def read(self, tensor: Any) -> Real:
        return self.read_at(tensor.offset, tensor.shape.size, tensor.type)

    def read_at(self, offset: int, count: int, type: ElementType = ElementType.HALF) -> Real:
        step = type.value // 2
        values = self.memory[offset // 2 : offset // 2 + count * step : step]
        assert values.size == count
        return values.copy()

    def map(self, offset: int, shape: Shape) -> Real:
        return from_memory(self.read_at(offset, shape.size), shape, transposed=self.program.transposed)

    def map_of(self, tensor: Any) -> Real:
        """A map that may be FP32, and in the order H, W, C."""
        memory = self.read(tensor)
        if tensor.is_plain:
            return memory.reshape(tensor.shape)
        return from_memory(memory, tensor.shape, transposed=self.program.transposed)

    def execute(self, layer: Layer) -> None:
        transposed = self.program.transposed
        match layer.type:
            case LayerType.INPUT | LayerType.CONCAT:
                pass
            case LayerType.CONV:
                self.execute_command(layer)
            case LayerType.FLATTEN:
                (tensor,) = layer.inputs
                self.write(layer.output.offset, self.map(tensor.offset, tensor.shape).reshape(-1))
            case LayerType.COPY_CONCAT:
                parts = [
                    self.read(self.program.layers[source].output) for source in layer.sources if source is not None
                ]
                assert len(parts) == len(layer.sources)
                self.write(layer.output.offset, np.concatenate(parts))
            case LayerType.CUSTOM if layer.cpu is not None:
                maps = [self.map_of(tensor) for tensor in layer.inputs]
                values = on_cpu(layer.cpu, maps, transposed=transposed)
                plain = layer.output.is_plain
                memory: Any = values.reshape(-1) if plain else to_memory(values, transposed=transposed)
                self.write(layer.output.offset, memory, size=layer.output.type.value)
            case LayerType.CUSTOM:
                assert layer.custom is not None
                maps = [self.map_of(tensor) for tensor in layer.inputs]
                values = self.custom[layer.custom.type](*maps, **dict(layer.custom.parameters))
                self.write(layer.output.offset, values.reshape(-1), size=4)
            case LayerType.SOFTMAX:
                assert layer.softmax is not None and len(layer.softmax.dims) <= 3 and layer.from_device
                (tensor,) = layer.inputs
                array: Any = ir_reference.execute(layer.softmax, self.read(tensor).reshape(tensor.shape))
                start = tensor.offset // 2
                self.memory[start : start + array.size] = np.nan  # the runtime leaves x - max there
                self.write(layer.output.offset, array.reshape(-1))

    def execute_command(self, layer: Layer) -> None:
        """Each run reads the result of the one before it, or the command's input after one that wrote to memory."""
        assert 1 <= len(layer.runs) <= 32 and layer.runs[-1].external
        assert topo_of(layer) == int("".join(str(int(run.external)) for run in reversed(layer.runs)), 2)
        given = self.map(layer.inputs[0].offset, layer.runs[0].input)
        written: list[Real] = []
        x: Any = given
        for run in layer.runs:
            assert x.shape == tuple(run.input)
            if run.factors is not None:
                assert run is layer.runs[0] and run.convolution is None and run.pooling is None
                assert run.factors.offset == layer.inputs[-1].offset
                packed = self.read_at(run.factors.offset, run.factors.packed.nbytes // 2)
                kernels = run.factors.packed.kernels
                op = ops.ScaledBy() if run.factors.kind is ConvolutionKind.DEPTHWISE else ops.TimesPacked(kernels)
                x = ir_reference.execute(op, x, packed.reshape(1, 1, -1))
            x = execute_run(run, x, self.operand(layer, run))
            assert x.shape == tuple(run.output)
            if run.external:
                assert not written or sum(map(len, written)) % (8 * x.shape[0] * x.shape[1]) == 0
                written.append(to_memory(x, transposed=self.program.transposed))
                x = given
        result = np.concatenate(written)
        assert layer.output.shape.size == result.size
        self.write(layer.output.offset, result)

    def operand(self, layer: Layer, run: Run) -> Real | None:
        """What the only run adds, of the size of what it is added to."""
        count = len(layer.inputs) - any(run.factors is not None for run in layer.runs)
        if count < 2:
            return None
        assert len(layer.runs) == 1 and count == 2
        return self.map(layer.inputs[1].offset, run.output if run.convolution is None else run.convolution.output)


def execute_run(run: Run, x: Any, operand: Real | None) -> Any:
    """Convolution, operand, max pool, activation; or average pool, operand, activation."""
    convolution, pooling = run.convolution, run.pooling
    assert convolution is not None or pooling is not None or run.factors is not None
    if convolution is not None:
        stride = convolution.stride
        assert min(convolution.padding) >= 0
        if convolution.kind.is_transposed:
            spread = np.zeros(((x.shape[0] - 1) * stride.height + 1, (x.shape[1] - 1) * stride.width + 1, x.shape[2]))
            spread[:: stride.height, :: stride.width] = x
            x, stride = spread, Pair(1, 1)
        kernels = convolution.weights.kernels
        groups = kernels.shape[0] if convolution.kind.is_depthwise else 1
        assert kernels.shape[1] == (1 if convolution.kind.is_depthwise else run.input.channels)
        window = Window(convolution.kernel, stride, convolution.dilation, convolution.padding)
        x = ir_reference.execute(ops.Conv2d(kernels, convolution.weights.bias, window, groups), x)
        assert x.shape == tuple(convolution.output)
        assert convolution.weights.packed.channels == kernels.shape[1]
    if pooling is not None and pooling.kind is PoolingKind.AVERAGE:
        assert convolution is None
        window = Window(pooling.kernel, pooling.stride, padding=pooling.padding)
        x = ir_reference.execute(ops.AveragePool2d(window, factor=pooling.factor), x)
    if operand is not None:
        x = x + operand
    if pooling is not None and pooling.kind is PoolingKind.MAX:
        window = Window(pooling.kernel, pooling.stride, padding=pooling.padding)
        x = ir_reference.execute(ops.MaxPool2d(window), x)
    if pooling is not None and pooling.kind is PoolingKind.UPSAMPLE:
        assert convolution is None and pooling.kernel == (2, 2)
        x = ir_reference.execute(ops.Upsample(Pair(2, 2)), x)
    if isinstance(run.activation, ops.PRelu):
        assert convolution is not None and convolution.weights.slopes is not None, "slopes travel with kernels"
        assert not convolution.weights.packed.palette
        return ir_reference.activation(ops.PRelu(convolution.weights.slopes), x)
    return x if run.activation is None else ir_reference.activation(run.activation, x)


__all__ = ["Constant", "ConvolutionKind", "as_output", "from_memory", "run", "run_legal", "to_memory"]
