"""Makes a SourceNetwork, and findings, of what a generated source recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cnn_convertor.audit.recorded import Recording, damaged_record, recording_of
from cnn_convertor.audit.source_network import (
    SourceBuffer,
    SourceCommand,
    SourceHeader,
    SourceLayer,
    SourceNetwork,
    SourceRun,
    SourceTensor,
    as_map,
)
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files.codes import hint

MAX_RUNS: Final = 32
LAYER_TYPES: Final = (
    "LT_INPUT", "LT_CONV", "LT_FC", "LT_FLATTEN", "LT_CONCAT", "LT_COPY_CONCAT", "LT_SOFTMAX", "LT_CUSTOM",
)  # fmt: skip
_MOST_LAYERS: Final = 100_000
_MEMORIES: Final = {0: "", 2: "io_mem_", 3: "weights_mem_"}  # as recording.h numbers them
# The members of the union in fpga_layer, whose fields all start at one address, and how these begin.
_UNION: Final = {
    "a command": ("conv_conf.", "conv_conf_v1."),
    "softmax_axis": ("softmax_axis",),
    "input_layers": ("input_layer_num", "input_layers"),
    "a callback": ("custom_proc_ptr", "custom_param"),
}
_SETUP: Final = {
    "ReserveMemory": 2,
    "set_num_layers": 1,
    "set_num_output_layers": 1,
}  # calls, and their numbers of arguments
_FLAGS: Final = {"is_output", "is_f32_output", "is_input_hw_layout"}


def read(path: Path) -> tuple[SourceNetwork, list[Problem]]:
    """The network that a source describes, and what is wrong in how it does so.

    Raises ModelError for what cannot be read or compiled, or does not end, and UsageError without a compiler.
    """
    recording = recording_of(path)
    try:
        reader = _Reader(recording, path.name)
        network = reader.network()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise damaged_record(recording.owner, path.name, recording.line_of("Initialize")) from None
    return network, list(dict.fromkeys(reader.findings))


class _Fields:
    """What a layer assigns: path -> value, line, and whether a part of the value is lost. Fields that are not set are 0."""

    def __init__(self, values: dict[str, list[Any]], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix

    def inside(self, name: str) -> _Fields:
        return _Fields(self._values, f"{self._prefix}{name}.")

    def number(self, name: str) -> int:
        return int(self._values.get(self._prefix + name, (0,))[0])

    def begins(self, *prefixes: str) -> bool:
        return any(name.startswith(prefixes) for name in self._values)

    def header(self) -> SourceHeader:
        return SourceHeader(*(self.number(f"header.{name}") for name in SourceHeader._fields))

    def buffer(self, name: str) -> SourceBuffer:
        memory = self.number(f"{name}.mem")
        return SourceBuffer(_MEMORIES.get(memory, "another memory"), self.number(f"{name}.offs"))

    def run(self, index: int) -> SourceRun:
        run = self.inside(f"run[{index}]")
        weight = run.buffer("weight_buf")
        numbers = {name: run.number(name) for name in SourceRun.__slots__ if name not in {"weight_mem", "weight_offs"}}
        return SourceRun(weight_mem=weight.mem, weight_offs=weight.offs, **numbers)


class _Reader:
    """findings: grow while it reads."""

    def __init__(self, recording: Recording, file: str) -> None:
        self._recording = recording
        self._file = file
        self._line = recording.line_of("Initialize")
        self._calls: list[list[Any]] = recording.values["calls"]
        self._layers = {layer["index"]: layer for layer in recording.values["layers"] if layer["fields"]}
        self._first = {}  # layer -> the first line that assigns one of its fields
        for index, layer in self._layers.items():
            self._first[index] = min((line for _, line, _ in layer["fields"].values() if line), default=0)
        self.findings = list(recording.warnings)
        self._check_calls()

    def _report(self, code: str, message: str, line: int) -> None:
        self.findings.append(Problem(code, message, Origin(self._file, line=line or self._line), hint(code)))

    def _check_calls(self) -> None:
        """What the runtime takes badly, whatever the layers are."""
        if not self._recording.values["succeeds"]:
            self._report("DV602", "not understood: Initialize() returns false", self._line)
        for name, line, *arguments in self._calls:
            match name:
                case "get_layer":
                    self._report("DV603", "get_layer before set_num_layers gives a dummy layer", line)
                case "layers_" | "output_layers_":
                    self._report("DV603", f"{name}[{arguments[0]}]: no network has so many", line)
                case "GenerateCommandLists" | "Commit":
                    self._report("DV605", f"{name}() in Initialize(): the application's Commit() then fails", line)
        for name in _SETUP:
            for _, line, *_ in self._calls_of(name)[1:]:
                self._report("DV602", f"not understood: {name} is called a second time", line)
        called = {name for name, *_ in self._calls}
        for method in self._recording.methods:
            if method.name not in {*called, self._recording.owner}:
                self._report("DV603", f"{method.name}() is never called", method.line)

    def _calls_of(self, name: str) -> list[list[Any]]:
        return [call for call in self._calls if call[0] == name]

    def _setup(self, name: str) -> list[int]:
        calls = self._calls_of(name)
        if not calls:
            self._report("DV603", f"{name} is never called in Initialize()", self._line)
            return [0] * _SETUP[name]
        return [int(argument) for argument in calls[0][2:]]

    def network(self) -> SourceNetwork:
        weight_bytes, io_bytes = self._setup("ReserveMemory")
        (count,), (output_count,) = self._setup("set_num_layers"), self._setup("set_num_output_layers")
        if weight_bytes == 0:
            message = "ReserveMemory(0, ...): the driver allocates no empty memory, so Initialize() fails"
            self._report("DV607", message, next((line for _, line, *_ in self._calls_of("ReserveMemory")), self._line))
        for index, line in self._first.items():
            if index >= count:
                self._report("DV603", f"layer {index} is described, but there are {count} layers", line)
        for index, _, line in self._recording.values["outputs"]:
            if index >= output_count:
                self._report("DV603", f"output_layers_[{index}] of {output_count}", line)
        pointers = {index: layer for index, layer, _ in self._recording.values["outputs"] if layer >= 0}
        return SourceNetwork(
            name=self._recording.owner.removeprefix("C") or self._recording.owner,
            file=self._file,
            line=self._line,
            transposed=bool(self._recording.values["transposed"]),
            weight_bytes=weight_bytes,
            io_bytes=io_bytes,
            layers=tuple(self._layer(index) for index in self._range(count, "set_num_layers")),
            outputs=tuple(pointers.get(index) for index in self._range(output_count, "set_num_output_layers")),
        )

    def _range(self, count: int, setter: str) -> range:
        if not 0 <= count <= _MOST_LAYERS:
            self._report("DV603", f"{setter}({count}): no network has so many", self._line)
            return range(0)
        return range(count)

    def _layer(self, index: int) -> SourceLayer:
        layer = self._layers.get(index, {"fields": {}, "sources": [], "maps": []})
        values = layer["fields"]
        if not values:
            self._report("DV603", f"layer {index} is never described", self._line)
        self._check_values(index, values)
        fields = _Fields(values)
        number = _Fields(values).number("type")
        count = fields.number("input_layer_num")
        return SourceLayer(
            index=index,
            name=values["name"][0] if "name" in values else f"#{index}",
            type=LAYER_TYPES[number] if 0 <= number < len(LAYER_TYPES) else f"type {number}",
            command=self._command(index, fields),
            input_offs=fields.number("input_offs"),
            output_offs=fields.number("output_offs"),
            output_size=fields.number("output_size"),
            input_dims=_dims(fields, "input_dim"),
            output_dims=_dims(fields, "output_dim"),
            input_dim_size=fields.number("input_dim_size"),
            output_dim_size=fields.number("output_dim_size"),
            is_output=fields.number("is_output") != 0,
            is_f32_output=fields.number("is_f32_output") != 0,
            is_input_hw_layout=fields.number("is_input_hw_layout") != 0,
            softmax_axis=fields.number("softmax_axis"),
            has_callback=fields.number("custom_proc_ptr") != 0,
            sources=_sources(layer["sources"], count) if fields.number("input_layers") else (),
            source_count=count,
            file=self._file,
            members=tuple(member for member, prefixes in _UNION.items() if fields.begins(*prefixes)),
            inputs=tuple(_inputs(layer["maps"])),
            lines={"": self._line, **_lines(values)} | ({"": self._first[index]} if values else {}),
        )

    def _check_values(self, index: int, values: dict[str, list[Any]]) -> None:
        """Values that their fields do not keep."""
        for path, (value, line, is_lost) in values.items():
            if not is_lost:
                continue
            if path == "name":
                message = f'the temporary std::string "{value}" is moved into a layer of zeros: the SDK crashes'
                self._report("DV606", message, line)
            elif path in _FLAGS:
                self._report("DV604", f"layers_[{index}].{path}: true or false is expected", line)
            else:
                message = f"layers_[{index}].{path}: the value does not fit the field: {value} would remain"
                self._report("DV604", message, line)

    def _command(self, index: int, layer: _Fields) -> SourceCommand | None:
        """The command in the one form or the other; None when no field of it is set."""
        has_outer = layer.begins("conv_conf_v1.")
        if has_outer and layer.begins("conv_conf."):
            message = f"layer {index} has two commands, conv_conf and conv_conf_v1"
            self._report("DV603", message, self._first[index])
        if not has_outer and not layer.begins("conv_conf."):
            return None
        outer = layer.inside("conv_conf_v1")
        command = outer.inside("conv_cmd") if has_outer else layer.inside("conv_conf")
        count = command.number("topo").bit_length()
        extras = ("u8tofp16_table.mem", "u8tofp16_table.offs", "to_bgr") if has_outer else ()
        return SourceCommand(
            outer=outer.header() if has_outer else None,
            header=command.header(),
            input=command.buffer("input_buf"),
            output=command.buffer("output_buf"),
            operand=command.buffer("eltwise_buf"),
            order=command.number("input_circular_offset"),
            runs=tuple(command.run(run) for run in range(min(count, MAX_RUNS))),
            extras=tuple(name for name in extras if outer.number(name)),
            idle=tuple(run for run in range(count, MAX_RUNS) if command.run(run) != _EMPTY),
            **{name: command.number(name) for name in ("topo", "w", "h", "z", "c", "output_mode")},
        )


_EMPTY: Final = _Fields({}).run(0)


def _lines(values: dict[str, list[Any]]) -> dict[str, int]:
    """Field -> line; a command's fields without the command's name."""
    return {
        path.removeprefix("conv_conf_v1.conv_cmd.").removeprefix("conv_conf."): line
        for path, (_, line, _) in values.items()
    }


def _dims(fields: _Fields, name: str) -> tuple[int, ...]:
    size = fields.number(f"{name}_size")
    return tuple(fields.number(f"{name}[{index}]") for index in range(min(max(size, 0), 3)))


def _sources(layers: list[int], count: int) -> tuple[int | None, ...]:
    """The layers in a list, as many as it should have; None where it has none."""
    if not 0 < count <= _MOST_LAYERS:
        return ()
    return (*layers, *[None] * (count - len(layers)))


def _inputs(rows: list[list[int]]) -> Iterator[SourceTensor]:
    """The maps that our generated custom_param lists; none if one of them contradicts itself."""
    inputs = []
    for offset, nbytes, height, width, channels, element in rows:
        map = as_map((width, height, channels))
        if map is None or nbytes != map.elements * element:
            return
        inputs.append(SourceTensor(offset, map, element))
    yield from inputs
