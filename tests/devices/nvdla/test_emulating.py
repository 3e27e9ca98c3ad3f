"""A generated network runs on the twin: its outputs and layers, what it moves, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.emulation.feature_maps import Maps, Traffic, given_layers
from cnn_convertor.errors import ConvertorError
from devices.nvdla.small_network import END, IMAGE, INPUT, IO, Small, accesses, small_network


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, compiler: None) -> Small:
    return small_network(tmp_path_factory.mktemp("small"))


def images(count: int = 2) -> Maps:
    return np.random.default_rng(1).normal(size=(count, *IMAGE)).astype(np.float16).astype(np.float32)


def test_outputs_and_layers_are_those_of_the_formula(small: Small) -> None:
    """An application also finds them by the header: `run` compares both."""
    expected = small.expected(images())
    (output,) = small.network.run({"image": images()}).outputs
    assert np.allclose(output, expected, rtol=2e-3, atol=2e-2)
    ran = small.network.run({"image": images()}, layers=True)
    assert np.array_equal(ran.outputs[0], output)
    convolved, doubled = ran.layers
    assert convolved.shape == (2, 4 * 5 * 16) and not convolved.reshape(2, 20, 16)[:, :, 12:].any()
    assert np.array_equal(doubled.reshape(output.shape), output)
    assert np.array_equal(2 * convolved.reshape(2, 4, 5, 16)[..., :12], output)


def test_layers_move_what_the_twin_counts(small: Small) -> None:
    """An image of two surfaces, and kernels in whole entries of the buffer; the CPU moves nothing."""
    ran = small.network.run({"image": images(1)}, layers=True)
    assert ran.traffic == (Traffic(2, 2 * 640, 0, 640, 4352), Traffic(0, 0, 0, 0, 0))


def test_layers_read_given_outputs(small: Small) -> None:
    values = np.arange(2 * 320, dtype=np.float32).reshape(2, 320)
    given = given_layers(small.network.program, {0: values})
    ran = small.network.run({"image": images()}, layers=True, replaced=given)
    assert np.array_equal(ran.outputs[0], 2 * values.reshape(2, 4, 5, 16)[..., :12])
    assert not np.array_equal(ran.layers[0], values), "the layer's own output is kept"


def test_pixels_are_those_of_the_header(small: Small) -> None:
    order, pixels = small.network.pixels()
    assert order == "BGR"
    assert np.array_equal(pixels, (np.arange(256)[:, None] - [104.0, 117.0, 123.0]) * 0.5)


@pytest.mark.slow
def test_an_unrounded_network_rounds_nothing(tmp_path: Path, compiler: None) -> None:
    unrounded = small_network(tmp_path, exact=True)
    fine = np.random.default_rng(2).normal(size=(2, *IMAGE)).astype(np.float32)
    ran = unrounded.network.run({"image": fine}, layers=True)
    assert np.allclose(ran.outputs[0], unrounded.expected(fine), rtol=1e-6, atol=1e-5)
    assert np.array_equal(2 * ran.layers[0].reshape(2, 4, 5, 16)[..., :12], ran.outputs[0])


FAULTS = {
    "memory beyond": ({"accesses": accesses(IO + (1 << 20))}, r"CDMA\.D_DAIN_ADDR_LOW_0 .*are not in memory"),
    "memory that nothing has written": (
        {"accesses": accesses(IO + 3072), "io_bytes": str(END + 2048)},
        rf"CDMA\.D_DAIN_ADDR_LOW_0 .*reads memory that nothing has written, at {IO + END:#x}",
    ),
    "a wait without end": (
        {"accesses": "    while (!nvdla_read(registers_ + 3)) {}"},
        "nothing will set the bits 0xffffffff: nothing is enabled",
    ),
    "a layer that writes nothing": (
        {"accesses": ""},
        'the layer "conv" does not write its output from byte 0 on',
    ),
    "an input elsewhere in the header": (
        {"input": str(INPUT + 2)},
        "kInputs: what an application writes by it is not what the network reads",
    ),
    "an output elsewhere in the header": (
        {"output_bytes": "964"},
        'kOutputs has a wrong number of bytes of "doubled"',
    ),
    "another size of the weights": ({"weight_bytes": str(4352 + 128)}, "LoadWeights: the weights have another size"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault: str, tmp_path: Path, compiler: None) -> None:
    changed, problem = FAULTS[fault]
    faulty = small_network(tmp_path, changed)
    with pytest.raises(ConvertorError, match=problem):
        faulty.network.run({"image": images()}, layers=True)
