"""Checks a loadable's descriptors against the limits of a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolving import entries_of_line
from cnn_convertor.devices.nvdla.firmware import conv, pdp, sdp
from cnn_convertor.devices.nvdla.firmware.bdma_rubik import CONTRACT, MERGE, UNIT
from cnn_convertor.devices.nvdla.firmware.descriptors import (
    BdmaSurfaces,
    ConvOperation,
    ConvSurfaces,
    Cube,
    Engine,
    MemoryKind,
)
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareOperation
from cnn_convertor.devices.nvdla.firmware.ranges import LARGEST, PRECISIONS, RANGES, TRANSFER_RANGES
from cnn_convertor.devices.nvdla.loadable.contents import LoadableTask
from cnn_convertor.layouts.nvdla.pixels import NAMES, pixel_format


class AuditFinding(NamedTuple):
    """code: of the message. reason: a sentence without its end, about the operation."""

    code: str
    operation: int
    engine: Engine
    reason: str


def audited(
    task: LoadableTask, operations: tuple[FirmwareOperation, ...], configuration: Configuration
) -> Iterator[AuditFinding]:
    """What the configuration cannot do with a task's operations, in their order."""
    for number, operation in enumerate(operations):
        check = _Check(task, operation, configuration)
        for code, reason in check.reasons():
            yield AuditFinding(code, number, operation.engine, reason)


def _get(value: Any, path: str) -> int:
    for name in path.split("."):
        value = getattr(value, name)
    return int(value)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


class _Check:
    """Checks of one operation: (code, reason)."""

    def __init__(self, task: LoadableTask, operation: FirmwareOperation, configuration: Configuration) -> None:
        self._task = task
        self._operation = operation
        self._configuration = configuration

    def reasons(self) -> Iterator[tuple[str, str]]:
        lacking = list(self._lacking())
        for reason in lacking:
            yield "DV918", reason
        for path, (least, most) in RANGES[self._operation.engine].items():
            value = _get(self._operation.op, path)
            if not least <= value <= most:
                yield "DV919", f"{path} is {value}; it is {least} to {most}"
        if isinstance(self._operation.surfaces, BdmaSurfaces):
            yield from self._transfers(self._operation.surfaces)
            return
        for name, cube in self._cubes().items():
            yield from self._cube(name, cube)
        if lacking:
            return  # what follows divides by figures of a precision that exists
        match self._operation.engine:
            case Engine.CONV:
                yield from self._convolution(self._operation.op, self._operation.surfaces)
            case Engine.PDP:
                yield from self._pooling()
            case Engine.SDP:
                yield from self._same_size()
                yield from self._operands()
            case Engine.CDP:
                yield from self._same_size()
                if self._operation.op.local_size % 2 == 0:
                    yield "DV919", f"local_size is {self._operation.op.local_size}; it is 3, 5, 7 or 9"

    def _lacking(self) -> Iterator[str]:
        """What the operation needs and the configuration lacks."""
        op, engines, name = self._operation.op, self._configuration.engines, self._configuration.name
        needed: dict[str, bool] = {}
        match self._operation.engine:
            case Engine.BDMA:
                needed = {"BDMA": True}
            case Engine.RUBIK:
                needed = {"RUBIK": True}
            case Engine.CONV:
                needed = {
                    "WINOGRAD": op.conv_mode == conv.WINOGRAD,
                    "COMPRESSION": op.weight_format == conv.COMPRESSED,
                    "BATCH": op.batch > 1,
                    "POST_EXTENSION": op.post_extension > 0,
                }
            case Engine.SDP:
                needed = {"EW": bool(op.y_op.enable), "LUT": bool(op.y_op.enable) and op.y_op.act == sdp.TABLES}
        for feature, is_needed in needed.items():
            if is_needed and feature not in engines:
                yield f"{name} has no {feature}"
        for field in ("src_precision", "dst_precision", "in_precision", "out_precision", "precision"):
            number = getattr(op, field, None)
            if number is None:
                continue
            precision = PRECISIONS[number] if number < len(PRECISIONS) else str(number)
            if precision not in self._configuration.precisions:
                yield f"{field} is {precision}, which {name} lacks"

    def _cubes(self) -> dict[str, Cube]:
        surfaces = self._operation.surfaces
        names = [name for name in surfaces.__dataclass_fields__ if name.endswith("_data")]
        return {name: getattr(surfaces, name) for name in names if self._is_used(name)}

    def _is_used(self, name: str) -> bool:
        """Whether an operation reads or writes a cube."""
        op = self._operation.op
        if name in ("x1_data", "x2_data", "y_data"):
            unit = getattr(op, name.replace("_data", "_op"))
            return bool(unit.enable and unit.mode)
        if name in ("wmb_data", "wgs_data"):
            return bool(op.weight_format == conv.COMPRESSED)
        return True

    def _cube(self, name: str, cube: Cube) -> Iterator[tuple[str, str]]:
        if name not in ("wmb_data", "wgs_data"):
            for side in ("width", "height", "channel"):
                value = getattr(cube, side)
                if not 1 <= value <= LARGEST:
                    yield "DV919", f"{name}.{side} is {value}; it is 1 to {LARGEST}"
        if cube.type == MemoryKind.HW:
            return
        if cube.type not in list(MemoryKind):
            yield "DV919", f"{name}.type is {cube.type}; it is 0 (DRAM), 1 (SRAM) or 2 (another engine)"
            return
        if cube.type == MemoryKind.SRAM and "CVIF" not in self._configuration.engines:
            yield "DV918", f"{name} is in SRAM, and {self._configuration.name} has no CVIF"
        yield from self._place(name, cube)

    def _place(self, name: str, cube: Cube) -> Iterator[tuple[str, str]]:
        """Of a cube in memory."""
        if not 0 <= cube.address < len(self._task.spots):
            yield "DV921", f"{name} is at address {cube.address}, which the task does not have"
            return
        spot = self._task.spots[cube.address]
        atom = self._configuration.atom_bytes
        places = {"address": spot.address + cube.offset}
        if name not in ("weight_data", "wmb_data", "wgs_data"):
            places |= {"line_stride": cube.line_stride, "surf_stride": cube.surf_stride}
        for field, value in places.items():
            if value % atom:
                yield "DV920", f"{name}.{field} is {value:#x}, not a multiple of {atom}"
        end = cube.offset + max(cube.size, self._extent(name, cube))
        if end > spot.size:
            yield "DV921", f"{name} ends after {end:,} bytes, but its memory has {spot.size:,} from its address on"
        if self._element(name) and cube.line_stride < cube.width * atom and cube.height > 1:
            yield "DV922", f"{name}.line_stride is {cube.line_stride}; a line has {cube.width * atom} bytes"

    def _element(self, name: str) -> int:
        """Bytes of an element of feature data; 0 for other cubes."""
        op = self._operation.op
        is_output = name == "dst_data"
        match self._operation.engine:
            case Engine.CONV if name == "src_data" and op.data_format >= conv.FEATURE:
                precision = op.in_precision
            case Engine.SDP if name in ("src_data", "dst_data"):
                precision = op.dst_precision if is_output else op.src_precision
            case Engine.PDP:
                precision = op.precision
            case Engine.CDP:
                precision = op.in_precision
            case Engine.RUBIK if op.mode == CONTRACT or is_output == (op.mode == MERGE):
                precision = op.precision
            case _:
                return 0
        return 1 if precision == 0 else 2

    def _extent(self, name: str, cube: Cube) -> int:
        """Bytes from the begin of feature data to its end."""
        element = self._element(name)
        if not element:
            return 0
        atom = self._configuration.atom_bytes
        surfaces = -(-cube.channel * element // atom)
        return (surfaces - 1) * cube.surf_stride + (cube.height - 1) * cube.line_stride + cube.width * atom

    def _transfers(self, surfaces: BdmaSurfaces) -> Iterator[tuple[str, str]]:
        for number, transfer in enumerate(surfaces.transfers[: surfaces.num_transfers]):
            for field, (least, most) in TRANSFER_RANGES.items():
                value = getattr(transfer, field)
                if not least <= value <= most:
                    yield "DV919", f"transfer {number}: {field} is {value}; it is {least} to {most}"
            for field in ("line_size", "source_line", "destination_line", "source_surface", "destination_surface"):
                if getattr(transfer, field) % UNIT:
                    yield "DV920", f"transfer {number}: {field} is {getattr(transfer, field)}, not a multiple of {UNIT}"
            for side in ("source", "destination"):
                yield from self._transfer_side(f"transfer {number}: its {side}", transfer, side)

    def _transfer_side(self, what: str, transfer: Any, side: str) -> Iterator[tuple[str, str]]:
        address = getattr(transfer, f"{side}_address")
        if not 0 <= address < len(self._task.spots):
            yield "DV921", f"{what} is at address {address}, which the task does not have"
            return
        lines = (transfer.line_repeat - 1) * getattr(transfer, f"{side}_line")
        end = (transfer.surface_repeat - 1) * getattr(transfer, f"{side}_surface") + lines + transfer.line_size
        room = self._task.spots[address].size
        if end > room:
            yield "DV921", f"{what} has {end:,} bytes, but its memory has {room:,} from there"

    def _convolution(self, op: ConvOperation, surfaces: ConvSurfaces) -> Iterator[tuple[str, str]]:
        configuration = self._configuration
        banks = configuration.cbuf_banks
        if min(op.data_bank, op.weight_bank) < 1 or op.data_bank + op.weight_bank > banks:
            split = f"{op.data_bank} banks for data and {op.weight_bank} for weights"
            yield "DV923", f"{split} are not in the {banks} banks of the convolution buffer"
        if op.conv_mode == conv.WINOGRAD:
            return
        source, output = surfaces.src_data, surfaces.dst_data
        kernel_width = op.kernel_width_csc
        if op.data_format < conv.FEATURE:
            kernel_width = op.kernel_channel_csc // max(op.input_channel_csc, 1)
        sides = (
            ("width", source.width + op.pad_x_left + op.pad_x_right, kernel_width, op.dilation_x, op.conv_stride_x),
            (
                "height",
                source.height + op.pad_y_top + op.pad_y_bottom,
                op.kernel_height_csc,
                op.dilation_y,
                op.conv_stride_y,
            ),
        )
        for side, padded, kernel, dilation, stride in sides:
            computed = (padded - (kernel - 1) * dilation - 1) // max(stride, 1) + 1
            if getattr(output, side) != computed:
                yield "DV922", f"dst_data.{side} is {getattr(output, side)}; its input gives {computed}"
        entries = self._entries(op, source)
        if op.entry_per_slice != entries:
            yield "DV922", f"entry_per_slice is {op.entry_per_slice}; a line of its input takes {entries}"
        room = op.data_bank * configuration.cbuf_entries
        if entries * source.height > room:
            yield (
                "DV923",
                f"its {source.height} lines take {entries * source.height:,} entries; the data banks have {room:,}",
            )
        if op.weight_format != conv.COMPRESSED:
            yield from self._weights(op, surfaces)

    def _entries(self, op: ConvOperation, source: Cube) -> int:
        """Entries of the convolution buffer for a line of the input."""
        element = 1 if op.out_precision == 0 else 2
        if op.data_format >= conv.FEATURE:
            return entries_of_line(source.width, source.channel * element, self._configuration)
        width = op.pad_x_left + source.width + op.pad_x_right
        return -(-width * _components(op.data_format) * element // self._configuration.cbuf_entry_bytes)

    def _weights(self, op: ConvOperation, surfaces: ConvSurfaces) -> Iterator[tuple[str, str]]:
        configuration = self._configuration
        element = 1 if op.out_precision == 0 else 2
        kernel = op.kernel_width_csc * op.kernel_height_csc * op.kernel_channel_csc * element
        if op.bytes_per_kernel != kernel:
            yield "DV922", f"bytes_per_kernel is {op.bytes_per_kernel}; its sizes give {kernel}"
        kernels = surfaces.dst_data.channel
        least = _up(kernel * kernels, configuration.cbuf_entry_bytes)
        size = surfaces.weight_data.size
        if size < least or size % configuration.cbuf_entry_bytes:
            multiple = f"a multiple of {configuration.cbuf_entry_bytes} from {least:,} on"
            yield "DV922", f"weight_data.size is {size:,}; {kernels} kernels need {multiple}"
        group = min(kernels, configuration.atomic_k[PRECISIONS[op.out_precision]])
        needed = _up(group * kernel, configuration.cbuf_entry_bytes)
        room = op.weight_bank * configuration.cbuf_entries * configuration.cbuf_entry_bytes
        if needed > room:
            yield "DV923", f"a group of {group} kernels has {needed:,} bytes; the weight banks have {room:,}"

    def _same_size(self) -> Iterator[tuple[str, str]]:
        """Of engines that change no sizes."""
        source, output = self._operation.surfaces.src_data, self._operation.surfaces.dst_data
        for side in ("width", "height", "channel"):
            if getattr(source, side) != getattr(output, side):
                yield "DV922", f"dst_data.{side} is {getattr(output, side)}; its input has {getattr(source, side)}"

    def _operands(self) -> Iterator[tuple[str, str]]:
        """Operands of a map of one pixel lie without gaps: the hardware reads them at that distance."""
        op, surfaces = self._operation.op, self._operation.surfaces
        if (surfaces.src_data.width, surfaces.src_data.height) != (1, 1):
            return
        elements = self._configuration.atom_bytes // (1 if op.src_precision == 0 else 2)
        for name in ("x1", "x2", "y"):
            unit, cube = getattr(op, f"{name}_op"), getattr(surfaces, f"{name}_data")
            if unit.enable and unit.mode:
                values = 2 if unit.type in sdp.ADD & sdp.MULTIPLY else 1
                packed = elements * values * (1 if unit.precision == 0 else 2)
                if cube.surf_stride != packed:
                    yield "DV922", f"{name}_data.surf_stride is {cube.surf_stride}; for one pixel it is {packed}"

    def _pooling(self) -> Iterator[tuple[str, str]]:
        op, surfaces = self._operation.op, self._operation.surfaces
        source, output = surfaces.src_data, surfaces.dst_data
        sides = (
            ("width", op.pad_left, op.pad_right, op.pool_width + 1, op.stride_x),
            ("height", op.pad_top, op.pad_bottom, op.pool_height + 1, op.stride_y),
        )
        for side, before, after, kernel, stride in sides:
            if max(before, after) >= kernel:
                yield "DV919", f"{side}: its padding of {before} and {after} is not smaller than its kernel of {kernel}"
            computed = (getattr(source, side) + before + after - kernel) // max(stride, 1) + 1
            if getattr(output, side) != computed:
                yield "DV922", f"dst_data.{side} is {getattr(output, side)}; its input gives {computed}"
        if source.channel != output.channel:
            yield "DV922", f"it reads {source.channel} channels and writes {output.channel}"
        if op.split_num > 1 and pdp.is_flying(surfaces):
            yield "DV922", f"it is split into {op.split_num} pieces, which needs an input from memory"


def _components(data_format: int) -> int:
    return pixel_format(NAMES[data_format]).channels
