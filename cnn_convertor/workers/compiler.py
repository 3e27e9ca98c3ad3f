"""Finds the C++ compiler of this computer."""

import os
import shlex
import shutil
from typing import NamedTuple

from cnn_convertor.errors import UsageError
from cnn_convertor.workers.programs import run_all


class Compiler(NamedTuple):
    """command: the program and its first arguments. version: the output of --version."""

    command: tuple[str, ...]
    version: str


def find_compiler() -> Compiler:
    """The C++ compiler: $CXX, or g++. Raises UsageError when there is none."""
    command = tuple(shlex.split(os.environ.get("CXX", ""))) or ("g++",)
    program = shutil.which(command[0])
    if program is None:
        hint = "install g++ (Debian and Ubuntu: apt-get install g++), or name another compiler in the variable CXX"
        raise UsageError.of("DV701", f'there is no C++ compiler "{command[0]}"', hint=hint)
    (version,) = run_all([[*command, "--version"]])
    return Compiler((program, *command[1:]), version.stdout)


def cannot_confine() -> UsageError:
    """For a system on which `confined.py` runs no program of unknown origin."""
    problem = "this system cannot confine a program, so it runs none of unknown origin"
    return UsageError.of("DV701", problem, hint="use Linux on x86-64 or 64-bit Arm, whose kernel filters system calls")
