"""Describes the device and its programs for reports."""

from __future__ import annotations

from collections.abc import Iterator

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
from cnn_convertor.devices.dv700.profile import FIGURES, Profile
from cnn_convertor.devices.dv700.runs import ConvolutionKind, Layer, PoolingKind, Program, Run, operand_of, topo_of
from cnn_convertor.devices.dv700.weights import palettes
from cnn_convertor.devices.facts import (
    CommandRun,
    DeviceFacts,
    DeviceFigure,
    ProgramFacts,
    Register,
    Step,
    StepCost,
    StepInput,
    WeightBlob,
    map_of,
    plain,
)
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.settings import Runtime
from cnn_convertor.devices.words import describe, words_of
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import ONE

_FORCED = "the device has no exact form of it"


def program_facts(program: Program, profile: Profile) -> ProgramFacts:
    """What the device knows of a program."""
    return ProgramFacts(
        tuple(_steps(program, profile)),
        changes(program, profile, program.runtime),
        changes(program, profile, Runtime.SDK if program.runtime is Runtime.GENERATED else Runtime.GENERATED),
        palettes.describe(program),
        palette_command_bytes(program, profile),
    )


def device_facts(profile: Profile, *, fusion: str, transposed: bool) -> DeviceFacts:
    """What a network is converted for."""
    figures = {
        name: DeviceFigure(FIGURES[name].words, _text(f.value), FIGURES[name].unit, f.source, f.is_assumed)
        for name, f in profile.figures.items()
    }
    return DeviceFacts(
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


def _steps(program: Program, profile: Profile) -> Iterator[Step]:
    costs = iter(estimates(program, profile))
    on_cpu = cpu_estimates(program, profile)
    numbers = {tensor.offset: number for number, (_, tensor) in enumerate(program.inputs)}
    for layer, cpu_cost in zip(program.layers, on_cpu, strict=True):
        blobs = (run.stored for run in layer.runs if run.stored is not None)
        yield Step(
            name=layer.name,
            type=layer.type.value,
            does=_does_on_device(layer) if layer.runs else _does_on_cpu(layer),
            place=layer.type.executor,
            layers=_layers(layer),
            reads=tuple(
                StepInput(source, numbers.get(tensor.offset) if source is None else None, plain(tensor.shape))
                for tensor, source in zip(layer.inputs, layer.sources, strict=True)
            ),
            output=map_of(layer.output),
            is_output=layer.is_output,
            runs=tuple(_run(run, profile) for run in layer.runs),
            weights=tuple(WeightBlob(w.offset, w.nbytes, w.packed.palette) for w in blobs),
            topo=topo_of(layer) if layer.runs else None,
            evidence=evidence_of(layer, profile).name.lower() if layer.runs else None,
            cost=_cost(next(costs)) if layer.runs else None,
            cpu_cost=cpu_cost,
            reason=layer.reason or _FORCED if layer.type.executor == "cpu" else "",
        )


def _does_on_device(layer: Layer) -> str:
    adds = "; sum" * (operand_of(layer) is not None)
    return ", ".join(dict.fromkeys(map(_does, layer.runs))) + adds


def _does_on_cpu(layer: Layer) -> str:
    return layer.type.name.lower().replace("_", " ") if layer.cpu is None else describe(layer.cpu)


def _layers(layer: Layer | Run) -> tuple[str, ...]:
    return tuple(dict.fromkeys(origin.layer for origin in layer.origins))


def _cost(cost: Estimate) -> StepCost:
    return StepCost(bytes=cost.nbytes, bound=cost.bound, usec=cost.usec, **cost._asdict())


def _run(run: Run, profile: Profile) -> CommandRun:
    registers = encode(run)._asdict()
    return CommandRun(
        layers=_layers(run),
        does=_does(run),
        input=plain(run.input),
        output=plain(run.output),
        tiles=strips(run, ub_size=profile.ub_size.value) or 1,
        external=run.external,
        registers=tuple(Register(name, value) for name, value in registers.items() if value),
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
        op = ops.ScaledBy if run.factors.kind.is_depthwise else ops.TimesPacked
        parts.append(words_of(op))
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
