"""Lowers commands to the device's program: every map has its offset, every number is fixed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from cnn_convertor.devices.cpu_functions import arrays_at
from cnn_convertor.devices.dv700.commands import Command, buffer_owner, is_view
from cnn_convertor.devices.dv700.cpu_costs import can_share
from cnn_convertor.devices.dv700.memory.memory_layout import is_chunked, map_layout
from cnn_convertor.devices.dv700.memory.placement import Placement, element_type, is_plain, place
from cnn_convertor.devices.dv700.runs import Layer, Program, Run
from cnn_convertor.devices.program import PLAIN, CustomCall, Tensor
from cnn_convertor.devices.settings import Runtime
from cnn_convertor.ir.graph import Graph, Node, origins_of
from cnn_convertor.ir.ops import ArraySoftmax, ChannelSlice, Concat, Custom, Input, OnCpu, Reshape


def lower(
    graph: Graph,
    steps: Sequence[Command],
    *,
    name: str,
    transposed: bool,
    cpu_threads: int = 1,
    runtime: Runtime = Runtime.SDK,
    cache_line: int = 0,
    placement: Placement | None = None,
    original: Graph | None = None,
) -> Program:
    """The program of a legal graph.

    placement: of the maps; by default that of the steps in their order. original: the user's graph, for the names and shapes of
    the outputs. cpu_threads: 0: as many as there are cores, or one where no layer has work for several.
    """
    placement = placement or place(graph, steps)

    @cache
    def tensor(node: str) -> Tensor:
        layout = PLAIN if is_plain(graph, node) else map_layout(transposed=transposed)
        return Tensor(graph.shape(node), element_type(graph, node), placement.offsets[node], layout)

    layers: list[Layer] = []
    written_by: dict[str, int] = {}
    next_weight = next_array = 0  # byte
    for step in steps:
        runs, next_weight = _with_weights_at(step, next_weight, placement)
        written_by |= dict.fromkeys((*step.parts, step.writes), len(layers))
        op = step.nodes[-1].op
        arrays, next_array = arrays_at(op, next_array, step.nodes[-1].where)
        layers.append(
            Layer(
                name=step.writes,
                type=step.type,
                inputs=tuple(map(tensor, step.reads)),
                output=tensor(step.writes),
                origins=step.origins,
                runs=runs,
                sources=tuple(written_by.get(buffer_owner(graph, i).name) for i in step.reads),
                custom=CustomCall(op.type, op.parameters) if isinstance(op, Custom) else None,
                cpu=op.op if isinstance(op, OnCpu) else None,
                constants=arrays,
                reason="; ".join(dict.fromkeys(node.reason for node in step.nodes if node.reason)),
                softmax=op if isinstance(op, ArraySoftmax) else None,
                from_device=is_from_device(graph, step),
            )
        )
    written = tuple(written_by[buffer_owner(graph, output).name] for output in graph.outputs)
    for index in written:
        layers[index] = replace(layers[index], is_output=True)
    if cpu_threads == 0 and not any(map(can_share, layers)):
        cpu_threads = 1
    return Program(
        name=name,
        layers=tuple(layers),
        inputs=tuple((node.name, tensor(node.name)) for node in graph.inputs),
        outputs=written,
        results=tuple(_results(original or graph, map(tensor, graph.outputs))),
        plan=placement.plan,
        transposed=transposed,
        cpu_threads=cpu_threads,
        runtime=runtime,
        cache_line=cache_line,
    )


def _results(original: Graph, tensors: Iterable[Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The names of the outputs, and how they lie in memory. A map that became a vector has been flattened."""
    for name, output, tensor in zip(original.output_names, original.outputs, tensors, strict=True):
        shape = original.shape(output)
        is_flattened = tensor.shape.is_vector and not shape.is_vector
        yield name, tensor._replace(shape=shape, layout=PLAIN) if is_flattened else tensor


def _with_weights_at(step: Command, offset: int, placement: Placement) -> tuple[tuple[Run, ...], int]:
    """The step's runs, their weights packed from the offset on, and the offset after the last one.

    Factors that the CPU packs are where the placement has them: the last of what the step reads.
    """
    placed = []
    for nodes, run in step.assignments:
        run = replace(run, origins=origins_of(nodes))
        if (convolution := run.convolution) is not None:
            weights = replace(convolution.weights, offset=offset)
            offset += weights.nbytes
            run = replace(run, convolution=replace(convolution, weights=weights))
        if run.factors is not None:
            run = replace(run, factors=replace(run.factors, offset=placement.offsets[step.reads[-1]]))
        placed.append(run)
    return tuple(placed), offset


def is_from_device(graph: Graph, step: Command) -> bool:
    """The layer's is_input_hw_layout.

    The runtime ignores it for commands and for generated functions; there it says whether commands wrote the input. LT_FLATTEN
    and get_layer_input reorder a map if it is set, so there it says whether the map is in the device's order, no matter what wrote
    it. get_layer_input needs three dimensions for that. LT_SOFTMAX takes a row-major array if it is set.
    """
    op = step.nodes[-1].op
    if isinstance(op, ArraySoftmax):
        return True
    if not step.reads or (isinstance(op, Custom) and graph.shape(step.reads[0]).is_vector):
        return False
    asked = written_by_device if step.assignments or isinstance(op, OnCpu) else in_device_order
    has_factors = any(run.factors is not None for run in step.runs)
    return all(asked(graph, name) for name in step.reads[: len(step.reads) - has_factors])


def in_device_order(graph: Graph, name: str) -> bool:
    """Whether the whole map lies in the device's order. A view of a flattened map with several chunks of channels does."""
    others = (Custom,) if is_chunked(graph.shape(name)) else (Custom, Reshape)
    return not any(
        isinstance(node.op, others) or is_plain(graph, node.name)
        for node in writers(graph, name, 0, graph.shape(name).channels)
    )


def written_by_device(graph: Graph, name: str) -> bool:
    """Whether commands wrote the map; inputs of the network may be parts of it."""
    parts = list(writers(graph, name, 0, graph.shape(name).channels))
    by_application = [isinstance(node.op, Input) for node in parts]
    return not all(by_application) and not any(
        isinstance(node.op, OnCpu | Reshape | ArraySoftmax | Custom) for node in parts
    )


def writers(graph: Graph, name: str, first: int, stop: int) -> Iterator[Node]:
    """The nodes that wrote the channels [first, stop) of a map."""
    node = graph[name]
    match node.op:
        case ChannelSlice(first=start):
            yield from writers(graph, node.inputs[0], start + first, start + stop)
        case Concat():
            end = 0
            for part in node.inputs:
                start, end = end, end + graph.shape(part).channels
                if start < stop and first < end:
                    yield from writers(graph, part, max(first - start, 0), min(stop, end) - start)
        case _ if is_view(node):
            yield from writers(graph, node.inputs[0], 0, graph.shape(node.inputs[0]).channels)
        case _:
            yield node
