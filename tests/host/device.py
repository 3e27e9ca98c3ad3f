"""Builds the device with a test driver around it, and talks to it."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from host.reference import Command

ROOT = Path(__file__).resolve().parents[2]
HOST = ROOT / "cnn_convertor" / "host"
RUNNER = HOST / "src" / "runner.cpp"
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
# Compiling takes longer than running: a test at -O2 compiles all sources with the warnings that need it.
SANITIZERS = ["-Og", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def sources() -> list[str]:
    return sorted(str(path) for path in (HOST / "src").glob("*.cpp") if path.name != RUNNER.name)


def joined(path: Path, parts: Iterable[str]) -> str:
    """A source of several: half of the time of each goes to the same standard headers."""
    path.write_text("".join(f'#include "{part}"\n' for part in parts), encoding="utf-8")
    return str(path)


def build(program: Path, *extra: str, with_device: bool = True) -> Path:
    """Compiles and links a program in one go. extra: its sources and options. with_device: all its sources, as one.

    Processes of pytest-xdist that share the folder build a program once, which needs a name of its own.
    """
    return _once(program, lambda unfinished: _build(unfinished, *extra, with_device=with_device))


def _build(program: Path, *extra: str, with_device: bool) -> None:
    device = [joined(program.with_suffix(".device.cpp"), sources())] if with_device else []
    options = ["-std=c++17", "-O2", *WARNINGS, f"-I{HOST / 'include'}"]
    result = subprocess.run(
        ["g++", *options, *extra, *device, "-pthread", "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


RUNTIME = {"network.cpp", "cpu_layers.cpp", "convert_table.cpp"}


def archive(folder: Path, *options: str) -> Path:
    """The device as a static library, compiled once for all programs of the tests.

    The runtime is an object of its own, so that a test can wrap the calls between them.
    """
    folder.mkdir(exist_ok=True)
    return _once(folder / "libdmpdv.a", lambda unfinished: _archive(unfinished, *options))


def _archive(library: Path, *options: str) -> None:
    folder = library.parent
    flags = ["-std=c++17", *WARNINGS, *options, f"-I{HOST / 'include'}", f"-I{HOST / 'src'}", "-c"]
    compilers = []
    for name, is_runtime in (("runtime", True), ("device", False)):
        parts = [path for path in sources() if (Path(path).name in RUNTIME) == is_runtime]
        source = joined(folder / f"{name}.cpp", parts)
        compilers.append(subprocess.Popen(["g++", *flags, source], cwd=folder, stderr=subprocess.PIPE, text=True))
    for compiler in compilers:
        _, errors = compiler.communicate()
        assert compiler.returncode == 0, errors
    subprocess.run(["ar", "rcs", str(library), *map(str, sorted(folder.glob("*.o")))], check=True)


def _once(file: Path, make: Callable[[Path], None]) -> Path:
    """The file, which the first process makes while others wait for it."""
    with file.with_name(f"{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            unfinished = file.with_name(f"{file.name}.unfinished")
            make(unfinished)
            unfinished.replace(file)
    return file


class DeviceError(Exception):
    """The driver's message."""


class AnyCommand(Protocol):
    def data(self) -> bytes: ...


class Counters(NamedTuple):
    commands: int
    input_bytes: int
    operand_bytes: int
    output_bytes: int
    weights_bytes: int

    def since(self, before: Counters) -> tuple[int, ...]:
        return tuple(now - then for now, then in zip(self, before, strict=True))


class Device:
    """A running test driver."""

    def __init__(self, program: Path, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **(environment or {})}
        )
        self.count = 0

    def ask(self, request: str, data: bytes = b"") -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(request.encode() + b"\n" + data)
        self.process.stdin.flush()
        status, _, text = self.process.stdout.readline().decode().rstrip("\n").partition(" ")
        if status != "ok":
            raise DeviceError(text or "the driver ended")
        return text

    def answer(self, count: int) -> bytes:
        assert self.process.stdout
        return self.process.stdout.read(count)

    def reset(self) -> None:
        self.ask("reset")
        self.count = 0

    def alloc(self, size: int) -> int:
        self.ask(f"alloc {size}")
        self.count += 1
        return self.count

    def store(self, data: bytes) -> int:
        """A new memory with these bytes."""
        memory = self.alloc(len(data))
        self.write(memory, 0, data)
        return memory

    def write(self, memory: int, offset: int, data: bytes) -> None:
        self.ask(f"write {memory} {offset} {len(data)}", data)

    def read(self, memory: int, offset: int, count: int) -> NDArray[np.float16]:
        self.ask(f"read {memory} {offset} {2 * count}")
        return np.frombuffer(self.answer(2 * count), np.float16)

    def values(self, memory: int, offset: int, count: int) -> NDArray[np.float32]:
        self.ask(f"values {memory} {offset} {4 * count}")
        return np.frombuffer(self.answer(4 * count), np.float32)

    def raw(self, memory: int, offset: int, count: int) -> bytes:
        self.ask(f"read {memory} {offset} {count}")
        return self.answer(count)

    def add(self, command: AnyCommand) -> None:
        data = command.data()
        self.ask(f"add {len(data)}", data)

    def run(self, *commands: AnyCommand) -> None:
        self.ask("list")
        for command in commands:
            self.add(command)
        self.ask("run")

    def counters(self, device_type: int = 1) -> Counters:
        return Counters(*map(int, self.ask(f"counters {device_type}").split()))

    def exists(self, device_type: int) -> bool:
        return self.ask(f"exists {device_type}") == "1"

    def pack(self, kind: str, sizes: Sequence[int], *parts: bytes) -> bytes:
        """The driver's packed weights. parts: palette, weights, bias, slopes; empty where there are none."""
        words = " ".join(map(str, [kind, *sizes, *map(len, parts)]))
        return self.answer(int(self.ask(f"pack {words}", b"".join(parts))))

    def needs(self, command: Command, unified_buffer: int) -> tuple[int, int]:
        data = command.data()
        need, strips = self.ask(f"needs {unified_buffer} {len(data)}", data).split()
        return int(need), int(strips)

    def close(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(timeout=300)
