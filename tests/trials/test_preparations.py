"""A wrong channel order, mean or scale in the ini file is found by what it costs the framework's accuracy."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.config.request import Request
from cnn_convertor.emulation.feature_maps import Maps, count_of
from cnn_convertor.errors import ConvertorWarning
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import read_whole
from cnn_convertor.samples import samples_of
from cnn_convertor.trials import preparations
from cnn_convertor.trials.preparations import warn_of_preparation
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification import frameworks
from cnn_convertor.verification.framework_maps import Reference
from frontends.onnx.networks import Network, helper
from verification.trials import config

cv2 = pytest.importorskip("cv2", reason="OpenCV reads images")
pytest.importorskip("onnxruntime", reason="onnxruntime computes the results")

RUN = frameworks.run
make = helper.make_node
SIZE = 8
RIGHT: dict[str, Any] = {"mean": (100.0,), "scale": 1.0, "channel_order": "RGB"}


def folder_of(path: Path) -> Path:
    """30 images, each of one color, and the file of their classes: the class is the color that is brightest, in R, G, B."""
    (path / "images").mkdir()
    random = np.random.default_rng(5)
    classes = random.integers(0, 4, 30)
    for number, label in enumerate(classes):
        color = random.integers(120, 140, 3) if label < 3 else np.full(3, 30)
        if label < 3:
            color[label] += 60
        image = np.broadcast_to(color[::-1], (SIZE, SIZE, 3)).astype(np.uint8)  # OpenCV writes blue first
        cv2.imwrite(str(path / "images" / f"{number:03}.png"), image)
    (path / "labels").write_text("".join(f"{label}\n" for label in classes))
    return path / "images"


def network(path: Path) -> Path:
    """The mean of each color over the image; the fourth class is that of dark images, with a constant score."""
    nodes = [
        make("GlobalAveragePool", ["x"], ["p"]),
        make("Flatten", ["p"], ["f"]),
        make("Gemm", ["f", "w", "b"], ["y"]),
    ]
    constants = {"w": np.eye(3, 4, dtype=np.float32), "b": np.array([0, 0, 0, 10], np.float32)}
    return Network(nodes, {"x": np.zeros((1, 3, SIZE, SIZE), np.float32)}, constants).write(path / "net.onnx")


def found(path: Path, **changes: Any) -> list[str]:
    """The warnings of a wrong ini file."""
    request = Request.of(config(network(path), output_folder=path, **(RIGHT | changes)))
    graph, images = read_whole(request), folder_of(path)
    inputs = samples_of(images, graph, request.preparation).inputs
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvertorWarning)
        classes = np.loadtxt(path / "labels", np.intp)
        warn_of_preparation(request, graph, images, classes, frameworks.run(request.model, graph, inputs))
    return [str(each.message) for each in caught]


def test_a_right_preparation_gives_no_warning(tmp_path: Path) -> None:
    assert not found(tmp_path)


@pytest.mark.usefixtures("compiler")
def test_verify_passes_and_warns_since_both_sides_agree(tmp_path: Path) -> None:
    chosen = config(network(tmp_path), output_folder=tmp_path, **(RIGHT | {"channel_order": "BGR"}))
    with pytest.warns(ConvertorWarning, match="DV726"):
        assert verify(chosen, inputs=folder_of(tmp_path), labels=tmp_path / "labels").passed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"channel_order": "BGR"}, "channel_order = RGB"),
        ({"mean": (0.0,)}, "mean = 127.5"),
        ({"mean": (255.0,)}, "mean = 0"),
        ({"scale": 0.004}, "scale = 1"),
        ({"channel_order": "BGR", "mean": (0.0,)}, "channel_order = RGB, mean = 127.5 in"),
        ({"channel_order": "BGR", "mean": (255.0,), "scale": 0.004}, "channel_order = RGB, mean = 0, scale = 1 in"),
    ],
)
def test_a_wrong_preparation_is_named(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    (message,) = found(tmp_path, **changes)
    assert f"try: {said}" in message and "instead of" in message


@pytest.mark.parametrize(("limit", "value"), [("_SAMPLES", 20), ("_VALUES", 7 * 20 * SIZE * SIZE * 3)])
def test_only_the_first_images_are_tried_again(
    limit: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = list[int]()

    def run(model: Model, graph: Graph, inputs: dict[str, Maps]) -> Reference:
        counts.append(count_of(inputs))
        return RUN(model, graph, inputs)

    monkeypatch.setattr(preparations, limit, value)
    monkeypatch.setattr(frameworks, "run", run)
    (message,) = found(tmp_path, channel_order="BGR")
    assert counts == [30, 7 * 20] and "finds 100.0%" in message


def test_arrays_are_used_as_they_are(tmp_path: Path) -> None:
    images = folder_of(tmp_path)
    arrays = np.stack([cv2.imread(str(file)) for file in sorted(images.iterdir())]).astype(np.float32)  # blue first
    np.save(tmp_path / "arrays.npy", arrays - 100)
    chosen = config(network(tmp_path), output_folder=tmp_path, **RIGHT)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvertorWarning)
        verify(chosen, inputs=tmp_path / "arrays.npy", labels=tmp_path / "labels")
