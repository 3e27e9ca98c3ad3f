"""What CI installs is locked, and what a release consists of is listed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from development import sbom
from development.lock import LOCK, ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(PYPROJECT)["project"]
EXTRAS = PROJECT["optional-dependencies"]


def requirements(*extras: str) -> list[Requirement]:
    found = [Requirement(text) for extra in extras for text in EXTRAS[extra]]
    inner = [name for requirement in found if requirement.name == "cnn-convertor" for name in requirement.extras]
    return [r for r in found if r.name != "cnn-convertor"] + (requirements(*inner) if inner else [])


def test_the_lock_has_every_requirement_in_a_version_that_fits() -> None:
    """Run `python -m development.lock` after a change of pyproject.toml."""
    versions = dict(sbom.locked().keys())
    needed = [*map(Requirement, PROJECT["dependencies"]), *requirements("dev")]
    machine = {"python_version": "3.11", "sys_platform": "linux", "platform_machine": "x86_64"}
    for requirement in needed:
        if requirement.marker is None or requirement.marker.evaluate(machine):
            assert versions[canonicalize_name(requirement.name)] in requirement.specifier


def test_the_lock_has_what_builds_the_package_and_reads_the_files_of_keras_2() -> None:
    versions = dict(sbom.locked().keys())
    for requirement in map(Requirement, tomllib.loads(PYPROJECT)["build-system"]["requires"]):
        assert versions[requirement.name] in requirement.specifier
    assert "editables" in versions
    assert versions["tf-keras"].split(".")[:2] == versions["tensorflow-cpu"].split(".")[:2]


def test_the_oldest_versions_are_those_of_the_project() -> None:
    lines = (ROOT / "constraints" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    oldest = {Requirement(line).name: str(Requirement(line).specifier) for line in lines if not line.startswith("#")}
    allowed = {r.name: r.specifier for r in map(Requirement, PROJECT["dependencies"])}
    assert set(oldest) == set(allowed)
    for name, specifier in oldest.items():
        least = next(str(part).removeprefix(">=") for part in allowed[name] if part.operator == ">=")
        assert f"{specifier}.".startswith(f"=={least}."), name


def advisories() -> list[Requirement]:
    lines = (ROOT / "constraints" / "advisories.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line.partition(" #")[0]) for line in lines if not line.startswith("#")]


def versions_around(specifier: SpecifierSet) -> Iterator[str]:
    """Versions that there may be, up to those behind the last one that the specifier names, with as many parts."""
    highest = max(Version(part.version) for part in specifier)
    build = ".78" if len(highest.release) == 4 else ""
    for major, minor, patch in product(range(highest.major + 1), range(40), range(10)):
        yield f"{major}.{minor}.{patch}{build}"


@pytest.mark.parametrize("advisory", advisories(), ids=str)
def test_no_version_with_an_advisory_is_allowed(advisory: Requirement) -> None:
    needed = [*map(Requirement, PROJECT["dependencies"]), *requirements(*EXTRAS)]
    allowed = [r.specifier for r in needed if canonicalize_name(r.name) == canonicalize_name(advisory.name)]
    assert allowed
    tried = [version for version in versions_around(advisory.specifier) if version in advisory.specifier]
    assert tried and not [version for version in tried if any(version in specifier for specifier in allowed)]


def test_every_line_of_the_lock_has_a_hash() -> None:
    first, *lines = LOCK.read_text(encoding="utf-8").splitlines()
    assert first.startswith("# Python 3.")
    assert all(re.fullmatch(r"[a-z0-9.-]+==[\w.+]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    names = [line.partition("==")[0] for line in lines]
    assert names == sorted(set(names))


def test_the_list_of_a_release_has_all_that_runs() -> None:
    made = sbom.sbom()
    found = {component["name"]: component for component in made["components"]}
    assert {"click", "h5py", "jinja2", "markupsafe", "numpy", "protobuf", "rich"} <= set(found)
    assert not {"tensorflow-cpu", "pytest", "keras"} & set(found), "nothing of the extras"
    refs = {made["metadata"]["component"]["bom-ref"], *(component["bom-ref"] for component in made["components"])}
    assert {row["ref"] for row in made["dependencies"]} == refs
    assert {ref for row in made["dependencies"] for ref in row["dependsOn"]} < refs
    assert all(component["purl"] == f"pkg:pypi/{name}@{component['version']}" for name, component in found.items())


def test_the_list_is_the_same_each_time(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "development.sbom"]
    printed = subprocess.run(call, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    subprocess.run([*call, str(tmp_path / "sbom.json")], cwd=ROOT, check=True)
    assert (tmp_path / "sbom.json").read_text(encoding="utf-8") == printed
    assert json.loads(printed) == sbom.sbom()


@pytest.mark.skipif(sys.platform != "linux", reason="the lock is for Linux")
def test_ci_installs_what_the_lock_names() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert 'split -n r/2 constraints/ci.txt "$work/packages."' in script
    assert '"$work"/packages.* | xargs -0 -n 1 -P 2 "$venv/bin/pip" install -q --require-hashes --no-deps -r' in script
