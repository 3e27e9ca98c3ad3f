"""Turns a Caffe network (a text definition and binary weights) into a graph."""

from collections.abc import Sequence
from pathlib import Path

from cnn_convertor.errors import ModelError, Origin, UnsupportedError, suggestion
from cnn_convertor.frontends.builder import Builder, PartialGraph
from cnn_convertor.frontends.caffe.blob_graph import BlobGraph, ConnectedLayer, Top, connect
from cnn_convertor.frontends.caffe.definition import CaffeLayer, read_definition
from cnn_convertor.frontends.caffe.layers import caffe
from cnn_convertor.frontends.caffe.parameters import WeightsFile
from cnn_convertor.frontends.caffe.reading import CaffeBlob, CaffeReading, Parameters
from cnn_convertor.frontends.caffe.sharing import SharedWeights
from cnn_convertor.frontends.frontend import ReadOptions
from cnn_convertor.ir.ops import Pair

DATA_HINT = (
    'replace it with an Input layer: layer { type: "Input" input_param { shape { dim: 1 dim: 3 dim: 224 dim: 224 } } }'
)
HINT = "remove it, or let the network end before it"
RECURRENT = (
    "let the network end before it and run the recurrent part in the application; or train a convolution over time"
)
PROPOSALS = "let the network end before it: the regions that the rest works on depend on the image"
HINTS = {
    "Embed": "look the vectors up in the application, and make them the network's input",
    **dict.fromkeys(("LSTM", "RNN", "Recurrent", "LSTMUnit"), RECURRENT),
    "Python": "replace it with Caffe's own layers, or let the network end before it",
    "Parameter": "replace it with a Scale or Bias layer, which has weights",
    **dict.fromkeys(("Proposal", "ROIPooling", "PSROIPooling"), PROPOSALS),
    "Filter": "let the network end before it: the size of its result depends on the image",
}
READ_MASKS = {("Upsample", 1)}  # (type, position of the input)
MASK = "the mask of a pooling can only be converted as an input of an unpooling"


def read(definition: Path, data: Path | None, options: ReadOptions = ReadOptions()) -> PartialGraph:
    """The network of a definition and its weights, at test time, as far as it can be read.

    data: the .caffemodel; the definition itself for a network without weights; None to inspect a network without its weights.
    Raises ModelError when the definition is not what it should be.
    """
    layers = read_definition(definition, options.stages, options.level)
    builder = Builder()
    file = None if data is None else _weights_file(definition, data, builder)
    weights = None if file is None else SharedWeights.of(file, layers)
    connected = connect(layers, Origin(str(definition)))
    return _assemble(connected, weights, None if options.size is None else Pair(*options.size), builder)


def _weights_file(definition: Path, data: Path, builder: Builder) -> WeightsFile | None:
    """The weights; None when their file cannot be read, which the builder keeps for the end."""
    if data == definition:
        return WeightsFile.none(data)
    try:
        return WeightsFile.open(data)
    except ModelError as error:
        builder.report(error)
        return None


def _assemble(graph: BlobGraph, weights: SharedWeights | None, size: Pair | None, builder: Builder) -> PartialGraph:
    blobs: dict[Top, CaffeBlob] = {}
    batch = _batch(graph)
    for connected in graph.layers:
        reader = caffe.get(connected.layer.type)
        group = ""
        settings = Parameters(None)
        if reader is not None and reader.group:
            message = getattr(connected.layer.message, reader.group)
            group = reader.group
            settings = Parameters(message, reader.settings, reader.ignores)
        inputs = tuple(blobs[source] for source in connected.sources)
        reading = CaffeReading(
            connected.layer, group, settings, inputs, connected.needed, size, batch, builder, weights
        )
        results = _read(reading, connected)
        for top, blob in zip(connected.tops, results, strict=True):
            if blob.mask is not None and top in graph.outputs:
                builder.report(reading.unsupported(MASK, "give it to an Upsample layer, or to a Silence layer"))
        blobs.update(zip(connected.tops, results, strict=True))
        if len(results) > 1:
            names = zip((blob.node for blob in results), connected.layer.tops, strict=True)
            builder.name_outputs(connected.layer.origin, tuple(names))
    return builder.finish([blobs[top].node for top in graph.outputs])


def _read(reading: CaffeReading, connected: ConnectedLayer) -> Sequence[CaffeBlob]:
    """The blobs of a layer's tops; placeholders if the layer cannot be read."""
    results: list[CaffeBlob] = []

    def read() -> list[str]:
        results.extend(_read_layer(reading))
        return [blob.node for blob in results]

    layer = connected.layer
    placeholder = (layer.name or layer.type, layer.origin)
    nodes = reading.builder.read([blob.node for blob in reading.inputs], read, placeholder)
    if [blob.node for blob in results] == nodes:
        return results
    height, width, channels = reading.builder.shape(nodes[0])
    dims = reading.inputs[0].dims if reading.inputs else (1, channels, height, width)
    return [CaffeBlob(nodes[0], dims)] * len(connected.tops)


def _read_layer(reading: CaffeReading) -> Sequence[CaffeBlob]:
    layer = reading.layer
    reader = caffe.get(layer.type)
    if reader is None:
        raise _unknown_type(layer)
    for position, blob in enumerate(reading.inputs):
        if blob.mask is not None and (layer.type, position) not in READ_MASKS:
            raise reading.unsupported(MASK, "only the second input of an Upsample layer may be a mask")
    blobs = reader.read(reading)
    results = [blobs] if isinstance(blobs, CaffeBlob) else list(blobs)
    if len(results) != len(layer.tops):
        raise reading.unsupported(f"a layer of this type with {len(layer.tops)} outputs cannot be converted")
    reading.check_all_is_used()
    return results


def _unknown_type(layer: CaffeLayer) -> ModelError | UnsupportedError:
    if not layer.type:
        hint = "old definitions need Caffe's upgrade_net_proto_text"
        return ModelError.of("DV212", "the layer has no type", layer.origin, hint)
    hint = DATA_HINT if layer.type.endswith("Data") else HINTS.get(layer.type, HINT)
    hint = suggestion(layer.type, caffe, strict=True) or hint
    return UnsupportedError.of("DV301", f"layers of the type {layer.type} cannot be converted", layer.origin, hint)


def _batch(graph: BlobGraph) -> int:
    """The batch size that the definition is written for."""
    inputs = (connected.layer for connected in graph.layers if connected.layer.type == "Input")
    shapes = (shape for layer in inputs for shape in layer.message.input_param.shape if shape.dim)
    return next((int(shape.dim[0]) for shape in shapes), 1)
