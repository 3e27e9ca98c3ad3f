"""Finds layers that normalize pixels at the start of a network: Rescaling, Normalization, Sub and Div, Scale."""

import math
from dataclasses import dataclass

import numpy as np

from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Input, Scale


@dataclass(frozen=True, slots=True)
class Normalization:
    """The first layers compute (pixel - mean) * scale. mean, scale: one number if it is the same for all channels."""

    input: str
    layers: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]

    def __str__(self) -> str:
        first = ", ".join(f'"{layer}"' for layer in self.layers)
        mean, scale = (", ".join(f"{number:.6g}" for number in numbers) for numbers in (self.mean, self.scale))
        if len(self.scale) > 1:
            return (
                f'{first} normalize "{self.input}": (pixel - ({mean})) * ({scale}), channel by channel. Give the network '
                "pixels as they are: leave mean and scale out."
            )
        return (
            f'{first} normalize "{self.input}". Give the network pixels as they are; or export it without these layers, and '
            f"set mean = {mean} and scale = {scale} in [INPUT], which saves their work on the device."
        )


def input_normalizations(graph: Graph) -> tuple[Normalization, ...]:
    """For each input whose only reader begins a chain of scales."""
    normalizations = (_from(graph, node.name) for node in graph.inputs)
    return tuple(normalization for normalization in normalizations if normalization is not None)


def _from(graph: Graph, name: str) -> Normalization | None:
    op = graph[name].op
    assert isinstance(op, Input)
    factor = np.ones(op.shape.channels)
    shift = np.zeros(op.shape.channels)
    layers: list[str] = []
    last = name
    while len(users := graph.users(last)) == 1 and not graph.is_output(last):
        node = graph[users[0]]
        if not isinstance(node.op, Scale) or node.op.activation is not None:
            break
        further = node.op.factor.load().astype(np.float64)
        factor, shift = factor * further, shift * further
        if node.op.shift is not None:
            shift = shift + node.op.shift.load()
        layers += [node.name if node.where is None else node.where.layer]
        last = node.name
    if not layers or not (np.isfinite(factor).all() and np.isfinite(shift).all() and factor.all()):
        return None
    return Normalization(name, tuple(dict.fromkeys(layers)), _short(-shift / factor), _short(factor))


def _short(numbers: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float, ...]:
    """One number if all are the same to seven digits."""
    values = [float(number) + 0.0 for number in numbers]  # 0.0 in place of -0.0
    return tuple(values[:1] if all(math.isclose(value, values[0], rel_tol=1e-6) for value in values) else values)
