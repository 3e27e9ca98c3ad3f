"""The pages in Japanese say what those in English say."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# Page in docs/ja -> a hash of the English text, without blocks of code, when the page was last brought up to date.
TRANSLATED = {
    "start.md": "5d596138ffce5b8c2e355eacf765951766ed6f1db20afa6a48dc5c8c0d30c709",
    "usage.md": "0799ceaa6e9aa7129982a3a2ec148a1ab056d9f1e60cf9a218a85b669ba8930c",
}


def english(page: str) -> str:
    if page == "start.md":
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        return readme.partition("## Start")[2].partition("## Documents")[0]
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def japanese(page: str) -> str:
    return (ROOT / "docs" / "ja" / page).read_text(encoding="utf-8")


def test_every_japanese_page_is_watched() -> None:
    assert {path.name for path in (ROOT / "docs" / "ja").iterdir()} == set(TRANSLATED)


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_japanese_page_is_up_to_date(page: str) -> None:
    prose = BLOCK.sub("", english(page))
    found = hashlib.sha256(" ".join(prose.split()).encode()).hexdigest()
    assert found == TRANSLATED[page], f"bring docs/ja/{page} up to date, then write this hash here"


def test_the_start_has_the_commands_and_keys_of_the_readme() -> None:
    readme, page = (ROOT / "README.md").read_text(encoding="utf-8"), japanese("start.md")
    commands = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert commands and all(command in readme for command in commands)
    keys = [re.findall(r"^;? ?(\w+) = (\S+)", text, re.MULTILINE) for text in (page, readme)]
    assert keys[0] and keys[0] == keys[1]


def test_the_usage_has_the_code_of_the_english_page() -> None:
    assert BLOCK.findall(japanese("usage.md")) == BLOCK.findall(english("usage.md"))
    headings = [
        re.findall("^#+ ", BLOCK.sub("", text), re.MULTILINE)
        for text in map(str, (japanese("usage.md"), english("usage.md")))
    ]
    assert headings[0] == headings[1]
