"""Conversions that give what a test wants, for commands that print it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.facts import DeviceFacts, DeviceFigure
from cnn_convertor.report.values import MemoryUse, Preprocessing, Report

ROOT = Path(__file__).resolve().parents[2]


INI = "[INPUT]\nname = {name}\ndefinition = net.h5\n[OUTPUT]\noutput_folder = out\n"
Conversion: TypeAlias = Callable[[Any, Callable[[str, int, int], None]], Any]


def works(config: Any, progress: Callable[[str, int, int], None]) -> Any:
    progress("read", 0, 1)
    for done in range(3):
        progress("weights", done, 2)
    memory = MemoryUse(32, 16, False, 3, 16, ("x",), ())
    return made(config.output_folder / config.name, notes=("zero", "one", "two"), memory=memory)


LIMITS = Limits().of_board


def made(*files: Path, **fields: Any) -> Any:
    """What a conversion returns. fields: of its report."""
    driver, hardware = (DeviceFigure(name, "unknown", "", "a page", True) for name in ("driver", "hardware"))
    device = DeviceFacts("dv700", "DV700", "documented", True, "model", driver, hardware, LIMITS, ())
    report = Report(1, "0", "a", "net.h5", "Keras", device, Preprocessing("RGB", (0.0,), 1.0), **fields)
    return SimpleNamespace(files=files, report=report)


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "convertor.py"), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        stdin=subprocess.DEVNULL,
    )


def raises(error: BaseException) -> Conversion:
    def conversion(config: Any, progress: Any) -> Any:
        progress("read", 0, 1)
        raise error

    return conversion
