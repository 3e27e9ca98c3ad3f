"""A program as a drawing for the template."""

from collections.abc import Callable

from cnn_convertor.codegen.description import shape_text
from cnn_convertor.devices.program import Layer, LayerType, Program

_COLORS = {LayerType.CONV: '"#cfe8ff"', LayerType.INPUT: '"#e8e8e8"', LayerType.CONCAT: '"#f4f4f4"'}
_CPU_COLOR = '"#ffe3c4"'


def drawing(program: Program, title: Callable[[Layer], str]) -> dict[str, object]:
    """The graph of a program for Graphviz: nodes and edges. Inputs without a layer get a node too. title: of a layer."""
    nodes: list[dict[str, str]] = []
    edges: list[dict[str, str]] = []
    inputs = {tensor.offset: f"input_{position}" for position, (_, tensor) in enumerate(program.inputs)}
    if not any(layer.type is LayerType.INPUT for layer in program.layers):
        for name, tensor in program.inputs:
            color = _COLORS[LayerType.INPUT]
            nodes.append({"id": inputs[tensor.offset], "label": f"{name}\n{shape_text(tensor)}", "color": color})
    for index, layer in enumerate(program.layers):
        names = [origin.layer for origin in layer.origins] or [layer.name]
        label = "\n".join([f"{index}: {title(layer)}", *dict.fromkeys(names), shape_text(layer.output)])
        nodes.append({"id": f"layer_{index}", "label": label, "color": _COLORS.get(layer.type, _CPU_COLOR)})
        for tensor, source in zip(layer.inputs, layer.sources, strict=True):
            start = inputs[tensor.offset] if source is None else f"layer_{source}"
            edges.append({"source": start, "target": f"layer_{index}", "label": shape_text(tensor)})
    return {"nodes": nodes, "edges": edges}
