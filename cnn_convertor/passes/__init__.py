"""The device-independent rewrites, in the order they run."""

from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import BatchNorm, Identity, Input
from cnn_convertor.passes import canonicalize
from cnn_convertor.passes.average_products import average_products
from cnn_convertor.passes.clamp_shifts import clamp_shifts
from cnn_convertor.passes.contract import Pass, each_node, for_no_node, run_passes, settled, settling
from cnn_convertor.passes.drop_channels import drop_channels
from cnn_convertor.passes.drop_clips import drop_clips
from cnn_convertor.passes.fold_activations import fold_activations
from cnn_convertor.passes.fold_boxes import fold_boxes
from cnn_convertor.passes.fold_padding import fold_padding
from cnn_convertor.passes.fold_products import fold_products
from cnn_convertor.passes.fold_reshapes import fold_reshapes
from cnn_convertor.passes.fold_scales import fold_scales
from cnn_convertor.passes.fold_transposes import fold_transposes
from cnn_convertor.passes.fuse_hard_swish import fuse_hard_swish
from cnn_convertor.passes.hoist_activations import hoist_activations
from cnn_convertor.passes.hoist_crops import hoist_crops
from cnn_convertor.passes.hoist_scales import hoist_scales
from cnn_convertor.passes.merge_identical import merge_activations, merge_identical
from cnn_convertor.passes.nest_concats import nest_concats
from cnn_convertor.passes.sink_scales import sink_scales
from cnn_convertor.passes.swap_pool_conv import swap_pool_conv

NO_DEAD_NODES = for_no_node(
    "an output needs every node but inputs",
    lambda graph, node: not (graph.users(node.name) or graph.is_output(node.name) or isinstance(node.op, Input)),
)
NO_IDENTITIES = for_no_node("no node is an identity", lambda _, node: isinstance(node.op, Identity))
NO_BATCH_NORMS = for_no_node("scales are the only affine maps", lambda _, node: isinstance(node.op, BatchNorm))
SCALES_FOLDED = settled("no scale can be part of the weights next to it", fold_scales)
ACTIVATIONS_FOLDED = settled("no activation can be part of the operator before it", fold_activations)

PASSES: tuple[Pass, ...] = (
    Pass("remove-dead-nodes", Graph.without_dead, "first: no pass needs to understand dead nodes", (NO_DEAD_NODES,)),
    settling(
        "remove-identities",
        canonicalize.remove_identities,
        "no reshape keeps its shape or undoes another",
        "before passes that match neighbors: identities would separate these",
        also=(NO_IDENTITIES,),
    ),
    settling(
        "fold-boxes",
        each_node(fold_boxes),
        "the boxes of a detection are numbers, unless the network computes them",
        "what computed the boxes is dead then, and the last pass removes it",
    ),
    settling(
        "fuse-hard-swish",
        fuse_hard_swish,
        "no nodes compose a hard swish",
        "before its scales and activations are folded into other nodes",
        requires=(NO_IDENTITIES,),
    ),
    Pass(
        "batch-norms-to-scales",
        canonicalize.batch_norms_to_scales,
        "scales are the only affine maps from here on",
        (NO_BATCH_NORMS,),
    ),
    settling(
        "clamp-shifts",
        clamp_shifts,
        "no shift that only has to saturate a function exceeds FP16",
        "while each scale is a node: weights that absorb it, or pools above, do not tell whose number it was",
        requires=(NO_BATCH_NORMS,),
    ),
    settling(
        "differences-to-sums",
        canonicalize.differences_to_sums,
        "no node subtracts maps of one shape",
        "makes more scales",
    ),
    settling(
        "deconvolutions-to-convolutions",
        canonicalize.deconvolutions_to_convolutions,
        "a deconvolution has a stride, or cuts more of its output than its kernel reaches",
        "before passes that pools and padding wait for: a convolution can swap with them",
    ),
    settling(
        "drop-channels",
        drop_channels,
        "no weights produce channels that only crops drop",
        "before weights are folded, after all affine maps are scales",
        requires=(NO_DEAD_NODES, NO_BATCH_NORMS),
    ),
    settling(
        "fold-transposes",
        fold_transposes,
        "each transpose moves data",
        "makes reshapes for the passes below",
        requires=(NO_IDENTITIES,),
    ),
    settling(
        "hoist-crops",
        hoist_crops,
        "no transpose has only crops behind it that can be before it",
        "when transposes are folded into one, before the crops' own transposes become part of products",
        requires=(NO_IDENTITIES,),
    ),
    settling(
        "fold-products",
        fold_products,
        "no product of matrices has a transpose next to it that it can do itself",
        "after transposes are folded into one",
        requires=(NO_IDENTITIES,),
    ),
    settling(
        "average-products",
        average_products,
        "no product whose quotient alone matters is a sum",
        "when the transposes between the products are part of them",
        requires=(NO_IDENTITIES,),
    ),
    settling(
        "sink-reshapes",
        canonicalize.sink_reshapes,
        "no activation but PReLU follows a reshape of its own",
        "moves activations after Flatten next to a layer that can carry them",
        requires=(NO_IDENTITIES,),
    ),
    settling(
        "merge-activations",
        merge_activations,
        "a map has one activation of each kind",
        "several users with the same activation become one that can move",
    ),
    settling(
        "drop-clips",
        drop_clips,
        "no clip keeps all values that it can get",
        "while activations are nodes, and a clip that goes leaves a scale next to weights",
        requires=(NO_IDENTITIES,),
    ),
    settling(
        "nest-concats",
        nest_concats,
        "no concatenation begins with the maps of an earlier one",
        "before scales move up: each concatenation then has one part that they are inserted before",
        requires=(NO_IDENTITIES,),
    ),
    Pass(
        "fold-scales",
        fold_scales,
        "before activations: a scale after an activation does not fold into the weights before it",
        (SCALES_FOLDED,),
        (NO_IDENTITIES, NO_BATCH_NORMS),
    ),
    settling(
        "hoist-scales",
        hoist_scales,
        "no scale can join weights or pools above it",
        "scales with weights above them, but not next to them",
        requires=(NO_BATCH_NORMS, SCALES_FOLDED),
    ),
    settling(
        "sink-scales",
        sink_scales,
        "no scale can move below the next pool",
        "scales without weights above them: there may be weights below the next pool",
        requires=(SCALES_FOLDED,),
    ),
    Pass("fold-sunk-scales", fold_scales, "those", (SCALES_FOLDED,), (NO_BATCH_NORMS,)),
    settling(
        "hoist-other-scales",
        hoist_scales,
        "no scale can join weights or pools above it",
        "otherwise the pool's own factor may absorb them",
        requires=(SCALES_FOLDED,),
    ),
    Pass(
        "fold-activations",
        fold_activations,
        "after scales, which come first where both follow a layer",
        (ACTIVATIONS_FOLDED,),
        (SCALES_FOLDED,),
    ),
    settling(
        "hoist-activations",
        hoist_activations,
        "no activation can join operators above it",
        "the remaining ones",
        requires=(ACTIVATIONS_FOLDED,),
    ),
    settling(
        "swap-pool-conv",
        swap_pool_conv,
        "no average pool follows a pointwise convolution that may follow it",
        "once each convolution has its final bias and activation",
        requires=(SCALES_FOLDED, ACTIVATIONS_FOLDED),
    ),
    settling(
        "fold-padding",
        fold_padding,
        "no padding can be part of the window after it",
        "after activations: they decide whether a max pool can absorb zero padding",
        requires=(ACTIVATIONS_FOLDED,),
    ),
    settling(
        "fold-reshapes",
        fold_reshapes,
        "no vector that a fully connected layer reads is a reshaped map",
        "fixes the weight order of Dense",
        requires=(NO_IDENTITIES,),
    ),
    settling(
        "merge-identical",
        merge_identical,
        "no two nodes compute the same, but for outputs and custom layers",
        "last: layers that look identical before scales are folded may differ afterwards",
        requires=(ACTIVATIONS_FOLDED,),
    ),
    Pass("remove-replaced-nodes", Graph.without_dead, "those whose users read others now", (NO_DEAD_NODES,)),
)


def optimize(graph: Graph) -> Graph:
    """The graph after all device-independent passes."""
    return run_passes(PASSES, graph)
