"""Rewrites operators that the device lacks into equal ones that it has; rules.py refuses the rest."""

from cnn_convertor.devices.dv700.commands import is_view
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.legalize import decompose_conv as convolutions
from cnn_convertor.devices.dv700.legalize.assign_cpu import on_cpu, pools_on_cpu
from cnn_convertor.devices.dv700.legalize.channel_gathers import join_gathers
from cnn_convertor.devices.dv700.legalize.choose_executors import choose_executors
from cnn_convertor.devices.dv700.legalize.clamp_strides import clamp_strides
from cnn_convertor.devices.dv700.legalize.decompose_conv import Rule
from cnn_convertor.devices.dv700.legalize.drop_taps import drop_taps
from cnn_convertor.devices.dv700.legalize.fit_limits import fit_pixels, refold_pixels, split_channels
from cnn_convertor.devices.dv700.legalize.in_pieces import in_pieces
from cnn_convertor.devices.dv700.legalize.maximizers import classes_in_bytes
from cnn_convertor.devices.dv700.legalize.memory_views import (
    channel_slices,
    copies_for_shared_parts,
    flattened_outputs,
    free_reshapes,
)
from cnn_convertor.devices.dv700.legalize.sdk_softmax import sdk_softmax
from cnn_convertor.devices.dv700.legalize.single_operators import single_operators, small_pools, split_activations
from cnn_convertor.devices.dv700.legalize.split_concat_pool import pool_parts
from cnn_convertor.devices.dv700.legalize.split_slopes import PaletteTargets, split_slopes
from cnn_convertor.devices.dv700.legalize.tile_maps import gather_taps, tile_maps
from cnn_convertor.devices.dv700.operators import OPERATORS
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.passes import NO_BATCH_NORMS, NO_IDENTITIES
from cnn_convertor.passes.contract import (
    Pass,
    Rewrite,
    each_node,
    for_no_node,
    settled,
    settled_by,
    settling,
)

HAS_LAYERS = for_no_node(
    "every node is a view, or has a layer of the device, the runtime or the CPU",
    lambda _, node: not is_view(node) and OPERATORS[type(node.op)].layer is None,
)


def legalization(
    device: Device, fusion: Fusion, transposed: bool, uses_sdk_softmax: bool, palettes: PaletteTargets
) -> tuple[Pass, ...]:
    """The rewrites for the device, in the order they run. palettes: the layers that are to have them."""
    limits = device.limits

    def each(rule: Rule) -> Rewrite:
        return each_node(lambda graph, node: rule(graph, node, limits))

    dilates = Form.DILATED_DEPTHWISE in device.forms[fusion]

    small = settled("no pool is a chain of smaller ones", each(small_pools))
    split = settled("no activation needs a run of its own", lambda graph: split_activations(graph, device, fusion))
    softmax = settling(
        "sdk-softmax",
        each_node(sdk_softmax),
        "the runtime has each softmax",
        "before reshapes become views: it makes some",
    )
    pieces = settling(
        "in-pieces",
        in_pieces,
        "no map between two functions of elements is written for one reader",
        "last: it is known what the CPU does, and which maps are outputs",
        requires=(HAS_LAYERS,),
        also=(HAS_LAYERS,),
    )
    divided = settled_by(lambda graph, node: split_channels(graph, node, limits, transposed=transposed))
    return (
        settling(
            "clamp-strides",
            each(clamp_strides),
            "a stride that moves no window is within the limit, if it can be",
            "first: the other rewrites compare strides",
            requires=(NO_IDENTITIES, NO_BATCH_NORMS),
        ),
        settling(
            "drop-taps",
            each(drop_taps),
            "no border of a kernel sees padding alone",
            "before the rewrites that are for dilations and large kernels",
        ),
        settling(
            "join-gathers",
            lambda graph: join_gathers(graph, device),
            "no gather of channels can be part of weights beside it",
            "before executors are chosen: what is left needs one",
            requires=(NO_IDENTITIES,),
        ),
        settling(
            "choose-executors",
            lambda graph: choose_executors(graph, device, transposed=transposed, fusion=fusion),
            "no layer of the device saves time on the CPU, and no product of channels on the device",
            "when the device has not divided pools, which the CPU takes whole",
        ),
        Pass("split-pools", each(small_pools), "before the CPU takes the pools that are not a chain", (small,)),
        settling(
            "pools-on-cpu",
            each(pools_on_cpu),
            "the device has each pool that is not on the CPU",
            "those that are not a chain of small ones",
            requires=(small,),
        ),
        settling(
            "convolve-deconvolutions",
            each(convolutions.deconvolutions),
            "the device has each deconvolution",
            "before the rewrites of convolutions: it makes one",
        ),
        settling(
            "gather-taps",
            each(gather_taps),
            "strides and dilations of convolutions are within the limits",
            "before groups and dilations: it leaves none",
        ),
        settling(
            "tile-maps",
            settled_by(lambda graph, node: tile_maps(graph, node, limits)),
            "no window moves over a map that is too large",
            "before the rewrites of convolutions, each of which then has smaller maps",
        ),
        settling(
            "split-groups",
            each_node(lambda graph, node: convolutions.groups(graph, node, device, dilates_depthwise=dilates)),
            "a convolution has the groups that are fastest in one command",
            "before the rewrites that expect one group",
        ),
        settling(
            "fill-kernels",
            each_node(lambda graph, node: convolutions.dense_kernels(graph, node, limits, dilates_depthwise=dilates)),
            "groups are depthwise, and no dilation is better filled with zeros",
            "before the rewrites that expect dense kernels",
        ),
        settling(
            "pad-dilations",
            each(convolutions.dilations),
            "the device runs each dilation whose kernel is not too large",
            "those whose kernels could not be filled with zeros",
        ),
        settling(
            "strides-to-channels",
            each(convolutions.strided_kernels),
            "no large kernel is divided by its stride",
            "before what is still too large is split",
        ),
        settling(
            "split-kernels",
            each(convolutions.large_kernels),
            "no kernel of a convolution is too large",
            "after the rewrites that make kernels larger or smaller",
        ),
        settling(
            "split-padding",
            each(convolutions.wide_padding),
            "padding fits the fields of a command, unless the map is too large",
            "after the rewrites that make padding",
        ),
        settling(
            "split-channels",
            divided,
            "no operator has too many channels for a command",
            "when kernels are final, and before sums join the runs of convolutions",
        ),
        settling(
            "pool-parts",
            lambda graph: pool_parts(graph, fusion=fusion, device=device),
            "no max pool of a concatenation can join the runs of its parts",
            "when pools and convolutions are final",
        ),
        Pass(
            "split-activations",
            lambda graph: split_activations(graph, device, fusion),
            "when it is known which nodes can share a run",
            (split,),
        ),
        settling(
            "split-slopes",
            lambda graph: split_slopes(graph, palettes),
            "no layer that should have a palette has slopes, unless it is smaller with them",
            "before activations alone become operators of the device",
        ),
        settling(
            "split-channels-of-slopes",
            divided,
            "no activation has slopes for too many channels",
            "those that the passes before it make",
        ),
        settling(
            "single-operators",
            each(single_operators),
            "no scale, activation or padding stands alone",
            "also those that the passes before it make",
            requires=(split,),
        ),
        settling(
            "refold-pixels",
            lambda graph: fit_pixels(graph, limits),
            "no operator that treats each pixel by itself has a map that is too large",
            "when the operators of commands are final",
        ),
        *((softmax,) if uses_sdk_softmax else ()),
        settling(
            "free-reshapes",
            lambda graph: free_reshapes(graph, transposed=transposed),
            "a reshape that moves no data is a view",
            "before slices and copies, which depend on views",
        ),
        settling(
            "channel-slices",
            each_node(channel_slices),
            "a crop of whole chunks of channels is a view",
            "before the CPU takes the other crops",
        ),
        Pass("on-cpu", each(on_cpu), "the rest", (HAS_LAYERS,)),
        settling(
            "copy-shared-parts",
            copies_for_shared_parts,
            "no map has two places in memory",
            "after the reshapes: a flattened map may be a part",
            requires=(HAS_LAYERS,),
        ),
        settling(
            "refold-copies",
            lambda graph: refold_pixels(graph, limits).expand(lambda g, node: on_cpu(g, node, limits)),
            "no copy has a map that is too large",
            "those of shared parts",
            requires=(HAS_LAYERS,),
            also=(HAS_LAYERS,),
        ),
        settling(
            "flatten-outputs",
            flattened_outputs,
            "applications can read each output",
            "when outputs are final",
            requires=(HAS_LAYERS,),
            also=(HAS_LAYERS,),
        ),
        settling(
            "classes-in-bytes",
            lambda graph: classes_in_bytes(graph, device),
            "the maximizer has each arg max that it can have",
            "when no layer reads an output that has none so far",
            requires=(HAS_LAYERS,),
            also=(HAS_LAYERS,),
        ),
        *((pieces,) if fusion is not Fusion.NONE else ()),
    )
