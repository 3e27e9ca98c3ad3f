"""Computes the prior boxes of a detection: they depend on shapes alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Concat, DetectionInBoxes, DetectionOutput, PriorBox

Boxes = NDArray[np.float32]


def fold_boxes(graph: Graph, node: Node) -> Iterable[Node] | None:
    """Give a detection its boxes as numbers, in place of the nodes that compute them."""
    if not isinstance(node.op, DetectionOutput):
        return None
    boxes = _known(graph, node.inputs[2])
    if boxes is None:
        return None
    return (replace(node, op=DetectionInBoxes(node.op, Constant.of(boxes)), inputs=node.inputs[:2]),)


def _known(graph: Graph, name: str) -> Boxes | None:
    """A map of boxes; None where the input of the network has an effect on it."""
    match graph[name].op:
        case PriorBox() as op:
            return prior_boxes(op)
        case Concat(axis=Axis.HEIGHT):
            parts = [_known(graph, part) for part in graph[name].inputs]
            boxes = [part for part in parts if part is not None]
            return np.concatenate(boxes) if len(boxes) == len(parts) else None
        case _:
            return None


def prior_boxes(op: PriorBox) -> Boxes:
    """The map of a PriorBox. All arithmetic is that of FP32, as in Caffe."""
    sizes = np.array(list(_sizes(op)), np.float32)  # height and width of each box of a pixel
    steps = np.array([op.step_height, op.step_width], np.float32)
    image = np.array(op.image_size, np.float32)
    places = np.moveaxis(np.indices(op.map_size, np.float32), 0, -1)
    centers = ((places + np.float32(op.offset)) * steps)[:, :, None]
    near = (centers - sizes / 2) / image
    far = (centers + sizes / 2) / image
    corners = np.concatenate([near[..., ::-1], far[..., ::-1]], axis=-1).reshape(-1)  # left, top, right, bottom
    if op.clip:
        corners = corners.clip(0, 1)
    variances = np.tile(np.array(op.variance, np.float32), len(corners) // 4)
    return np.stack([corners, variances], axis=-1)[:, None].astype(np.float32)


def _sizes(op: PriorBox) -> Iterator[tuple[np.float32, np.float32]]:
    for position, size in enumerate(map(np.float32, op.min_sizes)):
        yield size, size
        if op.max_sizes:
            between = np.sqrt(size * np.float32(op.max_sizes[position]))
            yield between, between
        for ratio in map(np.float32, op.aspect_ratios):
            yield size / np.sqrt(ratio), size * np.sqrt(ratio)
