"""Several processes give the same palettes as one, in order, even if processes fail."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cnn_convertor.quantize import Counted, fit, fit_all, histogram, processes_to_fit, workers
from files.interruptions import at_each_line, children


def counted(random: np.random.Generator, size: int) -> Counted:
    return Counted(histogram((random.normal(size=size) * 0.05).astype(np.float16)))


def layers() -> list[Counted]:
    """Layers with and without clustering, at the start, in the middle and at the end."""
    random = np.random.default_rng(0)
    return [counted(random, size) for size in (9, 3000, 20, 0, 2000, 1500, 4000, 1000, 2500, 3, 255)]


def as_bytes(found: Iterator[Any]) -> list[tuple[bytes, bytes]]:
    return [(palette.centers.tobytes(), palette.index.tobytes()) for palette in found]


EXPECTED = as_bytes(fit(*layer) for layer in layers())


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The started processes."""
    found = []
    popen = subprocess.Popen

    def start(*arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
        found.append(popen(*arguments, **more))
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return found


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_any_number_of_processes_gives_the_same(processes: int, started: list[subprocess.Popen[bytes]]) -> None:
    assert as_bytes(fit_all(layers(), processes=processes)) == EXPECTED
    assert len(started) == (processes if processes > 1 else 0)
    assert all(process.poll() is not None for process in started), "none is left behind"


def test_processes_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "divide", None)
    assert as_bytes(fit_all(layers(), processes=2)) == EXPECTED


def test_without_processes_this_process_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("/nonexistent/python", ""):
        monkeypatch.setattr(sys, "executable", program)
        assert as_bytes(fit_all(layers(), processes=2)) == EXPECTED


def test_work_of_a_failing_process_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_PROGRAM", "raise SystemExit(3)")
    assert as_bytes(fit_all(layers(), processes=2)) == EXPECTED


def test_work_of_a_dying_process_is_done_here(started: list[subprocess.Popen[bytes]]) -> None:
    def dying() -> Iterator[Counted]:
        for number, counts in enumerate(layers()):
            if number == 5:
                started[0].kill()
            yield counts

    assert as_bytes(fit_all(dying(), processes=2)) == EXPECTED


def test_few_layers_are_kept_at_a_time() -> None:
    taken = 0

    def many() -> Iterator[Counted]:
        nonlocal taken
        for taken in range(1, 41):
            yield counted(np.random.default_rng(taken), 600)

    for given, _ in enumerate(fit_all(many(), processes=2)):
        assert taken - given <= 8
    assert taken == 40


def test_an_error_in_the_input_ends_the_processes(started: list[subprocess.Popen[bytes]]) -> None:
    def failing() -> Iterator[Counted]:
        yield counted(np.random.default_rng(0), 1000)
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        list(fit_all(failing(), processes=2))
    assert len(started) == 2 and all(process.poll() is not None for process in started)


def test_the_main_module_does_not_run_again() -> None:
    """Scripts that convert need no `if __name__ == "__main__"`."""
    script = (
        "import numpy as np; print('once')\n"
        "from cnn_convertor.quantize import Counted, fit_all, histogram\n"
        "counts = Counted(histogram(np.random.default_rng(0).normal(size=999).astype(np.float16)))\n"
        "print(sum(1 for _ in fit_all([counts] * 3, processes=2)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-"]
    said = subprocess.run(command, input=script, capture_output=True, text=True, env=environment, check=False)
    assert (said.stdout, said.returncode) == ("once\n3\n", 0), said.stderr


def test_small_networks_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_cores", lambda: 4)
    assert processes_to_fit([]) == processes_to_fit([255] * 10_000) == processes_to_fit([100_000, 800, 20_000]) == 1
    assert processes_to_fit([10**8] * 4) == 2
    assert processes_to_fit([10**8] * 40) == 4
    monkeypatch.setattr(workers, "_cores", lambda: 1)
    assert processes_to_fit([10**8] * 40) == 1


def test_an_interruption_ends_the_processes() -> None:
    """Each turn starts two of them, so they are few."""
    earlier = children()  # of other tests
    lines = [workers.Line(np.arange(300.0), np.ones(300))] * 3
    for _ in at_each_line(lambda: [*workers.divide_all(lines, 16, processes=2)], workers, every=45):
        gc.collect()  # with what the interruption left
        assert children() == earlier
