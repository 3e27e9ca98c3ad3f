"""The loops for each kind of CPU give the same bits; loops.cpp says how."""

from __future__ import annotations

import subprocess
from pathlib import Path

from host.device import HOST, SANITIZERS, build

HERE = Path(__file__).resolve().parent


def test_every_loop_that_this_cpu_runs_gives_the_same_bits(library: Path) -> None:
    source = str(HERE / "loops.cpp")
    options = [
        *SANITIZERS,
        f"-I{HOST / 'src'}",
        "-Wl,--allow-multiple-definition",
    ]  # loops.cpp includes some of its sources
    program = build(library.with_name("loops"), *options, source, str(library), with_device=False)
    result = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("pass\n", "")
