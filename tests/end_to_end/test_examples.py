"""The digits examples: complete, small, and as good as they say."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cnn_convertor import Config, convert
from cnn_convertor.report.summary import summary
from examples import digits

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXAMPLES = digits.HERE
KERAS = EXAMPLES / "digits_keras"
CAFFE = EXAMPLES / "digits_caffe"
PYTORCH = EXAMPLES / "digits_pytorch"
INI_FILES = [KERAS / "net.ini", KERAS / "net_keras2.ini", CAFFE / "net.ini", PYTORCH / "net.ini"]


def figures(folder: Path) -> tuple[int, int, float]:
    """What the training script wrote down: test images, those read right, and the share of them."""
    file = json.loads((folder / "accuracy.json").read_text())
    return file["test_images"], file["right"], file["accuracy"]


def right(scores: NDArray[np.float32]) -> int:
    return int(np.sum(scores.argmax(axis=1) == digits.load_test().labels))


def test_the_test_split_is_a_fifth_of_the_digits() -> None:
    test = digits.load_test()
    assert test.images.shape == (360, 8, 8)
    assert test.images.dtype == test.labels.dtype == np.uint8
    assert test.images.min() == 0 and test.images.max() == 16
    assert set(np.bincount(test.labels)) <= {34, 35, 36, 37}


def test_inputs_are_from_0_to_1() -> None:
    inputs = digits.load_test().inputs()
    assert inputs.dtype == np.float32
    assert inputs.min() == 0 and inputs.max() == 1


def test_the_test_split_is_not_trained_on() -> None:
    pytest.importorskip("sklearn")
    test, train = digits.load_test(), digits.load_train()
    assert len(test.labels) + len(train.labels) == 1797
    assert not {image.tobytes() for image in test.images} & {image.tobytes() for image in train.images}


@pytest.mark.parametrize("label", range(10))
def test_the_sample_of_a_label_shows_the_first_such_digit_of_the_test_split(label: int) -> None:
    cv2 = pytest.importorskip("cv2")
    test = digits.load_test()
    sample = cv2.imread(str(digits.SAMPLES / f"digit_{label}.png"), cv2.IMREAD_UNCHANGED)
    assert sample.shape == (8, 8) and sample.dtype == np.uint8
    assert np.array_equal(sample, test.images[test.labels == label][0] * 15)


def test_everything_together_is_smaller_than_a_megabyte() -> None:
    assert sum(path.stat().st_size for path in EXAMPLES.rglob("*") if "__pycache__" not in path.parts) < 1_000_000


@pytest.mark.parametrize("folder", [KERAS, CAFFE, PYTORCH], ids=lambda folder: folder.name)
def test_at_least_97_percent_of_the_test_split_are_read_right(folder: Path) -> None:
    images, count, accuracy = figures(folder)
    assert images == len(digits.load_test().labels)
    assert accuracy == round(count / images, 4) >= 0.97


def test_the_keras_3_file_holds_no_dates() -> None:
    with zipfile.ZipFile(KERAS / "digits.keras") as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert set(json.loads(archive.read("metadata.json"))) == {"keras_version"}


@pytest.mark.parametrize("ini", INI_FILES, ids=lambda ini: f"{ini.parent.name}/{ini.stem}")
def test_an_example_converts_without_a_warning(ini: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    config = replace(Config.read(ini), output_folder=tmp_path)
    written = {path.name for path in convert(config).files}
    assert written == {config.name + end for end in ("_gen.h", "_gen.cpp", "_cpu.h", "_weights.bin", ".dot", ".json")}
    assert not list(recwarn)


@pytest.mark.parametrize(("fusion", "evidence"), [("full", "2 of 5"), ("proven", None), ("none", None)])
def test_a_conversion_tells_how_many_commands_rest_on_the_drivers_check(
    fusion: str, evidence: str | None, tmp_path: Path
) -> None:
    config = replace(Config.read(CAFFE / "net.ini"), output_folder=tmp_path, fusion=fusion)
    row = dict(summary(convert(config).report)).get("evidence")
    assert row == (f"{evidence} commands rest on the driver's check alone" if evidence else None)


def test_both_keras_files_give_the_same_weights(tmp_path: Path) -> None:
    packed = []
    for ini in (KERAS / "net.ini", KERAS / "net_keras2.ini"):
        config = replace(Config.read(ini), output_folder=tmp_path)
        convert(config)
        packed.append((tmp_path / config.name / f"{config.name}_weights.bin").read_bytes())
    assert packed[0] == packed[1]


def test_the_caffe_network_is_as_good_as_it_says() -> None:
    cv2 = pytest.importorskip("cv2")
    net = cv2.dnn.readNetFromCaffe(str(CAFFE / "digits.prototxt"), str(CAFFE / "digits.caffemodel"))
    net.setInput(digits.load_test().inputs()[:, np.newaxis])
    assert right(net.forward().reshape(-1, 10)) == figures(CAFFE)[1]


def test_the_pytorch_network_is_as_good_as_it_says() -> None:
    assert right(np.load(PYTORCH / "expected.npy")) == figures(PYTORCH)[1]


def test_the_onnx_file_gives_what_pytorch_does() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(PYTORCH / "digits.onnx"), providers=["CPUExecutionProvider"])
    images = digits.load_test().inputs()[:, np.newaxis, np.newaxis]
    scores = np.concatenate([session.run(None, {"image": image})[0] for image in images])
    np.testing.assert_allclose(scores, np.load(PYTORCH / "expected.npy"), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_both_keras_files_are_as_good_as_they_say() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    keras = pytest.importorskip("keras")
    inputs = digits.load_test().inputs()[..., np.newaxis]
    newer, older = (
        keras.models.load_model(KERAS / name, compile=False).predict(inputs, verbose=0)
        for name in ("digits.keras", "digits_keras2.h5")
    )
    assert np.array_equal(newer, older)
    assert right(newer) == figures(KERAS)[1]
