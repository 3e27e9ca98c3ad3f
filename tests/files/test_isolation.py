"""A child process cannot harm its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorWarning
from cnn_convertor.files import isolation
from cnn_convertor.files.isolation import IsolationError, isolated
from files.interruptions import at_each_line, children

MEMORY = 100 << 20


def loop() -> None:
    while True:
        pass


def allocate() -> int:
    return len(bytearray(MEMORY * 4))


def refuse() -> None:
    raise ValueError("no such thing")


def test_a_result_comes_back() -> None:
    array = np.arange(1_000_000)
    assert (isolated(lambda: array * 2, seconds=5, memory=MEMORY) == array * 2).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (loop, "does not end"),
        (os.abort, "makes the reader crash"),
        (allocate, "needs more memory"),
        (refuse, "no such thing"),
        (lambda: os._exit(3), "ended with status 3"),
    ],
)
def test_a_failure_is_an_error_of_the_parent(function: Callable[[], object], reason: str) -> None:
    with pytest.raises(IsolationError, match=reason):
        isolated(function, seconds=1, memory=MEMORY)


@pytest.mark.slow
def test_waiting_does_not_count() -> None:
    assert isolated(lambda: time.sleep(1.5), seconds=1, memory=MEMORY) is None


def test_an_interruption_ends_the_child(tmp_path: Path) -> None:
    """The terminal sends Ctrl-C to both; a child that ignores it is killed."""
    program = """
import os, signal, sys, time
from pathlib import Path
from cnn_convertor.files.isolation import isolated

signal.signal(signal.SIGINT, signal.default_int_handler)

def deaf():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Path(sys.argv[1]).write_text(str(os.getpid()))
    time.sleep(600)

isolated(deaf, seconds=60, memory=1 << 30)
"""
    place = tmp_path / "child"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(place)], stderr=subprocess.PIPE, env=os.environ
    ) as parent:
        while not (place.exists() and place.read_text()) and parent.poll() is None:
            time.sleep(0.01)
        parent.send_signal(signal.SIGINT)
        assert parent.wait(timeout=300) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(place.read_text()), 0)


def open_files() -> int:
    return len([*Path("/dev/fd").iterdir()])


@pytest.mark.slow
def test_an_interruption_at_any_line_leaves_no_child_and_no_pipe() -> None:
    before = open_files(), children()
    for _ in at_each_line(lambda: isolated(lambda: 1, seconds=5, memory=MEMORY), isolation):
        assert (open_files(), children()) == before


def test_without_fork_it_works_here_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.warns(ConvertorWarning, match="DV138"):
        assert isolated(lambda: 3, seconds=5, memory=1 << 30) == 3


def test_a_lower_limit_of_the_user_stays() -> None:
    resource = pytest.importorskip("resource")
    code = (
        "import resource; from cnn_convertor.files.isolation import isolated; "
        "resource.setrlimit(resource.RLIMIT_CPU, (3, 3)); "
        "print(isolated(lambda: resource.getrlimit(resource.RLIMIT_CPU), seconds=100, memory=1 << 30))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(3, 3)\n", "") and resource
