"""The device-independent rewrites, in the order they run."""

from collections.abc import Callable
from typing import TypeAlias

from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes import canonicalize
from cnn_convertor.passes.drop_channels import drop_channels
from cnn_convertor.passes.fold_activations import fold_activations
from cnn_convertor.passes.fold_padding import fold_padding
from cnn_convertor.passes.fold_reshapes import fold_reshapes
from cnn_convertor.passes.fold_scales import fold_scales
from cnn_convertor.passes.fold_transposes import fold_transposes
from cnn_convertor.passes.fuse_hard_swish import fuse_hard_swish
from cnn_convertor.passes.hoist_activations import hoist_activations
from cnn_convertor.passes.hoist_scales import hoist_scales
from cnn_convertor.passes.merge_identical import merge_activations, merge_identical
from cnn_convertor.passes.sink_scales import sink_scales
from cnn_convertor.passes.swap_pool_conv import swap_pool_conv

Pass: TypeAlias = Callable[[Graph], Graph]
PassObserver: TypeAlias = Callable[[Pass, Graph, Graph], None]  # is given each pass, and the graph before and after

PASSES: tuple[Pass, ...] = (
    Graph.without_dead,  # first: no pass needs to understand dead nodes
    canonicalize.remove_identities,  # before passes that match neighbors: identities would separate these
    fuse_hard_swish,  # before its scales and activations are folded into other nodes
    canonicalize.batch_norms_to_scales,  # scales are the only affine maps from here on
    canonicalize.differences_to_sums,  # makes more scales
    drop_channels,  # before weights are folded, after all affine maps are scales
    fold_transposes,  # makes reshapes for the passes below
    canonicalize.sink_reshapes,  # moves activations after Flatten next to a layer that can carry them
    merge_activations,  # several users with the same activation become one that can move
    fold_scales,  # before activations: a scale after an activation does not fold into the weights before it
    hoist_scales,  # scales with weights above them, but not next to them
    sink_scales,  # scales without weights above them: there may be weights below the next pool
    fold_scales,  # those
    hoist_scales,  # otherwise the pool's own factor may absorb them
    fold_activations,
    hoist_activations,  # the remaining ones
    swap_pool_conv,  # once each convolution has its final bias and activation
    fold_padding,  # after activations: they decide whether a max pool can absorb zero padding
    fold_reshapes,  # fixes the weight order of Dense
    merge_identical,  # last: layers that look identical before scales are folded may differ afterwards
    Graph.without_dead,
)


def optimize(graph: Graph, observe: PassObserver | None = None) -> Graph:
    for rewrite in PASSES:
        after = rewrite(graph)
        if observe is not None:
            observe(rewrite, graph, after)
        graph = after
    return graph
