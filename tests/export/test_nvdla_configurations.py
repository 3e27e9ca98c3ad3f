"""Exports for the configurations of NVDLA, read by the specification's formulas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.errors import UsageError
from cnn_convertor.export.targets import target_of
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Pair, Shape, Window
from export.networks import network, values, write_for
from reference.export_reference import nvdla_cube, nvdla_kernels

# Atom, channels per block, kernels per group, entry.
SIZES = {
    "nvdla-small": (8, 8, 8, 8),
    "nvdla-large": (32, 64, 32, 64),
    "nvdla-small-256": (8, 32, 8, 32),
    "nvdla-medium-512": (32, 32, 16, 32),
}


def a_network() -> ops.Conv2d:
    return ops.Conv2d(values(19, 41, 3, 2), values(19), Window(Pair(3, 2)))


@pytest.mark.parametrize("target", SIZES)
def test_weights_and_maps_have_the_sizes_of_the_configuration(target: str, tmp_path: Path) -> None:
    atom, block, group, entry = SIZES[target]
    conv = a_network()
    graph = network(("x", ops.Input(Shape(6, 7, 41)), ()), ("c", conv, ("x",)))
    manifest = write_for(target, graph, tmp_path)
    weights = manifest["c", "weights"]
    stored = nvdla_kernels(weights.memory().tobytes(), weights.shape, "int8", block=block, group=group, entry=entry)
    np.testing.assert_array_equal(stored, weights.array())
    np.testing.assert_allclose(weights.values(), conv.weight.load(), atol=weights.record["error"]["max"] * 1.0001)
    bias = manifest["c", "bias"]
    assert bias.nbytes == -(-19 // atom) * atom * 2
    described = manifest["x", "input"].record
    assert described["bytes"] == -(-41 // atom) * 6 * 7 * atom and described["alignment"]["start"] == atom


def test_maps_are_read_back_by_the_formula(tmp_path: Path) -> None:
    image = np.arange(3 * 2 * 11, dtype=np.int8).reshape(11, 3, 2)
    memory = np.zeros(2 * 3 * 2 * 8, np.uint8)
    for c, h, w in np.ndindex(11, 3, 2):
        memory[c // 8 * 48 + h * 16 + w * 8 + c % 8] = image[c, h, w]
    np.testing.assert_array_equal(nvdla_cube(memory.tobytes(), (11, 3, 2), "int8", 8), image)


@pytest.mark.parametrize(
    ("name", "today"),
    [
        ("nvdla-full", "nvdla-fp16"),
        ("nvdla-full-int8", "nvdla-int8"),
        ("nvdla-full-int16:winograd", "nvdla-int16:winograd"),
    ],
)
def test_names_of_nv_full_give_the_bytes_of_today_s_names(name: str, today: str, tmp_path: Path) -> None:
    graph = network(
        ("x", ops.Input(Shape(6, 7, 5)), ()),
        ("c", ops.Conv2d(values(9, 5, 3, 3), values(9), Window(Pair(3, 3))), ("x",)),
    )
    new, old = (write_for(each, graph, tmp_path / each.partition(":")[0]) for each in (name, today))
    assert [entry.sha256 for entry in new.surfaces] == [entry.sha256 for entry in old.surfaces]
    assert [entry.record["terms"] for entry in new.surfaces] == [entry.record["terms"] for entry in old.surfaces]


@pytest.mark.parametrize("target", ["nvdla-small:winograd", "nvdla-large:compressed", "nvdla-small-fp16", "nvdla-tiny"])
def test_what_a_configuration_lacks_is_no_target(target: str) -> None:
    with pytest.raises(UsageError, match="DV850") as error:
        target_of(target)
    assert "nvdla-" in error.value.problems[0].hint
