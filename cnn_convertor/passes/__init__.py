"""The rewrites that hold for any device, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Callable

from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes.canonicalize import (
    batch_norms_to_scales,
    differences_to_sums,
    remove_identities,
    sink_reshapes,
)
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

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    Graph.without_dead,  # first: nothing that is thrown away needs to be understood
    remove_identities,  # before all that looks at neighbors: what passes data on would hide them
    fuse_hard_swish,  # before scales and activations are folded into what stands before them
    batch_norms_to_scales,  # one kind of affine map from here on
    differences_to_sums,  # one more of them
    drop_channels,  # before weights are folded, and once scales are of one kind
    fold_transposes,  # what becomes a reshape by it, the next ones know how to treat
    sink_reshapes,  # an activation after Flatten moves before it, next to the layer that can carry it
    merge_activations,  # several readers that apply the same function are one that may move
    fold_scales,  # before activations: a scale after an activation cannot be folded backwards
    hoist_scales,  # what has weights above it, though not next to it
    sink_scales,  # what has none: perhaps there are some below the next pool
    fold_scales,  # those
    hoist_scales,  # or else the pool itself can take the factor
    fold_activations,
    hoist_activations,  # what is left of them
    swap_pool_conv,  # once it is known which convolutions have an activation, or a bias
    fold_padding,  # after activations: they tell where zero padding may join a max pool
    fold_reshapes,  # Dense takes its final weights' order here
    merge_identical,  # last: before scales are folded, layers are alike that are none afterwards
    Graph.without_dead,
)


def optimize(graph: Graph) -> Graph:
    """Run all passes."""
    for rewrite in PASSES:
        graph = rewrite(graph)
    return graph
