"""Programs end with the process that starts them, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cnn_convertor.workers import programs
from cnn_convertor.workers.pool import limited
from cnn_convertor.workers.programs import run_all
from files.interruptions import at_each_line, children

ROOT = Path(__file__).resolve().parents[2]


def test_results_have_the_order_of_the_programs() -> None:
    slow, fast = run_all([["sh", "-c", "sleep 0.1; echo slow; exit 3"], ["sh", "-c", "printf 'f\\377st' >&2"]])
    assert (slow.returncode, slow.stdout, slow.stderr) == (3, "slow\n", "")
    assert (fast.returncode, fast.stdout, fast.stderr) == (0, "", "f\\xffst")


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)


@pytest.mark.usefixtures("two_cores")
def test_programs_run_one_after_the_other_where_one_process_is_allowed(tmp_path: Path) -> None:
    commands = [["sh", "-c", f"sleep 0.1; touch {tmp_path / 'first'}"], ["test", "-e", str(tmp_path / "first")]]
    with limited(1):
        assert [result.returncode for result in run_all(commands)] == [0, 0]


@pytest.mark.usefixtures("two_cores")
def test_programs_run_at_the_same_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    first, second = run_all([["cat", str(tmp_path / "pipe")], ["sh", "-c", f"echo text > {tmp_path / 'pipe'}"]])
    assert (first.stdout, second.returncode) == ("text\n", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_an_interruption_at_any_line_ends_the_programs(tmp_path: Path) -> None:
    """A program makes a file when it has not been ended."""
    earlier = children()  # of other tests
    for _ in at_each_line(lambda: run_all([["sh", "-c", f"sleep 0.05; touch {tmp_path}/$$"]] * 2), programs, every=2):
        assert children() == earlier
        found = [*tmp_path.iterdir()]
        for path in found:
            path.unlink()
    assert len(found) == 2


@pytest.mark.slow
def test_an_interruption_ends_the_compiler_with_its_parts(tmp_path: Path) -> None:
    """g++ starts other programs, which keep files of their own."""
    compiler = tmp_path / "compiler"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exit\ntouch "$TMPDIR/own.s"\nsleep 600 &\necho $! >>pids\nwait\n'
    )
    compiler.chmod(0o755)
    program = "from cnn_convertor.emulation.build import *; device_library(find_compiler())"
    environment = os.environ | {
        "CXX": str(compiler),
        "CNN_CONVERTOR_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
    }
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    ) as running:
        pids: list[str] = []
        while len(pids) < 2 and running.poll() is None:
            time.sleep(0.02)
            pids = (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=300) == -signal.SIGINT
    assert not [*(tmp_path / "cache").iterdir()]
    deadline = time.monotonic() + 300
    while any(Path("/proc", pid).exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)  # the system collects them
    assert not [pid for pid in pids if Path("/proc", pid).exists()]


def test_a_program_belongs_to_the_group_of_this_process_or_heads_its_own() -> None:
    group = "import os; print(os.getpgid(0) == os.getpid())"
    for in_groups in (False, True):
        (found,) = run_all([[sys.executable, "-c", group]], in_groups=in_groups)
        assert found.stdout == f"{in_groups}\n"
