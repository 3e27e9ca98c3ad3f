"""The page docs/nvdla.md: its table of functions; the rest stays as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from development.pages.function_tables import rows

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/nvdla.md"
_HEAD: Final = "| function | range | tables | largest error | dB |\n|---|---|---|---|---|\n"


def page() -> str:
    before, table = PAGE.read_text(encoding="utf-8").split(_HEAD)
    after = table[table.index("\n\n") :]
    lines = [f"| {' | '.join(row)} |" for row in rows()]
    return before + _HEAD + "\n".join(lines) + after
