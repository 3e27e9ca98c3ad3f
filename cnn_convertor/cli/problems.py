"""Problems: by their causes for a reader; each for other programs, as JSON, annotations of GitHub Actions, and SARIF."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from cnn_convertor import __version__
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.escaping import visible
from cnn_convertor.files.codes import Entry, entries

TEXT = "text"
GITHUB = "github"
JSON = "json"
SARIF = "sarif"
FORMATS: Final = (TEXT, GITHUB, JSON, SARIF)
DOCUMENTS: Final = (JSON, SARIF)  # which have all problems of a command, in place of its other output
_MANY: Final = 3  # layers with one problem, which is then shown once
_NAMED: Final = 5  # of these layers
_SARIF_VERSION: Final = "2.1.0"
_SARIF_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def requested_format(arguments: Sequence[str]) -> str:
    """The format that --format asks for, in arguments that may be wrong otherwise."""
    values = [value for option, value in pairwise(arguments) if option == "--format"]
    values += [argument.partition("=")[2] for argument in arguments if argument.startswith("--format=")]
    return values[-1] if values and values[-1] in FORMATS else TEXT


class Complaint(NamedTuple):
    """A problem as it is printed. kind: error, warning or note, which are levels of SARIF."""

    kind: str
    problem: Problem


def by_cause(problems: Sequence[Problem]) -> list[Problem]:
    """The problems for a reader: what many layers of a file share, once, at the place of the first, with their number."""
    layers: dict[Problem, list[str]] = {}
    for problem in problems:
        layers.setdefault(_cause(problem), []).append(_layer_and_type(problem.where))
    shown: dict[Problem, Problem] = {}
    for problem in problems:
        cause = _cause(problem)
        names = list(dict.fromkeys(layers[cause]))
        if problem.where is None or not problem.where.layer or len(names) < _MANY:
            shown[problem] = problem
        elif cause not in shown:
            place = f"{problem.where.file}: {len(names)} layers: {', '.join(names[:_NAMED])}"
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            shown[cause] = replace(problem, where=Origin(place + more))
    return list(shown.values())


def _cause(problem: Problem) -> Problem:
    """The problem without its layer."""
    return replace(problem, where=Origin(problem.where.file if problem.where else ""))


def _layer_and_type(where: Origin | None) -> str:
    if where is None:
        return ""
    return f'"{where.layer}" ({where.type})' if where.type else f'"{where.layer}"'


def as_document(kind: str, complaints: Sequence[Complaint]) -> str:
    """All problems of a command, in one of DOCUMENTS."""
    values = [_plain(each) for each in complaints] if kind == JSON else _sarif(complaints)
    return json.dumps(values, indent=2)


def _plain(complaint: Complaint) -> dict[str, Any]:
    kind, problem = complaint
    where = problem.where or Origin("")
    place = {"file": where.file, "line": where.line, "layer": where.layer, "type": where.type}
    return {"kind": kind, "code": problem.code, "message": problem.message, "hint": problem.remedy, **place}


# --- GitHub Actions ------------------------------------------------------------------------------------------------------


def as_annotation(complaint: Complaint) -> str:
    """A command of a workflow, on one line."""
    kind, problem = complaint
    fields = {"title": f"{problem.code} {_layer(problem.where)}".rstrip()}
    if problem.where is not None and problem.where.file:
        fields["file"] = problem.where.file
        if problem.where.line is not None:
            fields["line"] = str(problem.where.line)
    shown = ",".join(f"{name}={_escaped(text, ',:')}" for name, text in fields.items())
    command = "notice" if kind == "note" else kind
    return f"::{command} {shown}::{_escaped(_message(problem))}"


def _escaped(text: str, more: str = "") -> str:
    """With the characters that end a part of a command in hexadecimal digits."""
    lines = "\n".join(map(visible, text.split("\n")))
    return "".join(f"%{ord(c):02X}" if c in f"%\r\n{more}" else c for c in lines)


def _layer(where: Origin | None) -> str:
    return f'layer "{where.layer}"' if where is not None and where.layer else ""


def _message(problem: Problem) -> str:
    return f"{problem.message}\ntry: {problem.remedy}" if problem.hint else problem.message


# --- SARIF ---------------------------------------------------------------------------------------------------------------


def _sarif(complaints: Sequence[Complaint]) -> dict[str, Any]:
    """A log of one run, whose rules are the codes."""
    codes = sorted({complaint.problem.code for complaint in complaints})
    rules = [_sarif_rule(code, entries()[code]) for code in codes]
    results = [
        {
            "ruleId": problem.code,
            "ruleIndex": codes.index(problem.code),
            "level": kind,
            "message": {"text": _message(problem)},
            **_locations(problem.where),
        }
        for kind, problem in complaints
    ]
    driver = {"name": "cnn-convertor", "semanticVersion": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SARIF_SCHEMA, "version": _SARIF_VERSION, "runs": [run]}


def _sarif_rule(code: str, entry: Entry) -> dict[str, Any]:
    texts = {"shortDescription": f"{entry.meaning}.", "fullDescription": entry.cause, "help": entry.remedy}
    return {"id": code, **{name: {"text": text} for name, text in texts.items()}}


def _locations(where: Origin | None) -> dict[str, Any]:
    if where is None or not (where.file or where.layer):
        return {}
    location: dict[str, Any] = {}
    if where.file:
        place: dict[str, Any] = {"artifactLocation": {"uri": _uri(where.file)}}
        if where.line is not None:
            place["region"] = {"startLine": where.line}
        location["physicalLocation"] = place
    if where.layer:
        location["logicalLocations"] = [{"name": where.layer, **({"kind": where.type} if where.type else {})}]
    return {"locations": [location]}


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), errors="replace")
