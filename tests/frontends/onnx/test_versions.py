"""A file that mixes versions of the operators is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError, ConvertorWarning
from cnn_convertor.frontends.onnx.model import OLDEST_OPSET
from cnn_convertor.frontends.onnx.versions import FIRST, LAST, NEWEST_OPSET, is_known
from frontends.onnx.networks import Network, helper, load, onnx

make = helper.make_node
X = np.ones((1, 4, 6, 8), np.float32)


def definitions() -> Mapping[str, Sequence[Any]]:
    """Type -> its definitions, the oldest first."""
    found: dict[str, list[Any]] = {}
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda schema: schema.since_version):
        if not schema.domain:
            found.setdefault(schema.name, []).append(schema)
    return found


def names(schemas: Sequence[Any], opset: int) -> set[str]:
    """The type and its attributes in a version; empty where it has been removed, or is not there yet."""
    found = [schema for schema in schemas if schema.since_version <= opset]
    if not found or (found[-1].deprecated and found[-1] is schemas[-1]):
        return set()
    return {found[-1].name, *(f"{found[-1].name}.{name}" for name in found[-1].attributes)}


def test_types_and_attributes_are_those_of_their_versions() -> None:
    given = definitions()
    opsets = range(OLDEST_OPSET, min(NEWEST_OPSET, onnx.defs.onnx_opset_version()) + 1)
    for schemas in given.values():
        there = {opset: names(schemas, opset) for opset in opsets}
        for name in set().union(*there.values()):
            is_alone = "." not in name
            wrong = [o for o in opsets if (name in there[o]) != is_known(name, o) and (is_alone or there[o])]
            assert not wrong, f"{name} in the versions {wrong}"


def test_the_table_has_no_name_too_many() -> None:
    opsets = range(OLDEST_OPSET, onnx.defs.onnx_opset_version() + 1)
    given = {name for schemas in definitions().values() for opset in opsets for name in names(schemas, opset)}
    assert {name for name in (*FIRST, *LAST) if FIRST.get(name, 0) in (0, *opsets)} <= given


MIXED: Mapping[str, tuple[int, Any]] = {
    "limits as attributes": (13, make("Clip", ["x"], ["y"], min=0.0)),
    "limits as inputs": (9, make("Clip", ["x", "one"], ["y"])),
    "axes as an attribute": (18, make("ReduceMean", ["x"], ["y"], axes=[2, 3])),
    "axes as an input": (17, make("ReduceMean", ["x", "axes"], ["y"])),
    "pads as an input": (10, make("Pad", ["x", "axes"], ["y"])),
    "a type of later versions": (13, make("HardSwish", ["x"], ["y"])),
    "a type of earlier versions": (13, make("Upsample", ["x", "scales"], ["y"])),
    "an attribute of later versions": (9, make("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], ceil_mode=1)),
    "an input too many": (13, make("Relu", ["x", "x"], ["y"])),
    "a constant too many": (13, make("Sigmoid", ["x", "one"], ["y"])),
}


@pytest.mark.parametrize("name", MIXED)
def test_forms_of_other_versions_are_refused(name: str, tmp_path: Path) -> None:
    opset, node = MIXED[name]
    constants: Mapping[str, Any] = {
        "one": np.float32(1), "axes": np.array([2, 3]), "scales": np.array([1, 1, 2, 2], np.float32),
    }  # fmt: skip
    with pytest.raises(ConvertorError, match="DV206"):
        load(Network([node], {"x": X}, constants, opset).write(tmp_path / "net.onnx"))


def test_constants_of_other_versions_are_refused(tmp_path: Path) -> None:
    nodes = [make("Squeeze", ["c"], ["s"], axes=[0]), make("Add", ["x", "s"], ["y"])]
    network = Network(nodes, {"x": X}, {"c": np.ones((1, 8), np.float32)}, 13)
    with pytest.raises(ConvertorError, match=r"the attribute axes ends with 12"):
        load(network.write(tmp_path / "net.onnx"))


def test_operators_newer_than_the_convertor_give_a_warning(tmp_path: Path) -> None:
    path = Network([make("Relu", ["x"], ["y"])], {"x": X}, {}, NEWEST_OPSET + 1).write(tmp_path / "net.onnx")
    with pytest.warns(ConvertorWarning, match="DV311"):
        load(path)
