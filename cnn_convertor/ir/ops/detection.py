"""The operators of SSD detection networks."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops.geometry import Pair, Shape, ShapeError


@dataclass(frozen=True, slots=True)
class PriorBox:
    """SSD's prior boxes, a constant. The result is (boxes * 4) x 1 x 2: coordinates, then variances.

    For each pixel of a map of `map_size`, row by row, and each min_size: a square of that size; with max_sizes, a square of
    sqrt(min_size * max_size); for each of `aspect_ratios` (without 1, including flips) a box of min_size. Coordinates are left,
    top, right, bottom, relative to `image_size`. step: image pixels between boxes. offset: of the center, in steps.
    """

    map_size: Pair
    image_size: Pair
    min_sizes: tuple[float, ...]
    max_sizes: tuple[float, ...]
    aspect_ratios: tuple[float, ...]
    clip: bool
    variance: tuple[float, float, float, float]
    step_height: float
    step_width: float
    offset: float

    @property
    def boxes_per_pixel(self) -> int:
        return len(self.min_sizes) * (1 + len(self.aspect_ratios)) + len(self.max_sizes)

    def output_shape(self) -> Shape:
        if not self.min_sizes or len(self.max_sizes) not in (0, len(self.min_sizes)):
            raise ShapeError(f"{len(self.min_sizes)} minimum and {len(self.max_sizes)} maximum box sizes")
        return Shape(math.prod(self.map_size) * self.boxes_per_pixel * 4, 1, 2)


class BoxCode(Enum):
    """How locations encode boxes relative to prior boxes."""

    CORNER = "corner"
    CENTER_SIZE = "center size"
    CORNER_SIZE = "corner size"


@dataclass(frozen=True, slots=True)
class DetectionOutput:
    """SSD's detections: decode boxes, suppress overlapping ones, keep the best.

    Inputs: locations and confidences (vectors, box by box) and a PriorBox. The result is keep_top_k x 7 x 1: image (0), label,
    confidence, left, top, right, bottom; sorted by label, then by descending confidence; unused rows are -1 followed by zeros.
    If nothing is detected, the first row is 0 followed by -1, as in Caffe.
    background: -1 for none. top_k (per class, before suppression), keep_top_k: -1 for all.
    """

    classes: int
    background: int
    share_location: bool
    code: BoxCode
    variance_encoded: bool
    nms_threshold: float
    top_k: int
    eta: float
    confidence_threshold: float
    keep_top_k: int

    def output_shape(self, locations: Shape, confidences: Shape, priors: Shape) -> Shape:
        boxes = priors.height // 4
        if priors != (boxes * 4, 1, 2):
            raise ShapeError(f"{priors} is not a shape of prior boxes")
        expected = (boxes * 4 * (1 if self.share_location else self.classes), boxes * self.classes)
        if (locations, confidences) != tuple(Shape(1, 1, size) for size in expected):
            raise ShapeError(
                f"{locations} locations and {confidences} confidences meet {boxes} prior boxes of "
                f"{self.classes} classes, which need {expected[0]} and {expected[1]}"
            )
        rows = boxes * self.classes if self.keep_top_k < 0 else self.keep_top_k
        return Shape(rows, 7, 1)


@dataclass(frozen=True, slots=True)
class DetectionInBoxes:
    """A DetectionOutput with known prior boxes: (boxes * 4, 1, 2) coordinates and variances. Inputs: locations and confidences."""

    detection: DetectionOutput
    boxes: Constant

    def output_shape(self, locations: Shape, confidences: Shape) -> Shape:
        return self.detection.output_shape(locations, confidences, Shape(*self.boxes.shape))


DetectionOp: TypeAlias = PriorBox | DetectionOutput | DetectionInBoxes  # the operators of this file
