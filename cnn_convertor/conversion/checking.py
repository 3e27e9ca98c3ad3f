"""Compares the files of an output folder with what the same input gives now, and with their manifest."""

from __future__ import annotations

import difflib
import filecmp
import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion.convert import convert
from cnn_convertor.conversion.manifest import earlier_files, listed_digests, manifest
from cnn_convertor.devices.program import Program
from cnn_convertor.devices.registry import compiled_format
from cnn_convertor.devices.target import Quantized
from cnn_convertor.files.integrity import damage, digest_of
from cnn_convertor.files.opening import bytes_of, open_file, text_of
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.progress import Progress, silent
from cnn_convertor.report.collecting import report_of

_CONTEXT: Final = 1  # lines around a difference
_MOST_LINES: Final = 40  # of one file's differences
_LAYER: Final = re.compile(r"// (Layer_\d+): ")
_NAME: Final = re.compile(r'//   (".*") \(')


class Difference(NamedTuple):
    """file: of the committed outputs. lines: what a conversion would change in it, for people."""

    file: Path
    lines: tuple[str, ...]

    @property
    def line(self) -> int | None:
        """The number of the first line that would change, if the file is a text."""
        match = re.match(r"line (\d+)", self.lines[0]) if self.lines else None
        return int(match[1]) if match else None


def check(config: Config, progress: Progress = silent) -> tuple[Difference, ...]:
    """The files that a conversion would change. Nothing is written. Raises ConvertorError when it does not convert."""
    folder = config.folder
    with temporary_folder() as scratch:
        written = convert(replace(config, output_folder=scratch), progress).files
        progress("compare", 0, 1)
        fresh = {path.relative_to(scratch / config.name).as_posix(): path for path in written}
        differences = _differing(folder, fresh, fresh[f"{config.name}.json"])
    obsolete = [file for file in earlier_files(folder, config.name) if file not in fresh]
    return (*differences, *(Difference(folder / file, ("the conversion no longer writes it",)) for file in obsolete))


def on_disk(request: Request, quantized: Quantized, fresh: Mapping[str, Path]) -> tuple[Difference, ...]:
    """How the files in the output folder differ from a program that is known; nothing if none of them is there.

    fresh: file -> a file that it should be equal to, for the files of this program; others are ignored.
    Reports and self-tests must have the hashes of the manifest.
    """
    folder, manifest_name = request.folder, f"{request.name}.json"
    own = _of_program(request, quantized.program, fresh)
    if not any((folder / file).exists() for file in (*own, manifest_name)):
        return ()
    listed = listed_digests(folder, request.name)
    current = {file: digest_of(path) for file, path in own.items()}
    report = report_of(quantized.program, request, calibration=quantized.calibration, budget=quantized.budget)
    with temporary_folder() as scratch:
        (scratch / manifest_name).write_text(manifest(report, listed | current), encoding="utf-8")
        paths = {**own, manifest_name: scratch / manifest_name}
        return (*_differing(folder, paths, scratch / manifest_name), *_damaged(request, own))


def what_runs(request: Request, quantized: Quantized, fresh: Mapping[str, Path]) -> tuple[Difference, ...]:
    """How the sources, headers and weights in the output folder differ from those of a program, but for lines of comments.

    fresh: as in `on_disk`. Other files must have the hashes of the manifest, if there is one.
    """
    own = _of_program(request, quantized.program, fresh)
    changed = {file: path for file, path in own.items() if not _is_same_code(request.folder / file, path)}
    with temporary_folder() as scratch:
        report = report_of(quantized.program, request, calibration=quantized.calibration, budget=quantized.budget)
        layers = scratch / f"{request.name}.json"
        layers.write_text(manifest(report, {}), encoding="utf-8")
        return (*_differing(request.folder, changed, layers), *_damaged(request, own))


def _of_program(request: Request, program: Program, fresh: Mapping[str, Path]) -> dict[str, Path]:
    written = request.target.names_of(program, request.rendering)
    return {file: path for file, path in fresh.items() if file in written}


def _damaged(request: Request, own: Collection[str]) -> list[Difference]:
    """Listed files, other than the program's own, that do not have the hashes of the manifest."""
    damages = list[Difference]()
    for file, digest in listed_digests(request.folder, request.name).items():
        reason = None if file in own else damage(request.folder / file, digest)
        if reason:
            damages.append(Difference(request.folder / file, (reason,)))
    return damages


def _is_same_code(path: Path, fresh: Path) -> bool:
    """Whether two files are equal, or are sources that differ in lines of comments alone, such as the one with the version."""
    if not path.is_file():
        return False
    if fresh.suffix not in {".h", ".cpp"}:
        return filecmp.cmp(path, fresh, shallow=False)
    codes_of_both = []
    for each in (path, fresh):
        lines = bytes_of(each).splitlines()
        codes_of_both.append([line for line in lines if not line.lstrip().startswith(b"//")])
    return codes_of_both[0] == codes_of_both[1]


def _differing(folder: Path, fresh: Mapping[str, Path], manifest: Path) -> list[Difference]:
    """The files of a folder that differ. fresh: file -> a file that it should be equal to. manifest: of those."""
    return [
        Difference(folder / file, tuple(differences_of(folder / file, path, manifest)))
        for file, path in fresh.items()
        if not ((folder / file).is_file() and filecmp.cmp(folder / file, path, shallow=False))
    ]


def unknown_files(config: Config) -> tuple[str, ...]:
    """Files in the output folder that its last conversion did not write."""
    folder = config.folder
    if not (known := earlier_files(folder, config.name)):
        return ()
    names = {path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")}
    return tuple(sorted(names - set(known)))


def differences_of(committed: Path, fresh: Path, manifest: Path) -> Iterator[str]:
    """The lines about one file. manifest: of the conversion that made it."""
    if not committed.is_file():
        yield "it is missing"
    elif fresh.suffix == ".bin":
        yield from _of_weights(committed, fresh, manifest)
    elif compiled_format(fresh) is not None:
        yield from _of_bytes(committed, fresh)
    else:
        yield from _of_text(committed, fresh)


def _of_bytes(committed: Path, fresh: Path) -> Iterator[str]:
    sizes = [path.stat().st_size for path in (committed, fresh)]
    if sizes[0] != sizes[1]:
        yield f"{sizes[0]:,} bytes committed, {sizes[1]:,} bytes converted now"
        return
    old, new = (_part(path, 0, sizes[0]) for path in (committed, fresh))
    differs = old != new
    count, first = int(np.count_nonzero(differs)), int(np.argmax(differs))
    yield f"{count:,} of {new.size:,} bytes differ, the first at offset {first:,}"


def _of_text(committed: Path, fresh: Path) -> Iterator[str]:
    """A diff, each part under the layer that it belongs to."""
    before = text_of(committed, "replace").splitlines()
    after = text_of(fresh).splitlines()
    lines = list(difflib.unified_diff(before, after, "committed", "converted now", n=_CONTEXT, lineterm=""))[2:]
    for number, line in enumerate(lines):
        if number == _MOST_LINES:
            yield f"... and {len(lines) - number} more lines"
            return
        if match := re.match(r"@@ -\d+(?:,\d+)? \+(\d+)", line):
            yield f"line {match[1]}{_layer_at(after, int(match[1]) + _CONTEXT)}"
        else:
            yield line


def _layer_at(lines: Sequence[str], end: int) -> str:
    """The layer of the line before the end of a generated source, as its comments name it."""
    starts = [index for index in range(min(end, len(lines))) if _LAYER.match(lines[index])]
    if not starts:
        return ""
    names = [
        match[1]
        for line in itertools.takewhile(lambda line: line.startswith("//"), lines[starts[-1] :])
        if (match := _NAME.match(line))
    ]
    layer = _LAYER.match(lines[starts[-1]])
    assert layer is not None
    return f", in {layer[1]}, {', '.join(names)}"


def _part(path: Path, start: int, size: int) -> NDArray[np.uint8]:
    with open_file(path) as file:
        return np.fromfile(file, np.uint8, size, offset=start)


def _of_weights(committed: Path, fresh: Path, manifest: Path) -> Iterator[str]:
    """The layers whose bytes differ."""
    sizes = [path.stat().st_size for path in (committed, fresh)]
    if sizes[0] != sizes[1]:
        yield f"{sizes[0]:,} bytes committed, {sizes[1]:,} bytes converted now"
    values: dict[str, Any] = json.loads(text_of(manifest))
    for layer in values["layers"]:
        for stored in layer.get("weights", ()):
            start, size = stored["offset"], stored["bytes"]
            old, new = (_part(path, start, size) for path in (committed, fresh))
            if old.size != new.size:
                yield f"{layer['name']}: its {new.size:,} bytes at offset {start:,} are not all there"
            elif count := int(np.count_nonzero(old != new)):
                first = start + int(np.argmax(old != new))
                yield f"{layer['name']}: {count:,} of {new.size:,} bytes differ, the first at offset {first:,}"
