"""Files that are made from the code are fresh."""

from __future__ import annotations

import pytest

from development.benchmarks import networks_page
from development.benchmarks.networks_page import Table
from development.pages.__main__ import PAGES, ROOT, TESTED, is_possible, main


@pytest.mark.parametrize("name", PAGES)
def test_file_is_fresh(name: str) -> None:
    if not is_possible(name):
        pytest.skip("fast-sugiyama is not installed")
    is_fresh = (ROOT / name).read_text(encoding="utf-8") == PAGES[name]()
    assert is_fresh, f"python -m development.pages {name}"


@pytest.mark.parametrize("name", TESTED)
def test_file_with_results_has_a_test_that_compares_it(name: str) -> None:
    assert f'golden("../../{name}"' in (ROOT / TESTED[name]).read_text(encoding="utf-8")


@pytest.mark.parametrize("table", Table, ids=[table.name for table in Table])
def test_the_page_of_networks_is_as_each_of_its_writers_leaves_it(table: Table) -> None:
    rows = networks_page.rows_of(table)
    assert len(rows) >= 5
    assert networks_page.page_with(table, rows) == networks_page.PAGE.read_text(encoding="utf-8")


def test_one_file_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs/net-ini.md"
    before = page.read_bytes()
    assert main(["docs/net-ini.md"]) == 0
    assert page.read_bytes() == before
    assert main(["docs/net-in.md"]) == 2
    assert "unknown: docs/net-in.md; expected" in capsys.readouterr().err
