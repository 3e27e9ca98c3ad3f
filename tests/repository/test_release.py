"""A release: its version, its date, and packages that are the same wherever they are built."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from cnn_convertor import __version__

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_changelog_begins_with_this_version_and_its_date() -> None:
    version, date = re.findall(r"^## \[(.+)\] - (\S+)$", CHANGELOG, re.MULTILINE)[0]
    assert version == __version__
    assert dt.date.fromisoformat(date) >= dt.date(2026, 11, 24)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_packages_are_reproducible_and_their_metadata_is_valid(tmp_path: Path) -> None:
    """What `twine check` finds, with the strict rules of the package `packaging`."""
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d"]
    for folder, mask, zone in (("a", 0o022, "UTC"), ("b", 0o077, "Asia/Tokyo")):
        environment = {**os.environ, "TZ": zone}
        subprocess.run([*build, str(tmp_path / folder)], cwd=ROOT, env=environment, umask=mask, check=True)
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "ab")
    wheel, sdist = f"cnn_convertor-{__version__}-py3-none-any.whl", f"cnn_convertor-{__version__}.tar.gz"
    assert first.keys() == {wheel, sdist} and first == second

    with zipfile.ZipFile(tmp_path / "a" / wheel) as archive:
        texts = [archive.read(f"cnn_convertor-{__version__}.dist-info/METADATA")]
    with tarfile.open(tmp_path / "a" / sdist) as archive:
        member = archive.extractfile(f"cnn_convertor-{__version__}/PKG-INFO")
        assert member is not None
        texts.append(member.read())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for text in texts:
        metadata = Metadata.from_email(text, validate=True)
        assert (str(metadata.version), metadata.description_content_type) == (__version__, "text/markdown")
        assert metadata.description == readme
