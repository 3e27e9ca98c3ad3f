"""The files for CI services that docs/usage.md shows are valid by the services' own schemas."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "usage.md"
FILES: dict[str, str] = {
    name: text
    for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for name in re.findall(r"\A# (\S+)\n", text)
}
SCHEMA = ["check_jsonschema", "--builtin-schema"]
CHECKS = {
    ".github/workflows/networks.yml": [*SCHEMA, "vendor.github-workflows"],
    ".gitlab-ci.yml": [*SCHEMA, "vendor.gitlab-ci"],
    ".pre-commit-config.yaml": ["pre_commit", "validate-config"],
}
DAMAGE = {
    ".github/workflows/networks.yml": ("runs-on:", "runs:"),
    ".gitlab-ci.yml": ("  script:", "  scripts:"),
    ".pre-commit-config.yaml": ("entry:", "entries:"),
}


def test_the_page_shows_a_file_for_each_service() -> None:
    assert set(FILES) == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_an_example_is_valid(name: str, tmp_path: Path) -> None:
    module, *options = CHECKS[name]
    if find_spec(module) is None:
        pytest.skip(f"no {module}, which has the schema")

    def is_valid(text: str) -> bool:
        path = tmp_path / Path(name).name
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", module, *options, path], check=False, capture_output=True, text=True
        )
        assert "Traceback" not in done.stderr
        return done.returncode == 0

    assert is_valid(FILES[name])
    assert not is_valid(FILES[name].replace(*DAMAGE[name])), "the check finds nothing"
