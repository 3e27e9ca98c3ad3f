"""The command that shows pages of the documentation, and the entries of codes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from cnn_convertor.cli.console import Console
from cnn_convertor.cli.entry import commands, with_console
from cnn_convertor.errors import UsageError, near_names
from cnn_convertor.files.codes import entries
from cnn_convertor.files.package_files import folder_of

_CODE = re.compile(r"DV\d{3}", re.IGNORECASE)


def names() -> dict[str, str]:
    """Page -> its title. Pages about internals come last."""
    return {name: _title(path.read_text(encoding="utf-8")) for name, path in _files().items()}


def text_of(topic: str) -> str:
    """A page, or the entry of a code such as DV101, as Markdown. topic: in upper or lower case.

    Raises UsageError if there is neither.
    """
    if _CODE.fullmatch(topic):
        if entry := entries().get(topic.upper()):
            mark = " (warning)" * entry.is_warning
            return f"# {topic.upper()}{mark}: {entry.meaning}\n\n{entry.cause}\n\n**Remedy:** {entry.remedy}\n"
        raise UsageError.of("DV100", f"there is no code {topic.upper()}", hint="`docs messages` shows all codes")
    known = names()
    page = topic.lower().removeprefix("docs/").removeprefix("internals/").removesuffix(".md")
    if page in known:
        return _page(page)
    near = near_names(page, known)
    hint = f"`docs {near[0]}`" if near else "`docs` without an argument lists the pages"
    raise UsageError.of("DV100", f'there is no page "{topic}"', hint=hint)


def _page(name: str) -> str:
    return _files()[name].read_text(encoding="utf-8")


def _files() -> dict[str, Path]:
    folder = folder_of("docs")
    files: dict[str, Path] = {}
    for part in (*["ja"] * _is_japanese(), ".", "internals"):
        for path in sorted((folder / part).glob("*.md")):
            files.setdefault(path.stem, path)
    return files


def _is_japanese() -> bool:
    """Whether the locale asks for messages in Japanese."""
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next(filter(None, names), "").startswith("ja")


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


@commands.command()
@click.argument("topic", required=False, metavar="[PAGE|CODE]")
@with_console
def docs(topic: str | None, console: Console) -> None:
    """Show a page, or what a code means.

    A code such as DV101 has a cause and a remedy. Without an argument, list the pages of the documentation.
    """
    if topic is None:
        console.result("pages", list(names().items()))
    else:
        console.markdown(text_of(topic))
