"""Runs programs at the same time; an interruption ends them, with those that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress

from cnn_convertor.interruption import uninterrupted


def run_all(
    commands: Sequence[Sequence[str]], *, environment: Mapping[str, str] | None = None
) -> list[subprocess.CompletedProcess[str]]:
    """How each program ended, with its output and errors. environment: instead of that of this process."""
    with uninterrupted() as block, ExitStack() as ending:
        started = [_started(command, environment, ending) for command in commands]
        with block.interruptible():
            said = [process.communicate() for process in started]
        return [
            subprocess.CompletedProcess(process.args, process.returncode, *texts)
            for process, texts in zip(started, said, strict=True)
        ]


def _started(command: Sequence[str], environment: Mapping[str, str] | None, ending: ExitStack) -> subprocess.Popen[str]:
    """A program at the head of a group of its own, which ends with the stack at the latest."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        env=environment,
        start_new_session=True,
    )
    ending.callback(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    with process:  # closes its pipes, and waits for its end
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
