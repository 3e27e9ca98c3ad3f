"""`convertor.py export`, and exports of whole networks."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.cli import main
from cnn_convertor.config import Config
from cnn_convertor.export import export, read
from examples import zoo
from export.networks import DIGITS, ROOT, dense, expected, key


def test_the_command_writes_files_and_prints_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layouts", "export", str(DIGITS[0]), "--target", "nvdla-int8", "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "digits for nvdla-int8" in said and "dB SQNR" in said
    assert read(tmp_path / "out").surfaces
    assert main(["layouts", "export", str(DIGITS[0]), "--target", "nvdla", "--output", str(tmp_path / "no")]) == 2
    assert "DV850" in capsys.readouterr().err
    assert main(["layouts", "export", str(DIGITS[0]), "--target", "cldnn:bfyx", "--output", str(tmp_path / "no")]) == 1
    assert capsys.readouterr().err.count("DV852") > 2
    assert not (tmp_path / "no").exists()


def test_the_page_shows_the_command_s_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    manual = (ROOT / "docs" / "layouts.md").read_text(encoding="utf-8")
    command, said = manual.split("$ cnn-convertor ")[1].split("```")[0].split("\n", 1)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 0
    assert capsys.readouterr().out == said
    manifest = read(tmp_path / "digits_nvdla")
    assert manifest["tail", "weights"].array().dtype == np.int8
    known = set(re.findall("`([a-z0-9]+)`", manual))
    assert not {name for entry in manifest.surfaces for name in entry.record} - known


def phase(weight: NDArray[Any], record: dict[str, Any]) -> NDArray[Any]:
    """The taps of a deconvolution's set, padded with zeros."""
    down, across = record["stride"]
    y, x = divmod(record["set"], across)
    result = np.zeros((*weight.shape[:2], -(-weight.shape[2] // down), -(-weight.shape[3] // across)), weight.dtype)
    for r, s in np.ndindex(*result.shape[2:]):
        if y + r * down < weight.shape[2] and x + s * across < weight.shape[3]:
            result[:, :, r, s] = weight[:, :, y + r * down, x + s * across]
    return result


@pytest.fixture(params=["squeezenet", "caffe_enet"])
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The ini file of a trained network, or of one with deconvolutions, dilations and slopes."""
    if request.param == "caffe_enet":
        return zoo.build("caffe_enet", tmp_path / "zoo", size=64)
    model = request.getfixturevalue("shared") / "models" / "squeezenet_v1.0_caffe"
    (definition,), (data,) = model.glob("*.prototxt"), model.glob("*.caffemodel")
    ini = tmp_path / "net.ini"
    text = f"[INPUT]\nname = squeeze\ndefinition = {definition}\ndata = {data}\n[OUTPUT]\noutput_folder = .\n"
    ini.write_text(text, encoding="utf-8")
    return ini


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.filterwarnings("ignore:DV857")
@pytest.mark.parametrize("target", ["nvdla-int8", "nvdla-fp16:compressed", "cldnn:oiyx,goiyx,bfyx", "bpu:x3", "dv700"])
def test_a_whole_network_is_read_back(target: str, whole: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        export(Config.read(whole), target, tmp_path / "out")
    assert len([w for w in caught if "DV502" in str(w.message)]) <= 1  # of small weights, for all layers together
    numbers, seen = expected(whole), set()
    for entry in read(tmp_path / "out").surfaces:
        if entry.file is None or entry.role in ("mask", "group_sizes"):
            continue
        if target == "dv700":
            assert entry.array().shape == entry.shape
            continue
        tolerance = entry.record.get("error", {"max": 0})["max"] * 1.0001
        if entry.role == "affine":
            (added, multiplied), node = entry.values()[:, :, 0, 0].astype(np.float64), entry.record["node"]
            seen |= {(node, "factor"), (node, "shift")} & set(numbers)
            np.testing.assert_allclose(multiplied, numbers[node, "factor"], atol=tolerance)
            shift = numbers.get((node, "shift"), np.zeros_like(added))
            np.testing.assert_allclose(
                added * numbers[node, "factor"], shift, atol=tolerance * np.abs(multiplied).max()
            )
            continue
        seen.add(key(entry))
        real = numbers[key(entry)]
        if target.startswith("nvdla") and real.ndim == 4:
            real = dense(real, entry.record.get("groups", 1))
        if "set" in entry.record:
            real = phase(real, dict(entry.record))
        if target.startswith("bpu") and real.ndim == 4:
            real = real.transpose(0, 2, 3, 1)
        np.testing.assert_allclose(entry.values().reshape(real.shape), real, atol=tolerance)
    assert target == "dv700" or seen == set(numbers)
