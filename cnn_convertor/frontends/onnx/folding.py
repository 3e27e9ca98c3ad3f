"""Computes what does not depend on the network's input: shapes, sizes, and weights that the graph transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from cnn_convertor.errors import ModelError, UnsupportedError
from cnn_convertor.frontends.onnx.compute_budget import DEAR, ComputeBudget, TooMuchError
from cnn_convertor.frontends.onnx.model import Attribute, OnnxNode
from cnn_convertor.frontends.onnx.quant_params import quant_params_of
from cnn_convertor.frontends.onnx.stored import Numbers, Stored
from cnn_convertor.frontends.onnx.tensors import BFLOAT16, TYPES, as_bfloat16

SIMPLIFY = "simplify the model: pip install onnxsim, then onnxsim model.onnx simple.onnx"


@dataclass(frozen=True, slots=True)
class Folding:
    """A node on constants. inputs: None for one that is left out. taken: the attributes that have been asked for."""

    node: OnnxNode
    inputs: tuple[Numbers | None, ...]
    opset: int
    budget: ComputeBudget
    taken: set[str] = field(default_factory=set)

    def attribute(self, name: str, default: Any = None) -> Any:
        self.taken.add(name)
        return self.node.attributes.get(name, default)

    def __getitem__(self, position: int) -> Numbers:
        array = self.get(position)
        if array is None:
            raise ValueError(f"input {position} is missing")
        return array

    def get(self, position: int) -> Numbers | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def integers(self, name: str, position: int) -> list[int] | None:
        """An attribute of old opsets that became an input."""
        value = self.attribute(name)
        if value is None:
            return None if self.get(position) is None else [int(n) for n in self.indices(position).reshape(-1)]
        listed = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(n, int) for n in listed):
            raise ValueError(f"{name} are not integers")
        return list(listed)

    def indices(self, position: int) -> Numbers:
        """An input of integers."""
        if self[position].dtype.kind not in "iu":
            raise ValueError(f"input {position} does not hold integers")
        return self[position]


Fold: TypeAlias = Callable[[Folding], Numbers | Sequence[Numbers]]

FOLDS: dict[str, Fold] = {}


def folds(*types: str) -> Callable[[Fold], Fold]:
    def enter(function: Fold) -> Fold:
        FOLDS.update(dict.fromkeys(types, function))
        return function

    return enter


# Attributes of types that are only computed here, beside those that their functions always ask for.
OTHERS = frozenset(["end", "noop_with_empty_axes", "round_mode", "saturate", "start", "stash_type"])


def check_attributes(node: OnnxNode, attributes: Collection[str]) -> None:
    """Raises UnsupportedError if the node has other attributes than these."""
    if unknown := [name for name in node.attributes if name not in attributes]:
        plural = "s" * (len(unknown) > 1)
        problem = f"the attribute{plural} {', '.join(unknown)} cannot be converted"
        raise UnsupportedError.of("DV302", problem, node.where, "remove it if the results stay the same")


def fold(
    node: OnnxNode,
    inputs: Sequence[Stored | None],
    opset: int,
    budget: ComputeBudget,
    attributes: Collection[str] = OTHERS,
) -> list[Stored]:
    """The outputs of a node whose inputs are all constants. attributes: those that the node may have.

    Raises UnsupportedError for a type or an attribute that is not computed here, or for what takes too long, ModelError for
    inputs that do not fit.
    """
    if node.type == "Constant":
        return [constant_of(node)]
    function = FOLDS.get(node.type)
    if function is None:
        problem = "the node works on constants only, and is not among those that are computed in advance"
        raise UnsupportedError.of("DV302", problem, node.where, SIMPLIFY)
    taken: set[str] = set()
    different = {id(x): x for x in inputs if x is not None}

    def computed(budget: ComputeBudget) -> list[Numbers]:
        loaded = {key: x.load() for key, x in different.items()}
        arrays = tuple(loaded.get(id(x)) for x in inputs)
        try:
            with np.errstate(all="ignore"):
                result = function(Folding(node, arrays, opset, budget, taken))
        except (ValueError, IndexError, TypeError, ArithmeticError, KeyError, AttributeError, MemoryError) as error:
            raise ModelError.of(
                "DV206", f"the node cannot be computed: {error}", node.where, "export it again"
            ) from None
        results = [result] if isinstance(result, (np.ndarray, np.generic)) else result
        if len(results) < len(node.outputs):
            problem = f"output {len(results)} of a node of this type cannot be computed in advance"
            raise UnsupportedError.of("DV302", problem, node.where)
        return [np.asarray(values) for values in results]

    def output(position: int) -> Callable[[], Numbers]:
        return lambda: computed(replace(budget, left=math.inf))[position]  # each use has been paid for

    before = budget.left
    try:
        budget.spend(sum(x.cost for x in different.values()))
        results = computed(budget)
        check_attributes(node, taken.union(attributes))
        budget.spend_elements(DEAR.get(node.type, 1) * sum(values.size for values in results))
    except TooMuchError:
        problem = "the constants up to this node take too long to compute"
        raise UnsupportedError.of("DV302", problem, node.where, SIMPLIFY) from None
    return [Stored.computed(output(at), values, before - budget.left) for at, values in enumerate(results)]


# --- element by element --------------------------------------------------------------------------------------------------


def _divided(x: Numbers, y: Numbers) -> Numbers:
    if x.dtype.kind not in "iu":
        return np.asarray(x / y)
    if not np.all(y):
        raise ValueError("a division of integers by zero")
    quotient = np.abs(x) // np.abs(y)
    return np.asarray(quotient * np.sign(x) * np.sign(y)).astype(x.dtype)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divided,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Neg": np.negative,
    "Abs": np.abs,
    "Sign": np.sign,
    "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal,
    "Exp": np.exp,
    "Log": np.log,
    "Sigmoid": lambda x: (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype),
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Softplus": lambda x: np.logaddexp(x, 0),
    "Not": np.logical_not,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Xor": np.logical_xor,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "BitwiseNot": np.bitwise_not,
    "IsNaN": np.isnan,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Identity": lambda x: x,
    "Pow": lambda x, y: np.power(x, y).astype(x.dtype),
}


@folds(*FUNCTIONS)
def _function(folding: Folding) -> Numbers:
    arguments = [x for x in folding.inputs if x is not None]
    function = FUNCTIONS[folding.node.type]
    if isinstance(function, np.ufunc) and function.nin != len(arguments):  # it would write to one more
        raise ValueError(f"{len(arguments)} inputs")
    folding.budget.check(np.broadcast_shapes(*(x.shape for x in arguments)))
    return np.asarray(function(*arguments))


@folds("Where")
def _where(folding: Folding) -> Numbers:
    arguments = [folding[position] for position in range(3)]
    folding.budget.check(np.broadcast_shapes(*(x.shape for x in arguments)))
    return np.where(*arguments)


@folds("MatMul")
def _product(folding: Folding) -> Numbers:
    x, y = folding[0], folding[1]
    dims = [*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ())]
    folding.budget.check(dims)
    folding.budget.spend_products(math.prod(dims) * x.shape[-1], x.dtype)
    return np.asarray(np.matmul(x, y))


@folds("Max", "Min", "Sum", "Mean")
def _variadic(folding: Folding) -> Numbers:
    arrays = [x for x in folding.inputs if x is not None]
    folding.budget.check(np.broadcast_shapes(*(x.shape for x in arrays)))
    if folding.node.type in ("Max", "Min"):
        function = np.maximum if folding.node.type == "Max" else np.minimum
        result = arrays[0]
        for x in arrays[1:]:
            result = function(result, x)
        return np.asarray(result)
    total = sum(arrays[1:], start=arrays[0])
    return np.asarray(total if folding.node.type == "Sum" else total / len(arrays))


@folds("Mod")
def _modulo(folding: Folding) -> Numbers:
    folding.budget.check(np.broadcast_shapes(folding[0].shape, folding[1].shape))
    return np.asarray((np.fmod if folding.attribute("fmod", 0) else np.mod)(folding[0], folding[1]))


@folds("Clip")
def _clip(folding: Folding) -> Numbers:
    low = folding.attribute("min", folding.get(1))
    high = folding.attribute("max", folding.get(2))
    folding.budget.check(np.broadcast_shapes(*(np.shape(x) for x in (folding[0], low, high) if x is not None)))
    return np.asarray(np.clip(folding[0], low, high))


@folds("Dropout")
def _dropout(folding: Folding) -> list[Numbers]:
    training = folding.get(2)
    if training is not None and training.any():
        problem = "a dropout in training mode gives random results"
        raise UnsupportedError.of("DV302", problem, folding.node.where, "export the model for inference")
    return [folding[0], np.ones(folding[0].shape, np.bool_)]


@folds("Cast")
def _cast(folding: Folding) -> Numbers:
    to = folding.attribute("to")
    return as_bfloat16(folding[0]) if to == BFLOAT16 else folding[0].astype(TYPES[to])


@folds("CastLike")
def _cast_like(folding: Folding) -> Numbers:
    return folding[0].astype(folding[1].dtype)


@folds("DequantizeLinear")
def _dequantize(folding: Folding) -> Numbers:
    x, scale = folding[0], folding[1]
    steps = quant_params_of(x.shape, scale, folding.get(2), folding.node.attributes, x.dtype)
    return steps.numbers(x).astype(scale.dtype)


@folds("QuantizeLinear")
def _quantize(folding: Folding) -> Numbers:
    x, scale = folding[0], folding[1]
    steps = quant_params_of(x.shape, scale, folding.get(2), folding.node.attributes)
    limits = np.iinfo(steps.type)
    numbers = np.rint(x / steps.scale.astype(scale.dtype)) + steps.zero
    return np.asarray(np.clip(numbers, limits.min, limits.max).astype(steps.type))


# --- parts and shapes ----------------------------------------------------------------------------------------------------


def constant_of(node: OnnxNode) -> Stored:
    """The value of a Constant node, from the only one of its attributes."""
    match tuple(node.attributes.items()):
        case (("value", Stored() as stored),):
            return stored
        case (("value_float" | "value_floats", float() | tuple() as numbers),):
            return Stored.of(np.array(numbers, np.float32))
        case (("value_int" | "value_ints", int() | tuple() as numbers),):
            return Stored.of(np.array(numbers, np.int64))
        case given:
            names = ", ".join(name for name, _ in given) or "no attribute"
            raise UnsupportedError.of("DV302", f"a constant given as {names} cannot be converted", node.where)


@folds("ConstantOfShape")
def _filled(folding: Folding) -> Numbers:
    value: Attribute | None = folding.attribute("value")
    filling = value.load().reshape(-1)[0] if isinstance(value, Stored) else np.float32(0)
    dims = [int(n) for n in folding.indices(0)]
    folding.budget.check(dims)
    return np.full(dims, filling)


@folds("Range")
def _range(folding: Folding) -> Numbers:
    start, limit, delta = (folding[position].reshape(-1)[0] for position in range(3))
    if not delta:
        raise ValueError("a step of 0")
    folding.budget.check([max(math.ceil((float(limit) - float(start)) / float(delta)), 0)])
    return np.arange(start, limit, delta, dtype=folding[0].dtype)


@folds("Shape")
def _shape(folding: Folding) -> Numbers:
    return shape_part(folding.node, folding[0].shape)


def shape_part(node: OnnxNode, dims: Sequence[int]) -> Numbers:
    """What a Shape node gives for an input of these dims."""
    start = node.attributes.get("start", 0)
    end = node.attributes.get("end", len(dims))
    if not isinstance(start, int) or not isinstance(end, int):
        raise ModelError.of("DV206", "start or end is not an integer", node.where, "export it again")
    return np.array(dims[start:end], np.int64)


@folds("Size")
def _size(folding: Folding) -> Numbers:
    return np.array(folding[0].size, np.int64)


@folds("Gather")
def _gather(folding: Folding) -> Numbers:
    x = folding[0]
    indices = folding.indices(1)
    axis = folding.attribute("axis", 0)
    folding.budget.check([math.prod(x.shape) // max(x.shape[axis], 1), indices.size])
    return np.asarray(np.take(x, indices.astype(np.intp), axis=axis))


@folds("Slice")
def _slice(folding: Folding) -> Numbers:
    x = folding[0]
    starts = folding.integers("starts", 1)
    ends = folding.integers("ends", 2)
    if starts is None or ends is None:
        raise ValueError("the bounds are missing")
    axes = folding.integers("axes", 3) or range(len(starts))
    steps = folding.integers("steps", 4) or [1] * len(starts)
    keys = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        keys[axis] = slice_of(start, end, step, x.shape[axis])
    return x[tuple(keys)]


def slice_of(start: int, end: int, step: int, size: int) -> slice:
    """A Slice along one axis as Python's: both count from the end where negative, and are cut to the axis."""
    if step == 0:
        raise ValueError("a step of 0")
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = min(max(start + size if start < 0 else start, 0), high)
    last = min(max(end + size if end < 0 else end, low), high if step > 0 else size)
    return slice(first, None if last < 0 else last, step)


@folds("Split")
def _split(folding: Folding) -> list[Numbers]:
    x = folding[0]
    axis = folding.attribute("axis", 0)
    sizes = split_sizes(folding.integers("split", 1), x.shape[axis], len(folding.node.outputs))
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def split_sizes(stated: Sequence[int] | None, size: int, count: int) -> list[int]:
    """The lengths of a Split's outputs: equal where none are stated, the last one possibly shorter."""
    if stated is not None:
        return list(stated)
    part = -(-size // count)
    sizes = [min(part, size - part * at) for at in range(count)]
    if min(sizes) < 1:
        raise ValueError(f"{size} elements do not make {count} parts")
    return sizes


@folds("Concat")
def _concat(folding: Folding) -> Numbers:
    arrays = [x for x in folding.inputs if x is not None]
    folding.budget.check([sum(x.size for x in arrays)])
    return np.concatenate(arrays, axis=folding.attribute("axis", 1))


@folds("Unsqueeze")
def _unsqueeze(folding: Folding) -> Numbers:
    return np.expand_dims(folding[0], tuple(folding.integers("axes", 1) or ()))


@folds("Squeeze")
def _squeeze(folding: Folding) -> Numbers:
    axes = folding.integers("axes", 1)
    return np.squeeze(folding[0], None if axes is None else tuple(axes))


@folds("Reshape")
def _reshape(folding: Folding) -> Numbers:
    target = folding.integers("shape", 1)
    if target is None:
        raise ValueError("the shape is missing")
    return folding[0].reshape(reshaped(folding[0].shape, target, zero_is_zero=bool(folding.attribute("allowzero", 0))))


def reshaped(dims: Sequence[int], shape: Sequence[int], *, zero_is_zero: bool = False) -> tuple[int, ...]:
    """The dims after a Reshape. Raises ValueError when the numbers of elements differ."""
    new = [dims[at] if n == 0 and not zero_is_zero else n for at, n in enumerate(shape)]
    product = math.prod(n for n in new if n != -1)
    if new.count(-1) == 1 and product:
        new[new.index(-1)] = math.prod(dims) // product
    if min(new, default=1) < 0 or math.prod(new) != math.prod(dims):
        raise ValueError(f"{'x'.join(map(str, dims))} cannot become {'x'.join(map(str, shape))}")
    return tuple(new)


@folds("Flatten")
def _flatten(folding: Folding) -> Numbers:
    return folding[0].reshape(flattened(folding[0].shape, folding.attribute("axis", 1)))


def flattened(dims: Sequence[int], axis: int) -> tuple[int, int]:
    """The two axes after a Flatten."""
    at = axis + len(dims) if axis < 0 else axis
    return math.prod(dims[:at]), math.prod(dims[at:])


@folds("Transpose")
def _transpose(folding: Folding) -> Numbers:
    return np.transpose(folding[0], folding.attribute("perm"))


@folds("Expand")
def _expand(folding: Folding) -> Numbers:
    dims = np.broadcast_shapes(folding[0].shape, tuple(int(n) for n in folding.indices(1)))
    folding.budget.check(dims)
    return np.broadcast_to(folding[0], dims)


@folds("Tile")
def _tile(folding: Folding) -> Numbers:
    times = [int(n) for n in folding.indices(1)]
    folding.budget.check([n * t for n, t in zip(folding[0].shape, times, strict=True)])
    return np.tile(folding[0], times)


REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceMean": np.mean,
}


@folds(*REDUCTIONS)
def _reduce(folding: Folding) -> Numbers:
    x = folding[0]
    axes = folding.integers("axes", 1)
    if not axes and folding.attribute("noop_with_empty_axes", 0):
        return x
    kept = bool(folding.attribute("keepdims", 1))
    reduced = REDUCTIONS[folding.node.type](x, axis=tuple(axes) if axes else None, keepdims=kept)
    return np.asarray(reduced).astype(x.dtype)
