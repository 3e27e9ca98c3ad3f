"""Turns an ONNX network into a graph."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cnn_convertor.errors import ConvertorError, ModelError, Origin, Problem, UnsupportedError, warn
from cnn_convertor.frontends.arithmetic import range_of
from cnn_convertor.frontends.builder import Builder, PartialGraph
from cnn_convertor.frontends.frontend import ReadOptions
from cnn_convertor.frontends.nchw import letters_of, shape_of
from cnn_convertor.frontends.onnx.compute_budget import ComputeBudget
from cnn_convertor.frontends.onnx.dynamic_scales import check_dynamic_scales
from cnn_convertor.frontends.onnx.folding import OTHERS, check_attributes, shape_part
from cnn_convertor.frontends.onnx.folds import fold
from cnn_convertor.frontends.onnx.idioms import INVENTED, recognize_idioms
from cnn_convertor.frontends.onnx.input_layout import TO_CHANNELS_LAST, channels_last, with_channels_first
from cnn_convertor.frontends.onnx.model import DOMAINS, OLDEST_OPSET, OnnxModel, OnnxNode, ValueInfo, read_model
from cnn_convertor.frontends.onnx.operators import attributes_of, onnx
from cnn_convertor.frontends.onnx.quant_params import QuantParams
from cnn_convertor.frontends.onnx.quantized_operators import MOVES_QUANTIZED, spell_out
from cnn_convertor.frontends.onnx.reading import HARMLESS, TAKES_INTEGERS, OnnxReading, OnnxTensor, Reader, Value
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.frontends.onnx.tensors import FLOATS, TYPES
from cnn_convertor.frontends.onnx.versions import NEWEST_OPSET, misplaced
from cnn_convertor.frontends.readers import LayerReader, Settings
from cnn_convertor.ir.ops import Identity, Input

HINT = "let the network end before it"
BRANCHES = "export the model without branches and loops, or simplify it: onnxsim model.onnx simple.onnx"
RECURRENT = "let the network end before it and run the recurrent part in the application"
QUANTIZED = "convert the model from before its quantization, in FP32"
BOXES = "let the network end before it, and choose the boxes in the application"
HINTS = {
    **dict.fromkeys(("If", "Loop", "Scan"), BRANCHES),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), RECURRENT),
    **dict.fromkeys(
        ("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"), QUANTIZED
    ),
    **dict.fromkeys(("NonMaxSuppression", "TopK", "NonZero", "RoiAlign"), BOXES),
}
ORIGINAL = (
    "give the original file, or let onnxruntime write it again from the original one with "
    "SessionOptions.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC"
)
# Domain -> what onnxruntime's optimizer writes there, at levels above ORT_ENABLE_BASIC, and exporters do not; None: everything.
_OPTIMIZED: Mapping[str, frozenset[str] | None] = {
    "com.microsoft": frozenset(
        ["Attention", "BiasAdd", "BiasGelu", "BiasSoftmax", "BiasSplitGelu", "ConvTransposeWithDynamicPads", "DynamicQuantizeMatMul",
         "EmbedLayerNormalization", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "FusedMatMulActivation", "Gelu", "GemmFastGelu",
         "GroupNorm", "MatMulIntegerToFloat", "MultiHeadAttention", "NhwcConv", "NhwcFusedConv", "NhwcMaxPool", "QAttention",
         "QLinearConv", "QuickGelu", "SkipGroupNorm", "SkipLayerNormalization", "TransposeMatMul"]
    ),
    "com.microsoft.nchwc": None,
    "com.ms.internal.nhwc": None,
}  # fmt: skip
MAP_AXES = 4  # batch, channels, height, width
AXES = (1, 2, 3, 4)  # how many an input may have
# Types whose first axis is the batch. Others do the same to any axis, or have an input without a batch.
_OF_BATCHES = frozenset(
    ["AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization", "MaxPool"]
)  # fmt: skip


def read(definition: Path, _data: Path | None, options: ReadOptions = ReadOptions()) -> PartialGraph:
    """The network of a file, as far as it can be read.

    Raises ModelError when the file is not what it should be.
    """
    model = read_model(definition)
    if model.opset < OLDEST_OPSET:
        problem = f"the model uses version {model.opset} of the operators, older than {OLDEST_OPSET}"
        hint = "onnx.version_converter.convert_version(model, 13) makes a newer model"
        raise UnsupportedError.of("DV302", problem, Origin(str(definition)), hint)
    if model.opset > NEWEST_OPSET:
        problem = (
            f"the model uses version {model.opset} of the operators; the convertor knows versions up to {NEWEST_OPSET}"
        )
        warn(Problem("DV311", problem, Origin(str(definition)), "compare the results: cnn-convertor verify NET.ini"))
    return _Importer(model, options).network()


class _Importer:
    def __init__(self, model: OnnxModel, options: ReadOptions) -> None:
        self._model = model
        self._channels_last = channels_last(model)
        self._size = options.size
        self._builder = Builder()
        self._values: dict[str, Value] = dict(model.initializers)
        self._budget = ComputeBudget.for_arrays(model.held())
        self._uncomputed: dict[str, ConvertorError] = {}  # constants, and why they cannot be computed
        self._optimized: UnsupportedError | None = None  # what is wrong with all nodes of onnxruntime's optimizer
        self._names = frozenset(name for node in model.nodes for name in node.outputs)
        self._softmax_axes = _softmax_axes(model)

    def network(self) -> PartialGraph:
        self._check_names(())
        self._model = with_channels_first(self._model, self._channels_last)
        for info in self._model.inputs:
            if info.name not in self._model.initializers:
                if info.dims and len(info.dims) == MAP_AXES and info.dims[0] > 1:
                    raise self._batch(info.name, info.dims)  # alone: nodes that mix the images have further problems
                self._values[info.name] = self._input(info)
        self._check_size()
        self._check_batch(self._read_nodes())
        return self._builder.finish([self._output(info.name) for info in self._model.outputs])

    def _read_nodes(self) -> Sequence[OnnxNode]:
        results = [info.name for info in self._model.outputs]
        used = _used(self._model.nodes, results)
        needed = [node for node in self._model.nodes if not used.isdisjoint(node.outputs)]
        check_dynamic_scales(self._model, needed)
        nodes, constants = spell_out(self._model, recognize_idioms(self._model))
        self._values.update(constants)
        used = _used(nodes, results)
        for node in self._model.nodes:
            if node.domain in DOMAINS:
                for error in misplaced(node, self._model.opset):
                    self._builder.report(error)
        for node in nodes:
            is_used = tuple(name in used for name in node.outputs)
            if any(is_used):
                self._node(node, is_used)
        return nodes

    def _check_names(self, outside: Collection[str]) -> None:
        """outside: the values around a body."""
        model = self._model
        origin = Origin(str(model.path))
        if not model.outputs:
            raise ModelError.of("DV212", "the network has no output", origin, "export it again")
        defined = {*model.initializers, *outside}
        defined.update(info.name for info in model.inputs)
        for node in model.nodes:
            for name in filter(None, node.inputs):
                if name not in defined:
                    problem = f'the node reads "{name}", which no node before it makes'
                    raise ModelError.of("DV212", problem, node.where, "the file is damaged; export it again")
            for name in filter(None, node.outputs):
                if name in defined:
                    problem = f'the node redefines "{name}"'
                    raise ModelError.of("DV212", problem, node.where, "the file is damaged; export it again")
                defined.add(name)
        for info in model.outputs:
            if info.name not in defined:
                raise ModelError.of("DV212", f'no node makes the output "{info.name}"', origin, "export it again")

    # --- inputs and outputs

    def _input(self, info: ValueInfo) -> OnnxTensor:
        where = Origin(str(self._model.path), info.name, "Input")
        tensors: list[OnnxTensor] = []

        def read_input() -> list[str]:
            dims = self._input_dims(info, where)
            axes = "HWC" if info.name in self._channels_last else letters_of(dims)
            integers = None if info.type in FLOATS else range_of(TYPES[info.type])
            node = self._builder.add(info.name, Input(shape_of(dims), axes, integers), (), where)
            tensors.append(OnnxTensor(node, dims, integers))
            return [node]

        (name,) = self._builder.read((), read_input, (info.name, where))
        return tensors[0] if tensors else self._placeholder(name)

    def _input_dims(self, info: ValueInfo, where: Origin) -> tuple[int, ...]:
        if info.type not in TYPES:
            raise UnsupportedError.of("DV302", "an input that does not hold numbers cannot be converted", where)
        if info.dims is None or len(info.dims) not in AXES:
            count = "an unknown number of" if info.dims is None else len(info.dims)
            problem = f"an input of {count} axes cannot be converted; one to four can"
            raise UnsupportedError.of("DV302", problem, where, "export it with an input of the shape (1, C, H, W)")
        dims = list(info.dims)
        if len(dims) > 1:
            dims[0] = dims[0] or 1
        sizes = (*dims[:2], *(self._size or (0, 0)), *dims[4:])[: len(dims)]
        dims = [n or size for n, size in zip(dims, sizes, strict=True)]
        if 0 in dims:
            is_map = len(dims) > 2 and dims[1]
            hint = "set width_override and height_override" if is_map else "export it with a fixed size"
            raise ModelError.of("DV206", f"the size of the input is not defined: {_text(dims)}", where, hint)
        return tuple(dims)

    def _check_batch(self, nodes: Sequence[OnnxNode]) -> None:
        """Raises UnsupportedError if the first axis of an input is a batch: nodes take it for one, and all results keep it."""
        lengths = {value.dims[:1] for value in self._values.values() if isinstance(value, OnnxTensor)}
        if not any(self._has_batch(node) for node in nodes):
            return
        for info in self._model.inputs:
            value = self._values.get(info.name)
            dims = value.dims if isinstance(value, OnnxTensor) else ()
            if 1 < len(dims) < MAP_AXES and dims[0] != 1 and lengths == {dims[:1]}:
                raise self._batch(info.name, dims)

    def _has_batch(self, node: OnnxNode) -> bool:
        """Whether the type of a node implies that its first axis is a batch. A product does so if its weights are constants."""
        if node.type in ("Gemm", "MatMul"):
            return not any(isinstance(self._values.get(name), OnnxTensor) for name in node.inputs[1:])
        return node.type in _OF_BATCHES

    def _batch(self, name: str, dims: Sequence[int]) -> UnsupportedError:
        one = (1, *dims[1:])
        if name in self._channels_last:
            one = tuple(one[axis] for axis in TO_CHANNELS_LAST)
        sizes = ", ".join(str(n or "SIZE") for n in one)
        problem = Problem(
            "DV302",
            f"the input is a batch of {dims[0]}",
            Origin(str(self._model.path), name, "Input"),
            "export it for one, as below; the application runs the network once for each. Layers that combine several, as over time, cannot be converted",
            f"torch.onnx.export(model, torch.zeros({sizes}), {self._model.path.name!a})",
        )
        return UnsupportedError(problem)

    def _check_size(self) -> None:
        """Report an override that conflicts with fixed sizes in the file."""
        size = self._size
        if size is None:
            return
        sizes = {info.name: info.dims[2:] for info in self._model.inputs if info.dims and len(info.dims) > 2}
        for fixed in sizes.values():
            if all(n in (0, wanted) for n, wanted in zip(fixed, size, strict=False)):
                return
        name, fixed = next(iter(sizes.items()), ("", ()))
        problem = f"the file fixes the size of the input: {_text(fixed)}, not {_text(size)}"
        hint = "export the model with open sizes (PyTorch: dynamic_shapes), or leave out width_override"
        self._builder.report(ModelError.of("DV206", problem, Origin(str(self._model.path), name, "Input"), hint))

    def _output(self, name: str) -> str:
        value = self._values.get(name)
        where = Origin(str(self._model.path), name)
        problem = "the output does not depend on the network's input"
        if isinstance(value, OnnxTensor):
            if value.quantized is None or value.quantized.scale.size == 1:
                self._warn_of_numbers(where, value.quantized)
                return self._named(name, value)
            problem = "an output of integers whose scale is not one constant cannot be converted"
        self._builder.report(UnsupportedError.of("DV302", problem, where, "leave the output out"))
        return self._builder.read((), lambda: self._fail(where, problem), (name, where))[0]

    def _warn_of_numbers(self, where: Origin, quantized: QuantParams | None) -> None:
        """Tell what the application does where the file ends in integers, and the graph in the numbers that these stand for."""
        if quantized is not None:
            scale = np.float32(quantized.scale.flat[0])
            zero = int(quantized.zero.flat[0])
            problem = "the output holds numbers, where the model gives the integers that stand for them"
            hint = f"to get the integers, let the application calculate round(number / {scale!s}) + {zero}"
            warn(Problem("DV310", problem, where, hint))

    def _named(self, name: str, value: OnnxTensor) -> str:
        """The node of an output. Where that belongs to another value, as behind a node that does nothing, it has one of its own."""
        if value.node == name or self._builder.is_placeholder(value.node):
            return value.node
        maker = next((node for node in self._model.nodes if name in node.outputs), None)
        if maker is None:
            return value.node
        return self._builder.add(name, Identity(), [value.node], maker.where)

    def _fail(self, where: Origin, problem: str) -> Sequence[str]:
        raise UnsupportedError.of("DV302", problem, where, "leave the output out")

    def _placeholder(self, node: str, like: OnnxTensor | None = None) -> OnnxTensor:
        shape = self._builder.shape(node)
        if like is not None and shape_of(like.dims) == shape:
            return OnnxTensor(node, like.dims)
        return OnnxTensor(node, (1, shape.channels, shape.height, shape.width))

    # --- nodes

    def _node(self, node: OnnxNode, needed: tuple[bool, ...]) -> None:
        inputs = tuple(self._values.get(name) if name else None for name in node.inputs)
        if any(isinstance(value, OnnxTensor) for value in inputs):
            results = self._layer(node, inputs, needed)
        else:
            results = self._constants(node, inputs, needed)
        self._values.update(zip(node.outputs, results, strict=False))

    def _constants(self, node: OnnxNode, inputs: tuple[Value | None, ...], needed: tuple[bool, ...]) -> Sequence[Value]:
        """The outputs of a node that reads no tensor; none where it is refused."""
        try:
            return self._results(node, inputs, needed)
        except ConvertorError as error:
            self._builder.report(error)
            self._uncomputed.update(dict.fromkeys(node.outputs, error))
            return []

    def _layer(self, node: OnnxNode, inputs: tuple[Value | None, ...], needed: tuple[bool, ...]) -> Sequence[Value]:
        """The outputs of a node that reads tensors: placeholders where it is refused."""
        tensors = _tensors(inputs)
        results: list[Value] = []

        def read_node() -> list[str]:
            results.extend(self._results(node, inputs, needed))
            return [tensor.node for tensor in _tensors(results)]

        placeholder = (node.where.layer or node.type, node.where)
        nodes = self._builder.read([tensor.node for tensor in tensors], read_node, placeholder)
        if not results or [tensor.node for tensor in _tensors(results)] != list(nodes):
            results = [self._placeholder(nodes[0], tensors[0])] * len(node.outputs)
        if len(node.outputs) > 1:
            outputs = zip(results, node.outputs, strict=False)
            names = [(value.node, name) for value, name in outputs if isinstance(value, OnnxTensor)]
            self._builder.name_outputs(node.where, names)
        return results

    def _results(self, node: OnnxNode, inputs: tuple[Value | None, ...], needed: tuple[bool, ...]) -> Sequence[Value]:
        """The values of a node's outputs. Raises ConvertorError for a node that cannot be converted."""
        for name in node.inputs:
            if name in self._uncomputed:
                raise self._uncomputed[name]  # it is reported once
        results = self._read(node, inputs, needed)
        if any(needed[len(results) :]):
            problem = f"output {len(results)} of a node of this type cannot be converted"
            raise UnsupportedError.of("DV302", problem, node.where)
        return results

    def _read(self, node: OnnxNode, inputs: tuple[Value | None, ...], needed: tuple[bool, ...]) -> Sequence[Value]:
        if node.domain not in DOMAINS or (node.type in INVENTED and node in self._model.nodes):
            raise self._unknown(node)
        if node.type == "If" and inputs and isinstance(inputs[0], Stored):
            return self._branch(node, inputs[0])
        tensors = _tensors(inputs)
        reader = onnx.get(node.type)
        if not tensors:
            constants = [value for value in inputs if not isinstance(value, OnnxTensor)]
            return fold(node, constants, self._model.opset, self._budget, attributes_of(node.type))
        if node.type in ("Shape", "Size"):
            check_attributes(node, OTHERS)
            dims = tensors[0].dims
            return [Stored.of(shape_part(node, dims) if node.type == "Shape" else np.array(math.prod(dims), np.int64))]
        if reader is None:
            raise self._unknown(node)
        if node.type in MOVES_QUANTIZED:
            return self._moved(reader, node, inputs, needed)
        return self._operator(reader, node, inputs, needed)

    def _moved(
        self, reader: LayerReader[Reader], node: OnnxNode, inputs: tuple[Value | None, ...], needed: tuple[bool, ...]
    ) -> Sequence[Value]:
        """The outputs of a node that may move integers: the graph moves the numbers that these stand for."""
        count = len(inputs) if node.type == "Concat" else 1  # what follows in other types are positions and sizes
        quantized = _common_quantization(inputs[:count])
        if quantized is None:
            return self._operator(reader, node, inputs, needed)
        numbers = tuple(_as_numbers(value, quantized) for value in inputs[:count])
        results = list(self._operator(reader, node, numbers + inputs[count:], needed))
        integers = range_of(quantized.type)
        for at, value in enumerate(results):
            if isinstance(value, OnnxTensor):
                results[at] = value._replace(integers=integers, quantized=quantized)
        return results

    def _operator(
        self, reader: LayerReader[Reader], node: OnnxNode, inputs: tuple[Value | None, ...], needed: tuple[bool, ...]
    ) -> Sequence[Value]:
        settings = Settings(node.attributes, frozenset(reader.settings), HARMLESS.union(reader.ignores))
        axes = self._softmax_axes.get(node.outputs[0], ())
        reading = OnnxReading(node, settings, inputs, needed, self._model.opset, self._builder, self._names, axes)
        for tensor in _tensors(inputs):
            if tensor.quantized and node.type not in ("Cast", "DequantizeLinear"):
                raise reading.unsupported("arithmetic of quantized numbers cannot be converted", HINTS["QLinearConv"])
        for tensor in _tensors(inputs):
            if tensor.integers is not None and node.type not in TAKES_INTEGERS:
                hint = "cast the input to floating point first"
                raise reading.unsupported("arithmetic of integers cannot be converted", hint)
        result = reader.read(reading)
        reading.check_all_is_used()
        return [result] if isinstance(result, OnnxTensor | Stored) else list(result)

    def _branch(self, node: OnnxNode, condition: Stored) -> list[Value]:
        """The values of the branch that is always taken."""
        check_attributes(node, ("then_branch", "else_branch"))
        body = node.attributes.get("then_branch" if condition.size == 1 and condition.load().any() else "else_branch")
        if condition.size != 1 or not isinstance(body, OnnxModel):
            problem = "the node has no single condition, or lacks a branch"
            raise ModelError.of("DV206", problem, node.where, "the file is damaged; export it again")
        around = (self._model, self._values, self._names, self._softmax_axes)
        constants = {name: value for name, value in self._values.items() if isinstance(value, Stored)}
        self._model = replace(body, initializers={**constants, **body.initializers})
        self._values = {**self._values, **body.initializers}
        self._names = self._names.union(name for inner in body.nodes for name in inner.outputs)
        self._softmax_axes = _softmax_axes(body)
        try:
            self._check_names(around[1])
            self._read_nodes()
            for info in body.outputs:
                if info.name in self._uncomputed:
                    raise self._uncomputed[info.name]
            return [self._values[info.name] for info in body.outputs]
        finally:
            self._model, self._values, self._names, self._softmax_axes = around

    def _unknown(self, node: OnnxNode) -> UnsupportedError:
        type = node.type if node.domain in DOMAINS else f"{node.domain}.{node.type}"
        if _is_optimized(node):
            problem = f"onnxruntime's optimizer wrote nodes that cannot be converted, such as {type}"
            self._optimized = self._optimized or UnsupportedError.of(
                "DV301", problem, Origin(node.where.file), ORIGINAL
            )
            return self._optimized
        hint = HINTS.get(node.type, HINT)
        if node.type in self._model.functions:
            hint = "inline the model's functions: onnx.inliner.inline_local_functions(model)"
        return UnsupportedError.of("DV301", f"nodes of the type {type} cannot be converted", node.where, hint)


def _is_optimized(node: OnnxNode) -> bool:
    """Whether onnxruntime's optimizer wrote the node."""
    if node.domain not in _OPTIMIZED:
        return False
    types = _OPTIMIZED[node.domain]
    return types is None or node.type in types


def _softmax_axes(model: OnnxModel) -> Mapping[str, tuple[int, ...]]:
    """The values that only Softmax nodes read, and the axes of these."""
    axes: dict[str, list[int]] = {}
    read_otherwise = {info.name for info in model.outputs}
    for node in model.nodes:
        axis = node.attributes.get("axis", -1 if model.opset >= 13 else 1)
        if node.type == "Softmax" and isinstance(axis, int):
            axes.setdefault(node.inputs[0] if node.inputs else "", []).append(axis)
        else:
            read_otherwise.update(node.inputs)
    return {name: tuple(listed) for name, listed in axes.items() if name not in read_otherwise}


def _tensors(values: Iterable[Value | None]) -> list[OnnxTensor]:
    return [value for value in values if isinstance(value, OnnxTensor)]


def _common_quantization(values: Sequence[Value | None]) -> QuantParams | None:
    """The one scale and zero point of all integers of the values, where they have one that constants can share."""
    params = [tensor.quantized for tensor in _tensors(values)]
    first = params[0] if params else None
    if first is None or first.scale.size != 1:
        return None
    for value in values:
        if isinstance(value, Stored) and value.size and value.dtype != first.type:
            return None
    are_same = all(each is not None and first.is_same(each) for each in params)
    return first if are_same else None


def _as_numbers(value: Value | None, quantized: QuantParams) -> Value | None:
    """The numbers that integers stand for, which are what the graph computes."""
    if isinstance(value, OnnxTensor):
        return value._replace(integers=None, quantized=None)
    return value and Stored.of(quantized.numbers(value.load()))


def _used(nodes: Sequence[OnnxNode], outputs: Sequence[str]) -> set[str]:
    """Names of the values that the outputs need."""
    used = set(outputs)
    for node in reversed(nodes):
        if not used.isdisjoint(node.outputs):
            used.update(node.inputs)
    return used - {""}


def _text(dims: Sequence[int]) -> str:
    return "x".join(str(n) if n else "?" for n in dims)
