"""Small networks, and what their exports must contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.config import Config
from cnn_convertor.errors import Origin
from cnn_convertor.export import Manifest, read
from cnn_convertor.export.parts import parts_of
from cnn_convertor.export.targets import target_of
from cnn_convertor.export.writing import write
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Window
from cnn_convertor.passes import optimize
from cnn_convertor.pipeline import load

ROOT = Path(__file__).resolve().parents[2]
DIGITS = [ROOT / "examples" / "digits_keras" / "net.ini", ROOT / "examples" / "digits_caffe" / "net.ini"]
CLDNN = "cldnn:os_is_yx_isv16_osv16,gs_oiyx_gsv16,b_fs_yx_fsv16"
MODES = ["nvdla-fp16:compressed", "nvdla-int8:image,winograd", "nvdla-int16:winograd,compressed,image"]
TARGETS = ["nvdla-fp16", "nvdla-int16", "nvdla-int8", *MODES, CLDNN, "bpu", "bpu:16", "bpu:x3", "dv700"]


def values(*shape: int, seed: int = 0) -> Constant:
    return Constant.of(np.random.default_rng([seed, *shape]).standard_normal(shape))


def network(*rows: tuple[str, ops.Op, tuple[str, ...]]) -> Graph:
    nodes = tuple(Node(name, op, inputs, (Origin("net", name, type(op).__name__),)) for name, op, inputs in rows)
    return Graph(nodes, (rows[-1][0],))


def conv(out: int, channels: int, side: int, *, groups: int = 1, slopes: bool = False) -> ops.Conv2d:
    function = ops.PRelu(values(out, seed=2)) if slopes else None
    weight = values(out, channels // groups, side, side)
    return ops.Conv2d(weight, values(out, seed=1), Window(Pair(side, side)), groups, function)


def write_for(target: str, graph: Graph, folder: Path) -> Manifest:
    kind = target_of(target)
    assert kind is not None
    write(kind.surfaces(tuple(parts_of(graph, {}))), "net", target, folder)
    return read(folder)


def expected(ini: Path) -> dict[tuple[str, str], NDArray[Any]]:
    """(node, role) -> the arrays of the optimized network's operators."""
    found: dict[tuple[str, str], NDArray[Any]] = {}
    for node in optimize(load(Config.read(ini))).nodes:
        op = node.op
        if isinstance(op, ops.Conv2d | ops.ConvTranspose2d | ops.Dense):
            found[node.name, "weights"] = op.weight.load()
            if op.bias is not None:
                found[node.name, "bias"] = op.bias.load()
        if isinstance(op, ops.Scale):
            found[node.name, "factor"] = op.factor.load()
            if op.shift is not None:
                found[node.name, "shift"] = op.shift.load()
        function = op.function if isinstance(op, ops.Activation) else getattr(op, "activation", None)
        if isinstance(function, ops.PRelu):
            found[node.name, "slopes"] = function.slopes.load()
    assert len(found) > 8
    return found


def key(entry: Any) -> tuple[str, str]:
    return entry.record["node"], entry.role


def dense(weight: NDArray[Any], groups: int) -> NDArray[Any]:
    """Kernels, zero for the channels of other groups."""
    out, per_group, *rest = weight.shape
    result = np.zeros((out, per_group * groups, *rest), weight.dtype)
    for k in range(out):
        first = k // (out // groups) * per_group
        result[k, first : first + per_group] = weight[k]
    return result
