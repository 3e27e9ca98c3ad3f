"""Follows feature maps through the I/O memory, and checks that each layer reads whole maps in the expected form."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cnn_convertor.audit.decoding import command_output, meanings, operand_of
from cnn_convertor.audit.layer_checks import RUNTIME, earlier_sources, overlap
from cnn_convertor.audit.memory import Memory, Segment, Written
from cnn_convertor.audit.processor import SourceFunction
from cnn_convertor.audit.source_network import Map, SourceCommand, SourceLayer, SourceNetwork
from cnn_convertor.errors import Problem

# Who chose the order of a map's elements. Where the application did, either order may be meant.
DEVICE = "device"
CPU = "CPU"
APPLICATION = "application"
RESIDUE = "residue"  # what an LT_SOFTMAX leaves in the place of its input
_WRITERS = {"LT_CONV", "LT_FC", "LT_FLATTEN", "LT_COPY_CONCAT", "LT_SOFTMAX", "LT_CUSTOM"}


class Read(NamedTuple):
    """A map that a layer expects. element: bytes. source: the layer that must have written it, where the source names it."""

    field: str
    start: int
    map: Map
    element: int = 2
    source: int | None = None
    batch: int = 1

    @property
    def nbytes(self) -> int:
        return self.map.elements * self.element * self.batch

    def __str__(self) -> str:
        return f"{self.field}: reads {self.map} at {self.start}"


class Copy(NamedTuple):
    """Bytes of a copied concatenation. is_in_place: they lie there already. Chunks that inputs share count for each of them."""

    start: int
    nbytes: int
    source: int
    is_in_place: bool


class Flow:
    """findings: what is wrong. born and dies: the steps between which each map is needed."""

    def __init__(self, network: SourceNetwork, functions: Mapping[int, SourceFunction]) -> None:
        """functions: layer -> the maps of its function in NAME_cpu.h. What other callbacks read is unknown."""
        self.findings: list[Problem] = []
        self.born: dict[Written, int] = {}
        self.dies: dict[Written, int] = {}
        self._network = network
        # What each custom layer reads, where that is known.
        self._tensors = {layer.index: layer.inputs for layer in network.layers if layer.inputs}
        self._tensors |= {index: tuple(maps[:-1]) for index, (maps, *_) in functions.items() if maps}
        self._by_elements = {index for index, function in functions.items() if function.by_elements}
        self._perhaps_read: set[Written] = set()  # what was there when an unknown callback ran
        self._memory = Memory()
        self._parts: dict[int, set[int]] = {}  # a layer -> the layers that wrote its output
        order = _execution_order(network)
        self._steps = {layer.index: step for step, layer in enumerate(order)}
        self._inputs()
        for layer in order:
            self._layer(layer)
        self._outputs()
        self._unread()

    @property
    def peak(self) -> int:
        """The largest number of bytes that are needed at the same time."""
        begun: dict[int, list[Written]] = {}
        for written, born in self.born.items():
            begun.setdefault(born, []).append(written)
        changes: dict[int, int] = {}
        for written, born in self.born.items():
            changes[born] = changes.get(born, 0) + written.nbytes
            last = self.dies[written]
            over = (o for o in begun.get(last, ()) if overlap(written.start, written.nbytes, o.start, o.nbytes))
            end = last if born < last and any(over) else last + 1  # a layer may write over what it reads
            changes[end] = changes.get(end, 0) - written.nbytes
        now = most = 0
        for step in sorted(changes):
            now += changes[step]
            most = max(most, now)
        return most

    # --- what is written ---

    def _write(self, written: Written, step: int) -> None:
        self._memory.write(written)
        self.born[written] = self.dies[written] = step

    def _inputs(self) -> None:
        """What the application fills before the network runs."""
        layers = self._network.layers
        order = frozenset({APPLICATION})
        inputs = [layer for layer in layers if layer.type == "LT_INPUT"]
        for layer in inputs:
            if layer.output_map is not None:
                self._write(Written(layer.index, layer.name, layer.output_offs, layer.output_map, 2, order), 0)
                self._parts[layer.index] = {layer.index}
        if not layers:
            return
        first = layers[0]
        if inputs:
            if first.input_offs not in {layer.output_offs for layer in inputs}:
                message = f"input_offs: the application writes its input at {first.input_offs}, no LT_INPUT is there"
                self._report(first, "DV672", message, "input_offs")
        elif (read := first.command.map if first.command else first.input_map) is not None:
            self._write(Written(-1, "the network's input", first.input_offs, read, 2, order, first.batch), 0)

    def _layer(self, layer: SourceLayer) -> None:
        contents = [written for read in self._reads(layer) for written in self._read(layer, read)]
        if layer.type == "LT_CONCAT":
            self._join(layer, contents)
        if layer.type == "LT_SOFTMAX":
            self._softmax(layer, contents)
        else:
            self._order(layer, contents)
        if layer.type not in _WRITERS:
            return
        if layer.type == "LT_CUSTOM" and layer.index not in self._tensors:
            segments = self._memory.read(0, self._network.io_bytes) if self._network.io_bytes else ()
            self._perhaps_read |= {segment.content for segment in segments if segment.content is not None}
        start, output, element = _target(layer)
        if output is not None:
            order = self._written_order(layer, contents)
            written = Written(layer.index, layer.name, start, output, element, order, layer.batch)
            self._write(written, self._steps[layer.index])
            self._parts[layer.index] = {layer.index}
        for copy in self._copies(layer) if layer.type == "LT_COPY_CONCAT" else ():
            if copy.is_in_place:
                self._parts.setdefault(copy.source, set()).add(layer.index)  # it still holds what its layer wrote

    @staticmethod
    def _written_order(layer: SourceLayer, contents: list[Written]) -> frozenset[str]:
        if layer.type == "LT_COPY_CONCAT":
            return frozenset(part for written in contents for part in written.order)
        if layer.type == "LT_CUSTOM" and not layer.is_f32_output:
            return frozenset({APPLICATION})  # a function that knows its readers
        return frozenset({DEVICE if layer.is_on_device else CPU})

    # --- what is read ---

    def _reads(self, layer: SourceLayer) -> Iterator[Read]:
        if layer.is_on_device:
            return _reads_of_command(layer.command)
        match layer.type:
            case "LT_CUSTOM" if layer.index in self._tensors:
                return (Read("input_offs", *tensor) for tensor in self._tensors[layer.index])
            case "LT_CONCAT" if not layer.source_count:
                return _read_if("output_offs", layer.output_offs, layer.output_map, 4 if layer.is_f32_output else 2)
            case "LT_CONCAT" | "LT_COPY_CONCAT":
                return self._sources(layer)
            case "LT_INPUT":
                return iter(())
        is_float = layer.type == "LT_CUSTOM" and self._holds_floats(layer.input_offs)  # the user's code knows
        return _read_if("input_offs", layer.input_offs, layer.input_map, 4 if is_float else 2)

    def _sources(self, layer: SourceLayer) -> Iterator[Read]:
        """The inputs of a concatenation. Channels are copied as FP16, of any element type."""
        copies_channels = layer.type == "LT_COPY_CONCAT" and layer.output_dim_size == 3
        for source in earlier_sources(self._network, layer):
            element = 4 if source.is_f32_output and not copies_channels else 2
            yield from _read_if("input_layers", source.output_offs, source.output_map, element, source.index)

    def _holds_floats(self, start: int) -> bool:
        content = self._memory.read(start, 1)[0].content
        return content is not None and content.element == 4

    def _read(self, layer: SourceLayer, read: Read) -> list[Written]:
        """The maps that are there; what is wrong with them is noted."""
        if min(read.map) < 1:
            return []
        segments = self._memory.read(read.start, read.nbytes)
        contents = list(dict.fromkeys(s.content for s in segments if s.content is not None))
        for written in contents:
            self.dies[written] = max(self.dies[written], self._steps[layer.index])
        wrong = _wrong(read, segments, contents) or self._wrong_writer(layer, read, contents)
        if wrong is not None:
            self._report(layer, wrong[0], f"{read}: {wrong[1]}", read.field)
        is_same = read.start == layer.output_offs
        in_place = layer.type == "LT_CONCAT" or (layer.type == "LT_SOFTMAX" and is_same)
        in_place |= layer.index in self._by_elements and is_same and _lies_alike(read, layer)
        targets = [(layer.output_offs, layer.output_size)]
        if layer.type == "LT_COPY_CONCAT":
            targets = [copy[:2] for copy in self._copies(layer) if not copy.is_in_place]
        overlaps = any(overlap(read.start, read.nbytes, *target) for target in targets)
        if overlaps and not (layer.is_on_device or in_place):
            message = f"output_offs: {layer.output_size} bytes at {layer.output_offs} overlap the input at {read.start}"
            self._report(layer, "DV643", message, "output_offs")
        return contents

    def _copies(self, layer: SourceLayer) -> Iterator[Copy]:
        """What an LT_COPY_CONCAT copies. In which order the runtime does so is not known."""
        sources = earlier_sources(self._network, layer)
        output = layer.output_map
        if layer.output_dim_size != 3 or output is None or output.area == 1:
            at = layer.output_offs
            for source in sources:
                yield Copy(at, source.output_size, source.index, source.output_offs == at)
                at += source.output_size
            return
        first = 0
        chunk = 16 * output.area  # bytes of 8 channels
        for source in sources:
            last = first + (source.output_map.channels if source.output_map else 0)
            start = layer.output_offs + first // 8 * chunk
            end = layer.output_offs + min(-(-last // 8) * chunk, 2 * output.elements)
            is_whole = first % 8 == 0 and (last % 8 == 0 or last == output.channels)
            yield Copy(start, end - start, source.index, is_whole and source.output_offs == start)
            first = last

    def _wrong_writer(self, layer: SourceLayer, read: Read, contents: list[Written]) -> tuple[str, str] | None:
        """Another layer wrote it than the source names, or a CPU layer in an order that the device does not read."""
        expected = self._parts.get(read.source, set()) if read.source is not None else None
        foreign = [w for w in contents if expected is not None and w.layer not in expected]
        if foreign:
            return "DV651", f"{', '.join(map(_named, foreign))} has overwritten it"
        for written in contents if layer.is_on_device and read.map.area > 1 else ():
            turned = not self._network.transposed and min(read.map[:2]) > 1
            is_wrong = read.map.channels > 8 or (turned and self._type(written) == "LT_FLATTEN")
            if written.order == {CPU} and is_wrong:
                return "DV652", f"the CPU wrote {_named(written)} in another memory order"
        return None

    def _softmax(self, layer: SourceLayer, contents: list[Written]) -> None:
        """The runtime reads its input row by row, or in a faulty form of chunks, and overwrites it."""
        if layer.input_map is None or layer.softmax_axis not in range(3):
            return
        dims = (*layer.input_dims, 1, 1, 1)[:3]
        lines = layer.input_map.elements // dims[layer.softmax_axis]
        if lines > 1 and any(w.map.channels > 8 and w.map.area > 1 and w.order != {CPU} for w in contents):
            message = f"the input lies in chunks of 8 channels: {RUNTIME} mixes pixels"
            self._report(layer, "DV663", message, "input_offs")
        elif not layer.is_input_hw_layout and dims[0] * dims[1] > 1:
            start = f"is_input_hw_layout is false: {RUNTIME}"
            if dims[2] >= 8:
                self._report(layer, "DV663", f"{start} reads and writes beyond the input", "is_input_hw_layout")
            elif self._network.transposed and min(dims[:2]) > 1:
                self._report(layer, "DV663", f"{start} exchanges width and height", "is_input_hw_layout")
        rest = Written(layer.index, layer.name, layer.input_offs, layer.input_map, 2, frozenset({RESIDUE}))
        self._memory.write(rest)
        self.dies[rest] = self._steps[layer.index]

    def _join(self, layer: SourceLayer, contents: list[Written]) -> None:
        """A concatenation in place does nothing: its inputs must be where its output is."""
        self._parts[layer.index] = {written.layer for written in contents}
        at = layer.output_offs
        for index in layer.sources:
            if index is None or index >= layer.index:
                return
            source = self._network.layers[index]
            if source.output_offs != at:
                message = f'output_offs: "{source.name}" lies at {source.output_offs}, not at {at}'
                self._report(layer, "DV660", message, "output_offs")
                return
            at += source.output_size
        if layer.input_offs != layer.output_offs:
            message = f"input_offs is {layer.input_offs}, output_offs {layer.output_offs}: nothing is moved"
            self._report(layer, "DV660", message, "input_offs")

    def _order(self, layer: SourceLayer, contents: list[Written]) -> None:
        """is_input_hw_layout is true for what the device has written. An LT_CONCAT does nothing, so it needs no flag."""
        orders = {part for written in contents for part in written.order}
        says, read = layer.is_input_hw_layout, layer.input_map
        if layer.type in {"LT_INPUT", "LT_CONCAT"} or (read is not None and read.area == 1):
            return  # a vector has no order
        if says == (orders == {DEVICE}) or {APPLICATION, RESIDUE} & orders or not contents:
            return
        if layer.is_on_device and says and contents[0].order == {DEVICE}:
            return  # the operand comes from the CPU, the input does not
        if layer.is_on_device and self._type(contents[0]) == "LT_COPY_CONCAT":
            return  # the CPU wrote it in the device's order, and the flag has no effect
        who = "the device" if not says else f"the {' and the '.join(sorted(orders))}"
        message = f"is_input_hw_layout is {str(says).lower()}, but {who} has written the input"
        self._report(layer, "DV655", message, "is_input_hw_layout")

    # --- at the end ---

    def _outputs(self) -> None:
        network = self._network
        last = len(self._network.layers)
        if not network.outputs:
            self.findings.append(network.problem("DV670", "the network has no outputs"))
        for position, index in enumerate(network.outputs):
            if index is None or index >= last:
                message = f"output_layers_[{position}] points to no layer of the network"
                self.findings.append(network.problem("DV670", message))
                continue
            layer = network.layers[index]
            if not layer.is_output:
                self._report(layer, "DV670", f"output_layers_[{position}] names it, is_output is false", "is_output")
            self._intact(layer, last)
            output = layer.output_map
            is_plain = layer.type in {"LT_SOFTMAX", "LT_CUSTOM", "LT_FLATTEN"}
            if output is not None and output.channels > 8 and output.area > 1 and not is_plain:
                self._report(layer, "DV671", f"the output, {output}, lies in chunks of 8 channels", "type")
        for layer in network.layers:
            if layer.is_output and layer.index not in network.outputs:
                self._report(layer, "DV670", "is_output is true, but output_layers_ does not name it", "is_output")

    def _intact(self, layer: SourceLayer, last: int) -> None:
        """At the end, an output holds what its layer wrote."""
        expected = self._parts.get(layer.index, set())
        for _, _, content in self._memory.read(layer.output_offs, layer.output_size) if layer.output_size else ():
            if content is not None and RESIDUE in content.order:
                message = f"output_offs: the softmax {_named(content)} has overwritten this output"
                self._report(layer, "DV673", message, "output_offs")
                break
            if content is None or content.layer not in expected:
                who = _named(content) if content else "no layer"
                self._report(layer, "DV653", f"output_offs: at the end, {who} has written this output", "output_offs")
                break
            self.dies[content] = last

    def _unread(self) -> None:
        """A map without a reader was meant for one: an offset is wrong."""
        for written, born in self.born.items():
            layer = self._network.layers[written.layer]
            is_read = self.dies[written] > born or written in self._perhaps_read
            if written.layer >= 0 and not (is_read or layer.is_output or layer.type == "LT_INPUT"):
                message = "no layer reads the output, and it is not an output of the network"
                self._report(layer, "DV656", message, "output_offs")

    def _type(self, written: Written) -> str:
        return self._network.layers[written.layer].type if written.layer >= 0 else ""

    def _report(self, layer: SourceLayer, code: str, message: str, field: str) -> None:
        self.findings.append(layer.problem(code, message, field))


def _execution_order(network: SourceNetwork) -> list[SourceLayer]:
    """The layers, with each LT_CONCAT right behind the last of its inputs: the runtime does nothing in its own place."""
    readers: dict[int | None, list[SourceLayer]] = {}
    missing: dict[int, int] = {}
    for layer in network.layers:
        if layer.type == "LT_CONCAT":
            sources = dict.fromkeys(layer.sources)
            missing[layer.index] = len(sources)
            for source in sources:
                readers.setdefault(source, []).append(layer)
    order: dict[int, SourceLayer] = {}
    for layer in network.layers:
        ready = [layer]
        while ready:
            placed = ready.pop()
            if placed.index in order:
                continue
            order[placed.index] = placed
            for reader in readers.get(placed.index, ()):
                missing[reader.index] -= 1
                if missing[reader.index] == 0:
                    ready.append(reader)
    return list(order.values())


def _named(written: Written) -> str:
    return f'"{written.name}"' if written.layer >= 0 else written.name


def _target(layer: SourceLayer) -> tuple[int, Map | None, int]:
    """Where a layer writes, which map, and the bytes of an element."""
    if not layer.is_on_device:
        return layer.output_offs, layer.output_map, layer.element
    if layer.command is None:
        return layer.output_offs, layer.output_map, 2
    output = command_output(layer.command)
    return layer.command.output.offs, output if min(output) > 0 else layer.output_map, 2


def _reads_of_command(command: SourceCommand | None) -> Iterator[Read]:
    if command is not None:
        yield Read("input_buf.offs", command.input.offs, command.map, batch=command.batch)
        operand = operand_of(command)
        if operand is not None:
            yield Read("eltwise_buf.offs", command.operand.offs, operand, batch=command.batch)
        for meaning in meanings(command):
            if meaning.has_packed_factors:
                field = f"run[{meaning.index}].weight_buf.offs"
                yield Read(field, meaning.run.weight_offs, Map(1, 1, meaning.factor_elements))


def _read_if(field: str, start: int, map: Map | None, element: int, source: int | None = None) -> Iterator[Read]:
    """The map, where the source gives its dimensions."""
    if map is not None:
        yield Read(field, start, map, element, source)


def _wrong(read: Read, segments: list[Segment], contents: list[Written]) -> tuple[str, str] | None:
    """What is wrong with the bytes that are read: a code, and why."""
    gap = next((s for s in segments if s.content is None), None)
    if gap is not None:
        return "DV650", f"bytes {gap.start} to {gap.end - 1} were never written"
    gone = next((written for written in contents if RESIDUE in written.order), None)
    if gone is not None:
        return "DV673", f"the softmax {_named(gone)} has overwritten its input"
    floats = next((written for written in contents if written.element != read.element), None)
    if floats is not None:
        return "DV654", f"{_named(floats)} has {8 * floats.element} bits an element, {8 * read.element} are read"
    return _overwritten(read, segments, contents) or _misread(read, contents)


def _lies_alike(read: Read, layer: SourceLayer) -> bool:
    """Whether elements that a layer reads lie as those that it writes; behind a map that it keeps, averages of channels may follow."""
    output = layer.output_map
    kept = read.map.elements + read.map.channels
    return output is not None and read.element == layer.element and output in (read.map, Map(1, 1, kept))


def _overwritten(read: Read, segments: list[Segment], contents: list[Written]) -> tuple[str, str] | None:
    end = read.start + read.nbytes
    for written in contents:
        owned = sum(s.end - s.start for s in segments if s.content == written)
        if owned != min(end, written.end) - max(read.start, written.start):
            other = next(s.content for s in segments if s.content is not None and s.content != written)
            return "DV651", f"{_named(other)} has overwritten a part of {_named(written)}"
    return None


def _misread(read: Read, contents: list[Written]) -> tuple[str, str] | None:
    text = ", ".join(f"{_named(written)}, {written.map}" for written in contents)
    batches = {written.batch for written in contents}
    if batches != {read.batch} and (len(batches) > 1 or read.map.area > 1):
        return "DV652", f"{read.batch} samples are read, of other numbers in {text}"
    return None if _fits(read, contents) else ("DV652", f"the contents do not form such a map: {text}")


def _fits(read: Read, contents: list[Written]) -> bool:
    """Whether the maps, or slices of them, form the map that is read."""
    end = read.start + read.nbytes
    whole = all(read.start <= written.start and written.end <= end for written in contents)
    if whole and read.map.area == 1:
        return True  # memory as it is
    if whole and len(contents) == 1 and max(read.map.channels, contents[0].map.channels) <= 8:
        return True  # neither is chunked, so each is the other one in another form
    for written in contents:
        begins = max(read.start - written.start, 0)
        ends = min(end, written.end) - written.start
        # A vector is memory in any form.
        area = read.map.area if 1 in (written.map.area, read.map.area) else written.map.area
        chunk = 8 * area * read.element
        if area not in {1, read.map.area} and read.map.area > 1:
            return False
        is_last = written is contents[-1] and (ends == written.nbytes or read.map.area == 1)
        if begins % chunk or (ends % chunk and not is_last):
            return False  # not whole chunks of 8 channels; a narrow one comes last, and a vector's has no width
    return True
