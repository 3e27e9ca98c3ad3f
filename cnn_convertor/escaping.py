"""Escapes text for comments, strings, identifiers and pages in generated files."""

import re

# Of C++ up to C++20: no identifier that lands in a generated file may be one.
_CPP_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
    co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
    new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
    typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
CPP_KEYWORDS = frozenset(_CPP_KEYWORDS.split())


def identifier(name: str) -> str:
    """The name, for a part of a C++ identifier."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


def member(name: str) -> str:
    """The name of a custom layer's parameter as a C++ identifier."""
    word = identifier(name)
    taken = word in CPP_KEYWORDS or word == "inputs"  # every struct may list its inputs
    return f"_{word}" if not word or word[0].isdigit() else f"{word}_" if taken else word


def comment(text: str) -> str:
    """For a // comment: one line, no trigraphs, no backslash at the end that would swallow the next line."""
    line = re.sub(r"\?(?=\?)", "? ", visible(text))
    return line + "." if line.rstrip().endswith("\\") else line


def text(value: str) -> str:
    """As a C++ string literal, with its quotes."""
    escaped = []
    for char in value:
        if char in '"\\?':  # two question marks may begin a trigraph
            escaped.append("\\" + char)
        elif char.isprintable():
            escaped.append(char)
        else:  # octal escapes end after three digits, before any character
            escaped.extend(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogatepass"))
    return '"' + "".join(escaped) + '"'


def doxygen(value: str) -> str:
    """For a Doxygen page inside a block comment: no commands, no markup, no end of comment."""
    line = visible(value).replace("\\", "\\\\")
    for char in "@<>&#|%$`*[]":
        line = line.replace(char, "\\" + char)
    return line.replace("*/", "* /").replace("/*", "/ *")


def dot(value: str) -> str:
    """As a Graphviz string, with its quotes; line breaks stay line breaks."""
    lines = [visible(line).replace("\\", "\\\\").replace('"', '\\"') for line in value.split("\n")]
    return '"' + "\\n".join(lines) + '"'


def visible(value: str) -> str:
    """Control characters (line breaks, right-to-left marks, ...) as escapes."""
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in value)
