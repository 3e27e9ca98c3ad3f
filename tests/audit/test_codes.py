"""Every code that the audit gives has its entry on the page, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from cnn_convertor.audit import codes

ROOT = Path(__file__).resolve().parents[2]


def test_the_codes_are_those_that_are_given() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "cnn_convertor/audit").glob("*.py"))
        if path.stem != "codes"
    ]
    assert {code for text in texts for code in re.findall(r'"(DV\d{3})"', text)} == set(codes.CODES)


def test_the_page_has_the_codes() -> None:
    page = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    rows = [f"| {code} | {entry.cause} | {entry.remedy} |" for code, entry in codes.CODES.items()]
    table = "\n".join(["| code | cause | remedy |", "|---|---|---|", *rows]) + "\n"
    assert page.partition("## The codes\n\n")[2] == table


def test_every_code_is_provoked_by_a_test() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [code for code in codes.CODES if f'"{code}"' not in texts] == []
