"""Explains the codes of the audit's findings: the hints of the messages, and entries of docs/audit.md and docs/messages.md."""

from typing import NamedTuple


class Entry(NamedTuple):
    """meaning: in a few words, in no other entry. cause: what is wrong. remedy: what to do."""

    meaning: str
    cause: str
    remedy: str


_OFFSETS = "Check the memory plan: no two maps that are needed at the same time may share bytes."
_AGAIN = "Convert again, and copy the source and the weights together."

CODES: dict[str, Entry] = {
    # --- reading ---
    "DV600": Entry(
        "Not a generated network",
        "The file cannot be read, or it is not a generated network.",
        "Name a NAME_gen.cpp with an Initialize(), and the weights that belong to it.",
    ),
    "DV602": Entry(
        "Statement not understood",
        "The audit does not understand a statement, and ignores it. It refuses a source that is no C++.",
        "Assign one field after the other, as the SDK's tools do. Where the preprocessor decides, audit the output of g++ -E.",
    ),
    "DV603": Entry(
        "Layers and counts disagree",
        "Layers or outputs are missing, or there are too many: a Layer_N() is not called, a layer not described, a count wrong.",
        "Make Initialize(), set_num_layers and set_num_output_layers agree with the layers.",
    ),
    "DV604": Entry(
        "Value too large for its field",
        "A value does not fit its field. The device would see a part of it.",
        "Give a value that fits.",
    ),
    "DV605": Entry(
        "Forbidden call in Initialize()",
        "Initialize() calls GenerateCommandLists or Commit. The application's own Commit() then fails.",
        "Leave the call out: Commit() builds the command lists.",
    ),
    "DV606": Entry(
        "Name from a temporary string",
        "A short temporary std::string is assigned to a name. The SDK fills a new layer with zeros, and the move crashes.",
        "Assign a literal, or a variable.",
    ),
    "DV607": Entry(
        "No bytes of weights",
        "ReserveMemory asks for 0 bytes of weights. The driver does not allocate an empty buffer.",
        "Reserve 16 bytes, and write a file of 16 bytes.",
    ),
    # --- commands ---
    "DV610": Entry(
        "Header of a command",
        "A header of the command has a value that the driver does not expect, or a field for 8-bit input is set.",
        "size = sizeof the structure, device_type = DMP_DV_DEV_CONV, version 1 outside and 0 inside; leave the other fields 0.",
    ),
    "DV611": Entry(
        "Size of a command's input",
        "The size of the input is 0, or exceeds the device's limits.",
        "Give w, h and c of the map, and z = 1.",
    ),
    "DV612": Entry(
        "Mixed memory orders",
        "Bit 15 of input_circular_offset and is_weight_transposed name different memory orders.",
        "Set the bit in every command of a transposed network, and in no other. The lower bits are the number of samples.",
    ),
    "DV613": Entry(
        "Bits of topo", "topo is 0, or ends before a run that is described.", "Set the bit of the last run."
    ),
    "DV614": Entry(
        "Output mode",
        "output_mode is unknown or contradicts eltwise_buf, or the outputs of several runs cannot be joined or added.",
        "Join maps of one size, all but the last with a multiple of 8 channels. Add in a command with one output.",
    ),
    "DV615": Entry("Unknown mode", "A mode has an unknown value.", "Use the values of dmp_dv.h."),
    "DV616": Entry(
        "Kernel of a command", "A kernel exceeds the device's limit, or has a depth.", "Split the kernel; pz is 1."
    ),
    "DV617": Entry("Stride of 0", "A stride is 0.", "Strides start at 1: 0x0101."),
    "DV618": Entry("Padding of a command", "Padding at the left or top does not fit its 7 bits.", "Use less padding."),
    "DV619": Entry(
        "Pool behind a convolution",
        "An average pool or upsampling follows a convolution in its run.",
        "Give it a run of its own.",
    ),
    "DV620": Entry(
        "Number of output channels",
        "m is 0 or too large, or differs from the input's channels in a run that keeps them.",
        "m is c in depthwise convolutions and in runs without a convolution.",
    ),
    "DV621": Entry(
        "Pool of an unsupported size",
        "The device has no pool of this size.",
        "Split the pool, or the upsampling into steps of 2.",
    ),
    "DV622": Entry(
        "Empty output",
        "A window is larger than the padded input, so the output is empty.",
        "Check w, h and the padding.",
    ),
    "DV623": Entry(
        "Dilated convolution",
        "A dilated convolution breaks one of its rules.",
        "One run, odd kernel, 'same' output (for user drivers before 2019-12-23, with stride 1 as well), no pool, no PReLU; "
        "stride 1 for a deconvolution.",
    ),
    "DV624": Entry(
        "PReLU of a command",
        "PReLU without a convolution, or with palette weights.",
        "Add a depthwise convolution; use FP16 weights.",
    ),
    "DV625": Entry(
        "Run without effect", "A run does nothing.", "Leave it out, or make it an average pool of 1x1 with factor 1."
    ),
    "DV626": Entry(
        "Input too large for the unified buffer",
        "The input does not fit the unified buffer in any number of strips.",
        "Use a smaller input; check ub_size.",
    ),
    "DV627": Entry(
        "Runs too large for the unified buffer",
        "The runs of a command do not fit the unified buffer together.",
        "Split the command.",
    ),
    "DV628": Entry(
        "Deconvolution with other runs",
        "A deconvolution shares its command with other runs. The driver's check of the unified buffer is wrong for it.",
        "Give it a command of its own.",
    ),
    "DV629": Entry(
        "FP16 register", "An FP16 register is not finite, or the factor of an average pool is 0.", "Check the number."
    ),
    "DV630": Entry(
        "Unusual factor of an average pool",
        "An average pool multiplies its sum by something other than the reciprocal of its window. This is a note.",
        "Check the factor. It is right only where a scale, or a part of a larger pool, is folded into it.",
    ),
    "DV631": Entry(
        "Refused by the device's revision or driver",
        "The device's revision refuses this: a deconvolution, an uneven pool, or padding larger than the map. Or its user driver "
        "(before 7.2.20201106) refuses a max pool behind a convolution of several strips, or its hardware (before 2019-07-29) "
        "computes it wrongly, without an error.",
        "Convert for this device: `device` in the ini file.",
    ),
    # --- layers and their places ---
    "DV640": Entry(
        "Misaligned map",
        "A map starts at an odd offset, or FP32 values at no multiple of 4.",
        "Align maps to 16 bytes.",
    ),
    "DV641": Entry(
        "Map beyond the I/O memory",
        "A map exceeds the I/O memory.",
        "Reserve more in ReserveMemory, or check the offset.",
    ),
    "DV642": Entry(
        "Layer and command disagree on a place",
        "The layer and its command name different places, or a buffer is not in the I/O memory.",
        "Make input_offs and output_offs those of the command; mem is io_mem_.",
    ),
    "DV643": Entry(
        "Output over the own input",
        "A layer writes over its own input. An LT_COPY_CONCAT may leave a vector, or whole chunks, where they are.",
        "Put the output elsewhere.",
    ),
    "DV644": Entry(
        "Wrong output_size", "output_size is not the size of the map.", "2 bytes an element, 4 when the output is FP32."
    ),
    "DV645": Entry(
        "Wrong input_dim",
        "input_dim is not what the command reads, or LT_FC reads a map.",
        "Make w, h, c and input_dim equal; a layer that reads a map is LT_CONV.",
    ),
    "DV646": Entry(
        "Wrong output_dim", "output_dim is not what the registers give.", "Check the windows, m, and output_dim."
    ),
    "DV647": Entry(
        "Missing dimensions", "Dimensions are missing or below 1.", "Give W, H, C, or the length of a vector."
    ),
    # --- maps ---
    "DV650": Entry(
        "Read before written",
        "A layer reads bytes that no layer has written.",
        "Check the offset, and the order of the layers.",
    ),
    "DV651": Entry(
        "Map overwritten too early", "A map is overwritten, in whole or in part, before its last reader.", _OFFSETS
    ),
    "DV652": Entry(
        "Map read in another form",
        "A layer reads a map, or a part of one, in another form or memory order.",
        "Check offsets, w, h and c.",
    ),
    "DV653": Entry(
        "Output of the network lost", "An output of the network is overwritten, or never written.", _OFFSETS
    ),
    "DV654": Entry(
        "FP32 and FP16 confused",
        "A layer reads FP32 as FP16 or the reverse, or claims to write FP32.",
        "Only custom layers write FP32, and only custom layers and concatenations of bytes read it.",
    ),
    "DV655": Entry(
        "Wrong is_input_hw_layout",
        "is_input_hw_layout does not match the writer of the input. An LT_CONCAT, at which the runtime does nothing, needs no flag.",
        "Set it for what commands have written.",
    ),
    "DV656": Entry(
        "Map without a reader",
        "No layer reads a map that is not an output: a reader looks elsewhere.",
        "Check the offsets of the layers after it, or leave the layer out.",
    ),
    # --- layers of the CPU ---
    "DV660": Entry(
        "Inputs of a concatenation are apart",
        "The inputs of an LT_CONCAT do not follow each other in it.",
        "Place them from output_offs on, or use LT_COPY_CONCAT; input_offs is output_offs.",
    ),
    "DV661": Entry(
        "Inputs of a concatenation do not fit",
        "The inputs of a concatenation are not named, or do not form its output. LT_COPY_CONCAT copies bytes into 1 dimension, channels into 3, and nothing into 2.",
        "Give all inputs its width and height; in an LT_CONCAT all but the last have a multiple of 8 channels.",
    ),
    "DV662": Entry(
        "Number of elements changes",
        "A flatten or softmax has more or fewer elements than its input.",
        "Make them equal.",
    ),
    "DV663": Entry(
        "Invalid LT_SOFTMAX",
        "An LT_SOFTMAX has an axis that the SDK's runtime of 2019 does not take, claims to write FP32, or reads its input in a wrong order. Others were not measured.",
        "is_f32_output = false; axis 0 of a vector. For a map of more than 8 channels: an LT_FLATTEN, then 2 dimensions, axis 1, is_input_hw_layout = true.",
    ),
    "DV664": Entry(
        "Custom layer without a function",
        "A custom layer has no function.",
        "Set custom_proc_ptr to custom_callback_TYPE.",
    ),
    "DV665": Entry(
        "Invalid layer type or name",
        "A layer has no known type, an empty name, or a command that contradicts its type. A layer without a name is a note if it has a type and its command.",
        "Check name, type and conv_conf_v1.",
    ),
    "DV666": Entry(
        "CPU function and layer disagree",
        "A function of NAME_cpu.h works on other maps than its layer names.",
        "Convert again, copy all files together, and do not edit them.",
    ),
    "DV667": Entry(
        "Custom layer with a list of inputs",
        "A custom layer has a list of input layers. The SDK keeps it where it keeps the callback's address.",
        "Put what the callback needs into custom_param.",
    ),
    "DV668": Entry(
        "Wrong member of the union",
        "A layer sets a member of its union that its type does not use, or lacks the one that it needs. They share memory.",
        "A command for LT_CONV, softmax_axis for LT_SOFTMAX, input_layers for concatenations, a callback for LT_CUSTOM.",
    ),
    "DV669": Entry(
        "Invalid LT_FLATTEN",
        "An LT_FLATTEN lacks is_input_hw_layout or the three dimensions of its input. The runtime then does nothing.",
        "Set the flag; give W, H, C.",
    ),
    # --- outputs and inputs ---
    "DV670": Entry(
        "Outputs are marked differently",
        "output_layers_ and is_output contradict each other.",
        "Enter every output, and nothing else.",
    ),
    "DV671": Entry(
        "Output in chunks of channels", "An output lies in chunks of 8 channels.", "End the network with an LT_FLATTEN."
    ),
    "DV672": Entry(
        "No LT_INPUT at the start",
        "The application writes its input at the first layer's input_offs, and no LT_INPUT is there.",
        "Make an LT_INPUT the first layer.",
    ),
    "DV673": Entry(
        "Input of a softmax read again",
        "A layer reads, or the network outputs, what an LT_SOFTMAX has overwritten: it replaces its input by x - max.",
        "Make the softmax the last reader of its input, or copy the input before.",
    ),
    # --- weights ---
    "DV680": Entry(
        "Weights missing or of another number",
        "The weights cannot be read, or their number is not what the source reserves.",
        _AGAIN,
    ),
    "DV681": Entry(
        "Misaligned weights",
        "Weights are not aligned to 16 bytes, or not in the weight memory.",
        "Align them; use weights_mem_.",
    ),
    "DV682": Entry(
        "Weights overlap or leave gaps",
        "The weights of the runs overlap, leave gaps, or end elsewhere than the weight memory.",
        "Place the weights of all runs one after the other, and reserve exactly their bytes.",
    ),
    "DV683": Entry(
        "Unused position of a tile is not 0",
        "A position of a tile without a weight is not 0 (index 0 of a palette).",
        _AGAIN,
    ),
    "DV684": Entry("Unused bias or slope is not 0", "A bias or slope after the last output channel is not 0.", _AGAIN),
    "DV685": Entry("Padding byte is not 0", "A padding byte after the weights of a run is not 0.", _AGAIN),
    "DV686": Entry("First palette entry is not 0", "Entry 0 of a palette is not 0.0.", _AGAIN),
    "DV687": Entry(
        "Weight is infinite or NaN",
        "A weight, bias, slope or palette entry is infinite or NaN.",
        "Check the trained weights.",
    ),
    "DV688": Entry(
        "Surplus bias of a dilated convolution",
        "A tap of a dilated convolution other than the last has a bias.",
        _AGAIN,
    ),
}


def hint(code: str) -> str:
    """The remedy as the end of a message: "try: ..."."""
    remedy = CODES[code].remedy.removesuffix(".")
    return remedy[0].lower() + remedy[1:] if remedy[1].islower() else remedy
