"""Fuzzes the emulated device with libFuzzer: python -m development.benchmarks.fuzz_device [--seconds N] [--corpus DIR]

Compiles it with clang++, AddressSanitizer and UndefinedBehaviorSanitizer, and gives it commands made of arbitrary bytes
(tests/host/fuzz_commands.cpp). The corpus grows in its folder. Fails with what a sanitizer finds.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
HOST = ROOT / "cnn_convertor" / "host"
FLAGS = ("-std=c++17", "-O1", "-g", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all", "-pthread")


def compiled(folder: Path) -> Path:
    sources = [path for path in sorted((HOST / "src").glob("*.cpp")) if path.name != "runner.cpp"]
    everything = folder / "device.cpp"  # one file, so that headers are read once
    everything.write_text("".join(f'#include "{path}"\n' for path in sources), encoding="utf-8")
    inputs = [str(everything), str(ROOT / "tests" / "host" / "fuzz_commands.cpp")]
    includes = [f"-I{HOST / 'include'}", f"-I{HOST / 'src'}"]
    program = folder / "fuzz"
    subprocess.run(["clang++", *FLAGS, "-DWITH_LIBFUZZER", *includes, *inputs, "-o", str(program)], check=True)
    return program


def seed(corpus: Path) -> None:
    """Inputs whose bytes are below 250, which the fuzzer's choices read as values that make sense."""
    draw = random.Random(1)
    for number in range(300):
        length = draw.choice([200, 500, 900])
        kind = (draw.randrange(64), draw.randrange(1, 16), draw.randrange(3), draw.choice([0, 1, 4, 5, 6, 7]))
        (corpus / f"seed{number}").write_bytes(bytes(kind) + bytes(draw.randrange(250) for _ in range(length)))


@click.command(help=__doc__)
@click.option("--seconds", default=60, show_default=True)
@click.option(
    "--corpus", default=ROOT / "build" / "fuzz-device", type=click.Path(path_type=Path), help="[build/fuzz-device]"
)
def main(seconds: int, corpus: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        program = compiled(Path(name))
        corpus.mkdir(parents=True, exist_ok=True)
        seed(corpus)
        limits = ["-max_len=2048", "-len_control=0", "-timeout=60", "-rss_limit_mb=2500", f"-max_total_time={seconds}"]
        call = [str(program), str(corpus), *limits, "-print_final_stats=1", f"-artifact_prefix={corpus}/"]
        sys.exit(subprocess.run(call, env={**os.environ, "DMP_DV_THREADS": "1"}, check=False).returncode)


if __name__ == "__main__":
    main()
