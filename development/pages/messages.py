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
    """meaning: in a few words. cause: how it comes about. remedy: what to do. is_warning: the conversion goes on."""

    meaning: str
    cause: str
    remedy: str
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

# What precedes the table of a group.
LEADS: Mapping[str, tuple[str, ...]] = {
    "4": (
        "",
        "The convertor first rewrites layers that the device does not support. It then checks the rules of the device, most of them in",
        "this group, and names every layer that breaks one.",
    )
}

ENTRIES: Mapping[str, Entry] = {
    # --- the convertor itself ---
    "DV000": Entry(
        "Internal error",
        "The convertor has a defect.",
        "Report it, with the ini file and the output of a run with CNN_CONVERTOR_DEBUG=1 in the environment.",
    ),
    # --- command line and ini file ---
    "DV100": Entry("Wrong command line", "A command, option or argument is unknown or malformed.", "See --help."),
    "DV101": Entry(
        "Not an ini file",
        "The file cannot be read, is not UTF-8 text, or is a model.",
        "Give the path of a net.ini, saved as UTF-8. `inspect` takes models, too.",
    ),
    "DV102": Entry(
        "Malformed line",
        "The line is not [SECTION], key = value or a comment, or stands before the first section.",
        "Correct the line. A value that begins with a double quote ends with one and contains none.",
    ),
    "DV103": Entry(
        "Duplicate key or section", "A section or a key appears twice.", "Keep one. Keys are not case-sensitive."
    ),
    "DV104": Entry(
        "Incomplete size", "Only one of width_override and height_override is given.", "Give both, or neither."
    ),
    "DV105": Entry("Missing key", "The file lacks a key that has no default.", "Add the line."),
    "DV106": Entry(
        "Invalid value",
        "The value of a key has the wrong type or form, or a name is too long or already used by another file.",
        "Write a value of the form that the message describes.",
    ),
    "DV107": Entry(
        "File or folder not found",
        "The file or folder that a key names does not exist, is of the other kind, or cannot be used.",
        "Correct the path. It is relative to the folder of the ini file.",
    ),
    "DV108": Entry(
        "Unknown framework",
        "Neither the names nor the contents of the model's files identify their framework.",
        "Set origin = CAFFE, KERAS or ONNX. Export models of other frameworks to one of them.",
    ),
    "DV109": Entry(
        "Invalid device size",
        "An option describes a device that cannot exist.",
        "Give a value in the range that the message names.",
    ),
    "DV110": Entry(
        "Outputs cannot be written",
        "The operating system refuses: missing permissions, a full disk, or a folder in place of a file.",
        "Check output_folder, or the path after the option.",
    ),
    "DV112": Entry(
        "Unknown section or key",
        "The ini file has a section or key that does not exist. It is ignored.",
        "Correct its name. The message suggests the nearest one.",
        is_warning=True,
    ),
    "DV113": Entry(
        "System error",
        "A file could not be opened, read or written, or memory is exhausted.",
        "Check the path, the permissions, the free space on the disk, and the size of the network.",
    ),
    "DV114": Entry(
        "Two networks, the same files",
        "Two ini files of one run have the same name and output_folder.",
        "Change the name or the output_folder of one of them.",
    ),
    "DV115": Entry(
        "Custom layers cannot be read",
        "The file that custom_layer names does not exist, fails, does not define a dictionary `custom_layer` of the documented form, or has two names that are one in C++.",
        "Write custom_layer = {'TypeName': (('parameter', ...), lambda config, input_shape: output_shape)}.",
    ),
    "DV116": Entry(
        "Invalid shape of a custom layer",
        "The shape function of a custom layer fails, or does not return a shape.",
        "Return (width, height, channels), all greater than 0. The function gets the shape of the input; of several inputs, a list of shapes.",
    ),
    "DV117": Entry(
        "No such layer",
        "`outputs` names a layer that the network does not have.",
        "Write the name as `cnn-convertor inspect` shows it.",
    ),
    "DV118": Entry(
        "Custom code is forbidden",
        "The ini file names Python code as custom_layer, and --no-custom-code is given.",
        "Read the file. Omit --no-custom-code if you trust it.",
    ),
    "DV119": Entry(
        "Path unsuitable for a dependency file",
        "The path of an input contains a character that has a meaning in Make or Ninja, such as ; or a wildcard.",
        "Rename the file or the folder.",
    ),
    "DV120": Entry(
        "Over the capacity",
        "`plan` found no plan that fits --capacity.",
        "Raise --capacity. If the message does not say that the plan is the smallest, raising --nodes may help.",
    ),
    "DV121": Entry(
        "Not a table of buffers",
        "The file is not CSV in UTF-8, or its first line lacks a column.",
        "Begin with the line id,lower,upper,size.",
    ),
    "DV122": Entry(
        "Invalid buffer",
        "A line of the table contains something other than numbers, a live range or size below 0, or a duplicate id, or the sizes are too large.",
        "Correct the line.",
    ),
    "DV123": Entry(
        "Outputs are out of date",
        "`check` converted a network, and the result differs from the files in its output folder.",
        "Commit the files that `cnn-convertor check --update` writes, or undo the change of the input.",
    ),
    "DV124": Entry(
        "No ini file found",
        "The folder (with its subfolders) or pattern contains no file that ends with .ini. Hidden files do not count.",
        "Correct the path. Quote patterns.",
    ),
    "DV125": Entry(
        "Damaged cache",
        "The contents of a file in the folder of --cache have changed since it was written.",
        "Nothing: the network is converted again. Check the disk if this happens often.",
        is_warning=True,
    ),
    "DV126": Entry(
        "Not a cache",
        "The folder of --cache, or of a `cache` command, contains other files, does not exist or cannot be used.",
        "Name a new folder, or one that an earlier --cache created.",
    ),
    "DV127": Entry(
        "A process died",
        "With --jobs or --scheduler, the process that converted a network ended early, usually because memory was exhausted. "
        "On a cluster, every worker that received the work ended.",
        "Use fewer --jobs. On a cluster, use workers with more memory, or fewer on each computer. If it happens with one, report it.",
    ),
    "DV128": Entry(
        "Invalid variants",
        "`sweep --vary` names a key that it cannot vary, names one twice, gives a value that the key does not accept, or gives more than "
        "10,000 combinations.",
        "Write --vary KEY=VALUE,... with values that the message names.",
    ),
    "DV132": Entry(
        "Dask is not installed",
        "--scheduler needs the Python packages dask and distributed.",
        "Install the extra `cluster`.",
    ),
    "DV133": Entry(
        "No scheduler",
        "No Dask scheduler answers at the address of --scheduler, or it has ended.",
        "Start `dask scheduler`, and give the address that it prints. A scheduler with TLS has an address like tls://host:8786.",
    ),
    "DV134": Entry(
        "No workers",
        "The Dask scheduler has had no workers for half a minute.",
        "Start workers: `dask worker tcp://host:8786 --nthreads 1`.",
    ),
    "DV135": Entry(
        "Other versions on a worker",
        "A worker of the cluster has another version of the convertor, of Python or of a library that the work uses, "
        "or another kind of processor. Its results could differ.",
        "Install the versions that the message names on all computers, and restart the workers.",
    ),
    "DV136": Entry(
        "The cluster cannot work",
        "Dask refuses a piece of work, usually because the computers have different versions of Python or of Dask.",
        "Install the same versions. The message shows Dask's error.",
    ),
    "DV130": Entry(
        "Not a layer with weights",
        "A line of [QUANTIZATION] names a layer that the network does not have, or one without weights of its own.",
        "Write the name of a convolution or fully connected layer. `convert -v` lists them.",
    ),
    "DV150": Entry(
        "Invalid device",
        "`device` or `--device` names neither a known device nor a file, or the file contains an unknown or impossible value.",
        "Correct what the message names. docs/devices.md describes device files.",
    ),
    "DV151": Entry(
        "Features that failed on the board",
        "According to the probe's board.json, commands with these features gave wrong results.",
        "Avoid these features in networks, or update the board.",
        is_warning=True,
    ),
    "DV160": Entry(
        "Networks cannot be drawn here",
        "The library fast-sugiyama, which lays out networks, is not installed. It needs Python 3.11 or later.",
        "Install the extra `pictures`, or fast-sugiyama itself. Without it, reports have no picture of the network.",
    ),
    "DV161": Entry(
        "Not a report to compare with",
        "The file after --compare is not a report in JSON, or has another version of the schema.",
        "Write it with `report --json` of this version.",
    ),
    "DV162": Entry(
        "The ini file cannot be written",
        "The file is not a model, its name cannot appear in an ini file, or the ini file already exists.",
        "Give a model file with a plain name, and a new name for the ini file.",
    ),
    # --- model files ---
    "DV201": Entry(
        "A model file cannot be read",
        "The file is missing, empty, damaged or truncated, or its type does not match the key that names it.",
        "Check the path, and save or download the file again. Keras: model.save('model.keras').",
    ),
    "DV202": Entry(
        "Shapes do not fit",
        "A layer cannot process feature maps of the given sizes.",
        "Check the sizes of the layer's inputs, and width_override and height_override.",
    ),
    "DV203": Entry(
        "Wrong number of inputs",
        "A layer has more or fewer inputs than its type takes.",
        "Check the layer's connections.",
    ),
    "DV204": Entry(
        "Weights are missing",
        "No weights file is given, or it lacks the layer, or has the wrong number of arrays for it.",
        "Check that data names the weights of this network. Caffe matches them by layer name.",
    ),
    "DV205": Entry(
        "Weights of another shape",
        "The shape of an array in the file differs from the one that the definition implies.",
        "Check that definition and data belong together, and check the size of the input.",
    ),
    "DV206": Entry(
        "Invalid layer",
        "A layer's settings are invalid in its own framework, or incomplete, such as an input without a size.",
        "Correct the definition. width_override and height_override set an open input size.",
    ),
    "DV207": Entry(
        "No network in the file",
        "The Keras file contains only weights, or the HDF5 file is of another program.",
        "Save the whole model: model.save('model.keras').",
    ),
    "DV208": Entry(
        "Model of another framework",
        "The file is a PyTorch, TensorFlow Lite or other model that cannot be read, or a SavedModel folder.",
        "Export it to ONNX or Keras as the message shows.",
    ),
    "DV210": Entry(
        "Unknown field",
        "A Caffe definition has a field that the format does not define, or settings of another layer type. They are ignored.",
        "Make sure that the network works without them.",
        is_warning=True,
    ),
    "DV211": Entry(
        "Syntax error in the definition",
        "A Caffe definition violates the rules of its text format.",
        "Correct the line that the message names.",
    ),
    "DV212": Entry(
        "Invalid graph",
        "A blob has no producer or two, a layer lacks a type, repeats a name, or is both included and excluded, or no layer remains at test time.",
        "Correct the definition. Upgrade old formats with Caffe's upgrade_net_proto_text.",
    ),
    "DV213": Entry(
        "A layer is ignored",
        "The layer only evaluates the network, or is an input that no layer reads.",
        "Nothing, if this is intended. The message names the output that remains.",
        is_warning=True,
    ),
    "DV214": Entry(
        "Weights of the filler",
        "The weights file has no entry for a Deconvolution with the weight_filler bilinear, which supplies the weights.",
        "Make sure that the layer was not trained.",
        is_warning=True,
    ),
    "DV215": Entry(
        "Another version of Keras computed differently",
        "The version or backend that saved the file computes (or may compute) a layer differently from current Keras, whose definition is used.",
        "Compare the results with those of the training environment. Train again if they differ too much.",
        is_warning=True,
    ),
    # --- layers ---
    "DV301": Entry(
        "Unknown layer type",
        "The convertor does not support layers of this type.",
        "Replace the layer, end the network before it, or define it as a custom layer (Keras). See docs/layers.md.",
    ),
    "DV302": Entry(
        "Unsupported setting of a layer",
        "The convertor supports the type, but not these settings, inputs or arguments.",
        "Change what the message names. docs/layers.md lists the limits.",
    ),
    "DV303": Entry(
        "Invalid parameter of a custom layer",
        "The custom layer file names a setting that the layer does not have, or whose value has an unsupported type.",
        "Name settings that are an int, a bool, a float, or a list of one of these.",
    ),
    "DV310": Entry(
        "Feature maps are not quantized",
        "The ONNX model rounds feature maps to integers and back. The converted network keeps their range but does not round.",
        "Convert the model from before quantization, or compare the results with those of the model.",
        is_warning=True,
    ),
    "DV311": Entry(
        "Operators newer than the convertor",
        "An ONNX model uses a version of the operators that is newer than the convertor, and may define some otherwise.",
        "Compare the results with `verify`, or export the model for an older version (`opset_version`).",
        is_warning=True,
    ),
    # --- numbers ---
    "DV430": Entry(
        "Palette together with PReLU",
        "[QUANTIZATION] asks for a palette for a layer with PReLU. The device does not support the combination, and splitting off the PReLU saves no bytes.",
        "Write fp16 for the layer, or train it with another activation.",
    ),
    "DV431": Entry(
        "Input unsuitable for bytes",
        "input = u8 needs one input of 3 channels that only the first command of the network reads. To swap channels (u8_rgb, "
        "u8_bgr), the convolutions that read it must not be depthwise.",
        "Remove input = u8, or name no order of channels.",
    ),
    "DV501": Entry(
        "A weight exceeds FP16",
        "After folding, a weight, bias or slope is NaN, infinite or greater than 65504.",
        "Bound the weights during training. Look for batch norm variances that are zero or negative.",
    ),
    "DV502": Entry(
        "Weights became 0",
        "After folding, some weights are too small for FP16 and become 0.",
        "Nothing, if `verify` passes: such weights seldom matter.",
        is_warning=True,
    ),
    "DV504": Entry(
        "Weights have few digits",
        "Nearly all weights of a layer are below 6.1e-05, where FP16 is less precise the smaller the number.",
        "If `verify` shows an effect, scale the layer's weights up and those of the next layer down.",
        is_warning=True,
    ),
    "DV505": Entry(
        "The outputs cannot keep their SQNR",
        "Even with FP16 weights, the SQNR of an output is below quantization_output_sqnr.",
        "Lower quantization_output_sqnr, or give other samples with --calibrate.",
    ),
    # --- trials on the PC ---
    "DV701": Entry(
        "No compiler",
        "`run` and `verify` compile the generated sources, other features the emulated device, and g++ is missing.",
        "Install g++, or set CXX.",
    ),
    "DV702": Entry(
        "The sources do not compile",
        "The compiler rejects the generated sources, or those given with --source.",
        "Give the file with the callbacks of custom layers with --source. A header that it includes must exist on each computer "
        "that compiles it. Otherwise report the error.",
    ),
    "DV703": Entry(
        "The cache folder cannot be written",
        "The folder for compiled libraries is not writable.",
        "Name another folder in the variable CNN_CONVERTOR_CACHE.",
    ),
    "DV704": Entry(
        "The device rejects the network",
        "The emulated device rejects a command or a memory access, or detects an error that a board does not report.",
        "Convert again. If that does not help, report it.",
    ),
    "DV705": Entry(
        "Inputs do not fit the network",
        "The given arrays have other names, sizes or numbers of samples than the network's inputs.",
        "Give one array for each input, (height, width, channels) or (samples, height, width, channels).",
    ),
    "DV706": Entry(
        "Input value out of range",
        "A value of the input is NaN, infinite or beyond 65504, the largest FP16 number.",
        "For images, set mean and scale in the ini file. Arrays are used as they are: preprocess them as for training.",
    ),
    "DV707": Entry(
        "The inputs cannot be read",
        "The argument of --input, --inputs or --labels cannot be read, or does not fit the network.",
        "See docs/verify.md for the accepted files.",
    ),
    "DV708": Entry(
        "No self-test with custom layers",
        "selftest = 1 needs the code of every layer, but the firmware supplies the code of custom layers.",
        "Set selftest = 0.",
    ),
    "DV709": Entry(
        "Sources differ from the network",
        "The compiled sources have other layers than the network: they were edited.",
        "Convert the network again.",
    ),
    "DV711": Entry(
        "Not installed",
        "OpenCV (for images) or the framework (for the expected outputs) is not installed.",
        "Install the extra `verify`: `pip install -e '.[verify]'` in a checkout, or with the wheel's file name; for ONNX, `onnx`.",
    ),
    "DV712": Entry(
        "The framework rejects the network",
        "Keras or onnxruntime cannot load the model here, or neither OpenCV nor Caffe's formulas can compute the network.",
        "For a Keras 2 file, install tf_keras. Or give the expected outputs together with the inputs: see docs/verify.md.",
    ),
    "DV713": Entry(
        "Not a layer of Keras",
        "`outputs` names a feature map inside a Keras layer, whose values Keras does not return.",
        "Give the expected outputs together with the inputs: see docs/verify.md.",
    ),
    "DV714": Entry(
        "Raw pixels",
        "The ini file has neither mean nor scale, so the network receives pixels from 0 to 255.",
        "Set mean and scale as in training.",
        is_warning=True,
    ),
    "DV715": Entry(
        "Custom layers cannot run during a conversion",
        "--calibrate and quantization_output_sqnr run the network on the PC, but the firmware supplies the code of custom layers.",
        "Convert without them. quantization_threshold needs no runs.",
    ),
    "DV716": Entry(
        "Nothing to calibrate",
        "--calibrate is given, but no layer has a palette.",
        "Set quantization = 1 or auto.",
        is_warning=True,
    ),
    "DV717": Entry(
        "Calibration does not help",
        "On the samples, calibrated palettes give no better outputs. The original palettes stay.",
        "Give more samples, similar to those in use.",
        is_warning=True,
    ),
    "DV718": Entry(
        "Files of another conversion",
        "`verify` converts the network anew, and the files in the output folder differ from the result.",
        "Convert the network again, with the same ini file, options and version.",
        is_warning=True,
    ),
    "DV719": Entry(
        "An output is not finite",
        "`run` found NaN or infinity in an output: a value exceeded FP16, or a division by zero occurred.",
        "Check mean and scale. `verify --layers` shows the first layer affected.",
        is_warning=True,
    ),
    "DV720": Entry(
        "Labels and classes differ",
        "The file given to `run` with --labels has more or fewer names than an output has classes.",
        "Write one name per line, in the order of the classes.",
        is_warning=True,
    ),
    "DV721": Entry(
        "No palettes to compare",
        "`verify --sensitivity` shows what FP16 weights would change, but all weights are FP16.",
        "Set quantization = 1 or auto.",
        is_warning=True,
    ),
    "DV722": Entry(
        "Results of an unknown layer",
        "An array expected_NAME of the .npz file is for no layer of the network.",
        "Use the name of a layer as in the model file; the message shows near names.",
    ),
    "DV725": Entry(
        "Input values that bytes cannot give",
        "With input = u8 the device converts bytes, and an array contains values that no byte gives.",
        "Give images, or arrays of (pixel - mean) * scale with integer pixels.",
    ),
    "DV730": Entry(
        "A source of a kit cannot be used",
        "A C++ file given to `kit` with --source is missing, is not UTF-8 text, or has a name that another file of the kit has or that a Makefile cannot contain.",
        "Name the file that defines the callbacks of the custom layers. Rename it if the message says so.",
    ),
    "DV731": Entry(
        "Board results cannot be read",
        "The folder given to `verify` with --board lacks a file of the results, or a file is damaged or truncated.",
        "Run the kit again, and name its results folder.",
    ),
    "DV732": Entry(
        "Results of another kit",
        "The results given with --board are of another network, other inputs or another version of the convertor.",
        "Use the ini file and inputs of the kit, or create the kit again and run it.",
    ),
    # --- memory layouts ---
    "DV800": Entry(
        "Invalid layout description", "The description of a layout violates its grammar.", "See docs/layouts.md."
    ),
    "DV801": Entry(
        "Contradictory layout",
        "The terms do not cover every axis exactly once, or contain invalid numbers.",
        "Correct the term that the message names.",
    ),
    "DV802": Entry(
        "Shape and layout do not fit",
        "The shape, index or padding has other axes than the layout.",
        "Give one number per axis.",
    ),
    "DV803": Entry("Elements overlap", "A pitch is smaller than its contents, or misaligned.", "Raise the pitch."),
    "DV804": Entry(
        "Wrong buffer size or element type",
        "The memory has another size, or its elements another type, than the layout requires.",
        "Give --element and --shape of the memory, or convert the array first.",
    ),
    "DV805": Entry("Too large for a picture", "--svg draws every element.", "Describe a smaller shape."),
    "DV810": Entry(
        "A clDNN format without a layout", "The format's memory depends on more than its name.", "Use another format."
    ),
    "DV811": Entry("Values exceed 4 bits", "Values do not fit a 4-bit type.", "Scale the values first."),
    "DV812": Entry(
        "Padding of the batch", "The device reads this format as if its batch had no padding.", "Do not pad b."
    ),
    "DV820": Entry(
        "Contradictory tensor properties",
        "Shape, strides, sizes, scales or type of a BPU tensor do not fit together.",
        "Use the properties of the model, unchanged.",
    ),
    "DV821": Entry(
        "Not an NV12 image",
        "The width or height of an NV12 image is odd, or its buffer has the wrong length.",
        "Use even sizes.",
    ),
    "DV830": Entry(
        "Value out of range for NVDLA", "Values, offset, scale or shift exceed NVDLA's fields.", "Use smaller values."
    ),
    "DV831": Entry(
        "Unsupported change of precision",
        "NVDLA does not convert between these types at this place.",
        "Use one of the types that the message names.",
    ),
    "DV832": Entry(
        "Unsupported operands", "NVDLA has no layout for this number of operands of this size.", "See docs/layouts.md."
    ),
    "DV833": Entry(
        "Unsupported weights", "Kernel, stride or extension do not fit the mode of NVDLA.", "Use another mode."
    ),
    "DV834": Entry(
        "Contradictory compressed weights", "Mask, group sizes and weights do not agree.", "Compress again."
    ),
    "DV835": Entry(
        "Image and pixel format do not fit",
        "The format is unknown, or the image has other channels, values or lines.",
        "docs/layouts.md lists the formats.",
    ),
    "DV836": Entry("Misaligned", "An address or stride is not a multiple of NVDLA's alignment.", "Round it up."),
    "DV840": Entry(
        "Unsuitable array file",
        "A file contains no array, or the shape and type of its memory are not given.",
        "Give --shape and --element. Arrays are .npy files; other files are raw memory.",
    ),
    "DV841": Entry(
        "Unknown name", "No layout, family or element type has this name.", "See `cnn-convertor layout list`."
    ),
    "DV850": Entry("Unknown target", "`export` has no target or element type of this name.", "See docs/layouts.md."),
    "DV851": Entry(
        "Unsupported by NVDLA",
        "NVDLA has no layout for a layer that keeps its result.",
        "Export for another target, or change the layer as the message says.",
    ),
    "DV852": Entry(
        "No format fits", "None of the given clDNN formats stores weights of this form.", "Name one that does."
    ),
    "DV853": Entry(
        "Value out of range for the target",
        "After folding, a value is NaN or too large for the element type of the target.",
        "Export for a wider type. Look for batch norm variances that are negative.",
    ),
    "DV854": Entry(
        "A layer without a format",
        "The layer contains parameters that have no format in this target.",
        "Export the network up to this layer.",
    ),
    "DV855": Entry("Manifest missing", "The manifest of an export is missing or damaged.", "Export the network again."),
    "DV856": Entry(
        "Surface missing or changed",
        "A file of an export is missing, changed, or was only described.",
        "Export the network again, with --input for the input map and --run for the output maps.",
    ),
    "DV857": Entry(
        "Unused argument",
        "A given format or mode does not apply to the network, or there are more samples than the one that is exported.",
        "Nothing, if this is intended.",
        is_warning=True,
    ),
}


def entries() -> dict[str, Entry]:
    """Every code, sorted: the table's, the rules' and the audit's."""
    rules = {
        rule.code: Entry(
            _in_words(rule.broken.__name__), _on_one_line(rule.describe(DV700.limits)), _as_sentence(rule.hint)
        )
        for rule in RULES
    }
    audit = {code: Entry(*entry) for code, entry in CODES.items()}
    return dict(sorted({**ENTRIES, **rules, **audit}.items()))


def manual() -> str:
    """The page docs/messages.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Errors and warnings"
    yield ""
    yield "Every message begins with its code, which never changes; the file, the layer and the remedy follow."
    yield "A conversion continues after a warning (marked below); `--strict` turns warnings into errors. `cnn-convertor inspect` shows all"
    yield "problems of a network at once."
    yield ""
    yield "This page is generated from `development/pages/messages.py`, the rules of the device and the codes of the audit."
    every = entries()
    for digit, title in GROUPS.items():
        yield from (
            "",
            f"## {digit}xx: {title}",
            *LEADS.get(digit, ()),
            "",
            "| code | meaning | cause | remedy |",
            "|---|---|---|---|",
        )
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
