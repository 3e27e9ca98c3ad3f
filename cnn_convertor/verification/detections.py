"""Runs OpenCV's detection on given boxes, so that a DetectionOutput is compared apart from its inputs.

The least difference between two scores decides which of two boxes is kept, so rows cannot be compared from end to end.
"""

import tempfile
from pathlib import Path

import numpy as np

from cnn_convertor.emulation.run import Maps
from cnn_convertor.ir.ops import BoxCode, DetectionOutput
from cnn_convertor.verification.framework_maps import missing

CODES = {BoxCode.CORNER: "CORNER", BoxCode.CENTER_SIZE: "CENTER_SIZE", BoxCode.CORNER_SIZE: "CORNER_SIZE"}
ROW = 7


def detect(op: DetectionOutput, locations: Maps, confidences: Maps, priors: Maps) -> Maps:
    """The result of OpenCV's DetectionOutput for maps of N samples: (N, rows, 7, 1).

    Raises UsageError when OpenCV is not installed.
    """
    try:
        import cv2
    except ImportError as error:
        raise missing("OpenCV") from error
    # OpenCV takes no variances where the boxes hold them already
    boxes = priors[..., :1] if op.variance_encoded else priors
    blobs = {"locations": locations, "confidences": confidences, "priors": boxes}
    with tempfile.TemporaryDirectory(prefix="cnn-convertor-") as name:
        path = Path(name, "detect.prototxt")
        path.write_text(_definition(op, {name: values.shape[1:] for name, values in blobs.items()}))
        net = cv2.dnn.readNetFromCaffe(str(path))
    samples = []
    for sample in range(len(priors)):
        for name, values in blobs.items():
            blob = values[sample].transpose(2, 0, 1).astype(np.float32)
            net.setInput(np.ascontiguousarray(blob.reshape(_dims(values.shape[1:]))), name)
        samples.append(as_rows(np.array(net.forward()), _rows(op, priors)))
    return np.stack(samples)


def as_rows(found: Maps, rows: int) -> Maps:
    """OpenCV's rows, of which those without a detection are zeros, as (rows, 7, 1), as DetectionOutput describes them."""
    found = found.reshape(-1, ROW)
    found = found[found[:, 2] > 0]
    result = np.zeros((rows, ROW, 1), np.float32)
    result[len(found) :, 0] = -1
    result[: len(found), :, 0] = found
    if not len(found):
        result[0, :, 0] = (0, *[-1] * (ROW - 1))
    return result


def _rows(op: DetectionOutput, priors: Maps) -> int:
    return op.keep_top_k if op.keep_top_k >= 0 else priors.shape[1] // 4 * op.classes


def _dims(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dims of a vector, or of prior boxes."""
    height, width, channels = shape
    return (1, channels) if height == width == 1 else (1, channels, height * width)


def _definition(op: DetectionOutput, shapes: dict[str, tuple[int, ...]]) -> str:
    inputs = (
        f'input: "{name}" input_shape {{ {" ".join(f"dim: {dim}" for dim in _dims(shape))} }}'
        for name, shape in shapes.items()
    )
    bottoms = " ".join(f'bottom: "{name}"' for name in shapes)
    text = {True: "true", False: "false"}
    param = f"""num_classes: {op.classes} share_location: {text[op.share_location]} background_label_id: {op.background}
        nms_param {{ nms_threshold: {op.nms_threshold} top_k: {op.top_k} eta: {op.eta} }} code_type: {CODES[op.code]}
        variance_encoded_in_target: {text[op.variance_encoded]} keep_top_k: {op.keep_top_k}
        confidence_threshold: {op.confidence_threshold}"""
    layer = f'layer {{ name: "d" type: "DetectionOutput" {bottoms} top: "d" detection_output_param {{ {param} }} }}'
    return "\n".join([*inputs, layer])
