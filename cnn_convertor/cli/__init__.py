"""The command line; the only room that prints or exits."""

# ruff: noqa: I001  # in the order of docs/commands.md
from cnn_convertor.cli.entry import commands as commands
from cnn_convertor.cli.entry import main as main
from cnn_convertor.cli import conversions as conversions
from cnn_convertor.cli import trials as trials
from cnn_convertor.cli import reports as reports
from cnn_convertor.cli import boards as boards
from cnn_convertor.cli import layouts as layouts
from cnn_convertor.cli import pages as pages
from cnn_convertor.cli import examples as examples

examples.attach(commands)
