"""Compares what a network costs in ONNX with what it costs in the form of Caffe or Keras.

python -m development.benchmarks.onnx_forms [NAMES]. Keras's networks need tf2onnx, which the extras do not install.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import click

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.pipeline import build, load
from cnn_convertor.report.collecting import report_of
from development.benchmarks.networks_page import Table, keep
from examples import zoo

CHECKOUT: Final = Path(__file__).resolve().parents[2]
CAFFE: Final = tuple(
    name for name in zoo.NETWORKS if name.startswith("caffe_") and name.replace("caffe_", "onnx_") in zoo.NETWORKS
)
KERAS: Final = tuple(name for name in zoo.NETWORKS if name.startswith("keras_"))
OPSET: Final = 17
SMALLEST: Final = 64  # of Keras's inputs: tf2onnx writes maps of one pixel in many ways


class Cost(NamedTuple):
    """traffic: bytes of maps and weights that all commands move, for one image."""

    commands: int
    cpu_layers: int
    traffic: int

    @classmethod
    def of(cls, ini: Path) -> Cost:
        config = Config.read(ini)
        report = report_of(build(load(config), config), Request.of(config))
        return cls(len(report.commands), len(report.on_cpu), report.traffic)

    def is_at_most(self, other: Cost) -> bool:
        return all(mine <= its for mine, its in zip(self, other, strict=True))


def costs(name: str, folder: Path) -> tuple[Cost, Cost]:
    """Of the form with this name, and of the ONNX form."""
    network = zoo.NETWORKS[name]
    if isinstance(network, zoo.Keras):
        ini = zoo.build(name, folder, size=max(network.smallest, SMALLEST))
        return Cost.of(ini), Cost.of(_exported(Config.read(ini).definition, folder))
    onnx_name = name.replace("caffe_", "onnx_")
    twin = zoo.NETWORKS[onnx_name]
    assert isinstance(twin, zoo.Onnx)
    ini, onnx_ini = (zoo.build(form, folder, size=twin.smallest) for form in (name, onnx_name))
    return Cost.of(ini), Cost.of(onnx_ini)


def _exported(model: Path, folder: Path) -> Path:
    """The ini file of a Keras model's export."""
    import keras
    import tensorflow as tf
    import tf2onnx

    network = keras.models.load_model(model, compile=False)
    image = tf.TensorSpec((1, *network.input_shape[1:]), tf.float32, name="image")
    function = tf.function(lambda image: network(image, training=False), input_signature=[image])
    path = folder / "exported.onnx"
    tf2onnx.convert.from_function(
        function, input_signature=[image], opset=OPSET, inputs_as_nchw=["image"], output_path=str(path)
    )
    ini = folder / "exported.ini"
    zoo.write_ini(ini, "exported", f"definition = {path.name}")
    return ini


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*CAFFE, *KERAS]), metavar="[NAMES]...")
@click.option("--one", is_flag=True, hidden=True, help="Compare one network here.")
def main(names: tuple[str, ...], one: bool) -> None:
    """Compare networks in two forms, each in a process of its own. Ends with 1 where ONNX costs more."""
    if one:
        with tempfile.TemporaryDirectory() as folder:
            other, onnx = costs(names[0], Path(folder))
        figures = " | ".join(f"{its} | {mine}" for its, mine in zip(other[:2], onnx[:2], strict=True))
        line = f"| {names[0]} | {figures} |"
        keep(Table.FORMS, {names[0]: line})
        click.echo(line)
        sys.exit(not onnx.is_at_most(other))
    command = [sys.executable, "-m", "development.benchmarks.onnx_forms", "--one"]
    codes = [
        subprocess.run([*command, name], cwd=CHECKOUT, check=False).returncode for name in names or (*CAFFE, *KERAS)
    ]
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
