"""What palettes cost, and what others cost: python benchmarks/quantize.py COMMAND --help

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
from typing import NamedTuple

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from cnn_convertor.config import Config, Quantization
from cnn_convertor.convert import Report, convert, load, plan
from cnn_convertor.dv700.half import to_half
from cnn_convertor.dv700.program import Program, Weights
from cnn_convertor.errors import ConvertorError, ConvertorWarning
from cnn_convertor.quantize import FREE, fit, histogram
from cnn_convertor.verify.inputs import Preparation, random_samples, shapes_of
from examples import zoo

KERAS = (".h5", ".hdf5", ".keras")
ITERATIONS = 100  # of OpenCV's k-means
ROUNDING = 1e-9  # of sums in another order
Real = NDArray[np.float64]


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
            yield name, plan(load(config), config)


@contextmanager
def told_if_refused(name: str) -> Iterator[None]:
    try:
        yield
    except ConvertorError as error:
        print(f"{name} is refused: {error.problems[0].code} {error.problems[0].message}")


# --- clustering ----------------------------------------------------------------------------------------------------------


class Fitted(NamedTuple):
    """fp16, fp32: squared errors against the weights as FP16 and as they were. seconds: of all attempts."""

    fp16: float
    fp32: float
    seconds: float
    attempts: int = 1


def fit_ours(weights: NDArray[np.float32]) -> Fitted:
    start = time.perf_counter()
    palette = fit(histogram(to_half(weights)))
    seconds = time.perf_counter() - start
    return Fitted(*errors(weights, palette.centres[1:].astype(np.float64)), seconds)


def fit_opencv(weights: NDArray[np.float32], attempts: int, budget: float) -> Fitted:
    """The best of several runs of OpenCV's k-means, as many as begin within the budget of seconds, and at least one."""
    criteria = (cv2.TERM_CRITERIA_MAX_ITER | cv2.TERM_CRITERIA_EPS, ITERATIONS, 0.0)
    start = time.perf_counter()
    found: list[tuple[float, float]] = []
    for seed in range(attempts):
        if found and time.perf_counter() - start > budget:
            break
        cv2.setRNGSeed(seed)
        _, _, centres = cv2.kmeans(
            weights.reshape(-1, 1), min(FREE, weights.size), np.empty(0), criteria, 1, cv2.KMEANS_PP_CENTERS
        )
        found.append(errors(weights, centres.astype(np.float16).astype(np.float64).reshape(-1)))
    fp16, fp32 = (min(each) for each in zip(*found, strict=True))
    return Fitted(fp16, fp32, time.perf_counter() - start, len(found))


def errors(weights: NDArray[np.float32], centres: Real) -> tuple[float, float]:
    """Squared errors against the weights as FP16 and as they are, each with its nearest of the FP16 centres, or 0.0."""
    centres = np.unique(np.append(centres, 0.0))
    borders = (centres[:-1] + centres[1:]) / 2

    def error(values: Real) -> float:
        return float(np.sum((values - centres[np.searchsorted(borders, values)]) ** 2))

    return error(to_half(weights).astype(np.float64).reshape(-1)), error(weights.astype(np.float64).reshape(-1))


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
@click.option("--budget", default=60.0, show_default=True, help="Seconds a layer, after which no further run begins.")
@click.option("--layers", default="", help="A regular expression: layers whose name it finds.")
@click.option("--most", default=1 << 62, help="Number of weights: larger layers are left out.")
def clustering(models: tuple[str, ...], attempts: int, budget: float, layers: str, most: int) -> None:
    """Squared error and time of each layer's palette beside OpenCV's k-means. Ends with 1 if ours is ever larger.

    The error is that against the weights in FP16, which the device would have without a palette. A last line tells of the
    error against the weights in FP32 as well: there OpenCV, which sees them, may win where the rounding to FP16 costs as much
    as the palette, in layers with hardly more than 255 values.
    """
    print(f"{'weights':>9} {'values':>6} {'ours':>11} {'s':>6} {'OpenCV':>11} {'s':>7} {'runs':>4} {'more':>7}  layer")
    ratios: list[tuple[float, float]] = []
    seconds = [0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        for model, program in programs(models, Path(folder)):
            for name, stored in chosen_layers(program, layers, most):
                weights = stored.kernels.load()
                distinct = np.unique(to_half(weights)).size
                ours, theirs = fit_ours(weights), fit_opencv(weights, attempts, budget)
                more = theirs.fp16 / ours.fp16 - 1 if ours.fp16 else np.inf if theirs.fp16 else 0.0
                print(
                    f"{weights.size:9} {distinct:6} {ours.fp16:11.5g} {ours.seconds:6.3f} {theirs.fp16:11.5g} "
                    f"{theirs.seconds:7.2f} {theirs.attempts:4} {more:7.2%}  {model}: {name}",
                    flush=True,
                )
                seconds = [seconds[0] + ours.seconds, seconds[1] + theirs.seconds]
                ratios.append((ratio(ours.fp16, theirs.fp16), ratio(ours.fp32, theirs.fp32)))
    print(f"{len(ratios)} layers; seconds: ours {seconds[0]:.1f}, OpenCV {seconds[1]:.1f}")
    for what, of in zip(("FP16", "FP32"), zip(*ratios, strict=True), strict=True):
        larger = sum(r > 1 + ROUNDING for r in of)
        print(f"against the weights in {what}: ours is larger in {larger} layers; at most {max(of):.4f} times OpenCV's")
    sys.exit(0 if all(r <= 1 + ROUNDING for r, _ in ratios) else 1)


def ratio(ours: float, theirs: float) -> float:
    if theirs == 0:
        return 1.0 if ours == 0 else np.inf
    return ours / theirs


# --- conversion ----------------------------------------------------------------------------------------------------------


@main.command()
@with_models
def conversion(models: tuple[str, ...]) -> None:
    """Seconds and memory of whole conversions with palettes. Memory is the most so far, over all models before."""
    print(f"{'seconds':>8} {'MB':>6} {'workers':>8} {'FP16 bytes':>12} {'bytes':>12} {'least dB':>8}  model")
    with tempfile.TemporaryDirectory() as folder:
        for name, config in configs(models, None, Path(folder)):
            start = time.perf_counter()
            report: Report | None = None
            with told_if_refused(name):
                report = convert(replace(config, quantization=Quantization.PALETTE))
            if report is None:
                continue
            seconds = time.perf_counter() - start
            megabytes = [
                resource.getrusage(who).ru_maxrss / 1000 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
            ]
            sizes = [sum(sizes) for sizes in zip(*((y.fp16_bytes, y.nbytes) for y in report.weights), strict=True)]
            least = min(layer.sqnr for layer in report.weights if layer.sqnr is not None)
            print(
                f"{seconds:8.2f} {megabytes[0]:6.0f} {megabytes[1]:8.0f} {sizes[0]:12,} {sizes[1]:12,} {least:8.1f}  {name}",
                flush=True,
            )


# --- calibration ---------------------------------------------------------------------------------------------------------


@main.command()
@with_models
@click.option(
    "--samples", default=16, show_default=True, help="Random images to calibrate with, and as many to compare."
)
@click.option("--size", type=int, help="Height and width of the input of networks that are built.")
def calibration(models: tuple[str, ...], samples: int, size: int | None) -> None:
    """SQNR of the outputs, against FP16 weights, with palettes fitted to weights and to samples.

    The images that are compared are others than those that the palettes are calibrated with. What a softmax reads stands for
    its output.
    """
    from cnn_convertor.convert import convert_for_trial
    from cnn_convertor.verify import prepare
    from cnn_convertor.verify.calibration import compare_outputs

    print("| network | output | plain palettes | calibrated | gain |\n|---|---|---|---|---|")
    gains = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model, config in configs(models, size, folder):
            graph = load(config)
            drawn = random_samples(shapes_of(graph), Preparation.of(config), samples=2 * samples, seed=0)
            np.savez(folder / "samples.npz", **{n: v[:samples] for n, v in drawn.inputs.items()})  # type: ignore[arg-type]
            others = replace(drawn, inputs={n: v[samples:] for n, v in drawn.inputs.items()})
            palettes = replace(config, quantization=Quantization.PALETTE)
            made = [config.in_fp16, palettes, replace(palettes, calibrate=folder / "samples.npz")]
            plain, *pair = (prepare(c, convert_for_trial, folder / f"{i}") for i, c in enumerate(made))
            for output in compare_outputs(plain, (pair[0], pair[1]), others):
                gains.append(output.after - output.before)
                figures = f"{output.before:.1f} dB | {output.after:.1f} dB | {gains[-1]:+.1f} dB"
                print(f"| {model} | {output.name} | {figures} |", flush=True)
    print(f"| mean | | | | {np.mean(gains):+.1f} dB |")


if __name__ == "__main__":
    main()
