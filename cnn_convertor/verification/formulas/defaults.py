"""The defaults of Caffe's settings as its documentation gives them, apart from the frontend's schema.

Each message has its settings in one text: a name with its default, or a name alone for a list, a message, and a setting whose
absence means something of its own.
"""

from collections.abc import Mapping
from typing import Final

DEFAULTS: Final[Mapping[str, str]] = {
    # BVLC Caffe
    "ArgMaxParameter": "out_max_val=false top_k=1 axis",
    "BatchNormParameter": (
        "use_global_stats moving_average_fraction=0.999 eps=1e-5 "
        "scale_bias=false scale_filler bias_filler"  # NVIDIA's and Intel's forks
    ),
    "BiasParameter": "axis=1 num_axes=1 filler",
    "ClipParameter": "min max",
    "ConcatParameter": "axis=1 concat_dim=1",
    "ConvolutionParameter": (
        "num_output bias_term=true pad kernel_size group=1 stride dilation weight_filler bias_filler "
        "pad_h=0 pad_w=0 kernel_h kernel_w stride_h stride_w axis=1 force_nd_im2col=false"
    ),
    "CropParameter": "axis=2 offset",
    "DropoutParameter": "dropout_ratio=0.5 scale_train=true",
    "ELUParameter": "alpha=1",
    "EltwiseParameter": "operation=SUM coeff stable_prod_grad=true",
    "EngineParameter": "",
    "ExpParameter": "base=-1 scale=1 shift=0",
    "FillerParameter": "type=constant value=0 min=0 max=1 mean=0 std=1 sparse=-1 variance_norm=FAN_IN",
    "FlattenParameter": "axis=1 end_axis=-1",
    "InnerProductParameter": "num_output bias_term=true weight_filler bias_filler axis=1 transpose=false",
    "InputParameter": "shape",
    "LRNParameter": "local_size=5 alpha=1 beta=0.75 norm_region=ACROSS_CHANNELS k=1",
    "LogParameter": "base=-1 scale=1 shift=0",
    "MVNParameter": "normalize_variance=true across_channels=false eps=1e-9",
    "PReLUParameter": "filler channel_shared=false",
    "PoolingParameter": (
        "pool=MAX pad kernel_size stride pad_h=0 pad_w=0 kernel_h kernel_w stride_h stride_w global_pooling=false "
        "round_mode=CEIL ceil_mode=true dilation"
    ),
    "PowerParameter": "power=1 scale=1 shift=0",
    "ReLUParameter": "negative_slope=0",
    "ReductionParameter": "operation=SUM axis=0 coeff=1",
    "ReshapeParameter": "shape axis=0 num_axes=-1",
    "SPPParameter": "pyramid_height pool=MAX",
    "ScaleParameter": "axis=1 num_axes=1 filler bias_term=false bias_filler",
    "SliceParameter": "axis=1 slice_point slice_dim=1",
    "SoftmaxParameter": "axis=1",
    "SwishParameter": "beta=1",
    "ThresholdParameter": "threshold=0",
    "TileParameter": "axis=1 tiles",
    # SSD
    "DetectionOutputParameter": (
        "num_classes share_location=true background_label_id=0 nms_param code_type=CORNER keep_top_k=-1 "
        "variance_encoded_in_target=false confidence_threshold visualize=false visualize_threshold save_file"
    ),
    "NonMaximumSuppressionParameter": "nms_threshold=0.3 top_k eta=1",
    "NormalizeParameter": "across_spatial=true scale_filler channel_shared=true eps=1e-10",
    "PermuteParameter": "order",
    "PriorBoxParameter": (
        "min_size max_size aspect_ratio flip=true clip=false variance img_size img_h img_w step step_h step_w offset=0.5"
    ),
    # other forks
    "BNParameter": (
        "momentum=0.9 eps=1e-5 frozen=false slope_filler bias_filler "  # PSPNet
        "scale_filler shift_filler bn_mode=LEARN"  # SegNet
    ),
    "BilinearInterpolateParameter": "dst_h dst_w align_corners=false",
    "InterpParameter": "height width zoom_factor=1 shrink_factor=1 pad_beg=0 pad_end=0",
    "PadParameter": "pad_u=0 pad_d=0 pad_l=0 pad_r=0 pad_value=0",
    "ShuffleChannelParameter": "group=1",
    "UpsampleParameter": "scale scale_h scale_w pad_out_h=false pad_out_w=false upsample_h upsample_w",
}  # fmt: skip


def defaults_of(message: str) -> dict[str, str | None]:
    """Setting -> its default as text; None: it has none. Raises KeyError for a message that the table lacks."""
    pairs = [setting.partition("=") for setting in DEFAULTS[message].split()]
    return {name: default if equals else None for name, equals, default in pairs}
