"""Random small networks of the frontends' operators: deterministic per seed; fewer steps give a part of the network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node, shape_of
from cnn_convertor.ir.ops import Axis, Order, Padding, Pair, Shape, Window

Real = NDArray[np.float64]

CHANNELS = [1, 3, 5, 8, 8, 16, 16, 24]
LARGEST = 4096  # elements of a map


def values(random: np.random.Generator, *shape: int, fan_in: int = 1) -> Constant:
    return Constant.of(random.normal(size=shape) / math.sqrt(fan_in))


def inputs_for(graph: Graph, seed: int = 0) -> dict[str, Real]:
    random = np.random.default_rng(seed)
    return {node.name: random.normal(size=graph.shape(node.name)) for node in graph.inputs}


def network(seed: int, steps: int, *, unpoolings: bool = False) -> Graph:
    """Up to `steps` layers, each after an input or an earlier layer, and their outputs.

    unpoolings: add layers that undo an earlier pool; their results depend on rounding, so not for the device's FP16.
    """
    maker = Maker(np.random.default_rng(seed))
    for _ in range(steps):
        if unpoolings and maker.chance(0.2) and maker.unpool():
            continue
        maker.step()
    return maker.graph()


def network_of_blocks(seed: int, steps: int) -> Graph:
    """Like `network`, with residual blocks, branches and slices, which may share commands."""
    maker = Maker(np.random.default_rng(seed))
    for _ in range(steps):
        make: list[Callable[[], object]] = [maker.step, maker.residual_block, maker.branches, maker.part]
        make[maker.choice([0, 0, 1, 2, 3])]()
    return maker.graph()


class Maker:
    """A network under construction."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {}
        for index in range(1 + (random.random() < 0.15)):
            side = int(random.integers(3, 10))
            width = side if random.random() < 0.5 else int(random.integers(3, 10))
            self.add(f"in{index}", ops.Input(Shape(side, width, self.choice(CHANNELS))))

    def choice(self, options: Sequence[int]) -> int:
        return options[int(self.random.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def add(self, name: str, op: ops.Op, *inputs: str) -> bool:
        """Add the node, if it fits and does not grow too large."""
        node = Node(name, op, inputs, (Origin("net", name, type(op).__name__),))
        try:
            shape = op.output_shape(*(self.shapes[i] for i in inputs))
        except ops.ShapeError:
            return False
        if shape.size > LARGEST:
            return False
        self.nodes.append(node)
        self.shapes[name] = shape_of(node, self.shapes)
        return True

    def some(self) -> str:
        """An earlier node, usually the last."""
        if self.chance(0.7):
            return self.nodes[-1].name
        return self.nodes[int(self.random.integers(len(self.nodes)))].name

    def step(self) -> None:
        source = self.some()
        kinds: list[tuple[float, Callable[[str], object]]] = [
            (5, self.convolution), (1.5, self.transposed), (0.7, self.dense), (3, self.max_pool), (2, self.average_pool),
            (1, self.upsample), (2, self.batch_norm), (1, self.scale), (4, self.activation), (2.5, self.sum), (3, self.concat),
            (1.5, self.pad), (1.5, self.reshape), (0.7, self.dense_to_map), (0.7, self.identity), (0.2, self.softmax), (2, self.on_cpu), (0.7, self.crop),
            (0.7, self.combine), (0.7, self.join),
        ]  # fmt: skip
        weights = np.array([weight for weight, _ in kinds])
        kinds[int(self.random.choice(len(kinds), p=weights / weights.sum()))][1](source)

    @property
    def name(self) -> str:
        return f"n{len(self.nodes)}"

    def kernel(self, most: int) -> Pair:
        side = int(self.random.integers(1, most + 1))
        return Pair(side, side) if self.chance(0.7) else Pair(side, int(self.random.integers(1, most + 1)))

    def stride(self) -> Pair:
        side = self.choice([1, 1, 1, 2, 3])
        return Pair(side, side) if self.chance(0.8) else Pair(side, self.choice([1, 2]))

    def padding(self, extent: Pair) -> Padding:
        """No padding, the same on all sides, or any smaller than the kernel."""
        match self.choice([0, 1, 1, 2]):
            case 0:
                return ops.NO_PADDING
            case 1:
                rows, columns = (extent.height - 1) // 2, (extent.width - 1) // 2
                return Padding(rows, rows, columns, columns)
            case _:
                rows, columns = extent.height, extent.width
                return Padding(*(int(self.random.integers(0, most)) for most in (rows, rows, columns, columns)))

    def convolution(self, source: str) -> bool:
        shape = self.shapes[source]
        window = Window(self.kernel(5), self.stride())
        if self.chance(0.25):
            window = window._replace(dilation=Pair(self.choice([1, 2, 2, 3]), self.choice([1, 2, 2, 3])))
        window = window._replace(padding=self.padding(window.extent))
        groups, out = self.grouping(shape.channels)
        weight = self.weight(out, shape.channels // groups, window)
        return self.add(self.name, ops.Conv2d(weight, self.maybe(out, 0.6), window, groups), source)

    def grouping(self, channels: int) -> tuple[int, int]:
        """Groups and output channels: plain, depthwise, with a depth multiplier, in groups."""
        match self.choice([0, 0, 0, 1, 2, 3]):
            case 1:
                return channels, channels
            case 2:
                return channels, 2 * channels
            case 3 if channels % 2 == 0:
                return 2, 2 * self.choice([1, 4, 8])
            case _:
                return 1, self.choice(CHANNELS)

    def weight(self, out: int, per_group: int, window: Window) -> Constant:
        area = window.kernel.height * window.kernel.width
        return values(self.random, out, per_group, *window.kernel, fan_in=per_group * area)

    def maybe(self, size: int, probability: float) -> Constant | None:
        return values(self.random, size) if self.chance(probability) else None

    def transposed(self, source: str) -> bool:
        shape = self.shapes[source]
        window = Window(self.kernel(4), self.stride())
        if self.chance(0.15):
            window = window._replace(dilation=Pair(2, 2))
        window = window._replace(padding=self.padding(window.extent))
        groups, out = self.grouping(shape.channels)
        more = Pair(*(int(self.random.integers(0, s)) for s in window.stride))
        op = ops.ConvTranspose2d(
            self.weight(out, shape.channels // groups, window), self.maybe(out, 0.6), window, more, groups
        )
        return self.add(self.name, op, source)

    def dense(self, source: str) -> bool:
        """On the map, or on the map that was flattened in one order or the other."""
        shape = self.shapes[source]
        out = self.choice([*CHANNELS, 40])
        if self.chance(0.5):
            order = Order.HWC if self.chance(0.5) else Order.CHW
            self.add(self.name, ops.Reshape(Shape(1, 1, shape.size), order), source)
            source, shape = self.nodes[-1].name, Shape(1, 1, shape.size)
        weight = values(self.random, out, shape.channels, shape.height, shape.width, fan_in=shape.size)
        return self.add(self.name, ops.Dense(weight, self.maybe(out, 0.6)), source)

    def dense_to_map(self, source: str) -> bool:
        """Flatten, fully connected, reshape: the middle of an autoencoder."""
        height, width, channels = self.choice([1, 2, 3]), self.choice([2, 3, 4]), self.choice([1, 3, 8, 16, 12])
        before, after = self.shapes[source], Shape(height, width, channels)
        weight = values(self.random, after.size, before.channels, before.height, before.width, fan_in=before.size)
        self.add(self.name, ops.Dense(weight, self.maybe(after.size, 0.6)), source)
        if self.chance(0.4):
            function = ops.PRelu(values(self.random, after.size)) if self.chance(0.5) else ops.Relu(0.1)
            self.add(self.name, ops.Activation(function), self.nodes[-1].name)
        order = Order.HWC if self.chance(0.5) else Order.CHW
        return self.add(self.name, ops.Reshape(after, order), self.nodes[-1].name)

    def max_pool(self, source: str) -> bool:
        window = Window(self.kernel(self.choice([2, 3, 3, 6])), self.stride())
        if self.chance(0.15):
            window = Window(Pair(*self.shapes[source][:2]))
        return self.add(self.name, ops.MaxPool2d(window._replace(padding=self.padding(window.kernel))), source)

    def unpool(self) -> bool:
        """Undo one of the max pools, usually with values derived from its result."""
        pools = [node for node in self.nodes if isinstance(node.op, ops.MaxPool2d)]
        if not pools:
            return False
        pool = pools[int(self.random.integers(len(pools)))]
        fitting = [name for name, shape in self.shapes.items() if shape == self.shapes[pool.name]]
        assert isinstance(pool.op, ops.MaxPool2d)
        return self.add(self.name, ops.MaxUnpool(pool.op.window), self.choice_of(fitting), pool.inputs[0])

    def average_pool(self, source: str) -> bool:
        window = Window(self.kernel(self.choice([3, 3, 9])), self.stride())
        if self.chance(0.3):
            window = Window(Pair(*self.shapes[source][:2]))
            return self.add(self.name, ops.AveragePool2d(window), source)
        window = window._replace(padding=self.padding(window.kernel))
        uncounted = self.padding(window.kernel) if self.chance(0.1) else ops.NO_PADDING
        if any(
            a + b >= k
            for a, b, k in zip(
                window.padding, uncounted, [*[window.kernel.height] * 2, *[window.kernel.width] * 2], strict=True
            )
        ):
            uncounted = ops.NO_PADDING
        factor = 0.3 if self.chance(0.2) else None
        return self.add(self.name, ops.AveragePool2d(window, uncounted, factor), source)

    def upsample(self, source: str) -> bool:
        factors = [Pair(2, 2), Pair(2, 2), Pair(3, 3), Pair(4, 4), Pair(2, 3), Pair(1, 2), Pair(1, 1)]
        return self.add(self.name, ops.Upsample(factors[int(self.random.integers(len(factors)))]), source)

    def batch_norm(self, source: str) -> bool:
        channels = self.shapes[source].channels
        variance = Constant.of(self.random.uniform(0.5, 2, channels))
        op = ops.BatchNorm(
            values(self.random, channels), variance, self.maybe(channels, 0.7), self.maybe(channels, 0.7), 1e-3
        )
        return self.add(self.name, op, source)

    def scale(self, source: str) -> bool:
        channels = self.shapes[source].channels
        factor = Constant.of(np.full(channels, 0.5)) if self.chance(0.4) else values(self.random, channels)
        return self.add(self.name, ops.Scale(factor, self.maybe(channels, 0.5)), source)

    def activation(self, source: str) -> bool:
        functions: list[ops.Function] = [
            ops.Relu(), ops.Relu(), ops.Relu(), ops.Relu(0.25), ops.Relu(-0.5), ops.Relu6(), ops.Elu(), ops.Sigmoid(), ops.Tanh(),
            ops.PRelu(values(self.random, self.shapes[source].channels)),
            ops.PRelu(Constant.of(self.random.uniform(0, 1, self.shapes[source].channels))),
        ]  # fmt: skip
        return self.add(self.name, ops.Activation(functions[int(self.random.integers(len(functions)))]), source)

    def sum(self, source: str) -> bool:
        """With an earlier map of the same size, with itself, or with a branch made for it."""
        shape = self.shapes[source]
        others = [name for name, s in self.shapes.items() if s == shape]
        other = others[int(self.random.integers(len(others)))]
        if self.chance(0.4):
            weight = values(self.random, shape.channels, shape.channels, 1, 1, fan_in=shape.channels)
            other, name = self.name, self.name
            self.add(name, ops.Conv2d(weight, None, Window(ops.ONE)), source)
        return self.add(self.name, ops.Add(), source, other)

    def concat(self, source: str) -> bool:
        """Earlier maps of the same size, perhaps one of them twice, perhaps a network input."""
        others = [name for name, s in self.shapes.items() if s[:2] == self.shapes[source][:2]]
        if self.chance(0.8):  # maps that can be concatenated in place
            others = [name for name in others if self.shapes[name].channels % 8 == 0] or others
        parts = [others[int(self.random.integers(len(others)))] for _ in range(self.choice([1, 2, 2, 3]))]
        return self.add(self.name, ops.Concat(), *parts)

    def pad(self, source: str) -> bool:
        return self.add(self.name, ops.Pad(Padding(*(int(self.random.integers(0, 3)) for _ in range(4)))), source)

    def reshape(self, source: str) -> bool:
        shape = self.shapes[source]
        order = Order.HWC if self.chance(0.6) else Order.CHW
        options = [
            Shape(1, 1, shape.size), shape, Shape(shape.height * shape.width, 1, shape.channels),
            Shape(1, shape.height * shape.width, shape.channels), Shape(shape.width, shape.height, shape.channels),
        ]  # fmt: skip
        if shape.channels % 2 == 0:
            options.append(Shape(shape.height, shape.width * 2, shape.channels // 2))
        return self.add(self.name, ops.Reshape(options[int(self.random.integers(len(options)))], order), source)

    def identity(self, source: str) -> bool:
        return self.add(self.name, ops.Identity(), source)

    def softmax(self, source: str) -> bool:
        return self.add(self.name, ops.Softmax(), source)

    def on_cpu(self, source: str) -> bool:
        """Operators without device commands that keep values bounded."""
        height, width, channels = self.shapes[source]
        options: list[ops.Op] = [
            ops.Unary(ops.Swish()), ops.Unary(ops.HardSigmoid(0.2, 0.5)), ops.Unary(ops.Gelu()), ops.Unary(ops.Clip(-1, 1)),
            ops.LocalResponseNorm(3, 0.5, 0.75), ops.LocalResponseNorm(3, 0.5, 0.75, across_channels=False),
            ops.MeanVarianceNorm((Axis.CHANNELS,), 0.1), ops.MeanVarianceNorm((Axis.HEIGHT, Axis.WIDTH), 0.1),
            ops.L2Normalize((Axis.CHANNELS,), 0.1), ops.Reduce(ops.Reduction.MEAN, (Axis.HEIGHT, Axis.WIDTH)),
            ops.Reduce(ops.Reduction.MAXIMUM, (Axis.CHANNELS,)), ops.Softmax(Axis.HEIGHT),
            ops.Resize(Pair(height + 2, width), ops.Interpolation.BILINEAR, ops.Sampling.HALF_PIXEL),
            ops.TransposeReshape((height, width, channels), (1, 2, 0), Shape(width, channels, height), Order.HWC),
            ops.SpaceToDepth(Pair(2, 2), Padding(0, height % 2, width % 2, 0)),
            ops.Reshape(Shape(channels, height, width), Order.CHW),
        ]  # fmt: skip
        return self.add(self.name, options[int(self.random.integers(len(options)))], source)

    def crop(self, source: str) -> bool:
        """A part of a map, usually some of its channels."""
        shape = self.shapes[source]
        first = int(self.random.integers(0, shape.channels)) // 8 * 8 if self.chance(0.7) else 0
        last = shape.channels if self.chance(0.7) else first + 1
        start = Shape(0, 0, first) if self.chance(0.7) else Shape(shape.height // 2, 0, first)
        return self.add(self.name, ops.Crop(start, Shape(shape.height, shape.width, last)), source)

    def combine(self, source: str) -> bool:
        """With an earlier map, or with one number per channel."""
        shape = self.shapes[source]
        fitting = [n for n, s in self.shapes.items() if all(a in (b, 1) for a, b in zip(s, shape, strict=True))]
        kinds = [ops.BinaryOp.MAXIMUM, ops.BinaryOp.MINIMUM, ops.BinaryOp.ADD, ops.BinaryOp.SUBTRACT]
        return self.add(self.name, ops.Binary(kinds[int(self.random.integers(4))]), source, self.choice_of(fitting))

    def join(self, source: str) -> bool:
        """Maps of the same size, along any axis."""
        shape, axis = self.shapes[source], Axis(int(self.random.integers(3)))
        others = [name for name, s in self.shapes.items() if all(s[a] == shape[a] for a in Axis if a != axis)]
        return self.add(self.name, ops.Concat(axis), source, self.choice_of(others))

    def layers(self, source: str, most: int) -> str:
        """Up to `most` convolutions and activations in a row; the name of the last."""
        for _ in range(int(self.random.integers(0, most + 1))):
            made = len(self.nodes)
            (self.convolution if self.chance(0.6) else self.activation)(source)
            source = self.nodes[-1].name if len(self.nodes) > made else source
        return source

    def part(self) -> None:
        self.crop(self.some())

    def residual_block(self) -> None:
        """The sum of a map and a few layers of it."""
        source = self.some()
        shape, end = self.shapes[source], self.layers(source, 3)
        fan_in = self.shapes[end].channels
        window = Window(ops.ONE)
        if self.add(
            self.name, ops.Conv2d(values(self.random, shape.channels, fan_in, 1, 1, fan_in=fan_in), None, window), end
        ):
            end = self.nodes[-1].name
        if self.shapes[end] == shape:
            self.add(self.name, ops.Add(), *((end, source) if self.chance(0.5) else (source, end)))
            self.layers(self.nodes[-1].name, 1)

    def branches(self) -> None:
        """A concatenation of branches of a few layers from one map."""
        source = self.some()
        ends = [self.layers(source, 2) for _ in range(self.choice([2, 3, 4]))]
        ends = [end for end in ends if self.shapes[end][:2] == self.shapes[ends[0]][:2]]
        self.add(self.name, ops.Concat(), *ends)

    def choice_of(self, names: Sequence[str]) -> str:
        return names[int(self.random.integers(len(names)))]

    def graph(self) -> Graph:
        read = {name for node in self.nodes for name in node.inputs}
        names = [node.name for node in self.nodes]
        inputs = {node.name for node in self.nodes if isinstance(node.op, ops.Input)}
        ends = [name for name in names if name not in read and name not in inputs] or names[-1:]
        more = [name for name in names if name in read and self.chance(0.06)]
        return Graph(tuple(self.nodes), tuple(ends + more))
