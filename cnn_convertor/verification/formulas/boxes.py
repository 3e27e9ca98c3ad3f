"""Caffe's layers of boxes for detection."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from cnn_convertor.verification.formulas.layer import LOWEST, Blob, FormulaLayer, computes

SAME_RATIO = 1e-6


@computes("PriorBox")
def _prior_box(layer: FormulaLayer, features: Blob, image: Blob) -> Blob:
    """Boxes around the center of each pixel, and their variances: (1, 2, boxes * 4)."""
    settings = layer.message.prior_box_param
    rows, columns = features.shape[2:]
    height, width = image.shape[2:]
    if settings.img_size or settings.img_h:
        height = settings.img_h or settings.img_size
        width = settings.img_w or settings.img_size
    down = (settings.step_h or settings.step) or height / rows
    right = (settings.step_w or settings.step) or width / columns
    sizes = np.array(list(_box_sizes(settings)))  # (n, 2): width, height
    x = ((np.arange(columns) + settings.offset) * right)[None, :, None]
    y = ((np.arange(rows) + settings.offset) * down)[:, None, None]
    half_width, half_height = sizes[:, 0] / 2, sizes[:, 1] / 2
    corners = (
        (x - half_width) / width,
        (y - half_height) / height,
        (x + half_width) / width,
        (y + half_height) / height,
    )
    boxes = np.stack(np.broadcast_arrays(*corners), -1).reshape(-1)
    variance = list(settings.variance) or [0.1]
    variances = np.resize(variance * (4 // len(variance)), boxes.size)
    return np.stack([np.clip(boxes, 0, 1) if settings.clip else boxes, variances])[None]


def _box_sizes(settings: Any) -> Iterator[tuple[float, float]]:
    """Width and height of each box of a pixel. Caffe keeps sizes as whole numbers."""
    ratios = [1.0]
    for ratio in settings.aspect_ratio:
        if all(abs(ratio - known) >= SAME_RATIO for known in ratios):
            ratios += [ratio, 1 / ratio] if settings.flip else [ratio]
    for index, size in enumerate(map(int, settings.min_size)):
        yield size, size
        if settings.max_size:
            yield (math.sqrt(size * int(settings.max_size[index])),) * 2
        for ratio in ratios[1:]:
            yield size * math.sqrt(ratio), size / math.sqrt(ratio)


@computes("DetectionOutput")
def _detection_output(layer: FormulaLayer, locations: Blob, confidences: Blob, priors: Blob) -> Blob:
    """Rows (1, 1, n, 7): image, label, confidence, box. Labels ascend; within one, confidences descend."""
    settings = layer.message.detection_output_param
    classes = settings.num_classes
    count = priors.shape[2] // 4
    encoded = locations.reshape(count, -1, 4)
    scores = confidences.reshape(count, classes)
    detections: list[tuple[int, int]] = []  # label, box
    boxes = [
        _decoded(settings, encoded[:, group], *priors[0].reshape(2, count, 4)) for group in range(encoded.shape[1])
    ]
    for label in (label for label in range(classes) if label != settings.background_label_id):
        own = boxes[0] if settings.share_location else boxes[label]
        detections += [(label, box) for box in _kept(settings, own, scores[:, label])]
    if -1 < settings.keep_top_k < len(detections):
        best = sorted(detections, key=lambda each: -scores[each[1], each[0]])[: settings.keep_top_k]
        detections = sorted(best, key=lambda each: each[0])
    rows = [
        [0, label, scores[box, label], *(boxes[0] if settings.share_location else boxes[label])[box]]
        for label, box in detections
    ]
    return np.array(rows or [[0, *[-1] * 6]], float)[None, None]


def _decoded(settings: Any, encoded: Blob, priors: Blob, variances: Blob) -> Blob:
    """Boxes (n, 4): left, top, right, bottom."""
    moved = encoded if settings.variance_encoded_in_target else encoded * variances
    if settings.code_type == 1:  # CORNER
        return priors + moved
    size = priors[:, 2:] - priors[:, :2]
    if settings.code_type == 3:  # CORNER_SIZE
        return priors + moved * np.tile(size, 2)
    center = (priors[:, :2] + priors[:, 2:]) / 2 + moved[:, :2] * size
    half = np.exp(moved[:, 2:]) * size / 2
    return np.concatenate([center - half, center + half], axis=1)


def _kept(settings: Any, boxes: Blob, scores: Blob) -> list[int]:
    """Boxes from the best on, without those that overlap a better one too much."""
    nms = settings.nms_param
    threshold = settings.confidence_threshold if settings.HasField("confidence_threshold") else LOWEST
    order = [int(box) for box in np.argsort(-scores, kind="stable") if scores[box] > threshold]
    limit, kept = nms.nms_threshold, list[int]()
    for box in order[: nms.top_k] if nms.HasField("top_k") and nms.top_k > -1 else order:
        if all(_overlap(boxes[box], boxes[other]) <= limit for other in kept):
            kept.append(box)
            if nms.eta < 1 and limit > 0.5:
                limit *= nms.eta
    return kept


def _overlap(one: Blob, other: Blob) -> float:
    """The common area over the area of both."""

    def area(low: Blob, high: Blob) -> float:
        return float(np.prod(np.maximum(high - low, 0)))

    common = area(np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:]))
    both = area(one[:2], one[2:]) + area(other[:2], other[2:]) - common
    return common / both if common else 0.0
