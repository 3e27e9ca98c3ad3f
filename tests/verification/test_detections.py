"""What judges a network with detections: OpenCV's own ones, and rows in any order; and where OpenCV must not judge."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.caffe.definition import read_definition
from cnn_convertor.ir.ops import BoxCode, DetectionOutput
from cnn_convertor.verification.compare import matched_detections, sqnr
from cnn_convertor.verification.opencv_known_issues import DIFFERENT, differences
from reference import ir_reference

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
def test_opencv_and_the_plain_reading_detect_the_same(op: DetectionOutput) -> None:
    pytest.importorskip("cv2")
    from cnn_convertor.verification.detections import detect

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


def test_rows_are_matched_whatever_their_order() -> None:
    device, reference = matched_detections(rows(B, A), rows(A, B))
    np.testing.assert_array_equal(device, reference)
    np.testing.assert_array_equal(device[0, :2], [B[2:], A[2:]])


@pytest.mark.parametrize("other", [(), (A,), (A, (0, 2, *B[2:]))], ids=["none", "one", "of another label"])
def test_a_row_without_a_counterpart_is_an_error_of_its_size(other: tuple[tuple[float, ...], ...]) -> None:
    for mine, theirs in ((rows(A, B), rows(*other)), (rows(*other), rows(A, B))):
        device, reference = matched_detections(mine, theirs)
        assert np.abs(device - reference).sum() >= sum(B[2:]) - 1e-12


# --- where OpenCV must not judge -----------------------------------------------------------------------------------------

SETTINGS: dict[str, tuple[str, str]] = {
    "InnerProduct": ("inner_product_param { num_output: 1 }", "inner_product_param { num_output: 1 transpose: true }"),
    "Log": ("log_param { base: -1 }", "log_param { shift: 2 }"),
    "LRN": ("lrn_param { local_size: 3 }", "lrn_param { k: 2 }"),
    "PriorBox": ("prior_box_param { min_size: 2 }", "prior_box_param { min_size: 2.5 }"),
    "Deconvolution": (
        "convolution_param { num_output: 1 kernel_size: 2 dilation: 1 }",
        "convolution_param { num_output: 1 kernel_size: 2 dilation: 2 }",
    ),
    "Swish": ("swish_param { beta: 1 }", "swish_param { beta: 2 }"),
    "Axpy": ("", ""),
}


@pytest.fixture
def reasons(tmp_path: Path) -> Callable[[str, str], list[str]]:
    def reasons(type: str, settings: str) -> list[str]:
        path = tmp_path / "net.prototxt"
        path.write_text(f'layer {{ name: "l" type: "{type}" bottom: "x" top: "y" {settings} }}')
        return [problem.message for problem in differences(read_definition(path), None)]

    return reasons


@pytest.mark.parametrize("rule", ['exclude { stage: "a" }', 'include { not_stage: "a" }', "include { max_level: 2 }"])
def test_a_rule_that_opencv_ignores_is_named(rule: str, reasons: Callable[[str, str], list[str]]) -> None:
    assert reasons("ReLU", rule) == ["OpenCV ignores the stage and level of rules"]
    assert reasons("ReLU", "include { phase: TEST }") == []


@pytest.mark.parametrize("type", DIFFERENT)
def test_a_setting_that_opencv_reads_otherwise_is_named(type: str, reasons: Callable[[str, str], list[str]]) -> None:
    same, other = (reasons(type, settings) for settings in SETTINGS[type])
    judged = [message for message in other if "differs from Caffe" in message]
    assert len(judged) == 1
    assert type == "Axpy" or not any("differs from Caffe" in message for message in same)


def test_weights_that_are_missing_would_end_opencv(reasons: Callable[[str, str], list[str]]) -> None:
    said = reasons("Deconvolution", SETTINGS["Deconvolution"][0])
    assert said == ["OpenCV cannot run the layer, whose weights are not in the file"]


def test_every_case_in_which_opencv_and_caffe_differ_is_refused(shared: Path) -> None:
    folder = shared / "vectors" / "caffe"
    for case in json.loads((folder / "index.json").read_text())["cases"]:
        if (
            not case["cv2"].startswith("other values") or case["name"] == "detection_output"
        ):  # only its rows' order differs
            continue
        data = folder / case["name"] / "weights.caffemodel"
        layers = read_definition(folder / case["name"] / "deploy.prototxt")
        assert list(differences(layers, data if data.exists() else None)), case["name"]


def test_verify_says_so(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    from cnn_convertor.frontends.caffe import importer as caffe
    from cnn_convertor.verification import frameworks
    from verification.trials import config

    path = tmp_path / "net.prototxt"
    path.write_text(
        'input: "x" input_shape { dim: [1, 3, 4, 5] } layer { name: "l" type: "LRN" bottom: "x" top: "y" lrn_param { k: 2 } }'
    )
    with pytest.raises(ConvertorError, match="DV712: OpenCV differs from Caffe here: it takes 1 for k"):
        frameworks.run(config(path).model, caffe.load(path, path), {"x": np.zeros((1, 4, 5, 3), np.float32)})
