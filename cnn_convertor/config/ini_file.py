"""Finds ini files and reads them: their settings, and everything that is wrong with them."""

from __future__ import annotations

import glob
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from cnn_convertor.config.keys import KEYS, LAYERS, OPTIONS, SECTIONS, Key
from cnn_convertor.devices.settings import Override, Quantization
from cnn_convertor.errors import Origin, Problem, UsageError, did_you_mean, near_file, warn
from cnn_convertor.files.limited import TooLargeError, contents
from cnn_convertor.frontends import FRONTENDS, recognize
from cnn_convertor.frontends.frontend import Frontend
from cnn_convertor.frontends.unsupported_formats import explain

LARGEST = 1_000_000  # bytes of an ini file
# A line without the blanks at its ends. No two loops in a row match the same characters, so the time is linear.
_COMMENT = r"(?:[#;].*)?"
_BLANK = re.compile(_COMMENT)
_SECTION = re.compile(r"\[([^\]]*)\]\s*" + _COMMENT)
_NO_TEXT = re.compile("[\0\x80-\xa0\ue000-\uf8ff\ufffd]")  # what a code page has in place of undefined bytes
_OPEN_SECTION = re.compile(r"\[\s*(\w+)\s*" + _COMMENT)
_NEAR_SIGN = re.compile("[:\uff1d]")  # a colon, or the wide sign of a Japanese keyboard
_CUT_NUMBERS = re.compile(r"[^=]*=([^\"#;]*\d(?:\s*;\s*[-+]?[\d.]+)+)")  # mean = 1; 2; 3: all but the 1 is a comment
_SETTING = re.compile(r'([^=\[\]#;"]+)=(?:\s*"([^"]*)"\s*|([^"#;]*))' + _COMMENT)


def outputs_line(layers: Sequence[str]) -> str | None:
    """The line of an ini file that ends a network at these layers; None where a name cannot be written there."""
    text = ", ".join(layers)
    if (
        not layers
        or not text.isprintable()
        or any('"' in name or "," in name or name != name.strip() for name in layers)
    ):
        return None
    return f'outputs = "{text}"' if re.search("[#;]", text) else f"outputs = {text}"


def is_model(path: Path) -> bool:
    """Whether the file is a model by its name or content, rather than an ini file."""
    return path.suffix.lower() != ".ini" and recognize(path) is not None


class _Setting(NamedTuple):
    text: str
    line: int


def _text(path: Path) -> str:
    """The file's text, with lines that end in \\n."""
    if problem := explain(path):
        raise UsageError(problem)
    if is_model(path) and path.exists():
        hint = f"give an ini file for it: `cnn-convertor init {shlex.quote(str(path))} -o net.ini` writes one"
        raise UsageError.of("DV101", "this is a model, not an ini file", Origin(str(path)), hint)
    try:
        data = contents(path, LARGEST)
    except TooLargeError as error:
        raise UsageError.of(
            "DV101", f"this is not an ini file: {error}", Origin(str(path)), "give the path of a net.ini"
        ) from None
    except OSError as error:
        reason = f'cannot read "{_shortened(str(path))}": {error.strerror}'
        hint = "give the path of a net.ini"
        if path.is_dir():
            reason = f'"{_shortened(str(path))}" is a folder, not a file'
            if files := sorted(path.glob("*.ini")):
                hint = f"give one of its files, like {files[0]}"
        if isinstance(error, FileNotFoundError):
            reason = f'there is no file "{_shortened(str(path))}"{near_file(path)}'
        raise UsageError(Problem("DV101", reason, hint=hint)) from None
    text = _decoded(path, data)
    if "\0" in text:
        where = Origin(str(path), line=text.count("\n", 0, text.index("\0")) + 1)
        raise UsageError.of("DV101", "this is not text: it holds a zero byte", where, "give a net.ini")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(path: Path, data: bytes) -> str:
    """UTF-8, or with a warning Shift-JIS, as editors on Japanese Windows write it. Raises UsageError for anything else."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = Origin(str(path), line=data.count(b"\n", 0, error.start) + 1)
    text = data.decode("cp932", errors="replace")
    if _NO_TEXT.search(text):
        raise UsageError.of("DV101", "this is not text in UTF-8", where, "give a net.ini, saved as UTF-8")
    warn(Problem("DV137", "this is not UTF-8, and is read as Shift-JIS (code page 932)", where, "save it as UTF-8"))
    return text


class IniFile:
    """One ini file: its settings, and everything that is wrong with it."""

    def __init__(self, path: Path, text: str) -> None:
        self.problems: list[Problem] = []
        self.unknown: list[tuple[str, int]] = []  # message and line of each unknown section or key
        self._path = path
        self._is_ini = True
        self._sections: dict[str, int] = {}  # name -> line
        self._settings: dict[tuple[str, str], _Setting] = {}  # (section, key) -> setting
        self._scan(text)
        self._look_for_unknown()

    @classmethod
    def read(cls, path: Path) -> IniFile:
        """Raises UsageError if the file is not text at all."""
        return cls(path, _text(path))

    def values(self) -> dict[str, Any]:
        """Field of Config -> value; incomplete if there are problems."""
        if not self._is_ini:
            return {}
        values: dict[str, Any] = {key.name: value for key in KEYS for value in self._parsed(key)}
        if values.get("definition") and "data" in values and "origin" in values:
            values["data"] = values["data"] or values["definition"]
            values["origin"] = values["origin"] or self._guessed_origin(values["definition"], values["data"])
            self._check_data(values)
            self._warn_of_options(values)
        self._warn_of_precisions(values)
        taken = {f"{values.get('name')}_gen", f"{values.get('name')}_selftest"}
        if values.get("python_module") in taken:
            line = self._settings["OUTPUT", "python_module"].line
            self._wrong("DV106", "[OUTPUT] python_module: its source would replace the network's own file", line)
        values["overrides"] = tuple(self._overrides())
        values["lines"] = {
            name: Origin(str(self._path), line=setting.line)
            for (section, name), setting in self._settings.items()
            if section != LAYERS
        }
        return values

    def _overrides(self) -> Iterator[Override]:
        """The settings of single layers."""
        for (section, name), setting in self._settings.items():
            if section == LAYERS:
                is_palette = {"fp16": False, "palette": True}.get(setting.text.lower())
                if is_palette is None:
                    actual = f'not "{setting.text}"' if setting.text else "found nothing"
                    self._wrong("DV106", f"[{section}] {name}: expected fp16 or palette, {actual}", setting.line)
                else:
                    yield Override(name, is_palette, Origin(str(self._path), line=setting.line))

    def _parsed(self, key: Key) -> Iterator[object]:
        """The key's value, if it has one."""
        shown = f"[{key.section}] {key.name}"
        setting = self._settings.get((key.section, key.name))
        if setting is None and key.default is None:
            hint = f"add a line {key.name} = ... ({key.meaning})"
            self._wrong("DV105", f"{shown} is missing: expected {key.kind.expected}", hint=hint)
            return
        text, line = setting or (key.default or "", None)
        try:
            if not text and key.default is None:
                raise ValueError
            yield key.kind.parse(text, self._path.parent)
        except ValueError:
            actual = f'not "{text}"' if text else "found nothing"
            self._wrong("DV106", f"{shown}: expected {key.kind.expected}, {actual}", line, respelling(key, text))
        except UsageError as error:
            origin = Origin(str(self._path), line=line)
            self.problems += [replace(problem, where=problem.where or origin) for problem in error.problems]
        except OSError as error:
            reason = str(error)
            if error.errno is not None:  # a message of the system, not a whole sentence
                reason = f'"{_shortened(text)}" cannot be used, the system says: {error.strerror}'
            hint = "paths are relative to the folder of the ini file" if isinstance(error, FileNotFoundError) else ""
            self._wrong("DV107", f"{shown}: {reason}", line, hint)

    def _check_data(self, values: Mapping[str, Any]) -> None:
        frontend = values["origin"]
        setting = self._settings.get(("INPUT", "data"))
        if setting and frontend and frontend.finds_weights and values["data"] != values["definition"]:
            problem = f"[INPUT] data: expected nothing, since an {frontend.title} model names the files of its weights"
            self._wrong("DV106", problem, setting.line, "remove the line")

    def _warn_of_options(self, values: Mapping[str, Any]) -> None:
        """Warn of keys that the network's framework does not use."""
        for name, option in OPTIONS.items():
            frontend = values["origin"]
            if frontend is not None and values.get(name) not in (None, ()) and option not in frontend.options:
                users = " or ".join(other.title for other in FRONTENDS if option in other.options)
                self.unknown.append(
                    (f"[INPUT] {name} is for {users} and is ignored", self._settings["INPUT", name].line)
                )

    def _warn_of_precisions(self, values: Mapping[str, Any]) -> None:
        """Warn of a precision that does not decide how the weights are stored."""
        why = dict.fromkeys(("quantization_threshold", "quantization_output_sqnr"), "it needs quantization = auto")
        if values.get("quantization") is Quantization.AUTO:
            decides = values.get("quantization_output_sqnr") is not None
            why = {"quantization_threshold": "quantization_output_sqnr decides"} if decides else {}
        for name, reason in why.items():
            if values.get(name) is not None and (setting := self._settings.get(("OUTPUT", name))):
                self.unknown.append((f"[OUTPUT] {name} is ignored: {reason}", setting.line))

    def _guessed_origin(self, definition: Path, data: Path) -> Frontend | None:
        guessed = recognize(definition, data)
        if guessed is None:
            problem = f'[INPUT] definition: neither the name nor the content of "{definition}" shows its framework'
            choices = " or ".join(f"origin = {frontend.name}" for frontend in FRONTENDS)
            hint = f"{choices}; export other frameworks' models to one of them"
            self._wrong("DV108", problem, self._settings["INPUT", "definition"].line, hint)
        return guessed

    def _scan(self, text: str) -> None:
        """Fill sections and settings, line by line."""
        section: str | None = None
        for line, content in enumerate(map(str.strip, text.split("\n")), start=1):
            if _BLANK.fullmatch(content):
                continue
            if match := _SECTION.fullmatch(content):
                section = match[1].strip().upper()
                first = self._sections.setdefault(section, line)
                if first != line:
                    problem = f"[{section}] begins twice, here and in line {first}"
                    self._wrong("DV103", problem, line, f"move its lines up to the section of line {first}")
            elif match := _OPEN_SECTION.fullmatch(content):
                section = match[1].upper()  # so that the next lines have a section
                self._sections.setdefault(section, line)
                problem = f"the name of the section does not end with a bracket: {content}"
                self._wrong("DV102", problem, line, f"[{section}]")
            elif section is None:
                hint = "begin with a line [INPUT]"
                if self._path.suffix.lower() != ".ini":
                    hint = f"give a model, or an ini file: {hint}"
                self._wrong("DV102", "expected a section before anything else", line, hint)
                self._is_ini = False
                return  # further messages would not help
            elif match := _SETTING.fullmatch(content):
                name = match[1].rstrip() if section == LAYERS else match[1].rstrip().lower()
                setting = _Setting(match[3].strip() if match[2] is None else match[2], line)
                first = self._settings.setdefault((section, name), setting).line
                if first != line:
                    problem = f"[{section}] {name} is set twice, here and in line {first}"
                    self._wrong("DV103", problem, line, "keep one of the two lines")
                if numbers := _CUT_NUMBERS.fullmatch(content):
                    several = ", ".join(map(str.strip, numbers[1].split(";")))
                    ignored = f"[{section}] {name}: a comment begins at ; and is ignored (several numbers: {several})"
                    self.unknown.append((ignored, line))
            else:
                problem = f"expected [SECTION], key = value or a comment, found: {content}"
                hint = (
                    "a value that begins with a double quote ends with one and has none inside"
                    if '"' in content
                    else ""
                )
                if match := _SETTING.fullmatch(_NEAR_SIGN.sub("=", content, count=1)):
                    name = match[1].strip()
                    value = (match[3] or match[2] or "").strip()
                    hint = f"{name} = {value}"
                    self._settings.setdefault((section, name.lower()), _Setting(value, line))
                self._wrong("DV102", problem, line, hint)

    def _look_for_unknown(self) -> None:
        """Collect sections and keys that do not exist."""
        for section, line in self._sections.items():
            if section not in SECTIONS:
                self.unknown.append((f"there is no section [{section}]{did_you_mean(section, SECTIONS)}", line))
        for (section, name), setting in self._settings.items():
            here = [key.name for key in KEYS if key.section == section]
            if section not in SECTIONS or section == LAYERS or name in here:
                continue
            home = [f"; it belongs to [{key.section}]" for key in KEYS if key.name == name]
            nearest = home[0] if home else did_you_mean(name, here) or did_you_mean(name, [key.name for key in KEYS])
            self.unknown.append((f'[{section}] has no key "{name}"{nearest}', setting.line))

    def _wrong(self, code: str, message: str, line: int | None = None, hint: str = "") -> None:
        self.problems.append(Problem(code, message, Origin(str(self._path), line=line), hint))


def respelling(key: Key, text: str) -> str:
    """What was probably meant by a value that the key cannot have, as a hint; empty if nothing is near."""
    for spelling in (unicodedata.normalize("NFKC", text), text.strip("[](){} "), *key.kind.spellings(text)):
        with suppress(ValueError, UsageError, OSError):
            if spelling and spelling != text:
                key.kind.parse(spelling, Path())
                return f"{key.name} = {spelling}"
    return ""


def _shortened(text: str) -> str:
    """A long path, abbreviated."""
    return text if len(text) <= 100 else f"{text[:50]}...{text[-40:]}"


def ini_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The given files, and the ini files in the given folders, their subfolders and patterns, sorted by name.

    A file that is found again is left out. Raises UsageError for a folder or a pattern without ini files.
    """
    resolved: dict[Path, None] = {}
    files: list[Path] = []
    for path in paths:
        candidates = [path]
        if path.is_dir() and (problem := explain(path)):
            raise UsageError(problem)
        if path.is_dir() or (not path.exists() and glob.has_magic(str(path))):
            candidates = [*_inside(path)]
            if not candidates:
                kind = "the folder" if path.is_dir() else "the pattern"
                hint = f"`cnn-convertor init MODEL -o {shlex.quote(str(path / 'net.ini'))}` writes one"
                raise UsageError.of(
                    "DV124", f"{kind} has no .ini file", Origin(str(path)), hint if path.is_dir() else "check the path"
                )
        files += [file for file in candidates if file.resolve() not in resolved]
        resolved |= dict.fromkeys(file.resolve() for file in candidates)
    return tuple(files)


def _inside(path: Path) -> Iterator[Path]:
    """Hidden files and folders are left out."""
    if not path.is_dir():
        yield from sorted(Path(name) for name in glob.glob(str(path), recursive=True) if name.endswith(".ini"))  # noqa: PTH207  # Path.glob takes no absolute pattern
        return
    for file in sorted(path.rglob("*.ini")):
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
            yield file
