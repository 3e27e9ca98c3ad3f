"""Nodes on constants that normalize, multiply and sum, and functions with attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cnn_convertor.errors import UnsupportedError
from cnn_convertor.frontends.onnx.folding import SIMPLIFY, Folding, folds
from cnn_convertor.frontends.onnx.stored import Numbers

SELU = (1.6732632423543772, 1.0507009873554805)


def erf(x: Numbers) -> Numbers:
    """The error function, for each element in FP64."""
    values = map(math.erf, x.astype(np.float64).reshape(-1).data)
    return np.fromiter(values, np.float64, x.size).reshape(x.shape).astype(x.dtype)


def _gelu(x: Numbers, approximate: bytes) -> Numbers:
    if approximate == b"tanh":
        return np.asarray(x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return np.asarray(x / 2 * (1 + erf(x / math.sqrt(2))))


def _shrunk(x: Numbers, lambd: float, bias: float) -> Numbers:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


def _elu(x: Numbers, alpha: float) -> Numbers:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


# Type -> its function of x and its attributes, with the defaults of these.
SCALARS: Mapping[str, tuple[Callable[..., Numbers], Mapping[str, Any]]] = {
    "Erf": (erf, {}),
    "Elu": (_elu, {"alpha": 1.0}),
    "Selu": (lambda x, alpha, gamma: gamma * _elu(x, alpha), {"alpha": SELU[0], "gamma": SELU[1]}),
    "Celu": (lambda x, alpha: alpha * _elu(x / alpha, 1.0), {"alpha": 1.0}),
    "LeakyRelu": (lambda x, alpha: np.where(x > 0, x, alpha * x), {"alpha": 0.01}),
    "HardSigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), {}),
    "Softsign": (lambda x: x / (1 + np.abs(x)), {}),
    "Mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), {}),
    "Swish": (lambda x, alpha: x * np.exp(-np.logaddexp(0, -alpha * x)), {"alpha": 1.0}),
    "Gelu": (_gelu, {"approximate": b"none"}),
    "ThresholdedRelu": (lambda x, alpha: np.where(x > alpha, x, 0), {"alpha": 1.0}),
    "Shrink": (_shrunk, {"lambd": 0.5, "bias": 0.0}),
}


@folds(*SCALARS)
def _scalar(folding: Folding) -> Numbers:
    function, defaults = SCALARS[folding.node.type]
    attributes = {name: folding.attribute(name, value) for name, value in defaults.items()}
    return np.asarray(function(folding[0], **attributes)).astype(folding[0].dtype)


@folds("PRelu")
def _prelu(folding: Folding) -> Numbers:
    folding.budget.check(np.broadcast_shapes(folding[0].shape, folding[1].shape))
    return np.where(folding[0] > 0, folding[0], folding[0] * folding[1])


# --- normalizations ------------------------------------------------------------------------------------------------------


def _per_channel(values: Numbers, x: Numbers) -> Numbers:
    return values.reshape(-1, *(1,) * (x.ndim - 2))


@folds("BatchNormalization")
def _batch_norm(folding: Folding) -> list[Numbers]:
    x, gamma, beta, mean, variance = (folding[at] for at in range(5))
    epsilon = folding.attribute("epsilon", 1e-5)
    momentum = folding.attribute("momentum", 0.9)
    # Before version 14 of the operators, more outputs were what made it the form of training.
    if folding.attribute("training_mode", int(folding.opset < 14 and len(folding.node.outputs) > 1)):
        axes = (0, *range(2, x.ndim))
        now = x.mean(axes, dtype=np.float64)
        spread = x.var(axes, dtype=np.float64)
        later = [mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum)]
    else:
        now = mean
        spread = variance
        later = [mean, variance]
    factor = gamma / np.sqrt(spread + epsilon)
    results = [x * _per_channel(factor, x) + _per_channel(beta - now * factor, x), *later]
    return [np.asarray(values).astype(x.dtype) for values in results]


@folds("LayerNormalization")
def _layer_norm(folding: Folding) -> Numbers:
    x = folding[0]
    axes = tuple(range(folding.attribute("axis", -1) % x.ndim, x.ndim))
    mean = x.mean(axes, keepdims=True, dtype=np.float64)
    variance = x.var(axes, keepdims=True, dtype=np.float64)
    result = (x - mean) / np.sqrt(variance + folding.attribute("epsilon", 1e-5)) * folding[1]
    shift = folding.get(2)
    if shift is not None:
        result = result + shift
    return np.asarray(result).astype(x.dtype)


@folds("Softmax", "LogSoftmax")
def _softmax(folding: Folding) -> Numbers:
    x = folding[0]
    axis = folding.attribute("axis", -1 if folding.opset >= 13 else 1)
    axes = axis if folding.opset >= 13 else tuple(range(axis % x.ndim, x.ndim))
    shifted = x - x.max(axes, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axes, keepdims=True))
    return np.asarray(logarithms if folding.node.type == "LogSoftmax" else np.exp(logarithms))


# --- products and sums ---------------------------------------------------------------------------------------------------


@folds("Gemm")
def _gemm(folding: Folding) -> Numbers:
    a = folding[0].T if folding.attribute("transA", 0) else folding[0]
    b = folding[1].T if folding.attribute("transB", 0) else folding[1]
    folding.budget.check([a.shape[0], b.shape[1]])
    folding.budget.spend_products(a.size * b.shape[1], a.dtype)
    product = np.matmul(a, b) * np.asarray(folding.attribute("alpha", 1.0), a.dtype)
    c = folding.get(2)
    beta = np.asarray(folding.attribute("beta", 1.0), a.dtype)
    return np.asarray(product if c is None else product + c * beta)


@folds("Conv")
def _pointwise(folding: Folding) -> Numbers:
    """A convolution with kernels of one element, as XCiT and EdgeNeXt project embeddings of positions."""
    x = folding[0]
    weights = folding[1]
    bias = folding.get(2)
    steps = folding.attribute("strides", ())
    is_pointwise = {*weights.shape[2:], *steps, folding.attribute("group", 1)} == {1}
    if not is_pointwise or any(folding.attribute("pads", ())):
        problem = "of the convolutions of constants, only those of single elements are computed in advance"
        raise UnsupportedError.of("DV302", problem, folding.node.where, SIMPLIFY)
    folding.budget.check([x.shape[0], weights.shape[0], *x.shape[2:]])
    folding.budget.spend_products(x.size * weights.shape[0], x.dtype)
    matrix = weights.reshape(weights.shape[:2])
    result = np.moveaxis(np.tensordot(matrix, x, (1, 1)), 0, 1)
    if bias is not None:
        result = result + _per_channel(bias, x)
    return np.asarray(result)


@folds("Einsum")
def _einsum(folding: Folding) -> Numbers:
    equation = folding.attribute("equation", b"").decode("ascii", errors="replace").replace(" ", "")
    arrays = [folding[at] for at in range(len(folding.inputs))]
    terms = equation.partition("->")[0].split(",")
    if "." in equation:
        raise UnsupportedError.of("DV302", "an Einsum with an ellipsis cannot be converted", folding.node.where)
    if len(terms) != len(arrays):
        raise ValueError(f"{equation} does not fit {len(arrays)} inputs")
    lengths: dict[str, int] = {}
    for term, array in zip(terms, arrays, strict=True):
        lengths.update(zip(term, array.shape, strict=True))
    folding.budget.check(list(lengths.values()))
    return np.asarray(np.einsum(equation, *arrays))


def _log_sum_exp(x: Numbers, axes: tuple[int, ...], keeps: bool) -> Numbers:
    highest = x.max(axes, keepdims=True)
    total = np.log(np.exp(x - highest).sum(axes, keepdims=True)) + highest
    return np.asarray(total if keeps else np.squeeze(total, axes))


NORMS: Mapping[str, Callable[..., Numbers]] = {
    "ReduceL1": lambda x, axes, keeps: np.abs(x).sum(axes, keepdims=keeps),
    "ReduceL2": lambda x, axes, keeps: np.sqrt(np.square(x).sum(axes, keepdims=keeps)),
    "ReduceSumSquare": lambda x, axes, keeps: np.square(x).sum(axes, keepdims=keeps),
    "ReduceLogSum": lambda x, axes, keeps: np.log(x.sum(axes, keepdims=keeps)),
    "ReduceLogSumExp": _log_sum_exp,
}


@folds(*NORMS)
def _norm(folding: Folding) -> Numbers:
    x = folding[0]
    axes = folding.integers("axes", 1)
    if not axes:  # with noop_with_empty_axes each number alone
        axes = [] if folding.attribute("noop_with_empty_axes", 0) else list(range(x.ndim))
    kept = bool(folding.attribute("keepdims", 1))
    return np.asarray(NORMS[folding.node.type](x, tuple(axes), kept)).astype(x.dtype)
