"""Idioms are recognized, and near misses are not: each differs from an idiom at one place."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cnn_convertor.errors import UnsupportedError
from cnn_convertor.frontends.onnx.idioms import IDIOMS, recognize_idioms
from cnn_convertor.frontends.onnx.model import OnnxModel, OnnxNode, read_model
from cnn_convertor.frontends.onnx.stored import Stored
from frontends.onnx import test_networks
from frontends.onnx.networks import Network, helper, load

STANDING = {*(idiom.type for idiom in IDIOMS), "Focus"}  # the types that stand for idioms


def slices(*corners: tuple[int, int]) -> Network:
    """The pixels of blocks of 2 x 2, joined as channels."""
    nodes, constants = [], {"end": integers(2**63 - 1, 2**63 - 1), "axes": integers(2, 3), "step": integers(2, 2)}
    for at, corner in enumerate(corners):
        constants[f"start{at}"] = integers(*corner)
        nodes.append(helper.make_node("Slice", ["x", f"start{at}", "end", "axes", "step"], [f"part{at}"]))
    joined = helper.make_node("Concat", [f"part{at}" for at in range(len(corners))], ["y"], axis=1)
    return Network([*nodes, joined], {"x": test_networks.X}, constants)


def integers(*numbers: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


OTHERS = ("channel shuffle", "hard swish", "hard swish of a clip")  # a pass recognizes them, for all frontends
NETWORKS = {
    **{
        name: Network(nodes, {"x": test_networks.X}, constants, 18)
        for name, (nodes, constants, _) in test_networks.IDIOMS.items()
        if name not in OTHERS
    },
    "focus": slices((0, 0), (1, 0), (0, 1), (1, 1)),
    "focus by rows": slices((0, 0), (0, 1), (1, 0), (1, 1)),
}
ALLOWED = {  # changes that leave an idiom of the same type
    "layer norm": {"add: another number eps"},  # any epsilon
}


class NearMiss(NamedTuple):
    what: str
    model: OnnxModel


def near_misses(model: OnnxModel) -> Iterator[NearMiss]:
    """The model with one change: of a type, of what a node reads, of a constant where it is used, or of an attribute."""
    for at, node in enumerate(model.nodes):
        label = node.type.lower()

        def changed(what: str, label: str = label, at: int = at, **fields: object) -> NearMiss:
            nodes = list(model.nodes)
            nodes[at] = replace(nodes[at], **fields)  # type: ignore[arg-type]  # fields of a node
            return NearMiss(f"{label}: {what}", replace(model, nodes=tuple(nodes)))

        yield changed("another type", type="Sin")
        if node.type in ("Sub", "Div", "Pow") and len(node.inputs) == 2:
            yield changed("swapped", inputs=node.inputs[::-1])
        for position, name in enumerate(node.inputs):
            for other in another(model, name):
                inputs = (*node.inputs[:position], other, *node.inputs[position + 1 :])
                kind = "another number" if name in model.initializers else "another value than"
                yield changed(f"{kind} {name}", inputs=inputs)
        yield changed("an unknown attribute", attributes={**node.attributes, "strange": 1})
        for key, value in attributes(node).items():
            yield changed(f"another {key}", attributes={**node.attributes, key: value})


def another(model: OnnxModel, name: str) -> tuple[str, ...]:
    """What a node may read in place of a value: another input, or the input of the network; or another constant."""
    if name in model.initializers:
        return (f"not {name}",)
    return ("z",) if name == "x" else ("z", "x")


def attributes(node: OnnxNode) -> dict[str, float | int]:
    """Other values of attributes, also of those that the node leaves out."""
    match node.type:
        case "HardSigmoid":
            return {"alpha": 0.2, "beta": 0.25}
        case "ReduceMean":
            return {"keepdims": 0}
        case "Concat":
            return {"axis": 2}
        case _:
            return {}


def with_other_constants(model: OnnxModel) -> OnnxModel:
    """The model with a further constant for each: `not NAME`, which differs from it in every number."""
    others = {f"not {name}": Stored.of(stored.load() + 1) for name, stored in model.initializers.items()}
    return replace(model, initializers={**model.initializers, **others})


def standing(model: OnnxModel) -> set[str]:
    return {node.type for node in recognize_idioms(model)} & STANDING


@pytest.mark.parametrize("name", NETWORKS)
def test_a_near_miss_is_no_idiom(name: str, tmp_path: Path) -> None:
    model = with_other_constants(read_model(NETWORKS[name].write(tmp_path / "net.onnx")))
    (idiom,) = standing(model)
    misses = list(near_misses(model))
    assert len(misses) > 3
    recognized = {miss.what for miss in misses if idiom in standing(miss.model)}
    assert recognized == ALLOWED.get(name, set())


def test_every_idiom_has_near_misses(tmp_path: Path) -> None:
    models = [read_model(network.write(tmp_path / f"{name}.onnx")) for name, network in NETWORKS.items()]
    assert set().union(*map(standing, models)) == STANDING


@pytest.mark.parametrize("name", test_networks.IDIOMS)
def test_an_unknown_attribute_is_refused_anywhere_in_an_idiom(name: str, tmp_path: Path) -> None:
    nodes, constants, _ = test_networks.IDIOMS[name]
    for at in range(len(nodes)):
        strange = deepcopy(nodes)
        strange[at].attribute.append(helper.make_attribute("strange", 1))
        path = Network(strange, {"x": test_networks.X}, constants, 18).write(tmp_path / f"{at}.onnx")
        with pytest.raises(UnsupportedError, match="the attribute strange cannot be converted") as caught:
            load(path)
        assert [problem.where and problem.where.type for problem in caught.value.problems] == [nodes[at].op_type]
