"""Mutations of counts: a node, a line, a field, an entry or a piece of an input is there 100 to 100,000 times.

What is repeated is read alike each time, or one of its texts has a number, so that the copies are nodes of their own; where a
second text has the number before it, each copy reads the one before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, TypeAlias

from development.fuzz import mutation
from development.fuzz.__main__ import LONGEST
from development.fuzz.mutation import (
    SEPARATOR,
    Mutator,
    Tree,
    places,
    read_archive,
    read_wire,
    write_archive,
    write_wire,
)

Numbered: TypeAlias = Callable[[int], Any]  # number of a copy -> the copy

TIMES: Final = {100: 16, 300: 8, 1_000: 4, 3_000: 2, 10_000: 1, 100_000: 1}  # and how often each comes: few take long
QUOTED: Final = re.compile(r'"[^"\n]*"|\w+')
QUOTED_IN_JSON: Final = re.compile(r'"[^"\\]+"|\b[1-9][0-9]*\b(?!\.)')  # texts without escapes, and integers
_MARK: Final = "the copies stand here"
_MARKS: Final = (b"\xfe<00>\xff", b"\xfe<01>\xff")  # where six digits come
BLOCK: Final = re.compile(r"^\w+ *\{|^\[", re.MULTILINE)  # the start of a layer, a section


def repeat(mutate: Mutator, data: bytes, random: Random) -> bytes:
    """An input of the form that the mutator knows, with a part that is there many times."""
    return _REPEATED[mutate](data, random)[:LONGEST]


def repeat_bytes(data: bytes, random: Random) -> bytes:
    start = random.randint(0, len(data))
    piece = data[start : start + random.choice((1, 1, 2, 4, 16, 64))]
    return data[:start] + piece * _times(len(piece), random) + data[start + len(piece) :]


def repeat_text(data: bytes, random: Random) -> bytes:
    """A token, a line, or a block from one opening to the next."""
    text = data.decode("utf-8", "surrogateescape")
    match random.randint(0, 2):
        case 0:
            starts = [found.start() for found in mutation.TOKEN.finditer(text)]
        case 1:
            starts = [0, *(found.end() for found in re.finditer(r"\n", text))]
        case _:
            starts = [found.start() for found in BLOCK.finditer(text)]
    bounds = [*starts, len(text)]
    first = random.randrange(len(bounds))
    start, stop = bounds[first], bounds[min(first + random.choice((1, 1, 1, 2, 4)), len(bounds) - 1)]
    copy = _numbered_text(text[start:stop], random)
    made = "".join(map(copy, range(_times(stop - start, random))))
    return (text[:start] + made + text[stop:]).encode("utf-8", "surrogateescape")


def _numbered_text(piece: str, random: Random, texts: re.Pattern[str] = QUOTED) -> Numbered:
    found = [match for match in texts.finditer(piece) if match.group().strip('"')]
    chosen = random.sample(found, min(random.randint(0, 2), len(found)))
    cuts = sorted((match.end() - match.group().endswith('"'), part) for part, match in enumerate(chosen))

    def copy(number: int) -> str:
        made, at = "", 0
        for end, part in cuts:
            made, at = f"{made}{piece[at:end]}{max(number - part, 0)}", end
        return made + piece[at:]

    return copy if cuts else lambda _: piece


def repeat_json(data: bytes, random: Random) -> bytes:
    """An entry of a list or of an object. The copies are texts, so that no tree of them is made."""
    try:
        tree = json.loads(data)
        found = list(places(tree)) if isinstance(tree, list | dict) else []
        holder, key = random.choice(found)
        text, holder[key] = json.dumps(holder[key]), _MARK
        whole = json.dumps(tree)
    except (ValueError, RecursionError, IndexError):
        return repeat_text(data, random)
    copy = _numbered_text(text, random, QUOTED_IN_JSON)
    copies = map(copy, range(_times(len(text), random)))
    if isinstance(holder, list):
        return whole.replace(f'"{_MARK}"', ", ".join(copies), 1).encode()
    if random.randint(0, 1):
        named = (f"{json.dumps(f'{key}{number}')}: {made}" for number, made in enumerate(copies))
        return whole.replace(f'{json.dumps(key)}: "{_MARK}"', ", ".join(named), 1).encode()
    return whole.replace(f'"{_MARK}"', f"[{', '.join(copies)}]", 1).encode()


def repeat_wire(data: bytes, random: Random) -> bytes:
    """A field of a message, at any depth."""
    tree = read_wire(data, 0, len(data))
    fields = [place for place in places(tree) if _is_field(place[0][place[1]])] if isinstance(tree, list) else []
    if not fields:
        return repeat_bytes(data, random)
    holder, key = random.choice(fields)
    holder[key] = _repeated_field(holder[key], random)
    return write_wire(tree)


def _is_field(tree: Tree) -> bool:
    return isinstance(tree, list) and len(tree) == 3 and isinstance(tree[1], int)


def _repeated_field(field: Tree, random: Random) -> bytes:
    """Copies as bytes, which `write_wire` takes. All numbers are equally long, so the sizes of messages stay."""
    texts = [(holder, key) for holder, key in places(field) if isinstance(holder[key], bytes) and holder[key]]
    for part, (holder, key) in enumerate(random.sample(texts, min(random.randint(0, 2), len(texts)))):
        holder[key] += _MARKS[part]
    made = write_wire(field)
    times = range(_times(len(made), random))
    if not any(mark in made for mark in _MARKS):
        return made * len(times)
    first, second = _MARKS
    return b"".join(made.replace(first, b"%06d" % n).replace(second, b"%06d" % max(n - 1, 0)) for n in times)


def repeat_parts(data: bytes, random: Random) -> bytes:
    first, separator, rest = data.partition(SEPARATOR)
    return repeat_json(first, random) + separator + rest


def repeat_archive(data: bytes, random: Random) -> bytes:
    """Within a member, or a member under many names."""
    try:
        members = read_archive(data)
        name = random.choice(sorted(members))
    except Exception:  # noqa: BLE001  # the archive may be damaged in any way by now
        return repeat_bytes(data, random)
    if random.randint(0, 2) == 0:
        members |= {f"{name}{number}": members[name] for number in range(_times(len(members[name]) + 100, random))}
    else:
        again = repeat_json if name.endswith(".json") else repeat_bytes
        members[name] = again(members[name], random)
    return write_archive(members)


def _times(size: int, random: Random) -> int:
    """As often as an input has room for."""
    times = random.choices(list(TIMES), list(TIMES.values()))[0]
    return min(times, LONGEST // max(size, 1))


_REPEATED: Final[Mapping[Mutator, Callable[[bytes, Random], bytes]]] = {
    mutation.mutate_bytes: repeat_bytes,
    mutation.mutate_text: repeat_text,
    mutation.mutate_json: repeat_json,
    mutation.mutate_wire: repeat_wire,
    mutation.mutate_parts: repeat_parts,
    mutation.mutate_archive: repeat_archive,
}
