"""The page of supported layers says what the readers do: traced in their sources, compared with what they do when they run."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from cnn_convertor.devices.dv700.commands import layer_type
from cnn_convertor.frontends import readers as registry
from cnn_convertor.frontends.builder import Builder
from cnn_convertor.frontends.caffe import importer as caffe
from cnn_convertor.frontends.keras import importer as keras
from cnn_convertor.frontends.tracing import trace
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from tools.layers_page import FRAMEWORKS, OPERATORS, PLACES, RUNS, Entry, entries, manual, words_of

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_is_fresh(golden: Callable[[str, str], None]) -> None:
    golden("../../docs/layers.md", manual())


def test_every_type_is_on_the_page() -> None:
    page = manual()
    for framework in FRAMEWORKS:
        assert len(list(framework.registry)) > 20
        assert [type for type in framework.registry if f"`{type}`" not in page] == []


def test_every_type_makes_something_somewhere() -> None:
    for framework in FRAMEWORKS:
        for entry in entries(framework):
            assert entry.makes and entry.runs and set(entry.runs) <= set(PLACES), entry.type


# --- what is traced ------------------------------------------------------------------------------------------------------


class Reading:
    """As a frontend's."""

    def pair(self, name: str, short: str) -> None:
        self.settings.take(name)
        for side in ("h", "w"):
            self.settings.take(f"{short}_{side}")

    def axis(self, name: str = "axis") -> Any:
        self.settings.take(name)
        return ops.Reshape(ops.Shape(1, 1, 1), ops.Order.HWC)

    def unsupported(self, reason: str) -> Exception:
        return ValueError(reason)

    def check(self) -> None:
        raise self.unsupported("said of every layer")

    settings: Any
    type: str


def reader(reading: Any) -> None:
    reading.pair("kernel_size", "kernel")
    reading.axis()
    reading.axis("end_axis")
    reading.check()
    if reading.layer.type == "A":
        reading.settings.take("of_a")
        reading.add(ops.Identity())
    else:
        _other(reading, "of_others")
    made = ops.Softmax() if reading.layer.type != "A" else TABLE[reading.layer.type]()
    raise reading.unsupported(f"{made} of {reading.layer} cannot be converted")


def _other(reading: Any, name: str) -> None:
    first, reading.last = ("x", "y")
    reading.settings.take("x" if name else "y")
    reading.settings.take(name)
    reading.settings.take(first)


TABLE = {"A": ops.Relu, "B": ops.Relu6}


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    from cnn_convertor.frontends import tracing

    monkeypatch.setattr(tracing, "PACKAGE", __name__)
    return lambda type, apart={}: trace(reader, type, [Reading], apart)


def test_settings_are_followed_through_arguments_loops_and_defaults(traced: Any) -> None:
    common = ["kernel_size", "kernel_h", "kernel_w", "axis", "end_axis"]
    assert list(traced("A").settings) == [*common, "of_a"]
    assert list(traced("B").settings) == [*common, "x", "y", "of_others"]


def test_operators_are_those_of_the_type(traced: Any) -> None:
    assert list(traced("A").made) == [ops.Identity, ops.Relu]
    assert list(traced("C").made) == [ops.Softmax]


def test_what_methods_make_is_told_apart(traced: Any) -> None:
    assert list(traced("A").arranged) == [ops.Reshape]


def test_refusals_are_told_with_dots_for_values(traced: Any) -> None:
    assert list(traced("A").refused) == ["... of ... cannot be converted"]


def test_what_is_told_apart_is_not_followed(traced: Any) -> None:
    assert "of_others" not in traced("B", {_other: "others"}).settings
    assert "others" in traced("B", {_other: "others"}).settings


# --- against what happens ------------------------------------------------------------------------------------------------


class Seen:
    """What readers take and make while networks are read, by layer type."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings: dict[str, set[str]] = defaultdict(set)
        self.made: dict[str, set[str]] = defaultdict(set)
        self._type = ""
        take, add, read = registry.Settings.take, Builder.add, Builder.read

        def note_type(builder: Any, inputs: Any, reading: Any, placeholder: Any, *more: Any) -> Any:
            self._type = placeholder[1].type
            return read(builder, inputs, reading, placeholder, *more)

        def note_taken(settings: Any, name: str, *default: Any) -> Any:
            self.settings[self._type].add(name)
            return take(settings, name, *default)

        def note_added(builder: Any, name: str, op: Any, inputs: Any, origin: Any) -> str:
            self.made[self._type].add(words_of(type(op)))
            return add(builder, name, op, inputs, origin)

        monkeypatch.setattr(Builder, "read", note_type)
        monkeypatch.setattr(registry.Settings, "take", note_taken)
        monkeypatch.setattr(Builder, "add", note_added)

    def compare(self, documented: tuple[Entry, ...], common: set[str]) -> int:
        """Whatever was seen must be documented; gives the number of types that were seen."""
        by_type = {entry.type: entry for entry in documented}
        seen = [type for type in self.made if type in by_type]
        for type in seen:
            entry = by_type[type]
            inner = by_type["Activation"].makes if "activation" in entry.settings else ()
            allowed = {*entry.makes, *entry.arranges, *inner, "input", "activation", "unary"}
            assert self.made[type] <= allowed, type
            assert self.settings[type] - common <= set(entry.settings), type
        return len(seen)


def test_what_caffe_readers_do_is_documented(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    for definition in sorted(shared.glob("vectors/caffe/*/deploy.prototxt")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            caffe.read(definition, None)
    assert seen.compare(entries(FRAMEWORKS[0]), set()) > 15


def test_what_keras_readers_do_is_documented(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    for file in [*ROOT.glob("examples/digits_keras/*.[hk]*5*"), *ROOT.glob("examples/digits_keras/*.keras")]:
        keras.read(file, file)
    for file in shared.glob("models/*keras*/*.[hk]*5*"):
        keras.read(file, file)
    # `dtype` is looked at after every layer; an activation's own settings are told with the type Activation.
    inner = {"dtype", "alpha", "negative_slope", "max_value", "threshold", "axis"}
    assert seen.compare(entries(FRAMEWORKS[1]), inner) > 10


# --- where operators run -------------------------------------------------------------------------------------------------

FITTED = {"OnCpu", "ChannelSlice", "ArraySoftmax"}  # made when a graph is fitted to a device: no reader makes them


@pytest.mark.parametrize("operator", sorted(OPERATORS - set(RUNS), key=str), ids=words_of)
def test_what_has_no_place_of_its_own_is_left_to_the_cpu(operator: type) -> None:
    if operator.__name__ in FITTED or operator is ops.Softmax:
        return
    graph = Graph((Node("x", ops.Input(ops.Shape(1, 1, 8))),), ("x",))
    with pytest.raises(AssertionError, match="left to the CPU"):
        layer_type(graph, Node("a", object.__new__(operator), ("x",)))


def test_the_operators_with_a_place_are_operators() -> None:
    assert set(RUNS) <= OPERATORS == set(get_args(ops.Op))
    assert set(RUNS.values()) <= set(PLACES)
