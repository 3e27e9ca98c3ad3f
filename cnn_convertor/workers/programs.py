"""Runs programs, several at a time; an interruption ends them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress

from cnn_convertor.files.interruption import uninterrupted
from cnn_convertor.workers.pool import share


def run_all(
    commands: Sequence[Sequence[str]], *, environment: Mapping[str, str] | None = None, in_groups: bool = False
) -> list[subprocess.CompletedProcess[str]]:
    """How each program ended, with its output and errors; as many run at a time as this process may use.

    environment: instead of that of this process. in_groups: each program ends with those that it starts. Otherwise it also ends
    with the group of this process, as by `timeout`.
    """
    at_a_time = share()
    parts = (commands[start : start + at_a_time] for start in range(0, len(commands), at_a_time))
    return [result for part in parts for result in _run_together(part, environment, in_groups=in_groups)]


def _run_together(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str] | None, *, in_groups: bool
) -> list[subprocess.CompletedProcess[str]]:
    with uninterrupted() as block, ExitStack() as stack:
        started = [_started(command, environment, stack, in_group=in_groups) for command in commands]
        with block.interruptible():
            said = [process.communicate() for process in started]
        return [
            subprocess.CompletedProcess(process.args, process.returncode, *texts)
            for process, texts in zip(started, said, strict=True)
        ]


def _started(
    command: Sequence[str], environment: Mapping[str, str] | None, stack: ExitStack, *, in_group: bool
) -> subprocess.Popen[str]:
    """A program, or with `in_group` a group that it heads, which ends with the stack at the latest."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        env=environment,
        start_new_session=in_group,
    )
    stack.callback(_end, process, os.killpg if in_group else os.kill)
    return process


def _end(process: subprocess.Popen[str], kill: Callable[[int, int], None]) -> None:
    with process:  # closes its pipes, and waits for its end
        if process.poll() is None:
            with suppress(ProcessLookupError):
                kill(process.pid, signal.SIGKILL)
