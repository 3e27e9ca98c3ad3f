"""SSD's layers: which settings mean what, and boxes and detections that are worked out by hand."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import BoxCode, Pair
from reference import ir_reference

INPUTS = """
input: "image" input_shape { dim: [1, 3, 30, 60] }
input: "map" input_shape { dim: [1, 8, 2, 3] }
"""


def boxes(load: Any, settings: str) -> ops.PriorBox:
    layer = 'layer { name: "l" type: "PriorBox" bottom: "map" bottom: "image" top: "y" prior_box_param { %s } }'
    op = load(INPUTS + layer % settings)["l"].op
    assert isinstance(op, ops.PriorBox)
    return op


def test_boxes_without_settings_spread_over_the_image(load: Any) -> None:
    assert boxes(load, "min_size: 4.9") == ops.PriorBox(
        Pair(2, 3), Pair(30, 60), (4.0,), (), (), False, (0.1, 0.1, 0.1, 0.1), 15.0, 20.0, 0.5
    )


def test_all_settings_of_boxes(load: Any) -> None:
    settings = """min_size: [4, 6] max_size: [8.7, 9] aspect_ratio: [1, 2, 2, 0.5, 3] flip: true clip: true
        variance: [0.5, 1, 2, 3] step_h: 4 step_w: 5 img_h: 40 img_w: 50 offset: 0.25"""
    made = boxes(load, settings)
    assert made == ops.PriorBox(
        Pair(2, 3), Pair(40, 50), (4.0, 6.0), (8.0, 9.0), made.aspect_ratios, True, (0.5, 1.0, 2.0, 3.0), 4.0, 5.0, 0.25
    )
    np.testing.assert_allclose(made.aspect_ratios, [2, 1 / 2, 3, 1 / 3])
    assert made.boxes_per_pixel == 2 * (1 + 1 + 4)


def test_many_ratios_are_read_in_seconds(load: Any) -> None:
    """Each is compared with its neighbors alone."""
    ratios = [1 + (index // 2 + 1) / 1000 for index in range(20_000)]
    start = time.process_time()
    made = boxes(load, f"min_size: 4 flip: false aspect_ratio: {ratios}")
    assert time.process_time() - start < 20
    np.testing.assert_allclose(made.aspect_ratios, ratios[::2], rtol=1e-6)


def test_one_number_for_height_and_width_and_ratios_that_are_not_turned(load: Any) -> None:
    made = boxes(load, "min_size: 4 aspect_ratio: [2, 0.5, 2] flip: false img_size: 20 step: 3 variance: 0.3")
    assert (made.image_size, made.step_height, made.step_width) == (Pair(20, 20), 3.0, 3.0)
    assert made.aspect_ratios == (2.0, 0.5)
    assert made.variance == pytest.approx((0.3,) * 4)


def test_the_boxes_themselves(load: Any) -> None:
    made = boxes(load, "min_size: 4 max_size: 9 aspect_ratio: 4 flip: true")
    values = ir_reference.execute(made)
    assert values.shape == (2 * 3 * 4 * 4, 1, 2)
    # the center of the first pixel is (10, 7.5) in the image of 60 x 30: squares of 4 and 6, then 8 x 2 and 2 x 8
    sides = [(4, 4), (6, 6), (8, 2), (2, 8)]
    expected = [((10 - w / 2) / 60, (7.5 - h / 2) / 30, (10 + w / 2) / 60, (7.5 + h / 2) / 30) for w, h in sides]
    np.testing.assert_allclose(values[:16, 0, 0].reshape(4, 4), expected)
    np.testing.assert_allclose(values[-4, 0, 0], (50 - 1) / 60)  # of the last pixel, at (50, 22.5)
    np.testing.assert_array_equal(values[:, 0, 1], 0.1)


# --- detections ------------------------------------------------------------------------------------------------------

PRIORS = np.array([[0.2, 0.2, 0.4, 0.6], [0.5, 0.5, 0.7, 0.9]])
VARIANCE = np.array([0.1, 0.2, 0.3, 0.4])


def detecting(load: Any, settings: str, locations: int, classes: int) -> Graph:
    text = f"""
        input: "location" input_shape {{ dim: [1, {locations}] }}
        input: "confidence" input_shape {{ dim: [1, {2 * classes}] }}
        input: "prior" input_shape {{ dim: [1, 2, 8] }}
        layer {{ name: "l" type: "DetectionOutput" bottom: "location" bottom: "confidence" bottom: "prior" top: "y"
            detection_output_param {{ num_classes: {classes} {settings} }} }}"""
    graph: Graph = load(text)
    return graph


def detected(graph: Graph, locations: Any, confidences: Any) -> NDArray[Any]:
    """The rows of a network of two prior boxes."""
    prior = np.stack([PRIORS.ravel(), np.tile(VARIANCE, 2)], axis=1)[:, None]
    location, confidence = (np.ravel(values)[None, None] for values in (locations, confidences))
    values = ir_reference.run(graph, {"location": location, "confidence": confidence, "prior": prior})
    return values["l"][:, :, 0]


def test_settings_that_are_not_given(load: Any) -> None:
    op = detecting(load, "", 8, 2)["l"].op
    lowest, default = float(np.finfo(np.float32).min), float(np.float32(0.3))
    assert op == ops.DetectionOutput(2, 0, True, BoxCode.CORNER, False, default, -1, 1.0, lowest, -1)


def test_all_settings_of_detections(load: Any) -> None:
    settings = """share_location: false background_label_id: -1 code_type: CORNER_SIZE variance_encoded_in_target: true
        keep_top_k: 3 confidence_threshold: 0.25 nms_param { nms_threshold: 0.5 top_k: 7 eta: 0.5 } visualize: true"""
    op = detecting(load, settings, 16, 2)["l"].op
    assert op == ops.DetectionOutput(2, -1, False, BoxCode.CORNER_SIZE, True, 0.5, 7, 0.5, 0.25, 3)


MOVES = np.array([[0.5, -0.5, 1, 2], [0, 0, 0, 0]])
SCALED = MOVES[0] * VARIANCE  # 0.05 -0.1 0.3 0.8
DECODED = {
    ("CORNER", False): [0.25, 0.1, 0.7, 1.4],
    ("CORNER", True): [0.7, -0.3, 1.4, 2.6],
    ("CORNER_SIZE", False): [0.21, 0.16, 0.46, 0.92],
    ("CORNER_SIZE", True): [0.3, 0.0, 0.6, 1.4],
    ("CENTER_SIZE", False): [
        0.31 - 0.1 * np.exp(0.3), 0.36 - 0.2 * np.exp(0.8), 0.31 + 0.1 * np.exp(0.3), 0.36 + 0.2 * np.exp(0.8)],
    ("CENTER_SIZE", True): [0.4 - 0.1 * np.e, 0.2 - 0.2 * np.exp(2), 0.4 + 0.1 * np.e, 0.2 + 0.2 * np.exp(2)],
}  # fmt: skip


@pytest.mark.parametrize(("code", "encoded"), DECODED)
def test_boxes_are_told_from_prior_boxes(code: str, encoded: bool, load: Any) -> None:
    settings = (
        f"code_type: {code} variance_encoded_in_target: {str(encoded).lower()} keep_top_k: 3 confidence_threshold: 0"
    )
    rows = detected(detecting(load, settings, 8, 2), MOVES, [[0.1, 0.9], [0.3, -1]])
    np.testing.assert_allclose(rows[0], [0, 1, 0.9, *DECODED[code, encoded]], atol=1e-12)
    np.testing.assert_array_equal(rows[1:], [[-1, 0, 0, 0, 0, 0, 0]] * 2)


def test_rows_are_ordered_by_label_and_then_by_confidence(load: Any) -> None:
    graph = detecting(load, "background_label_id: -1 keep_top_k: 3 confidence_threshold: 0.1", 8, 2)
    rows = detected(graph, np.zeros(8), [[0.2, 0.8], [0.7, 0.9]])  # the least sure of the four goes
    np.testing.assert_allclose(rows[:, 1:3], [[0, 0.7], [1, 0.9], [1, 0.8]])
    np.testing.assert_allclose(rows[1, 3:], PRIORS[1])


def test_each_class_may_have_its_own_boxes(load: Any) -> None:
    graph = detecting(
        load, "share_location: false background_label_id: -1 keep_top_k: 2 confidence_threshold: 0.5", 16, 2
    )
    moves = np.zeros((2, 2, 4))
    moves[1, 0] = 1
    rows = detected(graph, moves, [[0.2, 0.8], [0.7, 0.1]])
    first, second = PRIORS[0], PRIORS[1] + VARIANCE
    expected = np.array([np.r_[0, 0, 0.7, second], np.r_[0, 1, 0.8, first]])
    np.testing.assert_allclose(rows, expected)


@pytest.mark.parametrize(("threshold", "kept"), [(0.2, 1), (0.4, 2)])
def test_boxes_that_overlap_are_suppressed(threshold: float, kept: int, load: Any) -> None:
    settings = f"variance_encoded_in_target: true keep_top_k: 2 nms_param {{ nms_threshold: {threshold} }}"
    # the second box is put on the first, moved by half a width: a third of both together is common
    moves = np.array([[0, 0, 0, 0], PRIORS[0] - PRIORS[1] + [0.1, 0, 0.1, 0]])
    rows = detected(detecting(load, settings, 8, 2), moves, [[0, 0.6], [0, 0.7]])
    assert (rows[:, 0] == 0).sum() == kept
    assert rows[0, 2] == 0.7


def test_only_the_surest_are_looked_at(load: Any) -> None:
    graph = detecting(load, "keep_top_k: 2 nms_param { top_k: 1 }", 8, 2)
    rows = detected(graph, np.zeros(8), [[0, 0.6], [0, 0.7]])
    np.testing.assert_allclose(rows[:, :3], np.array([[0, 1, 0.7], [-1, 0, 0]]))


def test_nothing_is_detected(load: Any) -> None:
    rows = detected(detecting(load, "keep_top_k: 2 confidence_threshold: 0.9", 8, 2), np.zeros(8), np.zeros((2, 2)))
    np.testing.assert_array_equal(rows, [[0, -1, -1, -1, -1, -1, -1], [-1, 0, 0, 0, 0, 0, 0]])
