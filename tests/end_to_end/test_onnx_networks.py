"""ONNX networks on the emulated device, judged by onnxruntime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cnn_convertor.config import Config
from cnn_convertor.trials import verify

onnx = pytest.importorskip("onnx", reason="the networks come with the onnx package")
pytest.importorskip("onnxruntime", reason="onnxruntime judges the results")

from benchmarks import onnx_light  # noqa: E402  # it needs the onnx package

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

AT_LEAST_DB = 45.0


@pytest.mark.parametrize(("name", "transposed"), [("light_squeezenet", False), ("light_shufflenet", True)])
def test_networks_of_the_onnx_package(name: str, transposed: bool, tmp_path: Path) -> None:
    config = replace(Config.read(onnx_light.write(name, tmp_path)), transpose_weight=transposed)
    result = verify(config, samples=1, layers=True, min_sqnr=AT_LEAST_DB)
    assert result.passed and result.first_jump is None
    assert len(result.layers) >= 30
