"""Recognizes hard swishes composed of a sum, a ReLU6 and products."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Activation, Binary, BinaryOp, HardSwish, Op, Relu6, Scale, Unary


def fuse_hard_swish(graph: Graph) -> Graph:
    """x * relu6(x + 3) / 6 becomes one function, in both forms:

    1. x * (relu6(x + 3) / 6), as in Keras's MobileNetV3
    2. (x * relu6(x + 3)) / 6
    """
    return graph.expand(_fused).without_dead()


def _fused(graph: Graph, node: Node) -> Iterable[Node] | None:
    for source, *steps in _ways(graph, node):
        if [_kind(step.op) for step in steps] in (["+ 3", "relu6", "/ 6", "*"], ["+ 3", "relu6", "*", "/ 6"]):
            product = next(step for step in steps if _kind(step.op) == "*")
            if source.name in product.inputs:
                origins = (o for step in steps if step == node or graph.is_private(step.name) for o in step.origins)
                fused = replace(node, op=Unary(HardSwish()), inputs=(source.name,), main=node.where)
                return (replace(fused, origins=tuple(dict.fromkeys(origins))),)
    return None


def _ways(graph: Graph, node: Node, length: int = 4) -> Iterable[tuple[Node, ...]]:
    """Every path of that many hard-swish steps to the node, beginning with its source."""
    if length == 0:
        yield (node,)
    elif _kind(node.op):
        for name in dict.fromkeys(node.inputs):
            for way in _ways(graph, graph[name], length - 1):
                yield (*way, node)


KINDS: tuple[tuple[str, Callable[[Op], bool]], ...] = (
    ("*", lambda op: op == Binary(BinaryOp.MULTIPLY)),
    ("relu6", lambda op: op == Activation(Relu6())),
    ("/ 6", lambda op: _is_scale(op, factor=1 / 6, shift=0.0)),
    ("+ 3", lambda op: _is_scale(op, factor=1.0, shift=3.0)),
)


def _kind(op: Op) -> str:
    """The step of a hard swish that the operator may be; empty for none."""
    return next((kind for kind, is_it in KINDS if is_it(op)), "")


def _is_scale(op: Op, *, factor: float, shift: float) -> bool:
    if not isinstance(op, Scale) or op.activation is not None:
        return False
    return _are(op.factor, factor) and (
        op.shift is None if shift == 0 else op.shift is not None and _are(op.shift, shift)
    )


def _are(constant: Constant, value: float) -> bool:
    return bool(np.all(constant.load_wide().astype(np.float32) == np.float32(value)))
