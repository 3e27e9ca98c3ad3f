"""The reason for each boundary between two commands."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from cnn_convertor.devices.dv700.commands import WITH_PACKED, Command, buffer_owner, is_view, why_own_layer
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.combining import FusionRules, Path
from cnn_convertor.devices.dv700.fusion.partition import Partition
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.devices.target import Boundary
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Concat, Dense

_MOST_NAMES = 6  # in a sentence: with all, the sentences of a map's readers would grow as the square of their count
_FIRST_RUN = "what the CPU packs as weights is for the first run of a command"
_CHEAPER = "another choice moves fewer bytes of feature maps"


def boundaries(partition: Partition, fusion: Fusion, device: Device) -> tuple[Boundary, ...]:
    """Every boundary between two commands of the device, in execution order."""
    graph, layers = partition
    rules = FusionRules(graph, fusion, device)
    commands = {node.name: command for command in layers for node in command.nodes}
    result: list[Boundary] = []
    for command in layers:
        nodes = command.nodes if command.assignments else ()
        for node in nodes[:1] if command.slices > 1 else nodes:  # each branch of slices reads the same
            for name in dict.fromkeys(node.inputs):
                reason = _why_apart(rules, commands, graph[name], node)
                if reason is not None:
                    result.append(Boundary(buffer_owner(graph, name).name, node.name, reason))
    for node in graph.nodes:
        if isinstance(node.op, Concat) and not commands[node.name].assignments:
            result += _between_parts(rules, commands, node)
    return tuple(result)


def _why_apart(rules: FusionRules, commands: dict[str, Command], before: Node, after: Node) -> str | None:
    """Why two neighbors have different commands; None if they share one, or one of them does not run on the device."""
    graph = rules.graph
    writer = buffer_owner(graph, before.name)
    written_by, read_by = commands.get(writer.name), commands[after.name]
    is_split = written_by is not None and written_by.slices > 1
    if not (writer.name in rules.on_device or is_split) or after.name not in rules.on_device or written_by is read_by:
        return None
    if is_view(before):
        return "the map is read in another shape, or in part"
    users = graph.users(before.name)
    if graph.is_output(before.name):
        return "its map is an output of the network"
    if read_by.slices > 1 and all(commands[user] is read_by for user in users):
        return f"its map is read for each of {read_by.slices} slices of channels"
    if len(users) > 1:
        return f"its map is read {len(users)} times, by {_listed(graph, users)}"
    if isinstance(after.op, Dense) and not graph.shape(before.name).is_vector:
        return "a fully connected layer reads the map in the order of external memory"
    if isinstance(after.op, WITH_PACKED):
        return _FIRST_RUN
    if is_split:
        return "its map is computed in slices of channels"
    return _why_not(rules, commands, before, after)


def _why_not(rules: FusionRules, commands: dict[str, Command], before: Node, after: Node) -> str:
    """Why neighbors that FusionRules.joins accepts do not share a command: because of themselves or of the rest of it."""
    graph = rules.graph
    if alone := rules.why_not([(before, after)]):
        return alone
    first = _path(commands[before.name], before)
    second = _path(commands[after.name], after)
    other = next((node for node in second if node.name != after.name and after.name != second[0].name), None)
    if other is not None:
        return f"it shares a command with {_listed(graph, [other.name])} already"
    return rules.why_not([(*first, *second)]) or _CHEAPER


def _path(command: Command, node: Node) -> Path:
    """The nodes of the branch of a command that contains the node."""
    branch: list[Node] = []
    for nodes, run in command.assignments:
        branch += nodes
        if run.external:
            if node in branch:
                break
            branch = []
    return tuple(branch)


def _between_parts(rules: FusionRules, commands: dict[str, Command], concat: Node) -> Iterator[Boundary]:
    """Why neighboring parts of a concatenation have different commands."""
    graph = rules.graph
    parts = [part for name in concat.inputs for part in _written(graph, name)]
    for one, other in pairwise(parts):
        on_device = one.name in rules.on_device and other.name in rules.on_device
        if on_device and commands[one.name] is not commands[other.name]:
            yield Boundary(one.name, other.name, _why_not_joined(rules, commands, (one, other)))


def _written(graph: Graph, name: str) -> list[Node]:
    """The nodes that write the named part; a concatenation that a command writes has parts of its own."""
    node = buffer_owner(graph, name)
    if isinstance(node.op, Concat):
        return [part for inner in node.inputs for part in _written(graph, inner)]
    return [node]


def _why_not_joined(rules: FusionRules, commands: dict[str, Command], parts: Sequence[Node]) -> str:
    graph = rules.graph
    for part in parts:
        if (reason := why_own_layer(graph, part)) is not None:
            return reason
    branches = [_path(commands[part.name], part) for part in parts]
    if any(isinstance(node.op, WITH_PACKED) for branch in branches for node in branch):
        return _FIRST_RUN
    starts = [branch[0].inputs[0] for branch in branches]
    if starts[0] != starts[1]:
        return f"as parts of one concatenation they start from different maps, of {_listed(graph, starts)}"
    return rules.why_not(branches) or _CHEAPER


def _listed(graph: Graph, names: Sequence[str]) -> str:
    """The framework's names of the nodes' layers, quoted, as a list in a sentence; of many the first."""
    shown = names if len(names) <= _MOST_NAMES else names[: _MOST_NAMES - 1]
    layers = (name if (where := graph[name].where) is None else where.layer for name in shown)
    items = [f'"{layer}"' for layer in dict.fromkeys(layers)]
    items += [f"{len(names) - len(shown)} others"] * (len(shown) < len(names))
    return ", ".join(items[:-1]) + (" and " if len(items) > 1 else "") + items[-1]
