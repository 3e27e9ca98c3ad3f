"""Reads networks in Caffe's files: a text definition (.prototxt) and binary weights (.caffemodel)."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from cnn_convertor.errors import ModelError, Problem, UnsupportedError
from cnn_convertor.frontends.builder import Builder, PartialGraph
from cnn_convertor.frontends.caffe.definition import Layer, read_definition
from cnn_convertor.frontends.caffe.layers import caffe
from cnn_convertor.frontends.caffe.reading import Reading, Value
from cnn_convertor.frontends.caffe.sharing import SharedWeights
from cnn_convertor.frontends.caffe.weights import Weights
from cnn_convertor.frontends.caffe.wiring import Net, Source, Step, connect
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Pair

DATA_HINT = (
    'put an Input layer in its place: layer { type: "Input" input_param { shape { dim: 1 dim: 3 dim: 224 dim: 224 } } }'
)
HINT = "take it out, or let the network end before it"
RECURRENT = "let the network end before it, and run what remembers in the application; or train a convolution over time"
PROPOSALS = "let the network end before it: the regions that the rest works on depend on what is seen"
HINTS = {
    "Embed": "look the vectors up in the application, and make them the network's input",
    "LSTM": RECURRENT,
    "RNN": RECURRENT,
    "Recurrent": RECURRENT,
    "LSTMUnit": RECURRENT,
    "Python": "write what it computes with Caffe's own layers, or let the network end before it",
    "Parameter": "put a Scale or Bias layer, which has weights, in its place",
    "Proposal": PROPOSALS,
    "ROIPooling": PROPOSALS,
    "PSROIPooling": PROPOSALS,
    "Filter": "let the network end before it: the size of its result depends on what is seen",
}
READ_MASKS = {("Upsample", 1)}  # (type, position of the input)
MASK = "what reads the mask of a pooling, other than an unpooling, cannot be converted"


def load(definition: Path, data: Path, *, size: tuple[int, int] | None = None) -> Graph:
    """The network of a definition and its weights, at test time.

    data: the .caffemodel; the definition itself when there is none, which is enough for a network without weights.
    size: (height, width) that every input map has instead of the definition's.
    Raises ModelError when a file is not what it should be, UnsupportedError with all layers that cannot be converted.
    """
    return read(definition, data, size=size).require_complete()


def read(
    definition: Path,
    data: Path | None,
    *,
    size: tuple[int, int] | None = None,
    custom_layers: Path | None = None,  # noqa: ARG001  # Caffe's layer types are never the user's own
) -> PartialGraph:
    """Like load, but with the problems of single layers beside what could be read of the network.

    data: None to look at a network whose weights are not there.
    Raises ModelError when the definition is not what it should be.
    """
    layers = read_definition(definition)
    builder = Builder()
    weights = None if data is None else _weights(definition, data, builder)
    shared = None if weights is None else SharedWeights.of(weights, layers)
    return _assemble(connect(layers), shared, None if size is None else Pair(*size), builder)


def _weights(definition: Path, data: Path, builder: Builder) -> Weights | None:
    """The weights, or None when their file cannot be read, which is kept for the end."""
    if data == definition:
        return Weights.none(data)
    try:
        return Weights.open(data)
    except ModelError as error:
        builder.report(error)
        return None


def _assemble(net: Net, weights: SharedWeights | None, size: Pair | None, builder: Builder) -> PartialGraph:
    values: dict[Source, Value] = {}
    batch = _batch(net)
    for step in net.steps:
        inputs = tuple(values[source] for source in step.sources)
        reading = Reading(step.layer, inputs, step.needed, size, batch, builder, weights)
        results = _read(reading, step)
        for source, value in zip(step.tops, results, strict=True):
            if value.mask is not None and source in net.outputs:
                builder.report(reading.unsupported(MASK, "give it to an Upsample layer, or to a Silence layer"))
        values.update(zip(step.tops, results, strict=True))
    return builder.finish([values[source].node for source in net.outputs])


def _read(reading: Reading, step: Step) -> Sequence[Value]:
    """The values of a step's tops, stand-ins if the layer cannot be read."""
    results: list[Value] = []

    def read() -> list[str]:
        results.extend(_read_layer(reading))
        return [value.node for value in results]

    layer = step.layer
    nodes = reading.builder.read(
        [value.node for value in reading.inputs], read, (layer.name or layer.type, layer.origin)
    )
    if [value.node for value in results] != nodes:
        height, width, channels = reading.builder.shape(nodes[0])
        dims = reading.inputs[0].dims if reading.inputs else (1, channels, height, width)
        return [Value(nodes[0], dims)] * len(step.tops)
    return results


def _read_layer(reading: Reading) -> Sequence[Value]:
    layer = reading.layer
    reader = caffe.get(layer.type)
    if reader is None:
        raise _unknown_type(layer)
    for position, value in enumerate(reading.inputs):
        if value.mask is not None and (layer.type, position) not in READ_MASKS:
            raise reading.unsupported(MASK, "only the second input of an Upsample layer may be one")
    made = reader(reading)
    results = [made] if isinstance(made, Value) else list(made)
    if len(results) != len(layer.tops):
        raise reading.unsupported(f"a layer of this type with {len(layer.tops)} outputs cannot be converted")
    reading.check_all_is_used()
    return results


def _unknown_type(layer: Layer) -> ModelError | UnsupportedError:
    if not layer.type:
        return ModelError(
            Problem(
                "DV212", "the layer has no type", layer.origin, "old definitions need Caffe's upgrade_net_proto_text"
            )
        )
    hint = DATA_HINT if layer.type.endswith("Data") else HINTS.get(layer.type) or _meant(layer.type) or HINT
    return UnsupportedError(
        Problem("DV301", f"layers of the type {layer.type} cannot be converted", layer.origin, hint)
    )


def _meant(type: str) -> str:
    """Whether another type was meant: capitals and small letters are not the same to Caffe."""
    spelled = {known.lower(): known for known in caffe}
    close = difflib.get_close_matches(type.lower(), spelled, n=1, cutoff=0.85)
    return f'did you mean "{spelled[close[0]]}"?' if close else ""


def _batch(net: Net) -> int:
    """The batch size that the definition is written for."""
    for step in net.steps:
        if step.layer.type == "Input":
            for shape in step.layer.message.input_param.shape:
                if shape.dim:
                    return int(shape.dim[0])
    return 1
