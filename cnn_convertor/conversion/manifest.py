"""The manifest NAME.json: what an application or a tool needs to drive a converted network without reading C++."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cnn_convertor.devices.facts import Step
from cnn_convertor.devices.registry import COMPILED, DEFAULT_DEVICE, read_hardware
from cnn_convertor.files import json_files
from cnn_convertor.files.codec import as_text, to_values
from cnn_convertor.files.hashing import opened
from cnn_convertor.files.replacing import Digest, is_inside
from cnn_convertor.report import values

SCHEMA: Final = 2


def manifest(report: values.Report, files: Mapping[str, Digest]) -> str:
    """The manifest as JSON; docs/report.md describes it. files: those of the conversion, but the manifest itself."""
    assert report.memory is not None
    content = {
        "schema": SCHEMA,
        "convertor": report.convertor,
        "network": report.network,
        "device": report.device.name,
        "driver": report.device.driver.value,
        "hardware": report.device.hardware.value,
        "limits": to_values(report.device.limits),
        "fusion": report.device.fusion,
        "transpose_weight": report.device.transposed,
        "io_bytes": report.memory.bytes,
        "io_bytes_lower_bound": report.memory.lower_bound,
        "weight_bytes": report.weight_bytes,
        "inputs": [{"name": tensor.name, **to_values(tensor.map)} for tensor in report.inputs],
        "preprocessing": to_values(report.preprocessing),
        "outputs": [
            {"index": index, "name": output.name, "layer": output.step, **to_values(output.map)}
            for index, output in enumerate(report.outputs)
        ],
        "buffers": to_values(report.memory.buffers),
        "layers": [{**_layer(step), **_command(step)} for step in report.steps],
        "files": {name: digest._asdict() for name, digest in files.items()},
    }
    return as_text(content)


def _layer(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "type": step.type,
        "computes": list(step.layers),
        **({"weights": to_values(step.weights)} if step.weights else {}),
        "output": to_values(step.output),
    }


def _command(step: Step) -> dict[str, Any]:
    if step.cost is None:
        return {}
    estimate = {name: value for name, value in to_values(step.cost).items() if name not in _LEFT_OUT}
    return {
        "runs": len(step.runs),
        "topo": step.topo,
        "evidence": step.evidence,
        "estimate": estimate,
    }


_LEFT_OUT: Final = {"compute_usec", "memory_usec", "command_usec"}
_ENDS: Final = (
    *(".json", ".dot", ".html", "_report.json"),
    *("_gen.h", "_gen.cpp", "_cpu.h", "_frame.h", "_weights.bin", "_selftest.cpp", "_selftest.bin"),
    *(form.suffixes[0] for form in COMPILED),
)
_MADE_BY: Final = b"// made by cnn-convertor "


def names_of(name: str) -> tuple[str, ...]:
    """The files that a conversion of a network may write, but the source of a Python module, which has a name of its own."""
    return (*(f"{name}{end}" for end in _ENDS), "doc/Doxyfile", "doc/pages.dox")


def _is_own(folder: Path, name: str, file: str) -> bool:
    """Whether a conversion of the network writes files of that name: a manifest of any origin may list others."""
    return file in names_of(name) or (
        is_inside(folder, file) and file.endswith(".cpp") and _is_generated(folder / file)
    )


def _is_generated(path: Path) -> bool:
    try:
        with opened(path) as stream:
            return stream.read(len(_MADE_BY)) == _MADE_BY
    except OSError:
        return False


def earlier_files(folder: Path, name: str) -> tuple[str, ...]:
    """The files that the manifest of an earlier conversion lists, itself included; none if there is no such manifest.

    A file that has another size than the manifest says, or a name that no conversion writes, is the user's, and is left out.
    """
    values = _read(folder / f"{name}.json")
    listed = ((str(file), digest.get("bytes")) for file, digest in values["files"].items()) if values else ()
    own = [(file, size) for file, size in listed if is_inside(folder, file) and _is_own(folder, name, file)]
    files = tuple(file for file, size in own if _size(folder / file) == size is not None)
    return (f"{name}.json", *files) if values else ()


def listed_digests(folder: Path, name: str) -> dict[str, Digest]:
    """File -> what the manifest of a conversion says of it; empty without such a manifest."""
    values = _read(folder / f"{name}.json") or {"files": {}}
    return {
        str(file): Digest(each["bytes"], str(each["sha256"]))
        for file, each in values["files"].items()
        if is_inside(folder, file) and isinstance(each.get("bytes"), int) and "sha256" in each
    }


def board_of(source: Path) -> tuple[str, dict[str, int | bool]] | None:
    """The device, and its limits, for which a source was generated; None if no manifest beside it lists the source."""
    values = _read(source.with_name(source.name.removesuffix("_gen.cpp") + ".json"))
    if not values or source.name not in values["files"] or not isinstance(name := values.get("device"), str):
        return None
    usual = read_hardware(DEFAULT_DEVICE, Path()).of_board
    limits = values.get("limits")
    if not isinstance(limits, dict) or any(type(limits.get(key)) is not type(limit) for key, limit in usual.items()):
        return None
    return name, {key: limits[key] for key in usual}


def _read(path: Path) -> dict[str, Any] | None:
    """The entries of the manifest of that name, if it is one."""
    try:
        values = json_files.load(path)
    except (OSError, ValueError):
        return None
    is_manifest = (
        isinstance(values, dict)
        and values.get("network") == path.stem
        and isinstance(values.get("schema"), int)
        and isinstance(values.get("files"), dict)
        and all(isinstance(digest, dict) for digest in values["files"].values())
    )
    return values if is_manifest else None


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() and not path.is_symlink() else None
    except OSError:  # its name is too long for the system
        return None
