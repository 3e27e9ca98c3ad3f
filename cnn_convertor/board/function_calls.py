"""Calls of all C++ functions of CPU layers on maps of any size, to find what each costs."""

from __future__ import annotations

from typing import Final, NamedTuple

from cnn_convertor.codegen import render_text
from cnn_convertor.codegen.kernels import all_kernels, bundle


class Case(NamedTuple):
    """A call on maps with `rows` rows of 16 x 16. work: how many units it does for a row. rows: of both sizes."""

    call: str
    work: int = 256
    rows: tuple[int, int] = (2, 4)


_ARGUMENTS: Final = {
    "Swish": "1.0f",
    "HardSigmoid": "0.2f, 0.5f",
    "Gelu": "false",
    "ScaledElu": "1.6733f, 1.0507f",
    "Exponential": "1.0f, 0.0f",
    "Logarithm": "1.0f, 1.0f, 9.0f",
    "Power": "1.5f, 1.0f, 9.0f",
    "Threshold": "1.0f",
    "Clip": "0.0f, 6.0f",
    "BoundedRelu": "0.5f, 0.0f, 6.0f",
}
_UNARY_ROWS: Final = (16, 18)  # results are kept from 4096 elements on
_WINDOW: Final = "Window{3, 3, 1, 1, 1, 1, 1, 1}"
_DETECTION: Final = (
    "DetectionOutput(Tensor(io, 0, 1, 1, 256 * rows, kHalf), Tensor(io, 0, 1, 1, 256 * rows, kHalf), "
    "Tensor(io, kSecond, 256 * rows, 1, 2, kFloat), Tensor(io, kResult, 9, 7, 1, kFloat), "
    "4, 0, true, kCenterSize, false, 0.45f, 8, 1.0f, 7.9f, 9)"
)
_ALONG_CHANNELS: Final = "Axes{false, false, true}"
_IN_SQUARE: Final = "Axes{true, true, false}"
_VECTOR: Final = "Tensor(io, kResult, 1, 1, 16, kHalf)"
CALLS: Final = {
    "ArgMax": Case(f"ArgMax(x, Tensor(io, kResult, rows, 16, 1, kHalf), {_ALONG_CHANNELS}, 1, false, false)"),
    "AveragePool": Case(f"AveragePool(x, z, {_WINDOW}, Counted{{0, 0, 0, 0}}, 0.0f)", 9 * 256),
    "Concat": Case(f"Concat({{x, y}}, Tensor(io, kResult, rows, 16, 32, kHalf), {_ALONG_CHANNELS})", 512),
    "Crop": Case("Crop(x, z, Steps{0, 0, 0}, Steps{1, 1, 1})"),
    "Dense": Case(
        "Dense(Tensor(io, 0, 1, 1, 16 * rows, kHalf), Tensor(io, kSecond, 1, 1, 16 * 64 * rows, kHalf), "
        "Tensor(io, 0, 1, 1, 64, kHalf), Tensor(io, kResult, 1, 1, 64, kHalf))",
        16 * 64,
    ),
    "DetectionOutput": Case(_DETECTION),
    "Gather": Case("Gather(x, z, {}, {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, {}, 0.0f)"),
    "GlobalAverage": Case(f"AverageOfAll(x, {_VECTOR}, 0.0f)"),
    "L2Normalize": Case(f"L2Normalize(x, z, {_ALONG_CHANNELS}, 1e-6f, false)"),
    "LocalResponseNorm": Case("LocalResponseNorm(x, z, 5, 1e-4f, 0.75f, 1.0f, true)"),
    "MatMul": Case(
        "MatMul(Tensor(io, 0, 1, 16 * rows, 16, kHalf), Tensor(io, kSecond, 1, 16, 64, kHalf), "
        "Tensor(io, kResult, 1, 16 * rows, 64, kHalf), Matrices{1, 0, 1, 2}, Matrices{1, 0, 1, 2}, Matrices{1, 0, 1, 2}, 1.0f)",
        16 * 16 * 64,
    ),
    "MaxPool": Case(f"MaxPool(x, z, {_WINDOW})", 9 * 256),
    "MaxUnpool": Case("MaxUnpool(x, Tensor(io, kSecond, 2 * rows, 32, 16, kHalf), "
                      "Tensor(io, kResult, 2 * rows, 32, 16, kHalf), Window{2, 2, 2, 2, 1, 1, 0, 0})", 4 * 256),
    "MeanVarianceNorm": Case(f"MeanVarianceNorm(x, z, {_ALONG_CHANNELS}, 1, true, 1e-6f, false)"),
    "Nearest": Case("Resize(x, Tensor(io, kResult, 2 * rows, 32, 16, kHalf), false, kAsymmetric)", 4 * 256),
    "PriorBox": Case(
        "PriorBox(Tensor(io, kResult, 256 * rows, 1, 2, kFloat), 4 * rows, 4, 300.0f, 300.0f, {30.0f}, {60.0f}, {2.0f, 0.5f}, "
        "false, {0.1f, 0.1f, 0.2f, 0.2f}, 8.0f, 8.0f, 0.5f)",
        512,
    ),
    "Reduce": Case(f"Reduce(x, {_VECTOR}, {_IN_SQUARE}, kMean, 1.0f)"),
    "Resize": Case("Resize(x, Tensor(io, kResult, 2 * rows, 32, 16, kHalf), true, kHalfPixel)", 4 * 256),
    "Scale": Case("Scale(x, Tensor(io, 0, 1, 1, 16, kHalf), Tensor(io, 0, 1, 1, 16, kHalf), z)"),
    "Softmax": Case(f"Softmax(x, z, {_ALONG_CHANNELS})"),
    "SpaceToDepth": Case("SpaceToDepth(x, Tensor(io, kResult, rows / 2, 8, 64, kHalf), 2, 2, 0, 0)"),
    "TransposeReshape": Case(
        "TransposeReshape(x, Tensor(io, kResult, 16, rows, 16, kHalf), {rows, 16, 16}, {1, 0, 2}, false)"
    ),
}  # fmt: skip


def cases() -> dict[str, Case]:
    """Every function, by the name of its table's row."""
    rows = dict(CALLS)
    for function, struct in all_kernels().calls:
        if struct:
            maps = "x, z" if function == "Unary" else "x, y, z"
            sizes = _UNARY_ROWS if function == "Unary" else (2, 4)
            rows[struct] = Case(f"{function}({maps}, {struct}{{{_ARGUMENTS.get(struct, '')}}})", rows=sizes)
    return dict(sorted(rows.items()))


def functions_header() -> str:
    """A table of all functions in C++, with the functions."""
    values = {"kernels": bundle(dict.fromkeys(function for function, _ in all_kernels().calls)), "cases": cases()}
    return render_text("functions.h.j2", "a table of functions", values)
