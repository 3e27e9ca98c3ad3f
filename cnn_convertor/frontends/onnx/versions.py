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


# All types, and attributes of types, that have not been there since OLDEST_OPSET -> their first version. Source: onnx.defs.
FIRST: Mapping[str, int] = {
    **_by_name({
        8: "Expand MaxPool.storage_order Scan",
        9: "Acosh Asinh Atanh Compress ConstantOfShape Cosh Erf EyeLike IsNaN MaxUnpool "
            "MeanVarianceNormalization NonZero OneHot Scan.scan_input_axes Scan.scan_input_directions "
            "Scan.scan_output_axes Scan.scan_output_directions Scatter Shrink Sign Sinh TfIdfVectorizer Where",
        10: "AveragePool.ceil_mode ConvInteger DequantizeLinear IsInf MatMulInteger MaxPool.ceil_mode "
            "MaxPool.dilations Mod NonMaxSuppression QLinearConv QLinearMatMul QuantizeLinear Resize "
            "ReverseSequence RoiAlign StringNormalizer ThresholdedRelu",
        11: "BitShift ConcatFromSequence Constant.sparse_value CumSum DepthToSpace.mode Det DynamicQuantizeLinear "
            "GatherElements GatherND Range Resize.coordinate_transformation_mode Resize.cubic_coeff_a "
            "Resize.exclude_outside Resize.extrapolation_value Resize.nearest_mode Round ScatterElements "
            "ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
            "SplitToSequence TopK.largest TopK.sorted Unique",
        12: "ArgMax.select_last_index ArgMin.select_last_index Celu Constant.value_float Constant.value_floats "
            "Constant.value_int Constant.value_ints Constant.value_string Constant.value_strings Dropout.seed "
            "Einsum GatherND.batch_dims GreaterOrEqual LessOrEqual NegativeLogLikelihoodLoss "
            "SoftmaxCrossEntropyLoss",
        13: "DequantizeLinear.axis QuantizeLinear.axis ReduceSum.noop_with_empty_axes",
        14: "BatchNormalization.training_mode GRU.layout HardSwish LSTM.layout RNN.layout Reshape.allowzero Trilu",
        15: "Bernoulli CastLike Optional OptionalGetElement OptionalHasElement Shape.end Shape.start",
        16: "GridSample RoiAlign.coordinate_transformation_mode ScatterElements.reduction ScatterND.reduction",
        17: "BlackmanWindow DFT HammingWindow HannWindow LayerNormalization MelWeightMatrix STFT SequenceMap",
        18: "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im GroupNormalization LpPool.ceil_mode "
            "LpPool.dilations Mish Resize.antialias Resize.axes Resize.keep_aspect_ratio_policy Split.num_outputs",
        19: "AveragePool.dilations Cast.saturate CastLike.saturate DeformConv QuantizeLinear.saturate",
        20: "AffineGrid Gelu ImageDecoder RegexFullMatch StringConcat StringSplit",
        21: "DequantizeLinear.block_size GroupNormalization.stash_type QuantizeLinear.block_size "
            "QuantizeLinear.output_dtype",
        23: "Attention DequantizeLinear.output_dtype QuantizeLinear.precision RMSNormalization RotaryEmbedding",
        24: "Cast.round_mode CastLike.round_mode Swish TensorScatter",
        25: "Attention.left_window_size Attention.right_window_size",
        26: "BitCast CumProd",
        27: "CausalConvWithState LinearAttention Range.stash_type",
        28: "SpaceToDepth.mode SwiGLU",
    }),
    **{f"{type}.noop_with_empty_axes": 18 for type in REDUCTIONS},
}  # fmt: skip
# Those that are gone -> their last version.
LAST: Mapping[str, int] = {
    **_by_name({
        8: "BatchNormalization.spatial Scan.directions Upsample.scales",
        9: "Slice.axes Slice.ends Slice.starts TopK.k Upsample",
        10: "Clip.max Clip.min Pad.pads Pad.value Scatter",
        11: "Dropout.ratio",
        12: "ReduceSum.axes Split.split Squeeze.axes Unsqueeze.axes",
        19: "DFT.axis",
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
