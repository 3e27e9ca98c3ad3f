"""Networks with maps that no command has convert, and compute what onnxruntime does."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.emulating import install_data
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.errors import ConvertorError
from cnn_convertor.pipeline import build, load
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.compare import sqnr
from end_to_end.long_maps import ARCHITECTURES, random_network
from frontends.onnx.networks import to_map

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("compiler"),
    pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning"),
]

AT_LEAST_DB = 40.0
LEAST = 100  # random networks


@pytest.mark.rotating
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_large_architectures(name: str, transposed: bool, tmp_path: Path) -> None:
    model = ARCHITECTURES[name](tmp_path / "net.onnx")
    result = verify(configured(model, transposed=transposed), samples=1, min_sqnr=AT_LEAST_DB)
    assert result.passed, result


def configured(model: Path, *, transposed: bool) -> Config:
    ini = model.with_suffix(".ini")
    source = f"[INPUT]\nname = net\ndefinition = {model.name}\n"
    ini.write_text(f"{source}[OUTPUT]\noutput_folder = output\ntranspose_weight = {int(transposed)}\n")
    return Config.read(ini)


def outcome(seed: int, folder: Path) -> str:
    """passed, the codes of a refusal, or the seed of a network that differs, with its dB."""
    model = random_network(seed, folder / "net.onnx")
    config = configured(model, transposed=seed % 2 == 0)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (image,) = session.get_inputs()
    x = np.random.default_rng(seed).standard_normal(image.shape).astype(np.float16).astype(np.float32)
    (expected,) = session.run(None, {"x": x})
    try:
        graph = load(config)
        network = install_data(graph, build(graph, config), folder / str(seed), device=DV700)
    except ConvertorError as error:
        return f"{seed}: {', '.join(sorted({problem.code for problem in error.problems}))}"
    ratio = sqnr(network.run({"x": to_map(x)[None].astype(np.float32)}).outputs[0], to_map(expected)[None])
    return "passed" if ratio >= AT_LEAST_DB else f"{seed}: {ratio:.1f} dB"


@pytest.mark.rotating(turns=4)
def test_random_long_maps(random_seeds: range, tmp_path: Path) -> None:
    seeds = range(random_seeds.start, random_seeds.start + max(len(random_seeds), LEAST))
    outcomes = Counter(outcome(seed, tmp_path) for seed in seeds)
    logging.getLogger(__name__).info("%s", dict(outcomes.most_common()))
    assert set(outcomes) == {"passed"}
