"""The reference of a network with detections: those of Caffe's formula, with rows in any order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import BoxCode, DetectionOutput
from cnn_convertor.pipeline import load
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.compare import matched_detections, sqnr
from cnn_convertor.verification.detections import detect
from reference import ir_reference
from verification.trials import config

RANDOM = np.random.default_rng(1)
BOXES, CLASSES = 40, 4
OP = DetectionOutput(
    classes=CLASSES, background=0, share_location=True, code=BoxCode.CENTER_SIZE, variance_encoded=False,
    nms_threshold=0.45, top_k=20, eta=1.0, confidence_threshold=0.3, keep_top_k=15,
)  # fmt: skip


@pytest.mark.parametrize(
    "op",
    [OP, replace(OP, code=BoxCode.CORNER), replace(OP, share_location=False, background=-1), replace(OP, variance_encoded=True)],
    ids=["center and size", "corners", "boxes of each class", "variance in the boxes"],
)  # fmt: skip
def test_the_formula_and_the_plain_reading_detect_the_same(op: DetectionOutput) -> None:
    corners = np.sort(RANDOM.uniform(0, 1, (BOXES, 2, 2)), axis=1).reshape(-1)
    priors = np.stack([corners, np.tile([0.1, 0.1, 0.2, 0.2], BOXES)], axis=1)[None, :, None]
    locations = RANDOM.normal(size=(1, 1, 1, BOXES * 4 * (1 if op.share_location else CLASSES))) / 10
    confidences = RANDOM.uniform(0, 1, (1, 1, 1, BOXES * CLASSES))
    found = detect(op, *(maps.astype(np.float32) for maps in (locations, confidences, priors)))
    plain = ir_reference.execute(op, locations[0], confidences[0], priors[0])[None]
    assert found.shape == plain.shape and (plain[:, :, 0] >= 0).sum() > 3
    assert sqnr(*matched_detections(found, plain)) > 100


def rows(*given: tuple[float, ...], count: int = 4) -> Any:
    made = np.zeros((1, count, 7, 1))
    made[:, :, 0] = -1
    for index, row in enumerate(given):
        made[0, index, :, 0] = row
    return made


A, B = (0, 1, 0.9, 0.1, 0.2, 0.3, 0.4), (0, 1, 0.8, 0.5, 0.5, 0.6, 0.6)


def test_rows_are_matched_in_any_order() -> None:
    device, reference = matched_detections(rows(B, A), rows(A, B))
    np.testing.assert_array_equal(device, reference)
    np.testing.assert_array_equal(device[0, :2], [B[2:], A[2:]])


@pytest.mark.parametrize("other", [(), (A,), (A, (0, 2, *B[2:]))], ids=["none", "one", "of another label"])
def test_a_row_without_a_counterpart_is_an_error_of_its_size(other: tuple[tuple[float, ...], ...]) -> None:
    for mine, theirs in ((rows(A, B), rows(*other)), (rows(*other), rows(A, B))):
        device, reference = matched_detections(mine, theirs)
        assert np.abs(device - reference).sum() >= sum(B[2:]) - 1e-12


def test_the_row_of_no_detection_proves_nothing() -> None:
    nothing = rows((0, *[-1.0] * 6))
    for side in matched_detections(nothing, rows((0, *[-1.0] * 6))) + matched_detections(nothing, rows()):
        assert not side.any()


DEFINITION = """
layer { name: "locations" type: "Input" top: "locations" input_param { shape { dim: 1 dim: 160 } } }
layer { name: "confidences" type: "Input" top: "confidences" input_param { shape { dim: 1 dim: 160 } } }
layer { name: "image" type: "Input" top: "image" input_param { shape { dim: 1 dim: 3 dim: 80 dim: 64 } } }
layer { name: "map" type: "Pooling" bottom: "image" top: "map" pooling_param { kernel_size: 16 stride: 16 } }
layer { name: "priors" type: "PriorBox" bottom: "map" bottom: "image" top: "priors"
        prior_box_param { min_size: 20 max_size: 30 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }
layer { name: "scaled" type: "Power" bottom: "confidences" top: "scaled" power_param { scale: 0.5 } }
layer { name: "moved" type: "Power" bottom: "locations" top: "moved" power_param { scale: 0.5 } }
layer { name: "found" type: "DetectionOutput" bottom: "moved" bottom: "scaled" bottom: "priors" top: "found"
        detection_output_param { num_classes: 4 nms_param { nms_threshold: 0.3 top_k: 30 } code_type: CENTER_SIZE
                                 keep_top_k: 20 confidence_threshold: 0.2 } }
"""


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    "wrong",
    [{}, {"nms_threshold": 0.8}, {"confidence_threshold": 0.4}, {"code": BoxCode.CORNER}, {"top_k": 2}],
    ids=lambda wrong: "".join(wrong) or "right",
)
def test_settings_that_are_read_wrongly_are_found(wrong: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(DEFINITION)
    random = np.random.default_rng(3)
    locations, confidences = random.uniform(0, 1, (2, 2, 160)).astype(np.float32)
    image = random.normal(size=(2, 3, 80, 64)).astype(np.float32)
    np.savez(tmp_path / "x.npz", locations=locations, confidences=confidences, image=image)
    chosen = config(path, output_folder=tmp_path)
    graph = load(chosen)
    nodes = [
        replace(node, op=replace(node.op, **wrong)) if isinstance(node.op, DetectionOutput) else node
        for node in graph.nodes
    ]
    result = verify(chosen, graph=Graph(tuple(nodes), graph.outputs), inputs=tmp_path / "x.npz")
    assert result.passed == (not wrong)
    assert [each.name for each in result.failed] == (["settings of found"] if wrong else [])
