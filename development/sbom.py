"""Writes the list of what a release consists of, as CycloneDX 1.5 in JSON: python -m development.sbom [FILE]

The package, and what it needs to run, in the versions that are installed here. Hashes are those of constraints/ci.txt, where it
has the same version.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cnn_convertor import __version__
from development.lock import LOCK, ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAME: Final = "cnn-convertor"


def locked() -> dict[tuple[str, str], str]:
    """(name, version) -> SHA-256, of constraints/ci.txt."""
    rows = (line.split() for line in LOCK.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    found = {}
    for package, digest in rows:
        name, _, version = package.partition("==")
        found[name, version] = digest.removeprefix("--hash=sha256:")
    return found


def names(requirements: list[str]) -> Iterator[str]:
    """The packages that requirements without extras name, for this Python and platform."""
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def sbom() -> dict[str, Any]:
    """The whole document. It has no date and no random number: the same packages give the same bytes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = {NAME: sorted(names(project["dependencies"]))}
    waiting = [*needs[NAME]]
    while waiting:
        name = waiting.pop()
        if name not in needs:
            needs[name] = sorted(names(distribution(name).requires or []))
            waiting += needs[name]
    versions = {name: distribution(name).version for name in needs if name != NAME} | {NAME: __version__}
    refs = {name: f"pkg:pypi/{name}@{version}" for name, version in versions.items()}
    hashes = locked()

    def component(name: str) -> dict[str, Any]:
        described = {
            "type": "library",
            "bom-ref": refs[name],
            "name": name,
            "version": versions[name],
            "purl": refs[name],
        }
        digest = hashes.get((name, versions[name]))
        return {**described, **({"hashes": [{"alg": "SHA-256", "content": digest}]} if digest else {})}

    own = {**component(NAME), "type": "application", "licenses": [{"license": {"id": project["license"]}}]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": [component(name) for name in sorted(needs) if name != NAME],
        "dependencies": [{"ref": refs[name], "dependsOn": [refs[n] for n in needs[name]]} for name in sorted(needs)],
    }


def main() -> None:
    text = json.dumps(sbom(), indent=2) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8", newline="\n")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
