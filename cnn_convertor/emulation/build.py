"""Compiles what runs on the PC with the emulated device: a generated network, or the runner of programs that are data."""

import errno
import hashlib
import logging
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cnn_convertor.errors import ConvertorError, Origin, Problem, UsageError, warn
from cnn_convertor.files.opening import bytes_of
from cnn_convertor.files.owners import doubt
from cnn_convertor.files.temporary import one_at_a_time, temporary_folder
from cnn_convertor.workers.compiler import Compiler, find_compiler
from cnn_convertor.workers.programs import run_all

HOST = Path(__file__).parents[1] / "host"
SOURCES, INCLUDE = HOST / "src", HOST / "include"
RUNNER = "runner.cpp"
LOOPS = ("convolve.cpp", "map.cpp", "units.cpp", "vector_loops.cpp", "weights.cpp")  # where the device spends its time
LOOP_FLAGS = ("-std=c++17", "-O3", "-pthread")
EXACT_LOOP_FLAGS = (
    "-std=c++17",
    "-O3",
    "-ffp-contract=off",
    "-pthread",
)  # for loops whose bits every computer must give
LIBRARY_FLAGS = ("-std=c++17", "-Og", "-pthread")  # compiles in two thirds of the time of -O1, and runs as fast
NETWORK_FLAGS = ("-std=c++17", "-O1", "-pthread")  # it runs once: a short compilation counts
# It runs every network. Without contractions, so that it gives the bits of any other computer.
RUNNER_FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-pthread")
CPU_INFO = Path("/proc/cpuinfo")
_LOG = logging.getLogger(__name__)  # the command line shows it
_MISSING_FILE = ("No such file or directory", "file not found")  # as g++ and clang++ say
_SHOWN_ERRORS = 5  # of the compiler, in a message
# No archiver is needed. With a sanitizer in $CXX, clang would put its runtime into the object, and again into each program.
_AS_OBJECT = ("-r", "-nostdlib", "-fno-sanitize=all")
_UNITS = 2  # in which a program's files are compiled: half of the time of each goes to the same headers
_UNFINISHED = ".unfinished-"  # begins the names of folders in which programs are made


class Host(NamedTuple):
    """What runs the generated networks of a device on this computer.

    library: what they link with. runner: the source with the main program, which includes the generated header. include: folders of
    headers; the files of the first are part of the cache's key, those of the others come with the library. defines: options of the compiler.
    """

    library: Callable[[Compiler], Path]
    runner: Path
    include: tuple[Path, ...]
    defines: tuple[str, ...] = ()


def build(folder: Path, name: str, *, wanted: str = "", sources: Sequence[Path] = (), host: Host | None = None) -> Path:
    """The program that runs the network of `folder / NAME_gen.{h,cpp}` on the emulated device.

    wanted: definitions of what an application looks for in the header, for the runner. sources: more C++ files, which define the
    callbacks of custom layers. host: None for networks of the SDK. The cache holds programs that the same compiler made from the
    same contents; a source counts with the files that it includes.
    Raises UsageError when there is no compiler, ConvertorError when the sources do not compile.
    """
    host = host or Host(device_library, SOURCES / RUNNER, (INCLUDE, SOURCES))
    compiler = find_compiler()
    library = host.library(compiler)
    generated = [folder / f"{name}_gen.h", folder / f"{name}_gen.cpp"]
    files = generated + list(folder.glob(f"{name}_cpu.h")) + [host.runner] + _sorted(host.include[0]) + list(sources)
    defines = (f'-DNETWORK_HEADER="{name}_gen.h"', f"-DNETWORK_CLASS=C{name}", *host.defines)
    flags = network_flags()
    include = [f"-I{each}" for each in host.include]
    options = [*flags, *defines, *include, f"-I{folder}"]
    parts = [([*options, "-E", "-P", str(source)], source) for source in sources]
    expanded = _compile(compiler, parts, own=sources)
    key = _key(compiler, (*flags, *defines, wanted, library.stem, *expanded), files)

    def make(scratch: Path) -> Path:
        _LOG.info("compiling %s", name)
        program = scratch / "program"
        joined = _joined(scratch / "network.cpp", [generated[1].name, host.runner.name], wanted)
        inputs = [joined, *sources, library]
        part = options + list(map(str, inputs)) + ["-o", str(program)], generated[1]
        _compile(compiler, [part], scratch=scratch, own=sources)
        return program

    return _cached(f"{name}-{key}", make)


def runner(kernels: str) -> Path:
    """The program that runs any network whose program is data, compiled once for a computer.

    kernels: the header of all functions that run layers on the CPU. Raises UsageError when there is no compiler.
    """
    compiler = find_compiler()
    library = device_library(compiler)
    flags = RUNNER_FLAGS + vector_flags()
    defines = ('-DNETWORK_HEADER="program_network.h"', "-DNETWORK_CLASS=ProgramNetwork")

    def make(scratch: Path) -> Path:
        _LOG.info("compiling the runner, once for this computer")
        (scratch / "kernels.h").write_text(kernels, encoding="utf-8")
        program, source = scratch / "program", SOURCES / RUNNER
        options = [*flags, *defines, f"-I{INCLUDE}", f"-I{SOURCES}", f"-I{scratch}"]
        _compile(compiler, [([*options, str(source), str(library), "-o", str(program)], source)], scratch=scratch)
        return program

    return _cached(f"runner-{_key(compiler, (*flags, *defines, library.stem, kernels), [])}", make)


def program_of(name: str, sources: Sequence[Path], include: Sequence[Path], headers: Mapping[str, str]) -> Path:
    """The program of some C++ files, compiled once for a computer.

    include: the folders of the sources and of their headers. headers: file name -> text of generated headers.
    Raises UsageError when there is no compiler.
    """
    return _linked(name, sources, include, headers, ())


def library_of(name: str, sources: Sequence[Path], include: Sequence[Path], headers: Mapping[str, str]) -> Path:
    """The same for files without a main program, as one object."""
    return _linked(name, sources, include, headers, _AS_OBJECT)


def _linked(
    name: str, sources: Sequence[Path], include: Sequence[Path], headers: Mapping[str, str], link: Sequence[str]
) -> Path:
    compiler = find_compiler()
    flags = list(EXACT_LOOP_FLAGS + vector_flags())
    files = list(sources)
    for folder in include:
        files += [path for path in _sorted(folder) if path.suffix == ".h"]

    def make(scratch: Path) -> Path:
        _LOG.info("compiling the %s, once for this computer", name)
        for header, text in headers.items():
            (scratch / header).write_text(text, encoding="utf-8")
        options = flags + [f"-I{folder}" for folder in include] + [f"-I{scratch}"]
        parts = []
        for number in range(_UNITS):
            source = _joined(scratch / f"part_{number}.cpp", [path.name for path in sources[number::_UNITS]])
            files_of_part = ["-c", str(source), "-o", str(scratch / f"part_{number}.o")]
            parts.append((options + files_of_part, sources[0].parent))
        _compile(compiler, parts, scratch=scratch)
        result = scratch / "result"
        objects = [arguments[-1] for arguments, _ in parts]
        arguments = flags + list(link) + objects + ["-o", str(result)]
        _compile(compiler, [(arguments, sources[0].parent)], scratch=scratch)
        return result

    key = _key(compiler, flags + list(link) + list(headers) + list(headers.values()), files)
    return _cached(f"{name.replace(' ', '-')}-{key}{'.o' if link else ''}", make)


def network_flags() -> tuple[str, ...]:
    """Options for the sources of a network, on this computer."""
    return NETWORK_FLAGS + vector_flags()


def vector_flags() -> tuple[str, ...]:
    """Options with which functions of CPU layers run over the vectors of this processor; the bits are the same without."""
    words = CPU_INFO.read_text().split() if CPU_INFO.exists() else []
    return ("-mavx2", "-mf16c") if {"avx2", "f16c"} <= set(words) else ()


def cache_folder() -> Path:
    """Where compiled programs are kept: $CNN_CONVERTOR_CACHE, or a folder in the user's cache."""
    chosen = os.environ.get("CNN_CONVERTOR_CACHE")
    if chosen:
        return Path(chosen)
    user = os.environ.get("XDG_CACHE_HOME")
    return (Path(user) if user else Path.home() / ".cache") / "cnn-convertor"


def device_library(compiler: Compiler) -> Path:
    """The emulated device, as one object.

    The loops over maps are compiled for speed, and the rest quickly.
    """
    sources = [path.name for path in _sorted(SOURCES) if path.suffix == ".cpp" and path.name != RUNNER]
    rest = [name for name in sources if name not in LOOPS]
    key = _key(compiler, LOOP_FLAGS + LIBRARY_FLAGS + LOOPS, _sorted(SOURCES) + _sorted(INCLUDE))

    def make(scratch: Path) -> Path:
        def part(name: str, flags: Sequence[str], parts: Sequence[str]) -> tuple[list[str], Path]:
            source = _joined(scratch / f"{name}.cpp", parts)
            return [*flags, f"-I{INCLUDE}", f"-I{SOURCES}", "-c", str(source), "-o", f"{scratch / name}.o"], SOURCES

        _LOG.info("compiling the emulated device, once for this computer")
        _compile(compiler, [part("loops", LOOP_FLAGS, LOOPS), part("rest", LIBRARY_FLAGS, rest)], scratch=scratch)
        objects = [str(scratch / "loops.o"), str(scratch / "rest.o")]
        linked = scratch / "device.o"
        _compile(compiler, [([*_AS_OBJECT, *objects, "-o", str(linked)], SOURCES)], scratch=scratch)
        return linked

    return _cached(f"device-{key}.o", make)


def _joined(path: Path, parts: Sequence[str], definitions: str = "") -> Path:
    """A source of several, so that the compiler reads the headers once."""
    path.write_text(definitions + "".join(f'#include "{part}"\n' for part in parts), encoding="utf-8")
    return path


def _compile(
    compiler: Compiler,
    parts: Sequence[tuple[Sequence[str], Path]],
    scratch: Path | None = None,
    own: Sequence[Path] = (),
) -> list[str]:
    """Compile parts at the same time; returns what the compiler prints for each. Raises ConvertorError with its first errors.

    parts: arguments, and the source to name in an error. scratch: where the compiler keeps its own files. own: the user's.
    """
    environment = None if scratch is None else os.environ | {"TMPDIR": str(scratch)}
    results = run_all(
        [[*compiler.command, *arguments] for arguments, _ in parts], environment=environment, in_groups=True
    )
    for result, (_, source) in zip(results, parts, strict=True):
        if result.returncode != 0:
            raise _refusal(compiler, result.stderr, source, own)
    return [result.stdout for result in results]


def _refusal(compiler: Compiler, said: str, source: Path, own: Sequence[Path]) -> ConvertorError:
    """said: by the compiler. own: files of the user's."""
    where = Origin(str(source))
    if not said.strip():
        problem = f'the C++ compiler "{shlex.join(compiler.command)}" fails without a message'
        return UsageError.of("DV701", problem, hint="name another compiler in the variable CXX, such as g++ or clang++")
    lines = [line for line in said.splitlines() if "error" in line or "undefined reference" in line]
    first = "\n".join((lines or said.splitlines())[:_SHOWN_ERRORS])
    hint = "unless the sources were changed, this is an error of the convertor: please report it"
    for path in own:
        if not path.is_file():
            where, hint = Origin(str(path)), "name a C++ file with --source"
        elif match := re.search(rf"(?:^|:\s?){re.escape(str(path))}:(?:(\d+):)?", said, re.MULTILINE):
            where = Origin(str(path), line=int(match[1]) if match[1] else None)
            hint = "correct this file, which --source names"
    if re.search(r"undefined reference to [`']custom_callback", said):  # of GNU's linkers
        hint = "name the C++ file that defines the callbacks of the custom layers with --source"
    if any(text in said for text in _MISSING_FILE) and all(path.is_file() for path in own):
        hint = "put the missing file beside the source that includes it, or name its folder in CPATH; on a cluster, on each computer"
    return ConvertorError.of("DV702", f"the C++ compiler refuses the sources:\n{first}", where, hint)


def _cached(name: str, make: Callable[[Path], Path]) -> Path:
    """The file of that name in the cache; if missing, one process makes it in a scratch folder and moves it there."""
    folder = cache_folder()
    with suppress(OSError):  # of a folder that this user may not enter
        if (folder / name).is_file() and not doubt(folder.resolve(), stat.S_IWOTH):
            return folder / name
    try:
        folder = _writable(folder)
        kept = folder / name
        with one_at_a_time(folder / f"{_UNFINISHED}{name}"):
            if not kept.exists():
                with temporary_folder(folder, prefix=_UNFINISHED) as scratch:
                    make(scratch).replace(kept)
    except OSError as error:
        hint = "name another folder in the variable CNN_CONVERTOR_CACHE"
        problem = Problem(
            "DV703", f"cannot write the cache of compiled programs: {error.strerror}", Origin(str(folder)), hint
        )
        raise UsageError(problem) from error
    return kept


def _writable(folder: Path) -> Path:
    """The cache, or one of this user alone among the temporary files.

    That is for a cache that other users can write, since its programs run, and for one that cannot be made and nobody has chosen.
    """
    try:
        folder.mkdir(0o775, parents=True, exist_ok=True)
        reason = doubt(folder.resolve(), stat.S_IWOTH)
        if not reason and (os.access(folder, os.W_OK) or os.environ.get("CNN_CONVERTOR_CACHE")):
            return folder
        reason = reason or os.strerror(errno.EACCES)
    except OSError as error:
        if os.environ.get("CNN_CONVERTOR_CACHE"):
            raise
        reason = error.strerror or str(error)
    other = Path(tempfile.gettempdir()) / f"cnn-convertor-{os.getuid()}"
    other.mkdir(mode=0o700, exist_ok=True)
    if planted := doubt(other):
        raise PermissionError(errno.EACCES, planted, str(other))  # others could put programs there
    problem = f"the cache of compiled programs cannot be used ({reason}), so they are in {other}"
    warn(Problem("DV724", problem, Origin(str(folder)), "name a folder in the variable CNN_CONVERTOR_CACHE"))
    return other


def _key(compiler: Compiler, flags: Iterable[str], files: Iterable[Path]) -> str:
    """A hash of the compiler, its flags and the files' contents."""
    digest = hashlib.sha256(repr((compiler, tuple(flags))).encode())
    for path in files:
        contents = bytes_of(path)
        digest.update(f"{path.name} {len(contents)} ".encode() + contents)
    return digest.hexdigest()[:32]


def _sorted(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())
