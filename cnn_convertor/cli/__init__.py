"""The command line; the only room that prints or exits."""

from cnn_convertor.cli import checks as checks
from cnn_convertor.cli.commands import commands as commands
from cnn_convertor.cli.commands import main as main
