"""Which versions of the operators have which node types and attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnn_convertor.errors import ModelError
from cnn_convertor.frontends.onnx.model import OLDEST_OPSET, OnnxNode

NEWEST_OPSET = 28  # the newest version that the readers are written for
REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSumSquare",
)  # fmt: skip


def _by_name(lists: Mapping[int, str]) -> dict[str, int]:
    return {name: version for version, names in lists.items() for name in names.split()}


# Types, and attributes of types, that have not been there since OLDEST_OPSET -> their first version. Source: onnx.defs.
FIRST: Mapping[str, int] = {
    **_by_name({
        8: "Expand MaxPool.storage_order",
        9: "Acosh Asinh Atanh Compress ConstantOfShape Cosh Erf EyeLike IsNaN MeanVarianceNormalization NonZero OneHot "
            "Scatter Shrink Sign Sinh Where",
        10: "AveragePool.ceil_mode DequantizeLinear MaxPool.ceil_mode MaxPool.dilations Mod QuantizeLinear Resize "
            "ReverseSequence ThresholdedRelu",
        11: "Constant.sparse_value CumSum DepthToSpace.mode GatherElements GatherND Range "
            "Resize.coordinate_transformation_mode Resize.cubic_coeff_a Resize.exclude_outside "
            "Resize.extrapolation_value Resize.nearest_mode Round ScatterElements ScatterND TopK.largest TopK.sorted",
        12: "ArgMax.select_last_index ArgMin.select_last_index Celu Constant.value_float Constant.value_floats "
            "Constant.value_int Constant.value_ints Constant.value_string Constant.value_strings Dropout.seed Einsum "
            "GatherND.batch_dims GreaterOrEqual LessOrEqual",
        13: "DequantizeLinear.axis QuantizeLinear.axis ReduceSum.noop_with_empty_axes",
        14: "BatchNormalization.training_mode HardSwish Reshape.allowzero Trilu",
        15: "CastLike Shape.end Shape.start",
        16: "ScatterElements.reduction ScatterND.reduction",
        17: "LayerNormalization",
        18: "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor GroupNormalization LpPool.ceil_mode LpPool.dilations Mish "
            "Resize.antialias Resize.axes Resize.keep_aspect_ratio_policy Split.num_outputs",
        19: "AveragePool.dilations Cast.saturate CastLike.saturate QuantizeLinear.saturate",
        20: "Gelu",
        21: "DequantizeLinear.block_size GroupNormalization.stash_type QuantizeLinear.block_size "
            "QuantizeLinear.output_dtype",
        23: "Attention DequantizeLinear.output_dtype QuantizeLinear.precision RMSNormalization",
        24: "Cast.round_mode CastLike.round_mode Swish",
        25: "Attention.left_window_size Attention.right_window_size",
        26: "CumProd",
        27: "Range.stash_type",
        28: "SpaceToDepth.mode",
    }),
    **{f"{type}.noop_with_empty_axes": 18 for type in REDUCTIONS},
}  # fmt: skip
# Those that are gone -> their last version.
LAST: Mapping[str, int] = {
    **_by_name({
        8: "BatchNormalization.spatial Upsample.scales",
        9: "Slice.axes Slice.ends Slice.starts TopK.k Upsample",
        10: "Clip.max Clip.min Pad.pads Pad.value Scatter",
        11: "Dropout.ratio",
        12: "ReduceSum.axes Split.split Squeeze.axes Unsqueeze.axes",
    }),
    **{f"{type}.axes": 17 for type in REDUCTIONS},
}  # fmt: skip


def is_known(name: str, opset: int) -> bool:
    """Whether a version has a type, or an attribute, "Type.attribute". True for names that no version has."""
    return FIRST.get(name, OLDEST_OPSET) <= opset <= LAST.get(name, opset)


def misplaced(node: OnnxNode, opset: int) -> Iterator[ModelError]:
    """Errors for a node of another version of the operators than the file says."""
    for name in (node.type, *(f"{node.type}.{attribute}" for attribute in node.attributes)):
        if not is_known(name, opset):
            what = f"the attribute {name.partition('.')[2]}" if "." in name else "the type"
            change = f"begins with version {FIRST[name]}" if opset < FIRST.get(name, 0) else f"ends with {LAST[name]}"
            problem = f"the model uses version {opset} of the operators; {what} {change}"
            yield ModelError.of("DV206", problem, node.where, "export the model again")
