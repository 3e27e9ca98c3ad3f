"""Lowers steps to a program: every map has its offset, every operation its descriptors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.devices.cpu_functions import arrays_at
from cnn_convertor.devices.nvdla.chains import Chain, owner, spreading_of
from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolution_descriptors import conv_operation
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, bands_of
from cnn_convertor.devices.nvdla.cubes import Lines, Place, channels_of, flying_cube, packed_cube, rows_of
from cnn_convertor.devices.nvdla.engine_descriptors import (
    CHANNEL,
    mode_of,
    pool_operation,
    response_operation,
    sdp_operation,
    sdp_surfaces,
    spreading_operation,
)
from cnn_convertor.devices.nvdla.firmware.descriptors import CdpSurfaces, Cube, Engine, PdpSurfaces, RubikSurfaces
from cnn_convertor.devices.nvdla.function_tables import (
    LINES,
    RANGE,
    RANGE_OF_SQUARES,
    FittedTable,
    response_table,
    table_of,
)
from cnn_convertor.devices.nvdla.named_functions import ExactFunction, NamedTable
from cnn_convertor.devices.nvdla.network_program import (
    FIRST_EXTERNAL,
    IO,
    WEIGHTS,
    NvdlaLayer,
    NvdlaProgram,
    NvdlaRun,
    StoredStream,
)
from cnn_convertor.devices.nvdla.operations import HardwareOperation
from cnn_convertor.devices.nvdla.placement import ChainSchedule, element_type, layout_of_map
from cnn_convertor.devices.nvdla.point_units import MapOperand, Operand, PointUnits, assigned
from cnn_convertor.devices.nvdla.pooling import pool_plan
from cnn_convertor.devices.nvdla.sampled_ranges import SampledRange
from cnn_convertor.devices.nvdla.weight_packing import StoredArrays, StoredKernels, StoredOperands, aligned
from cnn_convertor.devices.program import CustomCall, LayerType, Tensor
from cnn_convertor.devices.words import describe, words_of
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.layouts.nvdla.precision import Precision

FP16: Final = Precision.FP16
_OPERAND: Final = "constant"  # in messages


def lower(
    graph: Graph,
    schedule: ChainSchedule,
    *,
    name: str,
    original: Graph,
    configuration: Configuration,
    ranges: Mapping[str, SampledRange],
) -> NvdlaProgram:
    """The program of a legal graph. original: the user's graph, for the names of the outputs. ranges: by node, where samples gave some."""
    lowering = _Lowering(graph, schedule, configuration, ranges)
    layers = [lowering.layer(step) for step in schedule.steps]
    written = tuple(lowering.written_by[owner(graph, output).name] for output in graph.outputs)
    for index in written:
        layers[index] = replace(layers[index], is_output=True)
    names = original.output_names
    return NvdlaProgram(
        name=name,
        layers=tuple(layers),
        inputs=tuple((node.name, lowering.tensor(node.name)) for node in graph.inputs),
        outputs=written,
        results=tuple((each, lowering.tensor(output)) for each, output in zip(names, graph.outputs, strict=True)),
        plan=schedule.places.plan,
        transposed=False,
    )


class _Operands(NamedTuple):
    """What the units of SDP read for a step. units: name -> the cube of the whole map's operands.

    stored: what of it the weight buffer holds.
    """

    units: dict[str, Cube]
    stored: StoredStream | None


class _Lowering:
    """The steps one after the other, and the places in the weight buffer that they take."""

    def __init__(
        self, graph: Graph, schedule: ChainSchedule, configuration: Configuration, ranges: Mapping[str, SampledRange]
    ) -> None:
        self.graph = graph
        self._ranges = ranges
        self.configuration = configuration
        self.written_by: dict[str, int] = {}
        self._places = schedule.places
        self._next_weight = 0
        self._next_array = 0
        outputs = [owner(graph, output).name for output in graph.outputs]
        external = dict.fromkeys([*(node.name for node in graph.inputs), *outputs])
        self._memories = {each: FIRST_EXTERNAL + number for number, each in enumerate(external)}

    def tensor(self, name: str) -> Tensor:
        kind = element_type(self.graph, name)
        return Tensor(self.graph.shape(name), kind, self._places.offsets[name], layout_of_map(self.graph, name))

    def layer(self, step: Chain) -> NvdlaLayer:
        op = step.nodes[-1].op
        runs = tuple(self._runs(step)) if step.type is LayerType.CONV else ()
        cpu = op.op if isinstance(op, ops.OnCpu) else None
        sources = tuple(self.written_by.get(owner(self.graph, read).name) for read in step.reads)
        self.written_by[step.writes] = len(self.written_by)
        arrays, self._next_array = arrays_at(op, self._next_array, step.nodes[-1].where)
        return NvdlaLayer(
            name=step.writes,
            type=step.type,
            inputs=tuple(map(self.tensor, step.reads)),
            output=self.tensor(step.writes),
            origins=step.origins,
            runs=runs,
            sources=sources,
            custom=CustomCall(op.type, op.parameters) if isinstance(op, ops.Custom) else None,
            cpu=cpu,
            constants=arrays,
            reason="; ".join(dict.fromkeys(node.reason for node in step.nodes if node.reason)),
        )

    def _cube(self, name: str) -> Cube:
        """A map in memory: by its place in the I/O buffer, or in a memory of its own where the application writes or reads it."""
        home = self._places.homes[name]
        place = Place(IO, self._places.offsets[name])
        if home.name in self._memories:
            place = Place(self._memories[home.name], home.offset)
        return packed_cube(self.graph.shape(name), place, self.configuration, FP16)

    # --- the device ---

    def _runs(self, step: Chain) -> Iterator[NvdlaRun]:
        """The operations of a step, each right before the one that it hands its map on to."""
        first = step.first
        if first is not None and isinstance(first.op, ops.LocalResponseNorm):
            yield self._response(step, first.op)
            return
        if first is not None and isinstance(first.op, ops.TransposeReshape):
            yield self._spreading(step, first)
            return
        if first is not None:
            yield from self._convolution(step, first)
        elif step.functions:
            shape = self.graph.shape(step.flowing)
            rows = Lines(0, shape.height)
            yield self._points(step, self._operands(step), self._cube(step.flowing), shape, rows)
        if step.pool is not None:
            is_alone = len(step.nodes) == 1
            shape = self.graph.shape(step.pool.inputs[0])
            yield self._pool(step, step.pool, self._cube(step.flowing) if is_alone else flying_cube(shape), shape)

    def _response(self, step: Chain, op: ops.LocalResponseNorm) -> NvdlaRun:

        def table(low: float, high: float) -> FittedTable | None:
            return response_table(op.size, op.alpha, op.beta, op.bias, low, high)

        fitted = self._fitted(step, table, RANGE_OF_SQUARES)
        surfaces = CdpSurfaces(self._cube(step.flowing), self._cube(step.writes))
        operation = HardwareOperation(Engine.CDP, response_operation(op), surfaces, fitted.lut)
        shape = self.graph.shape(step.writes)
        function = ops.Power(-op.beta, op.alpha / op.size, op.bias)
        does = f"{words_of(type(op))}{_of_range(fitted)}"
        return NvdlaRun(operation, shape, shape, step.origins, does, table=_named(function, fitted))

    def _fitted(
        self, step: Chain, table: Callable[[float, float], FittedTable | None], usual: tuple[float, float]
    ) -> FittedTable:
        """The table of a step's function: for the range on samples, else for the usual one."""
        fitted = None
        for node in step.nodes:
            if node.name in self._ranges:
                _, low, high = self._ranges[node.name]
                fitted = table(low, high)
        fitted = fitted or table(*usual)
        assert fitted is not None, "a function without a table is the CPU's"
        return fitted

    def _spreading(self, step: Chain, node: Node) -> NvdlaRun:
        stride = spreading_of(node)
        assert stride is not None
        surfaces = RubikSurfaces(self._cube(step.flowing), self._cube(step.writes))
        operation = HardwareOperation(Engine.RUBIK, spreading_operation(stride), surfaces)
        read, written = self.graph.shape(step.flowing), self.graph.shape(step.writes)
        return NvdlaRun(operation, read, written, step.origins, f"channels become {stride} pixels")

    def _convolution(self, step: Chain, node: Node) -> Iterator[NvdlaRun]:
        """Each part of the output by itself: a convolution, and the functions of its elements."""
        op = node.op
        assert isinstance(op, ops.Conv2d)
        source = self._cube(step.flowing)
        size = ConvolutionSize(self.graph.shape(step.flowing), op.weight.shape[0], op.window)
        planned = bands_of(size, self.configuration, FP16)
        kernels = StoredKernels(self._next_weight, op.weight, node.where)
        place = Place(WEIGHTS, kernels.offset)
        weights: StoredStream | None = self._stored(kernels)
        operands = self._operands(step)
        for band in planned.bands:
            operation, surfaces = conv_operation(
                size,
                band,
                planned,
                source=source,
                weights=place,
                configuration=self.configuration,
                precision=FP16,
            )
            read = size.input._replace(height=band.lines.number)
            written = Shape(band.rows.number, size.output.width, band.kernels)
            conv = HardwareOperation(Engine.CONV, operation, surfaces)
            yield NvdlaRun(conv, read, written, step.origins, describe(op), weights, planned.reason)
            yield self._points(step, operands, flying_cube(written), written, band.rows, band.kernel)
            weights = None
            operands = operands._replace(stored=None)

    def _points(
        self, step: Chain, operands: _Operands, source: Cube, shape: Shape, rows: Lines, channel: int = 0
    ) -> NvdlaRun:
        """The operation of SDP for a part of a map, which it writes to memory or hands on to the pool.

        rows, channel: of the part, and its first one.
        """
        units = assigned(step.functions)
        assert units is not None
        cubes = {name: self._part(cube, shape, rows, channel) for name, cube in operands.units.items()}
        output = (
            flying_cube(shape) if step.pool is not None else self._part(self._cube(step.writes), shape, rows, channel)
        )
        surfaces = sdp_surfaces(source, cubes, output)
        operation = HardwareOperation(Engine.SDP, sdp_operation(units), surfaces)
        does = _words(units)
        function = None if units.y.end is None else units.y.end.function
        table = None
        if function is not None:
            fitted = self._fitted(step, partial(table_of, function), RANGE)
            operation = operation._replace(lut=fitted.lut)
            table = _named(function, fitted)
            does += _of_range(fitted)
        return NvdlaRun(operation, shape, shape, step.origins, does, operands.stored, table=table)

    def _part(self, cube: Cube, shape: Shape, rows: Lines, channel: int) -> Cube:
        """What an operation reads or writes of a whole map. Numbers for each channel have one row."""
        part = channels_of(cube, channel, shape.channels, self.configuration, FP16)
        return part if cube.height == 1 else rows_of(part, rows, self.configuration, FP16)

    def _operands(self, step: Chain) -> _Operands:
        units = assigned(step.functions)
        assert units is not None
        channels = self.graph.shape(step.nodes[0].name if step.first is not None else step.flowing).channels
        where = step.nodes[-1].where if step.first is None else step.first.where
        cubes: dict[str, Cube] = {}
        arrays: list[StoredArrays] = []
        at = self._next_weight
        for name, setting in units._asdict().items():
            match setting.operands:
                case (MapOperand(name=operand),):
                    cubes[name] = self._cube(operand)
                case _ if mode_of(setting) == CHANNEL:
                    constants = tuple((_OPERAND, _constant(operand, channels)) for operand in setting.operands)
                    array = StoredOperands(at, constants, where)
                    arrays.append(array)
                    surface = self.configuration.atom_bytes * len(constants)
                    cube = packed_cube(Shape(1, 1, channels), Place(WEIGHTS, at), self.configuration, FP16)
                    cubes[name] = replace(cube, line_stride=surface, surf_stride=surface)
                    at = aligned(at + array.nbytes(self.configuration))
        return _Operands(cubes, self._stored(*arrays) if arrays else None)

    def _stored(self, *arrays: StoredArrays) -> StoredStream:
        """A stream of the weight buffer: arrays one after the other from its next place on."""
        start = arrays[0].offset
        last = arrays[-1]
        self._next_weight = aligned(last.offset + last.nbytes(self.configuration))
        return StoredStream(start, self._next_weight - start, arrays)

    def _pool(self, step: Chain, node: Node, source: Cube, shape: Shape) -> NvdlaRun:
        op = node.op
        assert isinstance(op, ops.MaxPool2d | ops.AveragePool2d)
        plan = pool_plan(op, shape)
        surfaces = PdpSurfaces(replace(source, width=plan.width, height=plan.height), self._cube(step.writes))
        operation = HardwareOperation(Engine.PDP, pool_operation(op, plan), surfaces)
        return NvdlaRun(operation, shape, self.graph.shape(step.writes), step.origins, describe(op))


def _constant(operand: Operand, channels: int) -> Constant:
    if isinstance(operand, float):
        return Constant.of(np.full(channels, operand, np.float32))
    assert isinstance(operand, Constant)
    return operand


def _named(function: ExactFunction, fitted: FittedTable) -> NamedTable:
    """At a jump, values between two halves can lie on either side."""
    error = inf if isinstance(function, ops.Threshold) else fitted.largest_error
    return NamedTable(function, fitted.low, fitted.high, error)


def _of_range(table: FittedTable) -> str:
    """In words. A table of lines holds every value."""
    return "" if table.form == LINES else f" for {table.low:g} to {table.high:g}"


def _words(units: PointUnits) -> str:
    """What SDP does, in its order."""
    words = []
    for name, setting in units._asdict().items():
        slots = (setting.multiplier, setting.alu) if name == "y" else (setting.alu, setting.multiplier)
        for function in (*slots, setting.end):
            if function is not None:
                kind = function.function
                words.append(function.action.value if kind is None else words_of(type(kind)))
    return ", ".join(words) or "copy"
