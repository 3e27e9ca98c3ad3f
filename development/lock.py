"""Writes constraints/ci.txt: the version and the SHA-256 of every package that CI installs. Run it as `python -m development.lock`.

The hashes are of the files for this Python and platform, which the first line names.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "constraints" / "ci.txt"
BUILDS: Final = ("hatchling>=1.27", "editables")  # what builds the package


def environment() -> str:
    """As the first line of the file names it."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor}, {platform.system()} {platform.machine()}"


def resolved() -> Iterator[tuple[str, str, str]]:
    """Name, version and SHA-256 of each package that `pip install -e .[dev]` would install now, and of tf_keras."""
    tensorflow = ""
    for name, version, digest in installed("-e", ".[dev]", *BUILDS):
        yield name, version, digest
        tensorflow = version if name == "tensorflow-cpu" else tensorflow
    # For the tests of Keras 2's files. It names the package tensorflow as its need, which is tensorflow-cpu on a PC.
    if tensorflow:
        yield from installed("--no-deps", f"tf_keras=={tensorflow.rpartition('.')[0]}.*")


def installed(*arguments: str) -> Iterator[tuple[str, str, str]]:
    """Name, version and SHA-256 of each package that `pip install` would install now."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        call = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(report),
        ]
        subprocess.run([*call, *arguments], cwd=ROOT, check=True)
        for package in json.loads(report.read_text(encoding="utf-8"))["install"]:
            archive = package["download_info"].get("archive_info")
            if archive is not None:  # our own package is a folder
                metadata = package["metadata"]
                yield metadata["name"].lower().replace("_", "-"), metadata["version"], archive["hashes"]["sha256"]


def main() -> None:
    head = f"# {environment()}. Made by `python -m development.lock`; install with --require-hashes --no-deps.\n"
    lines = [f"{name}=={version} --hash=sha256:{digest}\n" for name, version, digest in sorted(resolved())]
    LOCK.parent.mkdir(exist_ok=True)
    LOCK.write_text(head + "".join(lines), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
