"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of models and test vectors beside the checkout; tests that need it are skipped where it is missing."""
    folder = Path(os.environ.get("CNN_CONVERTOR_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "vectors").is_dir():
        pytest.skip(f"no test vectors in {folder}")
    return folder
