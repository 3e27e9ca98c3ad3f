"""Writes the registers of single operations, as a driver does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.playing import Access, AccessKind
from cnn_convertor.devices.nvdla.register_table import registers

Values: TypeAlias = Mapping[str, int | Mapping[str, int]]
PRECISIONS = {"int8": 0, "int16": 1, "fp16": 2}
CONVOLUTION = ("CACC", "CMAC_A", "CMAC_B", "CSC", "CDMA")
DONE = {"SDP": 0, "CDP": 2, "PDP": 4, "RBK": 8, "CACC": 20}  # bits of S_INTR_STATUS for group 0


def up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass
class Program:
    """Accesses of an application that gives operations to both groups in turn."""

    configuration: Configuration
    accesses: list[Access] = field(default_factory=list)
    turns: Counter[str] = field(default_factory=Counter)

    def address(self, block: str, register: str) -> int:
        row = registers(initial=self.configuration.initial)[block, register]
        return self.configuration.bases[block] + row.offset

    def write(self, block: str, register: str, value: int | Mapping[str, int]) -> None:
        """value: of the whole register, or of its fields."""
        if not isinstance(value, int):
            row = registers()[block, register]
            places = {one.name: one for one in row.fields}
            whole = 0
            for name, part in value.items():
                place = places[name]
                whole |= (part & ((2 << (place.high - place.low)) - 1)) << place.low
            value = whole
        self.accesses.append(Access(AccessKind.WRITE, self.address(block, register), value & 0xFFFFFFFF))

    def read(self, block: str, register: str) -> None:
        self.accesses.append(Access(AccessKind.READ, self.address(block, register)))

    def wait(self, *blocks: str) -> None:
        """For the group of each that was enabled last."""
        bits = sum(1 << (DONE[block] + (self.turns[block] - 1) % 2) for block in blocks)
        self.accesses.append(Access(AccessKind.WAIT, value=bits))

    def set(self, block: str, values: Values) -> None:
        """Write registers of the group whose turn it is."""
        self.write(block, "S_POINTER", self.turns[block] % 2)
        for register, value in values.items():
            self.write(block, register, value)

    def enable(self, *blocks: str) -> None:
        for block in blocks:
            self.write(block, "S_POINTER", self.turns[block] % 2)
            self.turns[block] += 1
            self.write(block, "D_OP_ENABLE", 1)


@dataclass(frozen=True)
class Features:
    """A map in memory, packed unless strides are given. precision: of its elements."""

    address: int
    height: int
    width: int
    channels: int
    precision: str = "int8"
    line: int = 0
    surface: int = 0

    def line_stride(self, configuration: Configuration) -> int:
        return self.line or self.width * configuration.atom_bytes

    def surface_stride(self, configuration: Configuration) -> int:
        return self.surface or self.height * self.line_stride(configuration)

    def surfaces(self, configuration: Configuration) -> int:
        size = 1 if self.precision == "int8" else 2
        return -(-self.channels * size // configuration.atom_bytes)

    def size(self, configuration: Configuration) -> int:
        return self.surfaces(configuration) * self.surface_stride(configuration)


@dataclass(frozen=True)
class Convolution:
    """pads: left, right, top, bottom. weights: their address."""

    source: Features
    weights: int
    kernels: int
    rows: int = 1
    columns: int = 1
    strides: tuple[int, int] = (1, 1)  # x, y
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0
    truncate: int = 0

    @property
    def height(self) -> int:
        reach = (self.rows - 1) * self.dilations[1] + 1
        return (self.source.height + self.pads[2] + self.pads[3] - reach) // self.strides[1] + 1

    @property
    def width(self) -> int:
        reach = (self.columns - 1) * self.dilations[0] + 1
        return (self.source.width + self.pads[0] + self.pads[1] - reach) // self.strides[0] + 1

    @property
    def kernel_bytes(self) -> int:
        size = 1 if self.source.precision == "int8" else 2
        return self.source.channels * self.rows * self.columns * size

    def weight_bytes(self, configuration: Configuration) -> int:
        return up(self.kernels * self.kernel_bytes, configuration.cbuf_entry_bytes)

    def entries(self, configuration: Configuration) -> int:
        """Of the buffer, for a line."""
        atoms = self.source.surfaces(configuration)
        whole, rest = divmod(atoms, configuration.cbuf_entry_bytes // configuration.atom_bytes)
        of_entry = configuration.cbuf_entry_bytes // configuration.atom_bytes
        width = self.source.width
        return whole * width + (width if rest == 3 else -(-rest * width // of_entry))


def convolve(program: Program, c: Convolution, changed: Mapping[str, Values] | None = None) -> None:
    """Write the registers of a convolution. changed: block -> other values."""
    precision = PRECISIONS[c.source.precision]
    configuration = program.configuration
    line = c.source.line_stride(configuration)
    surface = c.source.surface_stride(configuration)
    out = {"DATAOUT_WIDTH": c.width - 1, "DATAOUT_HEIGHT": c.height - 1}
    size = {"DATAIN_WIDTH": c.source.width - 1, "DATAIN_HEIGHT": c.source.height - 1}
    extended = {"DATAIN_WIDTH_EXT": c.source.width - 1, "DATAIN_HEIGHT_EXT": c.source.height - 1}
    modes = {"PROC_PRECISION": precision}
    per_bank = configuration.cbuf_entries
    banks = -(-c.entries(configuration) * c.source.height // per_bank)
    weight_banks = -(-c.weight_bytes(configuration) // (per_bank * configuration.cbuf_entry_bytes))
    bank = {"DATA_BANK": banks - 1, "WEIGHT_BANK": min(weight_banks, configuration.cbuf_banks - banks) - 1}
    packed_line = int(line == c.source.width * configuration.atom_bytes)
    packed_surface = int(surface == c.source.width * configuration.atom_bytes * c.source.height)
    values: dict[str, dict[str, int | Mapping[str, int]]] = {
        "CACC": {
            "D_MISC_CFG": modes,
            "D_DATAOUT_SIZE_0": out,
            "D_DATAOUT_SIZE_1": c.kernels - 1,
            "D_BATCH_NUMBER": 0,
            "D_CLIP_CFG": c.truncate,
        },
        "CMAC_A": {"D_MISC_CFG": modes},
        "CMAC_B": {"D_MISC_CFG": modes},
        "CSC": {
            "D_MISC_CFG": {"IN_PRECISION": precision, "PROC_PRECISION": precision},
            "D_DATAIN_FORMAT": 0,
            "D_DATAIN_SIZE_EXT_0": extended,
            "D_DATAIN_SIZE_EXT_1": c.source.channels - 1,
            "D_BATCH_NUMBER": 0,
            "D_POST_Y_EXTENSION": 0,
            "D_ENTRY_PER_SLICE": c.entries(configuration) - 1,
            "D_WEIGHT_FORMAT": 0,
            "D_WEIGHT_SIZE_EXT_0": {"WEIGHT_WIDTH_EXT": c.columns - 1, "WEIGHT_HEIGHT_EXT": c.rows - 1},
            "D_WEIGHT_SIZE_EXT_1": {"WEIGHT_CHANNEL_EXT": c.source.channels - 1, "WEIGHT_KERNEL": c.kernels - 1},
            "D_WEIGHT_BYTES": c.weight_bytes(configuration),
            "D_DATAOUT_SIZE_0": out,
            "D_DATAOUT_SIZE_1": c.kernels - 1,
            "D_ATOMICS": c.width * c.height - 1,
            "D_RELEASE": c.source.height - 1,
            "D_CONV_STRIDE_EXT": {"CONV_X_STRIDE_EXT": c.strides[0] - 1, "CONV_Y_STRIDE_EXT": c.strides[1] - 1},
            "D_DILATION_EXT": {"X_DILATION_EXT": c.dilations[0] - 1, "Y_DILATION_EXT": c.dilations[1] - 1},
            "D_ZERO_PADDING": {"PAD_LEFT": c.pads[0], "PAD_TOP": c.pads[2]},
            "D_ZERO_PADDING_VALUE": c.pad_value,
            "D_BANK": bank,
        },
        "CDMA": {
            "D_MISC_CFG": {"IN_PRECISION": precision, "PROC_PRECISION": precision},
            "D_DATAIN_FORMAT": 0,
            "D_DATAIN_SIZE_0": size,
            "D_DATAIN_SIZE_1": c.source.channels - 1,
            "D_DATAIN_SIZE_EXT_0": extended,
            "D_DAIN_RAM_TYPE": 1,
            "D_DAIN_ADDR_HIGH_0": c.source.address >> 32,
            "D_DAIN_ADDR_LOW_0": c.source.address,
            "D_LINE_STRIDE": line,
            "D_SURF_STRIDE": surface,
            "D_DAIN_MAP": {"LINE_PACKED": packed_line, "SURF_PACKED": packed_surface},
            "D_BATCH_NUMBER": 0,
            "D_ENTRY_PER_SLICE": c.entries(configuration) - 1,
            "D_FETCH_GRAIN": 0,
            "D_WEIGHT_FORMAT": 0,
            "D_WEIGHT_SIZE_0": c.kernel_bytes - 1,
            "D_WEIGHT_SIZE_1": c.kernels - 1,
            "D_WEIGHT_RAM_TYPE": 1,
            "D_WEIGHT_ADDR_HIGH": c.weights >> 32,
            "D_WEIGHT_ADDR_LOW": c.weights,
            "D_WEIGHT_BYTES": c.weight_bytes(configuration),
            "D_MEAN_FORMAT": 0,
            "D_CVT_CFG": 0,
            "D_CONV_STRIDE": {"CONV_X_STRIDE": c.strides[0] - 1, "CONV_Y_STRIDE": c.strides[1] - 1},
            "D_ZERO_PADDING": dict(zip(("PAD_LEFT", "PAD_RIGHT", "PAD_TOP", "PAD_BOTTOM"), c.pads, strict=True)),
            "D_ZERO_PADDING_VALUE": c.pad_value,
            "D_BANK": bank,
        },
    }
    for block in CONVOLUTION:
        program.set(block, {**values[block], **(changed or {}).get(block, {})})
    program.enable(*CONVOLUTION)


def pixel_registers(
    configuration: Configuration, c: Convolution, number: int, line: int, second: int, rows: int
) -> dict[str, dict[str, int | Mapping[str, int]]]:
    """What `convolve` changes for an image. line: stride of its planes. second: address of one. rows: of the post-extension."""
    source = c.source
    size = 1 if source.precision == "int8" else 2
    width = source.width + c.pads[0] + c.pads[1]
    entries = -(-width * source.channels * size // configuration.cbuf_entry_bytes)
    bank = {"DATA_BANK": -(-entries * source.height // configuration.cbuf_entries) - 1, "WEIGHT_BANK": 1}
    precision_of = {3: "int16", 5: "fp16", 8: "fp16"}
    read = PRECISIONS[precision_of.get(number, "int8")]
    modes = {"IN_PRECISION": read, "PROC_PRECISION": PRECISIONS[source.precision]}
    return {
        "CSC": {
            "D_MISC_CFG": {**modes, "IN_PRECISION": PRECISIONS[source.precision]},
            "D_DATAIN_FORMAT": 1,
            "D_POST_Y_EXTENSION": rows.bit_length() - 1,
            "D_ENTRY_PER_SLICE": entries - 1,
            "D_WEIGHT_SIZE_EXT_0": {"WEIGHT_WIDTH_EXT": 0, "WEIGHT_HEIGHT_EXT": c.rows - 1},
            "D_WEIGHT_SIZE_EXT_1": {
                "WEIGHT_CHANNEL_EXT": c.columns * source.channels - 1,
                "WEIGHT_KERNEL": c.kernels - 1,
            },
            "D_BANK": bank,
        },
        "CDMA": {
            "D_MISC_CFG": modes,
            "D_DATAIN_FORMAT": {"DATAIN_FORMAT": 1, "PIXEL_FORMAT": number},
            "D_DAIN_ADDR_HIGH_1": 0,
            "D_DAIN_ADDR_LOW_1": second,
            "D_LINE_STRIDE": line,
            "D_LINE_UV_STRIDE": line,
            "D_SURF_STRIDE": 0,
            "D_DAIN_MAP": 0,
            "D_ENTRY_PER_SLICE": entries - 1,
            "D_BANK": bank,
        },
    }


def reshape(
    program: Program, mode: int, source: Features, output: Features, strides: tuple[int, int] = (1, 1), **changed: int
) -> None:
    """RUBIK. mode: 0 contracts, 1 splits to planes, 2 merges planes. changed: other values of its registers."""
    configuration = program.configuration
    size = 1 if source.precision == "int8" else 2
    plane_line = up(source.width * size, 32)
    values: dict[str, int | Mapping[str, int]] = {
        "D_MISC_CFG": {"RUBIK_MODE": mode, "IN_PRECISION": PRECISIONS[source.precision]},
        "D_DATAIN_SIZE_0": {"DATAIN_WIDTH": source.width - 1, "DATAIN_HEIGHT": source.height - 1},
        "D_DATAIN_SIZE_1": source.channels - 1,
        "D_DATAOUT_SIZE_1": output.channels - 1,
        "D_DECONV_STRIDE": {"DECONV_X_STRIDE": strides[0] - 1, "DECONV_Y_STRIDE": strides[1] - 1},
        "D_CONTRACT_STRIDE_0": output.surfaces(configuration) * source.surface_stride(configuration),
        "D_CONTRACT_STRIDE_1": strides[1] * output.line_stride(configuration),
    }
    for side, features, is_planes in (("IN", source, mode == 2), ("OUT", output, mode == 1)):
        line = plane_line if is_planes else features.line_stride(configuration)
        values[f"D_DA{side}_ADDR_HIGH"] = features.address >> 32
        values[f"D_DA{side}_ADDR_LOW"] = features.address
        values[f"D_DA{side}_LINE_STRIDE"] = line
        values[f"D_DA{side}_{'PLANAR' if is_planes else 'SURF'}_STRIDE"] = features.height * line
    program.set("RBK", {**values, **changed})
    program.enable("RBK")


UNIT_X = {"BYPASS": 0, "ALU_BYPASS": 1, "MUL_BYPASS": 1, "RELU_BYPASS": 1}
BYPASSED = {"SDP": {"D_DP_BS_CFG": 1, "D_DP_BN_CFG": 1, "D_DP_EW_CFG": 1}}


def process(
    program: Program,
    output: Features,
    *,
    source: Features | None = None,
    to_pdp: bool = False,
    processing: str = "",
    sdp: Values | None = None,
    rdma: Values | None = None,
) -> None:
    """SDP. source: None on the fly. sdp, rdma: registers besides those of the maps; rdma also enables SDP_RDMA."""
    configuration = program.configuration
    precision = PRECISIONS[processing or (source or output).precision]
    sizes = {"D_DATA_CUBE_WIDTH": output.width - 1, "D_DATA_CUBE_HEIGHT": output.height - 1}
    sizes["D_DATA_CUBE_CHANNEL"] = output.channels - 1
    flying = int(source is None)
    if source or rdma is not None:
        modes = {"FLYING_MODE": flying, "IN_PRECISION": precision, "PROC_PRECISION": precision}
        values: dict[str, int | Mapping[str, int]] = {**sizes}
        values["D_FEATURE_MODE_CFG"] = {**modes, "OUT_PRECISION": PRECISIONS[output.precision]}
        if source:
            values["D_SRC_DMA_CFG"] = 1
            values["D_SRC_BASE_ADDR_HIGH"] = source.address >> 32
            values["D_SRC_BASE_ADDR_LOW"] = source.address
            values["D_SRC_LINE_STRIDE"] = source.line_stride(configuration)
            values["D_SRC_SURFACE_STRIDE"] = source.surface_stride(configuration)
        program.set("SDP_RDMA", {**values, **(rdma or {})})
    program.set(
        "SDP",
        {
            **sizes,
            "D_DST_DMA_CFG": 1,
            "D_DST_BASE_ADDR_HIGH": output.address >> 32,
            "D_DST_BASE_ADDR_LOW": output.address,
            "D_DST_LINE_STRIDE": output.line_stride(configuration),
            "D_DST_SURFACE_STRIDE": output.surface_stride(configuration),
            **BYPASSED["SDP"],
            "D_FEATURE_MODE_CFG": {"FLYING_MODE": flying, "OUTPUT_DST": int(to_pdp)},
            "D_DATA_FORMAT": {"PROC_PRECISION": precision, "OUT_PRECISION": PRECISIONS[output.precision]},
            "D_CVT_OFFSET": 0,
            "D_CVT_SCALE": 1,
            "D_CVT_SHIFT": 0,
            **(sdp or {}),
        },
    )
    if source or rdma is not None:
        program.enable("SDP_RDMA")
    program.enable("SDP")


@dataclass(frozen=True)
class Pooling:
    """pads: left, right, top, bottom. method: 0 average, 1 maximum, 2 minimum."""

    source: Features
    method: int = 1
    kernel: tuple[int, int] = (1, 1)  # width, height
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    reciprocals: tuple[int, int] = (0x10000, 0x10000)
    pad_values: tuple[int, ...] = (0,) * 7

    @property
    def width(self) -> int:
        return (self.source.width + self.pads[0] + self.pads[1] - self.kernel[0]) // self.strides[0] + 1

    @property
    def height(self) -> int:
        return (self.source.height + self.pads[2] + self.pads[3] - self.kernel[1]) // self.strides[1] + 1


def pool(program: Program, p: Pooling, output: int, *, flying: bool = False, changed: Values | None = None) -> None:
    """PDP. output: the address. changed: other values of PDP's registers."""
    configuration = program.configuration
    source = p.source
    out = Features(output, p.height, p.width, source.channels, source.precision)
    precision = PRECISIONS[source.precision]
    if not flying:
        program.set(
            "PDP_RDMA",
            {
                "D_DATA_CUBE_IN_WIDTH": source.width - 1,
                "D_DATA_CUBE_IN_HEIGHT": source.height - 1,
                "D_DATA_CUBE_IN_CHANNEL": source.channels - 1,
                "D_SRC_RAM_CFG": 1,
                "D_SRC_BASE_ADDR_HIGH": source.address >> 32,
                "D_SRC_BASE_ADDR_LOW": source.address,
                "D_SRC_LINE_STRIDE": source.line_stride(configuration),
                "D_SRC_SURFACE_STRIDE": source.surface_stride(configuration),
                "D_DATA_FORMAT": precision,
                "D_OPERATION_MODE_CFG": 0,
                "D_POOLING_KERNEL_CFG": {"KERNEL_WIDTH": p.kernel[0] - 1, "KERNEL_STRIDE_WIDTH": p.strides[0] - 1},
                "D_POOLING_PADDING_CFG": p.pads[0],
            },
        )
    values: dict[str, int | Mapping[str, int]] = {
        "D_DATA_CUBE_IN_WIDTH": source.width - 1,
        "D_DATA_CUBE_IN_HEIGHT": source.height - 1,
        "D_DATA_CUBE_IN_CHANNEL": source.channels - 1,
        "D_DATA_CUBE_OUT_WIDTH": out.width - 1,
        "D_DATA_CUBE_OUT_HEIGHT": out.height - 1,
        "D_DATA_CUBE_OUT_CHANNEL": source.channels - 1,
        "D_OPERATION_MODE_CFG": {"POOLING_METHOD": p.method, "FLYING_MODE": int(not flying), "SPLIT_NUM": 0},
        "D_POOLING_KERNEL_CFG": {
            "KERNEL_WIDTH": p.kernel[0] - 1,
            "KERNEL_HEIGHT": p.kernel[1] - 1,
            "KERNEL_STRIDE_WIDTH": p.strides[0] - 1,
            "KERNEL_STRIDE_HEIGHT": p.strides[1] - 1,
        },
        "D_RECIP_KERNEL_WIDTH": p.reciprocals[0],
        "D_RECIP_KERNEL_HEIGHT": p.reciprocals[1],
        "D_POOLING_PADDING_CFG": dict(zip(("PAD_LEFT", "PAD_RIGHT", "PAD_TOP", "PAD_BOTTOM"), p.pads, strict=True)),
        "D_DST_RAM_CFG": 1,
        "D_DST_BASE_ADDR_HIGH": output >> 32,
        "D_DST_BASE_ADDR_LOW": output,
        "D_DST_LINE_STRIDE": out.line_stride(configuration),
        "D_DST_SURFACE_STRIDE": out.surface_stride(configuration),
        "D_DATA_FORMAT": precision,
    }
    for number, value in enumerate(p.pad_values, 1):
        values[f"D_POOLING_PADDING_VALUE_{number}_CFG"] = value
    program.set("PDP", {**values, **(changed or {})})
    if not flying:
        program.enable("PDP_RDMA")
    program.enable("PDP")


def write_tables(program: Program, block: str, tables: tuple[list[int], list[int]], settings: Values) -> None:
    """Of SDP or CDP. tables: LE and LO."""
    for number, entries in enumerate(tables):
        program.write(block, "S_LUT_ACCESS_CFG", {"LUT_ADDR": 0, "LUT_TABLE_ID": number, "LUT_ACCESS_TYPE": 1})
        for entry in entries:
            program.write(block, "S_LUT_ACCESS_DATA", entry & 0xFFFF)
    for register, value in settings.items():
        program.write(block, register, value)


def respond(program: Program, source: Features, output: int, cdp: Values) -> None:
    """CDP, without its tables. cdp: registers besides those of the maps."""
    configuration = program.configuration
    strides = (source.line_stride(configuration), source.surface_stride(configuration))
    precision = PRECISIONS[source.precision]
    program.set(
        "CDP_RDMA",
        {
            "D_DATA_CUBE_WIDTH": source.width - 1,
            "D_DATA_CUBE_HEIGHT": source.height - 1,
            "D_DATA_CUBE_CHANNEL": source.channels - 1,
            "D_SRC_DMA_CFG": 1,
            "D_SRC_BASE_ADDR_HIGH": source.address >> 32,
            "D_SRC_BASE_ADDR_LOW": source.address,
            "D_SRC_LINE_STRIDE": strides[0],
            "D_SRC_SURFACE_STRIDE": strides[1],
            "D_DATA_FORMAT": precision,
        },
    )
    program.set(
        "CDP",
        {
            "D_FUNC_BYPASS": 0,
            "D_DST_DMA_CFG": 1,
            "D_DST_BASE_ADDR_HIGH": output >> 32,
            "D_DST_BASE_ADDR_LOW": output,
            "D_DST_LINE_STRIDE": strides[0],
            "D_DST_SURFACE_STRIDE": strides[1],
            "D_DATA_FORMAT": precision,
            **cdp,
        },
    )
    program.enable("CDP_RDMA", "CDP")
