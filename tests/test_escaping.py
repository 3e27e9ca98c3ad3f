"""No text from a model escapes from the comment, string or name in which it is written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn_convertor import escaping

HOSTILE = [
    'a*/ "b"\n',
    "??/",
    "???/",
    "????/",
    "what??!",
    "ends with a backslash\\",
    "ends with a backslash and a space\\ ",
    "??/ ",
    "*/ int x; /*",
    "/*/",
    "//",
    "\u202ereversed\u2066",
    "\u2028line\u0085separators\r\n",
    "größe 大きさ \U0001f600",
    "%s %n",
    "@mainpage \\mainpage @endcode",
    "<b>&amp;|`code` *bold* [link](x) #1 $x",
    "{{ jinja }} {% raw %}",
    "\0\x01\x7f",
    "\\x41\\u0041\\101",
    "R\"(raw)\"",
    "\udc80 lone surrogate",
    "7 digits after an escape\n7",
    "<script>alert(1)</script>",
    "<img src=x onerror='alert(1)'>",
    "]]><!--",
    "-->",
    "&lt;script&gt;",
    "${HOME}$(touch pwned)`touch pwned`",
    "$(shell touch pwned)",
    "; touch pwned; #",
    "$<TARGET_FILE:x>",
    "../../pwned",
    "/pwned",
    "C:\\pwned",
    "..",
    ".",
    "int",
    "class",
    "main",
    "__LINE__",
    "con",
    "nul",
    "file",
    "allow_pickle",
    "__proto__",
    "#include </etc/passwd>",
    "_Pragma(\"x\")",
    "'",
    "a: b",
    "NaN",
    "9" * 300,
    "n" * 300,
    "",
    " ",
]  # fmt: skip

ANY_TEXT = st.text(st.characters(codec=None), max_size=20) | st.text(st.sampled_from('?/\\*"\n @%'), max_size=12)
TRIGRAPHS = {
    "??/": "\\",
    "??=": "#",
    "??(": "[",
    "??)": "]",
    "??'": "^",
    "??<": "{",
    "??>": "}",
    "??!": "|",
    "??-": "~",
}


def as_compilers_see_it(text: str) -> str:
    """Translation phases 1 and 2: trigraphs, then lines that end with a backslash (GCC: and blanks) are joined."""
    text = re.sub(r"\?\?[/=()'<>!-]", lambda match: TRIGRAPHS[match.group()], text)
    return re.sub(r"\\[ \t]*\n", "", text)


def one_comment(text: str) -> None:
    line = escaping.comment(text)
    assert line.isprintable()
    assert as_compilers_see_it(f"// {line}\nint x;\n") == f"// {line}\nint x;\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_comments_stay_one_line(text: str) -> None:
    one_comment(text)


@given(ANY_TEXT)
def test_any_text_stays_in_its_comment(text: str) -> None:
    one_comment(text)


def decoded(literal: str) -> bytes:
    """What a C++ compiler makes of a string literal: an own reading of the standard."""
    literal = as_compilers_see_it(literal)
    assert literal[0] == literal[-1] == '"'
    result, rest = b"", literal[1:-1]
    pattern = re.compile(r'\\([0-7]{1,3})|\\(["\\?])|([^"\\\n])', re.DOTALL)
    while rest:
        match = pattern.match(rest)
        assert match, f"not a literal: {literal}"
        octal, escaped, plain = match.groups()
        result += bytes([int(octal, 8)]) if octal else (escaped or plain).encode()
        rest = rest[match.end() :]
    return result


@given(ANY_TEXT)
def test_any_text_is_a_literal_of_the_same_bytes(text: str) -> None:
    literal = escaping.text(text)
    assert literal.isprintable()
    assert decoded(literal) == text.encode("utf-8", "surrogatepass")


def test_a_compiler_reads_literals_as_they_were_meant(tmp_path: Path) -> None:
    rows = [
        f"  {{{escaping.text(text)}, {len(text.encode('utf-8', 'surrogatepass'))}}},  // {escaping.comment(text)}"
        for text in HOSTILE
    ]
    source = "\n".join(
        ["#include <cstdio>", "struct Row { const char *text; unsigned size; };", "const Row rows[] = {", *rows, "};",
         "int main() { for (const Row &row : rows) std::fwrite(row.text, 1, row.size, stdout); }", ""]
    )  # fmt: skip
    (tmp_path / "main.cpp").write_text(source, encoding="utf-8")
    command = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "main.cpp", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    printed = subprocess.run([str(tmp_path / "main")], capture_output=True, check=True).stdout
    assert printed == b"".join(text.encode("utf-8", "surrogatepass") for text in HOSTILE)


@given(ANY_TEXT)
def test_any_text_stays_in_its_doxygen_page(text: str) -> None:
    line = escaping.doxygen(text)
    assert line.isprintable()
    assert "*/" not in line and "/*" not in line
    assert re.fullmatch(r"(?:\\.|[^\\@<>&#|%$`])*", line), "no command and no markup without a backslash before it"


@given(ANY_TEXT)
def test_any_text_is_one_string_of_graphviz(text: str) -> None:
    string = escaping.dot(text)
    assert string.isprintable()
    assert re.fullmatch(r'"(?:\\[\\"n]|[^"\\])*"', string)


@pytest.mark.parametrize(
    ("text", "comment", "literal", "doxygen", "dot"),
    [
        ("conv1/3x3_s2", "conv1/3x3_s2", '"conv1/3x3_s2"', "conv1/3x3_s2", '"conv1/3x3_s2"'),
        ("größe", "größe", '"größe"', "größe", '"größe"'),
        ('a*/ "b"\n', 'a*/ "b"\\n', '"a*/ \\"b\\"\\012"', 'a\\* / "b"\\\\n', '"a*/ \\"b\\"\\n"'),
        ("\u202e", "\\u202e", '"\\342\\200\\256"', "\\\\u202e", '"\\\\u202e"'),
        ("a\\", "a\\.", '"a\\\\"', "a\\\\", '"a\\\\"'),
        ("???", "? ? ?", '"\\?\\?\\?"', "???", '"???"'),
        ("@see <b>", "@see <b>", '"@see <b>"', "\\@see \\<b\\>", '"@see <b>"'),
    ],
)
def test_names_read_well(text: str, comment: str, literal: str, doxygen: str, dot: str) -> None:
    assert escaping.comment(text) == comment
    assert escaping.text(text) == literal
    assert escaping.doxygen(text) == doxygen
    assert escaping.dot(text) == dot
