"""Collects a report's numbers from a program; what a view shows is calculated here, or before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from cnn_convertor import __version__
from cnn_convertor.codegen.description import description
from cnn_convertor.config.request import Request
from cnn_convertor.devices.facts import CalibrationEffect, KeptPrecision, map_of
from cnn_convertor.devices.program import Layer, LayerType, Program, Tensor
from cnn_convertor.errors import Problem
from cnn_convertor.report import values


def report_of(
    program: Program,
    request: Request,
    *,
    calibration: CalibrationEffect | None = None,
    budget: KeptPrecision | None = None,
) -> values.Report:
    """What a conversion knows."""
    facts = request.target.facts(program)
    return replace(
        outline(request),
        network=program.name,
        inputs=tuple(values.NetworkInput(name, map_of(tensor)) for name, tensor in program.inputs),
        outputs=tuple(
            values.NetworkOutput(name, at, map_of(result))
            for (name, result), at in zip(program.results, program.outputs, strict=True)
        ),
        steps=facts.steps,
        between=facts.between,
        other_between=facts.other_between,
        memory=_memory(program),
        weight_bytes=program.weight_bytes,
        weights=facts.weights,
        palette_command_bytes=facts.command_buffer,
        calibration=calibration,
        kept=budget,
        notes=tuple(description(program)),
    )


def outline(request: Request) -> values.Report:
    """What is known of a network that was not read."""
    preparation = request.preparation
    return values.Report(
        schema=values.SCHEMA,
        convertor=__version__,
        network=request.name,
        file=request.rendering.model,
        framework=request.model.frontend.title,
        device=request.target.about,
        preprocessing=values.Preprocessing(preparation.channel_order, preparation.mean, preparation.scale),
    )


class Findings(NamedTuple):
    """A report, its problems and the notes on them with the paths of files, which a report leaves out."""

    report: values.Report
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]

    @staticmethod
    def of(report: values.Report, problems: Sequence[Problem], notes: Sequence[Problem]) -> Findings:
        """The report with these problems and notes."""
        complete = replace(
            report, problems=tuple(map(message_of, problems)), convertible_part=tuple(map(message_of, notes))
        )
        return Findings(complete, tuple(problems), tuple(notes))


def message_of(problem: Problem) -> values.Message:
    where = problem.where
    if where is None:
        return values.Message(problem.code, problem.message, problem.remedy, "", None, "", "")
    file = where.file.replace("\\", "/").rpartition("/")[2]  # no path: the same input, the same report
    return values.Message(problem.code, problem.message, problem.remedy, file, where.line, where.layer, where.type)


# --- memory --------------------------------------------------------------------------------------------------------------


def _memory(program: Program) -> values.MemoryUse:
    plan = program.plan
    return values.MemoryUse(
        bytes=plan.size,
        lower_bound=plan.lower_bound,
        proven=plan.proven,
        peak_step=plan.peak.step,
        peak_bytes=plan.peak.size,
        peak_maps=plan.peak.names,
        buffers=tuple(_buffers(program)),
        of_lines=plan.of_lines,
    )


def _buffers(program: Program) -> Iterator[values.LiveMap]:
    """Every map with its live range; a part of a concatenation in place is live until the concatenation takes it over."""
    end = len(program.layers) - 1
    last = {}
    for index, layer in enumerate(program.layers):
        last.update(dict.fromkeys((source for source in layer.sources if source is not None), index))
    outputs = set(program.outputs)
    last |= dict.fromkeys(outputs, end)
    if not any(layer.type is LayerType.INPUT for layer in program.layers):
        for name, tensor in program.inputs:
            reads = [i for i, layer in enumerate(program.layers) if _reads_input(layer, tensor)]
            yield values.LiveMap(name, "input", tensor.offset, tensor.nbytes, 0, max(reads, default=0))
    for index, layer in enumerate(program.layers):
        kind = {LayerType.INPUT: "input", LayerType.CONCAT: "concatenation"}.get(layer.type, "map")
        kind = "output" if index in outputs else kind
        first = 0 if layer.type is LayerType.INPUT else index
        yield values.LiveMap(
            layer.name, kind, layer.output.offset, layer.output.nbytes, first, max(first, last.get(index, index))
        )


def _reads_input(layer: Layer, tensor: Tensor) -> bool:
    pairs = zip(layer.inputs, layer.sources, strict=True)
    return any(source is None and source_tensor.offset == tensor.offset for source_tensor, source in pairs)
