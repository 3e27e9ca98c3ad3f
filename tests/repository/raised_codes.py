"""Records the codes of the errors and warnings that the package makes while tests run."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

from cnn_convertor.errors import Problem

FOLDER: Final = "CNN_CONVERTOR_TEST_CODES"  # in the environment: where the processes of a run keep their records
PACKAGE: Final = f"{Path(__file__).resolve().parents[2] / 'cnn_convertor'}{os.sep}"
CONSTRUCTORS: Final = f"{PACKAGE}errors.py"  # make problems for others


def start(folder: Path) -> None:
    """Record in this process, and in those that it forks, each code that the package gives, in a file of the folder."""
    make: Any = Problem.__init__

    @cache
    def record(code: str) -> None:
        with (folder / "codes").open("a", encoding="ascii") as file:
            file.write(f"{code}\n")

    def recording(self: Problem, code: str, *arguments: Any, **keywords: Any) -> None:
        make(self, code, *arguments, **keywords)
        if _is_of_package(sys._getframe(1)):  # noqa: SLF001  # inspect.currentframe().f_back, for every problem, is no better
            record(code)

    Problem.__init__ = recording  # type: ignore[method-assign]  # the class itself has no place for it


def raised(folder: Path) -> set[str]:
    """The codes of all processes so far."""
    file = folder / "codes"
    return set(file.read_text(encoding="ascii").split()) if file.exists() else set()


def _is_of_package(frame: FrameType | None) -> bool:
    """Whether the package made the problem; those that a test makes prove nothing."""
    while frame is not None and frame.f_code.co_filename == CONSTRUCTORS:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(PACKAGE)
