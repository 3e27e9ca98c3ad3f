"""Where convertors of this kind go wrong (spec/pitfalls.md), as far as no room of the package has a test of its own for it."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.rules import check
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.program import LayerType
from cnn_convertor.errors import UnsupportedError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from devices.dv700.legal import legalize
from examples.caffemodel import write
from frontends.loading import load_caffe
from reference import ir_reference, program_reference

Real = NDArray[np.float64]
RANDOM = np.random.default_rng(0)
BOTH = pytest.mark.parametrize("transposed", [False, True])


def some(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape))


def program(graph: Graph, *, transposed: bool) -> Program:
    limits = Limits()
    device = DV700._replace(limits=limits)
    legal = legalize(optimize(graph), device, transposed=transposed)
    graph, steps = partition(legal, device, transposed=transposed)
    check(graph, steps, device, legal=legal)
    return lower(graph, steps, name="net", transposed=transposed)


def agrees(graph: Graph, *, transposed: bool) -> Program:
    """The program, which computes what the network computes."""
    made = program(graph, transposed=transposed)
    inputs = {node.name: RANDOM.normal(size=graph.shape(node.name)) for node in graph.inputs}
    values = ir_reference.run(graph, inputs)
    for name, got in zip(graph.outputs, program_reference.run(made, inputs), strict=True):
        expected = program_reference.as_output(values[name], graph[name].op, transposed=transposed)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    return made


def chain(*made: Op, shape: Shape) -> Graph:
    nodes = [Node("x", ops.Input(shape))]
    for op, name in zip(made, "abcdefgh", strict=False):
        nodes.append(Node(name, op, (nodes[-1].name,)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def conv(out: int, channels: int, side: int = 1) -> Op:
    return ops.Conv2d(some(out, channels, side, side), some(out), Window(Pair(side, side)))


# --- Caffe ---------------------------------------------------------------------------------------------------------------


def caffes_pool(values: Real, kernel: int, stride: int, pad: int, *, average: bool) -> Real:
    """pooling_layer.cpp, axis by axis alike, written out: (H, W) -> (h, w)."""
    size = len(values)
    count = math.ceil((size + 2 * pad - kernel) / stride) + 1
    if pad and (count - 1) * stride >= size + pad:
        count -= 1
    result = np.empty((count, count))
    for i, j in np.ndindex(count, count):
        top, left = i * stride - pad, j * stride - pad
        bottom, right = min(top + kernel, size + pad), min(left + kernel, size + pad)
        area = max(bottom - top, 0) * max(
            right - left, 0
        )  # padding counts, what lies beyond it does not; 0: no window at all
        window = values[max(top, 0) : min(bottom, size), max(left, 0) : min(right, size)]
        result[i, j] = window.max(initial=-np.inf) if not average else window.sum() / area if area else -np.inf
    return result


@pytest.mark.parametrize("method", ["AVE", "MAX"])
def test_caffe_pools_of_every_size_are_caffes(method: str, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    seen = 0
    for size, kernel, stride, pad in itertools.product((4, 5, 6, 7), (1, 2, 3, 4), (1, 2, 3), (0, 1, 2)):
        if pad >= kernel or kernel > size + 2 * pad:
            continue
        values = RANDOM.normal(size=(size, size))
        expected = caffes_pool(values, kernel, stride, pad, average=method == "AVE")
        settings = f"pooling_param {{ pool: {method} kernel_size: {kernel} stride: {stride} pad: {pad} }}"
        path.write_text(
            f'input: "x" input_shape {{ dim: 1 dim: 1 dim: {size} dim: {size} }}\n'
            f'layer {{ name: "y" type: "Pooling" bottom: "x" top: "y" {settings} }}'
        )
        try:
            graph = load_caffe(path, path)
        except UnsupportedError:
            assert np.isinf(expected).any(), "a window that sees nothing is all that may be refused"
            continue
        got = ir_reference.run(graph, {"x": values[:, :, None]})["y"][:, :, 0]
        np.testing.assert_allclose(got, expected, atol=1e-6, err_msg=settings)
        seen += 1
    assert seen > 50


@BOTH
@pytest.mark.parametrize("end", ["in place", "concatenation", "several outputs"])
def test_networks_may_end_anyhow(end: str, transposed: bool, tmp_path: Path) -> None:
    def layer(name: str, type: str, bottoms: str, top: str, more: str = "") -> str:
        reads = " ".join(f'bottom: "{bottom}"' for bottom in bottoms.split())
        return f'layer {{ name: "{name}" type: "{type}" {reads} top: "{top}" {more} }}\n'

    one = "convolution_param { num_output: 8 kernel_size: 1 }"
    network = layer("c", "Convolution", "x", "c", one)
    network += {
        "in place": layer("r", "ReLU", "c", "c") + layer("d", "Dropout", "c", "c"),
        "concatenation": layer("k", "Concat", "c x c", "k"),
        "several outputs": layer("r", "TanH", "c", "r") + layer("d", "Convolution", "c", "d", one),
    }[end]
    (tmp_path / "net.prototxt").write_text('input: "x" input_shape { dim: [1, 8, 3, 5] }\n' + network)
    blobs = [RANDOM.normal(size=(8, 8, 1, 1)), RANDOM.normal(size=8)]
    kept = [(name, "Convolution", blobs) for name in ("c", "d") if f'name: "{name}" type: "Conv' in network]
    write(tmp_path / "net.caffemodel", kept)
    graph = load_caffe(tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    assert len(graph.outputs) == (2 if end == "several outputs" else 1)
    agrees(graph, transposed=transposed)


# --- the device ----------------------------------------------------------------------------------------------------------


@BOTH
def test_an_activation_behind_a_sum_or_a_lone_batch_norm_needs_no_layer(transposed: bool) -> None:
    norm = ops.BatchNorm(some(9), Constant.of(RANDOM.uniform(0.5, 2, 9)), some(9), some(9), 1e-3)
    relu = ops.Activation(ops.Relu())
    assert len(agrees(chain(norm, relu, shape=Shape(3, 4, 9)), transposed=transposed).layers) == 2  # and the flatten
    nodes = (Node("x", ops.Input(Shape(3, 4, 8))), Node("a", ops.Add(), ("x", "x")), Node("b", relu, ("a",)))
    assert len(agrees(Graph(nodes, ("b",)), transposed=transposed).layers) == 1


@BOTH
@pytest.mark.parametrize("shape", [Shape(1, 1, 40), Shape(1, 5, 8), Shape(5, 1, 8), Shape(4, 5, 1)])
def test_a_flatten_that_moves_nothing_is_free(shape: Shape, transposed: bool) -> None:
    graph = chain(conv(shape.channels, shape.channels), ops.Reshape(Shape(1, 1, shape.size), Order.HWC), shape=shape)
    types = {layer.type for layer in agrees(graph, transposed=transposed).layers}
    assert (LayerType.FLATTEN in types) == (shape == (4, 5, 1) and not transposed)


@BOTH
def test_a_softmax_leaves_its_input_to_other_readers(transposed: bool) -> None:
    nodes = [
        Node("x", ops.Input(Shape(1, 1, 8))),
        Node("logits", conv(1000, 8), ("x",)),
        Node("prob", ops.Softmax(), ("logits",)),
        Node("after", ops.Activation(ops.Relu()), ("logits",)),
    ]
    made = agrees(Graph(tuple(nodes), ("prob", "after", "logits")), transposed=transposed)
    types = {layer.type for layer in made.layers}
    assert LayerType.CUSTOM in types and LayerType.SOFTMAX not in types


@BOTH
def test_maps_one_high_one_wide_and_of_one_or_nine_channels(transposed: bool) -> None:
    for height, width, channels in itertools.product((1, 9), (1, 9), (1, 9)):
        window = Window(Pair(min(3, height), min(3, width)), padding=Padding(0, height > 1, width > 1, 0))
        weight = some(9, channels, *window.kernel)
        depthwise = ops.Conv2d(some(9, 1, 1, 1), None, Window(ops.ONE), groups=9)
        graph = chain(
            ops.Conv2d(weight, some(9), window), depthwise, ops.Activation(ops.PRelu(some(9))),
            ops.MaxPool2d(Window(Pair(min(2, height), min(2, width)))), conv(1, 9), shape=Shape(height, width, channels),
        )  # fmt: skip
        agrees(graph, transposed=transposed)


@BOTH
@pytest.mark.parametrize("after", ["convolution", "max pool", "average pool", "global pool", "batch norm", "sum"])
def test_padding_with_an_unequal_number_on_each_side_before_anything(after: str, transposed: bool) -> None:
    window = Window(Pair(3, 3), Pair(2, 2))
    made: dict[str, Op] = {
        "convolution": ops.Conv2d(some(9, 9, 3, 3), None, window),
        "max pool": ops.MaxPool2d(window),
        "average pool": ops.AveragePool2d(window),
        "global pool": ops.AveragePool2d(Window(Pair(12, 11))),
        "batch norm": ops.Scale(some(9), some(9)),
        "sum": ops.Add(),
    }
    pad = ops.Pad(Padding(1, 2, 3, 0))
    inputs = ("a", "a") if after == "sum" else ("a",)
    nodes = (Node("x", ops.Input(Shape(9, 8, 9))), Node("a", pad, ("x",)), Node("b", made[after], inputs))
    agrees(Graph(nodes, ("b",)), transposed=transposed)


@BOTH
def test_padding_that_two_layers_read(transposed: bool) -> None:
    nodes = (
        Node("x", ops.Input(Shape(5, 4, 8))),
        Node("a", ops.Pad(Padding(1, 2, 0, 1)), ("x",)),
        Node("b", ops.Conv2d(some(8, 8, 3, 3), None, Window(Pair(3, 3))), ("a",)),
        Node("c", ops.MaxPool2d(Window(Pair(3, 3))), ("a",)),
        Node("d", ops.Add(), ("b", "c")),
    )
    agrees(Graph(nodes, ("d",)), transposed=transposed)


@BOTH
@pytest.mark.parametrize("groups", [1, 2, 16])
def test_a_deconvolution_in_a_command_with_others_is_turned_like_one_alone(groups: int, transposed: bool) -> None:
    window = Window(Pair(3, 3), Pair(2, 2), padding=Padding(1, 0, 1, 0))
    deconv = ops.ConvTranspose2d(some(16, 16 // groups, 3, 3), some(16), window, groups=groups)
    pool = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)))
    agrees(
        chain(conv(16, 16), deconv, ops.Activation(ops.Relu()), pool, conv(8, 16), shape=Shape(5, 4, 16)),
        transposed=transposed,
    )


@BOTH
def test_one_map_in_two_concatenations_with_the_input_and_with_itself_off_chunks(transposed: bool) -> None:
    nodes = (
        Node("x", ops.Input(Shape(3, 4, 5))),
        Node("a", conv(11, 5), ("x",)),
        Node("b", ops.Concat(), ("a", "x", "a")),
        Node("c", ops.Concat(), ("x", "a")),
        Node("d", conv(8, 27), ("b",)),
        Node("e", conv(8, 16), ("c",)),
        Node("f", ops.Add(), ("d", "e")),
    )
    agrees(Graph(nodes, ("f", "b")), transposed=transposed)


# --- every line ----------------------------------------------------------------------------------------------------------

# Section of spec/pitfalls.md -> the first words of each line -> the names of the tests that cover it.
LINES: dict[str, dict[str, str]] = {
    "Caffe": {
        "Deconvolution weights are": (
            "test_weights_are_read_in_ranges_of_rows "
            "test_a_deconvolution_in_a_command_with_others_is_turned_like_one_alone"
        ),
        "`dilation` is a field": (
            "test_it_computes_what_caffe_computes_or_is_refused test_a_layer_that_makes_no_sense_is_an_error"
        ),
        "Nets that end in": "test_networks_may_end_anyhow test_outputs_keep_the_order_of_the_definition",
        "Eltwise PROD, MAX": (
            "test_a_layer_computes_what_it_should test_a_form_that_cannot_be_converted_is_refused test_single_layers"
        ),
        "BatchNorm: `eps`": "test_a_layer_computes_what_it_should",
        "Pooling rounds up": "test_caffe_pools_of_every_size_are_caffes",
        "`input:` headers": (
            "test_inputs_of_every_form "
            "test_split_gives_its_input_to_every_output "
            "test_rules_choose_the_layers_of_test_time "
            "test_types_of_forks_in_old_definitions "
            "test_every_form_of_a_blob_gives_the_same_numbers "
            "test_half_precision_of_forks "
            "test_settings_in_the_weights_file_mean_nothing"
        ),
        "Missing blobs are": (
            "test_all_missing_weights_are_listed "
            "test_weights_that_do_not_fit_are_an_error "
            "test_other_weights_that_are_missing_are_never_made_up"
        ),
    },
    "Keras": {
        "ZeroPadding2D is": (
            "test_every_layer_in_every_setting "
            "test_networks "
            "test_padding_with_an_unequal_number_on_each_side_before_anything "
            "test_padding_that_two_layers_read"
        ),
        "`dilation_rate`, `output_padding`": (
            "test_every_layer_in_every_setting test_sizes_may_be_one_number_or_height_and_width"
        ),
        '"same" pads more': "test_every_layer_in_every_setting test_keras_layers",
        "Activation given as": (
            "test_every_layer_in_every_setting "
            "test_networks "
            "test_a_softmax_that_is_an_activation_keeps_its_axis "
            "test_what_cannot_be_converted_is_refused"
        ),
        "UpSampling interpolation;": (
            "test_every_layer_in_every_setting test_bilinear_upsampling_is_that_of_the_version_that_saved_the_file"
        ),
        "Shared layers called": (
            "test_networks "
            "test_a_shared_layer_gives_a_node_for_each_call "
            "test_nested_models_of_keras_2 "
            "test_dense_on_a_map_acts_on_the_channels "
            "test_several_inputs_and_outputs "
            "test_models_inside_models "
            "test_one_map_in_two_concatenations_with_the_input_and_with_itself_off_chunks"
        ),
        "`data_format`: per": (
            "test_channels_first_is_channels_last_with_other_axes "
            "test_mixed_data_formats_turn_the_map "
            "test_the_first_layer_that_tells_decides_on_the_inputs_axes "
            "test_channels_that_an_axis_alone_tells_to_come_first"
        ),
        "BatchNormalization without": "test_every_layer_in_every_setting test_networks",
        "Theano-backend kernels": (
            "test_theano_kernels_are_turned "
            "test_texts_may_be_bytes_or_str_or_cut_into_parts "
            "test_theanos_padding_is_warned_of_where_it_is_another "
            "test_operations_of_keras_3_are_no_layers"
        ),
    },
    "Device": {
        "Zero padding (a layer": "test_padding_folds test_padding_that_stays",
        "Palette: zero padding": "test_padding_is_palette_entry_zero test_zeros_and_nans_have_entry_zero",
        "A search for tiles": "test_the_search_for_tiles_ends",
        "A merged block's branches": (
            "test_fused_commands_give_what_the_graph_means "
            "test_a_deconvolution_in_a_command_with_others_is_turned_like_one_alone"
        ),
        "A tensor used by two": (
            "test_a_map_lies_in_one_concatenation_and_once "
            "test_one_map_in_two_concatenations_with_the_input_and_with_itself_off_chunks"
        ),
        "Palette weights with PReLU": "test_slopes_travel_with_fp16_weights test_rewrites test_rule",
        "Activations after an": "test_an_activation_behind_a_sum_or_a_lone_batch_norm_needs_no_layer",
        "The SDK's softmax writes FP16": (
            "test_a_softmax_behind_a_view_has_four_bytes_an_element "
            "test_a_softmax_leaves_its_input_to_other_readers "
            "test_a_flatten_that_moves_nothing_is_free"
        ),
    },
    "Facts about Caffe, measured": {
        "Pooling output = ceil": (
            "test_caffe_pools_of_every_size_are_caffes test_it_computes_what_caffe_computes_or_is_refused"
        ),
        "AVE divides by": "test_caffe_pools_of_every_size_are_caffes",
        "BatchNorm: mean and variance": "test_a_layer_computes_what_it_should",
        "PReLU = max": "test_a_layer_computes_what_it_should",
        "LRN across channels": "test_a_layer_computes_what_it_should",
        "Normalize: eps": "test_a_layer_computes_what_it_should",
        "PriorBox: min and": (
            "test_boxes_without_settings_spread_over_the_image test_all_settings_of_boxes test_the_boxes_themselves"
        ),
        "DetectionOutput: rows": (
            "test_rows_are_ordered_by_label_and_then_by_confidence "
            "test_boxes_are_told_from_prior_boxes "
            "test_nothing_is_detected"
        ),
        "Power (shift": "test_a_layer_computes_what_it_should",
        "ArgMax without axis": "test_a_layer_computes_what_it_should",
        "Pooling field 13": "test_settings_in_the_weights_file_mean_nothing",
    },
}


@pytest.mark.parametrize("section", LINES)
def test_every_line_has_its_tests(section: str, shared: Path) -> None:
    text = (shared / "spec" / "pitfalls.md").read_text()
    lines = [
        line[2:] for line in text.split(f"## {section}\n")[1].split("\n## ")[0].splitlines() if line.startswith("- ")
    ]
    tests = LINES[section]
    assert set(LINES) == set(re.findall(r"^## (.*)$", text, re.MULTILINE))
    assert [next((start for start in tests if line.startswith(start)), line) for line in lines] == list(tests)
    sources = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    defined = set(re.findall(r"^ *def (test_\w+)\(", sources, re.MULTILINE))
    assert set(" ".join(tests.values()).split()) <= defined
