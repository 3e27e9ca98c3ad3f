"""ONNX: one .onnx file, in part with weights in files beside it."""

from cnn_convertor.frontends.frontend import Frontend

ONNX = Frontend(
    name="ONNX",
    title="ONNX",
    definitions=(".onnx",),
    data=(".onnx",),
    magic=tuple(bytes((0x08, version, 0x12)) for version in range(3, 16)),  # IR version, then the producer's name
    channel_order="RGB",
    runner="onnxruntime",
    options=frozenset({"size"}),
    importer="cnn_convertor.frontends.onnx.importer",
    finds_weights=True,
)
