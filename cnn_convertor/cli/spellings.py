"""Earlier names of commands and options: they still work, are not shown, and lead to a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Renamed(NamedTuple):
    """command: the words that stand for the earlier one. options: earlier name -> the name there."""

    command: tuple[str, ...]
    options: Mapping[str, str] = {}


EARLIER_COMMANDS: Final = {
    "plan": Renamed(("layouts", "plan")),
    "layout": Renamed(("layouts",)),
    "export": Renamed(("layouts", "export")),
    "probe": Renamed(("board", "probe")),
    "kit": Renamed(("board", "kit")),
    "draw": Renamed(("report",), {"-o": "--svg", "--output": "--svg", "--memory": "--memory-svg"}),
}
_OPTIONS: Final = {  # the words of a command, now -> earlier name -> the name there
    ("convert",): {"--output-folder": "--output"},
    ("run",): {"--input": "--inputs"},
    ("board", "probe"): {"--out": "--output"},
    ("board", "kit"): {"--out": "--output"},
    ("layouts", "export"): {"--input": "--inputs"},
    ("layouts", "describe"): {"--svg": "--output"},
}
_EVERYWHERE: Final = {"--max_kernel_size": "--max-kernel-size", "--ub_size": "--ub-size"}


class Current(NamedTuple):
    """arguments: with the names of now. notes: what was renamed."""

    arguments: list[str]
    notes: tuple[str, ...]


def current(arguments: Sequence[str]) -> Current:
    """The arguments of the program with the names of now. They begin with a command."""
    first, *rest = arguments
    renamed = EARLIER_COMMANDS.get(first, Renamed((first,)))
    words = [*renamed.command, *rest]
    notes = [] if first not in EARLIER_COMMANDS else [f"`{first}` is now `{' '.join(renamed.command)}`"]
    options = {**_EVERYWHERE, **_OPTIONS.get((words[0],), {}), **_OPTIONS.get(tuple(words[:2]), {}), **renamed.options}
    for number, word in enumerate(words):
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name in options:
            words[number] = f"{options[name]}{equals}{value}"
            notes.append(f"`{name}` is now `{options[name]}`")
    return Current(words, tuple(dict.fromkeys(notes)))
