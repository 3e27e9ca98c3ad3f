"""The commands on compiled networks: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor import cli
from development.fuzz.written_loadables import Pooling

SMALL = ["--device", "nvdla-small"]
VALUES = np.arange(264).reshape(4, 6, 11) % 100


@pytest.fixture
def network(tmp_path: Path) -> str:
    return str(Pooling().write(tmp_path))


def saved(folder: Path, values: NDArray[Any]) -> str:
    np.save(folder / "x.npy", values)
    return str(folder / "x.npy")


def test_a_compiled_network_runs(
    compiler: None, network: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = np.stack([VALUES, VALUES - 100]).astype(np.float32)
    output = tmp_path / "y.npz"
    assert cli.main(["run", network, *SMALL, "--inputs", saved(tmp_path, batch), "-o", str(output)]) == 0
    with np.load(output) as arrays:
        np.testing.assert_array_equal(arrays["y"], batch.reshape(2, 2, 2, 3, 2, 11).max((2, 4)))
    assert "sample 1: range" in capsys.readouterr().out


def test_inputs_by_name(compiler: None, network: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=VALUES)
    assert cli.main(["run", network, *SMALL, "--inputs", str(tmp_path / "x.npz")]) == 0


def test_a_compiled_network_is_inspected(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", network]) == 0
    text = capsys.readouterr().out
    assert {"operations", "surfaces", "memories"} <= set(text.splitlines())
    assert "PDP" in text and "input x" in text
    assert cli.main(["inspect", network, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["operations"][0]["engine"] == "PDP" and found["memories"][5]["use"] == "input x"


def test_a_compiled_network_is_audited(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", network, *SMALL]) == 0
    assert "pool.nvdla on nvdla-small: 1 operation, 0 findings" in capsys.readouterr().out
    assert cli.main(["audit", network, "--device", "nvdla-full"]) == 1
    assert "DV922" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["run"], "DV916: a compiled network does not name its device"),
        (["audit"], "DV916: a compiled network does not name its device"),
        (["audit", "--device", "nvdla-tiny"], 'DV914: loadables run on no device "nvdla-tiny"'),
        (["run", *SMALL], 'DV915: there is no array for the input "x"'),
        (["run", *SMALL, "--ub-size", "5"], "DV100: --ub-size does not concern a compiled network"),
        (["audit", "x.bin", *SMALL], "DV100: a compiled network has its weights in itself"),
        (["inspect", "--cost"], "DV100: --cost does not concern a compiled network"),
        (["run", *SMALL, "--inputs", "missing.npy"], "DV915: cannot read the inputs: No such file"),
    ],
)
def test_mistakes_are_named(given: list[str], reason: str, network: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *options = given
    assert cli.main([command, network, *options]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.zeros((4, 6, 12)), "is 4x6x12 of float64; the input is 4x6x11"),
        (np.zeros((0, 4, 6, 11)), "is 0x4x6x11"),
        (np.full((4, 6, 11), 200), "has values that int8 does not"),
        (np.full((4, 6, 11), 0.5), "has values that int8 does not"),
        (np.full((4, 6, 11), np.nan), "has values that int8 does not"),
        (np.full((4, 6, 11), "a"), "of <U1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    values: NDArray[Any], reason: str, network: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", network, *SMALL, "--inputs", saved(tmp_path, values)]) == 2
    error = capsys.readouterr().err
    assert "DV915" in error and reason in error


def test_arrays_of_other_names_are_refused(network: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "z.npz", z=VALUES)
    assert cli.main(["run", network, *SMALL, "--inputs", str(tmp_path / "z.npz")]) == 2
    assert 'the file has an array "z"; the network\'s inputs: x' in capsys.readouterr().err


def test_a_damaged_network_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.nvdla"
    path.write_bytes(Pooling().file()[:500])
    for command in (["inspect"], ["audit", *SMALL], ["run", *SMALL]):
        assert cli.main([command[0], str(path), *command[1:]]) == 1
        assert "DV911" in capsys.readouterr().err
