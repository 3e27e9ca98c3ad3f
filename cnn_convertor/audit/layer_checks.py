"""Checks each layer by itself: its fields against its type, its command and the size of the memory."""

from collections.abc import Iterator, Sequence

from cnn_convertor.audit.command_checks import AuditedDevice, check_command
from cnn_convertor.audit.decoding import command_output, meanings, operand_of
from cnn_convertor.audit.source_network import Map, SourceCommand, SourceLayer, SourceNetwork
from cnn_convertor.errors import Problem

RUNTIME = "the SDK's runtime of 2019"  # the one that was measured: it has Commit(), and older sources may be for others
# Type -> the member of the layer's union that it uses. An LT_CONCAT may do without.
_MEMBERS = {
    "LT_CONV": "a command",
    "LT_FC": "a command",
    "LT_SOFTMAX": "softmax_axis",
    "LT_CONCAT": "input_layers",
    "LT_COPY_CONCAT": "input_layers",
    "LT_CUSTOM": "a callback",
}


def check_layer(network: SourceNetwork, layer: SourceLayer, device: AuditedDevice) -> Iterator[Problem]:
    yield from _type(layer)
    yield from _union(layer)
    yield from _dims(layer)
    if layer.command is not None and layer.is_on_device:
        yield from check_command(layer, layer.command, device)
        yield from _command(network, layer, layer.command)
    match layer.type:
        case "LT_INPUT" if layer.input_offs != layer.output_offs:
            message = f"input_offs is {layer.input_offs}, output_offs {layer.output_offs}: an input is one map"
            yield layer.problem("DV642", message, "input_offs")
        case "LT_FLATTEN":
            yield from _same_elements(layer)
            yield from _flatten(layer)
        case "LT_SOFTMAX":
            yield from _same_elements(layer)
            yield from _softmax(layer)
        case "LT_CUSTOM" if not layer.has_callback:
            yield layer.problem("DV664", "custom_proc_ptr is not set", "custom_proc_ptr")
        case "LT_CONCAT" | "LT_COPY_CONCAT" if layer.source_count or layer.type == "LT_COPY_CONCAT":
            yield from _concat(network, layer)
    yield from _sizes(layer)
    yield from _ranges(network, layer)


def same_elements(a: Map, b: Map) -> bool:
    """Whether they are one map, or one of them is the other one as a vector."""
    return a == b or (a.elements == b.elements and 1 in {a.area, b.area})


def _type(layer: SourceLayer) -> Iterator[Problem]:
    if not layer.type.startswith("LT_"):
        yield layer.problem("DV665", f"{layer.type} is not a layer type", "type")
    elif layer.is_on_device and layer.command is None:
        yield layer.problem("DV665", "a layer of the device without a command", "type")
    elif not layer.is_on_device and layer.command is not None:
        yield layer.problem("DV665", f"a command, but {layer.type} does not run on the device", "type")
    if not layer.has_name and _is_incomplete(layer):
        yield layer.problem("DV665", "the layer has no name, and no type or command either", "name")
    elif not layer.name:
        message = "an empty name: a new layer is all zeros in the SDK, and the assignment crashes"
        yield layer.problem("DV665", message, "name")


def name_notes(layer: SourceLayer) -> Iterator[Problem]:
    """A layer that is never named: sources of early 2019 name none, and only messages need the name."""
    if not layer.has_name and not _is_incomplete(layer):
        yield layer.problem("DV665", "the layer has no name", "name")


def _is_incomplete(layer: SourceLayer) -> bool:
    return "type" not in layer.lines or (layer.is_on_device and layer.command is None)


def _union(layer: SourceLayer) -> Iterator[Problem]:
    """A layer holds one of: a command, a softmax axis, a list of inputs, a callback. They share memory."""
    member = _MEMBERS.get(layer.type, "")
    foreign = [other for other in layer.members if other not in {member, "a command"}]  # DV665: a command
    if layer.type == "LT_CUSTOM" and "input_layers" in foreign:
        message = "input_layer_num overwrites custom_proc_ptr: both have the same address in the SDK"
        yield layer.problem("DV667", message, "input_layer_num")
    elif foreign:
        reason = f"and so overwrites {member}" if member in layer.members else "which it does not use"
        yield layer.problem("DV668", f"{layer.type} sets {', '.join(foreign)}, {reason}", "type")
    if member == "softmax_axis" and member not in layer.members:
        yield layer.problem("DV668", f"{layer.type} does not set {member}", "type")


def _dims(layer: SourceLayer) -> Iterator[Problem]:
    rows = {
        "input_dim": (layer.input_dim_size, layer.input_dims, layer.input_map),
        "output_dim": (layer.output_dim_size, layer.output_dims, layer.output_map),
    }
    for field, (size, dims, map) in rows.items():
        if field == "input_dim" and size == 0 and (layer.sources or layer.type == "LT_CUSTOM"):
            continue  # the layers that it names have the dimensions, or it needs none
        if not 1 <= size <= 3:
            yield layer.problem("DV647", f"{field}_size: {size} dimensions; 1 to 3 are possible", f"{field}_size")
        elif map is None:
            yield layer.problem("DV647", f"{field}: {dims}; dimensions start at 1", f"{field}[0]")


def _command(network: SourceNetwork, layer: SourceLayer, command: SourceCommand) -> Iterator[Problem]:
    """The fields of the layer repeat those of the command."""
    if command.is_transposed != network.transposed:
        transposed = str(network.transposed).lower()
        message = f"input_circular_offset: 0x{command.order:04X}, but is_weight_transposed is {transposed}"
        yield layer.problem("DV612", message, "input_circular_offset")
    operand, written = operand_of(command), command_output(command)
    yield from _buffers(layer, command, has_operand=operand is not None)
    yield from _maps_of_command(layer, command, written)
    if layer.is_f32_output:
        yield layer.problem("DV654", "is_f32_output: the device writes FP16", "is_f32_output")
    yield from _overlaps(layer, command, written, operand)


def _buffers(layer: SourceLayer, command: SourceCommand, *, has_operand: bool) -> Iterator[Problem]:
    for name, buffer, offset in (
        ("input", command.input, layer.input_offs),
        ("output", command.output, layer.output_offs),
    ):
        if buffer.offs != offset:
            message = f"{name}_buf.offs: {buffer.offs}, but {name}_offs is {offset}"
            yield layer.problem("DV642", message, f"{name}_buf.offs")
    used = {"input_buf": command.input, "output_buf": command.output}
    for name, buffer in (used | ({"eltwise_buf": command.operand} if has_operand else {})).items():
        if buffer.mem != "io_mem_":
            yield layer.problem("DV642", f"{name}.mem: {buffer.mem or 'nothing'} is not the I/O memory", f"{name}.mem")
    if command.output_mode == 0 and (command.operand.mem or command.operand.offs):
        name = "eltwise_buf.mem" if command.operand.mem else "eltwise_buf.offs"
        yield layer.problem("DV614", f"{name}: an operand, but output_mode is 0 and adds none", name)


def _maps_of_command(layer: SourceLayer, command: SourceCommand, written: Map) -> Iterator[Problem]:
    if layer.input_map is not None and not same_elements(layer.input_map, command.map):
        message = f"input_dim: {layer.input_map}, but the command reads {command.map}"
        yield layer.problem("DV645", message, "input_dim[0]")
    if layer.type == "LT_FC" and command.map.area != 1:
        yield layer.problem("DV645", f"w, h: LT_FC reads a vector, not {command.map}", "w")
    if layer.output_map is not None and min(written) > 0 and not same_elements(layer.output_map, written):
        message = f"output_dim: {layer.output_map}, but the command writes {written}"
        yield layer.problem("DV646", message, "output_dim[0]")


def _overlaps(layer: SourceLayer, command: SourceCommand, written: Map, operand: Map | None) -> Iterator[Problem]:
    """A command reads its input while it writes. It may write exactly over its operand."""
    start = command.output.offs
    size = 2 * written.elements * command.batch
    if overlap(start, size, command.input.offs, 2 * command.map.elements * command.batch):
        message = f"output_buf.offs: {size} bytes at {start} overlap the input at {command.input.offs}"
        yield layer.problem("DV643", message, "output_buf.offs")
    other = command.operand.offs
    if operand is not None and other != start and overlap(start, size, other, 2 * operand.elements * command.batch):
        message = f"output_buf.offs: {size} bytes at {start} overlap a part of the operand at {other}"
        yield layer.problem("DV643", message, "output_buf.offs")
    for meaning in meanings(command):
        nbytes = 2 * meaning.factor_elements
        if nbytes and overlap(start, size, meaning.run.weight_offs, nbytes):
            message = f"output_buf.offs: {size} bytes at {start} overlap the factors at {meaning.run.weight_offs}"
            yield layer.problem("DV643", message, "output_buf.offs")


def overlap(a: int, a_size: int, b: int, b_size: int) -> bool:
    return a < b + b_size and b < a + a_size


def _same_elements(layer: SourceLayer) -> Iterator[Problem]:
    read, written = layer.input_map, layer.output_map
    if read is not None and written is not None and read.elements != written.elements:
        message = f"{written} has {written.elements} elements, but the input, {read}, has {read.elements}"
        yield layer.problem("DV662", f"output_dim: {message}", "output_dim[0]")


def _flatten(layer: SourceLayer) -> Iterator[Problem]:
    """Without the flag the runtime does nothing, which is right only where nothing has to move."""
    if not layer.is_input_hw_layout and layer.input_offs != layer.output_offs:
        message = "is_input_hw_layout is false: the runtime copies nothing to output_offs"
        yield layer.problem("DV669", message, "is_input_hw_layout")
    elif layer.is_input_hw_layout and layer.input_dim_size < 3:
        message = f"input_dim_size is {layer.input_dim_size}: the runtime reads W, H and C, and copies nothing"
        yield layer.problem("DV669", message, "input_dim_size")


def _softmax(layer: SourceLayer) -> Iterator[Problem]:
    """The axis exists, and the output is FP16. The flow checks the contents of the memory."""
    axis, dims = layer.softmax_axis, layer.input_dims
    message = ""
    if axis not in range(3):
        message = f"softmax_axis: {axis}; {RUNTIME} takes 0, 1 or 2, and otherwise writes nothing"
    elif axis >= max(len(dims), 1):
        message = f"softmax_axis: {axis}, but input_dim_size is {len(dims)}: {RUNTIME} writes nothing"
    elif dims and dims[axis] == 1 and sum(dim > 1 for dim in dims) == 1:
        message = f"softmax_axis: {axis}, but input_dim[{axis}] is 1: {RUNTIME} makes every value 1"
    if message:
        yield layer.problem("DV663", message, "softmax_axis")
    if layer.is_f32_output and layer.has_name:
        yield _fp32_softmax(layer)


def _fp32_softmax(layer: SourceLayer) -> Problem:
    message = f"is_f32_output: LT_SOFTMAX writes FP16 in {RUNTIME}, and get_final_output reads FP32"
    return layer.problem("DV663", message, "is_f32_output")


def softmax_notes(layer: SourceLayer) -> Iterator[Problem]:
    """An FP32 softmax without a name: in January 2019 sources named no layer of the CPU, and their runtime wrote FP32."""
    if layer.type == "LT_SOFTMAX" and layer.is_f32_output and not layer.has_name:
        yield _fp32_softmax(layer)


def earlier_sources(network: SourceNetwork, layer: SourceLayer) -> list[SourceLayer]:
    """The inputs of a concatenation that are complete before it: an LT_CONCAT that is copied does nothing, so it may come later."""
    sources = []
    for index in layer.sources:
        if index is None or index >= len(network.layers):
            continue
        source = network.layers[index]
        if index < layer.index or (layer.type == "LT_COPY_CONCAT" and source.type == "LT_CONCAT"):
            sources.append(source)
    return sources


def _concat(network: SourceNetwork, layer: SourceLayer) -> Iterator[Problem]:
    """The inputs are earlier layers with the output's width and height, and together have its channels."""
    sources = earlier_sources(network, layer)
    if layer.source_count < 1 or len(sources) != layer.source_count:
        message = f"input_layers: {len(sources)} earlier layers of input_layer_num = {layer.source_count}"
        yield layer.problem("DV661", message, "input_layers")
        return
    maps = [source.output_map for source in sources if source.output_map is not None]
    output = layer.output_map
    copies = layer.type == "LT_COPY_CONCAT"
    if output is None or len(maps) != len(sources):
        return
    if copies:
        yield from _copied_dimensions(layer, sources)
    if any(source.is_f32_output != layer.is_f32_output for source in sources):
        yield layer.problem("DV654", "input_layers: FP32 and FP16 in inputs and output", "input_layers")
    text = ", ".join(map(str, maps))
    if sum(each.elements for each in maps) != output.elements:
        yield layer.problem("DV661", f"output_dim: {output} does not hold the inputs, {text}", "output_dim[0]")
    elif output.area > 1 and any(_breaks(each, output, is_last=copies or each is maps[-1]) for each in maps):
        yield layer.problem("DV661", f"input_layers: {text} do not follow each other in {output}", "input_layers")


def _copied_dimensions(layer: SourceLayer, sources: Sequence[SourceLayer]) -> Iterator[Problem]:
    """LT_COPY_CONCAT copies bytes into a vector, and channels into a map. It does nothing for two dimensions."""
    if layer.output_dim_size == 2:
        yield layer.problem("DV661", "output_dim_size: the runtime copies nothing into 2 dimensions", "output_dim_size")
    short = [source.name for source in sources if source.output_dim_size < 3]
    if layer.output_dim_size == 3 and short:
        message = f'input_layers: "{short[0]}" has no output_dim[2], so the runtime copies none of its channels'
        yield layer.problem("DV661", message, "input_layers")


def _breaks(part: Map, whole: Map, *, is_last: bool) -> bool:
    """Whether the bytes of the one cannot be channels of the other."""
    return part.area > 1 and (part.area != whole.area or (not is_last and part.channels % 8 != 0))


def _sizes(layer: SourceLayer) -> Iterator[Problem]:
    """The bytes of the output, and the alignment of all places."""
    element, output = layer.element, layer.output_map
    if output is not None and layer.output_size not in {element * output.elements * n for n in (1, layer.batch)}:
        message = f"output_size: {layer.output_size} bytes, but {output} has {element * output.elements}"
        yield layer.problem("DV644", message, "output_size")
    rows = [("input_offs", layer.input_offs, 2), ("output_offs", layer.output_offs, element)]
    if layer.command is not None and operand_of(layer.command) is not None:
        rows.append(("eltwise_buf.offs", layer.command.operand.offs, 2))
    for field, offset, multiple in rows:
        if offset % multiple:
            yield layer.problem("DV640", f"{field}: {offset} is not a multiple of {multiple}", field)


def _ranges(network: SourceNetwork, layer: SourceLayer) -> Iterator[Problem]:
    """All that the layer reads and writes is in the I/O memory."""
    output = layer.output_map
    read = layer.input_map
    element = layer.element
    rows = [("output_offs", layer.output_offs, max(layer.output_size, element * output.elements if output else 0))]
    if read is not None and layer.type != "LT_INPUT":
        rows.append(("input_offs", layer.input_offs, 2 * read.elements))
    if layer.command is not None and layer.is_on_device:
        command = layer.command
        operand = operand_of(layer.command)
        each = 2 * command.batch
        rows.append(("input_buf.offs", command.input.offs, each * command.map.elements))
        rows.append(("output_buf.offs", command.output.offs, each * max(0, command_output(command).elements)))
        if operand is not None:
            rows.append(("eltwise_buf.offs", command.operand.offs, each * max(0, operand.elements)))
    for field, offset, size in rows:
        if offset + size > network.io_bytes:
            message = f"{field}: {size} bytes at {offset} exceed the {network.io_bytes} bytes of I/O memory"
            yield layer.problem("DV641", message, field)
