"""Several processes give the same palettes as one, in order, even if processes fail, and stay within a command's number."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial as bind
from typing import Any

import click
import numpy as np
import pytest

from cnn_convertor.cli.shared_options import with_workers
from cnn_convertor.devices.dv700.weights import palettes
from cnn_convertor.quantize import Counted, fit, fit_all, histogram, processes_to_fit
from cnn_convertor.workers import pool
from cnn_convertor.workers.outcomes import Item, Outcome
from cnn_convertor.workers.pool import in_order, limited, share
from cnn_convertor.workers.processes import Processes, spread
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


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_any_number_of_processes_gives_the_same(processes: int, started: list[subprocess.Popen[bytes]]) -> None:
    assert as_bytes(fit_all(layers(), bind(in_order, processes=processes))) == EXPECTED
    assert len(started) == (processes if processes > 1 else 0)
    assert all(process.poll() is not None for process in started), "none is left behind"


def test_processes_do_the_work() -> None:
    assert os.getpid() not in in_order(process_of, range(4), processes=2)


def test_without_processes_this_process_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("/nonexistent/python", ""):
        monkeypatch.setattr(sys, "executable", program)
        assert as_bytes(fit_all(layers(), bind(in_order, processes=2))) == EXPECTED


def test_work_of_a_failing_process_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_PROGRAM", "raise SystemExit(3)")
    assert as_bytes(fit_all(layers(), bind(in_order, processes=2))) == EXPECTED


def test_work_of_a_dying_process_is_done_here(started: list[subprocess.Popen[bytes]]) -> None:
    def dying() -> Iterator[Counted]:
        for number, counts in enumerate(layers()):
            if number == 5:
                started[0].kill()
            yield counts

    assert as_bytes(fit_all(dying(), bind(in_order, processes=2))) == EXPECTED


def test_an_error_of_the_work_is_the_same_as_in_this_process() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_order(int, ["x"], processes=2))


def test_processes_that_do_not_start_cost_their_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    for _, outcome in spread(limits_of, [Item(0, "a"), Item(1, "b")], on=Processes(2)):
        (problem,) = outcome.problems
        assert problem.code == "DV127" and "did not start: [Errno 2]" in problem.message


def test_few_layers_are_kept_at_a_time() -> None:
    taken = 0

    def many() -> Iterator[Counted]:
        nonlocal taken
        for taken in range(1, 41):
            yield counted(np.random.default_rng(taken), 600)

    for given, _ in enumerate(fit_all(many(), bind(in_order, processes=2))):
        assert taken - given <= 8
    assert taken == 40


def test_an_error_in_the_input_ends_the_processes(started: list[subprocess.Popen[bytes]]) -> None:
    def failing() -> Iterator[Counted]:
        yield counted(np.random.default_rng(0), 1000)
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        list(fit_all(failing(), bind(in_order, processes=2)))
    assert started and all(process.poll() is not None for process in started)


def test_the_main_module_does_not_run_again() -> None:
    """Scripts that convert need no `if __name__ == "__main__"`."""
    script = (
        "import numpy as np; print('once')\n"
        "from cnn_convertor.quantize import Counted, fit_all, histogram\n"
        "from cnn_convertor.workers.pool import in_order\n"
        "counts = Counted(histogram(np.random.default_rng(0).normal(size=999).astype(np.float16)))\n"
        "print(sum(1 for _ in fit_all([counts] * 3, lambda *both: in_order(*both, processes=2))))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-"]
    said = subprocess.run(command, input=script, capture_output=True, text=True, env=environment, check=False)
    assert (said.stdout, said.returncode) == ("once\n3\n", 0), said.stderr


@pytest.mark.slow
def test_an_interruption_ends_the_processes() -> None:
    """Each turn starts two of them, so they are few."""
    earlier = children()  # of other tests
    for _ in at_each_line(lambda: [*in_order(abs, range(3), processes=2)], pool, every=45):
        gc.collect()  # with what the interruption left
        assert children() == earlier


# --- one number of processes for all ---------------------------------------------------------------------------------------


def process_of(_: object) -> int:
    return os.getpid()


def limits_of(_: object) -> Outcome[tuple[int, ...]]:
    return Outcome(tuple(pool._LIMITS))  # noqa: SLF001


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer with 16 cores, as the processes see it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


@pytest.mark.usefixtures("cores")
def test_the_innermost_block_and_those_around_it_limit_the_share() -> None:
    assert share() == 16
    with limited(4):
        with limited(8):
            assert share() == 4
        with limited(1):
            assert share() == 1
        assert share() == 4
    assert share() == 16


@pytest.mark.slow
@pytest.mark.parametrize(("jobs", "items", "part"), [(2, 2, 1), (6, 2, 3), (7, 3, 2), (2, 4, 1)])
def test_processes_divide_no_further_than_their_share(jobs: int, items: int, part: int) -> None:
    outcomes = spread(limits_of, [Item(i, str(i)) for i in range(items)], on=Processes(jobs))
    assert [outcome.result for _, outcome in outcomes] == [(part,)] * items


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize(("jobs", "processes"), [(None, 9), (12, 9), (3, 3), (1, 1)])
def test_palettes_use_the_processes_of_a_command(
    jobs: int | None, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are worth nine here."""
    asked = []

    def noting(work: Any, items: Any, *, processes: int) -> Any:
        asked.append(processes)
        return map(work, items)

    def command(**_: object) -> int:
        return len(palettes.fit_weights({}, {}))

    monkeypatch.setattr(palettes, "in_order", noting)
    monkeypatch.setattr(palettes, "processes_to_fit", lambda _: 9)
    call = click.command()(with_workers(command))
    assert call.main(["--jobs", str(jobs)] if jobs else [], standalone_mode=False) == 0
    assert asked == [processes]
    assert share() == 16, "the limit ends with the command"


def test_small_networks_start_no_process() -> None:
    assert processes_to_fit([]) == processes_to_fit([255] * 10_000) == processes_to_fit([100_000, 800, 20_000]) == 1
    assert processes_to_fit([10**8] * 4) == 2
