"""A folder for ini files."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the model files that the ini files of the tests name."""
    for name in ("net.h5", "weights.h5", "net.prototxt", "net.caffemodel", "layers.py", "a # b.h5"):
        (tmp_path / name).touch()
    (tmp_path / "subfolder").mkdir()
    return tmp_path
