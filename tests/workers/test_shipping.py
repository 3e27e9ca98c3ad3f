"""Files travel with the work, which finds them when their originals are out of reach; the results are the same."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor import cli
from cnn_convertor.devices.dv700.fitting import layer_inputs
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.frontends.onnx import importer
from cnn_convertor.workers import cluster
from cnn_convertor.workers.cluster import Cluster
from cnn_convertor.workers.outcomes import Item, Outcome
from cnn_convertor.workers.relocation import mapped, packed, placed, read_all, unpacked

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHIP = ("--scheduler", "tcp://elsewhere:1", "--ship")
ELSEWHERE = Path(__file__).resolve().anchor  # a working directory without the client's files


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The client's working directory. Other computers do not see it, nor its temporary files in it, while they work."""
    client, worker = tmp_path / "client", tmp_path / "worker"
    (client / "tmp").mkdir(parents=True)
    worker.mkdir()
    away = tmp_path / "away"

    def spread(
        work: Callable[[Any], Outcome[Any]],
        items: Sequence[Item[Any]],
        *,
        cluster: Cluster,
        **_: Any,
    ) -> Iterator[tuple[int, Outcome[Any]]]:
        for number, item in enumerate(items):
            content, names_back = packed((work, item.value))
            sent = pickle.dumps(read_all((*item.files, *item.inputs()) if cluster.ships else item.files))
            client.rename(away)
            os.chdir(ELSEWHERE)
            tempfile.tempdir = str(worker)
            try:
                with placed(pickle.loads(sent)) as (there, back):
                    work_there, item_there = unpacked(content, there)
                    outcome = mapped(work_there(item_there), back)
            finally:
                away.rename(client)
                os.chdir(client)
                tempfile.tempdir = str(client / "tmp")
            yield number, mapped(outcome, names_back)

    monkeypatch.setattr(cluster, "spread", spread)
    monkeypatch.setattr(tempfile, "tempdir", str(client / "tmp"))
    monkeypatch.chdir(client)
    return client


def network(folder: Path, example: str, extra: str = "") -> None:
    """Copy an example's network; the ini file names it by an absolute path, as well as its outputs' folder."""
    model = next(path for path in (EXAMPLES / example).iterdir() if path.suffix in {".keras", ".onnx"})
    folder.mkdir(exist_ok=True)
    copy = shutil.copy(model, folder)
    (folder / "net.ini").write_text(
        f"[INPUT]\nname = {folder.name}\ndefinition = {copy}\n[OUTPUT]\noutput_folder = {folder / 'out'}\n{extra}"
    )


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_conversions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        network(here / name, "digits_keras")
    found = []
    for options in ((), SHIP):
        assert cli.main(["-q", ".", *options]) == 0
        found.append((capsys.readouterr(), files_in(here)))
        for name in ("a", "b"):
            shutil.rmtree(here / name / "out")
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_sweeps(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The device is a file of the client's as well."""
    network(here / "net", "digits_keras")
    board = (Path(cli.__file__).parents[1] / "devices/dv700/boards/zia-c3.toml").read_text()
    Path("board.toml").write_text(board)
    found = []
    for options in ((), SHIP):
        call = ["sweep", "net/net.ini", "--vary", "fusion=none,proven", "--vary", "device=../board.toml,zia-c2"]
        assert cli.main([*call, "--device", "board.toml", *options]) == 0
        found.append(capsys.readouterr())
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("compiler")
def test_verifications(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    network(here / "net", "digits_pytorch")
    found = []
    for options in ((), ("--jobs", "2"), SHIP):
        assert cli.main(["verify", "net/net.ini", "--samples", "300", "--json", "v.json", *options]) == 0
        found.append((capsys.readouterr().out, Path("v.json").read_bytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("compiler")
def test_calibrations(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_inputs, "_AT_A_TIME", 1 << 16)
    network(here / "net", "digits_keras", "quantization = 1\n")
    np.save("samples.npy", np.random.default_rng(0).random((40, 8, 8, 1), np.float32))
    found = []
    for options in ((), ("--jobs", "2"), SHIP):
        assert cli.main(["net/net.ini", "--calibrate", "samples.npy", *options]) == 0
        found.append((capsys.readouterr().out, files_in(here)))
        shutil.rmtree(here / "net" / "out")
    assert found[0] == found[1] == found[2]


# --- which files travel --------------------------------------------------------------------------------------------------


@pytest.fixture
def newer(here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A network that gives a warning when it is read."""
    monkeypatch.setattr(importer, "NEWEST_OPSET", 1)
    network(here / "newer", "digits_pytorch")
    return "newer/net.ini"


def test_looking_for_files_gives_no_warning(newer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sweep", newer, "--vary", "fusion=none,proven", *SHIP]) == 0
    assert capsys.readouterr().err.count("DV311") == 1


def test_a_warning_is_an_error_of_one_network(here: Path, newer: str, capsys: pytest.CaptureFixture[str]) -> None:
    network(here / "net", "digits_keras")
    assert cli.main([newer, "net/net.ini", "--strict", *SHIP]) == 1
    assert capsys.readouterr().err.endswith("1 of 2 networks converted\n")


def test_variants_look_for_files_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network(here / "net", "digits_keras")
    found: list[Model] = []

    def files(model: Model) -> tuple[Path, ...]:
        found.append(model)
        return (model.definition,)

    monkeypatch.setattr(Model, "files", property(files))
    for options, times in ((("--jobs", "1"), 0), (SHIP, 1)):
        found.clear()
        assert cli.main(["sweep", "net/net.ini", "--vary", "fusion=none,proven", *options]) == 0
        assert len(found) == times
