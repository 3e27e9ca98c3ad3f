"""Verifies the light_* networks of the onnx package: well-known architectures, given random weights.

python -m development.benchmarks.onnx_light [NAMES]
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.pipeline import build, load
from cnn_convertor.report.collecting import report_of
from cnn_convertor.trials.verify import verify
from development.benchmarks.networks_page import Table, keep

FOLDER: Final = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES: Final = tuple(sorted(path.stem for path in FOLDER.glob("light_*.onnx")))
SEED: Final = 0
MEAN, VARIANCE = 3, 4  # inputs of a batch normalization


def with_random_weights(model: Any) -> Any:
    """The model with random weights instead of constant ones, and the batch statistics of a random image."""
    made = {node.output[0]: node for node in model.graph.node if node.op_type == "ConstantOfShape"}
    shapes = {array.name: array for array in model.graph.initializer}
    (image,) = (info for info in model.graph.input if info.name not in shapes)
    users = dict(_users(model))
    random = np.random.default_rng(SEED)
    for name, node in made.items():
        shape = tuple(int(n) for n in numpy_helper.to_array(shapes[node.input[0]]))
        model.graph.initializer.append(numpy_helper.from_array(_values(random, *users[name], shape), name))
        model.graph.initializer.remove(shapes[node.input[0]])
    kept = [node for node in model.graph.node if node.output[0] not in made]
    del model.graph.node[:], model.graph.input[:]
    model.graph.node.extend(kept)
    model.graph.input.append(image)
    model.ir_version = 8  # older models name all arrays as inputs, too
    return _with_statistics(model, random)


def _with_statistics(model: Any, random: np.random.Generator) -> Any:
    """The model, whose batch normalizations have the mean and variance of their inputs for a random image."""
    norms = {node.output[0]: node for node in model.graph.node if node.op_type == "BatchNormalization"}
    measuring = onnx.ModelProto()
    measuring.CopyFrom(model)
    del measuring.graph.node[:], measuring.graph.output[:]
    for node in model.graph.node:
        measuring.graph.node.extend([*_measuring(node), node] if node.output[0] in norms else [node])
    names = [node.input[at] for node in norms.values() for at in (MEAN, VARIANCE)]
    stored = {array.name: array for array in measuring.graph.initializer}
    for name in names:
        measuring.graph.initializer.remove(stored[name])
        measuring.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    (image,) = model.graph.input
    shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
    session = onnxruntime.InferenceSession(measuring.SerializeToString(), providers=["CPUExecutionProvider"])
    values = session.run(names, {image.name: random.uniform(-1, 1, shape).astype(np.float32)}) if names else []
    found = dict(zip(names, values, strict=True))
    for array in model.graph.initializer:
        if array.name in found:
            array.CopyFrom(numpy_helper.from_array(found[array.name], array.name))
    return model


def _measuring(norm: Any) -> list[Any]:
    """Nodes that compute the mean and the variance of a batch normalization's input."""
    x, y, make = norm.input[0], norm.output[0], helper.make_node
    return [
        make("ReduceMean", [x], [norm.input[MEAN]], axes=[0, 2, 3], keepdims=0),
        make("ReduceMean", [x], [f"{y}/mean"], axes=[0, 2, 3]),
        make("Sub", [x, f"{y}/mean"], [f"{y}/centered"]),
        make("Mul", [f"{y}/centered", f"{y}/centered"], [f"{y}/squares"]),
        make("ReduceMean", [f"{y}/squares"], [norm.input[VARIANCE]], axes=[0, 2, 3], keepdims=0),
    ]


def _users(model: Any) -> Iterator[tuple[str, tuple[str, int]]]:
    """Constant -> the type of the node that reads it, directly or with more axes, and the input's position."""
    alias = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "Unsqueeze"}
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            yield alias.get(name, name), (node.op_type, position)


def _values(random: np.random.Generator, type: str, position: int, shape: Sequence[int]) -> NDArray[np.float32]:
    match type, position:
        case "Conv" | "Gemm", 1:
            inputs = math.prod(shape[1:])
            return random.standard_normal(shape, np.float32) * np.float32(math.sqrt(2 / inputs))
        case ("BatchNormalization", 1) | ("Mul", _):
            return random.uniform(0.5, 1.5, shape).astype(np.float32)
        case _:
            return random.standard_normal(shape, np.float32) * np.float32(0.05)


def write(name: str, folder: Path) -> Path:
    """A network with random weights and its net.ini, whose path it gives."""
    onnx.save(with_random_weights(onnx.load(FOLDER / f"{name}.onnx")), folder / f"{name}.onnx")
    ini = folder / "net.ini"
    ini.write_text(
        f"[INPUT]\nname = {name}\ndefinition = {name}.onnx\n[OUTPUT]\noutput_folder = output\nquantization = 0\n"
    )
    return ini


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="[NAMES]...")
def main(names: tuple[str, ...]) -> None:
    """Convert light_* networks, compare every layer with onnxruntime, and keep docs/networks.md. Ends with 1 below 40 dB."""
    failed = False
    for name in names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            config = Config.read(write(name, Path(folder)))
            graph = load(config)
            report = report_of(build(graph, config), Request.of(config))
            result = verify(config, graph=graph, samples=1, layers=True)
            lowest = min(row.comparison.sqnr for row in result.layers)
            sqnr = min(output.sqnr for output in result.outputs)
        figures = (
            f"{len(report.commands)} | {len(report.on_cpu)} | {sqnr:.1f} dB | {len(result.layers)} | {lowest:.1f} dB"
        )
        line = f"| {name} | {figures} |"
        keep(Table.LIGHT, {name: line})
        click.echo(line)
        failed |= bool(result.failed)
    sys.exit(failed)


if __name__ == "__main__":
    main()
