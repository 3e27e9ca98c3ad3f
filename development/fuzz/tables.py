"""Layers and nodes with valid settings, for the seeds: their mutations reach code that random settings do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

Settings: TypeAlias = Mapping[str, Any]

# --- Keras ---------------------------------------------------------------------------------------------------------------

# Settings of layers of every type; layers in one dimension take the first of each pair.
KERAS_SETTINGS: Final[Settings] = {
    "activation": "relu", "filters": 4, "units": 4, "kernel_size": [2, 2], "strides": [1, 1], "pool_size": [2, 2], "dilation_rate": [1, 1],
    "padding": "same", "groups": 1, "depth_multiplier": 1, "use_bias": True, "data_format": "channels_last", "output_size": [2, 3],
    "size": [2, 2], "target_shape": [5, 24], "dims": [2, 1, 3], "epsilon": 0.001, "scale": True, "center": True, "height": 3, "width": 3,
    "interpolation": "nearest", "cropping": [[1, 0], [0, 1]], "alpha": 0.3, "negative_slope": 0.2, "max_value": 6.0, "threshold": 0.1,
    "mean": 0.3, "variance": 0.4, "n": 2, "offset": 1.0, "shared_axes": [1, 2], "axis": -1, "keepdims": True, "projection_dim": 4,
}  # fmt: skip
KERAS_OWN: Final[Mapping[str, Settings]] = {
    "Rescaling": {"scale": 0.5},
    "GroupNormalization": {"groups": 2},
    "AveragePooling2D": {"padding": "valid", "strides": [2, 2]},
    "Conv2DTranspose": {"strides": [2, 2], "output_padding": [1, 1]},
    "Conv1DTranspose": {"strides": [2]},
    "UpSampling2D": {"interpolation": "bilinear"},
    "ZeroPadding2D": {"padding": [[1, 0], [0, 1]]},
    "ZeroPadding1D": {"padding": [1, 2]},
    "Cropping1D": {"cropping": [1, 2]},
    "UpSampling1D": {"size": 2},
    "Permute": {"dims": [2, 1, 3]},
    "RepeatVector": {"n": 3},
}
# The shapes of its arrays, by the beginning of its type; the first that fits.
# Layers that read several tensors, and those that they consist of, with the shapes of the kernels.
KERAS_PRODUCTS: Final[Mapping[str, Settings]] = {
    "Dot": {"axes": 3, "normalize": True},
    "Attention": {"use_scale": False, "score_mode": "dot"},
    "MultiHeadAttention": {"num_heads": 2, "key_dim": 3, "value_dim": 3, "use_bias": False, "output_shape": None, "attention_axes": None},
}  # fmt: skip
KERAS_PARTS: Final[Mapping[str, Mapping[str, Sequence[int]]]] = {
    "MultiHeadAttention": {
        **dict.fromkeys(("query_dense", "key_dense", "value_dense"), (4, 2, 3)),
        "output_dense": (2, 3, 4),
    }
}
KERAS_ARRAYS: Final[Mapping[str, Sequence[Sequence[int]]]] = {
    "Conv2D": ([2, 2, 4, 4], [4]), "Conv1D": ([2, 4, 4], [4]), "DepthwiseConv2D": ([2, 2, 4, 1], [4]), "DepthwiseConv1D": ([2, 4, 1], [4]),
    "SeparableConv2D": ([2, 2, 4, 1], [1, 1, 4, 4], [4]), "SeparableConv1D": ([2, 4, 1], [1, 4, 4], [4]), "Batch": ([4],) * 4,
    "SyncBatch": ([4],) * 4, "Layer": ([4],) * 2, "Group": ([4],) * 2, "RMS": ([4],), "PReLU": ([1, 1, 4],), "Norm": ([4], [4], []),
    "CustomScale": ([4],) * 2, "Dense": ([4, 4], [4]), "": (),
}  # fmt: skip
# Beside the tensor. Names with a capital letter are Keras's own, the others TensorFlow's.
OPERATIONS: Final[Mapping[str, Sequence[Settings]]] = {
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "TrueDivide"), ({"x2": 0.75},)),
    **dict.fromkeys(("math.add", "math.subtract", "math.multiply", "math.truediv", "__operators__.add"), ({"y": 0.75},)),
    **dict.fromkeys(("Mean", "Max", "Sum", "Min"), ({"axis": [1, 2]}, {"axis": [3], "keepdims": True}, {"axis": [1], "keepdims": False})),
    **dict.fromkeys(("math.reduce_mean", "math.reduce_max"), ({"axis": [1, 2]}, {"axis": -1, "keepdims": True})),
    "Power": ({"x2": 2.0},), "pow": ({"y": 3.0},), "Clip": ({"x_min": -0.5, "x_max": 0.5},), "clip_by_value": ({"clip_value_min": 0, "clip_value_max": 6},),
    "ExpandDims": ({"axis": 1}, {"axis": -1}), "expand_dims": ({"axis": 2},), "Reshape": ({"newshape": [-1, 5, 24]},), "reshape": ({"shape": [-1, 120]},),
    "Transpose": ({"axes": [0, 2, 1, 3]},), "transpose": ({"perm": [0, 3, 1, 2]},), "Resize": ({"size": [12, 10], "interpolation": "bilinear"},),
    "image.resize": ({"size": [3, 5], "method": "nearest"},), "DepthToSpace": ({"block_size": 2},), "nn.space_to_depth": ({"block_size": 1},),
    "SpaceToDepth": ({"block_size": 1},), "Normalize": ({"axis": -1, "order": 2},), "nn.lrn": ({"depth_radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75},),
    "Pad": ({"pad_width": [[0, 0], [1, 0], [0, 2], [0, 0]]}, {"pad_width": [[0, 0], [1, 1], [1, 1], [0, 0]], "mode": "reflect"}),
    "pad": ({"paddings": [[0, 0], [1, 0], [0, 2], [1, 0]]},), "Split": ({"indices_or_sections": 2, "axis": -1}, {"indices_or_sections": [1, 3], "axis": 1}),
    "split": ({"num_or_size_splits": [2, 2], "axis": 3},), "AveragePool": ({"pool_size": [2, 2], "strides": [2, 2], "padding": "same"},),
    "MaxPool": ({"pool_size": 3},), "ReLU": ({"max_value": 6.0, "negative_slope": 0.1},), "LeakyRelu": ({"negative_slope": 0.3},),
    "HardShrink": ({"threshold": 0.5},), "SoftShrink": ({"threshold": 0.5},), "Argmax": ({"axis": -1},), "Softmax": ({"axis": -1}, {"axis": [1, 2]}),
    "LogSoftmax": ({"axis": -1},), "Gelu": ({"approximate": True},), "Squareplus": ({"b": 4},), "Cast": ({"dtype": "float16"},),
    "GetItem": ({"key": [{"class_name": "__ellipsis__"}, {"class_name": "slice", "config": {"start": 1, "stop": 3, "step": None}}]},),
    "__operators__.getitem": ({"slice_spec": [{"start": None, "stop": None, "step": None}, {"start": 1, "stop": -1, "step": 2}]},),
}  # fmt: skip

# --- ONNX ----------------------------------------------------------------------------------------------------------------


class OnnxNode(NamedTuple):
    """A node on x (1, 4, 6, 5) and constants, or on what the node before it gives."""

    type: str
    settings: Settings = MappingProxyType({})
    constants: Sequence[Any] = ()
    reads_x: bool = True
    opset: int = 17


def _ones(*dims: int) -> Any:
    return np.ones(dims, np.float32)


def _whole(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


_POOL: Final[Settings] = {"kernel_shape": [3, 3], "strides": [2, 2]}
_PADS: Final = _whole(0, 0, 1, 0, 0, 0, 0, 1)
_SCALES: Final = np.array([1, 1, 2, 2], np.float32)
_NONE: Final = np.empty(0, np.float32)

# Each entry is a chain; the first node reads x, unless it has no need of it.
ONNX_CHAINS: Final[Sequence[Sequence[OnnxNode]]] = [
    *([OnnxNode("Conv", settings, (_ones(4, 4, 3, 3), _ones(4)))] for settings in (
        {"pads": [1, 0, 2, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"dilations": [2, 1], "auto_pad": "VALID"})),
    [OnnxNode("Conv", {"group": 4}, (_ones(4, 1, 3, 2),))],
    *([OnnxNode("ConvTranspose", settings, (_ones(4, 4, 3, 3), _ones(4)))] for settings in (
        {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}, {"strides": [2, 2], "output_shape": [12, 11]},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"})),
    *([OnnxNode(type, {**_POOL, **more})] for type in ("MaxPool", "AveragePool", "LpPool") for more in (
        {"pads": [1, 1, 1, 1]}, {"ceil_mode": 1}, {"auto_pad": "SAME_UPPER"})),
    [OnnxNode("AveragePool", {**_POOL, "pads": [1, 0, 1, 1], "count_include_pad": 1})],
    *([OnnxNode("Resize", settings, (_NONE, _SCALES))] for settings in (
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, {"mode": "linear"},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, {"mode": "cubic"})),
    [OnnxNode("Resize", {"mode": "linear"}, (_NONE, _NONE, _whole(1, 4, 3, 10)))],
    [OnnxNode("Upsample", {"mode": "nearest"}, (_SCALES,), opset=9)],
    *([OnnxNode("Pad", {"mode": mode}, (_PADS,))] for mode in ("constant", "reflect", "edge")),
    [OnnxNode("Pad", {"mode": "constant"}, (_whole(0, 1, 0, 0, 0, 0, 0, 0), np.float32(2)))],
    [OnnxNode("Pad", {"pads": [0, 0, 1, 1, 0, 0, 1, 1]}, opset=9), OnnxNode("MaxPool", _POOL)],
    [OnnxNode("DepthToSpace", {"blocksize": 2, "mode": "CRD"})], [OnnxNode("SpaceToDepth", {"blocksize": 1})], [OnnxNode("Tile", {}, (_whole(1, 1, 2, 1),))],
    [OnnxNode("Slice", {}, (_whole(1), _whole(5), _whole(2)))], [OnnxNode("Slice", {"starts": [0], "ends": [-1], "axes": [1]}, opset=9)],
    [OnnxNode("Flatten"), OnnxNode("Gemm", {"transB": 1, "alpha": 0.5}, (_ones(3, 120), _ones(3)))], [OnnxNode("MatMul", {}, (_ones(5, 3),))],
    [OnnxNode("Reshape", {}, (_whole(0, 2, -1, 5),)), OnnxNode("Transpose", {"perm": [0, 2, 1, 3]}), OnnxNode("Reshape", {}, (_whole(1, 4, 6, 5),))],
    [OnnxNode("LayerNormalization", {"axis": -1}, (_ones(5), _ones(5)))], [OnnxNode("GroupNormalization", {"num_groups": 2}, (_ones(4), _ones(4)), opset=21)],
    [OnnxNode("InstanceNormalization", {}, (_ones(4), _ones(4)))], [OnnxNode("BatchNormalization", {}, (_ones(4),) * 4)], [OnnxNode("MeanVarianceNormalization")],
    [OnnxNode("LRN", {"size": 3})], [OnnxNode("PRelu", {}, (_ones(4, 1, 1),))], [OnnxNode("Clip", {}, (np.float32(0), np.float32(6)))],
    [OnnxNode("Clip", {"min": 0.0, "max": 6.0}, opset=9)], [OnnxNode("Add", {}, (_ones(4, 1, 1),))], [OnnxNode("Pow", {}, (np.float32(2),))],
    [OnnxNode("Softmax", {"axis": 1})], [OnnxNode("Softmax", {"axis": 2}, opset=9)], [OnnxNode("ArgMax", {"axis": 1})], [OnnxNode("Cast", {"to": 1})],
    *([OnnxNode(f"Reduce{kind}", {"axes": [2, 3], "keepdims": 0})] for kind in ("Mean", "Max", "L2", "SumSquare")),
    [OnnxNode("QuantizeLinear", {}, (np.float32(0.5), np.uint8(3))), OnnxNode("DequantizeLinear", {}, (np.float32(0.5), np.uint8(3)))],
    [OnnxNode("Split", {"axis": 1}, (_whole(1, 3),))], [OnnxNode("Unsqueeze", {}, (_whole(0),)), OnnxNode("Squeeze", {}, (_whole(0),))],
    # x * tanh(softplus(x)), layer norm in parts, and sums of exponentials: forms of several nodes
    [OnnxNode("Softplus"), OnnxNode("Tanh"), OnnxNode("Mul", reads_x=True)],
    [OnnxNode("Mul", {}, (np.float32(0.797885),)), OnnxNode("Tanh"), OnnxNode("Add", {}, (np.float32(1),)), OnnxNode("Mul", {}, (np.float32(0.5),))],
    [OnnxNode("Pow", {}, (np.float32(2),)), OnnxNode("ReduceMean", {"axes": [-1]}), OnnxNode("Add", {}, (np.float32(1e-5),)), OnnxNode("Sqrt")],
    # numbers that are computed from others: sizes of tensors, and constants
    [OnnxNode("Shape"), OnnxNode("Gather", {"axis": 0}, (_whole(0, 1),)), OnnxNode("Cast", {"to": 7}), OnnxNode("ConstantOfShape")],
    [OnnxNode("Shape"), OnnxNode("Slice", {}, (_whole(0), _whole(2), _whole(0))), OnnxNode("Concat", {"axis": 0}, (_whole(-1),)), OnnxNode("Expand")],
    *([OnnxNode(type, {}, constants, reads_x=False), OnnxNode("Add", reads_x=True)] for type, constants in (
        ("Where", (np.array([True, False, True, False, True]), _ones(5), _ones(5))), ("Range", (np.float32(0), np.float32(5), np.float32(1))),
        ("Expand", (_ones(1), _whole(6, 5))), ("Tile", (_ones(5), _whole(1))), ("Gather", (_ones(7, 5), _whole(2))), ("Div", (_whole(7, 9), _whole(2, -2))),
        ("Mod", (_whole(7, -9), _whole(2, 2))), ("Clip", (_ones(5), np.float32(0), np.float32(1))), ("Dropout", (_ones(5),)), ("Flatten", (_ones(1, 5),)),
        ("Size", (_ones(5),)), ("DequantizeLinear", (np.arange(5, dtype=np.uint8), np.float32(0.5), np.uint8(3))), ("CastLike", (_whole(1), _ones(1))))),
    [OnnxNode("ConstantOfShape", {}, (_whole(6, 5),), reads_x=False), OnnxNode("Add", reads_x=True)],
]  # fmt: skip

# --- Caffe ---------------------------------------------------------------------------------------------------------------

# Texts of layers on x (1, 4, 6, 5); `=x` stands for `bottom: "x"`, and so on.
CAFFE_NETWORKS: Final = (
    'layer { name: "e" type: "Eltwise" =x =x >e eltwise_param { operation: SUM coeff: 1 coeff: -2 } }',
    'layer { name: "e" type: "Eltwise" =x =x >e eltwise_param { operation: MAX } }',
    'layer { name: "p" type: "Pooling" =x >p pooling_param { pool: AVE kernel_h: 3 kernel_w: 2 stride: 2 pad: 1 } }',
    (
        'layer { name: "p" type: "Pooling" =x >p >m pooling_param { pool: MAX kernel_size: 2 stride: 2 } } '
        'layer { name: "u" type: "Upsample" =p =m >u upsample_param { scale: 2 } }'
    ),
    (
        'layer { name: "d" type: "Deconvolution" =x >d convolution_param { num_output: 4 group: 4 kernel_size: 4 stride: 2 pad: 1 bias_term: false '
        'weight_filler { type: "bilinear" } } }'
    ),
    'layer { name: "s" type: "Slice" =x >s >t slice_param { axis: 1 slice_point: 1 } } layer { name: "c" type: "Concat" =s =t >c concat_param { axis: 1 } }',
    'layer { name: "r" type: "Reshape" =x >r reshape_param { shape { dim: 0 dim: -1 dim: 2 dim: 5 } } }',
    (
        'layer { name: "q" type: "Permute" =x >q permute_param { order: 0 order: 2 order: 3 order: 1 } } '
        'layer { name: "f" type: "Flatten" =q >f flatten_param { axis: 1 } }'
    ),
    'layer { name: "b" type: "PriorBox" =x =x >b prior_box_param { min_size: 2 max_size: 4 aspect_ratio: 2 flip: true variance: 0.1 step: 2 } }',
    (
        'layer { name: "b" type: "PriorBox" =x =x >b prior_box_param { min_size: 2 aspect_ratio: 2 aspect_ratio: 3 variance: 0.1 variance: 0.1 variance: 0.2 '
        'variance: 0.2 clip: true } } layer { name: "l" type: "Flatten" =x >l } layer { name: "o" type: "DetectionOutput" =l =l =b >o '
        "detection_output_param { num_classes: 2 nms_param { nms_threshold: 0.4 } code_type: CENTER_SIZE keep_top_k: 9 confidence_threshold: 0.1 } }"
    ),
    'layer { name: "g" type: "Pooling" =x >g pooling_param { pool: AVE global_pooling: true } } layer { name: "a" type: "Axpy" =g =x =x >a }',
    'layer { name: "i" type: "Interp" =x >i interp_param { height: 11 width: 9 } }',
    'layer { name: "a" type: "ReLU" =x >a include { phase: TEST stage: "deploy" } } layer { name: "b" type: "ReLU" =x >a include { phase: TRAIN } }',
    'layers { name: "o" type: POOLING =x >o pooling_param { kernel_size: 2 } } layers { name: "r" type: RELU =o >o }',
    'layers { name: "i" type: INNER_PRODUCT =x >i inner_product_param { num_output: 2 } } layers { name: "s" type: SOFTMAX =i >s }',
)
