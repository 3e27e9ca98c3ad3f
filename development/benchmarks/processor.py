"""Measures the processor time of programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]


def processor_seconds(command: list[str]) -> float:
    """Run a program of the checkout to its end, without what it prints; its CPU seconds, of user and system.

    It finds its modules compiled from the second time on, as an installed program does.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    silent = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=silent, stderr=silent)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime
