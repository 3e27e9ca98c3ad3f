"""Converts networks of examples/zoo.py at their usual size for nvdla-full, and keeps their table in docs/networks.md.

python -m development.benchmarks.nvdla [NAMES]
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.nvdla.network_program import NvdlaProgram
from cnn_convertor.devices.program import LayerType
from cnn_convertor.pipeline import analyze
from development.benchmarks.networks_page import Table, keep
from examples import zoo

NAMES: Final = (
    "onnx_lenet",
    "onnx_resnet18",
    "onnx_resnet50",
    "onnx_mobilenet_v1",
    "onnx_mobilenet_v2",
    "onnx_squeezenet_1_1",
    "caffe_googlenet",
    "onnx_yolov3_tiny",
    "keras_efficientnet_b0",
    "onnx_yolo_nano",
    "onnx_unet",
)


def row(name: str) -> str:
    """A network's line: planned, not run."""
    with tempfile.TemporaryDirectory() as folder:
        config = replace(Config.read(_for_nvdla(zoo.build(name, Path(folder)))), quantization=False)
        analysis = analyze(Request.of(config))
        graph = analysis.require_complete()
        program = analysis.lowered(name)
    assert isinstance(program, NvdlaProgram)
    legal = analysis.legalized.graph
    macs = dict.fromkeys(LayerType, 0)
    for step in analysis.steps:
        macs[step.type] += sum(map(legal.multiplications, step.nodes))
    moved = dict.fromkeys(LayerType, 0)
    for layer in program.layers:
        moved[layer.type] += sum(tensor.nbytes for tensor in (*layer.inputs, layer.output))
    on_cpu = sum(layer.type is LayerType.CUSTOM for layer in program.layers)
    operations = sum(len(layer.runs) for layer in program.layers)
    costs = [step.cost for step in analysis.target.facts(program).steps if step.cost is not None]
    traffic = analysis.target.map_traffic(analysis.legalized)
    shape = "x".join(str(size) for size in graph.shape(graph.inputs[0].name))
    cells = [
        name,
        shape,
        _share(macs),
        _share(moved),
        str(on_cpu),
        str(operations),
        _mb(traffic.moved),
        _mb(traffic.least),
        _mb(sum(cost.bytes for cost in costs)),
        _mb(program.weight_bytes),
        _mb(program.io_bytes),
        _mb(program.plan.lower_bound),
        f"{sum(cost.usec.low for cost in costs) / 1000:.2f} ms",
    ]
    return f"| {' | '.join(cells)} |"


def _for_nvdla(ini: Path) -> Path:
    text = ini.read_text(encoding="utf-8")
    section = "[OPTIONAL]\n"
    if section not in text:
        text += f"\n{section}"
    ini.write_text(text.replace(section, f"{section}device = nvdla-full\n"), encoding="utf-8")
    return ini


def _share(by_type: dict[LayerType, int]) -> str:
    """Of the device, in all that the device and the CPU do."""
    both = by_type[LayerType.CONV] + by_type[LayerType.CUSTOM]
    return f"{by_type[LayerType.CONV] / both:.1%}" if both else "-"


def _mb(count: int) -> str:
    return f"{count / 1e6:,.3f}"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(zoo.NETWORKS)), metavar="[NAMES]...")
def main(names: tuple[str, ...]) -> None:
    """Plan networks for nvdla-full, and write their rows; the rows of others stay as they are."""
    for name in names or NAMES:
        line = row(name)
        click.echo(line)
        keep(Table.NVDLA, {name: line})


if __name__ == "__main__":
    main()
