"""Runs an ONNX model with onnxruntime, or else with the reference of the onnx package, and gives every layer's output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.errors import ConvertorError, ModelError, Origin, Problem
from cnn_convertor.files.opening import bytes_of
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.frontends.arithmetic import range_of
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.input_layout import channels_last
from cnn_convertor.frontends.onnx.model import OnnxModel, ValueInfo, read_model
from cnn_convertor.frontends.onnx.tensors import FLOATS, TYPES
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Order
from cnn_convertor.verification.framework_maps import (
    HINT,
    KEPT,
    Reference,
    blobs_as_maps,
    blobs_as_output,
    first_line,
    missing,
    no_integers,
    require_outputs,
)
from cnn_convertor.verification.onnx_float32 import computes_16_bits, float32_copy
from cnn_convertor.verification.onnx_integers import integers_of

Numbers: TypeAlias = NDArray[Any]
Session: TypeAlias = Callable[[Sequence[str], Mapping[str, Numbers]], list[Numbers]]

WIDEST_QUANTIZED = 2  # bytes
GRAPH, OUTPUT, NAME = 7, 12, 1  # fields of ModelProto, GraphProto, ValueInfoProto


def opened(model: Model, graph: Graph) -> Callable[[Model, Mapping[str, Maps], object], Reference]:
    """A function from samples, input name -> (N, H, W, C), to the model's results. Raises UsageError and ModelError.

    It takes the model as well, whose files may be elsewhere by then: only messages name them.
    """
    with _refusals(model.definition), temporary_folder() as folder:
        path = _beginning_at(model, graph, folder / "part.onnx") if model.inputs else model.definition
        file = read_model(path)
        last = channels_last(file if path == model.definition else read_model(model.definition))
        names = [*dict.fromkeys((*graph.outputs, *_layers_of(file)))]
        framework, session, ends, file = _opened(path, file, names, folder / "float32.onnx")
        if model.outputs:
            chosen = [name for name in dict.fromkeys(graph.outputs) if name in model.outputs]
            named = [name for name in dict.fromkeys(model.outputs) if name in graph.outputs]
            require_outputs("the ini file", model.definition, named, chosen)
        else:
            require_outputs(framework, model.definition, ends, graph.outputs)

    def results(model: Model, inputs: Mapping[str, Maps], _: object) -> Reference:
        with _refusals(model.definition):
            return _results(framework, session, names, file, last, graph, inputs)

    return results


def _opened(path: Path, file: OnnxModel, names: Sequence[str], copy: Path) -> tuple[str, Session, list[str], OnnxModel]:
    """As `open_session`, with the model that runs: a copy in float32 if the runtime cannot run the types of the file."""
    if not computes_16_bits(file):
        try:
            return *open_session(path, names), file
        except ImportError:
            raise
        except Exception:  # onnxruntime raises exceptions of any type
            if not float32_copy(path, copy):
                raise
    else:
        float32_copy(path, copy)
    framework, session, ends = open_session(copy, names)
    return f"{framework} (a copy in float32)", session, ends, read_model(copy)


def _beginning_at(model: Model, graph: Graph, path: Path) -> Path:
    """Write the part of a model between the inputs and the outputs of a graph. Raises ImportError without onnx."""
    import onnx

    part = onnx.shape_inference.infer_shapes(onnx.load(model.definition))
    infos = {info.name: info for info in (*part.graph.value_info, *part.graph.input)}
    begins = {node.name: graph.shape(node.name) for node in graph.inputs}
    ends = graph.outputs if model.outputs else [info.name for info in part.graph.output]
    makers = {name: index for index, node in enumerate(part.graph.node) for name in node.output}
    needed, waiting = set[int](), [*ends]
    while waiting:
        name = waiting.pop()
        maker = None if name in begins else makers.get(name)
        if maker is not None and maker not in needed:
            needed.add(maker)
            waiting.extend(part.graph.node[maker].input)
    nodes = [part.graph.node[index] for index in sorted(needed)]
    for node in nodes:
        for index, name in enumerate(node.output):  # an input, and a result beside it that is computed
            node.output[index] = f"{name} of {node.op_type}" if name in begins else name
    inputs = [
        infos.get(name)
        or onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, size.channels, size.height, size.width))
        for name, size in begins.items()
    ]
    infos |= {info.name: info for info in part.graph.output}
    fields = {"node": nodes, "input": inputs, "output": [infos[name] for name in ends if name in infos]}
    for name, values in fields.items():
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        part.graph.ClearField(name)
        getattr(part.graph, name).extend(copies)
    onnx.save(part, path)
    return path


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Turn errors of the runtime into errors of the user's."""
    try:
        yield
    except ImportError as error:
        raise missing("onnxruntime", "onnx") from error
    except ConvertorError:
        raise
    except Exception as error:  # onnxruntime raises exceptions of any type
        problem = f"onnxruntime refuses the model: {first_line(error)}"
        raise ModelError(Problem("DV712", problem, Origin(str(path)), HINT)) from error


def _results(
    framework: str,
    session: Session,
    names: Sequence[str],
    file: OnnxModel,
    last: Collection[str],
    graph: Graph,
    inputs: Mapping[str, Maps],
) -> Reference:
    """The results for samples. names: of all layers, the outputs first. last: inputs whose channels come last."""
    outputs: list[list[Numbers]] = []
    layers: dict[str, list[Maps]] = {}
    integers = integers_of(file)
    for sample in range(len(next(iter(inputs.values())))):
        names_of_sample = names if sample < KEPT else names[: len(graph.outputs)]
        results = session(names_of_sample, inputs_of(file, inputs, sample, last))
        for at, name in enumerate(names_of_sample):
            if name in integers:
                results[at] = integers[name].numbers(results[at])
        outputs.append(results[: len(graph.outputs)])
        for name, numbers in zip(names, results, strict=True) if sample < KEPT else ():
            if _is_compared(numbers.dtype) and numbers.size and numbers.shape[:1] == (1,):
                layers.setdefault(name, []).append(blobs_as_maps(numbers))
    return Reference(
        framework=framework,
        outputs={
            index: np.concatenate([blobs_as_output(values, graph.shape(name)) for values in samples])
            for index, (name, *samples) in enumerate(zip(graph.outputs, *outputs, strict=True))
        },
        layers={name: np.concatenate(maps) for name, maps in layers.items()},
        order=Order.CHW,
    )


def _is_compared(dtype: np.dtype[Any]) -> bool:
    """Whether a layer's result is comparable: the graph has the numbers that integers of 8 or 16 bits stand for."""
    return dtype.kind == "f" or (dtype.kind in "iu" and dtype.itemsize > WIDEST_QUANTIZED)


def open_session(path: Path, layers: Sequence[str]) -> tuple[str, Session, list[str]]:
    """The runtime's name, a function from names and a model's inputs to the named values, and the model's outputs.

    layers: what can be named. Raises ImportError without any runtime.
    """
    try:
        import onnxruntime
    except ImportError:
        return "ONNX's reference", *_reference(path, layers)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )  # every layer keeps its output
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # the same accumulation order with any number of processors
    folder = str(path.parent.resolve())
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    content = with_outputs(bytes_of(path), layers)
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    outputs = [output.name for output in session.get_outputs()]
    own = outputs[: len(outputs) - len(layers)]
    return "onnxruntime", lambda names, inputs: list(session.run(list(names), dict(inputs))), own


def _reference(path: Path, layers: Sequence[str]) -> tuple[Session, list[str]]:
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    own = [output.name for output in model.graph.output]
    model.MergeFromString(with_outputs(b"", layers))
    evaluator = ReferenceEvaluator(model)
    return lambda names, inputs: list(evaluator.run(list(names), dict(inputs))), own


def with_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """A serialized model with more outputs. Protobuf joins the parts of a message that are given one after the other."""
    outputs = (_field(OUTPUT, _field(NAME, name.encode())) for name in names)
    return model + _field(GRAPH, b"".join(outputs))


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def _layers_of(model: OnnxModel) -> list[str]:
    """The model's values, each named as the layer that computes it."""
    known = {info.name for info in model.outputs}
    return [
        node.outputs[0] for node in model.nodes if node.outputs and node.outputs[0] and node.outputs[0] not in known
    ]


def inputs_of(model: OnnxModel, maps: Mapping[str, Maps], sample: int, last: Collection[str]) -> dict[str, Numbers]:
    """One sample as the arrays that the model takes. maps: input -> (N, H, W, C). last: inputs whose channels come last."""
    infos = {info.name: info for info in model.inputs}
    return {name: _as_array(values[sample], infos[name], name in last) for name, values in maps.items()}


def _as_array(values: Maps, info: ValueInfo, is_last: bool) -> Numbers:
    array = values if is_last else np.ascontiguousarray(values.transpose(2, 0, 1))
    type = TYPES[info.type]
    with np.errstate(invalid="ignore"):  # what does not fit is refused
        converted = array.reshape(_dims(info, array.shape)).astype(type)
    if info.type not in FLOATS and not np.array_equal(converted, array.reshape(converted.shape)):
        raise no_integers(info.name, *range_of(type))
    return converted


def _dims(info: ValueInfo, sizes: Dims) -> Dims:
    """The input's dims, where sizes that the file leaves open are those of the map: (C, H, W), or (H, W, C)."""
    dims = info.dims or ()
    return tuple(n or size for n, size in zip(dims, (1, *sizes), strict=False))
