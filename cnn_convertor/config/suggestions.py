"""Words in messages: near names, and long paths made short."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path


def near_file(path: Path) -> str:
    """What the user may have meant by a missing file."""
    if not path.parent.is_dir():
        return f', since there is no folder "{path.parent}"'
    return did_you_mean(path.name, sorted(p.name for p in islice(path.parent.iterdir(), 1000) if p.is_file()))


def shortened(text: str) -> str:
    """A long path, abbreviated."""
    return text if len(text) <= 100 else f"{text[:50]}...{text[-40:]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    spelled = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), spelled, n=1, cutoff=0.6)
    return f'; did you mean "{spelled[close[0]]}"?' if close else ""
