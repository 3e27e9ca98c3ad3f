"""What the tests of NVDLA share."""

from __future__ import annotations

import os
import shutil

import pytest

from cnn_convertor.devices.nvdla import playing

UNLIMITED = -1  # as the system writes it


@pytest.fixture(scope="session")
def compiler(_compiled: None) -> None:
    """The player, which one process compiles for all; without a compiler, what needs one is skipped."""
    if shutil.which(os.environ.get("CXX", "g++").split()[0]) is None:
        pytest.skip("there is no C++ compiler")
    playing.player()


@pytest.fixture(autouse=True)
def _room_for_sanitizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They reserve more addresses than a process of the twin may have; ThreadSanitizer takes no limit at all."""
    if "-fsanitize" in os.environ.get("CXX", ""):
        monkeypatch.setattr(playing, "LIMITS", playing.ProcessLimits(memory=UNLIMITED))
