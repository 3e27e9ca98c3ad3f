"""Any definition gives a graph or errors with codes, never a traceback."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.caffe import schema
from cnn_convertor.frontends.caffe.layers import caffe as readers
from examples.caffemodel import write
from frontends.loading import load_caffe

LAYER = schema.message_type("LayerParameter").DESCRIPTOR
MESSAGES = {field.name: field.message_type for field in LAYER.fields if field.name.endswith("_param")}
WHOLE = st.integers(0, 5) | st.sampled_from([64, 2**31 - 1])
SIGNED = WHOLE | st.integers(-4, 4)
FRACTION = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0])


@st.composite
def fields(draw: st.DrawFn, message: Any, depth: int = 0) -> str:
    """Some of a message's fields, with values that are more or less likely."""
    described = list(message.fields)
    texts = []
    for field in draw(st.lists(st.sampled_from(described), max_size=4)) if described else ():
        if field.message_type is not None:
            texts.append(f"{field.name} {{ {draw(fields(field.message_type, depth + 1))} }}" if depth < 2 else "")
        elif field.enum_type is not None:
            texts.append(f"{field.name}: {draw(st.sampled_from([value.name for value in field.enum_type.values]))}")
        elif field.cpp_type == field.CPPTYPE_BOOL:
            texts.append(f"{field.name}: {draw(st.sampled_from(['true', 'false']))}")
        elif field.cpp_type == field.CPPTYPE_STRING:
            texts.append(f"{field.name}: 'a'")
        elif field.cpp_type == field.CPPTYPE_FLOAT:
            texts.append(f"{field.name}: {draw(FRACTION)}")
        else:
            unsigned = field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64)
            texts.append(f"{field.name}: {draw(WHOLE if unsigned else SIGNED)}")
    return " ".join(texts)


def parameters_of(type: str) -> list[str]:
    """The parameter messages that go with a type, by their names."""
    plain = type.lower().replace("depthwise", "").replace("deconv", "conv")
    return [name for name in MESSAGES if name.removesuffix("_param").replace("_", "") == plain]


@st.composite
def networks(draw: st.DrawFn) -> str:
    dims = draw(st.sampled_from(["2 4 6 5", "1 4 1 1", "1 8", "1 2 3", "1 -1 0 0"])).split()
    text = "input: 'x' input_shape { " + " ".join(f"dim: {dim}" for dim in dims) + " }\n"
    blobs = ["x"]
    for index in range(draw(st.integers(1, 4))):
        type = draw(st.sampled_from([*readers, "LRN", "Silence", "Accuracy"]))
        bottoms = draw(st.lists(st.sampled_from(blobs), min_size=1, max_size=draw(st.sampled_from([1, 1, 3]))))
        tops = draw(st.sampled_from([[f"b{index}"], [f"b{index}"], bottoms[:1], [f"b{index}", f"c{index}"]]))
        names = st.sampled_from([*parameters_of(type), *parameters_of(type), *MESSAGES])
        settings = [f"{name} {{ {draw(fields(MESSAGES[name]))} }}" for name in draw(st.lists(names, max_size=2))]
        ends = [f"bottom: '{name}'" for name in bottoms] + [f"top: '{name}'" for name in tops]
        text += f"layer {{ name: 'l{index}' type: '{type}' {' '.join(ends)} {' '.join(settings)} }}\n"
        blobs += tops
    return text


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("any") / "w"
    shapes: list[list[tuple[int, ...]]] = [[(4,)], [(4,), (4,)], [(4,), (4,), (1,)], [(4, 4, 1, 1), (4,)]]
    write(path, [(f"l{index}", "Any", [np.ones(s) for s in shape]) for index, shape in enumerate(shapes)])
    return path


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck))
@given(definition=networks())
def test_a_network_gives_a_graph_or_reasons(definition: str, weights: Path) -> None:
    path = weights.with_name("net.prototxt")
    path.write_text(definition)
    with warnings.catch_warnings(), contextlib.suppress(ConvertorError):
        warnings.simplefilter("ignore")
        graph = load_caffe(path, weights)
        assert all(graph.shape(name).size > 0 for name in graph.outputs)
