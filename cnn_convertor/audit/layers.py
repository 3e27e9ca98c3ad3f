"""Checks each layer by itself: its fields against its command, against its type and against the memory."""

from __future__ import annotations

from collections.abc import Iterator

from cnn_convertor.audit.network import Command, Layer, Map, Network
from cnn_convertor.audit.registers import command_output, operand_of
from cnn_convertor.audit.rules import TRANSPOSED, Device, check_command
from cnn_convertor.errors import Problem

_BUFFERS = {"input_buf": "the input", "output_buf": "the output", "eltwise_buf": "the operand"}


def check_layer(network: Network, layer: Layer, device: Device) -> Iterator[Problem]:
    """What is wrong in one layer."""
    yield from _type(layer)
    yield from _dims(layer)
    if layer.command is not None and layer.is_on_device:
        yield from check_command(layer, layer.command, device)
        yield from _command(network, layer, layer.command)
    match layer.type:
        case "LT_INPUT":
            yield from _network_input(layer)
        case "LT_FLATTEN":
            yield from _same_elements(layer)
        case "LT_SOFTMAX":
            yield from _same_elements(layer)
            yield from _softmax(layer)
        case "LT_CUSTOM" if not layer.has_callback:
            yield layer.problem(
                "DV664", "custom_proc_ptr is not set", "set it to custom_callback_TYPE", "custom_proc_ptr"
            )
        case "LT_CUSTOM" if layer.source_count:
            message = "input_layer_num overwrites custom_proc_ptr: both have the same address in the SDK"
            yield layer.problem("DV667", message, "put what the callback needs into custom_param", "input_layer_num")
        case "LT_CONCAT" | "LT_COPY_CONCAT":
            yield from _concat(network, layer)
    yield from _sizes(network, layer)


def same_elements(a: Map, b: Map) -> bool:
    """Whether they are one map, or one of them is the other one as a vector."""
    return a == b or (a.elements == b.elements and 1 in {a.area, b.area})


def _type(layer: Layer) -> Iterator[Problem]:
    if not layer.type.startswith("LT_"):
        yield layer.problem("DV665", f"{layer.type} is no layer type", "use one of the names LT_...", "type")
    elif layer.is_on_device and layer.command is None:
        yield layer.problem("DV665", "a layer of the device without a command", "fill conv_conf_v1.conv_cmd", "type")
    elif not layer.is_on_device and layer.command is not None:
        message = f"a command, but {layer.type} does not run on the device"
        yield layer.problem("DV665", message, "make it LT_CONV, or leave the command out", "type")
    if not layer.name:
        yield layer.problem("DV665", "the layer has no name", "name it", "name")


def _dims(layer: Layer) -> Iterator[Problem]:
    rows = {
        "input_dim": (layer.input_dim_size, layer.input_map),
        "output_dim": (layer.output_dim_size, layer.output_map),
    }
    for field, (size, map) in rows.items():
        if field == "input_dim" and size == 0 and (layer.sources or layer.type == "LT_CUSTOM"):
            continue  # what it reads stands in the layers that it names, or it needs nothing
        if not 1 <= size <= 3:
            yield layer.problem(
                "DV647", f"{field}_size: {size} dimensions; 1 to 3 are possible", "give W, H, C", f"{field}_size"
            )
        elif map is None:
            dims = layer.input_dims if field == "input_dim" else layer.output_dims
            yield layer.problem("DV647", f"{field}: {dims}; dimensions start at 1", "give W, H, C", f"{field}[0]")


def _command(network: Network, layer: Layer, command: Command) -> Iterator[Problem]:
    """The layer says again what the command says."""
    if command.order in {0, TRANSPOSED} and (command.order == TRANSPOSED) != network.transposed:
        message = f"input_circular_offset: 0x{command.order:04X}, but is_weight_transposed is {str(network.transposed).lower()}"
        yield layer.problem("DV612", message, "all maps of a network lie in one order", "input_circular_offset")
    operand = operand_of(command)
    places = {"input_buf": (command.input, layer.input_offs), "output_buf": (command.output, layer.output_offs)}
    for name, (buffer, offset) in places.items():
        field = name.removesuffix("_buf") + "_offs"
        if buffer.offs != offset:
            message = f"{name}.offs: {buffer.offs}, but {field} is {offset}"
            yield layer.problem("DV642", message, "give both the same offset", f"{name}.offs")
    used = {"input_buf": command.input, "output_buf": command.output}
    if operand is not None:
        used["eltwise_buf"] = command.operand
    for name, buffer in used.items():
        if buffer.mem != "io_mem_":
            message = f"{name}.mem: {buffer.mem or 'nothing'} is not the memory of the maps"
            yield layer.problem("DV642", message, "io_mem_ is expected", f"{name}.mem")
    written = command_output(command)
    if layer.input_map is not None and not same_elements(layer.input_map, command.map):
        message = f"input_dim: {layer.input_map}, but the command reads {command.map}"
        yield layer.problem("DV645", message, "make w, h, c and input_dim equal", "input_dim[0]")
    if layer.type == "LT_FC" and command.map.area != 1:
        message = f"w, h: LT_FC reads a vector, not {command.map}"
        yield layer.problem("DV645", message, "make it LT_CONV, or w and h 1", "w")
    if layer.output_map is not None and min(written) > 0 and not same_elements(layer.output_map, written):
        message = f"output_dim: {layer.output_map}, but the command writes {written}"
        yield layer.problem("DV646", message, "check the windows of the runs, and output_dim", "output_dim[0]")
    if layer.is_f32_output:
        yield layer.problem("DV654", "is_f32_output: the device writes FP16", "make it false", "is_f32_output")
    yield from _overlaps(layer, command, written, operand)


def _overlaps(layer: Layer, command: Command, written: Map, operand: Map | None) -> Iterator[Problem]:
    """A command reads its input while it writes; its operand may be overwritten element by element."""
    start, size = command.output.offs, 2 * written.elements
    if overlap(start, size, command.input.offs, 2 * command.map.elements):
        message = f"output_buf.offs: {size} bytes at {start} overlap the input at {command.input.offs}"
        yield layer.problem("DV643", message, "put the output elsewhere", "output_buf.offs")
    if (
        operand is not None
        and command.operand.offs != start
        and overlap(start, size, command.operand.offs, 2 * operand.elements)
    ):
        message = f"output_buf.offs: {size} bytes at {start} overlap a part of the operand at {command.operand.offs}"
        yield layer.problem("DV643", message, "put the output elsewhere, or exactly there", "output_buf.offs")


def overlap(a: int, a_size: int, b: int, b_size: int) -> bool:
    return a < b + b_size and b < a + a_size


def _network_input(layer: Layer) -> Iterator[Problem]:
    if layer.input_offs != layer.output_offs:
        message = f"input_offs is {layer.input_offs}, output_offs {layer.output_offs}: an input is one map"
        yield layer.problem("DV642", message, "give both the same offset", "input_offs")


def _same_elements(layer: Layer) -> Iterator[Problem]:
    given, made = layer.input_map, layer.output_map
    if given is not None and made is not None and given.elements != made.elements:
        message = f"{made} has {made.elements} elements, but the input, {given}, has {given.elements}"
        yield layer.problem("DV662", f"output_dim: {message}", "make them equal", "output_dim[0]")


def _softmax(layer: Layer) -> Iterator[Problem]:
    if layer.softmax_axis not in range(3):
        message = f"softmax_axis: {layer.softmax_axis}; the runtime takes 0, 1 or 2, and else writes nothing"
        yield layer.problem("DV663", message, "0 for a vector, 2 for a map", "softmax_axis")
    if layer.is_f32_output:
        message = "is_f32_output: LT_SOFTMAX writes FP16, and get_final_output reads FP32"
        yield layer.problem("DV663", message, "make it false", "is_f32_output")


def _concat(network: Network, layer: Layer) -> Iterator[Problem]:
    """Its inputs are earlier layers, of its width and height; their channels together are its own."""
    sources = [index for index in layer.sources if index is not None and index < layer.index]
    if layer.source_count < 1 or len(sources) != layer.source_count:
        message = f"input_layers: {len(sources)} earlier layers of input_layer_num = {layer.source_count}"
        yield layer.problem("DV661", message, "name every input, as &get_layer(N)", "input_layers")
        return
    maps = [given for index in sources if (given := network.layers[index].output_map) is not None]
    made = layer.output_map
    if made is None or len(maps) != len(sources):
        return
    text = ", ".join(map(str, maps))
    if sum(given.elements for given in maps) != made.elements:
        yield layer.problem(
            "DV661", f"output_dim: {made} does not hold the inputs, {text}", "check both", "output_dim[0]"
        )
    elif made.area > 1 and any(_breaks(given, made, is_last=given is maps[-1]) for given in maps):
        message = f"input_layers: {text} cannot stand one behind the other in {made}"
        hint = "give all the same size, and all but the last a multiple of 8 channels"
        yield layer.problem("DV661", message, hint, "input_layers")


def _breaks(given: Map, made: Map, *, is_last: bool) -> bool:
    """Whether the bytes of the one cannot be channels of the other."""
    return given.area > 1 and (given.area != made.area or (not is_last and given.channels % 8 != 0))


def _sizes(network: Network, layer: Layer) -> Iterator[Problem]:
    """Bytes of the output, their number, alignment and place."""
    element = 4 if layer.is_f32_output else 2
    made = layer.output_map
    if made is not None and layer.output_size != element * made.elements:
        message = f"output_size: {layer.output_size} bytes, but {made} has {element * made.elements}"
        yield layer.problem("DV644", message, f"reserve {element} bytes an element", "output_size")
    for field, offset, multiple in (("input_offs", layer.input_offs, 2), ("output_offs", layer.output_offs, element)):
        if offset % multiple:
            yield layer.problem(
                "DV640", f"{field}: {offset} is no multiple of {multiple}", "align maps to 16 bytes", field
            )
    if layer.command is not None and operand_of(layer.command) is not None and layer.command.operand.offs % 2:
        message = f"eltwise_buf.offs: {layer.command.operand.offs} is odd"
        yield layer.problem("DV640", message, "align maps to 16 bytes", "eltwise_buf.offs")
    yield from _ranges(network, layer, element)


def _ranges(network: Network, layer: Layer, element: int) -> Iterator[Problem]:
    made, given = layer.output_map, layer.input_map
    rows = [("output_offs", layer.output_offs, max(layer.output_size, element * made.elements if made else 0))]
    if given is not None and layer.type != "LT_INPUT":
        rows.append(("input_offs", layer.input_offs, 2 * given.elements))
    if layer.command is not None and layer.is_on_device:
        command, operand = layer.command, operand_of(layer.command)
        rows.append(("input_buf.offs", command.input.offs, 2 * command.map.elements))
        rows.append(("output_buf.offs", command.output.offs, 2 * max(0, command_output(command).elements)))
        if operand is not None:
            rows.append(("eltwise_buf.offs", command.operand.offs, 2 * max(0, operand.elements)))
    for field, offset, size in rows:
        if offset + size > network.io_bytes:
            message = f"{field}: {size} bytes at {offset} exceed the {network.io_bytes} bytes of maps"
            yield layer.problem("DV641", message, "reserve more, or check the offset", field)
