"""For any source, the audit gives findings or refuses it; it never crashes."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.networks import Written, generate, networks
from cnn_convertor.audit import Audit, audit
from cnn_convertor.audit.recorded import Recording
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
HURRIED = settings(max_examples=25)  # each compiles


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
@pytest.mark.rotating(turns=4)
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
@pytest.mark.rotating(turns=4)
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


START = "class CNet : public CDMP_Network { public: bool Initialize() override; };\nbool CNet::Initialize() {"


def refused(text: str, folder: Path) -> str:
    """Why a source is refused. It takes few seconds, and leaves no file behind."""
    begin, before = resource.getrusage(resource.RUSAGE_CHILDREN), sorted(folder.iterdir())
    (folder / "Net_gen.cpp").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ModelError) as refusal:
        audit(folder / "Net_gen.cpp", None)
    (folder / "Net_gen.cpp").unlink()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - begin.ru_utime - begin.ru_stime < 20
    assert sorted(folder.iterdir()) == before
    (problem,) = refusal.value.problems
    assert problem.code in {"DV600", "DV602"} and problem.hint
    return problem.message


# What a hostile source does, and a piece of the message.
HOSTILE = {
    "an endless loop": ("for (;;) {}", "does not end"),
    "an endless recursion": ("Initialize();", "crashes"),
    "a huge array": ("static char a[1ull << 40]; a[0] = 1;", ""),
    "a huge array of ones": ("static char a[1 << 30] = {1}; a[0] = 1;", ""),
    "a huge array on the stack": ("volatile char a[1 << 30]; a[0] = 1;", "crashes"),
    "a program": ('int system(const char *); system("touch here");', "crashes: undefined reference"),
    "a fork bomb": ("int fork(); for (;;) fork();", "crashes: undefined reference"),
    "an endless record": ("for (;;) get_layer(-1);", "more than any network needs"),
    "an endless template": ("struct A { template <int N> static int f() { return f<N + 1>(); } };", ""),
    "a pointer to anywhere": ("*reinterpret_cast<volatile int *>(64) = 1;", "crashes"),
    "another end": ("__builtin_trap();", "crashes"),
    "the recorder by its name": ("recording::flush();", "poisoned"),
    "a damaged record": ("char *here = reinterpret_cast<char *>(this); for (;;) *here++ = 1;", "crashes"),
    "assembler": ('__asm__("syscall");', "poisoned"),
    "assembler in pieces": ('\n#define JOIN(a, b) a##b\nJOIN(as, m)("nop");', "opens no other files"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_source_is_refused_within_seconds(name: str, tmp_path: Path) -> None:
    statement, why = HOSTILE[name]
    assert why in refused(f"{START} {statement} return true; }}", tmp_path)


@pytest.mark.parametrize("values", [{}, {"calls": 1}, {"calls": [], "layers": [{"index": "a"}], "succeeds": True}])
def test_a_forged_record_is_refused(values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that writes anywhere in its memory can make any record."""
    forged = Recording("CNet", (), values, ())
    monkeypatch.setattr("cnn_convertor.audit.sources.recording_of", lambda _: forged)
    assert "damages its record" in refused(START, tmp_path)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are those of x86-64")
def test_a_call_of_the_system_ends_the_program(tmp_path: Path) -> None:
    """A constant in the code that is itself code: 0F 05 is a system call."""
    code = "volatile unsigned long long x = 0xC3050F39B0ull; x = x;"  # mov al, 57 (fork); syscall; ret
    find = (
        "unsigned char *at = reinterpret_cast<unsigned char *>(reinterpret_cast<void *(*)()>(&other));"
        " while (at[0] != 0xB0 || at[1] != 0x39 || at[2] != 0x0F) ++at; reinterpret_cast<void (*)()>(at)();"
    )
    text = START.replace("bool CNet::Initialize", f"static void other() {{ {code} }}\nbool CNet::Initialize")
    assert "calls the operating system" in refused(f"{text} {find} return true; }}", tmp_path)


# Ways to name a file that the compiler would open.
OPENS = [
    '#include "/etc/passwd"', "#include </dev/zero>", '#include "pipe"', '#include "../x_gen.h"', '#import "pipe"',
    '#inc\\\nlude "pipe"', '%:include "pipe"', '# /* x\n */ include "pipe"', '#\0include "pipe"', '#include_next "pipe"',
    '#define PIPE "pipe"\n#include PIPE', '#pragma GCC dependency "pipe"', '_Pragma("GCC dependency \\"pipe\\"")',
    '#if __has_include("pipe")\n#endif', '#define HAS(a, b) a##b\n#if HAS(__has_, include)("pipe")\n#endif',
    '__asm__(".incbin \\"pipe\\"");', '/*\n// */ #include "pipe"', '/* x\n */ #include "pipe"', '\v#include "pipe"',
    "int a = 1'0; // 1'0\n#include \"pipe\"", "int a = 1'0 + '\"'; int b = '\"';\n#include \"pipe\"",
    'const char *a = R"(\n// )"; _Pragma("GCC dependency \\"pipe\\"")',
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("line", OPENS)
def test_no_file_that_a_source_names_is_opened(
    line: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opens the pipe waits for ever. An #include in the usual form is left out, as the runtime's are."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("CXX", compiler)
    os.mkfifo(tmp_path / "pipe")
    line = line.replace("pipe", str(tmp_path / "pipe"))
    source = tmp_path / "Net_gen.cpp"
    source.write_text(f"{line}\n// {compiler}\n{START} return true; }}", encoding="utf-8")
    try:
        assert "is never called" in audit(source, None).findings[0].message
    except ModelError as error:
        (problem,) = error.problems
        assert problem.code == "DV602"
        assert "opens no other files" in problem.message or "poisoned" in problem.message


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("line", OPENS)
def test_a_comment_opens_no_file(line: str, tmp_path: Path) -> None:
    """Nor does a string."""
    comment = "// " + line.replace("\\\n", "").replace("\n", "\n// ")
    text = f"{comment}\n{START} const char *name = {json.dumps(line)}; return true; }}"
    (tmp_path / "Net_gen.cpp").write_text(text, encoding="utf-8")
    assert "is never called" in audit(tmp_path / "Net_gen.cpp", None).findings[0].message


def test_a_header_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Net_gen.h")
    assert "pipe or a device" in refused(f'#include "Net_gen.h"\n{START} }}', tmp_path)


LONG = [
    "(",
    "{",
    'if(a<b){"',
    "a<",
    "a*",
    "f(",
    "if(1)",
    "}",
    "int x = ",
    "/*",
    "'a'",
    "#if 1\n",
    "new ",
    "\\\n",
    "; ",
    "9",
    "~",
]


@pytest.mark.parametrize("piece", LONG)
def test_long_text_takes_seconds(piece: str, tmp_path: Path) -> None:
    refused(f"{START} int q; x{piece * 20_000}; }}", tmp_path)


def test_macros_that_grow_are_refused(tmp_path: Path) -> None:
    lines = [f"#define A{i} A{i + 1} A{i + 1}\n" for i in range(40)]
    refused(f"{''.join(lines)}{START} A0; }}", tmp_path)
