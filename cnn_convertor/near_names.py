"""Suggests known names that are similar to an unknown one."""

import difflib
import re
from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path


def near_names(word: str, known: Iterable[str], n: int = 1, *, strict: bool = False) -> list[str]:
    """At most n known names with a similar spelling, the nearest first. Case and underscores do not matter.

    strict: only what the word misspells. A name with further words or digits, such as YoloDetectionOutput or Pooling3D,
    means something else.
    """
    spelled = {plain(name): name for name in known}
    spelling = plain(word)
    close = difflib.get_close_matches(spelling, spelled, n, cutoff=0.8 if strict else 0.6)
    return [spelled[name] for name in close if not strict or _is_typo(spelling, name)]


def suggestion(word: str, known: Iterable[str], *, strict: bool = False) -> str:
    """The nearest name as a hint; empty if none is near."""
    near = near_names(word, known, strict=strict)
    return f'did you mean "{near[0]}"?' if near else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest name as the end of a message; empty if none is near."""
    hint = suggestion(word, known)
    return hint and f"; {hint}"


def near_file(path: Path, suffixes: Collection[str] = ()) -> str:
    """What the user may have meant by a missing file, as the end of a message. suffixes: of files that may be meant; none: all."""
    if not path.parent.is_dir():
        return f', since there is no folder "{path.parent}"'
    files = (p for p in islice(path.parent.iterdir(), 1000) if p.is_file())
    return did_you_mean(path.name, sorted(p.name for p in files if not suffixes or p.suffix.lower() in suffixes))


def plain(name: str) -> str:
    return name.replace("_", "").lower()


def _is_typo(spelling: str, name: str) -> bool:
    return abs(len(name) - len(spelling)) <= 1 and re.findall(r"\d", name) == re.findall(r"\d", spelling)
