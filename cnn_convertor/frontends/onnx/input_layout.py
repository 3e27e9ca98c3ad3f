"""Reads inputs that a model transposes first, from channels last to channels first, as maps of these channels."""

from __future__ import annotations

from dataclasses import replace

from cnn_convertor.frontends.onnx.model import DOMAINS, OnnxModel, OnnxNode, ValueInfo

TO_CHANNELS_FIRST = (0, 3, 1, 2)
TO_CHANNELS_LAST = (0, 2, 3, 1)


def channels_last(model: OnnxModel) -> frozenset[str]:
    """The inputs of four axes whose last axis is the channels: all that reads them transposes them to channels first.

    Without those that are outputs, too, before or after their transposition, since the order of the elements matters there.
    """
    outputs = {info.name for info in model.outputs}
    readers: dict[str, list[OnnxNode]] = {}
    for node in model.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    return frozenset(
        info.name
        for info in model.inputs
        if info.dims is not None
        and len(info.dims) == len(TO_CHANNELS_FIRST)
        and info.name not in outputs
        and info.name not in model.initializers
        and info.name in readers
        and all(_transposes(node) and outputs.isdisjoint(node.outputs) for node in readers[info.name])
    )


def with_channels_first(model: OnnxModel, names: frozenset[str]) -> OnnxModel:
    """The same network without the transpositions behind the named inputs, whose sizes then count channels first."""
    removed = {node.outputs[0]: node.inputs[0] for node in model.nodes if not names.isdisjoint(node.inputs)}
    nodes = tuple(
        replace(node, inputs=tuple(removed.get(name, name) for name in node.inputs))
        for node in model.nodes
        if names.isdisjoint(node.inputs)
    )
    return replace(model, nodes=nodes, inputs=tuple(_channels_first(info, names) for info in model.inputs))


def _transposes(node: OnnxNode) -> bool:
    is_standard = node.type == "Transpose" and node.domain in DOMAINS and len(node.inputs) == len(node.outputs) == 1
    return is_standard and dict(node.attributes) == {"perm": TO_CHANNELS_FIRST} and bool(node.outputs[0])


def _channels_first(info: ValueInfo, names: frozenset[str]) -> ValueInfo:
    if info.name not in names or info.dims is None:
        return info
    return replace(info, dims=tuple(info.dims[axis] for axis in TO_CHANNELS_FIRST))
