"""Commands made of arbitrary bytes are refused, or executed within their buffers: the sanitizers find nothing."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from host.device import SANITIZERS, build

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def program(library: Path) -> Path:
    target = library.with_name("fuzz_commands")
    return build(target, *SANITIZERS, str(HERE / "fuzz_commands.cpp"), str(library), with_device=False)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_arbitrary_commands(threads: str, program: Path) -> None:
    environment = {**os.environ, "DMP_DV_THREADS": threads, "DMP_DV_STRICT": "0"}
    call = [str(program), "2000", threads]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    inputs, accepted, refused, executed = map(int, re.findall(r"\d+", done.stdout))
    assert inputs == 2000 and min(accepted, refused, executed) > 50, done.stdout
