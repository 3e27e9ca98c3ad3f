"""What the codes of errors and warnings mean: the tables of docs/messages.md."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from cnn_convertor.files.package_files import folder_of

_ROW = re.compile(r"^\| (DV\d{3})( \(warning\))? \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)


class Entry(NamedTuple):
    """meaning: in a few words. cause: how it comes about. remedy: what to do. is_warning: the conversion goes on."""

    meaning: str
    cause: str
    remedy: str
    is_warning: bool = False


@cache
def entries() -> dict[str, Entry]:
    """Every code, in the order of the page."""
    return entries_of((folder_of("docs") / "messages.md").read_text(encoding="utf-8"))


def entries_of(page: str) -> dict[str, Entry]:
    """The rows of the tables of a page."""
    return {
        code: Entry(meaning, cause, remedy, bool(mark)) for code, mark, meaning, cause, remedy in _ROW.findall(page)
    }


def hint(code: str) -> str:
    """The remedy as the end of a message: "try: ..."."""
    remedy = entries()[code].remedy.removesuffix(".")
    return remedy[0].lower() + remedy[1:] if remedy[1].islower() else remedy
