"""The program: its commands, the options of every command, and exit codes."""

from __future__ import annotations

import io
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from cnn_convertor import __version__
from cnn_convertor.cli import problems
from cnn_convertor.cli.console import DONE, ENDED, FAILED, Console, called
from cnn_convertor.cli.shared_options import outputs_apart
from cnn_convertor.cli.spellings import EARLIER_COMMANDS, current
from cnn_convertor.errors import Problem, did_you_mean
from cnn_convertor.files.dependencies import inputs_kept
from cnn_convertor.files.interruption import Ended
from cnn_convertor.files.package_files import folder_of
from cnn_convertor.workers.outcomes import Outcome, problems_of

_WORDS = {"help": "--help", "version": "--version"}  # words that others write for options


class OptionsGivenOnce(click.Command):
    """A command whose options with one value are given once."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, parameters = self.make_parser(ctx).parse_args(list(args))  # each as often as it stands there
        for option, count in Counter(parameters).items():
            if (
                count > 1
                and isinstance(option, click.Option)
                and not (option.multiple or option.is_flag or option.count)
            ):
                ctx.fail(f"{option.opts[-1]} is given {count} times, and takes one value")
        return super().parse_args(ctx, args)


class CommandsOfSubject(click.Group):
    """The commands of one subject, such as `cache`."""

    command_class = OptionsGivenOnce

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            ctx.fail(f"expected a command: {', '.join(sorted(self.commands))}")
        return super().parse_args(ctx, args)


class Commands(click.Group):
    """Commands, with `convert` as the default: `a.ini b.ini` means `convert a.ini b.ini`."""

    default = "convert"
    command_class = OptionsGivenOnce
    group_class = CommandsOfSubject

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        known = {*own, *self.commands, *EARLIER_COMMANDS}
        if ctx.resilient_parsing:  # a shell completes a line that is not whole yet
            return super().parse_args(ctx, args if not args or args[0] in known else [self.default, *args])
        if not args:
            ctx.fail("expected a NET.ini, a model or a command")
        if args[0] in _WORDS and not Path(args[0]).exists():
            args = [*args[1:], _WORDS[args[0]]]
        if args[0] not in known:
            self._look_for_misspelling(ctx, *args[:1])
            self._look_for_a_late_command(ctx, args)
            args = [self.default, *args]
        return super().parse_args(ctx, self._renamed(args))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The first word is a command, an option of the default command, or a file for it."""
        command = self.commands[self.default]
        completions = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            return [*command.shell_complete(click.Context(command, ctx), incomplete), *completions]
        return completions or [CompletionItem(incomplete, type="file")]

    def _renamed(self, args: list[str]) -> list[str]:
        """The arguments with the names of now; notes say what was renamed."""
        command_line = current(args)
        is_quiet = {"-q", "--quiet"}.intersection(args) or problems.requested_format(args) in problems.DOCUMENTS
        for note in command_line.notes:
            Console(-1 if is_quiet else 0).note(note)
        return command_line.arguments

    def _look_for_misspelling(self, ctx: click.Context, word: str = "") -> None:
        """Reject a word that looks more like a command than like a file."""
        nearest = did_you_mean(word, self.commands)
        if nearest and not Path(word).suffix and not Path(word).exists():
            ctx.fail(f'there is no command "{word}"{nearest}')

    def _look_for_a_late_command(self, ctx: click.Context, args: list[str]) -> None:
        """Reject options before a command: they belong to the command."""
        known = {*self.commands, *EARLIER_COMMANDS}
        command = next((arg for arg in args[1:] if arg in known and not Path(arg).exists()), None)
        if command is not None and args[0].startswith("-"):
            ctx.fail(f"options go after the command: {ctx.command_path} {command} ... {args[0]}")

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[convert] [OPTIONS] MODEL_OR_INI...")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of the default command and of the program, then the commands."""
        parameters = (*self.commands[self.default].params, *self.get_params(ctx))
        with formatter.section("Options"):
            formatter.write_dl(
                [row for p in parameters if isinstance(p, click.Option) and (row := p.get_help_record(ctx))]
            )
        self.format_commands(ctx, formatter)


def with_console(command: Callable[..., None]) -> Callable[..., int]:
    """Add the options of every command, pass them on as a Console, which prints errors, and return its exit code."""

    @wraps(command)
    def run(verbose: int, quiet: bool, strict: bool, form: str = problems.TEXT, **others: Any) -> int:
        if verbose and quiet:
            raise click.UsageError("use either -v or -q")
        written = outputs_apart(click.get_current_context())
        console = Console(-1 if quiet or form in problems.DOCUMENTS else verbose, strict=strict, form=form)
        with console.attempt(), console.notes(), inputs_kept(*written):
            _check(written)
            command(console=console, **others)
        console.close()
        return console.code

    quiet = click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        help="Print more, such as the time of each step and how weights are stored; -vv adds tracebacks.",
    )
    strict = click.option("--strict", is_flag=True, help="Treat warnings, like unknown keys of an ini file, as errors.")
    return verbose(quiet(strict(run)))


def _check(paths: Sequence[Path]) -> None:
    """Raises UsageError, before the work, for a file that cannot be written after it."""
    if paths:
        from cnn_convertor.files import replacing

        for path in paths:
            replacing.check_file(path)


def save(path: Path | None, text: str) -> None:
    """Write a file that an option names, if it names one."""
    if path is not None:
        from cnn_convertor.files import replacing

        replacing.write(path, text)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cnn-convertor", message="%(prog)s %(version)s")
@click.option(
    "--cmake-dir",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, value: _print_cmake_folder(context) if value else None,
    help="Print the folder of the CMake package.",
)
def commands() -> None:
    """Turn trained Caffe, Keras and ONNX networks into C++ sources and packed weights for the DV700 accelerator."""


def _words(arguments: Sequence[str]) -> Iterator[str]:
    """The words of the command that arguments begin with."""
    command: click.Command = commands
    for word in arguments:
        if not isinstance(command, click.Group) or word not in command.commands:
            return
        command = command.commands[word]
        yield word


def _hint_of_key(error: click.ClickException) -> str:
    """Where to write an option that is a key of the ini file; nothing for others."""
    if not isinstance(error, click.NoSuchOption):
        return ""
    from cnn_convertor.config import KEYS

    name = error.option_name.lstrip("-").replace("-", "_")
    section = next((key.section for key in KEYS if key.name == name), None)
    return f"write it into [{section}] of the ini file: {name} = ...; `init MODEL` makes one" if section else ""


def _print_cmake_folder(context: click.Context) -> None:
    click.echo(folder_of("cmake"))
    context.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 done, 1 a network cannot be converted, 2 usage or ini file."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    program = called()
    try:
        return int(commands.main(arguments, prog_name=program, standalone_mode=False) or DONE)
    except click.ClickException as error:
        help_of = " ".join([program, *_words(sys.argv[1:] if arguments is None else arguments)])
        console = Console(0, form=problems.requested_format(sys.argv[1:] if arguments is None else arguments))
        hint = _hint_of_key(error) or f"{help_of} --help"
        console.complain("error", Problem("DV100", error.format_message(), hint=hint))
        console.close()
        return error.exit_code
    except OSError as error:  # help cannot be written; commands have their own
        Console(0).judge_outcome(Outcome(problems=problems_of(error)))
        return FAILED
    except click.Abort as abort:
        by = abort.__cause__.signal if isinstance(abort.__cause__, Ended) else signal.SIGINT
        Console(0).note("interrupted" if by == signal.SIGINT else f"ended by {by.name}")
        return ENDED + by
