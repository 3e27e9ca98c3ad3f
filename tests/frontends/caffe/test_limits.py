"""Each setting of Caffe's layers at its limits: the last value that converts, and the first that does not, with its code.

A row without a code: the last value for which the device needs no other form. Values beyond it convert, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from cnn_convertor.config.request import Request
from cnn_convertor.conversion.inspection import inspect
from cnn_convertor.errors import ConvertorError
from cnn_convertor.files.replacing import replace_all
from cnn_convertor.frontends.caffe.layers import caffe as registry
from cnn_convertor.pipeline import build, load, render
from examples.caffemodel import write
from verification.trials import config

SETTINGS = {type: {*registry[type].settings, *registry[type].ignores} for type in registry}
DEPTHWISE = ("ConvolutionDepthwise", "DepthwiseConvolution", "DepthWiseConv", "DepthwiseConv")
FORWARD = ("Convolution", *DEPTHWISE)
CONVOLUTIONS = (*FORWARD, "Deconvolution")


class Limit(NamedTuple):
    """message: the settings, with a place for those that are tried. shape: of the input, behind the batch."""

    types: str | tuple[str, ...]
    setting: str
    message: str
    accepted: str
    refused: str
    code: str
    shape: str = "8, 30, 30"
    bottoms: int = 1


def whole(
    types: str | tuple[str, ...], setting: str, message: str, most: int, code: str = "DV206", **more: object
) -> Limit:
    """A whole number that has a largest value."""
    return Limit(types, setting, message, f"{setting}: {most}", f"{setting}: {most + 1}", code, **more)  # type: ignore[arg-type]  # as given


CONV = "convolution_param { num_output: 8 bias_term: false %s }"
ONE = "convolution_param { num_output: 8 bias_term: false kernel_size: 1 %s }"
THREE = "convolution_param { num_output: 8 bias_term: false kernel_size: 3 %s }"
TALL = "convolution_param { num_output: 8 bias_term: false kernel_h: 3 kernel_w: 1 %s }"
POOL = "pooling_param { %s }"
BOX = "prior_box_param { %s }"
DETECT = "detection_output_param { num_classes: 2 keep_top_k: 5 %s }"

LIMITS = [
    # --- windows
    *(Limit(FORWARD, s, CONV, a % 30, a % 31, "DV202") for s, a in (
        ("kernel_size", "kernel_size: %d"), ("kernel_h", "kernel_h: %d kernel_w: 1"), ("kernel_w", "kernel_h: 1 kernel_w: %d"),
    )),
    *(Limit(types, s, ONE, a % 255, a % 256, "", shape) for s, a in (
        ("stride", "stride: %d"), ("stride_h", "stride_h: %d stride_w: 1"), ("stride_w", "stride_h: 1 stride_w: %d"),
    ) for types, shape in ((FORWARD, "8, 300, 300"), ("Deconvolution", "8, 3, 3"))),
    *(whole(FORWARD, s, ONE, most, "", shape="8, 300, 300") for s, most in (("pad", 362), ("pad_h", 362), ("pad_w", 873))),
    *(whole("Deconvolution", s, THREE, 2, "") for s in ("pad", "pad_h", "pad_w")),
    whole(FORWARD, "dilation", TALL, 127, "", shape="8, 600, 1"),
    Limit(CONVOLUTIONS, "axis", ONE, "axis: -3", "axis: 2", "DV302"),
    *(Limit(t, "num_output", "convolution_param { bias_term: false kernel_size: 1 %s }", "num_output: 32768", f"num_output: {n}", "", "8, 1, 1")
      for t, n in (("Convolution", 32769), ("Deconvolution", 32769), *((d, 32776) for d in DEPTHWISE))),
    Limit(("Convolution", "Deconvolution"), "group", ONE, "group: 8", "group: 9", "DV206"),
    Limit(DEPTHWISE, "group", ONE, "group: 8", "group: 4", "DV302"),
    Limit("Pooling", "pool", "pooling_param { kernel_size: 2 %s }", "pool: AVE", "pool: STOCHASTIC", "DV302"),
    Limit("SPP", "pool", "spp_param { pyramid_height: 2 %s }", "pool: AVE", "pool: STOCHASTIC", "DV302"),
    Limit("SPP", "pyramid_height", "spp_param { %s }", "pyramid_height: 2", "pyramid_height: 13", "DV206"),
    *(Limit("Pooling", s, POOL, a % 1, a % 0, "DV206") for s, a in (
        ("kernel_size", "kernel_size: %d"), ("kernel_h", "kernel_h: %d kernel_w: 2"), ("kernel_w", "kernel_h: 2 kernel_w: %d"),
    )),
    *(Limit("Pooling", s, "pooling_param { kernel_size: 3 %s }", a % 255, a % 256, "", "8, 258, 258") for s, a in (
        ("stride", "stride: %d"), ("stride_h", "stride_h: %d stride_w: 1"), ("stride_w", "stride_h: 1 stride_w: %d"),
    )),
    *(whole("Pooling", s, "pooling_param { kernel_size: 3 %s }", 2) for s in ("pad", "pad_h", "pad_w")),
    Limit("Pooling", "global_pooling", POOL, "global_pooling: true", "global_pooling: true kernel_size: 30", "DV206"),
    *(whole("Pad", f"pad_{s}", "pad_param { %s }", 994, "") for s in "ud"),
    *(whole("Pad", f"pad_{s}", "pad_param { %s }", 2017, "") for s in "lr"),
    *(Limit("Upsample", s, "upsample_param { %s }", a % 1, a % 0, "DV302") for s, a in (
        ("scale", "scale: %d"), ("scale_h", "scale_h: %d scale_w: 2"), ("scale_w", "scale_h: 2 scale_w: %d"),
    )),
    *(Limit("Interp", s, "interp_param { %s }", a % 32768, a % 32769, "DV206", "1, 3, 3") for s, a in (
        ("height", "height: %d width: 2"), ("width", "height: 2 width: %d"),
    )),
    *(Limit("Interp", s, "interp_param { %s }", f"{s}: 1", f"{s}: 0", "DV206") for s in ("zoom_factor", "shrink_factor")),
    *(Limit("Interp", s, "interp_param { zoom_factor: 2 %s }", f"{s}: 0", f"{s}: 1", "DV206") for s in ("pad_beg", "pad_end")),
    *(Limit("BilinearInterpolate", s, "bilinear_interpolate_param { align_corners: true %s }", a % 32768, a % 32769, "DV206", "1, 3, 3")
      for s, a in (("dst_h", "dst_h: %d dst_w: 2"), ("dst_w", "dst_h: 2 dst_w: %d"))),
    Limit("BilinearInterpolate", "align_corners", "bilinear_interpolate_param { dst_h: 2 dst_w: 2 %s }", "align_corners: false", "", "DV206"),
    # --- numbers
    whole("InnerProduct", "num_output", "inner_product_param { bias_term: false %s }", 32768, "", shape="8, 1, 1"),
    Limit("ReLU", "negative_slope", "relu_param { %s }", "negative_slope: 65504", "negative_slope: 65520", "DV503"),
    Limit("ReLU6", "negative_slope", "relu_param { %s }", "negative_slope: 0", "negative_slope: 0.001", "DV302"),
    Limit("Power", "scale", "power_param { %s }", "scale: 65504", "scale: 65520", "DV503"),
    Limit("Power", "shift", "power_param { %s }", "shift: 65504", "shift: 65520", "DV501"),
    Limit("Pad", "pad_value", "pad_param { pad_u: 1 %s }", "pad_value: 65504", "pad_value: 65520", "DV501"),
    Limit("Eltwise", "coeff", "eltwise_param { %s }", "coeff: [1, 65504]", "coeff: [1, 65520]", "DV503", bottoms=2),
    Limit("Eltwise", "operation", "eltwise_param { coeff: [1, 2] %s }", "operation: SUM", "operation: PROD", "DV206", bottoms=2),
    Limit("Dropout", "dropout_ratio", "dropout_param { scale_train: false %s }", "dropout_ratio: -65503", "dropout_ratio: -65519", "DV503"),
    Limit("Clip", "min", "clip_param { max: 1 %s }", "min: 1", "min: 1.001", "DV206"),
    Limit("Clip", "max", "clip_param { min: 1 %s }", "max: 1", "max: 0.999", "DV206"),
    Limit("Exp", "base", "exp_param { %s }", "base: 1e-30", "base: 0", "DV206"),
    Limit("Log", "base", "log_param { %s }", "base: 1.001", "base: 1", "DV206"),
    Limit("LRN", "local_size", "lrn_param { %s }", "local_size: 5", "local_size: 6", "DV206"),
    Limit("BN", "bn_mode", "bn_param { %s }", "bn_mode: INFERENCE", "bn_mode: LEARN", "DV302"),
    Limit("BatchNorm", "scale_bias", "batch_norm_param { %s }", "scale_bias: true", "scale_bias: true use_global_stats: false", "DV302"),
    *(Limit("BatchNorm", f"{name}_filler", "batch_norm_param { %s }", f"{name}_filler {{ }}", f"{name}_filler {{ }} use_global_stats: false", "DV302") for name in ("scale", "bias")),
    Limit("BatchNorm", "use_global_stats", "batch_norm_param { %s }", "use_global_stats: false", "scale_bias: true use_global_stats: false", "DV302"),
    # --- axes
    *(whole(type, "axis", message, 3) for type, message in (
        ("InnerProduct", "inner_product_param { num_output: 2 %s }"), ("ArgMax", "argmax_param { %s }"), ("Bias", "bias_param { %s }"),
        ("Scale", "scale_param { %s }"), ("Concat", "concat_param { %s }"), ("Flatten", "flatten_param { %s }"), ("Softmax", "softmax_param { %s }"),
        ("Reduction", "reduction_param { %s }"), ("Slice", "slice_param { %s }"), ("Tile", "tile_param { tiles: 2 %s }"),
    )),
    whole("Crop", "axis", "crop_param { %s }", 3, bottoms=2),
    whole("Concat", "concat_dim", "concat_param { %s }", 3, bottoms=2),
    whole("Slice", "slice_dim", "slice_param { %s }", 3),
    whole("Flatten", "end_axis", "flatten_param { %s }", 3),
    *(whole(type, "num_axes", f"{type.lower()}_param {{ %s }}", 3) for type in ("Bias", "Scale")),
    whole("Reshape", "axis", "reshape_param { num_axes: 0 shape { dim: 1 } %s }", 4),
    whole("Reshape", "num_axes", "reshape_param { axis: 1 shape { dim: -1 } %s }", 3),
    Limit("Reshape", "shape", "reshape_param { %s }", "shape { dim: [0, 7200] }", "shape { dim: [0, 7201] }", "DV206"),
    whole("Permute", "order", "permute_param { %s }", 3),
    whole("ShuffleChannel", "group", "shuffle_channel_param { %s }", 8),
    whole("ArgMax", "top_k", "argmax_param { axis: 1 %s }", 8),
    whole("Crop", "offset", "crop_param { %s }", 0, bottoms=2),
    Limit("Slice", "slice_point", "slice_param { %s }", "", "slice_point: 7", "DV206"),
    Limit("Tile", "tiles", "tile_param { %s }", "tiles: 1", "tiles: 0", "DV206"),
    # --- detection
    *(Limit("PriorBox", s, BOX, f"min_size: 4 {a}", f"min_size: 4 {b}", "DV206", bottoms=2) for s, a, b in (
        ("img_size", "img_size: 1", "img_size: 0"), ("img_h", "img_h: 1 img_w: 1", "img_h: 0 img_w: 1"), ("img_w", "img_h: 1 img_w: 1", "img_h: 1 img_w: 0"),
        ("step", "step: 0.1", "step: 0"), ("step_h", "step_h: 0.1 step_w: 1", "step_h: 0 step_w: 1"), ("step_w", "step_h: 1 step_w: 0.1", "step_h: 1 step_w: 0"),
        ("max_size", "max_size: 5", "max_size: 4"), ("aspect_ratio", "aspect_ratio: 0.1", "aspect_ratio: 0"),
        ("variance", "variance: 0.1", "variance: 0"),
    )),
    Limit("PriorBox", "min_size", BOX, "min_size: 1", "min_size: 0.9", "DV206", bottoms=2),
]  # fmt: skip

# Settings of which any value of their kind converts.
FLAG, REAL, WORD = (
    "on or off",
    "any number: the CPU calculates with it, or it is folded into weights",
    "one of the words that the format has",
)
FREE: Mapping[tuple[str, str], str] = {
    **{(type, "bias_term"): FLAG for type in (*CONVOLUTIONS, "InnerProduct", "Scale")},
    **{("Deconvolution", name): "any filler: the weights are in the file" for name in ("weight_filler", "bias_filler")},
    **{("Deconvolution", name): "large ones are cut up" for name in ("kernel_size", "kernel_h", "kernel_w", "dilation")},
    **{("Pooling", name): FLAG for name in ("ceil_mode",)}, ("Pooling", "round_mode"): WORD,
    ("InnerProduct", "transpose"): FLAG, ("ArgMax", "out_max_val"): FLAG, ("Dropout", "scale_train"): FLAG, ("PReLU", "channel_shared"): FLAG,
    **{("MVN", name): FLAG for name in ("across_channels", "normalize_variance")}, ("MVN", "eps"): REAL,
    **{("Normalize", name): FLAG for name in ("across_spatial", "channel_shared")}, ("Normalize", "eps"): REAL,
    **{("LRN", name): REAL for name in ("alpha", "beta", "k")}, ("LRN", "norm_region"): WORD,
    ("BN", "frozen"): FLAG, ("BN", "eps"): REAL, ("BatchNorm", "eps"): REAL, ("ELU", "alpha"): REAL, ("Swish", "beta"): REAL,
    **{(type, name): REAL for type in ("Exp", "Log") for name in ("scale", "shift")}, ("Power", "power"): REAL,
    ("Threshold", "threshold"): REAL, ("Reduction", "operation"): WORD, ("Reduction", "coeff"): REAL,
    **{("PriorBox", name): FLAG for name in ("clip", "flip")}, ("PriorBox", "offset"): REAL,
}  # fmt: skip
# Limits that a test of their own has, since the network is another one: its file.
ELSEWHERE: Mapping[str, str] = {"DetectionOutput": "test_layer_refusals.py", "Input": "test_layer_refusals.py"}


# The unpooling's, which only go together: test_layer_refusals.py, too.
UNPOOLING = {("Upsample", name) for name in ("upsample_h", "upsample_w", "pad_out_h", "pad_out_w")}


def definition(limit: Limit, type: str, settings: str) -> str:
    """A network of one layer."""
    dims = f"input_shape {{ dim: [1, {limit.shape}] }}"
    inputs = "".join(f'input: "x{index}" {dims} ' for index in range(limit.bottoms))
    bottoms = " ".join(f'bottom: "x{index}"' for index in range(limit.bottoms))
    return f'{inputs} layer {{ name: "l" type: "{type}" {bottoms} top: "y" {limit.message % settings} }}'


def told(limit: Limit, type: str, settings: str, folder: Path) -> list[str]:
    """The codes of problems when a layer is inspected, and, if the settings give its weights, when it is converted."""
    network, data = folder / "net.prototxt", folder / "net.caffemodel"
    network.write_text(definition(limit, type, settings))
    found = [problem.code for problem in inspect(network).problems]
    if found or limit.code != "DV501":
        return found
    write(data, [("none", "None", ())])
    try:
        made = config(network, data)
        replace_all(folder, render(load(made), build(load(made), made), Request.of(made)))
    except ConvertorError as error:
        return [problem.code for problem in error.problems]
    return []


ROWS = [
    (limit, type) for limit in LIMITS for type in (limit.types if isinstance(limit.types, tuple) else (limit.types,))
]


@pytest.mark.parametrize(
    ("limit", "type"), ROWS, ids=lambda of: of if isinstance(of, str) else f"{of.setting}-{of.refused}"
)
def test_the_last_value_converts_and_the_first_beyond_it_does_not(limit: Limit, type: str, tmp_path: Path) -> None:
    assert told(limit, type, limit.accepted, tmp_path) == []
    refused = told(limit, type, limit.refused, tmp_path)
    assert limit.code in refused if limit.code else refused == []


def test_each_setting_has_a_limit_or_none() -> None:
    limited = {(type, limit.setting) for limit, type in ROWS}
    every = {(type, name) for type, names in SETTINGS.items() for name in names if type not in ELSEWHERE}
    assert every == limited | set(FREE) | UNPOOLING
    assert not limited & set(FREE)
    for type, file in ELSEWHERE.items():
        assert f'layer("{type}"' in (Path(__file__).parent / file).read_text().replace("layer(\n        ", "layer(")
