"""What palettes cost, and what others cost: python -m development.benchmarks.quantize COMMAND --help

Models are Keras files, Caffe definitions (with the .caffemodel beside them), ini files, or folders of these; a name of the zoo
is built first. Weights are those that the device stores, after batch norms are folded into them.
"""

from __future__ import annotations

import re
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request, preparation_of
from cnn_convertor.conversion.convert import convert
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.runs import Program, Weights
from cnn_convertor.devices.dv700.weights.palettes import count
from cnn_convertor.devices.half import to_half
from cnn_convertor.devices.settings import Quantization
from cnn_convertor.errors import ConvertorError, ConvertorWarning
from cnn_convertor.ir.constant import Constant
from cnn_convertor.pipeline import load, plan, quantize
from cnn_convertor.quantize import FREE, fit
from cnn_convertor.report.values import Report
from cnn_convertor.samples import random_samples, shapes_of
from examples import zoo

if TYPE_CHECKING:
    from cnn_convertor.devices.facts import Gain

KERAS = (".h5", ".hdf5", ".keras")
PROCESSES = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
ITERATIONS = 100  # of OpenCV's k-means
ROUNDING = 1e-9  # of sums in another order


# --- models --------------------------------------------------------------------------------------------------------------


def configs(models: Sequence[str], size: int | None, folder: Path) -> Iterator[tuple[str, Config]]:
    """A name and a configuration for each model. size: of the input, for networks that are built. folder: for what is built."""
    for number, model in enumerate(models):
        path = Path(model)
        if model in zoo.NETWORKS:
            path = zoo.build(model, folder, size=size)
        found = sorted(p for p in path.rglob("*") if p.suffix in (*KERAS, ".prototxt")) if path.is_dir() else [path]
        for definition in found:
            ini = definition if definition.suffix == ".ini" else write_ini(definition, folder / f"{number}.ini")
            config = Config.read(ini)
            name = model if model in zoo.NETWORKS else f"{definition.parent.name}/{definition.stem}"
            yield name, replace(config, output_folder=folder / "output")


def write_ini(definition: Path, ini: Path) -> Path:
    """An ini file for a model: its weights are in the only .caffemodel beside it, or in that of its name."""
    weights = sorted(definition.parent.glob("*.caffemodel"))
    data = next((w for w in weights if w.stem == definition.stem), weights[0]) if weights else definition
    lines = ["[INPUT]", "name = net", f'definition = "{definition.resolve()}"', f'data = "{data.resolve()}"']
    ini.write_text("\n".join([*lines, "[OUTPUT]", "output_folder = output", "generate_source = 1"]) + "\n")
    return ini


def programs(models: Sequence[str], folder: Path) -> Iterator[tuple[str, Program]]:
    """Every model that can be converted."""
    for name, config in configs(models, None, folder):
        with told_if_refused(name):
            yield name, plan(load(config), config.name, Dv700.of(config.hardware, config.settings))


@contextmanager
def told_if_refused(name: str) -> Iterator[None]:
    try:
        yield
    except ConvertorError as error:
        print(f"{name} is refused: {error.problems[0].code} {error.problems[0].message}")


# --- clustering ----------------------------------------------------------------------------------------------------------


class Fitted(NamedTuple):
    """error: squared, against the weights in FP32. seconds: of the processor, for all attempts."""

    error: float
    seconds: float
    attempts: int = 1


def fit_ours(kernels: Constant) -> Fitted:
    start = time.process_time()
    palette = fit(*count(kernels))
    seconds = time.process_time() - start
    weights = kernels.load()
    stored = palette.centers[palette.index[to_half(weights).view(np.uint16)]]
    return Fitted(float(np.sum((weights.astype(np.float64) - stored) ** 2)), seconds)


def fit_opencv(weights: NDArray[np.float32], attempts: int, budget: float) -> Fitted:
    """The best of several runs of OpenCV's k-means, as many as begin within the budget of seconds, and at least one."""
    criteria = (cv2.TERM_CRITERIA_MAX_ITER | cv2.TERM_CRITERIA_EPS, ITERATIONS, 0.0)
    start = time.process_time()
    errors: list[float] = []
    for seed in range(attempts):
        if errors and time.process_time() - start > budget:
            break
        cv2.setRNGSeed(seed)
        _, _, centers = cv2.kmeans(
            weights.reshape(-1, 1), min(FREE, weights.size), np.empty(0), criteria, 1, cv2.KMEANS_PP_CENTERS
        )
        errors.append(squared_error(weights, np.asarray(centers, np.float32)))
    return Fitted(min(errors), time.process_time() - start, len(errors))


def squared_error(weights: NDArray[np.float32], centers: NDArray[np.float32]) -> float:
    """Of weights that each have the nearest of the centers, as FP16 numbers, or 0.0: what the device can have of them."""
    entries = np.unique(np.append(centers.astype(np.float16), 0.0).astype(np.float64))
    values = weights.astype(np.float64).reshape(-1)
    return float(np.sum((values - entries[np.searchsorted((entries[:-1] + entries[1:]) / 2, values)]) ** 2))


def chosen_layers(program: Program, pattern: str, most: int) -> Iterator[tuple[str, Weights]]:
    for weights in program.weights:
        name = "" if weights.where is None else weights.where.layer
        if re.search(pattern, name) and weights.kernels.size <= most:
            yield name, weights


with_models = click.argument("models", nargs=-1, required=True)


@click.group(help=__doc__)
def main() -> None:
    warnings.simplefilter("ignore", ConvertorWarning)


@main.command()
@with_models
@click.option("--attempts", default=20, show_default=True, help="Runs of OpenCV's k-means, of which the best counts.")
@click.option(
    "--budget",
    default=60.0,
    show_default=True,
    help="Seconds of the processor that a layer is given: no further run begins after that.",
)
@click.option("--layers", default="", help="A regular expression: layers whose name it finds.")
@click.option("--most", default=1 << 62, help="Number of weights: larger layers are left out.")
def clustering(models: tuple[str, ...], attempts: int, budget: float, layers: str, most: int) -> None:
    """Squared error and time of each layer's palette beside OpenCV's k-means. Ends with 1 if ours is ever larger.

    The errors are those of the stored weights against the trained ones, in FP32. OpenCV's centers become FP16, as the device
    has them, and 0.0 is added.
    """
    print(f"{'weights':>9} {'values':>6} {'ours':>11} {'s':>6} {'OpenCV':>11} {'s':>7} {'runs':>4} {'more':>7}  layer")
    ratios: list[float] = []
    seconds = [0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        for model, program in programs(models, Path(folder)):
            for name, stored in chosen_layers(program, layers, most):
                ours, theirs = fit_ours(stored.kernels), fit_opencv(stored.kernels.load(), attempts, budget)
                ratios.append(ours.error / theirs.error if theirs.error else 1.0 if ours.error == 0 else np.inf)
                print(
                    f"{stored.kernels.size:9} {np.count_nonzero(count(stored.kernels)[0]):6} {ours.error:11.5g} "
                    f"{ours.seconds:6.3f} {theirs.error:11.5g} {theirs.seconds:7.2f} {theirs.attempts:4} "
                    f"{1 / ratios[-1] - 1:7.2%}  {model}: {name}",
                    flush=True,
                )
                seconds = [seconds[0] + ours.seconds, seconds[1] + theirs.seconds]
    larger = sum(ratio > 1 + ROUNDING for ratio in ratios)
    print(f"{len(ratios)} layers; seconds: ours {seconds[0]:.1f}, OpenCV {seconds[1]:.1f}; ours is larger in {larger}")
    sys.exit(1 if larger else 0)


# --- conversion ----------------------------------------------------------------------------------------------------------


@main.command()
@with_models
def conversion(models: tuple[str, ...]) -> None:
    """Seconds and memory of whole conversions with palettes: by the clock, of all processes' work, and the most of each.

    Memory is the most so far, over all models before.
    """
    print(f"{'seconds':>8} {'CPU':>6} {'MB':>5} {'workers':>7} {'FP16 bytes':>12} {'bytes':>12} {'least dB':>8}  model")
    with tempfile.TemporaryDirectory() as folder:
        for name, config in configs(models, None, Path(folder)):
            start, work = time.perf_counter(), cpu_seconds()
            report: Report | None = None
            with told_if_refused(name):
                report = convert(replace(config, quantization=Quantization.PALETTE)).report
            if report is None:
                continue
            seconds, work = time.perf_counter() - start, cpu_seconds() - work
            megabytes = [resource.getrusage(who).ru_maxrss / 1000 for who in PROCESSES]
            sizes = [sum(sizes) for sizes in zip(*((y.fp16_bytes, y.bytes) for y in report.weights), strict=True)]
            least = min(layer.sqnr for layer in report.weights if layer.sqnr is not None)
            print(
                f"{seconds:8.2f} {work:6.2f} {megabytes[0]:5.0f} {megabytes[1]:7.0f} {sizes[0]:12,} {sizes[1]:12,} "
                f"{least:8.1f}  {name}",
                flush=True,
            )


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, PROCESSES))


# --- calibration ---------------------------------------------------------------------------------------------------------


@main.command()
@with_models
@click.option("--samples", default=16, show_default=True, help="Random images to calibrate with.")
@click.option("--compared", default=16, show_default=True, help="Other random images, to compare.")
@click.option("--draws", default=1, show_default=True, help="How often all images are drawn; the figures are means.")
@click.option("--size", type=int, help="Height and width of the input of networks that are built.")
def calibration(models: tuple[str, ...], samples: int, compared: int, draws: int, size: int | None) -> None:
    """SQNR of the outputs, against FP16 weights, with palettes fitted to weights and to samples.

    The images that are compared are others than those that the palettes are calibrated with. What a softmax reads stands for
    its output. After +-: the standard deviation over the draws.
    """
    print("| network | output | plain palettes | calibrated | gain |\n|---|---|---|---|---|")
    gains = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model, config in configs(models, size, folder):
            drawn: dict[str, list[Gain]] = {}
            for seed in range(draws):
                for output in _calibrated(config, folder, samples, compared, seed):
                    drawn.setdefault(output.name, []).append(output)
            for output_name, each in drawn.items():
                before, after = (np.array(dB) for dB in zip(*((y.before, y.after) for y in each), strict=True))
                figures = "exact | exact |"
                if np.isfinite(before).all():
                    gains.append(float(np.mean(after - before)))
                    spread = f" +- {np.std(after, ddof=1):.1f}" if draws > 1 else ""
                    figures = f"{before.mean():.1f} dB | {after.mean():.1f}{spread} dB | {gains[-1]:+.1f} dB"
                print(f"| {model} | {output_name} | {figures} |", flush=True)
    if gains:
        print(f"| mean | | | | {np.mean(gains):+.1f} dB |")


def _calibrated(config: Config, folder: Path, samples: int, compared: int, seed: int) -> tuple[Gain, ...]:
    """What calibration with random images does to other ones."""
    from cnn_convertor.devices.dv700.fitting.calibration import compare_outputs

    graph = load(config)
    drawn = random_samples(shapes_of(graph), preparation_of(config), samples=samples + compared, seed=seed)
    np.savez(folder / "samples.npz", **{n: v[:samples] for n, v in drawn.inputs.items()})  # type: ignore[arg-type]
    others = replace(drawn, inputs={n: v[samples:] for n, v in drawn.inputs.items()})
    palettes = replace(config, quantization=Quantization.PALETTE)
    requests = map(Request.of, (config.in_fp16, palettes, replace(palettes, calibrate=folder / "samples.npz")))
    networks = [
        request.target.install_data(graph, quantize(graph, request).program, folder / f"{i}")
        for i, request in enumerate(requests)
    ]
    (improvements,) = compare_outputs(networks[0], networks[1:], others)
    return improvements


if __name__ == "__main__":
    main()
