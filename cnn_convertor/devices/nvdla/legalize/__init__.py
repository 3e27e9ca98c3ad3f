"""Rewrites operators that NVDLA lacks into equal ones that it has; the CPU has the rest."""

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.legalize.assign_cpu import on_cpu
from cnn_convertor.devices.nvdla.legalize.channel_convolutions import channel_gathers, ragged_concatenations
from cnn_convertor.devices.nvdla.legalize.deconvolutions import deconvolutions, upsampling
from cnn_convertor.devices.nvdla.legalize.dense import dense_to_convolutions
from cnn_convertor.devices.nvdla.legalize.fold_pixels import fold_pixels
from cnn_convertor.devices.nvdla.legalize.groups import grouped_deconvolutions, groups
from cnn_convertor.devices.nvdla.legalize.hard_swish import hard_swish
from cnn_convertor.devices.nvdla.legalize.into_parts import into_parts
from cnn_convertor.devices.nvdla.legalize.pools import bare_pools, small_pools
from cnn_convertor.devices.nvdla.legalize.shared_parts import copies_for_shared_parts
from cnn_convertor.devices.nvdla.legalize.split_channels import split_channels
from cnn_convertor.devices.nvdla.legalize.wide_padding import wide_padding
from cnn_convertor.passes import NO_BATCH_NORMS, NO_IDENTITIES
from cnn_convertor.passes.canonicalize import remove_identities
from cnn_convertor.passes.contract import Pass, each_node, settled_by, settling


def legalization(configuration: Configuration) -> tuple[Pass, ...]:
    """The rewrites for a configuration, in the order they run."""
    return (
        settling(
            "dense-to-convolutions",
            each_node(dense_to_convolutions),
            "no layer is fully connected, unless its kernels are too large",
            "first: the other rewrites know convolutions",
            requires=(NO_IDENTITIES, NO_BATCH_NORMS),
        ),
        settling(
            "groups-of-deconvolutions",
            each_node(grouped_deconvolutions),
            "no deconvolution has groups",
            "before each becomes a convolution",
        ),
        settling(
            "deconvolutions",
            each_node(deconvolutions),
            "no deconvolution can be a convolution and a spreading of its channels",
            "before convolutions: it makes one",
        ),
        settling(
            "upsampling",
            each_node(upsampling),
            "no upsampling can be a convolution and a spreading of its channels",
            "the same",
        ),
        settling(
            "bare-pools",
            settled_by(bare_pools),
            "no pool has an activation or a factor",
            "before pools are divided",
        ),
        settling(
            "small-pools",
            each_node(small_pools),
            "no pool is a chain of small ones, or a convolution",
            "before convolutions of groups: it makes some",
        ),
        settling(
            "hard-swish",
            each_node(hard_swish),
            "no layer is a hard swish",
            "before it is known what tables are for",
        ),
        settling(
            "channel-gathers",
            each_node(channel_gathers),
            "no node chooses channels alone",
            "before the CPU takes other moves",
        ),
        settling(
            "wide-padding",
            each_node(wide_padding),
            "padding is smaller than kernels",
            "when all convolutions are known",
        ),
        settling(
            "groups",
            each_node(lambda graph, node: groups(graph, node, configuration)),
            "no convolution that fits has groups",
            "when all convolutions are known",
        ),
        settling(
            "split-channels",
            each_node(lambda graph, node: split_channels(graph, node, configuration)),
            "the convolution buffer holds each convolution, if fewer channels can make it so",
            "when convolutions are final",
        ),
        settling(
            "into-parts",
            lambda graph: settled_by(into_parts)(graph).without_dead(),
            "no function alone reads what convolutions of groups write",
            "such convolutions have it on the fly",
        ),
        settling(
            "ragged-concatenations",
            each_node(ragged_concatenations),
            "each part of a concatenation of channels begins with a surface",
            "when it is known which maps are parts",
        ),
        settling(
            "fold-pixels",
            lambda graph: remove_identities(graph.expand(lambda g, node: fold_pixels(g, node, configuration))),
            "no operator of pixels has a side that is too long",
            "when the operators of the device are final",
        ),
        settling(
            "on-cpu",
            each_node(lambda graph, node: on_cpu(graph, node, configuration)),
            "every node is the device's, or the CPU's",
            "the rest",
        ),
        settling(
            "copy-shared-parts",
            copies_for_shared_parts,
            "no map has two places in memory",
            "when it is known which concatenations are in place",
        ),
    )
