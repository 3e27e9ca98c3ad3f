"""Writes every page, picture and header that is made from the code: python -m development.pages [FILE ...]

Without names it writes all of them, docs/networks.md as well, whose tests take minutes. Read the diff before you commit.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cnn_convertor.files.codec import json_schema
from cnn_convertor.report import Report
from development.pages import devices, host_limits, layers, layouts, messages, nvdla, pictures, usage

ROOT: Final = Path(__file__).resolve().parents[2]
# File in the checkout -> what gives its text.
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "cnn_convertor/host/src/limits.h": host_limits.host_limits,
    "docs/commands.md": usage.commands_page,
    "docs/devices.md": devices.devices_page,
    "docs/layers.md": layers.manual,
    "docs/layouts.md": layouts.page,
    "docs/messages.md": messages.manual,
    "docs/net-ini.md": usage.ini_page,
    "docs/nvdla.md": nvdla.page,
    "docs/report.schema.json": partial(json_schema, Report, "Report of cnn-convertor"),
    **{f"docs/layouts/{name}": partial(str, text) for name, text in layouts.pictures().items()},
    **{f"docs/pictures/{name}": draw for name, draw in pictures.pictures().items()},
}
# Pages with results of tests -> the tests that write them.
TESTED: Final = {"docs/networks.md": "tests/frontends/onnx/test_conformance.py"}


def is_possible(name: str) -> bool:
    """Whether the libraries that the file needs are installed."""
    drawn = pictures.DRAWN.get(Path(name).name)
    return drawn is None or drawn.option != "--svg" or find_spec("fast_sugiyama") is not None


def main(names: list[str]) -> int:
    """Write these files, or all; returns the exit code."""
    known = [*PAGES, *TESTED]
    if unknown := [name for name in names if name not in known]:
        print(f"unknown: {', '.join(unknown)}; expected {', '.join(known)}", file=sys.stderr)
        return 2
    code = 0
    for name in names or known:
        if name in TESTED:
            test = [sys.executable, "-m", "pytest", "-q", "-m", "slow", "--update-golden", TESTED[name]]
            code |= subprocess.run(test, cwd=ROOT, check=False).returncode
        elif is_possible(name):
            (ROOT / name).write_text(PAGES[name](), encoding="utf-8", newline="\n")
        else:
            print(f"{name}: left as it is, since fast-sugiyama is not installed", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
