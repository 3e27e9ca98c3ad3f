"""The twin as a process: what it is given, its limits, and what it tells."""

from __future__ import annotations

import numpy as np
import pytest

from cnn_convertor.devices.nvdla.configurations import NV_FULL, NV_SMALL
from cnn_convertor.devices.nvdla.playing import Operation, ProcessLimits, job_of, play
from cnn_convertor.errors import ConvertorError
from devices.nvdla import programs
from devices.nvdla.programs import Convolution, Features, Pooling, Program

SOURCE, WEIGHTS, OUTPUT = 0x10000, 0x20000, 0x30000


def fused() -> Program:
    """A convolution, SDP and a pool on the fly: consumers first."""
    program = Program(NV_SMALL)
    c = Convolution(Features(SOURCE, 6, 8, 20), WEIGHTS, 12, 3, 3, pads=(1, 1, 1, 1))
    middle = Features(0, 6, 8, 12)
    programs.pool(program, Pooling(middle, 1, (2, 2), (2, 2)), OUTPUT, flying=True)
    programs.process(program, middle, to_pdp=True, sdp={"D_CVT_SHIFT": 9})
    programs.convolve(program, c)
    program.wait("SDP", "PDP", "CACC")
    return program


def contents() -> dict[int, bytes]:
    random = np.random.default_rng(3)
    return {address: random.integers(0, 256, 0x4000, np.uint8).tobytes() for address in (SOURCE, WEIGHTS, OUTPUT)}


def test_a_job_beyond_its_limits_is_an_error(compiler: None) -> None:
    with pytest.raises(ConvertorError, match=r"DV900.*takes too much time or memory"):
        play(NV_SMALL, {0: bytes(8)}, (), limits=ProcessLimits(memory=1 << 20))


def test_counters_say_what_each_operation_moves_and_waits_for(compiler: None) -> None:
    """MAC cycles: positions x blocks of 8 channels x kernel positions x groups of 8 kernels."""
    program = fused()
    played = play(NV_SMALL, contents(), program.accesses)
    assert played.refusal == "" and played.done == len(program.accesses)
    last = len(program.accesses) - 2  # before the wait, CDMA is enabled
    enabled = {}
    for block in ("PDP", "SDP", "CDMA"):
        address = program.address(block, "D_OP_ENABLE")
        (enabled[block],) = (index for index, access in enumerate(program.accesses) if access.address == address)
    assert played.operations == (
        Operation("CONV", 0, last, last, "", 48 * 3 * 9 * 2, {"CDMA_DAT": 3 * 48 * 8, "CDMA_WT": 20 * 9 * 12}),
        Operation("SDP", 0, enabled["SDP"], last, "CDMA", 0, {}),
        Operation("PDP", 0, enabled["PDP"], last, "SDP", 0, {"PDP_WDMA": 2 * 3 * 4 * 8}),
    )


def test_registers_tell_the_state(compiler: None) -> None:
    """Of pointers, groups, interrupts and operations that wait, before and after they run."""
    program = Program(NV_SMALL)
    middle = Features(OUTPUT, 6, 8, 12)
    programs.process(program, middle)
    program.turns["SDP"] = 1
    programs.process(program, middle)
    for block, register in (
        ("SDP", "S_STATUS"),
        ("SDP", "D_OP_ENABLE"),
        ("SDP", "S_POINTER"),
        ("GLB", "S_INTR_STATUS"),
    ):
        program.read(block, register)
    programs.convolve(program, Convolution(Features(SOURCE, 6, 8, 20), WEIGHTS, 12, 3, 3, pads=(1, 1, 1, 1)))
    program.read("SDP", "S_STATUS")
    program.read("SDP", "S_POINTER")
    program.read("GLB", "S_INTR_STATUS")
    program.write("GLB", "S_INTR_STATUS", 0x100001)
    program.read("GLB", "S_INTR_STATUS")
    program.read("CDMA", "S_CBUF_FLUSH_STATUS")
    program.read("CSC", "D_BANK")
    played = play(NV_SMALL, contents(), program.accesses)
    assert played.refusal == ""
    before = (0x20001, 1, 0x00001, 0)
    after = (0x10000, 0x10001, 0x150001, 0x50000, 1, 0)
    assert played.reads == before + after


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_do_not_change_a_bit(compiler: None, threads: int) -> None:
    program = fused()
    alone = play(NV_SMALL, contents(), program.accesses)
    assert play(NV_SMALL, contents(), program.accesses, threads) == alone
    assert alone.memory[OUTPUT] != contents()[OUTPUT]


def test_memory_may_lie_beyond_32_bits(compiler: None) -> None:
    far = 0x5_0000_0000
    program = Program(NV_FULL)
    programs.pool(program, Pooling(Features(far, 2, 2, 32)), far + 0x1000)
    program.wait("PDP")
    values = bytes(range(128))
    played = play(NV_FULL, {far: values, far + 0x1000: bytes(128)}, program.accesses)
    assert (played.refusal, bytes(played.memory[far + 0x1000])) == ("", values)


def test_memory_that_stays_zero_is_not_passed(compiler: None) -> None:
    """Half a gigabyte in which a pool moves the last bytes."""
    size = 1 << 29
    program = Program(NV_FULL)
    programs.pool(program, Pooling(Features(size - 128, 2, 2, 32)), size - 256)
    program.wait("PDP")
    memory = np.zeros(size, np.uint8)
    memory[-128:] = range(128)
    assert len(job_of(NV_FULL, {0: memory}, program.accesses, 1)) < 200_000
    played = play(NV_FULL, {0: memory}, program.accesses)
    assert played.refusal == "" and played.memory[0].nbytes == size
    assert played.memory[0][-256:-128] == played.memory[0][-128:] == bytes(range(128))
    assert not np.frombuffer(played.memory[0], np.uint8)[:-256].any()
