"""What differs between two reports of one network, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from cnn_convertor.devices.facts import Step
from cnn_convertor.report.summary import decibels, summary
from cnn_convertor.report.values import Report


class ReportDifference(NamedTuple):
    """What has another value. before, after: empty where the earlier or the later report lacks it."""

    section: str
    what: str
    before: str
    after: str


def differences(old: Report, new: Report) -> tuple[ReportDifference, ...]:
    """Every difference, in the order of the reports."""
    return tuple(each for section, rows in _SECTIONS.items() for each in _between(section, rows(old), rows(new)))


def _between(section: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[ReportDifference]:
    for what in dict.fromkeys((*old, *new)):
        before, after = old.get(what, ""), new.get(what, "")
        if before != after:
            yield ReportDifference(section, what, before, after)


def _totals(report: Report) -> dict[str, str]:
    device = report.device
    rows = {
        "convertor": report.convertor,
        "model": report.file,
        "device": device.name,
        "fusion": device.fusion,
        "order": "transposed" if device.transposed else "plain",
    }
    for label, value in summary(report):
        rows[label] = f"{rows[label]}; {value}" if label in rows else value
    return rows


def _layers(report: Report) -> dict[str, str]:
    return {layer.name: f"{layer.runs}: {layer.how}" for layer in report.layers}


def _commands(report: Report) -> dict[str, str]:
    return {_key(step): _cost(step) for step in report.commands}


def _key(step: Step) -> str:
    return ", ".join(step.layers) or step.name


def _cost(step: Step) -> str:
    assert step.cost is not None
    return f"runs: {len(step.runs)}, {step.cost.cycles:,} cycles, {step.cost.bytes:,} bytes, {step.cost.usec.text(',.1f')} us"


def _weights(report: Report) -> dict[str, str]:
    return {
        f"{weights.layer} (step {weights.step}, run {weights.run})": (
            f"{'palette' if weights.palette else 'FP16'}, {weights.bytes:,} bytes"
            + ("" if weights.sqnr is None else f", {decibels(weights.sqnr)} dB")
        )
        for weights in report.weights
    }


def _messages(report: Report) -> dict[str, str]:
    problems = (*report.problems, *report.warnings)
    return {f"{each.code} {each.layer}".rstrip(): each.message for each in problems}


_SECTIONS: Mapping[str, Callable[[Report], Mapping[str, str]]] = {
    "network": _totals,
    "layers": _layers,
    "commands": _commands,
    "weights": _weights,
    "messages": _messages,
}
