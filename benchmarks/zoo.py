"""Converts the networks of examples/zoo.py, compares each with its framework, and keeps docs/zoo.md: python -m benchmarks.zoo [NAMES]

Without names all of Keras's networks are run, each in a process of its own, with the smallest input that it allows (Caffe's,
when they are named, with their own size). The rows of the others stay as they are. Ends with 1 when a network fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click

from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.program import LayerType
from cnn_convertor.errors import ConvertorError
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Conv2d, ConvTranspose2d, Dense
from cnn_convertor.pipeline import build, load
from cnn_convertor.trials import verify
from examples import zoo

CHECKOUT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = CHECKOUT / "docs" / "zoo.md"
HEAD: Final = """# Networks that convert

Well-known architectures, built by `examples/zoo.py` with seeded random weights, converted with FP16 weights, run on the
emulated device, and compared with their framework on {samples} random images. From a checkout with the extra `verify`,

```text
python -m benchmarks.zoo                  # makes the rows of all of Keras's networks anew
python -m benchmarks.zoo caffe_resnet50   # makes those of the networks that are named
```

write this page; rows of other networks stay as they are. Caffe's networks are made by name only: they have their own sizes,
and OpenCV, which they are compared with, needs long for the large ones.

Keras's networks have the smallest input that they allow, which leaves most layers a few pixels: whole networks are tried
out, not how fast they are. *Commands* are those of the device; *CPU layers* are what generated C++ does beside it (the
softmax at the end and joins in place are not counted). *MACs* are multiplications with a weight for one image, in millions.
*SQNR* is that of the worst output; {least:.0f} dB are asked for. SegNet unpools by the device's maxima, which are compared themselves
([verify](verify.md)).

| network | input | commands | CPU layers | MACs | on the device | SQNR |
|---|---|--:|--:|--:|--:|--:|
"""
LEAST: Final = 40.0
SAMPLES: Final = 4


class Row(NamedTuple):
    """macs: of one image. share: of them, on the device. sqnr: dB."""

    network: str
    input: str
    commands: int
    cpu_layers: int
    macs: int
    share: float
    sqnr: float

    def __str__(self) -> str:
        figures = (
            f"{self.commands} | {self.cpu_layers} | {self.macs / 1e6:,.1f} | {self.share:.1%} | {self.sqnr:.1f} dB"
        )
        return f"| {self.network} | {self.input} | {figures} |"


def multiplications(graph: Graph, node: Node) -> int:
    """With a weight, for one image."""
    match node.op:
        case Conv2d(weight=weight):
            height, width, _ = graph.shape(node.name)
            return height * width * weight.size
        case ConvTranspose2d(weight=weight):
            height, width, _ = graph.shape(node.inputs[0])
            return height * width * weight.size
        case Dense(weight=weight):
            return weight.size
        case _:
            return 0


def row(name: str) -> Row:
    """Build a network, convert it, and compare it with its framework. Raises ConvertorError."""
    network = zoo.NETWORKS[name]
    size = network.smallest if isinstance(network, zoo.Keras) else network.size
    with tempfile.TemporaryDirectory() as folder:
        config = Config.read(zoo.build(name, Path(folder), size=size))
        graph = load(config)
        program = build(graph, config)
        result = verify(config, graph=graph, samples=SAMPLES, min_sqnr=LEAST)
    on_device = {origin.layer for layer in program.layers if layer.runs for origin in layer.origins}
    macs = {node.name: multiplications(graph, node) for node in graph.nodes}
    done = sum(macs[n.name] for n in graph.nodes if n.where is not None and n.where.layer in on_device)
    return Row(
        network=name,
        input="x".join(str(n) for n in graph.shape(graph.inputs[0].name)),
        commands=sum(layer.type is LayerType.CONV for layer in program.layers),
        cpu_layers=sum(layer.type is LayerType.CUSTOM for layer in program.layers),
        macs=sum(macs.values()),
        share=done / sum(macs.values()),
        sqnr=min(output.sqnr for output in result.outputs),
    )


def rows_of(page: str) -> dict[str, str]:
    """Network -> its line of the page."""
    lines = [line for line in page.splitlines() if line.startswith(tuple(f"| {kind}_" for kind in ("caffe", "keras")))]
    return {line.split("|")[1].strip(): line for line in lines}


def page_of(rows: Mapping[str, str]) -> str:
    """The page, its rows in the order of their names."""
    return HEAD.format(samples=SAMPLES, least=LEAST) + "".join(f"{rows[name]}\n" for name in sorted(rows))


def run_all(names: Iterable[str]) -> list[str]:
    """Run networks one after the other and keep the page; gives the names of those that fail."""
    failed = []
    for name in names:
        command = [sys.executable, "-m", "benchmarks.zoo", "--one", name]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        if done.returncode:
            failed.append(name)
            click.echo(f"{name} fails:\n{done.stderr}", err=True)
            continue
        made = Row(*json.loads(done.stdout.splitlines()[-1]))
        click.echo(str(made))
        failed += [name] if made.sqnr < LEAST else []
        rows = rows_of(PAGE.read_text()) if PAGE.exists() else {}
        PAGE.write_text(page_of({**rows, name: str(made)}))
    return failed


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(zoo.NETWORKS)), metavar="[NAMES]...")
@click.option("--one", is_flag=True, hidden=True, help="Run one network here, and print its row as JSON.")
def main(names: tuple[str, ...], one: bool) -> None:
    """Convert networks of the zoo, compare each with its framework, and keep docs/zoo.md.

    Without names: all of Keras's networks, with the smallest input that each allows. Caffe's, which have their own size, are
    run when they are named. Ends with 1 when a network fails.
    """
    if one:
        try:
            click.echo(json.dumps(row(names[0])))
        except ConvertorError as error:
            raise click.ClickException(str(error)) from error
        return
    failed = run_all(names or [name for name, network in zoo.NETWORKS.items() if isinstance(network, zoo.Keras)])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
