"""A command of the probe keeps its name only as long as it stays the same: the times of boards are known by these names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.probe.probe_commands import ASPECTS, ProbeCommand
from cnn_convertor.devices.dv700.probe.suite import commands
from cnn_convertor.devices.dv700.runs import Run
from cnn_convertor.ir.ops import NO_PADDING, ONE, Padding, Pair, PRelu
from conftest import Golden


def _by(*sizes: int) -> str:
    return "x".join(map(str, sizes))


def _slides(kernel: Pair, stride: Pair, dilation: Pair, padding: Padding) -> str:
    around = f" around {tuple(padding)}" if padding != NO_PADDING else ""
    steps = [f" {word} {_by(*pair)}" for word, pair in (("stride", stride), ("dilation", dilation)) if pair != ONE]
    return "".join([_by(*kernel), *steps, around])


def _words(run: Run) -> Iterator[str]:
    """What a run computes, and the shape of its output."""
    if (convolution := run.convolution) is not None:
        packed = convolution.weights.packed
        window = _slides(convolution.kernel, convolution.stride, convolution.dilation, convolution.padding)
        yield f"{convolution.kind.name.lower()} {window}"
        yield from (word for word, is_so in (("palette", packed.palette), ("PReLU", packed.prelu)) if is_so)
    if (pooling := run.pooling) is not None:
        yield f"{pooling.kind.name.lower()} {_slides(pooling.kernel, pooling.stride, ONE, pooling.padding)}"
        if pooling.factor:
            yield f"factor {pooling.factor:.6g}"
    if run.factors is not None:
        yield "factors" if run.factors.kind.is_depthwise else "matrix"
    if run.activation is not None and not isinstance(run.activation, PRelu):
        yield str(run.activation)
    yield f"to {_by(*run.output)}"


def _described(command: ProbeCommand) -> str:
    options = [word for word in ("adds", "is_exact", "table") if getattr(command, word)]
    numbers = [f"{word} {value}" for word in ("batch", "repeats") if (value := getattr(command, word)) > 1]
    lines = [f"{command.subject.name}: {command.name}", f"  {', '.join([_by(*command.input), *options, *numbers])}"]
    for branch in command.branches:
        runs = [", ".join(_words(run)) for run in branch]
        repeats = [f"{runs.count(run)} times {run}" if runs.count(run) > 1 else run for run in dict.fromkeys(runs)]
        lines.append(f"  - {'; '.join(repeats)}")
    return "\n".join(lines)


def test_commands_are_as_they_were(golden: Golden) -> None:
    plain = [command for command in commands(Limits()) if not command.transposed]
    golden("probe.txt", "\n".join(map(_described, plain)) + "\n")


def test_each_command_runs_in_both_memory_orders() -> None:
    names = [(command.name, command.transposed) for command in commands(Limits())]
    assert len(set(names)) == len(names)
    assert {name for name, transposed in names if transposed} == {name for name, transposed in names if not transposed}


def test_each_form_and_feature_has_a_fault() -> None:
    """A slow test shows that the probe notices each fault."""
    source = Path(__file__).with_name("faults.cpp").read_text("utf-8")
    missing = [name for aspect in ASPECTS if f'"{(name := aspect.name.lower())}"' not in source]
    assert missing == [], "find it in a command in tests/board/faults.cpp"
