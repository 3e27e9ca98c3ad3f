"""The twin does what the public model has done: it leaves the same memory after the same writes to the registers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.devices.nvdla.configurations import CONFIGURATIONS
from cnn_convertor.devices.nvdla.playing import Access, AccessKind, play
from devices.nvdla import recorded

# Configuration, kind, and number of cases. docs/internals/nvdla-twin.md has the same table.
CASES = (
    ("nv_full", "bdma", 4),
    ("nv_full", "cdp_fp16", 12),
    ("nv_full", "cdp_int16", 2),
    ("nv_full", "cdp_int8", 10),
    ("nv_full", "conv_fp16", 40),
    ("nv_full", "conv_int16", 2),
    ("nv_full", "conv_int8", 46),
    ("nv_full", "conv_sdp_pdp_fp16", 4),
    ("nv_full", "conv_sdp_pdp_int8", 5),
    ("nv_full", "deconv", 1),
    ("nv_full", "image_fp16", 5),
    ("nv_full", "image_int8", 15),
    ("nv_full", "lut_fp16", 8),
    ("nv_full", "lut_int8", 8),
    ("nv_full", "network_fp16", 2),
    ("nv_full", "network_int8", 1),
    ("nv_full", "pdp_fp16", 21),
    ("nv_full", "pdp_int16", 2),
    ("nv_full", "pdp_int8", 17),
    ("nv_full", "rubik", 10),
    ("nv_full", "sdp_convert", 4),
    ("nv_full", "sdp_fp16", 30),
    ("nv_full", "sdp_int16", 3),
    ("nv_full", "sdp_int8", 30),
    ("nv_small", "cdp_int8", 9),
    ("nv_small", "conv_int8", 64),
    ("nv_small", "conv_sdp_pdp_int8", 5),
    ("nv_small", "image_int8", 12),
    ("nv_small", "network_int8", 2),
    ("nv_small", "pdp_int8", 28),
    ("nv_small", "sdp_int8", 22),
)
REGRESSION = (
    "BDMA_L0_0",
    "CDP_L0_0_large",
    "CDP_L0_0_small",
    "CONV_D_L0_0",
    "CONV_D_L0_0_small",
    "NN_L0_0",
    "PDP_L0_0",
    "PDP_L0_0_large",
    "RBK_L0_0",
    "SDP_X1_L0_0",
    "SDP_X1_L0_0_small",
)
DIGITS = ("one_inverted", "three_inverted", "six_inverted", "seven_raw", "eight_inverted")


def differences(case: recorded.Recorded) -> list[str]:
    """What the twin leaves otherwise than the model."""
    played = play(CONFIGURATIONS[case.configuration], case.before, case.accesses)
    if played.refusal:
        return [f"{case.name}: {played.refusal}"]
    wrong = []
    for address, contents in case.after.items():
        unlike = np.frombuffer(contents, np.uint8) != np.frombuffer(played.memory[address], np.uint8)
        if unlike.any():
            wrong.append(f"{case.name}: {int(unlike.sum())} of {len(unlike)} bytes differ at {address:#x}")
    return wrong


@pytest.mark.rotating
@pytest.mark.parametrize(("configuration", "kind", "count"), CASES, ids=str)
def test_the_twin_leaves_the_memory_that_the_model_has_left(
    compiler: None, shared: Path, configuration: str, kind: str, count: int
) -> None:
    """All bytes, also channels beyond the last one, and what no operation writes."""
    found = [*recorded.cases(shared / "vectors/nvdla_ops", configuration, kind)]
    assert len(found) == count
    wrong = []
    for case in found:
        wrong += differences(case)
    assert not wrong


@pytest.mark.parametrize("name", REGRESSION)
def test_the_twin_plays_the_firmware_s_trace_of_a_loadable(compiler: None, shared: Path, name: str) -> None:
    case, _ = recorded.regression(shared / "vectors/nvdla_ops/regression" / name)
    assert not differences(case)


@pytest.mark.rotating
@pytest.mark.parametrize("name", DIGITS)
def test_the_twin_computes_every_map_of_lenet(compiler: None, shared: Path, name: str) -> None:
    folder = shared / "vectors/nvdla_ops/regression"
    case, described = recorded.regression(folder / "NN_L0_0")
    addresses = {entry["id"]: entry["dma_address"] for entry in described["memories"]}
    arrays = np.load(folder / "NN_L0_0_digits" / f"{name}.npz")
    after = {addresses[int(key.rpartition("_")[2])]: arrays[key].tobytes() for key in arrays.files}
    before = {**case.before, addresses[1]: arrays["memory_1"].tobytes()}
    assert not differences(recorded.Recorded(name, case.configuration, before, case.accesses, after))


def test_a_comparison_with_the_model_can_fail(compiler: None, shared: Path) -> None:
    folder = shared / "vectors/nvdla_ops"
    first = next(recorded.cases(folder, "nv_small", "conv_int8"))
    last = first.accesses[-1]
    other = Access(AccessKind.WRITE, last.address, last.value)
    (output,) = (address for address, contents in first.after.items() if contents != first.before[address])
    changed = first.after[output]
    changed = bytes([changed[0] ^ 1]) + changed[1:]
    unlike = recorded.Recorded("x", "nv_small", first.before, (*first.accesses[:-1], other), {output: changed})
    assert differences(unlike) == [f"x: 1 of {len(changed)} bytes differ at {output:#x}"]
