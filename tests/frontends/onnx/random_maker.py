"""A random ONNX model under construction, in the form of a random operator set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="networks are written with the onnx package")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

OPSETS = range(7, min(onnx.defs.onnx_opset_version(), 26) + 1)
LARGEST = 6000  # elements of an array
# The opset from which a type exists, or broadcasts, where 7 has it not.
SINCE = {"Attention": 23, "Celu": 12, "Erf": 9, "Expand": 8, "Gelu": 20, "GroupNormalization": 18, "HardSwish": 14, "LayerNormalization": 17,
         "Max": 8, "Mean": 8, "MeanVarianceNormalization": 9, "Min": 8, "Mish": 18, "Sum": 8, "Swish": 24,
         "ThresholdedRelu": 10}  # fmt: skip
NEGATIVE = 11  # the opset from which axes and indices may be negative
DEQUANTIZE = 10
OLD_FILES = 9  # files of older opsets are written in the form of their time


class Tensor(NamedTuple):
    name: str
    dims: tuple[int, ...]


class Maker:
    """A model under construction. parameters: constants that are nodes, and the nodes that make other constants of them."""

    def __init__(self, seed: int, largest: int = LARGEST) -> None:
        self.largest = largest
        self.random = np.random.default_rng(seed)
        self.opset = int(self.pick(OPSETS))
        self.parameters: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.count = 0
        side = int(self.random.integers(4, 13))
        width = side if self.chance(0.5) else int(self.random.integers(4, 13))
        sizes = (side, width) if self.chance(0.85) else (side * 2,)
        channels = self.pick((1, 3, 4, 8, 12))
        self.inputs = [Tensor(name, (1, channels, *sizes)) for name in ("x", "z")[: 2 if self.chance(0.15) else 1]]
        self.tensors = list(self.inputs)

    # --- parts

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def has(self, type: str) -> bool:
        return self.opset >= SINCE.get(type, 0)

    def axis(self, x: Tensor, axis: int) -> int:
        """The axis, or the same counted from the end."""
        return axis - len(x.dims) if self.opset >= NEGATIVE and self.chance(0.3) else axis

    def normal(self, *dims: int, by: float = 1.0, at: float = 0.0) -> str:
        return self.parameter((at + self.random.standard_normal(dims) / by).astype(np.float32))

    def positive(self, *dims: int) -> str:
        return self.parameter(self.random.uniform(0.5, 1.5, dims).astype(np.float32))

    def integers(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def parameter(self, values: Any) -> str:
        """A constant as it is, or as FP16, FP64 or 8-bit integers, which a node turns into FP32."""
        match int(self.random.integers(16)):
            case 0 | 1 as double:
                stored = self.constant(values.astype(np.float64 if double else np.float16))
                return self._made_of("Cast", stored, to=onnx.TensorProto.FLOAT)
            case 2 if self.opset >= DEQUANTIZE:
                stored = self.constant((values * 32).clip(-128, 127).astype(np.int8))
                return self._made_of("DequantizeLinear", stored, self.constant(np.float32(1 / 32)))
            case _:
                return self.constant(values)

    def _made_of(self, type: str, *inputs: str, **attributes: Any) -> str:
        name = f"p{len(self.parameters)}"
        self.parameters.append(helper.make_node(type, inputs, [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        """The name of an initializer, or of a node that gives the same."""
        name = f"c{len(self.constants) + len(self.parameters)}"
        array = numpy_helper.from_array(np.asarray(values), name)
        if self.chance(0.15):
            self.parameters.append(helper.make_node("Constant", [], [name], value=array))
        else:
            self.constants.append(array)
        return name

    def add(self, type: str, *inputs: str, **attributes: Any) -> Tensor | None:
        """Append a node, unless the onnx package finds it wrong, or it makes too much."""
        made = self.add_all(type, inputs, 1, **attributes)
        return made[0] if made else None

    def add_all(self, type: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[Tensor]:
        """Append a node of several outputs; none as in `add`."""
        self.count += 1
        names = [f"y{self.count}" if outputs == 1 else f"y{self.count}.{at}" for at in range(outputs)]
        node = helper.make_node(type, inputs, names, **attributes)
        dims = self._dims_of(node)
        if not all(each and min(each) >= 1 and math.prod(each) <= self.largest for each in dims):
            return []
        self.nodes.append(node)
        made = [Tensor(name, each) for name, each in zip(names, dims, strict=True)]
        self.tensors.extend(made)
        return made

    def add_computed(self, type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node that computes a shape; it is right in all opsets."""
        self.count += 1
        self.nodes.append(helper.make_node(type, inputs, [f"y{self.count}"], **attributes))
        return f"y{self.count}"

    def add_since(self, opset: int, type: str, x: str, settings: Mapping[str, Any], **attributes: Any) -> Tensor | None:
        """Append a node whose settings are inputs from an opset on, and attributes before it. None: left out."""
        if self.opset < opset:
            return self.add(
                type, x, **{name: value for name, value in settings.items() if value is not None}, **attributes
            )
        inputs = ["" if value is None else self.constant(_array(value)) for value in settings.values()]
        return self.add(type, x, *inputs, **attributes)

    def _dims_of(self, node: Any) -> list[tuple[int, ...]]:
        """Those of a node's outputs; empty ones if the node is wrong."""
        outputs = [info(name, None) for name in node.output]
        context = onnx.checker.C.CheckerContext()
        context.ir_version, context.opset_imports = onnx.IR_VERSION, {"": self.opset}
        try:
            onnx.checker.check_node(node, context)
            model = self._model([*self.nodes, node], outputs)
            made = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError):
            return [()]
        return [tuple(dim.dim_value for dim in output.type.tensor_type.shape.dim) for output in made]

    def _model(self, nodes: Sequence[Any], outputs: Sequence[Any], *, open_batch: bool = False) -> Any:
        nodes = [*self.parameters, *nodes]
        used = {name for node in nodes for name in node.input}
        inputs = [info(x.name, ("N", *x.dims[1:]) if open_batch else x.dims) for x in self.inputs]
        constants = [array for array in self.constants if array.name in used]
        old = self.opset < OLD_FILES
        if old:  # such files list the constants among the inputs
            inputs += [helper.make_tensor_value_info(c.name, c.data_type, c.dims) for c in constants]
        graph = helper.make_graph(nodes, "net", inputs, outputs, constants)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=3 if old else 8 if self.opset < 21 else 10)

    def model(self) -> Any:
        """Its outputs are the values that no node reads."""
        used = {name for node in self.nodes for name in node.input}
        ends = [x.name for x in self.tensors[len(self.inputs) :] if x.name not in used]
        self.inputs = [x for x in self.inputs if x.name in used]
        return self._model(self.nodes, [info(name, None) for name in ends], open_batch=self.chance(0.1))


def _array(value: Any) -> Any:
    return np.float32(value) if isinstance(value, float) else np.array(value, np.int64)


def info(name: str, dims: Sequence[int | str] | None) -> Any:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
