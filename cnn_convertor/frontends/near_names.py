"""Which known name a user may have meant."""

import difflib
import re
from collections.abc import Iterable


def near_name(word: str, known: Iterable[str]) -> str | None:
    """The known name that the word misspells; None if it is more likely a different name.

    A name with further words or digits, such as YoloDetectionOutput or Pooling3D, means something else.
    """
    spelled = {plain(name): name for name in known}
    spelling = plain(word)
    if spelling in spelled:
        return spelled[spelling]
    close = difflib.get_close_matches(spelling, spelled, n=1, cutoff=0.8)
    is_same = close and abs(len(close[0]) - len(spelling)) <= 1 and _digits(close[0]) == _digits(spelling)
    return spelled[close[0]] if is_same else None


def plain(name: str) -> str:
    return name.replace("_", "").lower()


def _digits(name: str) -> list[str]:
    return re.findall(r"\d", name)
