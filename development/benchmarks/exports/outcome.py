"""What became of one export, as a value and as a file, and the rows of docs/networks.md that follow."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from development.benchmarks.networks_page import LEAST

EXPORTERS: Final = {"torchscript": "TorchScript", "dynamo": "torch.export"}
SHOWN: Final = 3  # causes in a row, and examples of a cause


class State(Enum):
    """The value is its words on the page."""

    VERIFIED = "verified"
    INACCURATE = f"below {LEAST:.0f} dB"
    REFUSED = "refused"
    FAILED = "failed"  # the convertor ends in any other way: a defect
    NOT_EXPORTED = "not exported"  # the library or PyTorch cannot


class Cause(NamedTuple):
    """A reason, without the names and numbers of the layer that has it. type: of the layer. layers: that have it."""

    code: str
    type: str
    message: str
    layers: int = 1

    @property
    def words(self) -> str:
        return f"{self.code} {self.type}".strip()


class Figures(NamedTuple):
    """Of a network that converts. sqnr: of the worst output, dB."""

    commands: int
    cpu_layers: int
    sqnr: float


class Outcome(NamedTuple):
    """rounding: dB that FP16 in PyTorch keeps. commit: of the convertor. versions: of the libraries. detail: of a failure."""

    network: str
    exporter: str
    size: str
    state: State
    commit: str
    versions: dict[str, str]
    causes: tuple[Cause, ...] = ()
    figures: Figures | None = None
    rounding: float | None = None
    seconds: float = 0.0
    detail: str = ""

    def write(self, folder: Path) -> None:
        values = self._asdict() | {"state": self.state.name}
        values["causes"] = [cause._asdict() for cause in self.causes]
        values["figures"] = self.figures and self.figures._asdict()
        path = path_of(folder, self.network, self.exporter)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        new.replace(path)  # an interruption leaves no half of it

    @classmethod
    def read(cls, path: Path) -> Outcome:
        """Raises ValueError, TypeError or KeyError for a file that is no outcome."""
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        values["state"] = State[values["state"]]
        values["causes"] = tuple(Cause(**cause) for cause in values["causes"])
        values["figures"] = values["figures"] and Figures(**values["figures"])
        return cls(**values)


def path_of(folder: Path, network: str, exporter: str) -> Path:
    return folder / f"{network}.{exporter}.json"


def known(folder: Path, network: str, exporter: str, commit: str | None) -> Outcome | None:
    """The outcome that a folder has. commit: that it must be of; None: any."""
    path = path_of(folder, network, exporter)
    if not path.exists():
        return None
    try:
        outcome = Outcome.read(path)
    except (ValueError, TypeError, KeyError):  # of an older form
        return None
    return outcome if commit in (None, outcome.commit) else None


def causes_of(problems: Iterable[tuple[str, str, str]]) -> tuple[Cause, ...]:
    """Problems (code, type of layer, message) -> what differs in more than names and numbers; the most frequent first."""
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for code, type, message in problems:
        counts[code, type, _general(message)] += 1
    causes = [Cause(*key, count) for key, count in counts.items()]
    return tuple(sorted(causes, key=lambda cause: (-cause.layers, cause)))


def _general(message: str) -> str:
    first = message.splitlines()[0] if message else ""
    return re.sub(r"\d[\d,.x]*", "N", re.sub(r'"[^"]*"', '"X"', first))


# --- rows ----------------------------------------------------------------------------------------------------------------


def network_rows(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Network -> its line. Where the exporters differ, a cell has both, TorchScript first."""
    networks: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for outcome in outcomes:
        networks[outcome.network][outcome.exporter] = outcome
    return {name: _row(name, [forms[e] for e in EXPORTERS if e in forms]) for name, forms in networks.items()}


def _row(name: str, forms: Sequence[Outcome]) -> str:
    both = [form.figures for form in forms]
    cells = [
        forms[0].size,
        _joined(_result(form) for form in forms),
        _joined("" if f is None else f"{f.commands:,}" for f in both),
        _joined("" if f is None else f"{f.cpu_layers:,}" for f in both),
        _joined("" if f is None else f"{f.sqnr:.1f} dB" for f in both),
        _joined("" if form.rounding is None else f"{form.rounding:.1f} dB" for form in forms),
    ]
    return f"| {name} | {' | '.join(cells)} |"


def _joined(cells: Iterable[str]) -> str:
    different = tuple(dict.fromkeys(cells))
    return " / ".join(cell or "-" for cell in different) if any(different) else ""


def _result(outcome: Outcome) -> str:
    if outcome.state is not State.REFUSED:
        return str(outcome.state.value)
    words = list(dict.fromkeys(cause.words for cause in outcome.causes))
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return f"{', '.join(words[:SHOWN])}{more}"


def cause_rows(outcomes: Sequence[Outcome], networks: int) -> dict[str, str]:
    """State or cause -> its line: how many exports have it, and the first of them. networks: that the benchmark has."""
    left = networks * len(EXPORTERS) - len(outcomes)
    rows: dict[str, list[str]] = {"not measured yet": [""] * left} if left else {}
    for state in State:
        rows[f"{state.value}"] = [_form(outcome) for outcome in outcomes if outcome.state is state]
    causes: dict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        for cause in outcome.causes:
            causes[f"{cause.words}: {_escaped(cause.message)}"].append(_form(outcome))
    return {
        words: f"| {words} | {len(forms):,} | {', '.join(forms[:SHOWN]) if words[:2] == 'DV' else ''} |"
        for words, forms in (rows | causes).items()
    }


def _form(outcome: Outcome) -> str:
    return f"{outcome.network} ({EXPORTERS[outcome.exporter]})"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
