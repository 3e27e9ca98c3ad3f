"""The manifest NAME.json: what an application or a tool needs to drive a converted network without reading C++."""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from cnn_convertor import __version__
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.estimate import Estimate, estimates
from cnn_convertor.devices.dv700.fusion.forms import evidence_of
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.program import ElementType, Layer, Program, Tensor
from cnn_convertor.files import Digest
from cnn_convertor.samples import Preparation

SCHEMA: Final = 1
_LARGEST: Final = 1 << 24  # bytes of a manifest that is read back


def manifest(program: Program, config: Config, files: Mapping[str, Digest]) -> str:
    """The manifest as JSON; docs/manifest.md describes it. files: those of the conversion, but the manifest itself."""
    preparation = Preparation.of(config)
    commands = iter(estimates(program, config.profile))
    values = {
        "schema": SCHEMA,
        "convertor": __version__,
        "network": program.name,
        "device": config.profile.name,
        "fusion": config.fusion,
        "transpose_weight": program.transposed,
        "io_bytes": program.io_bytes,
        "io_bytes_lower_bound": program.plan.lower_bound,
        "weight_bytes": program.weight_bytes,
        "inputs": [{"name": name, **_map(program, given)} for name, given in program.inputs],
        "preprocessing": {
            "channel_order": preparation.channel_order,
            "mean": list(preparation.mean),
            "scale": preparation.scale,
        },
        "outputs": [
            {"index": index, "name": name, "layer": at, **_map(program, result)}
            for index, ((name, result), at) in enumerate(zip(program.results, program.outputs, strict=True))
        ],
        "layers": [
            {**_layer(program, layer), **(_command(layer, config.profile, next(commands)) if layer.runs else {})}
            for layer in program.layers
        ],
        "files": {name: digest._asdict() for name, digest in files.items()},
    }
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {_lines(value)}" for key, value in values.items()) + "\n}\n"


def _lines(value: object) -> str:
    """JSON with one line for each item of a list or an object."""
    match value:
        case dict():
            return "{\n" + ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "\n  }"
        case list():
            return "[\n" + ",\n".join(f"    {json.dumps(v)}" for v in value) + "\n  ]"
        case _:
            return json.dumps(value)


def _map(program: Program, given: Tensor) -> dict[str, Any]:
    """shape: height, width, channels. layout: a name of `cnn-convertor layout`. offset: bytes from the I/O buffer's start."""
    order = "HWC" if given.is_plain else ("hwc8" if program.transposed else "whc8")
    dtype = "uint8" if given.type is ElementType.BYTE else f"float{8 * given.type.value}"
    return {"shape": list(given.shape), "layout": order, "dtype": dtype, "offset": given.offset, "bytes": given.nbytes}


def _layer(program: Program, layer: Layer) -> dict[str, Any]:
    weights = [run.convolution.weights for run in layer.runs if run.convolution is not None]
    stored = [{"offset": w.offset, "bytes": w.nbytes, "palette": w.packed.palette} for w in weights]
    origins = list(dict.fromkeys(origin.layer for origin in layer.origins))
    return {
        "name": layer.name,
        "type": layer.type.value,
        "computes": origins,
        **({"weights": stored} if stored else {}),
        "output": _map(program, layer.output),
    }


def _command(layer: Layer, profile: Profile, cost: Estimate) -> dict[str, Any]:
    return {
        "runs": len(layer.runs),
        "topo": layer.topo,
        "evidence": evidence_of(layer, profile).name.lower(),
        "estimate": cost.to_values(),
    }


def earlier_files(folder: Path, name: str) -> tuple[str, ...]:
    """The files that the manifest of an earlier conversion lists, itself included; none if there is no such manifest.

    A file that has another size than the manifest says is the user's by now, and is left out.
    """
    path = folder / f"{name}.json"
    try:
        if path.stat().st_size > _LARGEST:
            return ()
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["network"] != name or not isinstance(values["schema"], int):
            return ()
        listed = [(str(file), digest["bytes"]) for file, digest in values["files"].items()]
        return (path.name, *(file for file, size in listed if _is_inside(file) and _size(folder / file) == size))
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return ()


def _is_inside(file: str) -> bool:
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts and path.name != ""


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() and not path.is_symlink() else None
