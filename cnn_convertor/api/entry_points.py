"""The public functions: each takes a network in any form, and the fields of Config as keywords that win."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cnn_convertor.config import Config
from cnn_convertor.config.given import Network, configured, kept
from cnn_convertor.conversion import bulk, cache, inspection
from cnn_convertor.conversion.bulk import ConversionJob, Converted
from cnn_convertor.conversion.convert import ConvertedNetwork
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import load as load_config
from cnn_convertor.progress import Progress, silent
from cnn_convertor.report import Report
from cnn_convertor.samples import SAMPLES, Given
from cnn_convertor.trials import run as running
from cnn_convertor.trials import sweep as sweeping
from cnn_convertor.trials import verify as verifying
from cnn_convertor.trials.sweep_results import Sweep
from cnn_convertor.verification.results import Verification
from cnn_convertor.workers.outcomes import Outcome
from cnn_convertor.workers.processes import HERE, Workers

PathLike = str | os.PathLike[str]


def convert(
    network: Network,
    *,
    progress: Progress = silent,
    on: Workers = HERE,
    cache_folder: PathLike | None = None,
    **options: Any,
) -> ConvertedNetwork:
    """Convert one network and write its files. on: where calibration runs. cache_folder: takes known files from there.

    Raises ConvertorError with every reason; earlier outputs then stay as they are.
    """
    with configured(network, options) as config:
        return cache.convert(config, progress, folder=None if cache_folder is None else Path(cache_folder), on=on)


def convert_all(
    networks: Sequence[Network],
    *,
    on: Workers = HERE,
    cache_folder: PathLike | None = None,
    strict: bool = False,
    **options: Any,
) -> tuple[Outcome[Converted], ...]:
    """Convert networks, which must not write the same files; if one fails, the others continue.

    on: where the work runs. strict: warnings are errors. Gives the outcome of each network, in their order.
    """
    if isinstance(networks, str | os.PathLike | bytes | Config):
        raise TypeError("expected a list of networks; `convert` takes one")
    folder = None if cache_folder is None else Path(cache_folder)
    with ExitStack() as stack:
        configs = [stack.enter_context(configured(network, options)) for network in networks]
        outcomes = dict(bulk.convert_all([ConversionJob(config, folder, strict) for config in configs], on=on))
    return tuple(outcomes[number] for number in range(len(configs)))


def inspect(network: Network, **options: Any) -> Report:
    """Inspect a network without converting it. A .prototxt or .json needs no weights.

    Raises ConvertorError when a file cannot be read at all; what is wrong with single layers is in the report.
    """
    if isinstance(network, str | os.PathLike):
        return inspection.inspect(os.fspath(network), **options)
    with configured(network, options) as config:
        return inspection.inspect(config)


def load(network: Network, **options: Any) -> Graph:
    """The network as its framework has it.

    Raises ConvertorError when layers cannot be read, with every reason, including what the device refuses of the others.
    """
    return load_config(kept(network, options))


def run(
    network: Network,
    inputs: Given,
    *,
    sources: Sequence[PathLike] = (),
    progress: Progress = silent,
    **options: Any,
) -> dict[str, Maps]:
    """Convert a network and run it on the emulated device: the name of each output -> an array (N, H, W, C).

    inputs: an image, a .npy or .npz file, a folder of them, an array as the network takes it, or the name of each input -> an
    array. sources: C++ files with the callbacks of custom layers.
    """
    with configured(network, options) as config:
        files = tuple(map(Path, sources))
        return running.run(config, inputs, sources=files, overridden=bool(options), progress=progress)


def verify(
    network: Network,
    *,
    inputs: Given | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    labels: PathLike | None = None,
    layers: bool = False,
    attribute: bool = False,
    sensitivity: bool = False,
    min_sqnr: float | None = None,
    disk: bool = False,
    sources: Sequence[PathLike] = (),
    progress: Progress = silent,
    on: Workers = HERE,
    **options: Any,
) -> Verification:
    """Compare a converted network with its framework.

    inputs: as in `run`; None: random images. labels: a file with the right class of each input, one number per line. layers: also
    compare every map that exists on both sides. attribute: also find the causes of each layer's error. sensitivity: also
    measure how much FP16 weights in each single layer improve the outputs. min_sqnr: dB; None: 40, or 20 with a palette.
    disk: verify the files of the output folder, in place of a new conversion. sources: C++ files with the callbacks of custom
    layers. on: where the samples run; the results are the same.
    """
    with configured(network, options) as config:
        return verifying.verify(
            config,
            inputs=inputs,
            samples=samples,
            seed=seed,
            labels=None if labels is None else Path(labels),
            layers=layers,
            attribute=attribute,
            sensitivity=sensitivity,
            min_sqnr=min_sqnr,
            disk=disk,
            overridden=bool(options),
            sources=tuple(map(Path, sources)),
            progress=progress,
            on=on,
        )


def sweep(
    network: Network,
    vary: Mapping[str, Sequence[object]],
    *,
    verified: bool = False,
    on: Workers = HERE,
    **options: Any,
) -> Sweep:
    """Compare every combination of settings. vary: key of the ini file -> its values. verified: also measure the SQNR.

    Nothing is written. on: where the work runs.
    """
    if not isinstance(vary, Mapping) or any(isinstance(v, str) or not isinstance(v, Iterable) for v in vary.values()):
        raise TypeError('expected a mapping of keys to lists of values, such as {"quantization": [0, 1]}')
    texts = [f"{key}={','.join(map(_as_in_file, values))}" for key, values in vary.items()]
    with configured(network, options) as config:
        source = Path(network) if isinstance(network, str | os.PathLike) else Path(config.definition.name)
        return sweeping.sweep(sweeping.variants(source, texts, config=config, verified=verified), on=on)


def _as_in_file(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
