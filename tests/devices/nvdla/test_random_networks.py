"""Random networks run on the twin as a plain reading of their graphs says, fused and not, in any order of their steps.

Compilation takes most of the time, so that several networks are one: they share nothing but memory.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.nvdla.accelerator import NvdlaAccelerator
from cnn_convertor.devices.nvdla.chains import Chain, owner
from cnn_convertor.devices.nvdla.hardware import NvdlaHardware
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.pipeline import legalize_graph
from cnn_convertor.verification.compare import sqnr
from reference import ir_reference, random_networks
from reference.ir_reference import conv
from verification.trials import samples

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

NETWORKS = 200
TOGETHER = 8
LAYERS = 10
AT_LEAST_DB = 45.0
LEAST_RMS = 0.125  # of outputs: what is smaller has come of numbers around 1 that cancel, and has their errors


def joined(graphs: dict[str, Graph]) -> Graph:
    """Networks side by side: each name begins with its network's."""
    nodes = []
    for prefix, graph in graphs.items():
        for node in graph.nodes:
            inputs = tuple(f"{prefix}/{name}" for name in node.inputs)
            nodes.append(replace(node, name=f"{prefix}/{node.name}", inputs=inputs))
    outputs = [f"{prefix}/{name}" for prefix, graph in graphs.items() for name in graph.outputs]
    return Graph(tuple(nodes), tuple(outputs))


def shuffled(graph: Graph, steps: tuple[Chain, ...], random: np.random.Generator) -> tuple[Chain, ...]:
    """Some order in which every step comes after those whose maps it reads."""
    done = {node.name for node in graph.inputs}
    waiting = list(steps)
    order: list[Chain] = []
    while waiting:
        ready = [step for step in waiting if all(owner(graph, name).name in done for name in step.reads)]
        step = ready[int(random.integers(len(ready)))]
        waiting.remove(step)
        order.append(step)
        done.add(step.writes)
    return tuple(order)


def installed(graph: Graph, folder: Path, fusion: Fusion, seed: int) -> EmulatedNetwork:
    target = NvdlaAccelerator(NvdlaHardware("nvdla-full"), fusion)
    legalized = legalize_graph(graph, target)
    assert not target.broken_rules(legalized)
    legalized = legalized._replace(steps=shuffled(legalized.graph, legalized.steps, np.random.default_rng(seed)))
    program = target.lower(legalized, target.schedule(legalized), name="net", original=graph)
    files = target.emit(program, RenderOptions("net", source=True))
    return target.install(graph, program, files, folder)


@pytest.mark.rotating
@pytest.mark.parametrize("fusion", [Fusion.DOCUMENTED, Fusion.NONE], ids=lambda fusion: fusion.value)
@pytest.mark.parametrize("first", range(0, NETWORKS, TOGETHER))
def test_random_networks(first: int, fusion: Fusion, tmp_path: Path) -> None:
    graphs = {}
    inputs = {}
    for seed in range(first, first + TOGETHER):
        make = random_networks.network_of_blocks if seed % 2 else random_networks.network
        graphs[str(seed)] = make(seed, LAYERS)
        for name, values in random_networks.inputs_for(graphs[str(seed)], seed).items():
            inputs[f"{seed}/{name}"] = values
    graph = joined(graphs)
    given = samples(inputs)
    expected = ir_reference.run(graph, {name: values[0].astype(np.float64) for name, values in given.items()})
    outputs = installed(graph, tmp_path, fusion, first).run(given).outputs
    for output, mine in zip(graph.outputs, outputs, strict=True):
        ratio = sqnr(mine[0], expected[output], least_rms=LEAST_RMS)
        assert ratio >= AT_LEAST_DB, f"{output}: {ratio:.1f} dB\n{graphs[output.partition('/')[0]]}"


def test_an_output_whose_parts_are_written_in_place_is_handed_over(tmp_path: Path) -> None:
    nodes = (
        Node("x", ops.Input(Shape(3, 4, 16))),
        Node("part0", conv(16, 16, 1, 1), ("x",)),
        Node("part1", conv(16, 16, 1, 1), ("x",)),
        Node("both", ops.Concat(), ("part0", "part1")),
    )
    graph = Graph(nodes, ("both",))
    given = samples(random_networks.inputs_for(graph))
    (output,) = installed(graph, tmp_path, Fusion.DOCUMENTED, 0).run(given).outputs
    expected = ir_reference.run(graph, {"x": given["x"][0].astype(np.float64)})
    assert sqnr(output[0], expected["both"]) >= AT_LEAST_DB
