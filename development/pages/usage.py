"""The pages docs/commands.md and docs/net-ini.md: what the command line and the ini file take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cnn_convertor.cli import commands
from cnn_convertor.cli.examples import EXAMPLES
from cnn_convertor.config import KEYS, LAYERS, SECTIONS, Key

COMMANDS_HEAD = """# The command line

`cnn-convertor`, once installed, and `python convertor.py` in a checkout are the same program. This page is generated from the
text of `--help`.

Results go to standard output. Progress, warnings and errors go to standard error. [messages.md](messages.md) explains the code of
each warning and error. On a terminal, a command that takes longer than a moment shows a progress bar, elsewhere a line every 30
seconds; with `-v`, it prints a line with the time of each step. `NO_COLOR` turns off colors, and `CNN_CONVERTOR_DEBUG=1` shows the
traceback of an error. For shell completion, run `eval "$(_CNN_CONVERTOR_COMPLETE=bash_source cnn-convertor)"` (or `zsh_source`,
`fish_source`).

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a network cannot be converted (the others are converted), is not verified, or a check found something |
| 2 | the command line, an ini file or the inputs for `run` and `verify` are wrong |
| 130 | the command was interrupted with Ctrl-C; 143: ended by SIGTERM; 129: by SIGHUP, as its terminal closed |
"""
EVERYWHERE = ("verbose", "quiet", "strict")  # options of every command
DEVICE = ("device", "max_kernel_size", "ub_size")  # options of every command that depends on the device

INI_HEAD = """# The ini file

One file for each network: the model to read, and the files to write. Only `name`, `definition` and `output_folder` are required;
without `generate_source = 1` only the packed weights are written.

- Lines are `[SECTION]`, `key = value`, or empty. `#` and `;` begin a comment, also after a value. A value that contains one of
  these characters must be in double quotes.
- Names of sections and keys are not case-sensitive. Paths are relative to the folder of the ini file.
- An unknown key is a warning that names the nearest known key, and an error with `--strict`. All errors of a file are reported
  together, with their lines.
"""
INI_TAIL = """
## [QUANTIZATION]

Each line has the framework's name of a convolution or fully connected layer, and `fp16` or `palette`. It sets how the weights of
that layer are stored, regardless of `quantization`. See [palettes.md](palettes.md).

```ini
[QUANTIZATION]
conv1 = fp16
fc/1000 = palette
```

## What is written

All files go to `output_folder/NAME/`. They appear together or, if anything fails, not at all: at every moment the folder contains
one whole conversion. Files with unchanged contents keep their modification time, files of an earlier conversion that the new one
does not have are removed, and your own files remain.

| file | when |
|---|---|
| `NAME_weights.bin` | always: the weights of all commands, for `LoadWeights()` |
| `NAME.json` | always: the [manifest](report.md#the-manifest), which other tools read |
| `NAME_gen.h`, `NAME_gen.cpp` | `generate_source = 1`: the class `CNAME`, which describes the network to the runtime |
| `NAME_cpu.h` | with them, where some layers run on the CPU ([layers.md](layers.md#layers-that-run-on-the-cpu)) |
| `NAME_frame.h` | with them, where the device has an image unit (`device = zia-c3`) that makes the input of a camera's frame ([below](#frames-of-a-camera)) |
| `NAME.dot` | `generate_dot = 1`: the graph; `dot -Tsvg NAME.dot > NAME.svg` draws it |
| `NAME.html`, `NAME_report.json` | `report = 1`: the [report](report.md) as a page and as JSON |
| `doc/` | `generate_doxy = 1`: `Doxyfile` and `pages.dox`; `doxygen` in that folder makes the pages |
| `NAME_selftest.cpp`, `NAME_selftest.bin` | `selftest = 1`: a test for the board ([verify.md](verify.md#a-test-for-the-board)) |
| `MODULE.cpp` | `python_module = MODULE`: a Python module, to be built with pybind11 |

## Pixels as bytes

With `input = u8` the application copies pixels of 3 bytes to the network's input, in the channel order and pixel order of the FP16
input, and the device computes `(pixel - mean) * scale` with the `mean` and `scale` of the ini file. `NAME_gen.cpp` calls
`SetConvertPolicy`: with the runtime's policy if it gives the same FP16 numbers (pixel / 255, pixel - 128, (pixel - 128) / 128,
(pixel - 127.5) / 128, pixel), and with a table for each channel otherwise. The device reads half as many bytes. The network needs
one input of 3 channels that only its first command reads (DV431). `run` and `verify` round images to whole pixels, and accept only
arrays that whole pixels can give.

`input = u8_rgb` and `input = u8_bgr` are for cameras whose channel order is not the network's (`channel_order`): the application
copies bytes in that order. The convertor swaps the channels of the table and of the first kernels, so the device does no extra
work. `mean`, `scale` and `std` in the ini file stay in the network's order; `NAME_gen.h` has them in the order of the bytes.

## Frames of a camera

A device with an image unit (IPU) can make the network's input from a frame of any size up to 4095x4095 pixels: it scales the frame,
reorders channels, and subtracts whole means or divides by 255. If this gives the input exactly for the `mean` and `scale` of the
ini file (with `input = u8`, for any), `NAME_frame.h` has the class `CNAME_io::Frame`. The camera writes pixels to `data()`, and the
CPU does not touch them:

```cpp
Cmy_network network;  // Initialize(), LoadWeights(), Commit()
Cmy_network_io::Frame frame(network);
if (!frame.Reserve(480, 640, Cmy_network_io::kRGB)) return 1;  // no image unit: prepare the pixels on the CPU
std::memcpy(frame.data(), pixels, frame.size());
if (!frame.Draw() || !network.RunNetwork()) return 1;
```

No public document says at which positions the device samples a frame when it scales, or how it rounds pixel / 255. The emulated
device samples at the centers of pixels, and rounds to the nearest number.

## Outputs

`get_final_output(values, i)` gives output `i`, in this order, or in the model's without `outputs`. `NAME_gen.h` has a constant for
each output, named after its layer: `CNAME::kOutput_prob`. Where a layer has several outputs, they have the framework's own names:
the tops of a Caffe layer, the values of an ONNX node, and `split:0`, `split:1` for the tensors of Keras's layer `split`. `inspect`
shows them. Characters that C++ does not allow in a name become underscores.

The namespace `CNAME_io` in `NAME_gen.h` has what an application needs to fill inputs and find outputs: `kInputs` and `kOutputs`
(name, offset and size in bytes, height, width, channels, bytes of an element, layout), `kMean`, `kScale` (an array if `scale` or
`std` has several numbers) and `kChannelOrder` for images, and `ToHalf` and `FromHalf`, which round as the convertor does.

## A part of a network

`outputs = fc7, prob` ends the network at these layers: their results are output 0 and output 1. Layers that these outputs do not
need are left out, even if they could not be converted. A layer with several outputs gives all of them; the name of one of these
outputs, also in `inputs`, gives that one alone. `verify` compares the same outputs. If layers are refused, the note DV163 has the
line that ends the network before them. The convertor has tried it: with this line, the network converts.

`inputs = conv3` begins the network behind this layer: the application computes its result and writes it as the input. Its size must
be known. For the part behind a refused layer, write a second ini file with `inputs`. `verify` compares the same part; for ONNX it
needs the package onnx.

## Python module

`MODULE.cpp` has a class `CNAME` and the functions of the SDK's own modules, which take the number of a network: `create`,
`initialize`, `load_weights`, `commit`, `put_input`, `run_network`, `get_final_output`, `get_output_layer_count`, `get_conv_usec`,
`get_fc_usec`, `get_cpu_usec`, `destroy`. Inputs are float16 arrays as they lie in memory. Compile it with pybind11:

```text
c++ -O2 -shared -fPIC -pthread $(python3 -m pybind11 --includes) MODULE.cpp NAME_gen.cpp RUNTIME -o MODULE$(python3-config --extension-suffix)
```

On the PC, RUNTIME is the [emulated device](internals/host-device.md): `-I cnn_convertor/host/include cnn_convertor/host/src/*.cpp`.

## Keras as JSON

`definition = model.json` and `data = model.weights.h5` read what `model.to_json()` and `model.save_weights()` of Keras 2 or 3 write;
`data` may also be a whole model. JSON never holds weights: only `inspect` works without `data`. `verify` loads both files with Keras, and
runs no code in them.

## Custom layers of Keras

A layer type that only your firmware knows is described in a Python file that `custom_layer` names:

```python
custom_layer = {
    "Upside": (("factor",), lambda config, input_shape: input_shape),
}
```

For each type: the names of the settings (from the layer's `get_config`) that the firmware needs, which are int, bool, float or
lists of one of these, and a function from the settings and the input's shape to the output's, both as (width, height, channels).
For a layer with several inputs, the function gets a list of their shapes: `lambda config, shapes: shapes[0]`. `NAME_gen.h` then
declares what the firmware has to define:

```cpp
struct custom_param_Upside {
  float factor;
  CNAME_io::Map inputs[1];
};
void custom_callback_Upside(fpga_layer &layer, void *custom_param, uint8_t *io_ptr);
```

`inputs` lists the feature maps that the layer reads: the name of the layer that writes each, its offset from `io_ptr` in bytes,
height, width, channels, bytes of an element (2: FP16, 4: FP32) and memory order. `layout` is `HWC`; or `hwc8` with transposed
weights and `whc8` without, in which chunks of 8 channels lie row by row or column by column. A layer that reads fewer maps than
another of its type has zeros at the end of the list. `Read` gives a map as FP32 in the order H, W, C, wherever it lies:

```cpp
void custom_callback_Upside(fpga_layer &layer, void *custom_param, uint8_t *io_ptr) {
  const auto &param = *static_cast<const custom_param_Upside *>(custom_param);
  std::vector<float> values = Read(param.inputs[0], io_ptr);
  for (float &value : values) value *= param.factor;
  put_layer_output(layer, values, io_ptr);
}
```

The function writes FP32 at `io_ptr + layer.output_offs`, maps in the order H, W, C, as `put_layer_output` does. The application and
generated CPU layers read FP32, the device does not (DV421). `run` and `verify` take the definition with `--source FILE.cpp`.
"""


def commands_page() -> str:
    """The page docs/commands.md."""
    return "\n".join([COMMANDS_HEAD, *_everywhere(), *_commands(commands, "cnn-convertor")]) + "\n"


def _everywhere() -> Iterator[str]:
    yield from ("Every command has", "")
    options = {parameter.name: parameter for parameter in commands.commands["convert"].params}
    yield from _table(options[name] for name in EVERYWHERE)
    yield "| `-h, --help` | Show the help of a command. |"
    yield ""
    yield "`cnn-convertor --version` shows the version. Commands that convert or check a network have also"
    yield ""
    yield from _table(options[name] for name in DEVICE)


def _commands(group: Any, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        called = f"{path} {name}"
        if hasattr(command, "commands"):
            yield from _commands(command, called)
            continue
        arguments = [argument.metavar for argument in _of(command, "argument")]
        usage = " ".join([called if called != "cnn-convertor convert" else "cnn-convertor [convert]", *arguments])
        yield from ("", f"## {called.removeprefix('cnn-convertor ')}", "", f"    {usage}", "")
        yield " ".join(command.help.split())
        if options := [option for option in _of(command, "option") if option.name not in (*EVERYWHERE, *DEVICE)]:
            yield ""
            yield from _table(options)
        yield from ("", "```text", *(f"cnn-convertor {example}" for example in _examples(called)), "```")


def _examples(called: str) -> tuple[str, ...]:
    return EXAMPLES[called.removeprefix("cnn-convertor ")]


def _of(command: Any, kind: str) -> list[Any]:
    return [parameter for parameter in command.params if parameter.param_type_name == kind]


def _table(options: Any) -> Iterator[str]:
    """A row for each option: how it is written, what it does, what stands for it."""
    yield from ("| option | meaning |", "|---|---|")
    for option in options:
        spelled = [name for name in option.opts if "_" not in name]  # the others are earlier spellings
        names = ", ".join(f"{name} {option.metavar}" if option.metavar else name for name in spelled)
        default = option.default if option.show_default else None
        notes = [*["required"] * option.required, *([] if default is None else [f"default: {default}"])]
        yield f"| `{names}` | {_cell(option.help)} {f'({notes[0]})' if notes else ''}".rstrip() + " |"


def ini_page() -> str:
    """The page docs/net-ini.md."""
    return "\n".join([INI_HEAD, *_sections()]) + INI_TAIL


def _sections() -> Iterator[str]:
    for section in SECTIONS:
        if section != LAYERS:
            yield from (f"## [{section}]", "", "| key | value | default | meaning |", "|---|---|---|---|")
            yield from (_row(key) for key in KEYS if key.section == section)
            yield ""


def _row(key: Key) -> str:
    default = "required" if key.default is None else f"`{key.default}`" if key.default else "empty"
    return f"| `{key.name}` | {key.kind.expected} | {default} | {_cell(key.meaning)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
