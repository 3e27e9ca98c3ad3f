"""The same inputs give the same bytes in every environment, with any order of keys, Python and libraries.

`CNN_CONVERTOR_PYTHONS` names more interpreters, separated as in `PATH`: environments with the oldest and newest libraries.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = {"digits": "digits_keras", "digits_caffe": "digits_caffe", "digits_pytorch": "digits_pytorch"}
PYTHONS = ["python3.10", "python3.11", "python3.12", "python3.13"]
MORE = [name for name in os.environ.get("CNN_CONVERTOR_PYTHONS", "").split(os.pathsep) if name]
NEEDED = (
    "import click, google.protobuf, h5py, jinja2, numpy, rich, sys; sys.version_info >= (3, 11) or __import__('tomli')"
)

ENVIRONMENTS = {
    "ascii, one thread": {
        "PYTHONHASHSEED": "4711",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "LC_ALL": "C",
        "TZ": "Pacific/Kiritimati",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    },
    "optimized, four threads": {
        "PYTHONHASHSEED": "1",
        "PYTHONOPTIMIZE": "2",
        "LC_ALL": "tr_TR.UTF-8",
        "TZ": "America/St_Johns",
        "OMP_NUM_THREADS": "4",
        "OPENBLAS_NUM_THREADS": "4",
    },
}

Outputs = dict[str, bytes]


def converted(
    folder: Path,
    environment: Mapping[str, str],
    *,
    python: str = sys.executable,
    rewrite: Callable[[str], str] = lambda text: text,
) -> Outputs:
    """The outputs of the examples, with FP16 weights and with palettes, by their paths."""
    for quantization in "01":
        for example in EXAMPLES.values():
            place = folder / quantization / example
            shutil.copytree(ROOT / "examples" / example, place, ignore=shutil.ignore_patterns("output", "*.py"))
            (place / "net_keras2.ini").unlink(missing_ok=True)
            text = (place / "net.ini").read_text(encoding="utf-8")
            text = re.sub(r"(?m)^quantization = \S+", f"quantization = {quantization}", text)
            (place / "net.ini").write_text(rewrite(text), encoding="utf-8")
    call = [python, str(ROOT / "convertor.py"), "-q", "--strict", str(folder)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONHASH"))}
    bare = {**clean, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(call, check=True, env={**bare, **environment})
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.glob("*/*/output/*/*")}


def backwards(text: str) -> str:
    """An ini file with its sections, and the keys of each, in the opposite order."""
    sections: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("["):
            sections.append([line])
        elif sections:
            sections[-1].append(line)
    return "\n".join(line for section in sections[::-1] for line in (section[0], *section[:0:-1])) + "\n"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    return converted(tmp_path_factory.mktemp("expected"), {})


def test_outputs_are_those_that_are_committed(expected: Outputs) -> None:
    for name, example in EXAMPLES.items():
        committed = {path.name: path.read_bytes() for path in (ROOT / "examples" / example / "output" / name).iterdir()}
        made = {Path(path).name: text for path, text in expected.items() if path.startswith(f"0/{example}/")}
        assert made == committed


def test_palettes_change_the_outputs(expected: Outputs) -> None:
    for name, example in EXAMPLES.items():
        weights = [f"{quantization}/{example}/output/{name}/{name}_weights.bin" for quantization in "01"]
        assert len({expected[path] for path in weights}) == 2


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_environment_changes_nothing(environment: dict[str, str], expected: Outputs, tmp_path: Path) -> None:
    assert converted(tmp_path, environment) == expected


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_order_of_sections_and_keys_changes_nothing(expected: Outputs, tmp_path: Path) -> None:
    text = "; comment\n[INPUT]\nname = a\ndata = b\n[OUTPUT]\ninput = u8\n"
    assert backwards(text) == "[OUTPUT]\ninput = u8\n[INPUT]\ndata = b\nname = a\n"
    assert converted(tmp_path, {}, rewrite=backwards) == expected


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("name", [*PYTHONS, *MORE])
def test_another_python_and_its_libraries_change_nothing(name: str, expected: Outputs, tmp_path: Path) -> None:
    python = shutil.which(name)
    if python is None or subprocess.run([python, "-c", NEEDED], check=False, capture_output=True).returncode:
        assert name not in MORE, f"{name} lacks what the convertor needs"
        pytest.skip(f"no {name} with the libraries of the convertor")
    assert converted(tmp_path, {}, python=python) == expected
