"""Runs networks that another program compiled, on arrays of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.compiled import CompiledMap, CompiledNetwork
from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.files.numpy_files import load_array, load_arrays


def run_compiled(network: CompiledNetwork, device: str, path: Path | None) -> dict[str, NDArray[Any]]:
    """Name of an output -> (N, H, W, C). path: a .npy file for the only input, or a .npz file with an array for each.

    Arrays are (H, W, C), or (N, H, W, C) for N samples. Raises UsageError for others.
    """
    inputs = {} if path is None else _arrays(path, network.inputs)
    missing = [each.name for each in network.inputs if each.name not in inputs]
    if missing:
        raise UsageError.of(
            "DV915", f'there is no array for the input "{missing[0]}"', _place(path), "--inputs FILE.npz"
        )
    counts = {len(array) for array in inputs.values()} or {1}
    if len(counts) > 1:
        raise UsageError.of("DV915", f"the inputs have {sorted(counts)} samples", _place(path), "give as many of each")
    results: dict[str, list[NDArray[Any]]] = {output.name: [] for output in network.outputs}
    for sample in range(counts.pop()):
        given = {name: array[sample] for name, array in inputs.items()}
        for name, values in network.run(device, given).items():
            results[name].append(values)
    return {name: np.stack(values) for name, values in results.items() if values}


def _place(path: Path | None) -> Origin | None:
    return None if path is None else Origin(str(path))


def _arrays(path: Path, maps: tuple[CompiledMap, ...]) -> dict[str, NDArray[Any]]:
    """Name of an input -> (N, H, W, C), of its type."""
    try:
        if path.suffix.lower() == ".npz":
            found: Mapping[str, NDArray[Any]] = load_arrays(path)
        else:
            found = {maps[0].name: load_array(path)} if maps else {}
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError.of(
            "DV915", f"cannot read the inputs: {reason}", Origin(str(path)), "a .npy or .npz file"
        ) from None
    known = {each.name: each for each in maps}
    others = [name for name in found if name not in known]
    if others or (path.suffix.lower() != ".npz" and len(maps) != 1):
        names = ", ".join(known) or "it has none"
        problem = f'the file has an array "{others[0]}"' if others else "a .npy file has one array"
        raise UsageError.of(
            "DV915", f"{problem}; the network's inputs: {names}", Origin(str(path)), "a .npz file of these names"
        )
    return {name: _fitted(array, known[name], path) for name, array in found.items()}


def _fitted(array: NDArray[Any], place: CompiledMap, path: Path) -> NDArray[Any]:
    """(N, H, W, C) of the input's type; integers have to be those values, floats are rounded."""
    batch = array[np.newaxis] if array.shape == place.shape else array
    if batch.shape[1:] != place.shape or not len(batch) or array.dtype.kind not in "iuf":
        sizes = "x".join(map(str, array.shape))
        wanted = "x".join(map(str, place.shape))
        problem = f'the array for "{place.name}" is {sizes} of {array.dtype}; the input is {wanted} (height x width x channels)'
        raise UsageError.of("DV915", problem, Origin(str(path)), f"numbers of the shape {wanted}, or N of them")
    with np.errstate(all="ignore"):
        converted = batch.astype(place.element)
    if np.dtype(place.element).kind == "i" and not np.array_equal(converted.astype(np.float64), batch):
        problem = f'the array for "{place.name}" has values that {place.element} does not'
        raise UsageError.of("DV915", problem, Origin(str(path)), f"scale and round the values to {place.element}")
    return converted
