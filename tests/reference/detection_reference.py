"""References of SSD's prior boxes and detections, with examples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Pair
from reference.registry import Array, reference, to_chw


def ssd_boxes(min_sizes: tuple[float, ...], max_sizes: tuple[float, ...], ratios: tuple[float, ...]) -> ops.PriorBox:
    """Boxes around 2 x 3 pixels."""
    variance = (0.1, 0.1, 0.2, 0.2)
    return ops.PriorBox(Pair(2, 3), Pair(40, 60), min_sizes, max_sizes, ratios, True, variance, 20.0, 20.0, 0.5)


BOXES = ssd_boxes((12.0, 20.0), (18.0, 30.0), (2.0,))  # 6 for each pixel


@reference(
    ops.PriorBox,
    {
        "boxes of two sizes and shapes": (ssd_boxes((12.0, 20.0), (), (2.0, 0.5)),),
        "boxes with sizes between": (BOXES,),
    },
)
def prior_boxes(op: ops.PriorBox) -> Array:
    sizes: list[tuple[float, float]] = []
    for index, size in enumerate(op.min_sizes):
        sizes.append((size, size))
        if op.max_sizes:
            sizes.append((math.sqrt(size * op.max_sizes[index]),) * 2)
        sizes += [(size / math.sqrt(ratio), size * math.sqrt(ratio)) for ratio in op.aspect_ratios]
    boxes = []
    for row in range(op.map_size.height):
        for column in range(op.map_size.width):
            y, x = (row + op.offset) * op.step_height, (column + op.offset) * op.step_width
            for height, width in sizes:
                boxes += [(x - width / 2) / op.image_size.width, (y - height / 2) / op.image_size.height,
                          (x + width / 2) / op.image_size.width, (y + height / 2) / op.image_size.height]  # fmt: skip
    coordinates = np.clip(boxes, 0, 1) if op.clip else np.array(boxes)
    return np.stack([coordinates, np.tile(op.variance, len(boxes) // 4)], axis=1)[:, None]


def detecting(code: ops.BoxCode, *, share: bool = True, keep: int = 12, eta: float = 1.0) -> tuple[Any, ...]:
    """Detections of 3 classes in 36 boxes, and their inputs, in FP16."""
    op = ops.DetectionOutput(3, 0, share, code, False, 0.6, 20, eta, 0.2, keep)
    random, priors = np.random.default_rng(1), prior_boxes(BOXES)
    locations = 2 * random.normal(size=(1, 1, len(priors) * (1 if share else 3)))
    scores = np.exp(2 * random.normal(size=(1, 36, 3)))
    confidences = (scores / scores.sum(axis=2, keepdims=True)).reshape(1, 1, -1)
    return op, *(x.astype(np.float16).astype(np.float64) for x in (locations, confidences, priors))


@reference(
    ops.DetectionOutput,
    {
        "detections": detecting(ops.BoxCode.CENTER_SIZE),
        "detections of each class": detecting(ops.BoxCode.CORNER, share=False, keep=40, eta=0.9),
        "all detections": detecting(ops.BoxCode.CORNER_SIZE, keep=-1),
    },
)
def detections(op: ops.DetectionOutput, locations: Array, confidences: Array, priors: Array) -> Array:
    variances = priors[:, 0, 1].reshape(-1, 4)
    corners = priors[:, 0, 0].reshape(-1, 4)
    scores = to_chw(confidences).reshape(len(corners), op.classes)
    moves = to_chw(locations).reshape(len(corners), -1, 4)
    found = []
    for label in set(range(op.classes)) - {op.background}:
        boxes = [
            decoded_box(op, corner, move[0 if op.share_location else label], variance)
            for corner, move, variance in zip(corners, moves, variances, strict=True)
        ]
        found += [(float(scores[i, label]), label, boxes[i]) for i in suppressed(op, boxes, scores[:, label])]
    if op.keep_top_k >= 0:
        found = sorted(found, key=lambda detection: -detection[0])[: op.keep_top_k]
    result = np.zeros((op.output_shape(*(ops.Shape(*x.shape) for x in (locations, confidences, priors))).height, 7, 1))
    result[len(found) :, 0] = -1
    if not found:
        result[0, :, 0] = (0, *[-1] * 6)
    for row, (score, label, box) in enumerate(sorted(found, key=lambda detection: detection[1])):
        result[row, :, 0] = (0, label, score, *box)
    return result


def in_boxes(op: ops.DetectionOutput, locations: Array, confidences: Array, priors: Array) -> tuple[Any, ...]:
    return ops.DetectionInBoxes(op, Constant.of(priors)), locations, confidences


@reference(
    ops.DetectionInBoxes,
    {
        "detections in known boxes": in_boxes(*detecting(ops.BoxCode.CENTER_SIZE)),
        "detections of each class in known boxes": in_boxes(*detecting(ops.BoxCode.CORNER, share=False)),
    },
)
def detections_in_boxes(op: ops.DetectionInBoxes, locations: Array, confidences: Array) -> Array:
    return detections(op.detection, locations, confidences, op.boxes.load().astype(locations.dtype))


def decoded_box(op: ops.DetectionOutput, corner: Array, move: Array, variance: Array) -> Array:
    """left, top, right, bottom of the box encoded by a location and a prior box."""
    if not op.variance_encoded:
        move = move * variance
    size = corner[2:] - corner[:2]
    match op.code:
        case ops.BoxCode.CORNER:
            return corner + move
        case ops.BoxCode.CORNER_SIZE:
            moved: Array = corner + move * np.concatenate([size, size])
            return moved
        case ops.BoxCode.CENTER_SIZE:
            middle, new = (corner[:2] + corner[2:]) / 2 + move[:2] * size, np.exp(move[2:]) * size
            box: Array = np.concatenate([middle - new / 2, middle + new / 2])
            return box


def suppressed(op: ops.DetectionOutput, boxes: list[Array], scores: Array) -> list[int]:
    """The indices of the remaining boxes of a class, by descending confidence."""
    candidates = sorted(np.flatnonzero(scores > op.confidence_threshold).tolist(), key=lambda i: -float(scores[i]))
    kept: list[int] = []
    threshold = op.nms_threshold
    for i in candidates if op.top_k < 0 else candidates[: op.top_k]:
        if all(overlap(boxes[i], boxes[j]) <= threshold for j in kept):
            kept.append(i)
            threshold *= op.eta if op.eta < 1 and threshold > 0.5 else 1
    return kept


def overlap(a: Array, b: Array) -> float:
    """Intersection over union."""
    common = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if min(common) <= 0:
        return 0.0
    areas = [float(np.prod(box[2:] - box[:2])) if (box[2:] >= box[:2]).all() else 0.0 for box in (a, b)]
    return float(np.prod(common)) / (sum(areas) - float(np.prod(common)))
