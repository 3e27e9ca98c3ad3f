"""The commands that look at networks and run them on the PC: inspect, run, verify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from cnn_convertor.cli import tables
from cnn_convertor.cli.compiled_files import inspect_compiled, is_compiled, run_compiled
from cnn_convertor.cli.console import Console
from cnn_convertor.cli.entry import commands, save, with_console
from cnn_convertor.cli.shared_options import (
    COUNT,
    FILE,
    OUTPUT,
    Number,
    with_calibration,
    with_format,
    with_inputs,
    with_network,
    with_sources,
    with_workers,
)
from cnn_convertor.config import Config
from cnn_convertor.devices.registry import NAMES
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.workers.processes import HERE, Workers


@commands.command("inspect")
@click.argument("source", metavar="MODEL_OR_INI", type=FILE)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the inspection as JSON, a part of what report --json writes."
)
@click.option("--cost", is_flag=True, help="Show the estimated cost of each command.")
@click.option(
    "--fusion",
    type=click.Choice([*(level.value for level in Fusion), "all"]),
    help="Level of fusion, in place of the ini file's; `all` compares the levels. --device all compares devices.",
)
@with_network
@with_console
def inspect_network(
    console: Console,
    source: Path,
    as_json: bool,
    cost: bool,
    fusion: str | None,
    device: str | None,
    **options: Any,
) -> None:
    """Show layers, costs and problems of a network.

    Nothing is converted. The exit code is 1 when the network cannot be converted. Of a compiled network, MODEL.nvdla, it shows
    operations, surfaces, memories and weights.
    """
    if is_compiled(source):
        inspect_compiled(console, source, as_json, {"cost": cost, "fusion": fusion, "device": device, **options})
        return
    from cnn_convertor.conversion.inspection import compare, inspection_as_json, inspections_as_json

    devices = NAMES if device == "all" else (device,)
    levels = tuple(level.value for level in Fusion) if fusion == "all" else (fusion,)
    with console.working(source.name, "inspect"):
        comparison = compare(source, devices=devices, levels=levels, **options)
    results = [each.report for each in comparison]
    if as_json:
        console.json(inspections_as_json(results) if "all" in (device, fusion) else inspection_as_json(results[0]))
    elif "all" in (device, fusion):
        console.lines(tables.comparison(results))
    else:
        console.inspection(*comparison[0])
        if cost:
            console.lines(tables.costs(results[0]))
    if any(result.problems for result in results):
        console.fail()


@commands.command()
@click.argument("ini", metavar="MODEL_OR_INI", type=FILE)
@click.option(
    "--inputs",
    metavar="PATH",
    type=FILE,
    help="A .npz or .npy file, an image, or a folder of them. (required, unless a compiled network has no input)",
)
@click.option("-o", "--output", metavar="FILE.npz", type=OUTPUT, help="Save the outputs, each as (N, H, W, C).")
@click.option("--top", metavar="N", type=COUNT, default=5, show_default=True, help="Number of best classes to show.")
@click.option("--labels", metavar="FILE", type=FILE, help="Class names, one per line, or in JSON.")
@with_sources
@with_network
@with_format
@with_console
def run(
    console: Console,
    ini: Path,
    inputs: Path | None,
    output: Path | None,
    top: int,
    labels: Path | None,
    sources: tuple[Path, ...],
    **device: Any,
) -> None:
    """Run a network on the emulated device.

    The generated C++ is compiled for the PC. A compiled network, MODEL.nvdla, runs on the twin of --device (see docs/loadables.md).
    """
    from cnn_convertor.files.numpy_files import save_arrays
    from cnn_convertor.trials.labels import check_labels, read_labels
    from cnn_convertor.trials.run import run as run_network

    names = () if labels is None else read_labels(labels)
    if output is not None and output.suffix not in {"", ".npz"}:
        problem = "--output writes arrays, in a .npz file"
        hint = f"-o {output.with_suffix('.npz')}"
        raise UsageError.of("DV100", problem, Origin(str(output)), hint)
    if is_compiled(ini):
        others = {option: value for option, value in device.items() if option != "device"} | {"source": sources}
        results = run_compiled(console, ini, inputs, device["device"], others)
    elif inputs is None:
        raise UsageError.of("DV100", "Missing option '--inputs'.", hint="run --help")
    else:
        config = Config.of(ini, **device)
        with console.progress(config.name, verbose=config.verbose) as progress:
            results = run_network(config, inputs, sources=sources, overridden=any(device.values()), progress=progress)
    if labels is not None:
        check_labels(labels, names, results)
    if output is not None:
        save_arrays(output, results)
    for name, values in results.items():
        size = values.shape[1:]
        title = name if size[:2] == (1, 1) else f"{name}: {'x'.join(map(str, size))} (height x width x channels)"
        console.result(title, _shown(values, top, names))


def _shown(values: Any, top: int, labels: Sequence[str]) -> list[tuple[str, str]]:
    """(label, value) rows for one output, (N, H, W, C): the best classes of a vector, the range of a map."""
    rows = []
    for number, sample in enumerate(values + 0.0):  # -0 becomes 0
        prefix = f"sample {number}: " if len(values) > 1 else ""
        if sample.shape[:2] == (1, 1):
            scores = sample.reshape(-1)
            best = scores.argsort(kind="stable")[::-1][:top]
            rows += [(f"{prefix}{labels[i] if i < len(labels) else i}", f"{scores[i]:.6g}") for i in best]
        else:
            rows.append((f"{prefix}range", f"{sample.min():.6g} to {sample.max():.6g}"))
    return rows


@commands.command()
@click.argument("ini", metavar="MODEL_OR_INI", type=FILE)
@with_inputs
@click.option(
    "--labels",
    metavar="FILE",
    type=FILE,
    help="The right class of each sample, one number per line: shows the accuracy.",
)
@click.option("--layers", is_flag=True, help="Also compare the map of every layer.")
@click.option("--attribute", is_flag=True, help="Show the causes of each layer's error.")
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Show how much FP16 weights in each single layer improve the outputs, and calibration with random images.",
)
@click.option(
    "--min-sqnr", metavar="DB", type=Number(), help="Least SQNR of each output; by default 40, or 20 with palettes."
)
@click.option("--disk", is_flag=True, help="Verify the files of the output folder, in place of a new conversion.")
@click.option("--board", metavar="DIR", type=FILE, help="Compare the results of a kit on the board, with its inputs.")
@click.option(
    "--times",
    metavar="FILE",
    type=OUTPUT,
    help="With --board: put the times of CPU layers and changes into this board.json.",
)
@click.option("--json", "json_file", metavar="FILE", type=OUTPUT, help="Write the results as JSON.")
@with_calibration
@with_workers
@with_sources
@with_network
@with_format
@with_console
def verify(
    console: Console,
    ini: Path,
    board: Path | None,
    times: Path | None,
    calibrate: Path | None,
    json_file: Path | None,
    device: str | None,
    max_kernel_size: int | None,
    ub_size: int | None,
    no_custom_code: bool,
    on: Workers,
    **options: Any,
) -> None:
    """Compare a network with its framework.

    The network runs on the emulated device. The exit code is 1 unless every output is verified.
    """
    sizes = {"max_kernel_size": max_kernel_size, "ub_size": ub_size}
    config = Config.of(ini, calibrate=calibrate, device=device, no_custom_code=no_custom_code, **sizes)
    if board is not None:
        _verify_board(console, ini, config, board, times, json_file, on, options)
        return
    if times is not None:
        raise UsageError.of("DV100", "--times goes with --board alone", hint="`--board DIR` names the results of a kit")
    from cnn_convertor.trials.verify import verify

    with console.progress(config.name, verbose=config.verbose) as progress:
        overridden = any((calibrate, device, no_custom_code, *sizes.values()))
        result = verify(config, **options, overridden=overridden, progress=progress, on=on)
    save(json_file, result.to_json())
    console.verification(result, ini)


def _verify_board(
    console: Console,
    ini: Path,
    config: Config,
    board: Path,
    times: Path | None,
    json_file: Path | None,
    on: Workers,
    options: Mapping[str, Any],
) -> None:
    """Compare the results of a kit. options: of the command, most of which do not go with --board."""
    from cnn_convertor.board.board_comparison import verify_board
    from cnn_convertor.board.board_times import read_board_file, with_times
    from cnn_convertor.files.dependencies import unrecorded

    if on != HERE or any(options[name] for name in ("labels", "layers", "attribute", "sensitivity", "disk")):
        problem = (
            "--labels, --layers, --attribute, --sensitivity, --disk, --jobs and --scheduler do not go with --board, "
            "which compares all layers of a few samples"
        )
        raise UsageError.of("DV100", problem)
    if times is not None and not (times.suffix.lower() == ".json" and times.is_file()):
        raise UsageError.of("DV100", "--times takes a board.json, as a probe writes it", Origin(str(times)))
    with unrecorded():  # it is written again
        probed = None if times is None else read_board_file(times)
    with console.progress(config.name, verbose=config.verbose) as progress:
        kept = {name: options[name] for name in ("inputs", "min_sqnr", "sources")}
        verification = verify_board(config, board, **kept, progress=progress)
    save(json_file, verification.to_json())
    if probed is not None and verification.passed:
        save(times, with_times(probed, verification))
    console.board_verification(verification, ini)


@commands.command()
@click.argument("ini", metavar="NET.ini", type=FILE)
@click.option(
    "--vary", metavar="KEY=A,B,...", multiple=True, required=True, help="Values of a key to try; can be repeated."
)
@click.option("--verify", "verified", is_flag=True, help="Also compare each variant with its framework.")
@with_workers
@click.option("--html", "html_file", metavar="FILE", type=OUTPUT, help="Write the table as an HTML page.")
@click.option("--csv", "csv_file", metavar="FILE", type=OUTPUT, help="Write the table as CSV.")
@click.option("--json", "json_file", metavar="FILE", type=OUTPUT, help="Write the table as JSON.")
@with_calibration
@with_network
@with_console
def sweep(
    console: Console,
    ini: Path,
    vary: tuple[str, ...],
    verified: bool,
    on: Workers,
    html_file: Path | None,
    csv_file: Path | None,
    json_file: Path | None,
    **options: Any,
) -> None:
    """Compare combinations of settings.

    The table has time, memory and precision. No outputs are written.
    """
    from cnn_convertor.trials.sweep import sweep, variants

    chosen = variants(ini, vary, verified=verified, **options)
    with console.progress(ini.name) as progress:
        progress("variants", 0, len(chosen))
        result = sweep(chosen, on=on, finished=lambda done: progress("variants", done, len(chosen)))
    if html_file is not None:
        save(html_file, result.to_html())
    save(csv_file, result.to_csv())
    save(json_file, result.to_json())
    console.sweep(result)
