"""What the commands print of networks that another program compiled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cnn_convertor.cli.console import Console
from cnn_convertor.cli.grids import Column, Grid, Item, numbered
from cnn_convertor.devices.compiled import CompiledNetwork, FactTable
from cnn_convertor.devices.registry import compiled_format
from cnn_convertor.errors import Origin, UsageError


def is_compiled(path: Path) -> bool:
    """Whether a file's name says that another program compiled the network in it."""
    return compiled_format(path) is not None


def inspect_compiled(console: Console, path: Path, as_json: bool, others: Mapping[str, Any]) -> None:
    _refuse(path, others)
    with console.working(path.name, "inspect"):
        tables = _network(path).tables()
    if as_json:
        rows = {table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in tables}
        console.json(json.dumps(rows, indent=2))
        return
    items: list[Item] = []
    for table in tables:
        items += [table.title, _grid(table)] if table.rows else []
    console.lines(items)


def _grid(table: FactTable) -> Grid:
    """Numbers with their thousands apart, on the right."""
    columns = []
    for number, title in enumerate(table.columns):
        is_number = all(isinstance(row[number], int) or not row[number] for row in table.rows)
        columns.append(Column(title, right=is_number, folds=not is_number))
    rows = tuple(tuple(map(_cell, row)) for row in table.rows)
    return Grid(tuple(columns), rows)


def _cell(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def audit_compiled(
    console: Console, path: Path, weights: Path | None, device: str | None, others: Mapping[str, Any]
) -> None:
    if weights is not None:
        raise UsageError.of(
            "DV100", "a compiled network has its weights in itself", Origin(str(path)), f"omit {weights}"
        )
    name = _device(path, device, others)
    with console.working(path.name, "audit"):
        network = _network(path)
        findings = network.findings(name)
    for finding in findings:
        console.find(finding)
    operations = len(network.tables()[0].rows)
    console.show(f"{path.name} on {name}: {numbered(operations, 'operation')}, {numbered(len(findings), 'finding')}")


def run_compiled(
    console: Console, path: Path, inputs: Path | None, device: str | None, others: Mapping[str, Any]
) -> dict[str, Any]:
    """Name of an output -> (N, H, W, C)."""
    from cnn_convertor.trials import compiled_networks  # here, as numpy takes long

    name = _device(path, device, others)
    with console.working(path.name, "run"):
        return compiled_networks.run_compiled(_network(path), name, inputs)


def _network(path: Path) -> CompiledNetwork:
    form = compiled_format(path)
    assert form is not None
    read: Callable[[Path], CompiledNetwork] = form.read
    return read(path)


def _device(path: Path, device: str | None, others: Mapping[str, Any]) -> str:
    """The device that the user names. Raises UsageError without one."""
    _refuse(path, others)
    form = compiled_format(path)
    assert form is not None
    if device is None:
        problem = "a compiled network does not name its device"
        raise UsageError.of("DV916", problem, Origin(str(path)), f"--device {', '.join(form.devices)}")
    return device


def _refuse(path: Path, others: Mapping[str, Any]) -> None:
    """Raise UsageError for an option that compiled networks do not have. others: option -> its value."""
    for option, value in others.items():
        if value:
            problem = f"--{option.replace('_', '-')} does not concern a compiled network"
            raise UsageError.of("DV100", problem, Origin(str(path)), "omit it")
