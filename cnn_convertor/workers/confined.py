"""Runs a program within limits, as a script of its own: python confined.py SECONDS MEMORY BYTES RECORD PROGRAM ARGUMENT...

SECONDS: of processor time. MEMORY: bytes of address space. BYTES: of a file that it writes. RECORD: the file that takes the
output of a program of unknown origin, which then can only compute, write to it, and end; empty: the program is trusted.
"""

import ctypes
import os
import platform
import signal
import struct
import sys

UNCONFINED = 125  # the status where the system cannot confine a program
# Machine -> its number in a filter, and of its calls: write, exit_group, execve, mmap, munmap, brk, rt_sigreturn. The middle
# ones start the program, which reaches no file with them.
MACHINES = {
    "x86_64": (0xC000003E, (1, 231, 59, 9, 11, 12, 15)),
    "aarch64": (0xC00000B7, (64, 94, 221, 222, 215, 214, 139)),
}
_LOAD = 0x20
_JUMP_IF_EQUAL = 0x15
_RETURN = 0x06  # of the kernel's packet filters
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NO_NEW_PRIVILEGES = 38
_FILTER_CALLS = 22
_FILTER = 2  # of prctl


class _Program(ctypes.Structure):
    """A filter: its length and its instructions."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _filter(machine: int, calls: tuple[int, ...]) -> bytes:
    """Instructions that end the process at any other call."""
    rows = [(_LOAD, 0, 0, 4), (_JUMP_IF_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    for index, call in enumerate(calls):
        rows.append((_JUMP_IF_EQUAL, len(calls) - index, 0, call))
    rows += [(_RETURN, 0, 0, _KILL), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *row) for row in rows)


def _confine() -> None:
    """Raises OSError where the kernel cannot filter calls."""
    instructions = _filter(*MACHINES[platform.machine()])
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    program = _Program(len(instructions) // 8, instructions)
    if prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or prctl(_FILTER_CALLS, _FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel cannot filter system calls")


def main() -> None:
    import resource  # which only systems with fork have

    seconds, memory, size = map(int, sys.argv[1:4])
    record, *command = sys.argv[4:]
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, size),
    ):
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
    if record:
        os.dup2(os.open(record, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            _confine()
        except (OSError, KeyError):
            os._exit(UNCONFINED)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
