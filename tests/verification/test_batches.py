"""Samples that are run in batches give the same results, to the last digit, as all at once."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.config import Config
from cnn_convertor.devices.dv700 import emulating
from cnn_convertor.samples import in_batches
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification import frameworks, keras_runner, onnx_runner, reference
from cnn_convertor.workers import cluster
from cnn_convertor.workers.cluster import Cluster
from cnn_convertor.workers.outcomes import Item, Outcome
from cnn_convertor.workers.processes import HERE
from verification.trials import config

pytestmark = pytest.mark.usefixtures("compiler")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAMPLES, BATCH = 20, 9  # a batch has at least the samples whose layers are kept
UNPOOLING = """
input: "x" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer { name: "pool" type: "Pooling" bottom: "x" top: "p" top: "m" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "y" type: "Upsample" bottom: "p" bottom: "m" top: "y" upsample_param { scale: 2 } }
"""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster of this process, with small batches."""

    def spread(
        work: Callable[[Any], Outcome[Any]], items: Sequence[Item[Any]], **_: object
    ) -> Iterator[tuple[int, Outcome[Any]]]:
        assert len(items) == -(-SAMPLES // BATCH)
        for number, item in reversed([*enumerate(items)]):
            yield number, pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(item.value)))))

    monkeypatch.setattr(cluster, "spread", spread)
    monkeypatch.setattr(reference, "in_batches", partial(in_batches, size=BATCH))
    monkeypatch.setattr(keras_runner, "BATCH", BATCH)
    return Cluster("tcp://elsewhere:1")


def unpooling(folder: Path) -> Config:
    path = folder / "net.prototxt"
    path.write_text(UNPOOLING)
    return config(path)


NETWORKS: Mapping[str, Callable[[Path], Config]] = {
    "Keras": lambda _: Config.read(EXAMPLES / "digits_keras" / "net.ini"),
    "Caffe": lambda _: replace(Config.read(EXAMPLES / "digits_caffe" / "net.ini"), quantization=False),
    "palettes": lambda _: replace(Config.read(EXAMPLES / "digits_caffe" / "net.ini"), quantization=True),
    "unpooling": unpooling,
}


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case == "Keras")) for case in NETWORKS]
)
def test_batches_give_what_the_whole_gives(case: str, elsewhere: Cluster, tmp_path: Path) -> None:
    if case == "Keras":
        pytest.importorskip("tensorflow")
    chosen = NETWORKS[case](tmp_path)
    whole, batches = (verify(chosen, samples=SAMPLES, on=on) for on in (HERE, elsewhere))
    assert whole.samples == SAMPLES and whole.framework == batches.framework
    assert batches.to_json() == whole.to_json()


def test_labels_count_in_all_batches(elsewhere: Cluster, tmp_path: Path) -> None:
    chosen, labels = NETWORKS["Caffe"](tmp_path), tmp_path / "labels"
    labels.write_text("".join(f"{number % 3}\n" for number in range(SAMPLES)))
    whole, batches = (verify(chosen, samples=SAMPLES, labels=labels, on=on) for on in (HERE, elsewhere))
    assert 0 < whole.accuracies[0].device < 1
    assert batches.to_json() == whole.to_json()


def test_a_process_prepares_once_for_all_batches(
    elsewhere: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(place: object, name: str) -> None:
        kept = getattr(place, name)

        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            return kept(*arguments, **options)

        monkeypatch.setattr(place, name, call)

    counted(frameworks, "opened")
    counted(emulating, "build")
    verify(NETWORKS["Caffe"](tmp_path), samples=SAMPLES, on=elsewhere)
    assert calls == ["build", "opened"]


@pytest.mark.slow
def test_a_model_is_read_once_for_all_batches(
    elsewhere: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the run, nothing keeps it in the memory of this process."""
    pytest.importorskip("onnxruntime")
    sessions: list[weakref.ref[Any]] = []

    def opened(*arguments: Any) -> Any:
        framework, session, ends = open_session(*arguments)
        sessions.append(weakref.ref(session))
        return framework, session, ends

    open_session = onnx_runner.open_session
    monkeypatch.setattr(onnx_runner, "open_session", opened)
    chosen = Config.read(EXAMPLES / "digits_pytorch" / "net.ini")
    batches = verify(chosen, samples=SAMPLES, on=elsewhere)
    (session,) = sessions
    gc.collect()
    assert session() is None
    assert batches.to_json() == verify(chosen, samples=SAMPLES).to_json()
