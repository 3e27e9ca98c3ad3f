"""The command line: what each command is called, what it takes and with which code it ends."""

from __future__ import annotations

import difflib
import io
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnn_convertor import __version__
from cnn_convertor.cli.console import DONE, INTERRUPTED, Terminal
from cnn_convertor.config import MAX_KERNEL_SIZE, UB_SIZE, Config
from cnn_convertor.errors import Origin, Problem, UsageError

if TYPE_CHECKING:
    from cnn_convertor.report import Report


class Commands(click.Group):
    """Commands, of which `convert` need not be named: `a.ini b.ini` means `convert a.ini b.ini`."""

    default = "convert"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            ctx.fail("no NET.ini is named, and no command")
        own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        if args[0] not in {*own, *self.commands}:
            self._look_for_misspelling(ctx, *args[:1])
            self._look_for_a_late_command(ctx, args)
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def _look_for_misspelling(self, ctx: click.Context, word: str = "") -> None:
        """Refuse what looks more like a command than like a file."""
        close = difflib.get_close_matches(word, self.commands)
        if close and not Path(word).suffix and not Path(word).exists():
            ctx.fail(f'there is no command "{word}"; did you mean "{close[0]}"?')

    def _look_for_a_late_command(self, ctx: click.Context, args: list[str]) -> None:
        """Refuse options before a command: they are the command's."""
        command = next((arg for arg in args[1:] if arg in self.commands and not Path(arg).exists()), None)
        if command is not None and args[0].startswith("-"):
            ctx.fail(f"options come behind the command: {ctx.command_path} {command} ... {args[0]}")

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
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        help="Say how long each step takes, how weights are stored and more; -vv: tracebacks too.",
    )
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


with_calibration = click.option(
    "--calibrate",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Fit palettes to sample inputs: a .npz or .npy file, an image, or a folder of them.",
)


@commands.command()
@click.argument("inis", metavar="NET.ini...", nargs=-1, required=True, type=click.Path(path_type=Path))
@with_calibration
@with_device
@with_verbosity
def convert(
    terminal: Terminal, inis: tuple[Path, ...], calibrate: Path | None, max_kernel_size: int, ub_size: int
) -> int:
    """Convert networks: what to do without a command."""
    configs: list[tuple[Path, Config]] = []
    for ini in inis:
        with terminal.attempt():
            config = Config.read(ini, max_kernel_size=max_kernel_size, ub_size=ub_size, calibrate=calibrate)
            _check_apart(config, ini, configs)
            configs.append((ini, config))
    converted = 0
    for ini, config in configs:
        with terminal.attempt():
            report = _convert(config, terminal)
            files = [("files", str(path)) for path in report.files]
            if report.calibration is not None:
                terminal.calibration(config.name, report.calibration, verbose=config.verbose)
            terminal.weights(config.name, report.weights, verbose=config.verbose)
            terminal.result(f"{config.name} ({ini})", [*report.summary, *files], report.details, verbose=config.verbose)
            converted += 1
    if len(inis) > 1 and converted < len(inis):
        terminal.note(f"{converted} of {len(inis)} networks are converted")
    return terminal.code


def _convert(config: Config, terminal: Terminal) -> Report:
    # Only now: what converts takes longer to import than --help may take.
    from cnn_convertor.pipeline import convert

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
        from cnn_convertor import trials

        config = Config.read(ini, **device)
        names = () if labels is None else trials.read_labels(labels)
        results = trials.run(config, given, sources=sources)
        if output is not None:
            trials.save(output, results)
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
@with_calibration
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
    calibrate: Path | None,
    sources: tuple[Path, ...],
    **device: int,
) -> int:
    """Compare a network on the emulated device with its framework; ends with 1 when an output differs too much."""
    with terminal.attempt():
        from cnn_convertor.trials import verify

        config = Config.read(ini, **device, calibrate=calibrate)
        result = verify(
            config,
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
        for note in result.notes:
            terminal.complain("warning", note)
        terminal.show(result.listing)
        terminal.show(f"{result.name}: {result.commands} commands, {len(result.findings)} findings")
    return terminal.code


@commands.command()
@click.argument("ini", metavar="NET.ini", type=FILE)
@click.option(
    "--target",
    metavar="NAME",
    required=True,
    help="nvdla-fp16, nvdla-int16, nvdla-int8 (each with :image,winograd,compressed or some of these), "
    "cldnn:FORMAT[,FORMAT...], bpu[:ALIGN], bpu:x3 or dv700.",
)
@click.option("--output", metavar="DIR", required=True, type=FILE, help="Where the surfaces and manifest.json go.")
@click.option("--input", "given", metavar="FILE", type=FILE, help="Write this image or array, too, as the input map.")
@click.option("--element", metavar="TYPE", help="For cldnn and bpu: float32, float16, int16 or int8.")
@click.option("--run", is_flag=True, help="Write the output maps, too, as the emulated device gives them.")
@with_sources
@with_device
@with_verbosity
def export(
    terminal: Terminal,
    ini: Path,
    target: str,
    output: Path,
    given: Path | None,
    element: str | None,
    run: bool,
    sources: tuple[Path, ...],
    **device: int,
) -> int:
    """Write a network's weights and maps in the memory formats of an accelerator."""
    with terminal.attempt():
        from cnn_convertor.export import export

        config = Config.read(ini, **device)
        made = export(config, target, output, given=given, element=element, run=run, sources=sources)
        terminal.result(f"{config.name} for {target}", [*made.summary, ("manifest", str(made.files[-1]))])
    return terminal.code


@commands.command("inspect")
@click.argument("source", metavar="MODEL_OR_INI", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the inspection as JSON.")
@with_device
@with_verbosity
def inspect_network(terminal: Terminal, source: Path, as_json: bool, **device: int) -> int:
    """Look at a network (an .ini, .prototxt, .h5 or .keras) without converting it; ends with 1 when it cannot be."""
    with terminal.attempt():
        from cnn_convertor.inspection import inspect

        result = inspect(source, **device)
        if as_json:
            terminal.data(result.to_json())
        else:
            terminal.inspection(result)
        terminal.judge(result)
    return terminal.code


# --- memory layouts ------------------------------------------------------------------------------------------------------


def _numbers(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Numbers above 0 with commas or x between them."""
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise click.BadParameter(f'"{text}" is no shape, like 1,3,224,224')
    return tuple(map(int, parts))


with_element = click.option("--element", metavar="TYPE", help="Type of the elements, like float16.")


@commands.group()
def layout() -> None:
    """Look at memory layouts of accelerators, and move arrays into and out of them."""


@layout.command("list")
@click.argument("family", metavar="[FAMILY]", required=False)
@with_verbosity
def list_layouts(terminal: Terminal, family: str | None) -> int:
    """List the layouts that have names: of all families, or of one (plain, dv700, nvdla, bpu or cldnn)."""
    with terminal.attempt():
        from cnn_convertor.layouts.names import ENTRIES
        from cnn_convertor.layouts.nvdla.pixels import FORMATS

        rows = [(entry.family, entry.name, str(entry.make())) for entry in ENTRIES.values()]
        rows += [("nvdla", name, f"pixels: {pixels}") for name, pixels in FORMATS.items()]
        rows = [row for row in rows if family in (None, row[0])]
        if not rows:
            families = ", ".join(dict.fromkeys(entry.family for entry in ENTRIES.values()))
            raise UsageError(Problem("DV841", f'no family of layouts is called "{family}"', hint=families))
        terminal.show("\n".join(f"{own:6} {name:46} {text}" for own, name, text in rows))
    return terminal.code


@layout.command("describe")
@click.argument("name", metavar="NAME")
@click.option(
    "--shape",
    metavar="N,N,...",
    callback=_numbers,
    required=True,
    help="Of the array, in the order of the layout's axes.",
)
@with_element
@click.option("--svg", "picture", metavar="FILE.svg", type=FILE, help="Draw the memory.")
@with_verbosity
def describe_layout(
    terminal: Terminal, name: str, shape: tuple[int, ...], element: str | None, picture: Path | None
) -> int:
    """Say where elements lie in a layout: formula, size, first elements."""
    with terminal.attempt():
        from cnn_convertor.files import replace_all
        from cnn_convertor.layouts.describe import describe, svg
        from cnn_convertor.layouts.names import layout_of

        given, kind = layout_of(name), _element(element)
        terminal.show(describe(given, shape, element=kind))
        if picture is not None:
            replace_all(picture.parent, {picture.name: svg(given, shape, element=kind)})
    return terminal.code


def _element(name: str | None) -> Any:
    from cnn_convertor.layouts.text import element_of

    if name is not None and element_of(name) is None:
        raise UsageError(Problem("DV841", f'no element type is called "{name}"', hint="int8, int16, float16, float32"))
    return None if name is None else element_of(name)


def _rearrange(
    terminal: Terminal,
    given: str,
    to: str,
    shape: tuple[int, ...] | None,
    element: str | None,
    source: Path,
    target: Path,
) -> int:
    with terminal.attempt():
        from cnn_convertor.files import replace_all
        from cnn_convertor.layouts import files

        before, after = files.form_of(given), files.form_of(to)
        array = files.rearranged(files.read(source, before, shape or (), _element(element)), before, after)
        replace_all(target.parent, {target.name: (files.contents(target, array, after),)})
    return terminal.code


def _moves(name: str, text: str, **plain: str) -> None:
    """A command that reads a file in one layout and writes one in another. plain: which of both need not be named."""

    def which(option: str, side: str, help_text: str) -> Callable[..., Any]:
        default = plain.get(side)
        return click.option(
            option,
            side,
            metavar="NAME",
            help=help_text,
            required=default is None,
            default=default,
            show_default=default is not None,
        )

    @layout.command(name, help=text)
    @which("--from", "given", "The layout of the input.")
    @which("--to", "to", "The layout of the output.")
    @click.option(
        "--shape", metavar="N,N,...", callback=_numbers, help="Of the input, in the order of its layout's axes."
    )
    @with_element
    @click.argument("source", metavar="IN", type=FILE)
    @click.argument("target", metavar="OUT", type=FILE)
    @with_verbosity
    def move(terminal: Terminal, **arguments: Any) -> int:
        return _rearrange(terminal, **arguments)


_moves("pack", "Pack an array, IN.npy, into memory, OUT.bin.", given="NCHW")
_moves("unpack", "Unpack memory, IN.bin, into an array, OUT.npy; --shape and --element say what it holds.", to="NCHW")
_moves(
    "convert",
    "Move an array from one layout into another; files that end in .npy hold arrays, others memory.",
    given="NCHW",
)


@commands.command()
@click.argument("table", metavar="FILE.csv", type=FILE)
@click.option("--capacity", metavar="N", type=click.IntRange(0), help="End with 1 when more than N is needed.")
@click.option("--alignment", metavar="N", type=COUNT, default=1, show_default=True, help="Offsets are multiples of N.")
@click.option(
    "--nodes", metavar="N", type=click.IntRange(0), default=1_000_000, show_default=True, help="Limit of the search."
)
@click.option(
    "--output", metavar="OUT.csv", type=FILE, help="Where the table with offsets goes, instead of the screen."
)
@with_verbosity
def plan(terminal: Terminal, table: Path, capacity: int | None, alignment: int, nodes: int, output: Path | None) -> int:
    """Find offsets for buffers that come as a table: id,lower,upper,size (half-open lives)."""
    with terminal.attempt():
        from cnn_convertor import files
        from cnn_convertor.memory import planning
        from cnn_convertor.memory import table as tables

        buffers = tables.load(table)
        made = planning.plan(buffers, alignment=alignment, nodes=nodes, enough=capacity or 0)
        text = tables.write(buffers, made.offsets)
        if output is None:
            terminal.show(text)
        else:
            files.replace_all(output.parent, {output.name: text})
        terminal.note(f"{table}: {len(buffers)} buffers in {made}")
        if capacity is not None and made.size > capacity:
            reason = f"{made.size:,} is the smallest plan found, {capacity:,} is the capacity"
            hint = "no plan is smaller" if made.proven else "a larger --nodes"
            if made.lower_bound > capacity:
                hint = f"a capacity of {made.lower_bound:,} or more: no plan is below that"
            terminal.find(Problem("DV120", reason, Origin(str(table)), hint))
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
        Terminal(0).note("interrupted")
        return INTERRUPTED
