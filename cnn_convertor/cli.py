"""The command line: the only module that prints, and that ends the program."""

from __future__ import annotations

import difflib
import io
import math
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnn_convertor import __version__
from cnn_convertor.config import MAX_KERNEL_SIZE, UB_SIZE, Config
from cnn_convertor.errors import ConvertorError, ConvertorWarning, Origin, Problem, UsageError

if TYPE_CHECKING:
    from cnn_convertor.convert import Progress, Report
    from cnn_convertor.verify import Comparison, Verification

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130
DEBUG = "CNN_CONVERTOR_DEBUG"
LARGEST_HALF = 65504.0

# Model files name their layers as they like; what would steer a terminal is shown as an escape.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in b"\n\t"}


class Terminal:
    """Says things to the user: results on standard output, everything else on standard error.

    level: -1 quiet, 0 normal, 1 with the time of each step, 2 with tracebacks.
    code: what the program is to end with, the worst of what was said.
    """

    def __init__(self, level: int) -> None:
        self.code = DONE
        self._level = level
        self._debugging = level > 1 or os.environ.get(DEBUG, "0") != "0"

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Do something; what it warns of and how it fails is said, and does not leave the block."""
        failure: Exception | None = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvertorWarning)
            try:
                yield
            except BrokenPipeError:  # nobody listens any more
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, no traceback reaches a user
                failure = error
        # The same warning comes once, however many places see its reason.
        for problem in dict.fromkeys(w.message.problem for w in caught if isinstance(w.message, ConvertorWarning)):
            self.complain("warning", problem)
        for other in caught:
            if self._debugging and not isinstance(other.message, ConvertorWarning):
                _print(warnings.formatwarning(other.message, other.category, other.filename, other.lineno), err=True)
        if failure is not None:
            self._fail(failure)

    def _fail(self, error: Exception) -> None:
        if self._debugging:
            _print("".join(traceback.format_exception(error)), err=True)
        for problem in _problems(error):
            self.complain("error", problem)
        self.code = max(self.code, MISUSED if isinstance(error, UsageError) else FAILED)

    def complain(self, kind: str, problem: Problem) -> None:
        colour = {"error": "red", "warning": "yellow"}[kind]
        _print(f"{click.style(kind, fg=colour, bold=True)} {_tame(str(problem))}", err=True)

    def find(self, problem: Problem) -> None:
        """Tell what is wrong with something that was checked; the program ends with 1."""
        self.complain("error", problem)
        self.code = max(self.code, FAILED)

    def show(self, text: str) -> None:
        """A result that is a text already."""
        if self._level >= 0:
            _print(_tame(text.rstrip("\n")))

    def note(self, text: str) -> None:
        if self._level >= 0:
            _print(_tame(text), err=True)

    def result(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        """A title and a table of (label, value); a label that comes again is not repeated."""
        if self._level < 0:
            return
        width = max((len(label) for label, _ in rows), default=0)
        lines, before = [title], None
        for label, value in rows:
            lines.append(f"  {'' if label == before else label:{width}}  {value}")
            before = label
        _print(_tame("\n".join(lines)))

    def verification(self, result: Verification) -> None:
        """Show a verification; one that failed ends the program with 1, and says where to look."""
        weights = "palette weights" if result.palette else "FP16 weights"
        samples = f"{result.samples} sample{'s' * (result.samples != 1)}"
        title = f"{result.network} against {result.framework}, {weights}: {samples} ({result.inputs})"
        tables = [_table("output", [_cells(output) for output in result.outputs], _MEASURES)]
        if result.layers:
            causes = tuple(dict.fromkeys(c.cause for layer in result.layers for c in layer.causes))
            measures = (*_MEASURES, *(f"{cause.value} alone" for cause in causes))
            rows = [
                [f"{layer.comparison.name} ({layer.type})", *_cells(layer.comparison)[1:]]
                + [_decibels(c.sqnr) for c in layer.causes]
                for layer in result.layers
            ]
            tables.append(_table("layer", rows, measures))
        lines = [title, *(f"  {line}" for table in tables for line in (*table, ""))]
        jump = "" if result.first_jump is None else f'; the error jumps at the layer "{result.first_jump}"'
        if result.passed:
            lines.append(f"pass: every output has {result.min_sqnr:g} dB or more{jump}")
        else:
            self.code = max(self.code, FAILED)
            bad = ", ".join(f'"{o.name}"' for o in result.outputs if o.sqnr < result.min_sqnr)
            lines.append(f"fail: {bad} below {result.min_sqnr:g} dB{jump}")
        if self._level >= 0 or not result.passed:
            _print(_tame("\n".join(lines)))

    @contextmanager
    def progress(self, title: str, *, verbose: bool) -> Iterator[Progress]:
        """Show how far the work on `title` is: a bar on a terminal, a line for each step elsewhere."""
        timed = verbose or self._level > 0
        if self._level < 0:
            yield lambda *_: None
        elif timed or not _draws(sys.stderr):
            steps = _Steps(lambda text: _print(_tame(f"{title}: {text}"), err=True), timed=timed)
            yield steps
            steps.end()
        else:
            with _bar(title) as bar:
                yield bar


class _Steps:
    """Progress as lines: each step when it begins, or when it ends, with its time."""

    def __init__(self, say: Callable[[str], None], *, timed: bool) -> None:
        self._say = say
        self._timed = timed
        self._step = ""
        self._start = 0.0

    def __call__(self, step: str, *_: int) -> None:
        if step != self._step:
            self.end()
            self._step, self._start = step, time.perf_counter()
            if not self._timed:
                self._say(step)

    def end(self) -> None:
        if self._timed and self._step:
            self._say(f"{self._step} took {time.perf_counter() - self._start:.2f} s")


@contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(step: str, done: int, total: int) -> None:
            bar.update(task, description=f"{title}: {step}", completed=done, total=total if total > 1 else None)

        yield show


_MEASURES = ("SQNR dB", "cosine", "max error", "mean error", "top-1", "largest")


def _cells(comparison: Comparison) -> list[str]:
    """One line of a verification; a magnitude beyond FP16's is marked."""
    c = comparison
    top1 = "" if c.top1 is None else f"{c.top1:.1%}"
    largest = f"{c.largest:.4g}{' > 65504' * (c.largest > LARGEST_HALF)}"
    return [c.name, _decibels(c.sqnr), f"{c.cosine:.7f}", f"{c.max_error:.2g}", f"{c.mean_error:.2g}", top1, largest]


def _decibels(ratio: float) -> str:
    return {math.inf: "exact", -math.inf: "none"}.get(ratio, f"{ratio:.1f}")


def _table(first: str, rows: Sequence[Sequence[str]], measures: Sequence[str]) -> list[str]:
    """Lines of aligned columns, under their titles; the first is aligned left."""
    lines = [[first, *measures], *([*row, *[""] * (1 + len(measures) - len(row))] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in lines
    ]


def _draws(stream: Any) -> bool:
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def _print(text: str, *, err: bool = False) -> None:
    click.echo(text, err=err, color=False if os.environ.get("NO_COLOR") else None)


def _tame(text: str) -> str:
    return text.translate(_CONTROLS)


def _problems(error: Exception) -> tuple[Problem, ...]:
    """What to tell the user of an exception."""
    match error:
        case ConvertorError():
            return error.problems
        case OSError(errno=int(), filename=name):
            return (Problem("DV113", f"the system says: {error.strerror}", Origin(str(name)) if name else None),)
        case _:
            hint = f"report this, please, with the ini file and what {DEBUG}=1 in the environment shows"
            message = f"internal error, {type(error).__name__}: {error} ({_culprit(error)})"
            return (Problem("DV000", message, hint=hint),)


def _culprit(error: Exception) -> str:
    """The last line of this package that an exception came through, as file:line."""
    package = Path(__file__).parent
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(package)]
    return f"{Path(ours[-1].filename).relative_to(package.parent).as_posix()}:{ours[-1].lineno}"


class Commands(click.Group):
    """Commands, of which `convert` need not be named: `a.ini b.ini` means `convert a.ini b.ini`."""

    default = "convert"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        if not args or args[0] not in {*own, *self.commands}:
            self._look_for_misspelling(ctx, *args[:1])
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def _look_for_misspelling(self, ctx: click.Context, word: str = "") -> None:
        """Refuse what looks more like a command than like a file."""
        close = difflib.get_close_matches(word, self.commands)
        if close and not Path(word).suffix and not Path(word).exists():
            ctx.fail(f'there is no command "{word}"; did you mean "{close[0]}"?')

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[convert] [OPTIONS] NET.ini...")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The default command's options beside the program's own, then the commands."""
        parameters = (*self.commands[self.default].params, *self.get_params(ctx))
        with formatter.section("Options"):
            formatter.write_dl(
                [row for p in parameters if isinstance(p, click.Option) and (row := p.get_help_record(ctx))]
            )
        self.format_commands(ctx, formatter)


def with_verbosity(command: Callable[..., int]) -> Callable[..., int]:
    """Options that every command has: -v and -q, handed over as a Terminal."""

    @wraps(command)
    def run(verbose: int, quiet: bool, **others: Any) -> int:
        if verbose and quiet:
            raise click.UsageError("-v and -q exclude each other")
        return command(terminal=Terminal(-1 if quiet else verbose), **others)

    quiet = click.option("-q", "--quiet", is_flag=True, help="Say nothing but warnings and errors.")
    verbose = click.option("-v", "--verbose", count=True, help="Say how long each step takes; -vv: tracebacks too.")
    return verbose(quiet(run))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cnn-convertor", message="%(prog)s %(version)s")
def commands() -> None:
    """Turn trained Caffe and Keras networks into C++ sources and packed weights for the DV700 accelerator."""


def with_device(command: Callable[..., int]) -> Callable[..., int]:
    """Options that say what the device is like."""
    kernel = click.option(
        "--max_kernel_size",
        metavar="N",
        default=MAX_KERNEL_SIZE,
        show_default=True,
        help="Largest kernel of the device.",
    )
    buffer = click.option(
        "--ub_size", metavar="BYTES", default=UB_SIZE, show_default=True, help="Size of the device's unified buffer."
    )
    return kernel(buffer(command))


@commands.command()
@click.argument("inis", metavar="NET.ini...", nargs=-1, required=True, type=click.Path(path_type=Path))
@with_device
@with_verbosity
def convert(terminal: Terminal, inis: tuple[Path, ...], max_kernel_size: int, ub_size: int) -> int:
    """Convert networks: what to do without a command."""
    configs: list[tuple[Path, Config]] = []
    for ini in inis:
        with terminal.attempt():
            config = Config.read(ini, max_kernel_size=max_kernel_size, ub_size=ub_size)
            _check_apart(config, ini, configs)
            configs.append((ini, config))
    converted = 0
    for ini, config in configs:
        with terminal.attempt():
            report = _convert(config, terminal)
            files = [("files", str(path)) for path in report.files]
            terminal.result(f"{config.name} ({ini})", [*report.summary, *files])
            converted += 1
    if len(inis) > 1 and converted < len(inis):
        terminal.note(f"{converted} of {len(inis)} networks are converted")
    return terminal.code


def _convert(config: Config, terminal: Terminal) -> Report:
    # Only now: what converts takes longer to import than --help may take.
    from cnn_convertor.convert import convert

    with terminal.progress(config.name, verbose=config.verbose) as progress:
        return convert(config, progress)


def _check_apart(config: Config, ini: Path, others: Sequence[tuple[Path, Config]]) -> None:
    """Refuse a network that would overwrite another one's files."""
    for other, its in others:
        if (its.output_folder.resolve(), its.name) == (config.output_folder.resolve(), config.name):
            problem = f'[INPUT] name: the files of "{config.name}" would replace those of {other}'
            raise UsageError(Problem("DV114", problem, Origin(str(ini)), "another name or another output_folder"))


# --- on the emulated device ----------------------------------------------------------------------------------------------

FILE = click.Path(path_type=Path)
COUNT = click.IntRange(1)
with_sources = click.option(
    "--source",
    "sources",
    metavar="FILE.cpp",
    multiple=True,
    type=FILE,
    help="C++ file with the callbacks of custom layers; may be given several times.",
)


@commands.command()
@click.argument("ini", metavar="NET.ini", type=FILE)
@click.option("--input", "given", metavar="FILE", required=True, type=FILE, help="An image, a .npy or a .npz file.")
@click.option("--output", metavar="FILE.npz", type=FILE, help="Save the outputs, each as (N, H, W, C).")
@click.option(
    "--top", metavar="N", type=COUNT, default=5, show_default=True, help="How many of the best classes to show."
)
@click.option("--labels", metavar="FILE", type=FILE, help="Names of the classes, one a line.")
@with_sources
@with_device
@with_verbosity
def run(
    terminal: Terminal,
    ini: Path,
    given: Path,
    output: Path | None,
    top: int,
    labels: Path | None,
    sources: tuple[Path, ...],
    **device: int,
) -> int:
    """Run a network on this PC: the generated C++ on the emulated device."""
    with terminal.attempt():
        from cnn_convertor import verify as on_pc
        from cnn_convertor.convert import convert_for_trial

        config = Config.read(ini, **device)
        names = () if labels is None else tuple(labels.read_text(encoding="utf-8").splitlines())
        results = on_pc.run_network(config, convert_for_trial, given, sources=sources)
        if output is not None:
            on_pc.save(output, results)
        for name, values in results.items():
            terminal.result(name, _shown(values, top, names))
    return terminal.code


def _shown(values: Any, top: int, labels: Sequence[str]) -> list[tuple[str, str]]:
    """(label, value) rows for one output, (N, H, W, C): the best classes of a vector, the extent of a map."""
    rows = []
    for number, sample in enumerate(values):
        prefix = f"sample {number}: " if len(values) > 1 else ""
        if sample.shape[:2] == (1, 1):
            scores = sample.reshape(-1)
            best = scores.argsort(kind="stable")[::-1][:top]
            rows += [(f"{prefix}{labels[i] if i < len(labels) else i}", f"{scores[i]:.6g}") for i in best]
        else:
            size = "x".join(map(str, sample.shape))
            rows.append((f"{prefix}map {size}", f"{sample.min():.6g} to {sample.max():.6g}"))
    return rows


@commands.command()
@click.argument("ini", metavar="NET.ini", type=FILE)
@click.option("--inputs", metavar="PATH", type=FILE, help="A .npz or .npy file, an image, or a folder of them.")
@click.option(
    "--samples",
    metavar="N",
    type=COUNT,
    default=4,
    show_default=True,
    help="Number of random images, without --inputs.",
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="What the random images follow from.",
)
@click.option("--layers", is_flag=True, help="Compare every map that exists on both sides.")
@click.option("--attribute", is_flag=True, help="Find out what each layer's error comes from.")
@click.option("--min-sqnr", metavar="DB", type=float, help="What each output must reach: 40 for FP16, 20 for palettes.")
@click.option("--json", "json_file", metavar="FILE", type=FILE, help="Write the results as JSON.")
@with_sources
@with_device
@with_verbosity
def verify(
    terminal: Terminal,
    ini: Path,
    inputs: Path | None,
    samples: int,
    seed: int,
    layers: bool,
    attribute: bool,
    min_sqnr: float | None,
    json_file: Path | None,
    sources: tuple[Path, ...],
    **device: int,
) -> int:
    """Compare a network on the emulated device with its framework; ends with 1 when an output differs too much."""
    with terminal.attempt():
        from cnn_convertor.convert import convert_for_trial
        from cnn_convertor.verify import verify

        config = Config.read(ini, **device)
        result = verify(
            config,
            convert_for_trial,
            inputs=inputs,
            samples=samples,
            seed=seed,
            layers=layers,
            attribute=attribute,
            min_sqnr=min_sqnr,
            sources=sources,
        )
        if json_file is not None:
            json_file.write_text(result.to_json(), encoding="utf-8", newline="\n")
        terminal.verification(result)
    return terminal.code


@commands.command()
@click.argument("source", metavar="NAME_gen.cpp", type=FILE)
@click.argument("weights", metavar="[NAME_weights.bin]", required=False, type=FILE)
@with_device
@with_verbosity
def audit(terminal: Terminal, source: Path, weights: Path | None, **device: int) -> int:
    """Check a generated source and its weights, whoever made them, and list its commands."""
    with terminal.attempt():
        from cnn_convertor.audit import audit

        result = audit(source, weights, **device)
        for finding in result.findings:
            terminal.find(finding)
        terminal.show(result.listing)
        terminal.show(f"{result.name}: {result.commands} commands, {len(result.findings)} findings")
    return terminal.code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 done, 1 a network cannot be converted, 2 usage or ini file."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        return int(commands.main(arguments, standalone_mode=False) or DONE)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        help_of = context.command_path if context else "convertor.py"
        Terminal(0).complain("error", Problem("DV100", error.format_message(), hint=f"{help_of} --help"))
        return error.exit_code
    except click.Abort:
        _print("interrupted", err=True)
        return INTERRUPTED
