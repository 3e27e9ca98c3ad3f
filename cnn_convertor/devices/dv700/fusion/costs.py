"""What a command costs."""

from cnn_convertor.devices.dv700.device import Cost
from cnn_convertor.devices.dv700.fusion.combining import Path, split_runs
from cnn_convertor.devices.dv700.memory.placement import nbytes
from cnn_convertor.ir.graph import Graph


def command_cost(graph: Graph, path: Path) -> Cost:
    """The cost of a command with one branch."""
    inside = {node.name for node in path[:-1]}
    reads = [name for node in path for name in node.inputs if name not in inside]
    return Cost(sum(nbytes(graph, name) for name in (*reads, path[-1].name)), 1, len(split_runs(path)))
