"""What the twin refuses: each limit from both sides, with the name of the register or field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from cnn_convertor.devices.nvdla.configurations import NV_FULL, NV_SMALL, Configuration
from cnn_convertor.devices.nvdla.playing import Access, AccessKind, play
from cnn_convertor.devices.nvdla.register_table import registers
from devices.nvdla import programs
from devices.nvdla.programs import Convolution, Features, Pooling, Program
from devices.nvdla.test_arbitrary_registers import BETWEEN, MEMORY, OUTPUT, SOURCE, WEIGHTS

Registers = Mapping[str, int | Mapping[str, int]]


def memory() -> dict[int, bytes]:
    return {address: bytes(size) for address, size in MEMORY.items()}


def refusal(program: Program) -> str:
    return play(program.configuration, memory(), program.accesses).refusal


def convolution(changed: Mapping[str, Registers], configuration: Configuration = NV_SMALL) -> Program:
    """Of 5 x 6 x 16, with kernels of 3 x 3 and padding of 1."""
    c = Convolution(Features(SOURCE, 5, 6, 16), WEIGHTS, 8, 3, 3, pads=(1, 1, 1, 1))
    program = Program(configuration)
    programs.process(program, Features(OUTPUT, 5, 6, 8))
    programs.convolve(program, c, changed)
    program.wait("SDP")
    return program


def elements(sdp: Registers, rdma: Registers | None = None, configuration: Configuration = NV_SMALL) -> Program:
    source = Features(SOURCE, 4, 5, 8)
    program = Program(configuration)
    programs.process(program, Features(OUTPUT, 4, 5, 8), source=source, sdp=sdp, rdma=rdma)
    program.wait("SDP")
    return program


def pooling(changed: Registers, p: Pooling | None = None, output: int = OUTPUT) -> Program:
    program = Program(NV_SMALL)
    programs.pool(program, p or Pooling(Features(SOURCE, 6, 6, 8), 1, (2, 2)), output, changed=changed)
    program.wait("PDP")
    return program


def response(cdp: Registers, tables: tuple[int, int] = (65, 257), offset: int = 0) -> Program:
    program = Program(NV_SMALL)
    settings: dict[str, int | Mapping[str, int]] = {"S_LUT_CFG": 0, "S_LUT_INFO": {"LUT_LE_INDEX_OFFSET": offset}}
    for table in ("LE", "LO"):
        for name in ("START_LOW", "START_HIGH", "END_LOW", "END_HIGH", "SLOPE_SCALE", "SLOPE_SHIFT"):
            settings[f"S_LUT_{table}_{name}"] = 0
    programs.write_tables(program, "CDP", ([0] * tables[0], [0] * tables[1]), settings)
    converters = {f"D_DAT{side}_{name}": 1 for side in ("IN", "OUT") for name in ("OFFSET", "SCALE", "SHIFTER")}
    programs.respond(program, Features(SOURCE, 2, 2, 8), OUTPUT, {"D_LRN_CFG": 0, **converters, **cdp})
    program.wait("CDP")
    return program


def copy(**changed: int) -> Program:
    program = Program(NV_FULL)
    values = {
        "SRC_ADDR_LOW": SOURCE,
        "SRC_ADDR_HIGH": 0,
        "DST_ADDR_LOW": OUTPUT,
        "DST_ADDR_HIGH": 0,
        "LINE": 1,
        "CMD": 3,
    }
    values |= {"LINE_REPEAT": 3, "SRC_LINE": 64, "DST_LINE": 64, "SURF_REPEAT": 0, "SRC_SURF": 0, "DST_SURF": 0}
    for name, value in {**values, **changed, "OP": 1, "LAUNCH0": 1}.items():
        program.write("BDMA", f"CFG_{name}", value)
    return program


def copies(count: int) -> Program:
    """Of one line each, before one launch."""
    program = copy()
    one = program.accesses[:-1]
    return Program(NV_FULL, [*one * count, program.accesses[-1]])


def image(
    changed: Mapping[str, Registers], number: int = 12, precision: str = "int8", columns: int = 2, rows: int = 1
) -> Program:
    """Of 5 x 40 pixels with four components, and eight kernels of 3 rows."""
    c = Convolution(Features(SOURCE, 5, 40, 4, precision), WEIGHTS, 8, 3, columns)
    registers_of = programs.pixel_registers(NV_FULL, c, number, 512, SOURCE, rows)
    registers_of["CDMA"]["D_DATAIN_FORMAT"] = {"DATAIN_FORMAT": 1, "PIXEL_FORMAT": number}
    program = Program(NV_FULL)
    programs.process(program, Features(OUTPUT, 3, c.width, 8, precision))
    programs.convolve(
        program, c, {block: {**values, **changed.get(block, {})} for block, values in registers_of.items()}
    )
    program.wait("SDP")
    return program


def halves(out: int = 2, offset: int | None = None, size: int = 1) -> Program:
    """SDP in fp16: the output's precision, an offset of the exponential table of int16, the bytes of an operand less 1."""
    program = Program(NV_FULL)
    precision = "fp16" if offset is None else "int16"
    sdp: dict[str, int | Mapping[str, int]] = {}
    if offset is not None:
        bounds = [
            f"S_LUT_{table}_{end}" for table in ("LE", "LO") for end in ("START", "END", "SLOPE_SCALE", "SLOPE_SHIFT")
        ]
        settings: dict[str, int | Mapping[str, int]] = {"S_LUT_CFG": 0, **dict.fromkeys(bounds, 0)}
        settings["S_LUT_INFO"] = {"LUT_LE_INDEX_OFFSET": offset}
        programs.write_tables(program, "SDP", ([0] * 65, [0] * 257), settings)
        sdp["D_DP_EW_CFG"] = {"EW_ALU_BYPASS": 1, "EW_MUL_BYPASS": 1}
    else:
        sdp["D_DATA_FORMAT"] = {"PROC_PRECISION": 2, "OUT_PRECISION": out}
        sdp["D_DP_BS_CFG"] = {"BS_ALU_ALGO": 2, "BS_MUL_BYPASS": 1}
        sdp["D_DP_BS_ALU_CFG"] = {"BS_ALU_SRC": 1}
    rdma: dict[str, int | Mapping[str, int]] = {
        "D_FEATURE_MODE_CFG": {
            "IN_PRECISION": programs.PRECISIONS[precision],
            "PROC_PRECISION": programs.PRECISIONS[precision],
            "OUT_PRECISION": out if offset is None else 1,
        },
        "D_BRDMA_CFG": {"BRDMA_RAM_TYPE": 1, "BRDMA_DATA_USE": 1, "BRDMA_DATA_SIZE": size},
        "D_BS_BASE_ADDR_HIGH": 0,
        "D_BS_BASE_ADDR_LOW": BETWEEN,
        "D_BS_LINE_STRIDE": 32,
        "D_BS_SURFACE_STRIDE": 32,
    }
    source = Features(SOURCE, 2, 2, 16, precision)
    programs.process(program, Features(OUTPUT, 2, 2, 16, precision), source=source, sdp=sdp, rdma=rdma)
    program.wait("SDP")
    return program


def reshaping(mode: int, sets: int = 4, **changed: int) -> Program:
    """Of sets of 32 channels with strides of 2 x 2, or of a map of 32 channels to its planes."""
    source = Features(SOURCE, 3, 4, 32 * sets if mode == 0 else 32)
    output = Features(OUTPUT, 6, 8, 32) if mode == 0 else Features(OUTPUT, 3, 4, 32)
    program = Program(NV_FULL)
    programs.reshape(program, mode, source, output, (2, 2), **changed)
    program.wait("RBK")
    return program


class Case(NamedTuple):
    """make: of a value. allowed, refused: values at the two sides of a limit. says: the start of the refusal."""

    make: Callable[[int], Program]
    allowed: int
    refused: int
    says: str


def both(register: str, field: str = "") -> Callable[[int], Program]:
    """A convolution in which CDMA and CSC hold another value."""
    return lambda v: convolution({block: {register: {field: v} if field else v} for block in ("CDMA", "CSC")})


CASES = {
    "weights in whole entries": Case(
        both("D_WEIGHT_BYTES"), 1152, 1148, "CDMA.D_WEIGHT_BYTES (group 0): 1148 is no multiple"
    ),
    "all weights": Case(
        both("D_WEIGHT_BYTES"), 1160, 1144, "CDMA.D_WEIGHT_BYTES (group 0): 1144 bytes, but the kernels have 1152"
    ),
    "weights in memory": Case(
        both("D_WEIGHT_BYTES"), 0x8000, 0x8008, "CDMA.D_WEIGHT_ADDR_LOW (group 0): 32776 bytes at 0x20000 are not"
    ),
    "banks": Case(
        lambda v: convolution({block: {"D_BANK": {"DATA_BANK": 15, "WEIGHT_BANK": v}} for block in ("CDMA", "CSC")}),
        15,
        16,
        "CSC.D_BANK.WEIGHT_BANK (group 0): the number of banks for data and weights is 33, but at most 32",
    ),
    "banks agree": Case(
        lambda v: convolution({"CSC": {"D_BANK": {"DATA_BANK": v}}}),
        0,
        1,
        "CSC.D_BANK.DATA_BANK (group 0): the register, by CDMA",
    ),
    "entries": Case(
        both("D_ENTRY_PER_SLICE"),
        11,
        12,
        "CDMA.D_ENTRY_PER_SLICE (group 0): the number of entries of a line is 13, not 12",
    ),
    "positions": Case(
        lambda v: convolution({"CSC": {"D_ATOMICS": v}}),
        29,
        30,
        "CSC.D_ATOMICS (group 0): the number of positions is 31",
    ),
    "released lines": Case(lambda v: convolution({"CSC": {"D_RELEASE": v}}), 4, 5, "CSC.D_RELEASE (group 0)"),
    "padding": Case(
        lambda v: convolution(
            {"CDMA": {"D_ZERO_PADDING": {"PAD_LEFT": 1, "PAD_RIGHT": v, "PAD_TOP": 1, "PAD_BOTTOM": 1}}}
        ),
        1,
        2,
        "CSC.D_DATAOUT_SIZE_0.DATAOUT_WIDTH (group 0): the width, by input, padding and kernel, is 6, not 7",
    ),
    "packed lines": Case(
        lambda v: convolution({"CDMA": {"D_DAIN_MAP": {"LINE_PACKED": v, "SURF_PACKED": 1}}}),
        1,
        0,
        "CDMA.D_DAIN_MAP.LINE_PACKED",
    ),
    "aligned input": Case(
        lambda v: convolution({"CDMA": {"D_DAIN_ADDR_LOW_0": v}}),
        SOURCE + 8,
        SOURCE + 4,
        "CDMA.D_DAIN_ADDR_LOW_0 (group 0): 0x10004 is no",
    ),
    "input in memory": Case(
        lambda v: convolution({"CDMA": {"D_DAIN_ADDR_LOW_0": v}}),
        SOURCE + 0x8000 - 480,
        SOURCE + 0x8000 - 472,
        "CDMA.D_LINE_STRIDE (group 0): line 4 of surface 1",
    ),
    "input beyond 32 bits": Case(
        lambda v: convolution({"CDMA": {"D_DAIN_ADDR_HIGH_0": v}}),
        0,
        1,
        "CDMA.D_DAIN_ADDR_LOW_0 (group 0): 48 bytes at 0x100010000",
    ),
    "second memory port": Case(
        lambda v: convolution({"CDMA": {"D_WEIGHT_RAM_TYPE": v}}),
        1,
        0,
        "CDMA.D_WEIGHT_RAM_TYPE (group 0): nv_small has no second memory port",
    ),
    "second memory port of SDP": Case(
        lambda v: elements({"D_DST_DMA_CFG": v}),
        1,
        0,
        "SDP.D_DST_DMA_CFG (group 0): nv_small has no second memory port",
    ),
    "Winograd": Case(
        both("D_MISC_CFG", "CONV_MODE"), 0, 1, "CDMA.D_MISC_CFG.CONV_MODE (group 0): the mode (the twin has no"
    ),
    "batches": Case(both("D_BATCH_NUMBER"), 0, 1, "CDMA.D_BATCH_NUMBER (group 0): the batch"),
    "compressed weights": Case(both("D_WEIGHT_FORMAT"), 0, 1, "CSC.D_WEIGHT_FORMAT (group 0)"),
    "precision": Case(
        both("D_MISC_CFG", "PROC_PRECISION"),
        0,
        1,
        "CDMA.D_MISC_CFG.PROC_PRECISION (group 0): nv_small has no precision int16",
    ),
    "nothing to reuse": Case(
        both("D_MISC_CFG", "DATA_REUSE"), 0, 1, "CDMA.D_MISC_CFG.DATA_REUSE (group 0): the convolution before keeps no"
    ),
    "no weights to reuse": Case(
        both("D_MISC_CFG", "WEIGHT_REUSE"), 0, 1, "CDMA.D_MISC_CFG.WEIGHT_REUSE (group 0): the convolution before"
    ),
    "post-extension": Case(
        lambda v: convolution({"CSC": {"D_POST_Y_EXTENSION": v}}), 0, 1, "CSC.D_POST_Y_EXTENSION (group 0)"
    ),
    "fields of nv_full": Case(
        lambda v: convolution({"CDMA": {"D_LINE_STRIDE": v}}, NV_FULL),
        192,
        200,
        "CDMA.D_LINE_STRIDE: the value 0xc8 has bits outside",
    ),
    "shift of X": Case(
        lambda v: elements(
            {"D_DP_BS_CFG": {"BS_ALU_BYPASS": 1, "BS_MUL_BYPASS": 1}, "D_DP_BS_MUL_CFG": {"BS_MUL_SHIFT_VALUE": v}}
        ),
        63,
        64,
        "SDP.D_DP_BS_MUL_CFG.BS_MUL_SHIFT_VALUE (group 0): the shift is 64, but at most 63",
    ),
    "no Y in nv_small": Case(
        lambda v: elements({"D_DP_EW_CFG": v}), 1, 0x52, "SDP.D_DP_EW_CFG.EW_BYPASS (group 0): nv_small has no unit Y"
    ),
    "lines of the output": Case(
        lambda v: elements({"D_DST_LINE_STRIDE": v}),
        40,
        32,
        "SDP.D_DST_LINE_STRIDE (group 0): lines of 40 bytes overlap",
    ),
    "no overlap with the input": Case(
        lambda v: elements({"D_DST_BASE_ADDR_LOW": v}),
        SOURCE,
        SOURCE + 8,
        "SDP.D_DST_BASE_ADDR_LOW (group 0): the output overlaps",
    ),
    "sizes agree": Case(
        lambda v: elements({}, {"D_DATA_CUBE_WIDTH": v}),
        4,
        5,
        "SDP_RDMA.D_DATA_CUBE_WIDTH (group 0): the width, by SDP, is 6, not 5",
    ),
    "output precision": Case(
        lambda v: elements({"D_DATA_FORMAT": {"OUT_PRECISION": v}}),
        0,
        1,
        "SDP.D_DATA_FORMAT.OUT_PRECISION (group 0): nv_small has",
    ),
    "converter's scale": Case(
        lambda v: elements({"D_CVT_SCALE": v}),
        0xFFFF8000,
        0x10000,
        "SDP.D_CVT_SCALE: the value 0x10000 has bits outside",
    ),
    "kernel of a pool": Case(
        lambda v: pooling({}, Pooling(Features(SOURCE, 9, 9, 8), 1, (v, 1))),
        8,
        9,
        "PDP.D_POOLING_KERNEL_CFG.KERNEL_WIDTH (group 0)",
    ),
    "padding of a pool": Case(
        lambda v: pooling({}, Pooling(Features(SOURCE, 6, 6, 8), 1, (2, 2), pads=(v, 0, 0, 0))),
        1,
        2,
        "PDP.D_POOLING_PADDING_CFG.PAD_LEFT (group 0): the padding is 2, but at most 1",
    ),
    "method of a pool": Case(
        lambda v: pooling({"D_OPERATION_MODE_CFG": {"POOLING_METHOD": v, "FLYING_MODE": 1}}),
        2,
        3,
        "PDP.D_OPERATION_MODE_CFG.POOLING_METHOD",
    ),
    "output of a pool": Case(
        lambda v: pooling({}, output=v), OUTPUT, SOURCE + 8, "PDP.D_DST_BASE_ADDR_LOW (group 0): the output overlaps"
    ),
    "width of a pool": Case(
        lambda v: pooling({"D_DATA_CUBE_OUT_WIDTH": v}), 4, 5, "PDP.D_DATA_CUBE_OUT_WIDTH (group 0)"
    ),
    "whole tables": Case(
        lambda v: response({}, (65, v)), 257, 256, "CDP.S_LUT_ACCESS_DATA: entries of table LO were never written"
    ),
    "entries of tables": Case(
        lambda v: response({}, (v, 257)), 65, 66, "CDP.S_LUT_ACCESS_CFG.LUT_ADDR: the entry is 65, but at most 64"
    ),
    "line of a copy": Case(lambda v: copy(DST_LINE=v), 64, 32, "BDMA.CFG_DST_LINE: lines of 64 bytes overlap"),
    "copies of a launch": Case(copies, 20, 21, "BDMA.CFG_OP: the number of copies at a launch is 21, but at most 20"),
    "lines of a copy": Case(
        lambda v: copy(SRC_LINE=0, LINE_REPEAT=v), 0, 8192, "BDMA.CFG_LINE_REPEAT: the number of lines is 8193"
    ),
    "surfaces of a copy": Case(
        lambda v: copy(SURF_REPEAT=v, SRC_SURF=0x100, DST_SURF=0x100), 3, 8192, "BDMA.CFG_SURF_REPEAT: the number of"
    ),
    "mode of Rubik": Case(
        lambda v: reshaping(v, D_DAOUT_PLANAR_STRIDE=96, D_DAOUT_SURF_STRIDE=384), 1, 3, "RBK.D_MISC_CFG.RUBIK_MODE"
    ),
    "sets of a contraction": Case(lambda v: reshaping(0, v), 4, 5, "RBK.D_DATAIN_SIZE_1 (group 0): the number of"),
    "distance of sets": Case(
        lambda v: reshaping(0, D_CONTRACT_STRIDE_0=v), 384, 416, "RBK.D_CONTRACT_STRIDE_0 (group 0): the stride between"
    ),
    "distance of lines": Case(
        lambda v: reshaping(0, D_CONTRACT_STRIDE_1=v), 512, 544, "RBK.D_CONTRACT_STRIDE_1 (group 0): the stride between"
    ),
    "channels of planes": Case(
        lambda v: reshaping(1, D_DATAOUT_SIZE_1=v), 31, 30, "RBK.D_DATAOUT_SIZE_1 (group 0): the number of channels"
    ),
    "planes do not overlap": Case(
        lambda v: reshaping(1, D_DAOUT_PLANAR_STRIDE=v), 96, 64, "RBK.D_DAOUT_PLANAR_STRIDE (group 0): lines of 32"
    ),
    "output of halves": Case(
        lambda v: halves(out=v), 1, 0, "SDP.D_DATA_FORMAT.OUT_PRECISION (group 0): halves become halves or int16"
    ),
    "operands of halves": Case(
        lambda v: halves(size=v), 1, 0, "SDP_RDMA.D_BRDMA_CFG.BRDMA_DATA_SIZE (group 0): halves have two bytes"
    ),
    "offset of SDP's table": Case(
        lambda v: halves(offset=v), 32, 33, "SDP.S_LUT_INFO.LUT_LE_INDEX_OFFSET: 33 is beyond every difference"
    ),
    "offset of CDP's table": Case(
        lambda v: response({}, offset=v), 39, 40, "CDP.S_LUT_INFO.LUT_LE_INDEX_OFFSET: 40 is beyond every difference"
    ),
    "format of pixels": Case(
        lambda v: image({"CDMA": {"D_DATAIN_FORMAT": {"DATAIN_FORMAT": 1, "PIXEL_FORMAT": v}}}),
        15,
        36,
        "CDMA.D_DATAIN_FORMAT.PIXEL_FORMAT (group 0): there is no format 36",
    ),
    "components of pixels": Case(
        lambda v: image({"CDMA": {"D_DATAIN_FORMAT": {"DATAIN_FORMAT": 1, "PIXEL_FORMAT": v}}}),
        12,
        0,
        "CDMA.D_DATAIN_SIZE_1 (group 0): the number of components is 4, not 1",
    ),
    "offset of pixels": Case(
        lambda v: image({"CDMA": {"D_PIXEL_OFFSET": {"PIXEL_X_OFFSET": v, "PIXEL_Y_OFFSET": 0}}}),
        7,
        8,
        "CDMA.D_PIXEL_OFFSET.PIXEL_X_OFFSET (group 0): the offset is 8, but at most 7",
    ),
    "columns of pixels": Case(
        lambda v: image({}, columns=v), 32, 33, "CSC.D_WEIGHT_SIZE_EXT_1.WEIGHT_CHANNEL_EXT (group 0): the width of a"
    ),
    "channels of a post-extension": Case(
        lambda v: image({}, columns=v, rows=2),
        8,
        9,
        "CSC.D_POST_Y_EXTENSION (group 0): the number of channels of a step is 72, but at most 64",
    ),
    "no post-extension 3": Case(
        lambda v: image({"CSC": {"D_POST_Y_EXTENSION": v}}), 2, 3, "CSC.D_POST_Y_EXTENSION (group 0): there is no"
    ),
    "dilation of pixels": Case(
        lambda v: image({"CSC": {"D_DILATION_EXT": {"X_DILATION_EXT": v}}}), 0, 1, "CSC.D_DILATION_EXT.X_DILATION_EXT"
    ),
    "repeats of a copy": Case(
        lambda v: copy(SRC_LINE=0x40, LINE_REPEAT=v), 511, 512, "BDMA.CFG_SRC_LINE: line 512 of surface 0"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_each_limit_has_two_sides(compiler: None, case: Case) -> None:
    assert refusal(case.make(case.allowed)) == ""
    assert refusal(case.make(case.refused)).startswith(case.says)


def test_an_operation_needs_every_register_that_it_reads(compiler: None) -> None:
    """Without one of its writes, it is refused with that register's name; the pointers are enough once."""
    whole = elements({})
    needed = 0
    for index, access in enumerate(whole.accesses):
        name = names(NV_SMALL)[access.address] if access.kind is AccessKind.WRITE else "wait"
        if ".D_" not in name or "ENABLE" in name:
            continue
        needed += 1
        left = Program(NV_SMALL, [*whole.accesses[:index], *whole.accesses[index + 1 :]])
        said = refusal(left)
        assert said.startswith(name) and said.endswith("the operation needs this register, which was never written")
    assert needed > 20


def names(configuration: Configuration) -> dict[int, str]:
    found = {}
    for (block, name), row in registers(initial=configuration.initial).items():
        if block in configuration.bases:
            found[configuration.bases[block] + row.offset] = f"{block}.{name}"
    return found


def test_a_group_that_is_enabled_does_not_change(compiler: None) -> None:
    program = Program(NV_SMALL)
    programs.process(program, Features(OUTPUT, 5, 6, 8))
    program.write("SDP", "D_CVT_SHIFT", 3)
    assert refusal(program) == "SDP.D_CVT_SHIFT (group 0): the group is enabled, so its registers must not change"


def test_a_pool_on_the_fly_reads_no_memory(compiler: None) -> None:
    program = Program(NV_SMALL)
    middle = Features(BETWEEN, 4, 5, 8)
    mode = {"D_OPERATION_MODE_CFG": {"POOLING_METHOD": 1, "FLYING_MODE": 1}}
    programs.pool(program, Pooling(middle, 1, (2, 2)), OUTPUT, flying=True, changed=mode)
    programs.process(program, middle, source=Features(SOURCE, 4, 5, 8), to_pdp=True)
    said = "PDP.D_OPERATION_MODE_CFG.FLYING_MODE (group 0): the mode, as SDP writes to PDP, is 1, not 0"
    assert refusal(program) == said


def test_a_wait_without_an_end_says_what_waits_for_what(compiler: None) -> None:
    program = convolution({})
    enables = [
        index
        for index, access in enumerate(program.accesses)
        if access.address == program.address("CSC", "D_OP_ENABLE")
    ]
    del program.accesses[enables[0]]
    assert refusal(program) == (
        "GLB.S_INTR_STATUS: nothing will set the bits 0x1: CDMA (group 0) is enabled, and nothing needs it, "
        "CMAC_A (group 0) is enabled, and nothing needs it, CACC (group 0) is enabled, and nothing needs it, "
        "SDP (group 0) waits for CSC, CMAC_B (group 0) is enabled, and nothing needs it"
    )


@pytest.mark.parametrize(
    ("configuration", "address", "says"),
    [
        (NV_SMALL, 0x10000, "CSB: nv_small has no block of registers at 0x10000"),
        (NV_SMALL, 0x30F0, "CDMA: no register at 0x30f0"),
        (NV_FULL, 0x5001, "CDMA: no register at 0x5001"),
    ],
)
def test_there_is_a_register_at_the_address(
    compiler: None, configuration: Configuration, address: int, says: str
) -> None:
    assert play(configuration, {}, [Access(AccessKind.WRITE, address, 0)]).refusal == says


def test_memory_does_not_overlap(compiler: None) -> None:
    played = play(NV_SMALL, {0: bytes(16), 8: b"given"}, ())
    assert played.refusal == "memory: 0x8 overlaps other memory"
    assert bytes(played.memory[8]) == b"given"


def test_weights_of_uneven_bytes_displace_those_of_the_next_convolution(compiler: None) -> None:
    """The reader of the buffer goes on by entries that are used, and the writer by what is programmed."""
    program = convolution({block: {"D_WEIGHT_BYTES": 1160} for block in ("CDMA", "CSC")})
    programs.process(program, Features(BETWEEN, 5, 6, 8))
    programs.convolve(program, Convolution(Features(SOURCE, 5, 6, 16), WEIGHTS, 8, 3, 3, pads=(1, 1, 1, 1)))
    assert refusal(program).startswith("CDMA.D_WEIGHT_BYTES (group 1): the convolution before had more bytes")


def test_what_stays_in_the_buffer_is_not_read_again(compiler: None) -> None:
    kept = {block: {"D_MISC_CFG": {"SKIP_DATA_RLS": 1, "SKIP_WEIGHT_RLS": 1}} for block in ("CDMA", "CSC")}
    again = {block: {"D_MISC_CFG": {"DATA_REUSE": 1, "WEIGHT_REUSE": 1}} for block in ("CDMA", "CSC")}
    program = convolution(kept)
    programs.process(program, Features(BETWEEN, 5, 6, 8))
    programs.convolve(program, Convolution(Features(SOURCE, 5, 6, 16), WEIGHTS, 8, 3, 3, pads=(1, 1, 1, 1)), again)
    contents = memory()
    contents[SOURCE] = bytes(range(256)) * 128
    contents[WEIGHTS] = bytes(range(0, 256, 2)) * 256
    played = play(NV_SMALL, contents, program.accesses)
    assert played.refusal == ""
    assert played.memory[BETWEEN] == played.memory[OUTPUT] != contents[OUTPUT]
    reads = [operation.traffic for operation in played.operations if operation.engine == "CONV"]
    assert reads == [{"CDMA_DAT": 480, "CDMA_WT": 1152}, {"CDMA_DAT": 0, "CDMA_WT": 0}]
