"""Detects by Caffe's formula in given boxes, so that a DetectionOutput is compared apart from its inputs.

The least difference between two scores decides which of two boxes is kept, so rows cannot be compared from end to end.
"""

import numpy as np

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.ops import BoxCode, DetectionOutput
from cnn_convertor.verification.caffe_network import evaluate, read_network

CODES = {BoxCode.CORNER: "CORNER", BoxCode.CENTER_SIZE: "CENTER_SIZE", BoxCode.CORNER_SIZE: "CORNER_SIZE"}
ROW = 7


def detect(op: DetectionOutput, locations: Maps, confidences: Maps, priors: Maps) -> Maps:
    """The rows of Caffe's formula for maps of N samples: (N, rows, 7, 1)."""
    maps = {"locations": locations, "confidences": confidences, "priors": priors}
    dims = {name: _dims(values.shape[1:]) for name, values in maps.items()}
    with temporary_folder() as folder:
        path = folder / "detect.prototxt"
        path.write_text(_definition(op, dims))
        layers = read_network(path, None)
    samples = []
    for sample in range(len(priors)):
        blobs = {
            name: values[sample].transpose(2, 0, 1).reshape(dims[name]).astype(np.float64)
            for name, values in maps.items()
        }
        samples.append(as_rows(evaluate(layers, blobs).tops["d", 0].astype(np.float32), _rows(op, priors)))
    return np.stack(samples)


def as_rows(detections: Maps, rows: int) -> Maps:
    """Rows of Caffe's formula as (rows, 7, 1), as DetectionOutput describes them. Other rows are dropped."""
    detections = detections.reshape(-1, ROW)
    detections = detections[detections[:, 2] > 0]
    result = np.zeros((rows, ROW, 1), np.float32)
    result[len(detections) :, 0] = -1
    result[: len(detections), :, 0] = detections
    if not len(detections):
        result[0, :, 0] = (0, *[-1] * (ROW - 1))
    return result


def _rows(op: DetectionOutput, priors: Maps) -> int:
    return op.keep_top_k if op.keep_top_k >= 0 else priors.shape[1] // 4 * op.classes


def _dims(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dims of a vector, or of prior boxes."""
    height, width, channels = shape
    return (1, channels) if height == width == 1 else (1, channels, height * width)


def _definition(op: DetectionOutput, inputs: dict[str, tuple[int, ...]]) -> str:
    """A network of this one layer. inputs: name -> dims."""
    declarations = (f'input: "{name}" input_shape {{ dim: {[*dims]} }}' for name, dims in inputs.items())
    bottoms = " ".join(f'bottom: "{name}"' for name in inputs)
    text = {True: "true", False: "false"}
    param = f"""num_classes: {op.classes} share_location: {text[op.share_location]} background_label_id: {op.background}
        nms_param {{ nms_threshold: {op.nms_threshold} top_k: {op.top_k} eta: {op.eta} }} code_type: {CODES[op.code]}
        variance_encoded_in_target: {text[op.variance_encoded]} keep_top_k: {op.keep_top_k}
        confidence_threshold: {op.confidence_threshold}"""
    layer = f'layer {{ name: "d" type: "DetectionOutput" {bottoms} top: "d" detection_output_param {{ {param} }} }}'
    return "\n".join([*declarations, layer])
