"""Runs programs at the same time; an interruption ends them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress

from cnn_convertor.files.interruption import uninterrupted


def run_all(
    commands: Sequence[Sequence[str]], *, environment: Mapping[str, str] | None = None, in_groups: bool = False
) -> list[subprocess.CompletedProcess[str]]:
    """How each program ended, with its output and errors. environment: instead of that of this process.

    in_groups: each program ends with those that it starts. Otherwise it also ends with the group of this process, as by `timeout`.
    """
    with uninterrupted() as block, ExitStack() as ending:
        started = [_started(command, environment, ending, in_group=in_groups) for command in commands]
        with block.interruptible():
            said = [process.communicate() for process in started]
        return [
            subprocess.CompletedProcess(process.args, process.returncode, *texts)
            for process, texts in zip(started, said, strict=True)
        ]


def _started(
    command: Sequence[str], environment: Mapping[str, str] | None, ending: ExitStack, *, in_group: bool
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
    ending.callback(_end, process, os.killpg if in_group else os.kill)
    return process


def _end(process: subprocess.Popen[str], kill: Callable[[int, int], None]) -> None:
    with process:  # closes its pipes, and waits for its end
        if process.poll() is None:
            with suppress(ProcessLookupError):
                kill(process.pid, signal.SIGKILL)
