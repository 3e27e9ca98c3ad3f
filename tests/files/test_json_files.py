"""JSON of any origin is read, or refused with one kind of error, before it takes much memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnn_convertor.files import json_files

REFUSED = {
    "nothing": "",
    "brackets in brackets": "[" * 100_000,
    "a number of many digits": "1" + "0" * 400,
    "a number of too many digits for Python": "1" * 5000,
    "a negative one": "-" + "1" * 20,
    "more than a float holds": "1e999",
    "NaN": '{"a": [NaN]}',
    "infinity": "-Infinity",
    "half of a pair": r'["\ud800"]',
    "half of a pair as a key": r'{"\udc00": 1}',
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_file_needs_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_files.parse(REFUSED[name])


def test_values_are_read() -> None:
    assert json_files.parse(r'{"a": [9223372036854775807, -1.5, null, "\ud83d\ude00 é"]}') == {
        "a": [2**63 - 1, -1.5, None, "\U0001f600 é"]
    }


def test_objects_are_made_of_their_entries() -> None:
    assert json_files.parse('{"a": 1, "a": 2}', objects=lambda pairs: {"pairs": len(pairs)}) == {"pairs": 2}


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as stream:
        stream.truncate(json_files.LARGEST + 1)
    with pytest.raises(ValueError, match="more than 16 MB"):
        json_files.load(path)
