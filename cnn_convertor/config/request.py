"""A configuration resolved into what each stage of a conversion takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.config.config import Config
from cnn_convertor.config.kinds import INPUT_TYPES
from cnn_convertor.devices.registry import target_of
from cnn_convertor.devices.settings import Quantization, QuantizationOptions
from cnn_convertor.devices.target import Accelerator
from cnn_convertor.errors import Origin, Problem, warn
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.samples import BRIGHTEST, Preparation

_FARTHEST: Final = 1.5 * BRIGHTEST  # from 0 that networks take pixels
_LARGEST_SCALE: Final = 20  # of pixels from 0 to 1: std = 0.05


def preparation_of(config: Config) -> Preparation:
    order = config.channel_order or config.origin.channel_order
    is_whole = config.input != "fp16"
    written = INPUT_TYPES[config.input] or order
    is_given = bool(config.mean) or config.scale is not None or config.std is not None or is_whole
    scale = _reciprocal(config.std) if config.scale is None else config.scale
    return Preparation(config.mean or (0.0,), scale, order, is_given, is_whole, written != order)


def _reciprocal(std: float | tuple[float, ...] | None) -> float | tuple[float, ...]:
    match std:
        case None:
            return 1.0
        case tuple():
            return tuple(1 / number for number in std)
        case _:
            return 1 / std


def _warn_of_figures(config: Config, preparation: Preparation) -> None:
    """Warn of mean, scale and std that move pixels far beyond 0 to 255: they are for pixels from 0 to 1, or a reciprocal."""
    low, high = preparation.range
    if max(-low, high) <= _FARTHEST:
        return
    lines = []
    if 0 < np.abs(preparation.mean).max() <= 1:
        lines.append(f"mean = {_listed(np.array(preparation.mean) * BRIGHTEST)}")
    scale = np.array(preparation.scale) / BRIGHTEST
    key = "scale" if config.std is None else "std"
    if np.abs(preparation.scale).max() >= _LARGEST_SCALE:
        scale = 1 / np.array(preparation.scale)
    lines.append(f"{key} = {_listed(scale if key == 'scale' else 1 / scale)}")
    problem = f"[INPUT] mean and {key} make inputs from {low:g} to {high:g} of pixels from 0 to 255"
    where = config.lines.get(key, config.lines.get("mean", Origin(str(config.definition))))
    warn(Problem("DV141", problem, where, f"{' and '.join(lines)}: pixels are from 0 to 255, and scale = 1 / std"))


def _listed(numbers: ArrayLike) -> str:
    """Numbers as in an ini file."""
    return ", ".join(f"{number:.6g}" for number in np.atleast_1d(numbers))


@dataclass(frozen=True, slots=True)
class Request:
    """One network to convert. Each stage takes its own part.

    name: of the network. model: to read; lines: where keys are configured.
    target: the device, set up for it.
    weights: how they are stored; calibrate: sample inputs for palettes; output_sqnr: dB that every output is to keep, or None.
    preparation: of images. rendering: the texts to write. selftest, report: whether to write them. folder: for the outputs.
    """

    name: str
    model: Model
    lines: Mapping[str, Origin]
    target: Accelerator
    weights: QuantizationOptions
    calibrate: Path | None
    output_sqnr: float | None
    preparation: Preparation
    rendering: RenderOptions
    selftest: bool
    report: bool
    folder: Path

    @staticmethod
    def of(config: Config) -> Request:
        preparation = preparation_of(config)
        sqnr = config.output_sqnr
        _warn_of_figures(config, preparation)
        written = preparation.as_written
        return Request(
            name=config.name,
            model=config.model,
            lines=config.lines,
            target=target_of(config.hardware, config.settings),
            weights=QuantizationOptions(
                Quantization(config.quantization),
                config.quantization_threshold if sqnr is None else None,
                config.overrides,
            ),
            calibrate=config.calibrate,
            output_sqnr=sqnr,
            preparation=preparation,
            rendering=RenderOptions(
                model=config.definition.name,
                source=config.generate_source,
                doxygen=config.generate_doxy,
                dot=config.generate_dot,
                python_module=config.python_module,
                graphviz_path=config.graphviz_path,
                loadable=config.loadable,
                mean=written.mean,
                scale=written.scale,
                channel_order=written.channel_order,
                every_byte=written.of_every_byte if written.is_given else None,
            ),
            selftest=config.selftest,
            report=config.report,
            folder=config.folder,
        )

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that a conversion reads, and folders of files."""
        return self.model.files if self.calibrate is None else (*self.model.files, self.calibrate)
