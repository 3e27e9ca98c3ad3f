"""For any source, the audit gives findings or refuses it; it never crashes."""

from __future__ import annotations

import tempfile
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.networks import Written, generate, networks
from cnn_convertor.audit import Audit
from cnn_convertor.errors import ModelError

PIECES = [
    "0", "1", "-1", "65535", "99999999999999999999", "0x8000", "sizeof(cmd)", "layer", "&layer", "*", "(", ")", "{", "}", "[",
    "]", ";", ",", ".", "->", "=", "<<", "/", "%", '"', "'", "/*", "//", "\\\n", "#if", "#define cmd ", "if (", "else", "return",
    "for", "get_layer(0)", "get_layer(9999999)", "set_num_layers(99999999);", "output_layers_[7]", "nullptr", "io_mem_",
    "Layer_0();", "void CNet::Layer_0() {", "LT_CONCAT", "LT_INPUT", "LT_SOFTMAX", "run[31]", "memset(&conf, 0, sizeof(conf));",
    "@", "\0", "é", "input_layer_num = 2000000000;", "topo = 0xffffffff;", "R\"(", "new", "::", "~",
]  # fmt: skip
EDITS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 30), st.sampled_from(PIECES) | st.text(max_size=4)),
    min_size=1,
    max_size=5,
)
NUMBERS = st.sampled_from([0, 1, 2, 3, 5, 7, 8, 16, 255, 256, 257, 0x101, 0x7FFF, 0x8000, 0xFFFF, 0xFFFFFFFF, 2**63])
HURRIED = settings(max_examples=80)


@cache
def written(name: str) -> Written:
    return generate(networks()[name], transposed=True)


def audited(changed: Written) -> Audit | None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return changed.audit(Path(folder))
        except ModelError:
            return None


@pytest.mark.slow
@HURRIED
@given(st.sampled_from(["residual", "two inputs", "CPU", "dilated"]), EDITS)
def test_a_damaged_source_is_audited_or_refused(name: str, edits: list[tuple[float, int, str]]) -> None:
    text = written(name).text
    for place, length, piece in edits:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + length :]
    text = text.encode("utf-8", "replace").decode()
    audited(written(name)._replace(text=text))


@pytest.mark.slow
@HURRIED
@given(st.sampled_from(["residual", "two inputs", "CPU", "dilated", "upwards"]), st.data())
def test_any_numbers_give_findings(name: str, data: st.DataObject) -> None:
    lines = written(name).text.split("\n")
    places = [
        i for i, line in enumerate(lines) if " = " in line and "&" not in line and "mem" not in line and '"' not in line
    ]
    for at in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=6)):
        field = lines[at].partition(" = ")[0]
        lines[at] = f"{field} = {data.draw(NUMBERS)};"
    result = audited(written(name)._replace(text="\n".join(lines)))
    assert result is not None
    assert result.listing


@pytest.mark.slow
@HURRIED
@given(st.sampled_from(["kernels", "dilated", "prelu"]), st.binary(min_size=1, max_size=40), st.floats(0, 1))
def test_any_weights_give_findings(name: str, piece: bytes, place: float) -> None:
    network = written(name)
    at = int(place * len(network.weights))
    assert (
        audited(network._replace(weights=network.weights[:at] + piece + network.weights[at + len(piece) :])) is not None
    )


@HURRIED
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
def test_any_text_behind_the_start_of_a_function_is_read_or_refused(text: str) -> None:
    body = text.encode("utf-8", "replace").decode()
    audited(Written(f"bool CNet::Initialize() {{ {body}", b""))


LONG = [
    "(", "{", 'if(a<b){"', "a<", "a<b,", "a*", "f(", "if(1)", "else ", ".a", "}", "int x = ", "int f(", "/*", "/*a*/", "'a'",
    'R"(', "#if 1\n", "#define A A A\nA ", "new ", "new a*", "\\\n", "\0", "\ufffd", "*; ", "***; ", "a[", "1,", "9",
    "if(1);else ", "a=", "a|", "~", "@; ",
]  # fmt: skip


@pytest.mark.parametrize("piece", LONG)
def test_long_text_takes_time_in_proportion(piece: str) -> None:
    """20,000 pieces take half a second of processor time; effort that grows with the square takes far more."""
    begin = time.process_time()
    audited(Written(f"bool CNet::Initialize() {{ int q; x{piece * 20_000}; }}", b""))
    audited(Written(piece * 20_000, b""))
    assert time.process_time() - begin < 5


def test_macros_that_grow_are_refused() -> None:
    lines = [f"#define A{i} A{i + 1} A{i + 1}\n" for i in range(40)]
    begin = time.process_time()
    audited(Written(f"{''.join(lines)}bool CNet::Initialize() {{ A0; A25; }}", b""))
    assert time.process_time() - begin < 5
