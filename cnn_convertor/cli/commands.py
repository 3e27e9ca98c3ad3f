"""The commands: their names, options and exit codes."""

from __future__ import annotations

import difflib
import io
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnn_convertor import __version__, dependencies
from cnn_convertor.cli import tables
from cnn_convertor.cli.console import DONE, INTERRUPTED, Console
from cnn_convertor.cli.parameters import Number, WholeNumber
from cnn_convertor.cli.tables import numbered
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.device_file import DEFAULT_DEVICE, NAMES, read_profile
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.limits import OF_BOARD
from cnn_convertor.errors import Origin, Problem, UsageError

if TYPE_CHECKING:
    from cnn_convertor.report import Report


class Commands(click.Group):
    """Commands, with `convert` as the default: `a.ini b.ini` means `convert a.ini b.ini`."""

    default = "convert"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            ctx.fail("expected a NET.ini or a command")
        own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        if args[0] not in {*own, *self.commands}:
            self._look_for_misspelling(ctx, *args[:1])
            self._look_for_a_late_command(ctx, args)
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def _look_for_misspelling(self, ctx: click.Context, word: str = "") -> None:
        """Reject a word that looks more like a command than like a file."""
        close = difflib.get_close_matches(word, self.commands)
        if close and not Path(word).suffix and not Path(word).exists():
            ctx.fail(f'there is no command "{word}"; did you mean "{close[0]}"?')

    def _look_for_a_late_command(self, ctx: click.Context, args: list[str]) -> None:
        """Reject options before a command: they belong to the command."""
        command = next((arg for arg in args[1:] if arg in self.commands and not Path(arg).exists()), None)
        if command is not None and args[0].startswith("-"):
            ctx.fail(f"options go after the command: {ctx.command_path} {command} ... {args[0]}")

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[convert] [OPTIONS] NET.ini...")

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
    def run(verbose: int, quiet: bool, strict: bool, **others: Any) -> int:
        if verbose and quiet:
            raise click.UsageError("use either -v or -q")
        console = Console(-1 if quiet else verbose, strict=strict)
        with console.attempt():
            command(console=console, **others)
        return console.code

    quiet = click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        help="Print the time of each step, how weights are stored and more; -vv: tracebacks too.",
    )
    strict = click.option("--strict", is_flag=True, help="Treat warnings, like unknown keys of an ini file, as errors.")
    return verbose(quiet(strict(run)))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cnn-convertor", message="%(prog)s %(version)s")
@click.option(
    "--cmake-dir",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, given: _print_cmake_folder(context) if given else None,
    help="Print the folder of the CMake package.",
)
def commands() -> None:
    """Turn trained Caffe, Keras and ONNX networks into C++ sources and packed weights for the DV700 accelerator."""


def _print_cmake_folder(context: click.Context) -> None:
    """It is inside the package of a wheel, and beside that of a checkout."""
    package = Path(__file__).parents[1]
    click.echo(next(place / "cmake" for place in (package, package.parent) if (place / "cmake").is_dir()))
    context.exit()


def with_device(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that describe the device."""
    name = click.option(
        "--device", metavar="NAME|FILE", help="The board (see docs/devices.md), in place of the ini file's."
    )
    kernel = click.option(
        "--max_kernel_size", metavar="N", type=int, help="Largest kernel size, in place of the device's."
    )
    buffer = click.option("--ub_size", metavar="BYTES", type=int, help="Unified buffer, in place of the device's.")
    return name(kernel(buffer(command)))


with_calibration = click.option(
    "--calibrate",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Fit palettes to sample inputs: a .npz or .npy file, an image, or a folder of them.",
)


@commands.command()
@click.argument("inis", metavar="NET.ini...", nargs=-1, required=True, type=click.Path(path_type=Path))
@with_calibration
@click.option(
    "--output-folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of the outputs, in place of the ini file's.",
)
@click.option(
    "--depfile",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the files that the outputs depend on, for Make and Ninja.",
)
@click.option(
    "--depfile-target",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="What depends on them, in place of the weights' file.",
)
@with_device
@with_console
def convert(
    console: Console,
    inis: tuple[Path, ...],
    calibrate: Path | None,
    output_folder: Path | None,
    depfile: Path | None,
    depfile_target: Path | None,
    **device: Any,
) -> None:
    """Convert networks; the default command."""
    if depfile is not None and len(inis) > 1:
        problem = "--depfile needs one NET.ini: each network depends on files of its own"
        raise UsageError.of("DV100", problem, Origin(str(depfile)), "convert the networks one after the other")
    configs: list[tuple[Path, Config]] = []
    written: list[Path] = []
    converted = 0
    with nullcontext(set[Path]()) if depfile is None else dependencies.recorded() as inputs:
        for ini in inis:
            with console.attempt():
                config = Config.read(ini, calibrate=calibrate, output_folder=output_folder, **device)
                _check_apart(config, ini, configs)
                configs.append((ini, config))
        for ini, config in configs:
            with console.attempt():
                report = _convert(config, console)
                console.conversion(config.name, f"{config.name} ({ini})", report, verbose=config.verbose)
                written += report.files
                converted += 1
    if depfile is not None and console.code == DONE:
        with console.attempt():
            from cnn_convertor.files import replace_all

            target = depfile_target or next(path for path in written if path.name.endswith("_weights.bin"))
            replace_all(depfile.parent, {depfile.name: dependencies.depfile(target, inputs, written[0].parent)})
    if len(inis) > 1 and converted < len(inis):
        console.note(f"{converted} of {len(inis)} networks converted")


def _convert(config: Config, console: Console) -> Report:
    # Imported here, so that --help stays fast.
    from cnn_convertor.pipeline import convert

    with console.progress(config.name, verbose=config.verbose) as progress:
        return convert(config, progress)


def _check_apart(config: Config, ini: Path, others: Sequence[tuple[Path, Config]]) -> None:
    """Reject a network that would overwrite another one's files."""
    for other, its in others:
        if (its.output_folder.resolve(), its.name) == (config.output_folder.resolve(), config.name):
            problem = f'[INPUT] name: the files of "{config.name}" would replace those of {other}'
            raise UsageError.of("DV114", problem, Origin(str(ini)), "use another name or another output_folder")


# --- on the emulated device ----------------------------------------------------------------------------------------------

FILE = click.Path(path_type=Path)
COUNT = WholeNumber(1)
with_sources = click.option(
    "--source",
    "sources",
    metavar="FILE.cpp",
    multiple=True,
    type=FILE,
    help="C++ file with the callbacks of custom layers; can be repeated.",
)


def with_inputs(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that choose samples."""
    paths = click.option(
        "--inputs", metavar="PATH", type=FILE, help="A .npz or .npy file, an image, or a folder of them."
    )
    count = click.option(
        "--samples",
        metavar="N",
        type=COUNT,
        default=4,
        show_default=True,
        help="Number of random images, without --inputs.",
    )
    seed = click.option(
        "--seed",
        metavar="N",
        type=WholeNumber(0),
        default=0,
        show_default=True,
        help="Seed of the random images.",
    )
    return paths(count(seed(command)))


OUT = click.option("--out", "folder", metavar="DIR", required=True, type=FILE, help="Folder to copy to the board.")


@commands.command()
@click.argument("ini", metavar="NET.ini", type=FILE)
@click.option("--input", "given", metavar="FILE", required=True, type=FILE, help="An image, a .npy or a .npz file.")
@click.option("--output", metavar="FILE.npz", type=FILE, help="Save the outputs, each as (N, H, W, C).")
@click.option("--top", metavar="N", type=COUNT, default=5, show_default=True, help="Number of best classes to show.")
@click.option("--labels", metavar="FILE", type=FILE, help="Class names, one a line.")
@with_sources
@with_device
@with_console
def run(
    console: Console,
    ini: Path,
    given: Path,
    output: Path | None,
    top: int,
    labels: Path | None,
    sources: tuple[Path, ...],
    **device: Any,
) -> None:
    """Run the generated C++ of a network on the emulated device."""
    from cnn_convertor import trials

    config = Config.read(ini, **device)
    names = () if labels is None else trials.read_labels(labels)
    results = trials.run(config, given, sources=sources)
    if labels is not None:
        trials.check_labels(labels, names, results)
    if output is not None:
        trials.save(output, results)
    for name, values in results.items():
        console.result(name, _shown(values, top, names))


def _shown(values: Any, top: int, labels: Sequence[str]) -> list[tuple[str, str]]:
    """(label, value) rows for one output, (N, H, W, C): the best classes of a vector, the range of a map."""
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
@with_inputs
@click.option(
    "--labels", metavar="FILE", type=FILE, help="The right class of each sample, a number a line: shows accuracy."
)
@click.option("--layers", is_flag=True, help="Compare every layer's map, too.")
@click.option("--attribute", is_flag=True, help="Show the causes of each layer's error.")
@click.option("--sensitivity", is_flag=True, help="Show what the outputs gain from FP16 weights in each layer alone.")
@click.option(
    "--min-sqnr", metavar="DB", type=Number(), help="Least SQNR of each output; 40 for FP16, 20 for palettes."
)
@click.option("--board", metavar="DIR", type=FILE, help="Compare the results of a kit on the board, with its inputs.")
@click.option("--json", "json_file", metavar="FILE", type=FILE, help="Write the results as JSON.")
@with_calibration
@with_sources
@with_device
@with_console
def verify(
    console: Console,
    ini: Path,
    board: Path | None,
    calibrate: Path | None,
    json_file: Path | None,
    device: str | None,
    max_kernel_size: int | None,
    ub_size: int | None,
    **options: Any,
) -> None:
    """Compare a network on the emulated device with its framework; the exit code is 1 unless every output is verified."""
    config = Config.read(ini, calibrate=calibrate, device=device, max_kernel_size=max_kernel_size, ub_size=ub_size)
    if board is None:
        from cnn_convertor.trials import verify

        result = verify(config, **options)
        _save_json(json_file, result.to_json())
        console.verification(result)
    else:
        from cnn_convertor.board.comparison import verify_board

        kept = {name: options.pop(name) for name in ("inputs", "min_sqnr", "sources")}
        if any(options.pop(name) for name in ("labels", "layers", "attribute", "sensitivity")):
            problem = (
                "--labels, --layers, --attribute and --sensitivity do not go with --board, which compares all layers"
            )
            raise UsageError.of("DV100", problem)
        found = verify_board(config, board, **kept)
        _save_json(json_file, found.to_json())
        console.board_verification(found)


def _save_json(path: Path | None, text: str) -> None:
    if path is not None:
        path.write_text(text, encoding="utf-8", newline="\n")


@commands.command()
@click.argument("ini", metavar="NET.ini", type=FILE)
@with_inputs
@OUT
@with_calibration
@with_sources
@with_device
@with_console
def kit(
    console: Console,
    ini: Path,
    inputs: Path | None,
    samples: int,
    seed: int,
    folder: Path,
    calibrate: Path | None,
    sources: tuple[Path, ...],
    **device: Any,
) -> None:
    """Write a folder with which a network runs on the board, for `verify --board`."""
    from cnn_convertor.board.kit import Inputs, write_kit

    config = Config.read(ini, calibrate=calibrate, **device)
    made = write_kit(config, folder, Inputs(inputs, samples, seed), sources=sources)
    console.note(f"{config.name} with {numbered(made.samples, 'sample')} in {folder}")


@commands.command()
@click.argument("source", metavar="NAME_gen.cpp", type=FILE)
@click.argument("weights", metavar="[NAME_weights.bin]", required=False, type=FILE)
@with_device
@with_console
def audit(console: Console, source: Path, weights: Path | None, device: str | None, **sizes: int | None) -> None:
    """Check a generated source and its weights, and list its commands."""
    from cnn_convertor.audit import audit
    from cnn_convertor.audit.rules import AuditedDevice

    limits = read_profile(device or DEFAULT_DEVICE, Path()).overridden(**sizes).limits
    result = audit(source, weights, AuditedDevice(**{name: getattr(limits, name) for name in OF_BOARD}))
    for finding in result.findings:
        console.find(finding)
    for note in result.notes:
        console.complain("warning", note)
    console.show(result.listing)
    console.show(f"{result.name}: {numbered(result.commands, 'command')}, {numbered(len(result.findings), 'finding')}")


@commands.command()
@click.argument("ini", metavar="NET.ini", type=FILE)
@click.option(
    "--target",
    metavar="NAME",
    required=True,
    help="nvdla-fp16, nvdla-int16, nvdla-int8 (each with :image,winograd,compressed or some of these), "
    "cldnn:FORMAT[,FORMAT...], bpu[:ALIGN], bpu:x3 or dv700.",
)
@click.option("--output", metavar="DIR", required=True, type=FILE, help="Folder of the surfaces and manifest.json.")
@click.option("--input", "given", metavar="FILE", type=FILE, help="Image or array to write as the input map.")
@click.option("--element", metavar="TYPE", help="For cldnn and bpu: float32, float16, int16 or int8.")
@click.option("--run", is_flag=True, help="Write the output maps of the emulated device, too.")
@with_sources
@with_device
@with_console
def export(
    console: Console,
    ini: Path,
    target: str,
    output: Path,
    given: Path | None,
    element: str | None,
    run: bool,
    sources: tuple[Path, ...],
    **device: Any,
) -> None:
    """Write a network's weights and maps in the memory formats of an accelerator."""
    from cnn_convertor.export import export

    config = Config.read(ini, **device)
    made = export(config, target, output, given=given, element=element, run=run, sources=sources)
    console.result(f"{config.name} for {target}", [*made.summary, ("manifest", str(made.files[-1]))])


@commands.command()
@OUT
@with_device
@with_console
def probe(console: Console, folder: Path, device: str | None, **sizes: int | None) -> None:
    """Write a program for the board that finds out which forms of commands work there."""
    from cnn_convertor.board.probe import write_probe

    profile = read_profile(device or DEFAULT_DEVICE, Path()).overridden(**sizes)
    console.note(f"{numbered(write_probe(folder, profile).commands, 'command')} in {folder}")


@commands.command("inspect")
@click.argument("source", metavar="MODEL_OR_INI", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the inspection as JSON.")
@click.option("--cost", is_flag=True, help="Show what each command costs, by a model.")
@click.option(
    "--fusion",
    type=click.Choice([*(level.value for level in Fusion), "all"]),
    help="Level of fusion, in place of the ini file's; all compares them. --device all compares devices.",
)
@with_device
@with_console
def inspect_network(
    console: Console,
    source: Path,
    as_json: bool,
    cost: bool,
    fusion: str | None,
    device: str | None,
    **sizes: int | None,
) -> None:
    """Look at a network (an .ini, .prototxt, .h5 or .keras) without converting it; the exit code is 1 when it cannot be converted."""
    from cnn_convertor.inspection import compare, inspections_as_json

    devices = NAMES if device == "all" else (device,)
    levels = tuple(level.value for level in Fusion) if fusion == "all" else (fusion,)
    results = compare(source, devices=devices, levels=levels, **sizes)
    if as_json:
        console.data(inspections_as_json(results) if "all" in (device, fusion) else results[0].to_json())
    elif "all" in (device, fusion):
        console.show("\n".join(tables.comparison(results)))
    else:
        console.inspection(results[0])
        if cost:
            console.show("\n".join(tables.costs(results[0])))
    for result in results:
        console.judge(result)


@commands.command("devices")
@click.argument("names", metavar="[NAME|FILE]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the devices as JSON.")
@with_console
def list_devices(console: Console, names: tuple[str, ...], as_json: bool) -> None:
    """List devices with their figures, and where each figure comes from."""
    profiles = [read_profile(name, Path()) for name in names or NAMES]
    if as_json:
        console.data(tables.devices_as_json(profiles))
    else:
        console.show("\n".join(tables.devices(profiles)))


# --- memory layouts ------------------------------------------------------------------------------------------------------


def _numbers(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Parse positive numbers separated by commas or x."""
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise click.BadParameter(f'"{text}" is not a shape like 1,3,224,224')
    return tuple(map(int, parts))


with_element = click.option("--element", metavar="TYPE", help="Type of the elements, like float16.")


@commands.group()
def layout() -> None:
    """Look at memory layouts of accelerators, and move arrays into and out of them."""


@layout.command("list")
@click.argument("family", metavar="[FAMILY]", required=False)
@with_console
def list_layouts(console: Console, family: str | None) -> None:
    """List the named layouts of all families, or of one (plain, dv700, nvdla, bpu or cldnn)."""
    from cnn_convertor.layouts.names import LAYOUTS
    from cnn_convertor.layouts.nvdla.pixels import FORMATS

    rows = [(kind, layout.name, str(layout)) for kind, layout in LAYOUTS.values()]
    rows += [("nvdla", name, f"pixels: {pixels}") for name, pixels in FORMATS.items()]
    rows = [row for row in rows if family in (None, row[0])]
    if not rows:
        families = ", ".join(dict.fromkeys(kind for kind, _ in LAYOUTS.values()))
        raise UsageError.of("DV841", f'no family of layouts is called "{family}"', hint=families)
    console.show("\n".join(f"{own:6} {name:46} {text}" for own, name, text in rows))


@layout.command("describe")
@click.argument("name", metavar="NAME")
@click.option(
    "--shape",
    metavar="N,N,...",
    callback=_numbers,
    required=True,
    help="Shape of the array, in the order of the layout's axes.",
)
@with_element
@click.option("--svg", "picture", metavar="FILE.svg", type=FILE, help="Draw the memory.")
@with_console
def describe_layout(
    console: Console, name: str, shape: tuple[int, ...], element: str | None, picture: Path | None
) -> None:
    """Show where elements lie in a layout: formula, size, first elements."""
    from cnn_convertor.files import replace_all
    from cnn_convertor.layouts.describe import describe, svg
    from cnn_convertor.layouts.names import layout_of

    given, kind = layout_of(name), _element(element)
    console.show(describe(given, shape, element=kind))
    if picture is not None:
        replace_all(picture.parent, {picture.name: svg(given, shape, element=kind)})


def _element(name: str | None) -> Any:
    from cnn_convertor.layouts.text import element_of

    if name is not None and element_of(name) is None:
        raise UsageError.of("DV841", f'no element type is called "{name}"', hint="int8, int16, float16, float32")
    return None if name is None else element_of(name)


def _moves(name: str, text: str, **plain: str) -> None:
    """Add a command that reads a file in one layout and writes it in another. plain: the side with a default, and which."""

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
        "--shape", metavar="N,N,...", callback=_numbers, help="Shape of the input, in the order of its layout's axes."
    )
    @with_element
    @click.argument("source", metavar="IN", type=FILE)
    @click.argument("target", metavar="OUT", type=FILE)
    @with_console
    def move(
        given: str, to: str, shape: tuple[int, ...] | None, element: str | None, source: Path, target: Path, **_: Any
    ) -> None:
        from cnn_convertor.files import replace_all
        from cnn_convertor.layouts import files

        before, after = files.form_of(given), files.form_of(to)
        array = files.rearranged(files.read(source, before, shape or (), _element(element)), before, after)
        replace_all(target.parent, {target.name: (files.contents(target, array, after),)})


_moves("pack", "Pack an array, IN.npy, into memory, OUT.bin.", given="NCHW")
_moves("unpack", "Unpack memory, IN.bin, into an array, OUT.npy, of the given --shape and --element.", to="NCHW")
_moves(
    "convert",
    "Move an array from one layout into another; .npy files hold arrays, others memory.",
    given="NCHW",
)


@commands.command()
@click.argument("table", metavar="FILE.csv", type=FILE)
@click.option("--capacity", metavar="N", type=WholeNumber(0), help="Exit with 1 when more than N is needed.")
@click.option("--alignment", metavar="N", type=COUNT, default=1, show_default=True, help="Offsets are multiples of N.")
@click.option(
    "--nodes",
    metavar="N",
    type=WholeNumber(0),
    default=1_000_000,
    show_default=True,
    help="Limit of the search, in nodes.",
)
@click.option(
    "--output", metavar="OUT.csv", type=FILE, help="File for the table with offsets, in place of standard output."
)
@with_console
def plan(console: Console, table: Path, capacity: int | None, alignment: int, nodes: int, output: Path | None) -> None:
    """Find offsets for a table of buffers: id,lower,upper,size (half-open live ranges)."""
    from cnn_convertor import files
    from cnn_convertor.memory import planning
    from cnn_convertor.memory import table as tables

    buffers = tables.load(table)
    made = planning.plan(buffers, alignment=alignment, nodes=nodes, enough=capacity or 0)
    text = tables.write(buffers, made.offsets)
    if output is None:
        console.show(text)
    else:
        files.replace_all(output.parent, {output.name: text})
    console.note(f"{table}: {len(buffers)} buffers in {made}")
    if capacity is not None and made.size > capacity:
        reason = f"{made.size:,} is the smallest plan found, {capacity:,} is the capacity"
        hint = "no plan is smaller" if made.proven else "use a larger --nodes"
        if made.lower_bound > capacity:
            hint = f"use a capacity of at least {made.lower_bound:,}: no plan is smaller"
        console.find(Problem("DV120", reason, Origin(str(table)), hint))


def _program(script: str) -> str:
    """How to call the program that was started as a script of this name."""
    if script == "__main__.py":
        return "python -m cnn_convertor"
    return f"python {script}" if script.endswith(".py") else script


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 done, 1 a network cannot be converted, 2 usage or ini file."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    program = _program(Path(sys.argv[0]).name)
    try:
        return int(commands.main(arguments, prog_name=program, standalone_mode=False) or DONE)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        help_of = context.command_path if context else program
        Console(0).complain("error", Problem("DV100", error.format_message(), hint=f"{help_of} --help"))
        return error.exit_code
    except click.Abort:
        Console(0).note("interrupted")
        return INTERRUPTED
