"""Recognizes hard swishes composed of a sum, a ReLU6 and products."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Activation, Binary, BinaryOp, HardSwish, Op, Relu6, Scale, Unary
from cnn_convertor.ir.patterns import Bound, Either, OfKind, first_match

X = Bound("x")
GATE = OfKind("relu6", (OfKind("+ 3", (X,)),))
SIXTH = OfKind("/ 6", (GATE,))
HARD_SWISH = Either(
    (
        OfKind("*", (X, Either((SIXTH, OfKind("* 1", (SIXTH,))))), commutes=True),
        OfKind("/ 6", (OfKind("*", (X, GATE), commutes=True),)),
    )
)


def fuse_hard_swish(graph: Graph) -> Graph:
    """x * relu6(x + 3) / 6 becomes one function, in both forms:

    1. x * (relu6(x + 3) / 6), as in Keras's MobileNetV3, also with a factor of 1 where ONNX rounds to integers
    2. (x * relu6(x + 3)) / 6
    """
    return graph.expand(_fused).without_dead()


def _fused(graph: Graph, node: Node) -> Iterable[Node] | None:
    match = first_match(_Steps(graph), HARD_SWISH, node.name)
    if match is None:
        return None
    steps = [graph[name] for name in match.nodes]
    origins = (o for step in steps if step is node or graph.is_private(step.name) for o in step.origins)
    fused = replace(node, op=Unary(HardSwish()), inputs=(match.values["x"],), main=node.where)
    return (replace(fused, origins=tuple(dict.fromkeys(origins))),)


@dataclass(frozen=True, slots=True)
class _Steps:
    """The operators of a graph that may be steps of a hard swish, as patterns ask for them."""

    graph: Graph

    def kind(self, name: str) -> str:
        return next((kind for kind, is_step in KINDS if is_step(self.graph[name].op)), "")

    def inputs(self, name: str) -> tuple[str, ...]:
        return self.graph[name].inputs

    def number(self, _: str) -> None:
        return None


KINDS: tuple[tuple[str, Callable[[Op], bool]], ...] = (
    ("*", lambda op: op == Binary(BinaryOp.MULTIPLY)),
    ("relu6", lambda op: op == Activation(Relu6())),
    ("/ 6", lambda op: _is_scale(op, factor=1 / 6, shift=0.0)),
    ("* 1", lambda op: _is_scale(op, factor=1.0, shift=0.0)),
    ("+ 3", lambda op: _is_scale(op, factor=1.0, shift=3.0)),
)


def _is_scale(op: Op, *, factor: float, shift: float) -> bool:
    if not isinstance(op, Scale) or op.activation is not None:
        return False
    return _are(op.factor, factor) and (
        op.shift is None if shift == 0 else op.shift is not None and _are(op.shift, shift)
    )


def _are(constant: Constant, value: float) -> bool:
    return bool(np.all(constant.load_wide().astype(np.float32) == np.float32(value)))
