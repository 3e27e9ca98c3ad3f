"""The pages in Japanese say what those in English say."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Of the English text, without blocks of code, when docs/ja/start.md was last brought up to date.
TRANSLATED = "5d596138ffce5b8c2e355eacf765951766ed6f1db20afa6a48dc5c8c0d30c709"
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def test_the_japanese_start_is_up_to_date() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    prose = BLOCK.sub("", readme.partition("## Start")[2].partition("## Documents")[0])
    found = hashlib.sha256(" ".join(prose.split()).encode()).hexdigest()
    assert found == TRANSLATED, "bring docs/ja/start.md up to date, then write this hash here"


def test_its_commands_are_those_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "ja" / "start.md").read_text(encoding="utf-8")
    commands = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert commands and all(command in readme for command in commands)
    keys = [re.findall(r"^;? ?(\w+) = (\S+)", text, re.MULTILINE) for text in (page, readme)]
    assert keys[0] and keys[0] == keys[1]
