"""Benchmarks fail when a target is missed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from development.benchmarks import cluster, startup, strangers
from development.benchmarks.loopback import Running

INI = Path(__file__).resolve().parents[2] / "examples" / "digits_keras" / "net.ini"


@pytest.mark.parametrize(
    ("version", "conversion", "code"), [(0.08, 0.75, 0), (0.09, 0.75, 1), (0.08, 0.77, 1), (0.01, 0.3, 0)]
)
def test_start_up(version: float, conversion: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(command: list[str]) -> float:
        return version if "--version" in command else 0.25 if "-c" in command else conversion

    monkeypatch.setattr(startup, "processor_seconds", seconds)
    assert CliRunner().invoke(startup.main, [str(INI), "--runs", "1"]).exit_code == code


@pytest.mark.parametrize(("seconds", "python", "code"), [(12.0, 12.0, 0), (12.3, 12.0, 1), (12.0, 12.3, 1)])
def test_a_cluster(seconds: float, python: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def pinned(workers: int) -> Iterator[Running]:
        yield Running(f"tcp://a:{workers}", ())

    def verified(_ini: Path, _inputs: Path, result: Path, *options: str) -> tuple[float, float]:
        result.touch()
        return (seconds if options == ("--scheduler", "tcp://a:2") else 17.0), 1.0

    def in_python(_config: object, _inputs: Path, result: Path, address: str) -> float:
        result.touch()
        return python if address == "tcp://a:2" else 17.0

    monkeypatch.setattr(cluster, "seconds_at_once", lambda count, *_: 1.0 + count)
    monkeypatch.setattr(cluster, "pinned", pinned)
    monkeypatch.setattr(cluster, "verified", verified)
    monkeypatch.setattr(cluster, "verified_in_python", in_python)
    assert CliRunner().invoke(cluster.main, ["--networks", "0", "--samples", "1"]).exit_code == code


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("g++") is None, reason="needs root and g++")
def test_what_another_user_places_does_no_harm() -> None:
    """In 20 of the places, kinds of files and commands; `python -m development.benchmarks.strangers` takes 2,000."""
    _, wrong = strangers.run(20)
    assert not wrong
