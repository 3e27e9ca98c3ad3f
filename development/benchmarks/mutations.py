"""Changes single layers of networks, and counts which of the changes verify finds.

python -m development.benchmarks.mutations [--count 50] [--seed 0] [--quantization 0|1] [--store FILE] NET.ini|MODEL...

Each change is made in the graph that is converted, and the framework computes the model as it is. A change counts if it alters an
output by more than twice what rounding to FP16 does, in amplitude. Every kind that applies to a network is as likely as the others.
"""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import click
import numpy as np
from numpy.typing import NDArray

from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Conv2d, Dense, Pair
from cnn_convertor.pipeline import load
from cnn_convertor.quantize import Counted, Palette, fit
from cnn_convertor.samples import Samples
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification import reference
from cnn_convertor.verification.both_sides import BothSides
from cnn_convertor.verification.framework_maps import Reference
from cnn_convertor.verification.results import Verification
from cnn_convertor.verification.unpooling import unpoolings

Change = Callable[[Any, random.Random], Any]  # of an operator; raises ValueError where it does not apply
LEAST_AMPLITUDE: Final = 2.0  # of the change of an output, over that of its rounding


class Outcome(NamedTuple):
    """change: its kind. matters: whether an output changes visibly. found: whether verify fails."""

    change: str
    matters: bool
    found: bool
    what: str


def _weights(op: Any, change: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> Any:
    if not isinstance(op, Conv2d | Dense | ops.ConvTranspose2d):
        raise ValueError
    return replace(op, weight=Constant.of(change(op.weight.load().copy())))


def _bias(op: Any, change: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> Any:
    if getattr(op, "bias", None) is None:
        raise ValueError
    return replace(op, bias=Constant.of(change(op.bias.load().copy())))


def rotate_kernels(op: Any, _: random.Random) -> Any:
    return _weights(op, lambda w: w[:, :, ::-1, ::-1] if max(w.shape[2:]) > 1 else _refuse())


def transpose_kernels(op: Any, _: random.Random) -> Any:
    return _weights(op, lambda w: w.swapaxes(2, 3) if w.shape[2] == w.shape[3] > 1 else _refuse())


def swap_filters(op: Any, draw: random.Random) -> Any:
    def swap(w: NDArray[np.float32]) -> NDArray[np.float32]:
        first, second = draw.sample(range(len(w)), 2)
        w[[first, second]] = w[[second, first]]
        return w

    return _weights(op, swap)


def swap_input_channels(op: Any, draw: random.Random) -> Any:
    def swap(w: NDArray[np.float32]) -> NDArray[np.float32]:
        first, second = draw.sample(range(w.shape[1]), 2)
        w[:, [first, second]] = w[:, [second, first]]
        return w

    return _weights(op, swap)


def zero_filter(op: Any, draw: random.Random) -> Any:
    def zero(w: NDArray[np.float32]) -> NDArray[np.float32]:
        w[draw.randrange(len(w))] = 0
        return w

    return _weights(op, zero)


def scale_filter(op: Any, draw: random.Random) -> Any:
    def scale(w: NDArray[np.float32]) -> NDArray[np.float32]:
        w[draw.randrange(len(w))] *= draw.choice([0.9, 0.99, 1.05])
        return w

    return _weights(op, scale)


def change_weight(op: Any, draw: random.Random) -> Any:
    def change(w: NDArray[np.float32]) -> NDArray[np.float32]:
        w.reshape(-1)[draw.randrange(w.size)] *= -1
        return w

    return _weights(op, change)


def scale_weights(op: Any, draw: random.Random) -> Any:
    return _weights(op, lambda w: w * np.float32(draw.choice([0.99, 1.01, 1.002])))


def zero_biases(op: Any, _: random.Random) -> Any:
    return _bias(op, np.zeros_like)


def zero_bias(op: Any, draw: random.Random) -> Any:
    def zero(b: NDArray[np.float32]) -> NDArray[np.float32]:
        b[draw.randrange(len(b))] = 0
        return b

    return _bias(op, zero)


def swap_biases(op: Any, _: random.Random) -> Any:
    return _bias(op, lambda b: np.roll(b, 1))


def change_activation(op: Any, draw: random.Random) -> Any:
    if not hasattr(op, "activation"):
        raise ValueError
    choices = [None, ops.Relu(), ops.Relu(0.1), ops.Relu6(), ops.Tanh(), ops.Sigmoid(), ops.Elu()]
    return replace(op, activation=draw.choice([each for each in choices if each != op.activation]))


def change_function(op: Any, draw: random.Random) -> Any:
    if not isinstance(op, ops.Activation):
        raise ValueError
    choices: list[ops.Function] = [ops.Relu(), ops.Relu(0.1), ops.Relu6(), ops.Tanh(), ops.Sigmoid(), ops.Elu()]
    return ops.Activation(draw.choice([each for each in choices if each != op.function]))


def change_slope(op: Any, draw: random.Random) -> Any:
    match op:
        case ops.Activation(function=ops.Relu(slope=slope)) if slope:
            return ops.Activation(ops.Relu(slope * draw.choice([0.5, 0.9, 1.5])))
        case ops.Activation(function=ops.PRelu(slopes=slopes)):
            return ops.Activation(ops.PRelu(Constant.of(np.roll(slopes.load(), 1))))
        case _:
            return replace(op, activation=change_slope(ops.Activation(op.activation), draw).function)


def shift_window(op: Any, _: random.Random) -> Any:
    top, bottom, left, right = op.window.padding
    if top == bottom == 0:
        raise ValueError
    padding = ops.Padding(bottom, top, right, left)
    if padding == op.window.padding:
        padding = ops.Padding(top - 1, bottom + 1, left, right)
    return replace(op, window=op.window._replace(padding=padding))


def turn_stride(op: Any, _: random.Random) -> Any:
    height, width = op.window.stride
    stride = Pair(width, height) if height != width else Pair(height + 1, width + 1)
    return replace(op, window=op.window._replace(stride=stride))


def other_pool(op: Any, _: random.Random) -> Any:
    match op:
        case ops.MaxPool2d():
            return ops.AveragePool2d(op.window)
        case ops.AveragePool2d():
            return ops.MaxPool2d(op.window)
        case _:
            raise ValueError


def change_norm(op: Any, draw: random.Random) -> Any:
    if not isinstance(op, ops.BatchNorm):
        raise ValueError
    return replace(op, mean=Constant.of(op.mean.load() * np.float32(draw.choice([0.0, 1.1]))))


def change_epsilon(op: Any, draw: random.Random) -> Any:
    return replace(op, epsilon=op.epsilon * draw.choice([0.01, 100.0]))


def change_factor(op: Any, draw: random.Random) -> Any:
    if not isinstance(op, ops.Scale):
        raise ValueError
    factor, shift = op.factor.load().copy(), None if op.shift is None else op.shift.load().copy()
    if shift is None or draw.random() < 0.5:
        factor[draw.randrange(len(factor))] *= 0.9
    else:
        shift[draw.randrange(len(shift))] = 0
    return replace(op, factor=Constant.of(factor), shift=None if shift is None else Constant.of(shift))


def change_resize(op: Any, draw: random.Random) -> Any:
    if draw.random() < 0.5:
        return replace(op, interpolation=draw.choice([each for each in ops.Interpolation if each != op.interpolation]))
    return replace(op, sampling=draw.choice([each for each in ops.Sampling if each != op.sampling]))


def change_axis(op: Any, draw: random.Random) -> Any:
    if not isinstance(op, ops.Softmax | ops.Concat):
        raise ValueError
    return replace(op, axis=draw.choice([each for each in ops.Axis if each != op.axis]))


def change_operation(op: Any, draw: random.Random) -> Any:
    match op:
        case ops.Add():
            return ops.Binary(draw.choice([ops.BinaryOp.MULTIPLY, ops.BinaryOp.MAXIMUM]))
        case ops.Binary(operation=operation):
            return ops.Binary(draw.choice([each for each in ops.BinaryOp if each != operation]))
        case _:
            raise ValueError


def other_order(op: Any, _: random.Random) -> Any:
    return replace(op, order=ops.Order.CHW if op.order is ops.Order.HWC else ops.Order.HWC)


def move_crop(op: Any, draw: random.Random) -> Any:
    match op:
        case ops.Crop(start=start, stop=stop, stride=stride):
            axis, by = draw.randrange(3), draw.choice([-1, 1])
            new = (ops.Shape(*(size + by * (n == axis) for n, size in enumerate(each))) for each in (start, stop))
            return ops.Crop(next(new), next(new), stride)
        case ops.ChannelSlice(first=first, count=count):
            return ops.ChannelSlice(first + draw.choice([-1, 1]), count)
        case _:
            raise ValueError


def exchange_inputs(node: Node, draw: random.Random) -> Node:
    first, second = draw.sample(range(len(node.inputs)), 2)
    inputs = [*node.inputs]
    inputs[first], inputs[second] = inputs[second], inputs[first]
    if isinstance(node.op, ops.Add) or inputs == [*node.inputs]:
        raise ValueError
    return replace(node, inputs=tuple(inputs))


def read_before(node: Node, draw: random.Random, graph: Graph) -> Node:
    """Read another map of the same shape, such as the one before the layer's input."""
    place = draw.randrange(len(node.inputs))
    shape = graph.shape(node.inputs[place])
    earlier = [each.name for each in graph.nodes if graph.shape(each.name) == shape]
    inputs = [*node.inputs]
    inputs[place] = draw.choice(earlier[: earlier.index(node.inputs[place])])
    return replace(node, inputs=tuple(inputs))


def dilate(op: Any, _: random.Random) -> Any:
    if not isinstance(op, Conv2d) or max(op.window.kernel) == 1 or op.window.dilation != Pair(1, 1):
        raise ValueError
    height, width = op.window.kernel
    top, bottom, left, right = op.window.padding
    more = ops.Padding(top + (height - 1) // 2, bottom + height // 2, left + (width - 1) // 2, right + width // 2)
    return replace(op, window=op.window._replace(dilation=Pair(2, 2), padding=more))


def _refuse() -> Any:
    raise ValueError


OF_OPERATORS: Final[Mapping[str, Change]] = {
    "kernels rotated": rotate_kernels,
    "kernels transposed": transpose_kernels,
    "two filters exchanged": swap_filters,
    "two input channels exchanged": swap_input_channels,
    "a filter zeroed": zero_filter,
    "a filter scaled": scale_filter,
    "a weight negated": change_weight,
    "all weights scaled": scale_weights,
    "biases zeroed": zero_biases,
    "a bias zeroed": zero_bias,
    "biases moved": swap_biases,
    "another activation": change_activation,
    "another function": change_function,
    "another slope": change_slope,
    "padding moved": shift_window,
    "another stride": turn_stride,
    "dilated": dilate,
    "another pool": other_pool,
    "another mean": change_norm,
    "another epsilon": change_epsilon,
    "another factor": change_factor,
    "another resize": change_resize,
    "another axis": change_axis,
    "another operation": change_operation,
    "another order": other_order,
    "another part": move_crop,
}
CHANGES: Final = (*OF_OPERATORS, "two inputs exchanged", "an earlier map read")


def changed(graph: Graph, draw: random.Random) -> tuple[str, str, Graph]:
    """The kind of a change, the layer, and the graph with it."""
    while True:
        kind = draw.choice(CHANGES)
        for node in draw.sample(graph.nodes, len(graph.nodes)):
            if (made := _changed(graph, node, kind, draw)) is not None:
                return kind, node.name, made


def _changed(graph: Graph, node: Node, kind: str, draw: random.Random) -> Graph | None:
    """The graph with a change that keeps all shapes; None where the kind does not apply to the node."""
    try:
        match kind:
            case "two inputs exchanged":
                new = exchange_inputs(node, draw)
            case "an earlier map read":
                new = read_before(node, draw, graph)
            case _:
                new = replace(node, op=OF_OPERATORS[kind](node.op, draw))
        made = Graph(tuple(new if each is node else each for each in graph.nodes), graph.outputs)
        return made if all(made.shape(each.name) == graph.shape(each.name) for each in graph.nodes) else None
    except (ValueError, AttributeError, TypeError, IndexError, ConvertorError):
        return None


@contextmanager
def _fast() -> Iterator[None]:
    """Run programs as data, which gives the same bits without a compilation, and the framework once for each model.

    Weights that do not change have the palette of the time before. What verify tells of each layer after its verdict is
    left out.
    """
    known: dict[tuple[Path | None, int], Reference] = {}
    fitted: dict[bytes, Palette] = {}

    def installed(
        target: Dv700, graph: Graph, program: Program, _: object, folder: Path, **options: Any
    ) -> EmulatedNetwork:
        return target.install_data(graph, program, folder, **options)

    def run_both(model: Model, network: EmulatedNetwork, samples: Samples, *others: Any) -> BothSides:
        key = model.definition, samples.count
        if unpoolings(network.graph, network.program) or key not in known:
            sides = reference.run_both(model, network, samples, *others)
            known[key] = sides.reference
            return sides
        return BothSides(network, reference.run_device(network, samples.inputs), known[key])

    def fit_all(layers: Iterable[Counted], _: object) -> Iterator[Palette]:
        for counted in layers:
            key = counted.counts.tobytes() + (b"" if counted.means is None else counted.means.tobytes())
            digest = sha256(key).digest()
            if digest not in fitted:
                fitted[digest] = fit(*counted)
            yield fitted[digest]

    with (
        patch("cnn_convertor.devices.dv700.weights.palettes.fit_all", fit_all),
        patch.object(Dv700, "install", installed),
        patch("cnn_convertor.trials.verify.require_preparation"),  # data has no header
        patch("cnn_convertor.trials.verify.run_both", run_both),
        patch("cnn_convertor.trials.verify._with_layers", lambda result, *_, **__: result),
    ):
        yield


def measure(
    config: Config, count: int, seed: int, inputs: Path | None, known: list[Outcome], store: Callable[[Outcome], None]
) -> tuple[Verification, list[Outcome]]:
    """The verification of the network as it is, and the outcome of each change. known: of the first changes, already stored."""
    graph, draw = load(config), random.Random(seed)
    right = verify(config, graph=graph, inputs=inputs)
    usual = {each.name: each.sqnr for each in [b.fp16 for b in right.beside] or right.outputs}
    outcomes = [*known]
    for number in range(count):
        kind, layer, made = changed(graph, draw)
        if number < len(known):
            continue
        try:
            result = verify(config, graph=made, inputs=inputs)
        except ConvertorError as error:
            outcome = Outcome(kind, True, True, f"{layer}: {error.problems[0].code}")
        else:
            now = {each.name: each.sqnr for each in [b.fp16 for b in result.beside] or result.outputs}
            lost = any(_alters(usual[name], sqnr) for name, sqnr in now.items() if name in usual)
            outcome = Outcome(kind, lost, not result.passed, f"{layer}: {min(now.values(), default=0):.1f} dB")
        store(outcome)
        outcomes.append(outcome)
    return right, outcomes


def _alters(usual: float, now: float) -> bool:
    """Whether the change of an output has more than twice the amplitude of its rounding. Both in dB, of independent errors."""
    return 10 ** (-now / 10) > 10 ** (-usual / 10) * (1 + LEAST_AMPLITUDE**2)


def _store(path: Path | None, key: str, outcome: Outcome) -> None:
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps([key, *outcome]) + "\n")


def _stored(path: Path | None, key: str) -> list[Outcome]:
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path is not None and path.exists() else []
    return [Outcome(*row) for name, *row in rows if name == key]


@click.command()
@click.argument("networks", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--count", default=50, show_default=True, help="Changes of each network.")
@click.option("--seed", default=0, show_default=True)
@click.option("--quantization", type=click.IntRange(0, 1), default=0, show_default=True)
@click.option("--inputs", type=click.Path(path_type=Path))
@click.option("--store", type=click.Path(path_type=Path), help="Keeps the outcomes, so that the same call can go on.")
def main(
    networks: tuple[Path, ...], count: int, seed: int, quantization: int, inputs: Path | None, store: Path | None
) -> None:
    """Print the changes by kind, and each that verify misses."""
    made, mattering, found, false = Counter[str](), Counter[str](), Counter[str](), 0
    warnings.simplefilter("ignore")
    for number, path in enumerate(networks):
        config = replace(Config.of(path), quantization=bool(quantization), output_folder=Path("none"))
        with _fast():
            key = f"{path} {seed + number} {quantization}"
            right, outcomes = measure(
                config, count, seed + number, inputs, _stored(store, key), partial(_store, store, key)
            )
        false += not right.passed
        hits = sum(each.matters and each.found for each in outcomes)
        verdict = "passes" if right.passed else "FAILS"
        print(f"{path} {verdict}; {hits} of {sum(each.matters for each in outcomes)} changes are found", flush=True)
        for outcome in outcomes:
            made[outcome.change] += 1
            mattering[outcome.change] += outcome.matters
            found[outcome.change] += outcome.matters and outcome.found
            if outcome.matters and not outcome.found:
                print(f"  missed: {outcome.change}, {outcome.what}", flush=True)
    print(f"right networks that fail: {false} of {len(networks)}")
    print("| change | made | alter an output | found |")
    for kind in CHANGES:
        print(f"| {kind} | {made[kind]} | {mattering[kind]} | {found[kind]} |")
    print(f"| all | {made.total()} | {mattering.total()} | {found.total()} |")


if __name__ == "__main__":
    main()
