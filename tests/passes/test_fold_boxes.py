"""The boxes of a detection become numbers, and the detection finds the same."""

from __future__ import annotations

import numpy as np
import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, BoxCode, Pair, Shape
from cnn_convertor.passes import optimize
from cnn_convertor.passes.fold_boxes import prior_boxes
from reference import ir_reference

VARIANCE = (0.1, 0.1, 0.2, 0.2)
BOXES = {
    "of one size": ops.PriorBox(Pair(1, 1), Pair(30, 50), (9.0,), (), (), False, VARIANCE, 30.0, 50.0, 0.5),
    "of sizes between": ops.PriorBox(
        Pair(2, 3), Pair(40, 60), (12.0, 20.0), (18.0, 30.0), (2.0, 0.5), False, VARIANCE, 20.0, 20.0, 0.5
    ),
    "clipped": ops.PriorBox(Pair(3, 2), Pair(40, 60), (25.0,), (), (3.0,), True, VARIANCE, 13.5, 30.0, 0.25),
}


@pytest.mark.parametrize("name", BOXES)
def test_boxes_are_those_of_a_plain_reading(name: str) -> None:
    found = prior_boxes(BOXES[name])
    assert found.dtype == np.float32 and found.shape == tuple(BOXES[name].output_shape())
    np.testing.assert_allclose(found, ir_reference.execute(BOXES[name]), rtol=1e-5, atol=1e-6)


def detection(*priors: Node, outputs: tuple[str, ...] = ("found",)) -> Graph:
    """A detection of 2 classes in the boxes of the last node."""
    known = Graph(priors, (priors[-1].name,))
    count = known.shape(priors[-1].name).height // 4
    op = ops.DetectionOutput(2, 0, True, BoxCode.CENTER_SIZE, False, 0.5, -1, 1.0, 0.1, 20)
    return Graph(
        (
            Node("moves", ops.Input(Shape(1, 1, 4 * count))),
            Node("scores", ops.Input(Shape(1, 1, 2 * count))),
            *priors,
            Node("found", op, ("moves", "scores", priors[-1].name)),
        ),
        outputs,
    )


def test_the_boxes_of_all_maps_become_numbers() -> None:
    parts = [Node(name, op) for name, op in BOXES.items()]
    before = detection(*parts, Node("all", ops.Concat(Axis.HEIGHT), tuple(BOXES)))
    after = optimize(before)
    assert [node.name for node in after.nodes] == ["moves", "scores", "found"]
    random = np.random.default_rng(0)
    maps = {node.name: random.uniform(size=before.shape(node.name)) for node in before.inputs}
    np.testing.assert_allclose(
        ir_reference.run(after, maps)["found"], ir_reference.run(before, maps)["found"], rtol=1e-5, atol=1e-5
    )


def test_boxes_that_the_application_reads_too_stay() -> None:
    graph = optimize(detection(Node("boxes", BOXES["clipped"]), outputs=("found", "boxes")))
    assert isinstance(graph["boxes"].op, ops.PriorBox)
    assert isinstance(graph["found"].op, ops.DetectionInBoxes)


def test_boxes_that_the_network_computes_are_no_numbers() -> None:
    given = Node("given", ops.Input(Shape(24, 1, 2)))
    before = detection(given)
    assert isinstance(optimize(before)["found"].op, ops.DetectionOutput)
