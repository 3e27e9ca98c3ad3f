"""Reads a generated source: C++ text in, a SourceNetwork and findings out."""

from pathlib import Path

from cnn_convertor.audit.cells import Cell, NotUnderstoodError, Pointer, Symbol, Text
from cnn_convertor.audit.definitions import Definitions, definitions
from cnn_convertor.audit.sdk import LAYER_TYPES, MAX_RUNS
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
from cnn_convertor.audit.statements import Statements
from cnn_convertor.errors import ModelError, Origin, Problem
from cnn_convertor.files.codes import hint
from cnn_convertor.files.limited import TooLargeError, contents

_MOST_LAYERS = 100_000
_LARGEST_SOURCE = 256 << 20  # bytes
# The members of the union in fpga_layer: all start at one address.
_UNION = {
    "a command": {"conv_conf", "conv_conf_v1"},
    "softmax_axis": {"softmax_axis"},
    "input_layers": {"input_layer_num", "input_layers"},
    "a callback": {"custom_proc_ptr", "custom_param"},
}


def read(path: Path) -> tuple[SourceNetwork, list[Problem]]:
    """The network that a source describes, and what in it could not be understood.

    Raises ModelError for what cannot be read, or is not a generated source.
    """
    try:
        text = contents(path, _LARGEST_SOURCE).decode("utf-8", "replace")
    except TooLargeError as error:
        raise ModelError.of(
            "DV600", f"this is not a generated source: {error}", Origin(path.name), hint("DV600")
        ) from None
    except OSError as error:
        message = f"cannot read the source: {error.strerror or error}"
        raise ModelError.of("DV600", message, Origin(str(path)), hint("DV600")) from error
    return read_text(text, path.name)


def read_text(text: str, file: str) -> tuple[SourceNetwork, list[Problem]]:
    """As read; file is named in findings."""
    defined = definitions(text, file) if "Initialize" in text else Definitions(file)
    if "Initialize" not in defined.functions:
        raise ModelError.of("DV600", "not a generated network: there is no Initialize()", Origin(file), hint("DV600"))
    followed = Statements(defined)
    executed = _executed(defined, followed)
    reader = _Reader(followed, file, defined.functions["Initialize"].line)
    network = reader.network(defined.functions["Initialize"].owner)
    return network, list(dict.fromkeys([*defined.findings, *executed, *followed.findings]))


def _executed(defined: Definitions, followed: Statements) -> list[Problem]:
    """Run the constructor and Initialize(). Gives what is never called."""
    owner = defined.functions["Initialize"].owner
    for name in (owner, "Initialize"):
        if name in defined.functions:
            try:
                followed.run(defined.functions[name], [])
            except NotUnderstoodError as error:
                defined.refuse(f"{name}: {error}", defined.functions[name].line)
    return [
        Problem("DV603", f"{function.name}() is never called", Origin(defined.file, line=function.line), hint("DV603"))
        for function in defined.functions.values()
        if function.owner and not function.parameters and function.name not in {*followed.called, owner}
    ]


def _number(cell: Cell, *path: str | int) -> int:
    value = cell.at(*path)
    return int(value) if isinstance(value, int) else 0


class _Reader:
    """Takes the values that the statements have left. line: where Initialize() is."""

    def __init__(self, followed: Statements, file: str, line: int) -> None:
        self._followed, self._file, self._line = followed, file, line
        self._report = followed.report

    def _setup(self, what: str, count: int = 1) -> list[int]:
        if what not in self._followed.setup:
            self._report("DV603", f"{what} is never called in Initialize()", self._line)
        return self._followed.setup.get(what, ([0] * count, 0))[0]

    def network(self, owner: str) -> SourceNetwork:
        weight_bytes, io_bytes = self._setup("ReserveMemory", 2)
        (count,), (output_count,) = self._setup("set_num_layers"), self._setup("set_num_output_layers")
        if weight_bytes == 0:
            message = "ReserveMemory(0, ...): the driver allocates no empty memory, so Initialize() fails"
            at = self._followed.setup.get("ReserveMemory", ([], self._line))[1]
            self._report("DV607", message, at)
        lines = {index: self._lines(layer) for index, layer in self._followed.layers.parts.items()}
        for index, fields in sorted((int(index), fields) for index, fields in lines.items() if fields):
            if index >= count:
                self._report("DV603", f"layer {index} is described, but there are {count} layers", fields[""])
        return SourceNetwork(
            name=owner.removeprefix("C") or owner,
            file=self._file,
            line=self._line,
            transposed=self._followed.is_transposed.at() != 0,
            weight_bytes=weight_bytes,
            io_bytes=io_bytes,
            layers=tuple(self._layer(index, lines.get(index, {})) for index in self._range(count, "set_num_layers")),
            outputs=self._outputs(output_count),
        )

    def _range(self, count: int, setter: str) -> range:
        if not 0 <= count <= _MOST_LAYERS:
            self._report("DV603", f"{setter}({count}): no network has so many", self._line)
            return range(0)
        return range(count)

    def _outputs(self, count: int) -> tuple[int | None, ...]:
        outputs = self._followed.outputs
        for index, cell in outputs.parts.items():
            if isinstance(index, int) and index >= count:
                self._report("DV603", f"output_layers_[{index}] of {count}", cell.line)
        return tuple(self._layer_at(outputs, index) for index in self._range(count, "set_num_output_layers"))

    def _layer_at(self, array: Cell, index: int) -> int | None:
        """The layer that a pointer in an array points to."""
        value = array.at(index)
        if isinstance(value, Pointer) and value.to.owner is self._followed.layers:
            return int(value.to.key)
        return None

    # --- layers ---

    @staticmethod
    def _lines(layer: Cell) -> dict[str, int]:
        """Field -> line; a command's fields without the command's name. The empty name stands for the first line."""
        lines: dict[str, int] = {}
        for cell in layer.assigned():
            name = cell.name.removeprefix(f"{layer.name}.")
            lines[name.removeprefix("conv_conf_v1.conv_cmd.").removeprefix("conv_conf.")] = cell.line
        return lines | ({"": min(lines.values())} if lines else {})

    def _layer(self, index: int, lines: dict[str, int]) -> SourceLayer:
        cell = self._followed.layers.element(index)
        name, number, source_count = cell.at("name"), _number(cell, "type"), _number(cell, "input_layer_num")
        if not lines:
            self._report("DV603", f"layer {index} is never described", self._line)
        return SourceLayer(
            index=index,
            name=name.text if isinstance(name, Text) else "" if "name" in lines else f"#{index}",
            type=LAYER_TYPES[number] if 0 <= number < len(LAYER_TYPES) else f"type {number}",
            command=self._command(cell, lines),
            input_offs=_number(cell, "input_offs"),
            output_offs=_number(cell, "output_offs"),
            output_size=_number(cell, "output_size"),
            input_dims=self._dims(cell, "input_dim"),
            output_dims=self._dims(cell, "output_dim"),
            input_dim_size=_number(cell, "input_dim_size"),
            output_dim_size=_number(cell, "output_dim_size"),
            is_output=_number(cell, "is_output") != 0,
            is_f32_output=_number(cell, "is_f32_output") != 0,
            is_input_hw_layout=_number(cell, "is_input_hw_layout") != 0,
            softmax_axis=_number(cell, "softmax_axis"),
            has_callback=cell.at("custom_proc_ptr") != 0,
            sources=self._sources(cell, source_count),
            source_count=source_count,
            file=self._file,
            members=tuple(
                member
                for member, fields in _UNION.items()
                if any(any(cell.parts[field].assigned()) for field in fields & cell.parts.keys())
            ),
            inputs=self._inputs(cell),
            lines={"": self._line, **lines},
        )

    @staticmethod
    def _dims(cell: Cell, field: str) -> tuple[int, ...]:
        size = _number(cell, f"{field}_size")
        return tuple(_number(cell, field, i) for i in range(min(max(size, 0), 3)))

    def _sources(self, cell: Cell, count: int) -> tuple[int | None, ...]:
        array = cell.at("input_layers")
        if not isinstance(array, Pointer) or not 0 < count <= _MOST_LAYERS:
            return ()
        first = array.to
        if first.owner is None or not isinstance(first.key, int):
            return tuple(self._layer_at(first, i) for i in range(count))
        return tuple(self._layer_at(first.owner, first.key + i) for i in range(count))  # &inputs[0]

    @staticmethod
    def _inputs(cell: Cell) -> tuple[SourceTensor, ...]:
        """The maps that our generated custom_param lists in its last member.

        Each is a name, offset, bytes, height, width, channels, bytes of an element, layout.
        """
        parameters = cell.at("custom_param")
        members = list(parameters.to.parts.values()) if isinstance(parameters, Pointer) else []
        inputs = []
        for row in members[-1].parts.values() if members else ():
            offset, nbytes, height, width, channels, element = (_number(row, part) for part in range(1, 7))
            map = as_map((width, height, channels))
            if len(row.parts) != 8 or map is None or nbytes != map.elements * element:
                return ()
            inputs.append(SourceTensor(offset, map, element))
        return tuple(inputs)

    # --- commands ---

    def _command(self, layer: Cell, lines: dict[str, int]) -> SourceCommand | None:
        """The command in the one form or the other; None when no field of it is set."""
        forms = {name: layer.parts[name] for name in ("conv_conf_v1", "conv_conf") if name in layer.parts}
        used = {name: form for name, form in forms.items() if any(form.assigned())}
        if len(used) == 2:
            self._report("DV603", f"layer {layer.key} has two commands, conv_conf and conv_conf_v1", lines[""])
        outer = used.get("conv_conf_v1")
        cell = outer.field("conv_cmd") if outer is not None else used.get("conv_conf")
        if cell is None:
            return None
        count = _number(cell, "topo").bit_length()
        runs = cell.field("run")
        extras = [("u8tofp16_table", "mem"), ("u8tofp16_table", "offs"), ("to_bgr",)] if outer is not None else []
        return SourceCommand(
            outer=_header(outer) if outer is not None else None,
            header=_header(cell),
            input=_buffer(cell, "input_buf"),
            output=_buffer(cell, "output_buf"),
            operand=_buffer(cell, "eltwise_buf"),
            order=_number(cell, "input_circular_offset"),
            runs=tuple(_run(runs.element(i)) for i in range(min(count, MAX_RUNS))),
            extras=tuple(".".join(path) for path in extras if outer is not None and outer.at(*path) != 0),
            idle=tuple(
                sorted(
                    int(index)
                    for index, run in runs.parts.items()
                    if int(index) >= count and any(part.value != 0 for part in run.assigned())
                )
            ),
            **{name: _number(cell, name) for name in ("topo", "w", "h", "z", "c", "output_mode")},
        )


def _header(cell: Cell) -> SourceHeader:
    return SourceHeader(*(_number(cell, "header", name) for name in SourceHeader._fields))


def _buffer(cell: Cell, name: str) -> SourceBuffer:
    memory = cell.at(name, "mem")
    return SourceBuffer(memory.name if isinstance(memory, Symbol) else "", _number(cell, name, "offs"))


def _run(cell: Cell) -> SourceRun:
    weight = _buffer(cell, "weight_buf")
    numbers = {name: _number(cell, name) for name in SourceRun.__slots__ if name not in {"weight_mem", "weight_offs"}}
    return SourceRun(weight_mem=weight.mem, weight_offs=weight.offs, **numbers)
