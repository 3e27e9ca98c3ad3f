"""What the codes of errors and warnings mean: the page docs/messages.md.

An entry for each code that no rule of the device (dv700/rules.py) and no finding of the audit (audit/codes.py) has: these
say of themselves what they mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cnn_convertor.audit.codes import CODES
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.rules import RULES


class Entry(NamedTuple):
    """meaning: in a few words. cause: how it comes about. cure: what to do. is_warning: the conversion goes on."""

    meaning: str
    cause: str
    cure: str
    is_warning: bool = False


GROUPS: Mapping[str, str] = {
    "0": "The convertor itself",
    "1": "Command line and ini file",
    "2": "Model files",
    "3": "Layers",
    "4": "The device",
    "5": "Numbers",
    "6": "The audit of generated sources",
    "7": "Trials on the PC",
    "8": "Memory layouts",
}

ENTRIES: Mapping[str, Entry] = {
    # --- the convertor itself ---
    "DV000": Entry(
        "Internal error",
        "The convertor met something that its authors did not think of.",
        "Report it, with the ini file and what CNN_CONVERTOR_DEBUG=1 in the environment shows.",
    ),
    # --- command line and ini file ---
    "DV100": Entry("Wrong command line", "A command, option or argument is unknown or malformed.", "See --help."),
    "DV101": Entry(
        "No ini file",
        "The file cannot be read, is no text in UTF-8, or is a model.",
        "Give the path of a net.ini, saved as UTF-8; `inspect` takes models, too.",
    ),
    "DV102": Entry(
        "A line that is no ini",
        "The line is neither [SECTION] nor key = value nor a comment, or stands before the first section.",
        "Correct the line; a value that begins with a double quote ends with one and has none inside.",
    ),
    "DV103": Entry("Set twice", "A section or a key comes again.", "Keep one; keys are the same in any case."),
    "DV104": Entry(
        "Half of a size",
        "Of width_override and height_override only one is given.",
        "Give both, or neither.",
    ),
    "DV105": Entry("A key is missing", "A key that has no default is not in the file.", "Add the line."),
    "DV106": Entry(
        "A value that makes no sense",
        "A key has a value of another kind than it takes, or a name that is too long or that other files have already.",
        "Write what the message says that it expects.",
    ),
    "DV107": Entry(
        "A file or folder is not there",
        "What a key names does not exist, is a folder instead of a file or the other way round, or cannot be used.",
        "Correct the path; it is relative to the ini file.",
    ),
    "DV108": Entry(
        "Unknown framework",
        "Neither the names nor the first bytes of the model's files tell whether they are of Caffe, Keras or ONNX.",
        "Set origin = CAFFE, KERAS or ONNX; export other frameworks' models to one of them.",
    ),
    "DV109": Entry(
        "No such device", "An option describes a device that there is not.", "Give a value in the range that is named."
    ),
    "DV110": Entry(
        "Outputs cannot be written",
        "The operating system refuses: no rights, no room, a folder where a file is to go.",
        "Check output_folder, or the path after --output.",
    ),
    "DV112": Entry(
        "Unknown section or key",
        "The ini file has a section or key that means nothing; it is left out.",
        "Correct its name; the nearest known one is told.",
        is_warning=True,
    ),
    "DV113": Entry(
        "The operating system refuses",
        "A file could not be opened, read or written, or there is not enough memory.",
        "Check the path, the rights, the room on the disk, and the sizes of the network.",
    ),
    "DV114": Entry(
        "Two networks, the same files",
        "Two ini files of one run have the same name and output_folder.",
        "Give one of them another name or another output_folder.",
    ),
    "DV115": Entry(
        "Custom layers cannot be read",
        "The file that custom_layer names is not there, fails, or has no dictionary `custom_layer` of the right form.",
        "Write custom_layer = {'TypeName': (('parameter', ...), lambda config, input_shape: output_shape)}.",
    ),
    "DV116": Entry(
        "A custom layer's shape",
        "The shape function of a custom layer fails, or gives no shape.",
        "Let it give (width, height, channels), all above 0.",
    ),
    "DV117": Entry(
        "No such layer",
        "`outputs` names a layer that the network does not have.",
        "Write the name as `cnn-convertor inspect` shows it.",
    ),
    "DV118": Entry(
        "Code that may not run",
        "The ini file names Python code as custom_layer, and --no-custom-code is given.",
        "Read the file; leave out --no-custom-code if you trust it.",
    ),
    "DV119": Entry(
        "A path that no dependency file can name",
        "A file of --depfile has a character in its path that Make or Ninja reads otherwise, such as ; or a wildcard.",
        "Rename the file or the folder.",
    ),
    "DV120": Entry(
        "Over the capacity",
        "`plan` found no plan that needs as little as --capacity.",
        "Raise --capacity; raise --nodes unless the plan found is told to be the smallest.",
    ),
    "DV121": Entry(
        "No table of buffers",
        "The file is no CSV in UTF-8, or its first line lacks a column.",
        "Begin with a line id,lower,upper,size.",
    ),
    "DV122": Entry(
        "A buffer that makes no sense",
        "A line of the table has no numbers, a life or size below 0, or an id that came before; or all is too large.",
        "Correct the line.",
    ),
    "DV123": Entry(
        "Outputs that would change",
        "`check` converted a network, and the result differs from the files in its output folder.",
        "Commit what `cnn-convertor check --update` writes, or undo the change of the input.",
    ),
    "DV124": Entry(
        "No ini file found",
        "A folder, with those inside, or a pattern has no file that ends with .ini; hidden ones do not count.",
        "Correct the path; write a pattern in quotes.",
    ),
    "DV125": Entry(
        "Damage in the cache",
        "A file in the folder of --cache does not have the contents with which it was written.",
        "Nothing for this conversion: the network is converted again. Check the disk if this happens often.",
        is_warning=True,
    ),
    "DV126": Entry(
        "No cache",
        "The folder of --cache, or of a `cache` command, holds other files, does not exist or cannot be used.",
        "Name a new folder, or one of an earlier --cache.",
    ),
    "DV127": Entry(
        "A process ended",
        "With --jobs, the process that worked on a network ended early: often since the memory was short.",
        "Use fewer --jobs; if it happens with one, report it.",
    ),
    "DV128": Entry(
        "Wrong variants",
        "`sweep --vary` names a key that it cannot vary, one twice, or a value that the key does not take.",
        "Write --vary KEY=VALUE,... with a value that the message names.",
    ),
    "DV130": Entry(
        "No such layer to store",
        "A line of [QUANTIZATION] names no layer of the network, or one without kernels of its own.",
        "Write the name of a convolution or fully connected layer; `convert -v` lists them.",
    ),
    "DV150": Entry(
        "Wrong device",
        "`device` or `--device` names neither a known device nor a file, or the file has something unknown or impossible.",
        "Correct what the message names; docs/devices.md describes device files.",
    ),
    "DV151": Entry(
        "Features failed on the board",
        "The board.json of a probe says that commands with these features did not give the expected results.",
        "Use networks without these features, or update the board.",
        is_warning=True,
    ),
    "DV160": Entry(
        "Networks cannot be drawn here",
        "The library that lays out networks, fast-sugiyama, is not installed; it needs Python 3.11 or later.",
        "Install the extra `pictures`, or fast-sugiyama itself. Reports come without the picture of the network otherwise.",
    ),
    "DV161": Entry(
        "Not a report to compare with",
        "The file after --compare is not a report in JSON, or is one of another version of the form.",
        "Write it with `report --json` of this version.",
    ),
    "DV162": Entry(
        "No ini file for this model",
        "The file is not a model, its name cannot stand in an ini file, or the ini file exists already.",
        "Give a model file with a plain name, and a new name for the ini file.",
    ),
    # --- model files ---
    "DV201": Entry(
        "A model file cannot be read",
        "The file is missing, empty, damaged, cut short, or of another kind than its place in the ini file takes.",
        "Check the path, get or save the file again; Keras: model.save('model.keras').",
    ),
    "DV202": Entry(
        "Sizes do not fit",
        "A layer cannot work on maps of the sizes that it is given.",
        "Check the sizes of the layer's inputs, and width_override and height_override.",
    ),
    "DV203": Entry(
        "Too many or too few inputs",
        "A layer is connected to another number of layers than it takes.",
        "Check what the layer is connected to.",
    ),
    "DV204": Entry(
        "Weights are missing",
        "No file of weights is named, or the file has none for a layer, or another number of arrays.",
        "Check that data is there and names the weights of this network; Caffe matches them by the layers' names.",
    ),
    "DV205": Entry(
        "Weights of another shape",
        "The array in the file has another shape than the definition implies.",
        "Check that definition and data belong together, and the input's size.",
    ),
    "DV206": Entry(
        "A layer contradicts itself",
        "A layer's settings make no sense in its own framework, or lack what they must have, such as the input's size.",
        "Correct the definition; an open input size is set by width_override and height_override.",
    ),
    "DV207": Entry(
        "No network in the file",
        "A Keras file holds weights alone, or is HDF5 of some other program.",
        "Save the whole model: model.save('model.keras').",
    ),
    "DV208": Entry(
        "Another framework's model",
        "The file is a PyTorch, TensorFlow Lite or other model that is not read here, or a SavedModel folder.",
        "Export it as the message says, to ONNX or Keras.",
    ),
    "DV210": Entry(
        "A part of the definition is left out",
        "A Caffe definition has a field that the format does not know, or settings of another layer type.",
        "Make sure that the network works without it.",
        is_warning=True,
    ),
    "DV211": Entry(
        "Wrong text in the definition",
        "A Caffe definition does not keep the rules of its text format.",
        "Correct the line that is named.",
    ),
    "DV212": Entry(
        "Layers do not make a network",
        "A blob comes from nowhere or from two layers, a layer has no type, or the name of another one, or is included "
        "and excluded at once; or nothing is left at test time.",
        "Correct the definition; old forms need Caffe's upgrade_net_proto_text.",
    ),
    "DV213": Entry(
        "A layer is left out",
        "The layer only evaluates the network, or is an input that no layer reads.",
        "Nothing, if that is meant; the message says what the network gives instead.",
        is_warning=True,
    ),
    "DV214": Entry(
        "Weights are those of the filler",
        "The weights file holds nothing for a Deconvolution whose weight_filler is bilinear, so that it has those weights.",
        "Make sure that the layer was not trained.",
        is_warning=True,
    ),
    "DV215": Entry(
        "Another version of Keras computed otherwise",
        "The version or backend that saved the file computes a layer otherwise than Keras does now, or may do so; it is read "
        "as Keras does it now.",
        "Compare the results with those that the network had where it was trained; train again if they differ too much.",
        is_warning=True,
    ),
    # --- layers ---
    "DV301": Entry(
        "Unknown layer type",
        "Layers of this type are not converted.",
        "Replace the layer, let the network end before it, or define it as a custom layer (Keras). See docs/layers.md.",
    ),
    "DV302": Entry(
        "A form of a layer that is not converted",
        "The type is known, but not with these settings, inputs or arguments.",
        "Change what the message names; docs/layers.md has the limits.",
    ),
    "DV303": Entry(
        "A custom layer's parameter",
        "The custom layer file names a setting that the layer has not, or whose value firmware cannot be given.",
        "Name settings that are an int, a bool, a float, or a list of one of them.",
    ),
    "DV310": Entry(
        "Feature maps are not quantized",
        "An ONNX model rounds feature maps to integers and back. The network keeps their range, but does not round.",
        "Convert the model from before its quantization, or compare the results with those of the model.",
        is_warning=True,
    ),
    # --- numbers ---
    "DV430": Entry(
        "A palette beside PReLU slopes",
        "[QUANTIZATION] asks for a palette for a layer with PReLU, for which the device has none; split off, it takes no fewer bytes.",
        "Write fp16 for the layer, or train it with another activation.",
    ),
    "DV431": Entry(
        "An input that cannot be bytes",
        "input = u8 needs one input of 3 channels, which the network's first command alone reads.",
        "Remove input = u8.",
    ),
    "DV501": Entry(
        "A weight does not fit FP16",
        "After folding, a weight, bias or slope is beyond 65504 or no number.",
        "Train with a bound on the weights; look for batch norm variances that are zero or negative.",
    ),
    "DV502": Entry(
        "Weights became 0",
        "After folding, weights are so small that FP16 has only 0 for them.",
        "Nothing, if the results are good: such weights seldom matter. `verify` tells.",
        is_warning=True,
    ),
    "DV504": Entry(
        "Weights have few digits",
        "Nearly all weights of a layer are below 6.1e-05, where FP16 keeps fewer digits the smaller a number is.",
        "Scale the layer's weights up and the next layer's down, if `verify` shows that the results suffer.",
        is_warning=True,
    ),
    "DV505": Entry(
        "The outputs cannot keep their SQNR",
        "Even with FP16 weights the outputs have fewer decibels than quantization_output_sqnr wants.",
        "Write a smaller number, or give other samples with --calibrate.",
    ),
    # --- trials on the PC ---
    "DV701": Entry(
        "No compiler", "`run` and `verify` compile the sources, and found no g++.", "Install g++, or set CXX."
    ),
    "DV702": Entry(
        "The compiler refuses the sources",
        "The generated sources, or those given with --source, do not compile.",
        "Name the file with the callbacks of custom layers with --source; otherwise report it.",
    ),
    "DV703": Entry(
        "No place for what was compiled",
        "The folder of compiled libraries cannot be written.",
        "Name another one in the variable CNN_CONVERTOR_CACHE.",
    ),
    "DV704": Entry(
        "The device refuses the network",
        "The emulated device refuses a command or a memory access, or reports what a board does wrongly in silence.",
        "Convert again; if that does not help, report it.",
    ),
    "DV705": Entry(
        "Inputs do not fit the network",
        "The arrays given have other names, sizes or numbers of samples than the network's inputs.",
        "Give one array for each input, (height, width, channels) or (samples, height, width, channels).",
    ),
    "DV706": Entry(
        "An input that the device cannot hold",
        "A value of the input is NaN, infinity or beyond 65504, the largest FP16 number.",
        "For images, set mean and scale in the ini file. Arrays are used as they are: prepare them as for training.",
    ),
    "DV707": Entry(
        "The inputs cannot be read",
        "What was given with --input, --inputs or --labels cannot be read, or does not fit the network.",
        "See docs/verify.md for what they may be.",
    ),
    "DV708": Entry(
        "No self-test with custom layers",
        "selftest = 1 needs the code of every layer, and custom layers have theirs in the firmware.",
        "Set selftest = 0.",
    ),
    "DV709": Entry(
        "Sources and program differ",
        "What was compiled has other layers than the network: its sources were changed.",
        "Convert the network again.",
    ),
    "DV711": Entry(
        "Not installed",
        "OpenCV, which reads images, or the framework, which computes the expected outputs, is not installed.",
        "Install the extra `verify`: `pip install -e '.[verify]'` in a checkout, or with the wheel's file name; for ONNX, `onnx`.",
    ),
    "DV712": Entry(
        "The framework refuses the network",
        "Keras or onnxruntime cannot load the model here, or neither OpenCV nor Caffe's formulas can compute the network.",
        "For a file of Keras 2, install tf_keras. Or give the expected outputs together with the inputs, see docs/verify.md.",
    ),
    "DV713": Entry(
        "No layer of Keras",
        "`outputs` names a map inside a layer of Keras, whose values Keras does not give.",
        "Give the expected outputs together with the inputs, see docs/verify.md.",
    ),
    "DV714": Entry(
        "Pixels as they are",
        "The ini file has neither mean nor scale, so that the network is given pixels from 0 to 255.",
        "Set mean and scale to what the network was trained with.",
        is_warning=True,
    ),
    "DV715": Entry(
        "Custom layers cannot run in a conversion",
        "--calibrate and quantization_output_sqnr run the network on the PC; the code of its custom layers is the firmware's.",
        "Convert without them; quantization_threshold needs no runs.",
    ),
    "DV716": Entry(
        "Nothing to calibrate",
        "--calibrate was given, but no layer has a palette.",
        "Set quantization = 1 or auto.",
        is_warning=True,
    ),
    "DV717": Entry(
        "Calibration does not help",
        "With the calibrated palettes the outputs would be no better on the samples; the palettes stay as they were.",
        "Give more samples, that are like what the network will see.",
        is_warning=True,
    ),
    "DV718": Entry(
        "Files of another conversion",
        "`verify` converts the network anew; the files in the output folder have other contents.",
        "Convert the network again, with the same ini file, options and version.",
        is_warning=True,
    ),
    "DV719": Entry(
        "An output is not finite",
        "`run` found NaN or infinity in an output: a value exceeded FP16, or a division by zero took place.",
        "Check mean and scale; `verify --layers` shows the first layer concerned.",
        is_warning=True,
    ),
    "DV720": Entry(
        "Names and classes differ",
        "The file given to `run` with --labels has more or fewer names than an output has classes.",
        "Write one name a line, in the order of the classes.",
        is_warning=True,
    ),
    "DV721": Entry(
        "No palettes to compare",
        "`verify --sensitivity` shows what FP16 weights would change, but all weights are FP16.",
        "Set quantization = 1 or auto.",
        is_warning=True,
    ),
    "DV725": Entry(
        "An input that no bytes become",
        "With input = u8 the device makes each value of a byte, and an array holds values that no byte becomes.",
        "Give images, or arrays of (pixel - mean) * scale with whole pixels.",
    ),
    "DV730": Entry(
        "A source of a kit cannot be used",
        "A C++ file given to `kit` with --source is missing, not UTF-8 text, or has the name of another file of the kit "
        "or one that its Makefile cannot hold.",
        "Name the file that defines the callbacks of the custom layers; rename it if the message says so.",
    ),
    "DV731": Entry(
        "Results of a board cannot be read",
        "The folder given to `verify` with --board lacks a file of the kit's results, or one is damaged or cut short.",
        "Run the kit again, and name its folder of results.",
    ),
    "DV732": Entry(
        "Results of another kit",
        "The results given with --board are of another network, other inputs or another version of the convertor.",
        "Use the ini file and inputs of the kit, or make the kit again and run it.",
    ),
    # --- memory layouts ---
    "DV800": Entry("A layout's text is wrong", "The description of a layout breaks its grammar.", "See docs/layouts.md."),
    "DV801": Entry(
        "A layout contradicts itself",
        "Its terms do not count every axis exactly once, or have numbers that make no sense.",
        "Correct the term that is named.",
    ),
    "DV802": Entry(
        "Shape and layout do not fit", "The shape, index or padding has other axes than the layout.", "Give one number an axis."
    ),
    "DV803": Entry("Elements overlap", "A pitch is smaller than what lies in it, or misaligned.", "Raise the pitch."),
    "DV804": Entry(
        "The buffer or element type does not fit",
        "Memory has another size, or elements another type, than the layout needs.",
        "Give --element and --shape as the memory has them; convert the array first.",
    ),
    "DV805": Entry("Too large for a picture", "--svg draws every element.", "Describe a smaller shape."),
    "DV810": Entry("A clDNN format without a layout", "The format's memory depends on more than its name.", "Use another format."),
    "DV811": Entry("Beyond 4 bits", "Values do not fit a 4-bit type.", "Scale the values first."),
    "DV812": Entry("Padding of the batch", "The device reads this format as if its batch had no padding.", "Do not pad b."),
    "DV820": Entry(
        "Tensor properties contradict each other",
        "Shape, strides, sizes, scales or type of a BPU tensor do not fit together.",
        "Take them from the model as they are.",
    ),
    "DV821": Entry("No NV12 image", "An NV12 image has odd sizes, or its buffer another length.", "Use even sizes."),
    "DV830": Entry("No such conversion", "Values, offset, scale or shift are beyond NVDLA's fields.", "Use smaller ones."),
    "DV831": Entry("No such change of precision", "NVDLA does not convert between these types there.", "Use one that is named."),
    "DV832": Entry("No such operands", "NVDLA has no layout for as many operands of that size.", "See docs/layouts.md."),
    "DV833": Entry("Weights that NVDLA cannot lay out", "Kernel, stride or extension do not fit the mode.", "Use another mode."),
    "DV834": Entry("Compressed weights contradict themselves", "Mask, group sizes and weights do not agree.", "Compress again."),
    "DV835": Entry(
        "Image and pixel format do not fit",
        "The format is unknown, or the image has other channels, values or lines.",
        "See docs/layouts.md for the formats.",
    ),
    "DV836": Entry("Misaligned", "An address or stride is no multiple of what NVDLA needs.", "Round it up."),
    "DV840": Entry(
        "The file of an array does not fit",
        "A file holds no array, or nothing says what shape and type its memory has.",
        "Give --shape and --element; arrays are .npy, memory has another ending.",
    ),
    "DV841": Entry("No such name", "No layout, family or element type is called so.", "See `cnn-convertor layout list`."),
    "DV850": Entry("No such target", "`export` has no target or element type that is called so.", "See docs/export.md."),
    "DV851": Entry(
        "NVDLA has not the like",
        "A layer cannot be laid out for NVDLA without changing its result.",
        "Export for another target, or change the layer as the message says.",
    ),
    "DV852": Entry("No format fits", "None of the clDNN formats given holds weights of this form.", "Name one that does."),
    "DV853": Entry(
        "A value does not fit the target's elements",
        "After folding, a value is too large for the type of the target's elements, or no number.",
        "Export for a wider type; look for batch norm variances that are negative.",
    ),
    "DV854": Entry(
        "A layer without a format", "The layer holds numbers for which no format is known.", "Export the network up to it."
    ),
    "DV855": Entry("No manifest", "The manifest of an export is missing or damaged.", "Export the network again."),
    "DV856": Entry(
        "A surface is not what was written",
        "A file of an export is missing, changed, or was only described.",
        "Export the network again, with --input for the input map, --run for the output maps.",
    ),
    "DV857": Entry(
        "Something given is not used",
        "A format or a mode holds nothing of the network, or there are more samples than the one that is exported.",
        "Nothing, if that is meant.",
        is_warning=True,
    ),
}  # fmt: skip


def entries() -> dict[str, Entry]:
    """Every code, sorted: the table's, the rules' and the audit's."""
    rules = {
        rule.code: Entry(
            _in_words(rule.broken.__name__), _on_one_line(rule.describe(DV700.limits)), _as_sentence(rule.hint)
        )
        for rule in RULES
    }
    audit = {code: Entry("Audit", entry.cause, entry.cure) for code, entry in CODES.items()}
    return dict(sorted({**ENTRIES, **rules, **audit}.items()))


def manual() -> str:
    """The page docs/messages.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Errors and warnings"
    yield ""
    yield "Every message begins with its code, which never changes; the file, the layer and what to try follow."
    yield "A conversion continues after a warning (marked below); `--strict` makes errors of warnings. `cnn-convertor inspect` shows all"
    yield "problems of a network at once."
    yield ""
    yield "This page is made from `tools/messages_page.py`, the rules of the device and the codes of the audit."
    every = entries()
    for digit, title in GROUPS.items():
        yield from ("", f"## {digit}xx: {title}", "", "| code | meaning | cause | cure |", "|---|---|---|---|")
        for code, entry in every.items():
            if code[2] == digit:
                mark = " (warning)" * entry.is_warning
                yield f"| {code}{mark} | {' | '.join(map(_cell, entry[:3]))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _in_words(name: str) -> str:
    return name.replace("_", " ").capitalize().replace("Cpu", "CPU")


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
