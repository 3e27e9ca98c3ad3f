"""Compares what a board computed with the emulated device and with the framework, layer by layer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cnn_convertor.board.board_times import cache_rate, function_times
from cnn_convertor.board.kit import GIVEN, Inputs, network_files, network_hash
from cnn_convertor.board.stored_results import BoardResults, read_results
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.facts import ProgramFacts, Step
from cnn_convertor.devices.intervals import Interval, total
from cnn_convertor.devices.program import ElementType
from cnn_convertor.emulation.feature_maps import (
    Maps,
    Outputs,
    Traffic,
    given_memory,
    in_program_order,
    input_bytes,
    outputs_of,
)
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.files.hashing import sha256_of
from cnn_convertor.files.replacing import Contents
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.pipeline import quantize, read_whole
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import Samples
from cnn_convertor.trials.run import warn_of_other_files
from cnn_convertor.trials.verify import MIN_SQNR
from cnn_convertor.verification.both_sides import BothSides
from cnn_convertor.verification.compare import compare
from cnn_convertor.verification.inner_maps import held_layers, pairs
from cnn_convertor.verification.on_board import BoardLayer, BoardVerification, Modelled
from cnn_convertor.verification.outputs import compare_outputs
from cnn_convertor.verification.reference import run_both
from cnn_convertor.verification.results import Comparison

# A layer leaves the emulation when it does not compute on its own inputs what the emulated device computes on them. Sums in
# another order change each value by one step of FP16, and by little more where they cancel. A command of several runs rounds maps
# between these, whose last digits the next run adds up. Classes, which are bytes, are exact.
STEP = 2.0**-10  # of FP16, as a part of the value
SMALLEST_STEP = 2.0**-24
NOISE = 2.0**-21  # of the map's RMS: FP32 sums of another order
LEAST_SQNR = 50.0  # dB, of one of several runs
MOST_ERROR = 1 / 64  # of the largest value of the map, for several runs


def verify_board(
    config: Config,
    folder: Path,
    *,
    inputs: Path | None = None,
    min_sqnr: float | None = None,
    sources: Sequence[Path] = (),
    progress: Progress = silent,
) -> BoardVerification:
    """Compare what a kit stored in a folder on the board.

    inputs: those the kit was made with; None: random images. min_sqnr: as in `trials.verify`. sources: C++ files with the
    callbacks of custom layers. Raises UsageError when the results cannot be read or belong to another kit.
    """
    results = read_results(folder)
    if results.seed == GIVEN and inputs is None:
        raise _other(folder, "the kit was made with --inputs", "give the same --inputs")
    progress("read", 0, 1)
    request = Request.of(config)
    graph = read_whole(request)
    quantized = quantize(graph, request, progress)
    program = quantized.program
    samples = Inputs(inputs, results.samples, max(0, results.seed)).read(graph, request.preparation)
    if hashlib.sha256(input_bytes(program, samples.inputs)).hexdigest() != results.inputs:
        raise _other(
            folder, "the kit was made with other inputs", "give the same --inputs, or none if the kit had none"
        )
    with temporary_folder() as scratch:
        progress("compile", 0, 1)
        emitted: dict[str, Contents] = network_files(program, request)
        network = request.target.install(graph, program, emitted, scratch, sources=sources)
        hashes = {name: sha256_of(scratch / name) for name in emitted}
        if network_hash(hashes) != results.network:
            hint = "give the --calibrate and the device that the kit was made with, or make the kit again"
            raise _other(folder, "the kit was made from another network, or by another version", hint)
        results.require_fit(program)
        warn_of_other_files(request, quantized, {name: scratch / name for name in emitted})
        threshold = MIN_SQNR[quantized.target.is_narrow(program)] if min_sqnr is None else min_sqnr
        progress("compare", 0, 1)
        return _compared(request, network, samples, results, threshold)


def _compared(
    request: Request, network: EmulatedNetwork, samples: Samples, results: BoardResults, min_sqnr: float
) -> BoardVerification:
    program = network.program
    facts = request.target.facts(program)
    usec = [layer.usec for layer in in_program_order(program, results.layers)]
    sides = run_both(request.model, network, samples)
    follows = network.run(samples.inputs, layers=True, replaced=given_memory(program, results.memory))
    board = Outputs(outputs_of(program, results.outputs, network.shapes), results.maps(program))
    layers = _layers(network, board.layers, follows, results, facts)
    on_board = sides._replace(device=board)
    layers = _beside_framework(layers, on_board, sides)
    modelled = [made.modelled for made, layer in zip(layers, program.layers, strict=True) if layer.runs]
    return BoardVerification(
        network=request.name,
        framework=sides.reference.framework,
        inputs=samples.source,
        samples=samples.count,
        device=str(results.device["description"]),
        min_sqnr=min_sqnr,
        outputs=compare_outputs(on_board),
        emulated=compare_outputs(sides),
        layers=layers,
        whole=results.whole,
        cpu_usec=results.cpu_usec,
        between_usec=results.between_usec,
        functions=function_times(program, [step.cpu_cost for step in facts.steps], usec),
        cache_bytes_per_second=cache_rate(facts.between.changes, program.io_bytes, results.between_usec),
        modelled=Modelled(
            total(one.usec for one in modelled), sum(one.cycles for one in modelled), sum(one.bytes for one in modelled)
        ),
    )


def _layers(
    network: EmulatedNetwork, board: Sequence[Maps], follows: Outputs, results: BoardResults, facts: ProgramFacts
) -> tuple[BoardLayer, ...]:
    """Each layer of the board against the emulated device. follows: the emulated device's results for the inputs of the board's layers."""
    compared = []
    program = network.program
    times = in_program_order(program, results.layers)
    rows = zip(program.layers, facts.steps, board, follows.layers, follows.traffic, times, strict=True)
    for layer, step, mine, theirs, traffic, measured in rows:
        comparison = compare(layer.name, mine, theirs)
        is_close = layer.output.type is not ElementType.BYTE and _is_close(mine, theirs, comparison, len(layer.runs))
        is_same = np.array_equal(mine, theirs, equal_nan=True) or is_close
        kind = layer.origins[-1].type if layer.origins else layer.type.value
        modelled = _modelled(step, traffic)
        compared.append(BoardLayer(layer.name, kind, comparison, is_same, None, None, measured, modelled))
    return tuple(compared)


def _is_close(mine: Maps, theirs: Maps, comparison: Comparison, runs: int) -> bool:
    if runs <= 1:
        rms = np.sqrt(np.mean(np.square(theirs, dtype=np.float64)))
        step = STEP * np.maximum(np.abs(mine), np.abs(theirs)) + SMALLEST_STEP
        return bool((np.abs(mine - theirs) <= step + NOISE * rms).all())
    threshold = LEAST_SQNR - 10 * math.log10(max(1, runs))
    return comparison.sqnr >= threshold and comparison.max_error <= MOST_ERROR * comparison.largest


def _beside_framework(layers: tuple[BoardLayer, ...], board: BothSides, emulated: BothSides) -> tuple[BoardLayer, ...]:
    """The layers with their errors against the framework's maps."""
    kept = len(emulated.device.layers[0])  # samples
    sides = [
        pairs(each.program, [maps[:kept] for maps in each.device.layers], each.reference) for each in (board, emulated)
    ]
    names = held_layers(board.program)
    return tuple(
        replace(layer, framework=errors[0], emulated=errors[1])
        if (errors := [compare(name, side[name].device, side[name].reference).sqnr for side in sides if name in side])
        else layer
        for layer, name in zip(layers, (names.get(index, "") for index in range(len(layers))), strict=True)
    )


def _modelled(step: Step, traffic: Traffic) -> Modelled:
    nbytes = traffic.input + traffic.operand + traffic.output + traffic.weights
    if step.cost is None:
        return Modelled(Interval.of(0.0) if step.cpu_cost is None else step.cpu_cost.usec, 0, nbytes)
    return Modelled(step.cost.usec, step.cost.cycles, nbytes)


def _other(folder: Path, reason: str, hint: str) -> UsageError:
    return UsageError.of(
        "DV732", f"the results of the board belong to another kit: {reason}", Origin(str(folder)), hint
    )
