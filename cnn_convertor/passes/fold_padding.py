"""Gives a layer of zero padding to the windows after it."""

from __future__ import annotations

from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import (
    NO_PADDING,
    Activation,
    Add,
    AveragePool2d,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Dense,
    Identity,
    MaxPool2d,
    Op,
    Pad,
    Reshape,
    Scale,
    Softmax,
    Upsample,
    never_negative,
)


def fold_padding(graph: Graph) -> Graph:
    """Case 1: pad -> convolution; case 2: pad -> average pool that counts padding;
    case 3: pad -> max pool of values that are known to be >= 0 (the pool's own padding never wins, a zero may);
    case 4: pad -> pad. A padding with several users goes to each that can take it."""
    return graph.fuse(_fold, shared=True)


def _fold(lookup: Lookup, first: Node, second: Node) -> Op | None:
    match first.op, second.op:
        case Pad(padding=padding), Conv2d() as after:
            return replace(after, window=after.window._replace(padding=after.window.padding + padding))
        case Pad(padding=padding), AveragePool2d(uncounted=uncounted) as after if uncounted == NO_PADDING:
            return replace(after, window=after.window._replace(padding=after.window.padding + padding))
        case Pad(padding=padding), MaxPool2d() as after:
            total, kernel = after.window.padding + padding, after.window.kernel
            # a window that lay in the padding as a whole would have nothing to take the maximum of
            if (
                max(total[:2]) < kernel.height
                and max(total[2:]) < kernel.width
                and is_never_negative(lookup, first.inputs[0])
            ):
                return replace(after, window=after.window._replace(padding=total))
            return None
        case Pad(padding=padding), Pad() as after:
            return replace(after, padding=after.padding + padding)
        case _:
            return None


def is_never_negative(lookup: Lookup, name: str) -> bool:
    """Whether every element of the named map is known to be >= 0: whether all is that it comes from."""
    seen = {name}
    to_see = [name]
    while to_see:
        node = lookup[to_see.pop()]
        match node.op:
            case Activation(function=function) if never_negative(function):
                continue
            case Conv2d() | ConvTranspose2d() | Dense() | Scale() | MaxPool2d() | AveragePool2d() | Add() as op if (
                never_negative(op.activation)
            ):
                continue
            case Softmax():
                continue
            case AveragePool2d(activation=None) as pool if pool.fixed_factor < 0:
                return False
            case MaxPool2d(activation=None) | AveragePool2d(activation=None) | Add(activation=None):
                pass
            case Concat() | Upsample() | Pad() | Reshape() | Identity():
                pass
            case _:
                return False
        to_see += [before for before in node.inputs if before not in seen]
        seen.update(node.inputs)
    return True
