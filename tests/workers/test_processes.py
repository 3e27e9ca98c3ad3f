"""Work is spread over processes; if one dies, only its item fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from cnn_convertor.errors import ConvertorError, ConvertorWarning
from cnn_convertor.workers.outcomes import Item, Outcome, attempted
from cnn_convertor.workers.processes import Processes, gather, spread

ROOT = Path(__file__).resolve().parents[2]
DEADLY = {3: "signal 9 (SIGKILL)", 4: "exit code 7"}
WORK = """
import os, signal, sys, time
from cnn_convertor.workers.outcomes import Outcome
{}
"""
PROGRAM = """
from cnn_convertor.workers import pool
from cnn_convertor.workers.outcomes import Item
from cnn_convertor.workers.processes import Processes, spread
from work import *

pool._PATIENCE = 100.0  # seconds to clean up, on a machine that does other things as well

def items(*values):
    return [Item(value, f"n{{value}}") for value in values]

{}
"""


def run(folder: Path, work: str, main: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, since the processes import the module of their function."""
    (folder / "work.py").write_text(WORK.format(work))
    script = folder / "program.py"
    script.write_text(PROGRAM.format(main))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)


def lasting_work(folder: Path, *, cleaning: float = 0) -> str:
    """Work on item 1 that takes minutes, and cleans up. cleaning: its seconds. Files in the folder say how far it is."""
    return f"""
def work(item):
    if item == 0: return Outcome(0)
    try:
        open({str(folder / "begun")!r}, "w").close()
        time.sleep(200)
        open({str(folder / "finished")!r}, "w").close()
    finally:
        time.sleep({cleaning})
        open({str(folder / "cleaned")!r}, "w").close()
"""


def test_each_item_has_its_result_however_others_end(tmp_path: Path) -> None:
    work = """
def work(item):
    if item == 3: os.kill(os.getpid(), signal.SIGKILL)
    if item == 4: os._exit(7)
    return Outcome(item * item)
"""
    main = """
for number, outcome in sorted(spread(work, items(*range(8)), on=Processes(2)), key=lambda pair: pair[0]):
    print(number, outcome.result, *(problem.message for problem in outcome.problems))
"""
    expected = [
        f"{i} None the process that worked on n{i} ended with {DEADLY[i]}" if i in DEADLY else f"{i} {i * i}"
        for i in range(8)
    ]
    done = run(tmp_path, work, main)
    assert (done.stdout.splitlines(), done.stderr) == (expected, "")


def test_processes_clean_up_when_the_caller_stops(tmp_path: Path) -> None:
    main = f"""
for _ in spread(work, items(0, 1), on=Processes(2)):
    while not os.path.exists({str(tmp_path / "begun")!r}): time.sleep(0.01)
    break
"""
    done = run(tmp_path, lasting_work(tmp_path), main)
    assert (tmp_path / "cleaned").exists() and not (tmp_path / "finished").exists()
    assert (done.returncode, done.stderr) == (0, "")


def test_processes_clean_up_when_ctrl_c_is_pressed_twice(tmp_path: Path) -> None:
    work = f"""
import threading
{lasting_work(tmp_path, cleaning=0.5)}
def press():
    while not os.path.exists({str(tmp_path / "begun")!r}): time.sleep(0.01)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
"""
    main = """
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=press).start()
try:
    for _ in spread(work, items(1, 1), on=Processes(2)): pass
except KeyboardInterrupt:
    print("interrupted")
"""
    done = run(tmp_path, work, main)
    assert (tmp_path / "cleaned").exists()
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_a_process_that_only_starts_does_not_begin_when_the_caller_stops(tmp_path: Path) -> None:
    main = """
for _ in spread(work, items(0, 1), on=Processes(2)):
    break
"""
    done = run(tmp_path, lasting_work(tmp_path), main)
    assert (tmp_path / "begun").exists() == (tmp_path / "cleaned").exists() and not (tmp_path / "finished").exists()
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_while_modules_load_is_no_traceback(tmp_path: Path) -> None:
    """Ctrl-C in a terminal reaches the whole group; a process that only loads modules ends when the caller says so."""
    work = """
if __name__ != "__main__" and os.getpgid(0) == os.getpid():
    os.kill(os.getpid(), signal.SIGINT)
def work(item): return Outcome(item)
"""
    main = """
print([(outcome.result, *(p.code for p in outcome.problems)) for _, outcome in spread(work, items(1, 2), on=Processes(2))])
"""
    done = run(tmp_path, work, main)
    assert (done.stdout, done.stderr) == ("[(None, 'DV127'), (None, 'DV127')]\n", "")


def test_a_process_cleans_up_when_the_caller_stops_as_soon_as_it_has_its_item(tmp_path: Path) -> None:
    work = f"""{lasting_work(tmp_path)}
def trace(frame, event, _):
    if frame.f_code.co_name == "give" and event == "return":
        while not os.path.exists({str(tmp_path / "begun")!r}): time.sleep(0.01)
        raise SystemExit
    return trace
"""
    main = """
sys.settrace(trace)
for _ in spread(work, items(1, 1), on=Processes(2)): pass
"""
    done = run(tmp_path, work, main)
    assert (tmp_path / "cleaned").exists()
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_gathered_ends_with_the_first_failure() -> None:
    begun = []

    def work(item: int) -> Outcome[int]:
        begun.append(item)
        return attempted(lambda: 6 // (2 - item))

    with pytest.raises(ConvertorError, match="ZeroDivisionError"):
        gather(work, [Item(i, str(i)) for i in range(5)])
    assert begun == [0, 1, 2]


def test_what_is_gathered_brings_texts_for_developers() -> None:
    def work(item: int) -> Outcome[int]:
        warnings.warn("an odd number", RuntimeWarning, stacklevel=1)
        raise ArithmeticError(item)

    done = attempted(lambda: gather(lambda item: attempted(lambda: work(item).result), [Item(1, "a")]))
    assert "raise ArithmeticError(item)" in done.trace
    assert any("an odd number" in text for text in done.python_warnings)


def test_an_ending_has_what_the_work_gave() -> None:
    assert attempted(lambda: 3) == Outcome(3)
    failed = attempted(lambda: 1 // 0)
    assert failed.result is None and failed.problems[0].code == "DV000" and not failed.is_misuse
    assert "ZeroDivisionError" in failed.trace
    assert re.search(r"ZeroDivisionError: .* \(cnn_convertor/workers/\w+\.py:\d+\)$", failed.problems[0].message)


def test_the_signals_that_end_programs_are_named() -> None:
    assert DEADLY[3] == f"signal {signal.SIGKILL.value} ({signal.SIGKILL.name})"


def test_a_system_without_processes_works_in_one_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cnn_convertor.workers.processes.can_start_processes", lambda: False)
    with pytest.warns(ConvertorWarning, match="DV140"):
        outcomes = list(spread(_as_outcome, [Item(1, "a"), Item(2, "b")], on=Processes(2)))
    assert [outcome.result for _, outcome in outcomes] == [1, 2]


def _as_outcome(value: int) -> Outcome[int]:
    return Outcome(value)
