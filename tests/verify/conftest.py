"""One cache for all that is compiled in a session; without a compiler, what needs one is skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if shutil.which(os.environ.get("CXX", "g++").split()[0]) is None:
        pytest.skip("there is no C++ compiler")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with pytest.MonkeyPatch.context() as patch:
        if "CNN_CONVERTOR_CACHE" not in os.environ:
            patch.setenv("CNN_CONVERTOR_CACHE", str(shared / "compiled"))
        yield
