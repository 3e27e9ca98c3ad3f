"""Parts of an output that concatenations join, and its channels of other magnitude, are judged apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Axis, Order, Shape
from cnn_convertor.verification.output_parts import parts_of
from reference import ir_reference
from verification.test_bounds import verified
from verification.test_mutations import Maker

needs_compiler = pytest.mark.usefixtures("compiler")
IMAGE = Shape(4, 5, 3)
ONE = ops.Window(ops.Pair(1, 1))


def constant(make: Maker, name: str, channels: int, value: float) -> str:
    """A map of one number."""
    zeros = Constant.of(np.zeros((channels, IMAGE.channels, 1, 1)))
    return make.add(name, ops.Conv2d(zeros, Constant.of(np.full(channels, value)), ONE), "image")


MOVES: dict[str, tuple[ops.Op, ...]] = {
    "joined": (),
    "activated": (ops.Activation(ops.Tanh()), ops.Scale(Constant.of(np.ones(6)), None)),
    "flattened, channels first": (ops.Reshape(Shape(1, 1, 120), Order.CHW),),
    "flattened, channels last": (ops.Reshape(Shape(1, 1, 120), Order.HWC),),
    "permuted": (ops.TransposeReshape((6, 4, 5), (1, 0, 2), Shape(6, 5, 4), Order.CHW),),
    "anchors": (ops.TransposeReshape((2, 3, 4, 5), (0, 2, 3, 1), Shape(1, 40, 3), Order.CHW),),
    "cropped": (ops.Crop(Shape(1, 0, 0), Shape(4, 5, 6), Shape(2, 1, 2)),),
}


@pytest.mark.parametrize("moves", MOVES.values(), ids=MOVES)
def test_parts_are_where_their_values_are(moves: tuple[ops.Op, ...]) -> None:
    """Each layer gives a map of one number, which shows where its elements go."""
    make = Maker()
    make.add("image", ops.Input(IMAGE))
    joined = [constant(make, "a", 2, 0.25), constant(make, "b", 1, 0.5)]
    make.add("near", ops.Concat(), *joined)
    make.add("all", ops.Concat(), "near", constant(make, "c", 3, 0.75))
    for number, op in enumerate(moves):
        make.add(f"move{number}", op)
    graph = Graph(tuple(make.nodes), (make.nodes[-1].name,))
    (values,) = (ir_reference.run(graph, {"image": np.zeros(IMAGE)})[name] for name in graph.outputs)
    levels = dict(zip("abc", sorted(np.unique(values)), strict=True))
    parts = parts_of(graph, graph.outputs[0])
    assert parts.keys() == levels.keys()
    for name, mask in parts.items():
        assert np.array_equal(mask, values == levels[name]), name


def test_an_output_without_a_concatenation_has_no_parts() -> None:
    make = Maker()
    make.add("image", ops.Input(IMAGE))
    constant(make, "a", 2, 0.25)
    assert parts_of(Graph(tuple(make.nodes), ("a",)), "a") == {}


def test_parts_beyond_a_table_are_those_of_the_last_concatenation() -> None:
    make = Maker()
    make.add("image", ops.Input(IMAGE))
    for group in range(3):
        many = [constant(make, f"{group}-{n}", 1, 0.5) for n in range(10)]
        make.add(f"group{group}", ops.Concat(Axis.CHANNELS), *many)
    make.add("all", ops.Concat(Axis.CHANNELS), *(f"group{n}" for n in range(3)))
    assert parts_of(Graph(tuple(make.nodes), ("all",)), "all").keys() == {"group0", "group1", "group2"}


# --- verdicts ------------------------------------------------------------------------------------------------------------


def detector(scores: float = 1.0, logit: float = 0.0, *, jumps: bool = False) -> Graph:
    """Boxes around 200 and scores below 1. scores: what is wrong with the weights of the scores. logit: their bias."""
    make = Maker()
    make.add("image", ops.Input(Shape(6, 5, 8)))
    make.add("boxes", ops.Conv2d(make.weights(4, 8, 1, 1), Constant.of(np.full(4, 200.0)), ONE), "image")
    weights = Constant.of(make.random.normal(size=(2, 8, 1, 1)) * scores)
    make.add("logits", ops.Conv2d(weights, Constant.of(np.full(2, logit)), ONE), "image")
    make.add("scores", ops.Activation(ops.Sigmoid()))
    make.add("found", ops.Concat(), "boxes", "scores")
    if jumps:
        make.add("best", ops.ArgMax(Axis.CHANNELS))
    return Graph(tuple(make.nodes), (make.nodes[-1].name,))


@needs_compiler
@pytest.mark.parametrize("palette", [False, True])
def test_parts_of_a_right_output_pass(palette: bool, tmp_path: Path) -> None:
    result = verified(detector(), detector(), tmp_path, palette=palette)
    assert result.passed and [each.name for each in result.outputs] == [
        "found",
        "found, part boxes",
        "found, part scores",
    ]
    assert not result.by_sqnr_alone


@needs_compiler
def test_scores_do_not_pass_in_the_shadow_of_boxes(tmp_path: Path) -> None:
    result = verified(detector(0.7), detector(), tmp_path)
    whole, boxes, scores = result.outputs
    assert whole.sqnr > 60 and boxes.sqnr > 60 and scores.sqnr < 40
    assert result.failed == (scores,) and not result.passed


@needs_compiler
def test_scores_that_vanish_in_fp16_prove_nothing(tmp_path: Path) -> None:
    result = verified(detector(logit=-25.0), detector(logit=-25.0), tmp_path)
    whole, _, scores = result.outputs
    assert whole.sqnr > 60 and "vanish" in scores.doubt and not result.passed


@needs_compiler
def test_channels_of_another_magnitude_are_judged_apart(tmp_path: Path) -> None:
    """One convolution gives boxes and scores: no concatenation tells them apart."""

    def made(scale: float) -> Graph:
        make = Maker()
        make.add("image", ops.Input(Shape(6, 5, 8)))
        weights = make.random.normal(size=(6, 8, 1, 1))
        weights[4:] *= 0.005
        weights[5] *= scale
        make.add("found", ops.Conv2d(Constant.of(weights), None, ONE))
        return Graph(tuple(make.nodes), ("found",))

    assert verified(made(1.0), made(1.0), tmp_path).passed
    result = verified(made(1.01), made(1.0), tmp_path)
    assert not result.failed, "the threshold of the output does not find it"
    assert not result.passed and result.wrong_maps[0].part.startswith("channel")


@needs_compiler
def test_an_output_that_jumps_is_said_to_be_judged_by_its_sqnr(tmp_path: Path) -> None:
    result = verified(detector(jumps=True), detector(jumps=True), tmp_path)
    assert result.passed and [each.name for each in result.outputs] == ["found, read by best", "best of these"]
    assert result.by_sqnr_alone == {"best": "rounding can change its values by any amount"}
    assert not verified(detector(30.0, jumps=True), detector(jumps=True), tmp_path).passed
