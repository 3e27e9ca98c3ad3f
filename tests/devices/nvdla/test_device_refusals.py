"""What a conversion for nvdla-full refuses, and what it warns of: each with a way out that works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cnn_convertor import Config
from cnn_convertor.board.kit import Inputs, write_kit
from cnn_convertor.config.request import Request
from cnn_convertor.devices.nvdla.accelerator import NvdlaAccelerator
from cnn_convertor.devices.nvdla.hardware import NvdlaHardware
from cnn_convertor.errors import ConvertorError, ConvertorWarning, Origin, UnsupportedError, UsageError
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.pipeline import plan, transform

MODEL = Path(__file__).parents[3] / "examples" / "digits_keras" / "digits.keras"


def config(**changes: Any) -> Config:
    fields: dict[str, Any] = {"device": "nvdla-full", "quantization": 0, **changes}
    return Config(definition=MODEL, **fields)


def test_a_layer_that_neither_nvdla_nor_the_cpu_computes() -> None:
    custom = Node("own", ops.Custom("Own", (), Shape(2, 2, 8)), ("x",), (Origin("net", "own", "Own"),))
    graph = Graph((Node("x", ops.Input(Shape(2, 2, 8))), custom), ("own",))
    with pytest.raises(ConvertorError) as refused:
        plan(graph, "net", NvdlaAccelerator(NvdlaHardware("nvdla-full")))
    (problem,) = refused.value.problems
    assert problem.code == "DV930" and problem.where == Origin("net", "own", "Own")
    assert "end the network before it" in problem.hint


KEYS = {"selftest": True, "python_module": "digits", "generate_doxy": True}


@pytest.mark.parametrize("key", KEYS)
def test_an_output_that_the_device_lacks(key: str) -> None:
    with pytest.raises(UsageError) as refused:
        transform(Request.of(config(**{key: KEYS[key]})))
    (problem,) = refused.value.problems
    assert problem.code == "DV934" and f"[OUTPUT] {key}: " in problem.message and f"{key} = " in problem.hint
    transform(Request.of(config()))


def test_palettes_that_the_device_lacks() -> None:
    with pytest.warns(ConvertorWarning, match="no palettes") as warned:
        transform(Request.of(config(quantization=1)))
    ((problem,),) = [each.message.problems for each in warned if isinstance(each.message, ConvertorWarning)]
    assert problem.code == "DV931" and problem.hint.startswith("quantization = 0")


def test_an_input_of_bytes() -> None:
    with pytest.raises(UnsupportedError) as refused:
        transform(Request.of(config(input="u8")))
    (problem,) = refused.value.problems
    assert problem.code == "DV431" and problem.hint == "set input = fp16 in [OUTPUT]"


def test_a_kit(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kit") as refused:
        write_kit(config(), tmp_path / "kit", Inputs())
    assert refused.value.problems[0].code == "DV934" and not (tmp_path / "kit").exists()


@pytest.mark.parametrize("size", ["ub_size", "max_kernel_size"])
def test_sizes_that_the_device_lacks(size: str) -> None:
    option = f"--{size.replace('_', '-')}"
    with pytest.raises(UsageError) as refused:
        NvdlaHardware("nvdla-full").overridden(**{size: 4096})
    (problem,) = refused.value.problems
    assert problem.code == "DV109" and problem.hint == f"leave {option} out"
