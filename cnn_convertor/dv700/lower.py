"""Turns the chosen steps into the device's program: every map at its place, every number fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cnn_convertor.dv700.placement import element_type, place
from cnn_convertor.dv700.program import CustomCall, Layer, Program, Tensor
from cnn_convertor.dv700.steps import Step, source
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Concat, Custom, Input, Reshape, Softmax


def lower(graph: Graph, steps: Sequence[Step], *, name: str, transposed: bool) -> Program:
    """The program of a legal graph whose steps keep the rules."""
    placement = place(graph, steps)

    def tensor(node: str) -> Tensor:
        return Tensor(graph.shape(node), element_type(source(graph, node)), placement.offsets[node])

    layers: list[Layer] = []
    written_by: dict[str, int] = {}
    for step in steps:
        written_by[step.writes] = len(layers)
        op = step.nodes[-1].op
        layers.append(
            Layer(
                name=step.writes,
                type=step.type,
                inputs=tuple(map(tensor, step.reads)),
                output=tensor(step.writes),
                origins=step.origins,
                runs=() if step.run is None else (step.run,),
                sources=tuple(written_by.get(source(graph, i).name) for i in step.reads),
                custom=CustomCall(op.type, op.parameters) if isinstance(op, Custom) else None,
                from_device=bool(step.reads) and all(is_from_device(graph, i) for i in step.reads),
            )
        )
    outputs = tuple(written_by[source(graph, output).name] for output in graph.outputs)
    for index in outputs:
        layers[index] = replace(layers[index], is_output=True)
    return Program(
        name=name,
        layers=tuple(layers),
        inputs=tuple((node.name, tensor(node.name)) for node in graph.inputs),
        outputs=outputs,
        plan=placement.plan,
        weight_bytes=sum(run.convolution.weights.nbytes for step in steps if (run := step.run) and run.convolution),
        transposed=transposed,
    )


def is_from_device(graph: Graph, name: str) -> bool:
    """Whether the convolution block wrote the map, perhaps as the parts of a concatenation."""
    node = source(graph, name)
    if isinstance(node.op, Concat):
        return all(is_from_device(graph, part) for part in node.inputs)
    return not isinstance(node.op, Input | Reshape | Softmax | Custom)
