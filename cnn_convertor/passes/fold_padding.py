"""Folds zero padding into the windows after it."""

from dataclasses import replace

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import Op


def fold_padding(graph: Graph) -> Graph:
    """Case 1: pad -> convolution; case 2: pad -> average pool that counts padding;
    case 3: pad -> max pool of values >= 0 (the pool's own padding is minus infinity, not zero);
    case 4: pad -> pad. A padding with several users folds into each that can absorb it."""
    return graph.fuse(_fold, shared=True)


def _fold(lookup: Lookup, first: Node, second: Node) -> Op | None:
    if not isinstance(first.op, ops.Pad):
        return None
    match second.op:
        case ops.Pad() as after:
            return replace(after, padding=after.padding + first.op.padding)
        case ops.Conv2d() | ops.AveragePool2d(uncounted=(0, 0, 0, 0)) as after:
            return replace(after, window=after.window._replace(padding=after.window.padding + first.op.padding))
        case ops.MaxPool2d() as after:
            total = after.window.padding + first.op.padding
            kernel = after.window.kernel
            # A window entirely inside the padding would have no values.
            fits = max(total[:2]) < kernel.height and max(total[2:]) < kernel.width
            if fits and is_never_negative(lookup, first.inputs[0]):
                return replace(after, window=after.window._replace(padding=total))
    return None


def is_never_negative(lookup: Lookup, name: str) -> bool:
    """Whether all elements of the named map are known to be >= 0."""
    visited = {name}
    to_see = [name]
    while to_see:
        node = lookup[to_see.pop()]
        match node.op:
            case ops.Softmax():
                continue
            case ops.Activation(function=function) if ops.never_negative(function):
                continue
            case op if isinstance(op, ops.Activated) and ops.never_negative(op.activation):
                continue
            case ops.AveragePool2d(activation=None) as pool if pool.fixed_factor < 0:
                return False
            case ops.MaxPool2d(activation=None) | ops.AveragePool2d(activation=None) | ops.Add(activation=None):
                pass
            case ops.Concat() | ops.Upsample() | ops.Pad() | ops.Reshape() | ops.Identity():
                pass
            case _:
                return False
        to_see += [before for before in node.inputs if before not in visited]
        visited.update(node.inputs)
    return True
