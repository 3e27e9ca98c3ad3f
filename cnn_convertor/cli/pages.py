"""The command that shows the documentation."""

from __future__ import annotations

import click

from cnn_convertor import pages
from cnn_convertor.cli.console import Console
from cnn_convertor.cli.program import commands, with_console


@commands.command()
@click.argument("topic", required=False, metavar="[PAGE|CODE]")
@with_console
def docs(topic: str | None, console: Console) -> None:
    """Show a page of the documentation, or the cause and remedy of a code such as DV101.

    Without an argument, list the pages.
    """
    if topic is None:
        console.result("pages", list(pages.names().items()))
    else:
        console.markdown(pages.text_of(topic))
