"""The keys of the ini file."""

from __future__ import annotations

from typing import NamedTuple

from cnn_convertor.config.kinds import (
    CHANNEL_ORDER,
    DECIBELS,
    DEVICE,
    FACTORS,
    FILE,
    FLAG,
    FOLDER,
    FUSION,
    INPUT_TYPE,
    LAYER_NAMES,
    LEVEL,
    LOADABLE,
    MODEL,
    MODULE_NAME,
    NETWORK_NAME,
    NUMBERS,
    ORIGIN,
    OUTPUT_DECIBELS,
    PIXELS,
    QUANTIZATION,
    RUNTIME,
    SOFTMAX,
    STAGES,
    TEXT,
    THREADS,
    Kind,
)
from cnn_convertor.devices.registry import DEFAULT_DEVICE
from cnn_convertor.devices.settings import Fusion, Runtime
from cnn_convertor.frontends import FRONTENDS


class Key(NamedTuple):
    """One key of the ini file, named as its field in Config. default: its text if missing; None if it is required."""

    section: str
    name: str
    kind: Kind
    default: str | None
    meaning: str


# Keys that only some frameworks use -> the field of ReadOptions.
OPTIONS = {"stage": "stages", "level": "level"}
_CHANNEL_ORDERS = ", ".join(f"{frontend.channel_order} for {frontend.title}" for frontend in FRONTENDS)

KEYS = (
    Key("INPUT", "name", NETWORK_NAME, None, "the name of the class (`C` + name), of the files and of their folder"),
    Key(
        "INPUT",
        "definition",
        MODEL,
        None,
        "Caffe: .prototxt; Keras: .h5, .hdf5, .keras, or the .json of `model.to_json()` with `data`; ONNX: .onnx",
    ),
    Key(
        "INPUT",
        "data",
        MODEL,
        "",
        "the file of the weights; Caffe: .caffemodel; Keras: a model or weights file; empty: the definition",
    ),
    Key("INPUT", "origin", ORIGIN, "", "the framework, in upper or lower case; empty: recognized from the files"),
    Key(
        "INPUT",
        "custom_layer",
        FILE,
        "",
        "a Python file that defines custom layer types; it is run, unless `--no-custom-code` forbids it",
    ),
    Key(
        "INPUT",
        "inputs",
        LAYER_NAMES,
        "",
        "layers whose results the application computes: the network begins behind them; empty: the model's inputs",
    ),
    Key("INPUT", "width_override", PIXELS, "-1", "input width, in place of the model's; needs height_override"),
    Key("INPUT", "height_override", PIXELS, "-1", "input height, in place of the model's; needs width_override"),
    Key("INPUT", "mean", NUMBERS, "", "subtracted from pixels by `run`, `verify` and `--calibrate`"),
    Key("INPUT", "scale", FACTORS, "", "multiplies pixels after the mean is subtracted"),
    Key("INPUT", "std", FACTORS, "", "divides pixels after the mean is subtracted, in place of scale"),
    Key(
        "INPUT",
        "channel_order",
        CHANNEL_ORDER,
        "",
        f"the order of an image's channels in the input; empty: {_CHANNEL_ORDERS}",
    ),
    Key("INPUT", "stage", STAGES, "", "Caffe: stages that choose layers with `include { stage: ... }`"),
    Key("INPUT", "level", LEVEL, "", "Caffe: the level that chooses layers with `include { min_level: ... }`"),
    Key("OUTPUT", "output_folder", FOLDER, None, "outputs go to `output_folder/name/`"),
    Key(
        "OUTPUT",
        "outputs",
        LAYER_NAMES,
        "",
        "layers whose results are the outputs, in this order; empty: the model's outputs",
    ),
    Key(
        "OUTPUT",
        "input",
        INPUT_TYPE,
        "fp16",
        "fp16: the application writes FP16 numbers; u8: it writes pixels as bytes, and the device applies mean and scale; "
        "u8_rgb, u8_bgr: as u8, with the bytes in that channel order",
    ),
    Key("OUTPUT", "generate_source", FLAG, "0", "write `name_gen.h` and `name_gen.cpp`"),
    Key("OUTPUT", "generate_doxy", FLAG, "0", "write `doc/`, for Doxygen: Doxyfile, pages.dox"),
    Key("OUTPUT", "generate_dot", FLAG, "0", "write `name.dot`, the graph of the converted network"),
    Key(
        "OUTPUT",
        "quantization",
        QUANTIZATION,
        "1",
        "1: 8-bit palette weights, 0: FP16 weights, auto: the better one for each layer",
    ),
    Key(
        "OUTPUT",
        "quantization_threshold",
        DECIBELS,
        "40",
        "auto: palettes where the weights keep at least this SQNR in dB",
    ),
    Key(
        "OUTPUT",
        "quantization_output_sqnr",
        OUTPUT_DECIBELS,
        "",
        "auto: the fewest bytes found with which every output keeps this SQNR in dB; replaces the threshold",
    ),
    Key("OUTPUT", "transpose_weight", FLAG, "1", "1: feature maps stay HWC, 0: the application transposes its input"),
    Key(
        "OUTPUT",
        "cpu_threads",
        THREADS,
        "auto",
        "threads that share the work of each layer on the CPU; auto: as many as the board has cores; firmware without an operating system needs 1: see docs/layers.md#threads",
    ),
    Key(
        "OUTPUT",
        "runtime",
        RUNTIME,
        Runtime.SDK.value,
        "sdk: the SDK's library runs the network; generated: generated code does, with the driver alone: see docs/runtime.md",
    ),
    Key("OUTPUT", "report", FLAG, "0", "write `name.html` and `name_report.json`: see docs/report.md"),
    Key("OUTPUT", "selftest", FLAG, "0", "write `name_selftest.cpp`, which tests the network on a board or PC"),
    Key("OUTPUT", "python_module", MODULE_NAME, "", "write the C++ source of a Python module of that name"),
    Key(
        "OUTPUT",
        "loadable",
        LOADABLE,
        "0.12",
        "write a compiled network for the public runtime of NVDLA, with this version of its interface: see docs/nvdla.md; none: do not",
    ),
    Key("OPTIONAL", "device", DEVICE, DEFAULT_DEVICE, "the board: see docs/devices.md; `--device` wins"),
    Key("OPTIONAL", "fusion", FUSION, Fusion.DOCUMENTED.value, "which forms of commands to use: see docs/fusion.md"),
    Key(
        "OPTIONAL",
        "softmax",
        SOFTMAX,
        "cpu",
        "cpu: a generated function in FP32; sdk: the SDK's LT_SOFTMAX, which adds in FP16 and overwrites its input",
    ),
    Key("OPTIONAL", "verbose", FLAG, "0", "print more, like -v"),
    Key("OPTIONAL", "graphviz_path", TEXT, "", "folder of Graphviz's `dot`"),
)
LAYERS = "QUANTIZATION"  # the section whose keys are the names of layers
SECTIONS = (*dict.fromkeys(key.section for key in KEYS), LAYERS)
