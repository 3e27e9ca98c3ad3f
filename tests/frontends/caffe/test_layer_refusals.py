"""Layers and settings that are refused, and why."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorWarning, ModelError, UnsupportedError
from frontends.caffe.layer_texts import CONVOLUTION, FOUR, HEADER, ROWS_HEADER, VECTOR_HEADER, layer, unpooling

UNSUPPORTED = {
    "unknown type": (layer("Warp"), "DV301", "layers of the type Warp cannot be converted"),
    "type in other letters": (layer("Relu"), "DV301", 'did you mean "ReLU"?'),
    "type with a typo": (layer("Convolutoin"), "DV301", 'did you mean "Convolution"?'),
    "type of a fork, named after Caffe's": (layer("YoloDetectionOutput"), "DV301", "let the network end before it"),
    "type of more dimensions": (layer("Pooling3D"), "DV301", "let the network end before it"),
    "data": (layer("Data", bottoms=()) + layer("Eltwise", bottoms=("y", "x"), tops=("z",)), "DV301", "replace it with an Input layer"),
    "words": (layer("Embed"), "DV301", "make them the network's input"),
    "LSTM": (layer("LSTM"), "DV301", "run the recurrent part in the application"),
    "RNN": (layer("RNN"), "DV301", "run the recurrent part in the application"),
    "Python": (layer("Python", "python_param { module: 'm' layer: 'l' }"), "DV301", "with Caffe's own layers"),
    "proposals": (layer("ROIPooling"), "DV301", "let the network end before it"),
    "stochastic pool": (layer("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }"), "DV302", "STOCHASTIC"),
    "leaky relu6": (layer("ReLU6", "relu_param { negative_slope: 0.1 }"), "DV302", "negative slope"),
    "concat of the batch": (layer("Concat", "concat_param { concat_dim: 0 }", bottoms=("x", "x")), "DV302", "axis 0 of 1x4x6x5"),
    "softmax of the batch": (layer("Softmax", "softmax_param { axis: 0 }"), "DV302", "axis 0 of 1x4x6x5"),
    "convolution of rows": (layer("Convolution", "convolution_param { num_output: 2 kernel_size: 1 axis: 2 }"), "DV302", "other axes"),
    "pool with its mask": (layer("Pooling", "pooling_param { kernel_size: 2 }", tops=("y", "m")), "DV302", "the mask of a pooling"),
    "pool with dilation": (layer("Pooling", "pooling_param { kernel_size: 2 dilation: 2 }"), "DV302", "pooling_param.dilation"),
    "pool of nothing": (layer("Pooling", "pooling_param { kernel_size: 1 stride: 7 }"), "DV302", "entirely beyond"),
    "unpooling by a map": (layer("Upsample", "upsample_param { scale: 2 }", bottoms=("x", "x")), "DV302", "is not the mask of a pooling"),
    "unpooling to another width": (unpooling("upsample_h: 6 upsample_w: 6"), "DV302", "give upsample_h: 6 and upsample_w: 5"),
    "unpooling to less": (unpooling("upsample_h: 5 upsample_w: 5"), "DV302", "an unpooling to the size 5x5"),
    "unpooling by two, as nothing is said": (unpooling(), "DV302", "an unpooling to the size 6x6"),
    "values that are a mask": (
        unpooling("upsample_h: 6 upsample_w: 5").replace('bottom: "p" bottom: "m"', 'bottom: "m" bottom: "m"'), "DV302", "an input of an unpooling",
    ),
    "arithmetic on a mask": (
        layer("Pooling", "pooling_param { kernel_size: 2 }", tops=("p", "m")).replace('"l"', '"pool"') + layer("ReLU", bottoms=("m",)),
        "DV302", "the mask of a pooling",
    ),
    "average pool with a mask": (layer("Pooling", "pooling_param { pool: AVE kernel_size: 2 }", tops=("y", "m")), "DV302", "2 outputs"),
    "upsample to a size": (layer("Upsample", "upsample_param { upsample_h: 9 }"), "DV302", 'by a given "scale"'),
    "upsample by two scales": (layer("Upsample", "upsample_param { scale: 2 scale_h: 3 scale_w: 2 }"), "DV302", 'by a given "scale"'),
    "upsample of one side": (layer("Upsample", "upsample_param { scale: 2 scale_h: 2 }"), "DV302", 'by a given "scale"'),
    "upsample with more": (layer("Upsample", "upsample_param { scale: 2 pad_out_h: true }"), "DV302", "pad_out_h"),
    "batch norm of the batch with scale": (
        layer("BatchNorm", "batch_norm_param { scale_bias: true use_global_stats: false }"), "DV302", "together with scale_bias",
    ),
    "BN of the batch": (layer("BN", "bn_param { bn_mode: LEARN }"), "DV302", "bn_mode: LEARN"),
    "training form": (layer("Dropout", "phase: TRAIN"), "DV302", "phase: TRAIN"),
    "largest of several samples": (
        layer("Reshape", "reshape_param { shape { dim: -1 dim: 5 } }").replace('"l"', '"m"') + layer("ArgMax", bottoms=("y",), tops=("z",)),
        "DV302", "each of several samples",
    ),
    "reduction of some of five axes": (
        layer("Reshape", "reshape_param { shape { dim: [0, 2, 2, 6, 5] } }").replace('"l"', '"m"')
        + layer("Reduction", "reduction_param { axis: 2 }", bottoms=("y",), tops=("z",)),
        "DV302", "a reduction of the axes 2 to 4 of 5",
    ),
    "input of five axes": (layer("Input", "input_param { shape { dim: [1, 2, 3, 4, 5] } }", bottoms=(), tops=("w",)) + layer("ReLU", bottoms=("w",)).replace('"l"', '"m"'), "DV302", "has 5 axes"),
    "depthwise in groups": (layer("DepthwiseConvolution", "convolution_param { num_output: 4 group: 2 }"), "DV302", "in 2 groups"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_a_form_that_cannot_be_converted_is_refused(case: str, load: Any) -> None:
    definition, code, says = UNSUPPORTED[case]
    with pytest.raises(UnsupportedError) as caught:
        load(HEADER + definition, {"l": [FOUR, FOUR, np.ones(1)]})
    (problem,) = caught.value.problems
    assert problem.code == code
    assert says in str(problem)
    assert problem.where is not None
    assert (problem.where.layer, problem.where.line) == ("l", 2)


SMALLER = layer("Pooling", "pooling_param { kernel_size: 2 }").replace('"l"', '"m"')
SENSELESS = {
    "no type": (layer(""), "DV212", "the layer has no type"),
    "no kernel": (layer("Convolution", "convolution_param { num_output: 2 }"), "DV206", "no kernel size"),
    "no outputs": (layer("Convolution", "convolution_param { kernel_size: 2 }"), "DV206", '"num_output" is missing'),
    "outputs beyond all networks": (
        layer("Convolution", "convolution_param { kernel_size: 2 num_output: 2147483647 }"), "DV206", "more than 16777216",
    ),
    "no outputs, full": (layer("InnerProduct"), "DV206", '"num_output" is missing'),
    "stride 0": (layer("Convolution", CONVOLUTION % "stride: 0"), "DV206", "must be at least 1"),
    "kernel twice": (layer("Convolution", CONVOLUTION % "kernel_h: 3 kernel_w: 3"), "DV206", '"kernel_size" is given, and'),
    "half a stride": (layer("Convolution", CONVOLUTION % "stride_h: 2"), "DV206", "must be given together"),
    "three pads": (layer("Convolution", CONVOLUTION % "pad: [1, 1, 1]"), "DV206", '"pad" is given 3 times'),
    "three dilations": (layer("Convolution", CONVOLUTION % "dilation: [1, 1, 1]"), "DV206", '"dilation" is given 3 times'),
    "a kernel not fit any memory": (
        layer("Convolution", "convolution_param { num_output: 2 kernel_size: 60000 pad: 60000 bias_term: false }"),
        "DV205", "but the definition needs 2x4x60000x60000",
    ),
    "groups that do not divide": (layer("Convolution", CONVOLUTION % "group: 3"), "DV206", "do not make 3 groups"),
    "no group": (layer("Deconvolution", CONVOLUTION % "group: 0"), "DV206", "do not make 0 groups"),
    "axis beyond": (layer("Softmax", "softmax_param { axis: 4 }"), "DV206", "axis is 4, but the input has 4 axes"),
    "pool without kernel": (layer("Pooling"), "DV206", "no kernel size"),
    "pool padded too much": (layer("Pooling", "pooling_param { kernel_size: 2 pad: 2 }"), "DV206", "must be smaller than the kernel"),
    "padded global pool": (layer("Pooling", "pooling_param { global_pooling: true pad: 1 }"), "DV206", "no padding"),
    "floor pool wider than the map": (layer("Pooling", "pooling_param { kernel_size: 7 ceil_mode: false }"), "DV206", "does not fit"),
    "sum of one": (layer("Eltwise"), "DV206", "two inputs or more"),
    "coefficients missing": (layer("Eltwise", "eltwise_param { coeff: 2 }", bottoms=("x", "x")), "DV206", "1 coefficients"),
    "concat on two axes": (layer("Concat", "concat_param { axis: 1 concat_dim: 1 }"), "DV206", "both given"),
    "reshape to another size": (layer("Reshape", "reshape_param { shape { dim: 0 dim: 7 } }"), "DV206", "cannot become 1x7"),
    "reshape with two unknowns": (layer("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }"), "DV206", "cannot become"),
    "reshape with a 0 too many": (layer("Reshape", "reshape_param { shape { dim: [0, 0, 0, 0, 0] } }"), "DV206", "does not have"),
    "reshape beyond the axes": (layer("Reshape", "reshape_param { axis: 3 num_axes: 2 }"), "DV206", "do not fit an input"),
    "product with coefficients": (
        layer("Eltwise", "eltwise_param { operation: PROD coeff: 1 coeff: 1 }", bottoms=("x", "x")), "DV206", "for sums only",
    ),
    "LRN of an even size": (layer("LRN", "lrn_param { local_size: 4 }"), "DV206", "local_size is 4"),
    "clip without a maximum": (layer("Clip", "clip_param { min: 1 }"), "DV206", "must both be given"),
    "clip to nothing": (layer("Clip", "clip_param { min: 1 max: 0 }"), "DV206", "min is 1, above max"),
    "exponential of a negative base": (layer("Exp", "exp_param { base: -2 }"), "DV206", "the base is -2"),
    "logarithm of the base 1": (layer("Log", "log_param { base: 1 }"), "DV206", "the base 1"),
    "flatten backwards": (layer("Flatten", "flatten_param { axis: 3 end_axis: 2 }"), "DV206", "after end_axis"),
    "permute twice": (layer("Permute", "permute_param { order: 1 order: 1 }"), "DV206", "the order 1 1"),
    "permute beyond": (layer("Permute", "permute_param { order: 4 }"), "DV206", "the order 4"),
    "shuffle unequal groups": (layer("ShuffleChannel", "shuffle_channel_param { group: 3 }"), "DV206", "do not make 3 groups"),
    "unequal slices": (layer("Slice", tops=("a", "b", "c")), "DV206", "4 elements on axis 1 do not make 3 equal slices"),
    "slice points that fall": (layer("Slice", "slice_param { slice_point: [2, 1] }", tops=("a", "b", "c")), "DV206", "the slice points [2, 1]"),
    "slice on two axes": (layer("Slice", "slice_param { axis: 1 slice_dim: 1 }"), "DV206", "both given"),
    "crop without a reference": (layer("Crop"), "DV206", "needs two inputs"),
    "crop beyond": (layer("Crop", "crop_param { offset: 1 }", bottoms=("x", "x")), "DV206", "is not a part of 1x4x6x5"),
    "crop with three offsets": (layer("Crop", "crop_param { offset: [0, 0, 0] }", bottoms=("x", "x")), "DV206", "3 offsets"),
    "tile to nothing": (layer("Tile"), "DV206", '"tiles" must be at least 1'),
    "tile not fit any memory": (layer("Tile", "tile_param { tiles: 2000000000 }"), "DV206", "not fit any memory"),
    "pyramid without levels": (layer("SPP", "spp_param { pyramid_height: 0 }"), "DV206", "pyramid_height is 0; it must be 1 to 12"),
    "pyramid of tiny windows": (layer("SPP", "spp_param { pyramid_height: 3 }"), "DV206", "the input 6x5x4 is too small for 4x4 windows"),
    "axpy of one": (layer("Axpy"), "DV206", "needs factors and two maps"),
    "axpy of maps": (layer("Axpy", bottoms=("x", "x", "x")), "DV206", "factors of 1x4x6x5"),
    "top 5 of 4": (layer("ArgMax", "argmax_param { axis: 1 top_k: 5 }"), "DV206", "top_k is 5, of 4"),
    "scale of too many axes": (layer("Scale", "scale_param { axis: 2 num_axes: 3 }"), "DV206", "do not fit an input of 4 axes"),
    "bias by more": (layer("Bias", bottoms=("x", "x")), "DV206", "1x4x6x5 from axis 1 on does not fit"),
    "interp without a size": (layer("Interp"), "DV206", "the settings (none) do not define"),
    "interp with half a size": (layer("Interp", "interp_param { height: 9 }"), "DV206", "the settings (height) do not define"),
    "interp to nothing": (layer("Interp", "interp_param { height: 0 width: 5 }"), "DV206", "0x5 is not a size"),
    "interp with padding": (layer("Interp", "interp_param { pad_beg: 1 zoom_factor: 2 }"), "DV206", "must not be above 0"),
    "interpolation of unknown corners": (
        layer("BilinearInterpolate", "bilinear_interpolate_param { dst_h: 2 dst_w: 2 }"), "DV206", '"align_corners" must be given',
    ),
    "unpooling by one factor": (unpooling("scale_h: 2"), "DV206", "the factors of the unpooling are not clear"),
    "unpooling by three factors": (unpooling("scale: 2 scale_h: 2 scale_w: 2"), "DV206", "the factors of the unpooling are not clear"),
    "unpooling to half a size": (unpooling("upsample_h: 6"), "DV206", "6x0 is not a size"),
    "unpooling by three less a row": (unpooling("scale: 3 pad_out_h: true"), "DV206", "apply to an unpooling by 2"),
    "boxes without an image": (layer("PriorBox", "prior_box_param { min_size: 2 }"), "DV206", "needs a map and the image"),
    "boxes without a size": (layer("PriorBox", bottoms=("x", "x")), "DV206", "0 min_size and 0 max_size"),
    **{
        f"boxes whose {setting} is {value}": (
            layer("PriorBox", f"prior_box_param {{ {more} {setting}: {value} }}", bottoms=("x", "x")), "DV206", f'"{setting}" is {value.replace("1e39", "inf")}',
        )
        for setting, more in {
            "min_size": "", "max_size": "min_size: 2", "step": "min_size: 2", "step_h": "min_size: 2 step_w: 1",
            "aspect_ratio": "min_size: 2", "variance": "min_size: 2", "offset": "min_size: 2",
        }.items()
        for value in ("1e39", "nan")
    },
    "boxes that shrink": (
        layer("PriorBox", "prior_box_param { min_size: 2 max_size: 2.5 }", bottoms=("x", "x")), "DV206", "each max_size above its min_size",
    ),
    "boxes of two steps": (
        layer("PriorBox", "prior_box_param { min_size: 2 step: 2 step_h: 2 }", bottoms=("x", "x")), "DV206", 'either "step", or "step_h"',
    ),
    "boxes of no width": (
        layer("PriorBox", "prior_box_param { min_size: 2 aspect_ratio: 0 }", bottoms=("x", "x")), "DV206", "the aspect ratio 0",
    ),
    "boxes of three variances": (
        layer("PriorBox", "prior_box_param { min_size: 2 variance: [1, 2, 3] }", bottoms=("x", "x")), "DV206", "one variance, or four",
    ),
    "detections of nothing": (layer("DetectionOutput"), "DV206", "needs locations, confidences and boxes"),
    "detections without classes": (layer("DetectionOutput", bottoms=("x", "x", "x")), "DV206", '"num_classes" is missing'),
    "no detections": (
        layer("DetectionOutput", "detection_output_param { num_classes: 2 keep_top_k: 0 }", bottoms=("x", "x", "x")), "DV206", "keep_top_k is 0",
    ),
    "detections of other boxes": (
        layer("DetectionOutput", "detection_output_param { num_classes: 2 keep_top_k: 5 }", bottoms=("x", "x", "x")), "DV202", "is not a shape of prior boxes",
    ),
    "global pool with a kernel": (layer("Pooling", "pooling_param { global_pooling: true kernel_size: 2 }"), "DV206", "has no kernel size"),
    "concat of nothing": (layer("Concat", bottoms=()), "DV206", "the layer has no input"),
    "concat of unequal ranks": (
        layer("Flatten").replace('"l"', '"m"') + layer("Concat", bottoms=("x", "y"), tops=("z",)), "DV206", "different numbers of axes: 4, 2",
    ),
    "concat of unequal maps": (SMALLER + layer("Concat", bottoms=("x", "y"), tops=("z",)), "DV206", "cannot be joined on axis 1"),
    "sum of unequal maps": (SMALLER + layer("Eltwise", bottoms=("x", "y"), tops=("z",)), "DV206", "have different sizes: 1x4x6x5, 1x4x5x4"),
    "crop to another rank": (
        layer("Flatten").replace('"l"', '"m"') + layer("Crop", bottoms=("x", "y"), tops=("z",)), "DV206", "cropped to one of 2",
    ),
    "convolution of one axis with two kernels": (
        layer("Reshape", "reshape_param { shape { dim: [0, 4, 30] } }").replace('"l"', '"m"')
        + layer("Convolution", "convolution_param { num_output: 1 kernel_h: 2 kernel_w: 3 }", bottoms=("y",), tops=("z",)),
        "DV206", "the settings are for two",
    ),
    "detections of no eta": (
        layer("DetectionOutput", "detection_output_param { num_classes: 2 nms_param { eta: 0 } }", bottoms=("x", "x", "x")), "DV206", "eta is 0",
    ),
    "detections below any overlap": (
        layer("DetectionOutput", "detection_output_param { num_classes: 2 nms_param { nms_threshold: -1 } }", bottoms=("x", "x", "x")),
        "DV206", "nms_threshold must not be below 0",
    ),
    "boxes of no step": (layer("PriorBox", "prior_box_param { min_size: 2 step: 0 }", bottoms=("x", "x")), "DV206", '"step" must be above 0'),
    "two sizes for one input": (
        layer("Input", "input_param { shape { dim: [1, 2] } shape { dim: [1, 2] } }", bottoms=(), tops=("w",)) + layer("ReLU", bottoms=("w",)).replace('"l"', '"m"'), "DV206", "2 sizes are given for 1 inputs",
    ),
    "input without channels": (layer("Input", "input_param { shape { dim: [1, 0, 3, 3] } }", bottoms=(), tops=("w",)) + layer("ReLU", bottoms=("w",)).replace('"l"', '"m"'), "DV206", "number of channels"),
    "input without a size": (layer("Input", "input_param { shape { dim: [1, 3, 0, 3] } }", bottoms=(), tops=("w",)) + layer("ReLU", bottoms=("w",)).replace('"l"', '"m"'), "DV206", "size of the input"),
    "kernel wider than the map": (layer("Convolution", "convolution_param { num_output: 2 kernel_size: 9 bias_term: false }"), "DV202", "smaller than the kernel"),
}  # fmt: skip


@pytest.mark.parametrize("case", SENSELESS)
def test_a_layer_that_makes_no_sense_is_an_error(case: str, load: Any) -> None:
    definition, code, says = SENSELESS[case]
    with pytest.raises(ModelError) as caught:
        load(HEADER + definition, {"l": [np.ones((2, 4, 9, 9))]})
    (problem,) = caught.value.problems
    assert problem.code == code
    assert says in str(problem)
    assert problem.where is not None
    assert (problem.where.layer, problem.where.line) == ("l", 2)


def test_a_convolution_on_one_axis_has_settings_of_one_axis(load: Any) -> None:
    with pytest.raises(ModelError, match="the settings are for two"):
        load(ROWS_HEADER + layer("Convolution", "convolution_param { num_output: 1 kernel_h: 2 kernel_w: 3 }"))


def test_convolutions_need_maps(load: Any) -> None:
    with pytest.raises(ModelError, match="needs a map"):
        load(VECTOR_HEADER + layer("Convolution", CONVOLUTION % ""), {"l": []})


def test_all_that_is_unsupported_is_listed_in_the_order_of_the_network(load: Any) -> None:
    definition = "".join(
        f'\nlayer {{ name: "{name}" type: "{type}" bottom: "{bottom}" top: "{name}" {settings} }}'
        for name, type, bottom, settings in (
            ("a", "LSTM", "x", ""),
            ("b", "Pooling", "a", "pooling_param { pool: STOCHASTIC kernel_size: 2 }"),
            ("c", "ReLU", "b", ""),
            ("d", "Warp", "c", ""),
            ("e", "InnerProduct", "d", "inner_product_param { num_output: 3 }"),
            ("f", "Embed", "x", ""),
        )
    )
    with pytest.raises(UnsupportedError) as caught:
        load(HEADER + definition, {"e": [np.ones((3, 7)), np.ones(3)]})
    assert [(p.code, p.where.layer, p.where.line) for p in caught.value.problems if p.where] == [
        ("DV301", "a", 3),
        ("DV302", "b", 4),
        ("DV301", "d", 6),
        ("DV301", "f", 8),
    ]


def test_an_unpooling_is_not_blamed_for_the_pooling_before_it(load: Any) -> None:
    with pytest.raises(UnsupportedError) as caught:
        load(HEADER + unpooling("scale: 2", pool="pool: STOCHASTIC kernel_size: 2"))
    assert [p.where.layer for p in caught.value.problems if p.where] == ["pool"]


def test_settings_of_another_type_are_left_out_with_a_warning(load: Any) -> None:
    with pytest.warns(ConvertorWarning, match='"pooling_param" does not belong to a layer of this type'):
        load(HEADER + layer("ReLU", "pooling_param { kernel_size: 2 }"))


@pytest.mark.parametrize(
    ("fields", "says", "hint"),
    [
        ("convolution_param { num_output: 4 kernel_size: 1\n dilations: 2 }", "convolution_param.dilations is not one of", 'did you mean "dilation"'),
        ("convolution_param { num_output: 4 kernel_size: 1\n zebra { a: 1 } }", "convolution_param.zebra is not one of", "remove it"),
        ("convolution_param { num_output: 4 kernel_size: 1 }\n convolutionparam { pad: 1 }", '"convolutionparam" is not one of', "did you mean"),
    ],
)  # fmt: skip
def test_a_field_that_caffe_does_not_have_is_refused_in_a_layers_own_settings(
    fields: str, says: str, hint: str, load: Any
) -> None:
    warnings.simplefilter("ignore", ConvertorWarning)  # pytest restores the filters after each test
    with pytest.raises(UnsupportedError) as caught:
        load(HEADER + layer("Convolution", fields), {"l": [np.ones((4, 4, 1, 1)), np.ones(4)]})
    (problem,) = caught.value.problems
    assert problem.code == "DV302" and says in problem.message and hint in problem.hint
    assert problem.where is not None and (problem.where.layer, problem.where.line) == ("l", HEADER.count("\n") + 2)


def test_a_field_of_a_known_fork_is_left_out_with_a_warning(load: Any) -> None:
    settings = 'convolution_param { num_output: 4 kernel_size: 1 conv_algos_override: "1,1,1" }'
    with pytest.warns(ConvertorWarning, match=r"is one of NVCaffe's and ignored"):
        load(HEADER + layer("Convolution", settings), {"l": [np.ones((4, 4, 1, 1)), np.ones(4)]})


def test_a_field_that_caffe_does_not_have_is_left_out_where_only_training_needs_it(load: Any) -> None:
    settings = "convolution_param { num_output: 4 kernel_size: 1 weight_filler { gain: 2 } } param { frozen: true }"
    with pytest.warns(ConvertorWarning, match='"gain" of FillerParameter is unknown and ignored'):
        load(HEADER + layer("Convolution", settings), {"l": [np.ones((4, 4, 1, 1)), np.ones(4)]})
