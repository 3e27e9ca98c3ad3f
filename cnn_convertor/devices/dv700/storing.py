"""Stores the weights of a program as configured: fits palettes, calibrates them, and gives up those that the outputs cannot afford."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as bind
from typing import NamedTuple

from cnn_convertor.devices.dv700.byte_input import with_byte_input, with_swapped_bytes
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.legalize.split_slopes import PaletteTargets
from cnn_convertor.devices.dv700.weights import palettes
from cnn_convertor.devices.settings import Quantization
from cnn_convertor.devices.target import Accelerator, Plan, Quantized, Storage
from cnn_convertor.ir.graph import Graph
from cnn_convertor.progress import Progress
from cnn_convertor.workers.processes import Workers


class Storing(NamedTuple):
    """How a network is stored for a device. on: where calibration runs."""

    graph: Graph
    storage: Storage
    device: Device
    plan: Plan
    progress: Progress
    on: Workers


def quantize(
    storing: Storing, target: Accelerator, with_palettes: Callable[[PaletteTargets], Accelerator]
) -> Quantized:
    """As `Accelerator.quantize`. with_palettes: the target with other layers that are to have some.

    With `quantization = auto` a layer may give up the palette for which its PReLU was split off. The network is then planned
    again, with the PReLU inside that layer.
    """
    first = _stored(storing, target)
    split = palettes.split_layers(first.program)
    if storing.storage.weights.quantization is not Quantization.AUTO or all(split.values()):
        return first
    targets = PaletteTargets(False, frozenset(layer for layer, palette in split.items() if palette))
    again = _stored(storing, with_palettes(targets))
    if first.budget is None or again.budget is None:
        return again
    return again._replace(budget=again.budget._replace(with_all=first.budget.with_all))


def _stored(storing: Storing, target: Accelerator) -> Quantized:
    graph, storage, device, plan, progress, on = storing
    sqnr = storage.output_sqnr
    program = palettes.choose(plan(target), storage.weights, bind(progress, "palettes"))
    if storage.byte_values is not None:
        program = with_byte_input(program, storage.byte_values)
    finish = with_swapped_bytes if storage.swaps_bytes else lambda program: program
    if not storage.calibrates and sqnr is None:
        return Quantized(finish(program), target)
    samples = storage.samples()
    calibration = None
    budget = None
    if storage.calibrates:
        # Here, as most conversions do without.
        from cnn_convertor.devices.dv700.fitting.calibration import calibrate, fitting_and_judging

        progress("calibrate", 0, 1)
        if calibrated := calibrate(
            graph,
            program,
            samples,
            unfused=plan(target.unfused),
            device=device,
            all_stay=sqnr is None,
            progress=progress,
            on=on,
        ):
            program, calibration = calibrated
            samples = fitting_and_judging(samples)[1]
    if sqnr is not None:
        progress("measure outputs", 0, 1)
        from cnn_convertor.devices.dv700.fitting.output_budget import keep_outputs  # here, too

        program, budget = keep_outputs(graph, program, samples, sqnr=sqnr, device=device, progress=progress)
    return Quantized(finish(program), target, calibration, budget)
