"""Mutates inputs by their form: bytes, text, JSON, protobuf messages, and zip archives of these."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any, TypeAlias

from cnn_convertor.frontends import wire
from cnn_convertor.frontends.wire import Field, WireError, WireType
from examples.caffemodel import encode, tag

Words: TypeAlias = Sequence[str]
Mutator: TypeAlias = Callable[[bytes, Random, Words], bytes]
Tree: TypeAlias = Any  # lists, dictionaries and values

NUMBERS = (0, 1, -1, 2, 3, 4, 7, 8, 16, 127, 128, 255, 256, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 40,
    (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 10**30, 10**400)  # fmt: skip
FRACTIONS = (0.0, -0.0, 0.5, -1.5, 1e-45, 1e-300, 1e38, 1e300, float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "",
    " ",
    "\0",
    "\x07",
    "\n",
    "\x1b[31m",
    "é",
    "\u202e",
    "\ud800",
    "../x",
    "/",
    "a" * 300,
    "*/",
    "\\",
    '"',
    "'",
    "%s",
    "{}",
    "nan",
)
OCTETS = (
    b"\0",
    b"\xff",
    b"\x80",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\0" * 64,
    b"\xff" * 64,
    b"\x7f\xc0\0\0",
    b"\0\0\xc0\x7f",
    b"\0\0\x80\x7f",
)
SEPARATOR = b"\0--\0"  # between the parts of an input that has several
DEEP = (10, 100, 2000)  # levels
LONGEST = 1 << 16  # characters of a changed text
TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)


def mutate_bytes(data: bytes, random: Random, _words: Words = ()) -> bytes:
    """Bits flipped, ends cut, pieces replaced, repeated or moved."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        start = random.randint(0, len(changed))
        stop = min(start + random.choice((1, 2, 4, 8, 64, 1024)), len(changed))
        match random.randint(0, 6):
            case 0 if start < len(changed):
                changed[start] ^= 1 << random.randint(0, 7)
            case 1:
                del changed[start:]
            case 2:
                del changed[start:stop]
            case 3:
                changed[start:start] = random.choice(OCTETS)
            case 4:
                octets = random.choice(OCTETS)
                changed[start : start + len(octets)] = octets
            case 5:
                changed[start:start] = changed[start:stop]
            case _:
                target = random.randint(0, len(changed))
                changed[target : target + stop - start] = changed[start:stop]
    return bytes(changed)


def mutate_text(data: bytes, random: Random, words: Words) -> bytes:
    """Tokens and lines replaced, repeated, removed, swapped or nested; seldom bytes."""
    if random.randint(0, 7) == 0:
        return mutate_bytes(data, random)
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(random.choice((1, 1, 2, 4))):
        pieces = text.splitlines(keepends=True) if random.randint(0, 2) == 0 else TOKEN.findall(text)
        text = "".join(_rearranged(pieces, random, words))[:LONGEST]
    return text.encode("utf-8", "surrogatepass" if "\ud800" in text else "surrogateescape")


def _rearranged(pieces: list[str], random: Random, words: Words) -> list[str]:
    start, other = (random.randint(0, max(len(pieces) - 1, 0)) for _ in range(2))
    stop = start + random.choice((1, 1, 1, 4, 16))
    match random.randint(0, 7):
        case 0:
            return pieces[:start] + pieces[stop:]
        case 1:
            return pieces[:stop] + pieces[start:]
        case 2:
            return pieces[:other] + pieces[start:stop] + pieces[other:]
        case 3:
            return pieces[:other] + pieces[start:stop] + pieces[other + stop - start :]
        case 4:
            times = min(random.choice(DEEP), LONGEST // (len("".join(pieces[start:stop])) + 1))
            return [*pieces[:start], *pieces[start:stop] * times, *pieces[stop:]]
        case 5:
            piece = repr(random.choice(FRACTIONS))
        case 6:
            piece = str(random.choice(NUMBERS))
        case _:
            piece = random.choice((*words, *TEXTS))
    return [*pieces[:start], piece, *pieces[start + random.choice((0, 1, 1)) :]]


# --- trees ---------------------------------------------------------------------------------------------------------------


def places(tree: Tree) -> Iterator[tuple[Tree, Any]]:
    """Every (list or dictionary, index or key) in a tree, without recursion."""
    waiting = [tree]
    while waiting:
        item = waiting.pop()
        keys = range(len(item)) if isinstance(item, list) else list(item)
        for key in keys:
            yield item, key
            if isinstance(item[key], list | dict):
                waiting.append(item[key])


def change_tree(tree: Tree, random: Random, value: Callable[[Tree], Tree]) -> None:
    """Change one place of a tree: its value, its order, or its neighbors. value: gives another one for a value.

    What is repeated is copied, since a tree that holds itself has no end.
    """
    found = list(places(tree))
    if not found:
        return
    (holder, key), (other, other_key) = random.choice(found), random.choice(found)
    match random.randint(0, 8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(random.randint(0, len(holder)), deepcopy(holder[key]))
        case 1 if isinstance(holder, dict):
            holder[str(value(key))] = holder.pop(key)
        case 2:
            holder[key] = deepcopy(other[other_key])
        case 3:
            holder[key], other[other_key] = deepcopy(other[other_key]), deepcopy(holder[key])
        case 4 if isinstance(holder, list):
            random.shuffle(holder)
        case 5 if isinstance(holder, dict):
            holder[str(value(""))] = deepcopy(other[other_key])
        case _:
            holder[key] = value(holder[key])


def mutate_json(data: bytes, random: Random, words: Words) -> bytes:
    """Values and keys of the tree replaced, repeated, removed, swapped or nested; seldom its text."""
    try:
        tree = json.loads(data)
        if random.randint(0, 15) == 0 or not isinstance(tree, list | dict):
            raise ValueError
        for _ in range(random.choice((1, 1, 2, 4))):
            change_tree(tree, random, lambda old: _json_value(old, random, words))
        return json.dumps(tree).encode()
    except (ValueError, RecursionError):
        return mutate_text(data, random, words)


def _json_value(old: Tree, random: Random, words: Words) -> Tree:
    match random.randint(0, 7):
        case 0:
            return random.choice((None, True, False, [], {}, [[]], [None]))
        case 1:
            return random.choice(FRACTIONS)
        case 2:
            return random.choice(TEXTS)
        case 3:
            for _ in range(random.choice((1, *DEEP[:2]))):
                old = [old]
            return old
        case 4 | 5 if words:
            return random.choice(words)
        case _:
            return random.choice(NUMBERS)


def mutate_parts(data: bytes, random: Random, words: Words) -> bytes:
    """The first part of an input as JSON, or its bytes, separators and all."""
    if random.randint(0, 2) == 0:
        return mutate_bytes(data, random)
    first, separator, rest = data.partition(SEPARATOR)
    return mutate_json(first, random, words) + separator + rest


# --- protobuf ------------------------------------------------------------------------------------------------------------


def read_wire(data: bytes, start: int, stop: int, depth: int = 0) -> Tree:
    """A message as [[number, type, value], ...]; the bytes themselves where they are no message, or one below the deepest."""
    try:
        fields = list(wire.fields(data, start, stop)) if depth < 8 else []
    except WireError:
        fields = []
    if not fields:
        return data[start:stop]
    return [[field.number, int(field.type), _wire_value(data, field, depth)] for field in fields]


def _wire_value(data: bytes, field: Field, depth: int) -> Tree:
    match field.type:
        case WireType.VARINT:
            return field.value
        case WireType.BYTES:
            return read_wire(data, field.start, field.stop, depth + 1)
        case _:
            return data[field.start : field.stop]


def write_wire(tree: Tree) -> bytes:
    """The message of a tree, in which anything may stand anywhere."""
    match tree:
        case bytes():
            return tree
        case int():
            return encode(tree % (1 << 64))
        case [int(number), int(kind), value] if 0 <= kind < 8 and number > 0:
            content = write_wire(value)
            length = encode(len(content)) if kind == WireType.BYTES else b""
            return encode(number << 3 | kind) + length + content
        case list():
            return b"".join(map(write_wire, tree))
    return b""


def mutate_wire(data: bytes, random: Random, words: Words) -> bytes:
    """Fields of a message, at any depth, replaced, repeated, removed, swapped or nested; seldom its bytes."""
    tree = read_wire(data, 0, len(data))
    if not isinstance(tree, list) or random.randint(0, 7) == 0:
        return mutate_bytes(data, random)
    for _ in range(random.choice((1, 1, 2, 4))):
        change_tree(tree, random, lambda old: _wire_replacement(old, random, words))
    return write_wire(tree)


def _wire_replacement(old: Tree, random: Random, words: Words) -> Tree:
    match old:
        case int():
            return random.choice((*NUMBERS, old + 1, max(old - 1, 0)))
        case bytes() if random.randint(0, 1):
            return random.choice((*words, *TEXTS)).encode("utf-8", "surrogatepass")
        case bytes() if old:
            return mutate_bytes(old, random)
        case list() if len(old) == 3 and random.randint(0, 3) == 0:
            return [1, 2, old]
        case _:
            return [random.randint(1, 30), random.choice((0, 2, 2, 5)), random.choice(NUMBERS)]


def message(number: int, content: bytes) -> bytes:
    """A field that holds bytes."""
    return tag(number, WireType.BYTES) + encode(len(content)) + content


# --- archives ------------------------------------------------------------------------------------------------------------


def read_archive(data: bytes) -> dict[str, bytes]:
    """Name -> content. Raises what zipfile raises."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """The same bytes for the same members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            archive.writestr(info, content)
    return stream.getvalue()


def mutate_archive(data: bytes, random: Random, words: Words) -> bytes:
    """One member changed, removed or renamed, and all packed again, in one way or another; or bytes of the archive."""
    if random.randint(0, 2) == 0:
        return mutate_bytes(data, random)
    try:
        members = read_archive(data)
    except Exception:  # noqa: BLE001  # the archive may be damaged in any way by now
        return mutate_bytes(data, random)
    name = random.choice(sorted(members) or [""])
    match random.randint(0, 5):
        case 0:
            members.pop(name, None)
        case 1:
            members[random.choice(sorted(members) or [""])] = members.pop(name, b"")
        case _:
            mutate = mutate_json if name.endswith(".json") else mutate_bytes
            members[name] = mutate(members.get(name, b""), random, words)
    return write_archive(
        members, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    )
