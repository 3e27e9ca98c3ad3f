"""Input and output maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.cli import main
from cnn_convertor.config import Config
from cnn_convertor.errors import ConvertorWarning, ModelError
from cnn_convertor.export import export, read
from cnn_convertor.trials.run import run
from export.networks import DIGITS, TARGETS
from reference.export_reference import (
    nvdla_cube,
)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.npy"
    np.save(path, np.random.default_rng(0).random((1, 8, 8, 1)).astype(np.float32))
    return path


@pytest.mark.parametrize("target", TARGETS)
def test_a_given_input_is_written(target: str, image: Path, tmp_path: Path) -> None:
    export(Config.read(DIGITS[0]), target, tmp_path / "out", input_file=image)
    manifest = read(tmp_path / "out")
    (entry,) = (entry for entry in manifest.surfaces if entry.role == "input")
    pixels = np.load(image)[0]
    if entry.axes in ("chw", "bfyx"):
        pixels = pixels.transpose(2, 0, 1)
    tolerance = 1e-3 if entry.element == np.float16 else 1 / 200 if entry.element == np.int8 else 1e-4
    np.testing.assert_allclose(entry.values().reshape(pixels.shape), pixels, atol=tolerance)
    if target == "nvdla-int8":
        np.testing.assert_array_equal(nvdla_cube(entry.memory().tobytes(), entry.shape, "int8"), entry.array())
    (output,) = (entry for entry in manifest.surfaces if entry.role == "output")
    assert output.file is None
    with pytest.raises(ModelError, match="DV856") as error:
        output.array()
    assert "described, not written" in str(error.value)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(
    "target", ["nvdla-int8:image", "nvdla-fp16", "cldnn:oiyx,goiyx,b_fs_yx_fsv16", "bpu:16", "dv700"]
)
@pytest.mark.parametrize("is_given", [True, False])
def test_outputs_are_those_of_the_emulated_device(target: str, is_given: bool, image: Path, tmp_path: Path) -> None:
    config = Config.read(DIGITS[0])
    export(config, target, tmp_path / "out", input_file=image if is_given else None, run=True)
    manifest = read(tmp_path / "out")
    (given,) = (entry for entry in manifest.surfaces if entry.role == "input")
    if is_given:
        np.testing.assert_allclose(given.values().ravel(), np.load(image).ravel(), atol=0.01)
    np.save(tmp_path / "x.npy", given.values().reshape(1, 8, 8, 1).astype(np.float32))
    results = run(config.in_fp16, tmp_path / "x.npy")
    found = {entry.layer: entry for entry in manifest.surfaces if entry.role == "output"}
    assert set(found) == set(results)
    for name, entry in found.items():
        assert entry.file is not None and entry.record["memory"] == "maps"
        tolerance = 0.05 if "int8" in target else 1e-2  # of probabilities: the input was rounded before
        np.testing.assert_allclose(entry.values().ravel(), results[name][0].ravel(), atol=tolerance)


def test_outputs_need_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert (
        main(["layouts", "export", str(DIGITS[0]), "--target", "bpu", "--run", "--output", str(tmp_path / "out")]) == 2
    )
    assert "C++ compiler" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_of_several_samples_the_first_is_written_with_a_warning(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((3, 8, 8, 1)).astype(np.float32)
    np.save(tmp_path / "x.npy", images)
    with pytest.warns(ConvertorWarning, match="there are 3 samples"):
        export(Config.read(DIGITS[0]), "bpu", tmp_path / "out", input_file=tmp_path / "x.npy")
    np.testing.assert_array_equal(read(tmp_path / "out")["image", "input"].array(), images[:1])
