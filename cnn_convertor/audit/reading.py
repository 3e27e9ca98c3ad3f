"""Reads a generated source: C++ text in, a Network and findings out."""

from __future__ import annotations

from pathlib import Path

from cnn_convertor.audit.functions import Declarations, declarations
from cnn_convertor.audit.network import Buffer, Command, Header, Layer, Network, Run
from cnn_convertor.audit.state import (
    IO_BYTES,
    LAYER_COUNT,
    LAYERS,
    OUTPUT_COUNT,
    OUTPUTS,
    WEIGHT_BYTES,
    NotUnderstoodError,
    Place,
    Pointer,
    Symbol,
    Text,
    Value,
)
from cnn_convertor.audit.state import (
    Path as FieldPath,
)
from cnn_convertor.audit.statements import Statements
from cnn_convertor.audit.structs import LAYER_TYPES, MAX_RUNS, Array
from cnn_convertor.errors import ModelError, Origin, Problem

_MOST_LAYERS = 100_000
_LARGEST_SOURCE = 256 << 20  # bytes
# The members of the union in fpga_layer: all start at one address.
UNION = {
    "a command": {"conv_conf", "conv_conf_v1"},
    "softmax_axis": {"softmax_axis"},
    "input_layers": {"input_layer_num", "input_layers"},
    "a callback": {"custom_proc_ptr", "custom_param"},
}


def read(path: Path) -> tuple[Network, list[Problem]]:
    """The network that a source describes, and what in it could not be understood.

    Raises ModelError for what cannot be read, or is no generated source.
    """
    try:
        if path.stat().st_size > _LARGEST_SOURCE:
            raise ModelError(Problem("DV600", "the file is too large for a generated source", Origin(path.name)))
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(
            Problem("DV600", f"cannot read the source: {reason}", Origin(str(path)), "check the path")
        ) from error
    return read_text(text, path.name)


def read_text(text: str, file: str) -> tuple[Network, list[Problem]]:
    """As read; file is named in findings."""
    found = declarations(text, file)
    start = found.functions.get("Initialize")
    if start is None:
        hint = "name the NAME_gen.cpp that a convertor has written"
        raise ModelError(Problem("DV600", "no generated network: there is no Initialize()", Origin(file), hint))
    followed = Statements(found, file)
    findings = [*found.findings, *_executed(found, followed, start.owner, file)]
    reader = _Reader(followed, file)
    network = reader.network(start.owner, start.line)
    return network, list(dict.fromkeys([*findings, *followed.findings, *reader.findings]))


def _executed(found: Declarations, followed: Statements, owner: str, file: str) -> list[Problem]:
    """Run the constructor and Initialize(). Gives what is never called."""
    for name in (owner, "Initialize"):
        if name in found.functions:
            function = found.functions[name]
            try:
                followed.run(function, [])
            except NotUnderstoodError as error:
                where = Origin(file, line=function.line)
                followed.findings.append(
                    Problem("DV602", f"not understood: {name}: {error}", where, "simplify the source")
                )
    return [
        Problem(
            "DV603",
            f"{function.name}() is never called",
            Origin(file, line=function.line),
            "call every Layer_N() in Initialize()",
        )
        for function in found.functions.values()
        if function.owner and not function.parameters and function.name not in {*followed.called, owner}
    ]


class _Reader:
    """Takes the values that the statements have left."""

    def __init__(self, followed: Statements, file: str) -> None:
        self.findings: list[Problem] = []
        self._state = followed.state
        self._file = file
        self._lines: dict[int, dict[str, int]] = {}
        self._runs: dict[FieldPath, set[int]] = {}
        self._paths: dict[FieldPath, list[FieldPath]] = {}
        for path in self._state.values:
            self._paths.setdefault(path[:2], []).append(path)
        for path, line in self._state.lines.items():
            if path[:1] == LAYERS.path and len(path) > 2 and isinstance(path[1], int):
                self._note(path[1], path[2:], line)

    def _note(self, layer: int, path: FieldPath, line: int) -> None:
        lines = self._lines.setdefault(layer, {})
        lines[""] = min(line, lines.get("", line))
        command = ("conv_conf_v1", "conv_cmd") if path[0] == "conv_conf_v1" else ("conv_conf",)
        inside = path[len(command) :] if path[: len(command)] == command else path
        lines[str(Place(inside, LAYERS.type))] = line
        if inside[:1] == ("run",) and len(inside) > 1 and isinstance(inside[1], int) and inside != path:
            self._runs.setdefault((*LAYERS.path, layer, *command), set()).add(inside[1])

    def _problem(self, code: str, message: str, line: int | None, hint: str) -> None:
        self.findings.append(Problem(code, message, Origin(self._file, line=line), hint))

    # --- values ---

    def _value(self, path: FieldPath) -> Value:
        return self._state.values.get(path, 0)

    def _number(self, path: FieldPath) -> int:
        value = self._value(path)
        return int(value) if isinstance(value, int) else 0

    def _memory(self, path: FieldPath) -> str:
        value = self._value(path)
        return value.name if isinstance(value, Symbol) else ""

    def _called(self, place: Place, what: str, line: int) -> int:
        if place.path not in self._state.values:
            self._problem(
                "DV603", f"{what} is never called in Initialize()", line, "compare with what the SDK's tools write"
            )
        return self._number(place.path)

    # --- the network ---

    def network(self, owner: str, line: int) -> Network:
        weight_bytes = self._called(WEIGHT_BYTES, "ReserveMemory", line)
        count = self._called(LAYER_COUNT, "set_num_layers", line)
        output_count = self._called(OUTPUT_COUNT, "set_num_output_layers", line)
        if weight_bytes == 0:
            at = self._state.lines.get(WEIGHT_BYTES.path, line)
            message = "ReserveMemory(0, ...): the driver allocates no empty memory, so Initialize() fails"
            self._problem("DV607", message, at, "reserve 16 bytes, and write a file of 16 bytes")
        for index, lines in sorted(self._lines.items()):
            if index >= count:
                self._problem(
                    "DV603",
                    f"layer {index} is described, but there are {count} layers",
                    lines[""],
                    "raise set_num_layers",
                )
        if count > _MOST_LAYERS:
            self._problem("DV603", f"{count} layers are more than any network has", line, "lower set_num_layers")
            count = 0
        return Network(
            name=owner.removeprefix("C") or owner,
            file=self._file,
            line=line,
            transposed=self._number(("is_weight_transposed",)) != 0,
            weight_bytes=weight_bytes,
            io_bytes=self._number(IO_BYTES.path),
            layers=tuple(self._layer(index, line) for index in range(count)),
            outputs=self._outputs(output_count, line),
        )

    def _outputs(self, count: int, line: int) -> tuple[int | None, ...]:
        assigned = [path[1] for path in self._state.values if path[:1] == OUTPUTS.path and len(path) == 2]
        for index in assigned:
            if isinstance(index, int) and index >= count:
                at = self._state.lines[(*OUTPUTS.path, index)]
                self._problem("DV603", f"output_layers_[{index}] of {count}", at, "raise set_num_output_layers")
        if count > _MOST_LAYERS:
            self._problem(
                "DV603", f"{count} outputs are more than any network has", line, "lower set_num_output_layers"
            )
            return ()
        return tuple(self._pointed((*OUTPUTS.path, index)) for index in range(count))

    def _pointed(self, path: FieldPath) -> int | None:
        """The layer that a pointer points to."""
        match self._value(path):
            case Pointer(to=Place(path=("layers_", int() as index))):
                return index
        return None

    # --- layers ---

    def _layer(self, index: int, line: int) -> Layer:
        base = (*LAYERS.path, index)
        lines = self._lines.get(index, {})
        name, number = self._value((*base, "name")), self._number((*base, "type"))
        type = LAYER_TYPES[number] if 0 <= number < len(LAYER_TYPES) else f"type {number}"
        if not lines:
            self._problem("DV603", f"layer {index} is never described", line, "call every Layer_N() in Initialize()")
        source_count = self._number((*base, "input_layer_num"))
        return Layer(
            index=index,
            name=name.text if isinstance(name, Text) else "",
            type=type,
            command=self._command(index, base),
            input_offs=self._number((*base, "input_offs")),
            output_offs=self._number((*base, "output_offs")),
            output_size=self._number((*base, "output_size")),
            input_dims=self._dims(base, "input_dim"),
            output_dims=self._dims(base, "output_dim"),
            input_dim_size=self._number((*base, "input_dim_size")),
            output_dim_size=self._number((*base, "output_dim_size")),
            is_output=self._number((*base, "is_output")) != 0,
            is_f32_output=self._number((*base, "is_f32_output")) != 0,
            is_input_hw_layout=self._number((*base, "is_input_hw_layout")) != 0,
            softmax_axis=self._number((*base, "softmax_axis")),
            has_callback=self._value((*base, "custom_proc_ptr")) != 0,
            sources=self._sources(base, source_count),
            source_count=source_count,
            file=self._file,
            members=self._members(base),
            lines={"": line, **lines},
        )

    def _members(self, base: FieldPath) -> tuple[str, ...]:
        fields = {path[2] for path in self._paths.get(base, ())}
        return tuple(member for member, names in UNION.items() if fields & names)

    def _dims(self, base: FieldPath, field: str) -> tuple[int, ...]:
        size = self._number((*base, f"{field}_size"))
        return tuple(self._number((*base, field, i)) for i in range(min(max(size, 0), 3)))

    def _sources(self, base: FieldPath, count: int) -> tuple[int | None, ...]:
        array = self._value((*base, "input_layers"))
        if not isinstance(array, Pointer) or not 0 < count <= _MOST_LAYERS:
            return ()
        start, first = array.to.path, 0
        if not isinstance(array.to.type, Array) and len(start) > 2:  # &inputs[0]
            first = start[-1] if isinstance(start[-1], int) else 0
            start = start[:-1]
        return tuple(self._pointed((*start, first + i)) for i in range(count))

    # --- commands ---

    def _command(self, index: int, base: FieldPath) -> Command | None:
        """The command in the one form or the other; None when no field of it is set."""
        outer, inner = (*base, "conv_conf_v1"), (*base, "conv_conf_v1", "conv_cmd")
        old = (*base, "conv_conf")
        lines = self._lines.get(index, {})
        has_new, has_old = self._has(outer), self._has(old)
        if has_new and has_old:
            self._problem(
                "DV603", f"layer {index} has two commands, conv_conf and conv_conf_v1", lines[""], "keep one of them"
            )
        if not has_new and not has_old:
            return None
        at = inner if has_new else old
        topo = self._number((*at, "topo"))
        used = topo.bit_length()
        return Command(
            outer=self._header(outer) if has_new else None,
            header=self._header(at),
            input=self._buffer((*at, "input_buf")),
            output=self._buffer((*at, "output_buf")),
            operand=self._buffer((*at, "eltwise_buf")),
            topo=topo,
            w=self._number((*at, "w")),
            h=self._number((*at, "h")),
            z=self._number((*at, "z")),
            c=self._number((*at, "c")),
            order=self._number((*at, "input_circular_offset")),
            output_mode=self._number((*at, "output_mode")),
            runs=tuple(self._run((*at, "run", i)) for i in range(min(used, MAX_RUNS))),
            extras=self._extras(outer) if has_new else (),
            idle=tuple(sorted(i for i in self._runs.get(at, ()) if i >= used and self._is_set((*at, "run", i)))),
        )

    def _has(self, base: FieldPath) -> bool:
        return any(path[: len(base)] == base for path in self._paths.get(base[:2], ()))

    def _is_set(self, base: FieldPath) -> bool:
        return any(self._value(path) != 0 for path in self._paths.get(base[:2], ()) if path[: len(base)] == base)

    def _extras(self, outer: FieldPath) -> tuple[str, ...]:
        names = [("u8tofp16_table", "mem"), ("u8tofp16_table", "offs"), ("to_bgr",)]
        return tuple(".".join(name) for name in names if self._value((*outer, *name)) != 0)

    def _header(self, base: FieldPath) -> Header:
        return Header(*(self._number((*base, "header", name)) for name in Header._fields))

    def _buffer(self, base: FieldPath) -> Buffer:
        return Buffer(self._memory((*base, "mem")), self._number((*base, "offs")))

    def _run(self, base: FieldPath) -> Run:
        numbers = {
            name: self._number((*base, name))
            for name in Run.__slots__
            if not name.startswith("weight_") or name == "weight_fmt"
        }
        weight = self._buffer((*base, "weight_buf"))
        return Run(weight_mem=weight.mem, weight_offs=weight.offs, **numbers)
