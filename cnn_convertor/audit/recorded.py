"""Compiles a generated source against fields that note each assignment, runs it confined, and gives what it recorded.

The source and its header are strangers' files: the compiler opens no file that they name, and the program can only write its record.
"""

import json
import os
import platform
import re
import signal
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from cnn_convertor.errors import ModelError, Origin, Problem
from cnn_convertor.files.codes import hint
from cnn_convertor.files.limited import TooLargeError, contents
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.workers import confined
from cnn_convertor.workers.compiler import cannot_confine, find_compiler
from cnn_convertor.workers.programs import run_all

_HEADER: Final = Path(__file__).with_name("recording.h")
_FLAGS: Final = (
    "-std=c++17", "-O0", "-nostdinc", "-ffreestanding", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
    "-fno-stack-protector", "-fno-pic", "-fno-asynchronous-unwind-tables", "-fno-sanitize=all", "-Wfatal-errors",
    "-Wunused-value", "-static", "-nostdlib", "-Wl,--warn-unresolved-symbols,--build-id=none",
)  # fmt: skip
_LARGEST: Final = 64 << 20  # bytes of a source
# Processor time, address space and files of the compiler: for any source, and for each of its bytes.
_SECONDS = 10
_SECONDS_PER_MB = 20
_MEMORY = 1 << 30
_MEMORY_PER_BYTE = 1000
_RUN_SECONDS = 5
_RUN_MEMORY = 2 << 30
_RECORD_BYTES = 16 << 20
_RECORD_BYTES_PER_BYTE = 4
_INCLUDE: Final = re.compile(
    r'^(?:[^\S\n]|/\*[^\n]*?\*/)*#[^\S\n]*include\b[^\S\n]*(?:"([^"\n]*)"|<[^>\n]*>)', re.MULTILINE
)
# What may stand in a text without being code, as the compiler divides it, and numbers, in which a quote separates digits.
_NO_CODE: Final = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|(?<![\w$])\d(?:'?[\w$]|\.)*""", re.DOTALL
)
# What opens another file, with all spellings: a directive, its name in two parts, a question whether a file exists. A raw
# string, in which neither a quote nor the end of a line is one, could hide it.
_OPENS: Final = re.compile(
    r'(?:#|%:)\s*(?:include|import|embed|pragma\s*\w+\s*dependency|define[^\n]*(?:\#\#|%:%:))|__has_(?:include|embed)|_Pragma|R"'
)
_HEADER_NAME: Final = re.compile(r"[\w-][\w.-]*_gen\.h")
# A generated runtime, which the convertor writes into a header, and what the audit has in its place: the assignments are the same.
_RUNTIME: Final = re.compile(r"^namespace C(\w+)_run \{\n.*?^\}  // namespace C\1_run\n", re.MULTILINE | re.DOTALL)
_RUNTIME_RECORDED: Final = (
    "namespace C{name}_run {{ enum Act {{ kToDevice, kToCpu, kEndAccess, kBeginAccess, kStart, kWait, kRun }};"
    " struct Action {{ Act act; int layer; size_t offset, size; int number; }};"
    " struct Timetable {{ const int *layers, *ends; int lists; const Action *actions; int count; }};"
    " class Network : public CDMP_Network {{ protected: void set_timetable(const Timetable &) {{}} void set_table(const uint16_t *) {{}}"
    " uint8_t *weights_ptr_ = reinterpret_cast<uint8_t *>(5); }}; }}"
)
_SPLICE: Final = re.compile(r"\\[^\S\n]*\n")
_WARNING: Final = re.compile(r"^([^:\n]*):(\d+):\d+: warning: (.*) \[-W(?:unused|div|shift)[\w-]*\]$", re.MULTILINE)
_ENDS: Final = {
    "SIGKILL": "it does not end",
    "SIGXCPU": "it does not end",
    "SIGXFSZ": "it assigns more than any network needs",
    "SIGSYS": "it calls the operating system",
}
_TOO_MUCH: Final = 3  # the program's status when it has no more room


class Method(NamedTuple):
    """A function without parameters of the network's class, and the line of its definition."""

    name: str
    line: int


class Recording(NamedTuple):
    """owner: the network's class. values: what the program wrote. warnings: statements that do nothing, or nothing that C++ defines."""

    owner: str
    methods: tuple[Method, ...]
    values: dict[str, Any]
    warnings: tuple[Problem, ...]

    def line_of(self, name: str) -> int:
        return next((method.line for method in self.methods if method.name == name), 1)


def recording_of(source: Path) -> Recording:
    """Raises ModelError for what cannot be read, is not a generated source, or does not compile, and UsageError without a compiler."""
    text = _text(source)
    found = re.search(r"\b(\w+)\s*::\s*Initialize\s*\(", text)
    if found is None:
        raise _refusal("DV600", "not a generated network: there is no Initialize()", source.name)
    owner = found[1]
    methods = tuple(Method(match[1], _line(text, match.start(1))) for match in _methods(owner).finditer(text))
    headers = {name: _text(source.with_name(name)) for name in _INCLUDE.findall(text) if _HEADER_NAME.fullmatch(name)}
    for name, part in {**headers, source.name: text}.items():
        if opens := _OPENS.search(_code(part)):
            raise _refusal("DV602", f"{' '.join(opens[0].split())[:80]}: the audit opens no other files", name)
    line = next((method.line for method in methods if method.name == "Initialize"), 1)
    said, status, record = _run(owner, source.name, text, tuple(headers.items()))
    if status:
        undefined = re.search(r"undefined reference to (.*)", said)
        because = f": {undefined[0]}" if undefined else ""
        raise _refusal("DV602", f"{owner}::Initialize(): {_end(status)}{because}", source.name, line)
    try:
        values = json.loads(record.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise damaged_record(owner, source.name, line) from None
    warnings = tuple(
        Problem("DV602", f"not understood: {message}", Origin(name, line=int(number)), hint("DV602"))
        for name, number, message in _WARNING.findall(said)
    )
    return Recording(owner, methods, values, warnings)


def _text(path: Path) -> str:
    try:
        text = contents(path, _LARGEST).decode("utf-8", "replace")
    except TooLargeError as error:
        raise _refusal("DV600", f"this is not a generated source: {error}", path.name) from None
    except OSError as error:
        message = f"cannot read the source: {error.strerror or error}"
        raise ModelError.of("DV600", message, Origin(str(path)), hint("DV600")) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _code(text: str) -> str:
    """The text without usual #include lines, comments, and what strings hold."""
    text = _SPLICE.sub("", _INCLUDE.sub("", text).replace("\0", " "))
    return _NO_CODE.sub(lambda part: {"/": " ", '"': '""', "'": "0"}.get(part[0][0], part[0]), text)


def _refusal(code: str, message: str, file: str, line: int | None = None) -> ModelError:
    return ModelError.of(
        code, message if code == "DV600" else f"not understood: {message}", Origin(file, line=line), hint(code)
    )


def damaged_record(owner: str, file: str, line: int) -> ModelError:
    """A program that wrote something else than what it assigned."""
    return _refusal("DV602", f"{owner}::Initialize(): it damages its record", file, line)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _methods(owner: str) -> re.Pattern[str]:
    return re.compile(rf"\b{owner}\s*::\s*(\w+)\s*\(\s*(?:void\s*)?\)[^;{{}}]*{{")


def _end(status: int) -> str:
    if status < 0:
        return _ENDS.get(signal.Signals(-status).name, "it crashes")
    return "it assigns more than any network needs" if status == _TOO_MUCH else f"it ends with status {status}"


# --- the compiler and the program ---


def _joined(owner: str, name: str, text: str, headers: tuple[tuple[str, str], ...]) -> str:
    """What is compiled: each line keeps its file and its number."""
    parts = [_HEADER.read_text(encoding="utf-8")]
    for header, lines in headers:
        parts.append(f'#line 1 "{header}"\n{_INCLUDE.sub("", _RUNTIME.sub(_recorded, lines))}')
    # What NAME_cpu.h defines, whose functions the audit does not run.
    for space, function in sorted(set(re.findall(r"\b(\w+_cpu)::(Layer_\d+)\b", text))):
        parts.append(f"namespace {space} {{ inline void {function}(fpga_layer &, void *, uint8_t *) {{}} }}")
    if any("MakeThreads" in lines for _, lines in headers):
        parts.append(f"namespace {owner}_cpu {{ std::shared_ptr<Threads> MakeThreads() {{ return {{}}; }} }}")
    entered = _methods(owner).sub(r'\g<0> enter("\1");', _INCLUDE.sub("", text))
    parts.append(f'#line 1 "{name}"\n{entered}\nCDMP_Network &new_network() {{ return *new {owner}; }}\n')
    return "\n".join(parts)


def _recorded(runtime: re.Match[str]) -> str:
    """In place of a generated runtime, with as many lines."""
    return _RUNTIME_RECORDED.format(name=runtime[1]) + "\n" * runtime[0].count("\n")


@lru_cache(maxsize=16)
def _run(owner: str, name: str, text: str, headers: tuple[tuple[str, str], ...]) -> tuple[str, int, bytes]:
    """What the compiler says, how the program ends, and what it wrote."""
    if sys.platform != "linux" or platform.machine() not in confined.MACHINES:
        raise cannot_confine()
    compiler = find_compiler()
    source = _joined(owner, name, text, headers)
    with temporary_folder() as folder:
        (folder / "network.cpp").write_text(source, encoding="utf-8", errors="replace")
        limits = _limits(
            _SECONDS + _SECONDS_PER_MB * len(source) // 1_000_000, _MEMORY + _MEMORY_PER_BYTE * len(source), 1 << 30
        )
        call = [*compiler.command, *_FLAGS, str(folder / "network.cpp"), "-o", str(folder / "network")]
        environment = {
            **os.environ,
            "TMPDIR": str(folder),
            "LC_ALL": "C",
        }  # the compiler keeps its own files in the folder
        (compiled,) = run_all([[*limits, "", *call]], environment=environment, in_groups=True)
        if compiled.returncode:
            raise _compiler_error(compiled.stderr, [name, *dict(headers)])
        limits = _limits(_RUN_SECONDS, _RUN_MEMORY, _RECORD_BYTES + _RECORD_BYTES_PER_BYTE * len(source))
        record = folder / "record"
        (ran,) = run_all([[*limits, str(record), str(folder / "network")]], in_groups=True)
        if ran.returncode == confined.UNCONFINED:
            raise cannot_confine()
        return compiled.stderr, ran.returncode, record.read_bytes()


def _limits(seconds: int, memory: int, size: int) -> list[str]:
    return [sys.executable, "-I", "-S", confined.__file__, str(seconds), str(memory), str(size)]


def _compiler_error(said: str, names: list[str]) -> ModelError:
    """The first thing that the compiler refuses, with the line of the source that led to it."""
    where = re.search(rf"^({'|'.join(map(re.escape, names))}):(\d+)(?!.* warning: )", said, re.MULTILINE)
    error = re.search(r"\berror: (.*)|(undefined reference to .*)", said)
    message = (error[1] or error[2]) if error else "the compiler takes too much time or memory"
    name, line = (where[1], int(where[2])) if where else (names[0], None)
    return _refusal("DV602", message, name, line)
