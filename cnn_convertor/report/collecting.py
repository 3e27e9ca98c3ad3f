"""Collects a report's numbers from a program; what a view shows is calculated here, or before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cnn_convertor import __version__, codegen
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.encode.registers import encode
from cnn_convertor.devices.dv700.estimate import (
    Estimate,
    changes,
    cpu_estimates,
    estimates,
    palette_command_bytes,
    provenance,
)
from cnn_convertor.devices.dv700.fusion.forms import evidence_of
from cnn_convertor.devices.dv700.fusion.ub_fit import strips
from cnn_convertor.devices.dv700.operators import describe, words_of
from cnn_convertor.devices.dv700.profile import FIGURES, Profile
from cnn_convertor.devices.dv700.program import ConvolutionKind, Layer, PoolingKind, Program, Run, operand_of, topo_of
from cnn_convertor.devices.dv700.weights import palettes
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.program import ElementType, LayerType, Tensor
from cnn_convertor.errors import Problem
from cnn_convertor.ir.ops import ONE
from cnn_convertor.report import values
from cnn_convertor.report.rows import plain

if TYPE_CHECKING:
    from cnn_convertor.palettes import calibration as calibrations
    from cnn_convertor.palettes import output_budget as budgets


def report_of(
    program: Program,
    request: Request,
    *,
    calibration: calibrations.Calibration | None = None,
    budget: budgets.AccuracyBudget | None = None,
) -> values.Report:
    """What a conversion knows."""
    profile = request.hardware
    assert isinstance(profile, Profile)
    return replace(
        outline(request),
        network=program.name,
        inputs=tuple(values.NetworkInput(name, map_of(tensor)) for name, tensor in program.inputs),
        outputs=tuple(
            values.NetworkOutput(name, at, map_of(result))
            for (name, result), at in zip(program.results, program.outputs, strict=True)
        ),
        steps=tuple(_steps(program, profile)),
        between=values.Between(*changes(program, profile)),
        memory=_memory(program),
        weight_bytes=program.weight_bytes,
        weights=tuple(_stored(program)),
        palette_command_bytes=palette_command_bytes(program, profile),
        calibration=None if calibration is None else _calibration(calibration),
        kept=None if budget is None else values.KeptPrecision(*budget),
        notes=tuple(codegen.description(program)),
    )


def outline(request: Request) -> values.Report:
    """What is known of a network that was not read."""
    profile, target, preparation = request.hardware, request.target, request.preparation
    assert isinstance(profile, Profile)
    return values.Report(
        schema=values.SCHEMA,
        convertor=__version__,
        network=request.name,
        file=request.rendering.model,
        framework=request.model.frontend.title,
        device=_device(profile, fusion=target.fusion.value, transposed=target.transposed),
        preprocessing=values.Preprocessing(preparation.channel_order, preparation.mean, preparation.scale),
    )


def _device(profile: Profile, *, fusion: str, transposed: bool) -> values.DeviceFacts:
    figures = {
        name: values.DeviceFigure(FIGURES[name].words, _text(f.value), FIGURES[name].unit, f.source, f.is_assumed)
        for name, f in profile.figures.items()
    }
    return values.DeviceFacts(
        name=profile.name,
        title=profile.title,
        fusion=fusion,
        transposed=transposed,
        provenance=provenance(profile),
        driver=figures["driver"],
        hardware=figures["hardware"],
        limits=profile.limits.of_board,
        figures=tuple(figures.values()),
    )


def _text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(str, value))
        case Interval():
            return value.text(".9g")
        case _:
            return str(value)


def map_of(tensor: Tensor) -> values.StoredMap:
    dtype = "uint8" if tensor.type is ElementType.BYTE else f"float{8 * tensor.type.value}"
    return values.StoredMap(plain(tensor.shape), tensor.layout.name, dtype, tensor.offset, tensor.nbytes)


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


_FORCED = "the device has no exact form of it"


# --- steps ---------------------------------------------------------------------------------------------------------------


def _steps(program: Program, profile: Profile) -> Iterator[values.Step]:
    costs, on_cpu = iter(estimates(program, profile)), cpu_estimates(program, profile)
    numbers = {tensor.offset: number for number, (_, tensor) in enumerate(program.inputs)}
    for layer, cpu_cost in zip(program.layers, on_cpu, strict=True):
        blobs = (run.convolution.weights for run in layer.runs if run.convolution is not None)
        yield values.Step(
            name=layer.name,
            type=layer.type.value,
            does=_does_on_device(layer) if layer.runs else _does_on_cpu(layer),
            place=layer.type.executor,
            layers=_layers(layer),
            reads=tuple(
                values.StepInput(source, numbers.get(tensor.offset) if source is None else None, plain(tensor.shape))
                for tensor, source in zip(layer.inputs, layer.sources, strict=True)
            ),
            output=map_of(layer.output),
            is_output=layer.is_output,
            runs=tuple(_run(run, profile) for run in layer.runs),
            weights=tuple(values.WeightBlob(w.offset, w.nbytes, w.packed.palette) for w in blobs),
            topo=topo_of(layer) if layer.runs else None,
            evidence=evidence_of(layer, profile).name.lower() if layer.runs else None,
            cost=_cost(next(costs)) if layer.runs else None,
            cpu_cost=None if cpu_cost is None else values.CpuCost(*cpu_cost),
            reason=layer.reason or _FORCED if layer.type.executor == "cpu" else "",
        )


def _does_on_device(layer: Layer) -> str:
    adds = "; sum" * (operand_of(layer) is not None)
    return ", ".join(dict.fromkeys(map(_does, layer.runs))) + adds


def _does_on_cpu(layer: Layer) -> str:
    return layer.type.name.lower().replace("_", " ") if layer.cpu is None else describe(layer.cpu)


def _layers(layer: Layer | Run) -> tuple[str, ...]:
    return tuple(dict.fromkeys(origin.layer for origin in layer.origins))


def _cost(cost: Estimate) -> values.StepCost:
    return values.StepCost(bytes=cost.nbytes, bound=cost.bound, usec=cost.usec, **cost._asdict())


def _run(run: Run, profile: Profile) -> values.CommandRun:
    registers = encode(run)._asdict()
    return values.CommandRun(
        layers=_layers(run),
        does=_does(run),
        input=plain(run.input),
        output=plain(run.output),
        tiles=strips(run, ub_size=profile.ub_size.value) or 1,
        external=run.external,
        registers=tuple(values.Register(name, value) for name, value in registers.items() if value),
    )


_KINDS = {
    ConvolutionKind.CONVOLUTION: "convolution",
    ConvolutionKind.DEPTHWISE: "depthwise convolution",
    ConvolutionKind.DECONVOLUTION: "deconvolution",
    ConvolutionKind.DEPTHWISE_DECONVOLUTION: "depthwise deconvolution",
}
_POOLS = {PoolingKind.MAX: "max pool", PoolingKind.AVERAGE: "average pool", PoolingKind.UPSAMPLE: "upsampling"}


def _does(run: Run) -> str:
    """A run in words: convolution 3x3, stride 2x2; max pool 2x2; relu"""
    parts = []
    if run.factors is not None:
        parts.append("scale by packed factors")
    if run.convolution is not None:
        convolution = run.convolution
        stride = f" with stride {convolution.stride}" * (convolution.stride != ONE)
        dilation = f" dilated by {convolution.dilation}" * (convolution.dilation != ONE)
        parts.append(f"{_KINDS[convolution.kind]} {convolution.kernel}{stride}{dilation}")
    if run.pooling is not None:
        parts.append(f"{_POOLS[run.pooling.kind]} {run.pooling.kernel}")
    if run.activation is not None:
        parts.append(words_of(type(run.activation)))
    return "; ".join(parts) or "copy"


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


# --- weights -------------------------------------------------------------------------------------------------------------


def _stored(program: Program) -> Iterator[values.StoredWeights]:
    commands = [
        (step, number)
        for step, layer in enumerate(program.layers)
        for number, run in enumerate(layer.runs)
        if run.convolution is not None and run.convolution.weights.choice is not None
    ]
    for (step, number), stored in zip(commands, palettes.describe(program), strict=True):
        yield values.StoredWeights(
            layer=stored.layer,
            step=step,
            run=number,
            palette=stored.palette,
            reason=stored.reason.value,
            distinct=stored.distinct,
            zeros=stored.zeros,
            sqnr=stored.sqnr,
            fp16_bytes=stored.fp16_bytes,
            bytes=stored.nbytes,
        )


def _calibration(result: calibrations.Calibration) -> values.CalibrationEffect:
    outputs = tuple(values.Gain(*each) for each in result.outputs)
    layers = tuple(values.LayerGain(*each) for each in result.layers)
    return values.CalibrationEffect(result.samples, result.judges, result.source, outputs, layers)
