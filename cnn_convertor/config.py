"""Reads net.ini: which network to convert, and what to write."""

from __future__ import annotations

import difflib
import keyword
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

# `--help` imports all of these; without numpy, which takes long.
from cnn_convertor.devices.dv700.device_file import DEFAULT_DEVICE, NAMES, read_profile
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.weights.options import Override, Quantization
from cnn_convertor.errors import Origin, Problem, UsageError, warn
from cnn_convertor.escaping import CPP_KEYWORDS
from cnn_convertor.frontends import FRONTENDS, recognize
from cnn_convertor.frontends.frontend import Frontend, Model, ReadOptions
from cnn_convertor.frontends.unsupported_formats import explain


class Kind(NamedTuple):
    """A kind of value.

    expected: its description in messages. parse: (text, folder of the ini file) -> value; raises ValueError for other
    text, OSError (with a whole sentence) for wrong files and folders, UsageError for models of unsupported formats.
    """

    expected: str
    parse: Callable[[str, Path], object]


LONGEST_NAME = 200  # characters, so that file names derived from it are valid


def _cpp_identifier(text: str, _: Path) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII) or text in CPP_KEYWORDS or len(text) > LONGEST_NAME:
        raise ValueError
    return text


def _network_name(text: str, _: Path) -> str:
    if not re.fullmatch(r"\w+", text, re.ASCII) or len(text) > LONGEST_NAME or text == "DMP_Network":
        raise ValueError  # the class CDMP_Network would be its own base class
    return text


def _module_name(text: str, folder: Path) -> str:
    if keyword.iskeyword(text):
        raise ValueError
    return text and _cpp_identifier(text, folder)


def _flag(text: str, _: Path) -> bool:
    if text not in {"0", "1"}:
        raise ValueError
    return text == "1"


def _quantization(text: str, _: Path) -> Quantization:
    if text.lower() == "auto":
        return Quantization.AUTO
    return Quantization(_flag(text, _))


def _decibels(text: str, _: Path) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _output_decibels(text: str, folder: Path) -> float | None:
    return _decibels(text, folder) if text else None


def _pixels(text: str, _: Path) -> int | None:
    if text == "-1":
        return None
    if not re.fullmatch(r"\d+", text, re.ASCII) or int(text) == 0:
        raise ValueError
    return int(text)


def _origin(text: str, _: Path) -> Frontend | None:
    if not text:
        return None
    found = next((frontend for frontend in FRONTENDS if frontend.name == text.upper()), None)
    if found is None:
        raise ValueError
    return found


def _file(text: str, folder: Path) -> Path | None:
    if not text:
        return None
    path = folder / text
    if path.is_dir():
        raise IsADirectoryError(f'"{path}" is a folder, not a file')
    if not path.is_file():
        raise FileNotFoundError(f'there is no file "{path}"{_near_file(path)}')
    return path


def _model(text: str, folder: Path) -> Path | None:
    if text and (problem := explain(folder / text)):
        raise UsageError(problem)
    return _file(text, folder)


def _folder(text: str, folder: Path) -> Path:
    path = folder / text
    there = next(p for p in (path, *path.parents) if p.exists())
    if not there.is_dir():
        raise NotADirectoryError(f'"{there}" is a file, not a folder')
    return path


def _number(text: str, _: Path) -> float | None:
    if not text:
        return None
    numerator, slash, denominator = text.partition("/")
    divisor = float(denominator) if slash else 1.0
    value = float(numerator) / divisor if divisor else math.nan
    if value == 0 or not math.isfinite(value):
        raise ValueError
    return value


def _numbers(text: str, _: Path) -> tuple[float, ...]:
    values = tuple(float(part) for part in text.replace(",", " ").split())
    if not all(map(math.isfinite, values)):
        raise ValueError
    return values


def _fusion(text: str, _: Path) -> str:
    return Fusion({"conservative": "proven"}.get(text.lower(), text.lower())).value  # conservative: an alias


def _softmax(text: str, _: Path) -> str:
    if text.lower() not in {"cpu", "sdk"}:
        raise ValueError
    return text.lower()


def _input_type(text: str, _: Path) -> str:
    if text.lower() not in {"fp16", "u8"}:
        raise ValueError
    return text.lower()


def _layer_names(text: str, _: Path) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text else ()
    if not all(names) or len(set(names)) < len(names):
        raise ValueError
    return names


def _level(text: str, _: Path) -> int | None:
    return int(text) if text else None


def _channel_order(text: str, _: Path) -> str:
    if text.upper() not in {"", "RGB", "BGR"}:
        raise ValueError
    return text.upper()


NETWORK_NAME = Kind(f"a name of up to {LONGEST_NAME} letters, digits and underscores", _network_name)
MODULE_NAME = Kind("the name of a Python module: an identifier that is not a keyword", _module_name)
FLAG = Kind("0 or 1", _flag)
QUANTIZATION = Kind("0, 1 or auto", _quantization)
DECIBELS = Kind("a number of decibels", _decibels)
OUTPUT_DECIBELS = Kind("a number of decibels", _output_decibels)
PIXELS = Kind("a number of pixels, or -1 for the network's own", _pixels)
_FRAMEWORKS = [frontend.name for frontend in FRONTENDS]
ORIGIN = Kind(f"{', '.join(_FRAMEWORKS[:-1])} or {_FRAMEWORKS[-1]}", _origin)
FILE = Kind("a file", _file)
MODEL = Kind("a file", _model)
FOLDER = Kind("a folder", _folder)
NUMBER = Kind("a number other than 0, or a fraction such as 1/127.5", _number)
NUMBERS = Kind("a number, or one for each channel, separated by commas", _numbers)
CHANNEL_ORDER = Kind("RGB or BGR", _channel_order)
INPUT_TYPE = Kind("fp16 or u8", _input_type)
FUSION = Kind("proven, documented, full or none", _fusion)
DEVICE = Kind(f"{', '.join(NAMES)}, or a .toml or .json file", read_profile)
SOFTMAX = Kind("cpu or sdk", _softmax)
STAGES = Kind("names of stages, each once, separated by commas", _layer_names)
LEVEL = Kind("a whole number", _level)
LAYER_NAMES = Kind("names of layers, each once, separated by commas", _layer_names)
TEXT = Kind("a text", lambda text, _: text)


class Key(NamedTuple):
    """One key of the ini file, named as its field in Config. default: its text if missing; None if it is required."""

    section: str
    name: str
    kind: Kind
    default: str | None
    meaning: str


# Keys that only some frameworks use -> the field of ReadOptions.
_OPTIONS = {"stage": "stages", "level": "level"}
_CHANNEL_ORDERS = ", ".join(f"{frontend.channel_order} for {frontend.title}" for frontend in FRONTENDS)

KEYS = (
    Key("INPUT", "name", NETWORK_NAME, None, "names the class (`C` + name), the files and the folder they go to"),
    Key("INPUT", "definition", MODEL, None, "Caffe: .prototxt; Keras: .h5, .hdf5 or .keras"),
    Key(
        "INPUT",
        "data",
        MODEL,
        "",
        "the weights: Caffe: .caffemodel; Keras: a model or weights file; empty: the definition",
    ),
    Key("INPUT", "origin", ORIGIN, "", "the framework, in any case; empty: guessed from the files"),
    Key(
        "INPUT",
        "custom_layer",
        FILE,
        "",
        "a Python file that defines custom layer types; it is run, unless `--no-custom-code` forbids it",
    ),
    Key("INPUT", "width_override", PIXELS, "-1", "input width to convert for, together with height_override"),
    Key("INPUT", "height_override", PIXELS, "-1", "input height to convert for, together with width_override"),
    Key(
        "INPUT",
        "mean",
        NUMBERS,
        "",
        "subtracted from pixels by `run`, `verify` and `--calibrate`",
    ),
    Key("INPUT", "scale", NUMBER, "", "multiplies pixels after that"),
    Key("INPUT", "channel_order", CHANNEL_ORDER, "", f"of images; empty: {_CHANNEL_ORDERS}"),
    Key("INPUT", "stage", STAGES, "", "Caffe: stages that choose layers with `include { stage: ... }`"),
    Key("INPUT", "level", LEVEL, "", "Caffe: the level that chooses layers with `include { min_level: ... }`"),
    Key("OUTPUT", "output_folder", FOLDER, None, "outputs go to `output_folder/name/`"),
    Key(
        "OUTPUT",
        "outputs",
        LAYER_NAMES,
        "",
        "layers where the network ends; its outputs have this order; empty: the model's own",
    ),
    Key(
        "OUTPUT",
        "input",
        INPUT_TYPE,
        "fp16",
        "u8: the application writes pixels as bytes, and the device subtracts the mean and scales; fp16: the application does",
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
        "auto: palettes that save many bytes while every output keeps this SQNR in dB, in place of the threshold",
    ),
    Key("OUTPUT", "transpose_weight", FLAG, "1", "1: feature maps stay HWC, 0: the application transposes its input"),
    Key("OUTPUT", "report", FLAG, "0", "write `name.html` and `name_report.json`: see docs/report.md"),
    Key("OUTPUT", "selftest", FLAG, "0", "write `name_selftest.cpp`, which tests the network on a board or PC"),
    Key("OUTPUT", "python_module", MODULE_NAME, "", "write the C++ source of a Python module of that name"),
    Key("OPTIONAL", "device", DEVICE, DEFAULT_DEVICE, "the board: see docs/devices.md; `--device` wins"),
    Key(
        "OPTIONAL",
        "fusion",
        FUSION,
        Fusion.DOCUMENTED.value,
        "how much one command may do: see docs/fusion.md",
    ),
    Key(
        "OPTIONAL",
        "softmax",
        SOFTMAX,
        "cpu",
        "cpu: a generated function in FP32; sdk: the SDK's LT_SOFTMAX, which adds in FP16 and overwrites its input",
    ),
    Key("OPTIONAL", "verbose", FLAG, "0", "print more, as -v does"),
    Key("OPTIONAL", "graphviz_path", TEXT, "", "folder of Graphviz's `dot`"),
)
LAYERS = "QUANTIZATION"  # the section whose keys are the names of layers
SECTIONS = (*dict.fromkeys(key.section for key in KEYS), LAYERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What to convert and how: a field for each of KEYS, then what the command line adds."""

    name: str
    definition: Path
    data: Path
    origin: Frontend
    custom_layer: Path | None
    width_override: int | None
    height_override: int | None
    mean: tuple[float, ...] = ()
    scale: float | None = None
    channel_order: str = ""
    stage: tuple[str, ...] = ()
    level: int | None = None
    output_folder: Path
    outputs: tuple[str, ...] = ()
    input: str = "fp16"
    generate_source: bool
    generate_doxy: bool
    generate_dot: bool
    quantization: Quantization | bool
    transpose_weight: bool
    quantization_threshold: float = 40.0  # dB
    quantization_output_sqnr: float | None = None  # dB
    report: bool = False
    selftest: bool = False
    python_module: str
    device: Profile = field(default_factory=lambda: read_profile(DEFAULT_DEVICE, Path()))
    fusion: str = Fusion.DOCUMENTED.value
    softmax: str = "cpu"
    verbose: bool
    graphviz_path: str
    max_kernel_size: int | None = None  # in place of the device's, as the next
    ub_size: int | None = None  # bytes
    overrides: tuple[Override, ...] = ()
    calibrate: Path | None = None  # sample inputs, to which palettes are fitted
    no_custom_code: bool = False  # refuse custom_layer

    def __post_init__(self) -> None:
        """Raises UsageError for sizes that the device cannot have, and for code that may not run.

        quantization: False means FP16, True palettes.
        """
        object.__setattr__(self, "quantization", Quantization(self.quantization))
        assert self.profile
        if self.no_custom_code and self.custom_layer is not None:
            problem = "[INPUT] custom_layer names Python code, which --no-custom-code forbids to run"
            hint = "read the file, and leave out --no-custom-code if you trust it"
            raise UsageError.of("DV118", problem, Origin(str(self.custom_layer)), hint)

    @property
    def model(self) -> Model:
        """The network's files, and how to read them."""
        height, width = self.height_override, self.width_override
        size = None if height is None or width is None else (height, width)
        options = ReadOptions(size, self.custom_layer, self.stage, self.level)
        return Model(self.origin, self.definition, self.data, options, self.outputs)

    @property
    def profile(self) -> Profile:
        """The device, with the sizes of the command line."""
        return self.device.overridden(max_kernel_size=self.max_kernel_size, ub_size=self.ub_size)

    @property
    def output_sqnr(self) -> float | None:
        """The SQNR in dB that every output is to keep, where the outputs decide how weights are stored."""
        return self.quantization_output_sqnr if self.quantization is Quantization.AUTO else None

    @property
    def in_fp16(self) -> Config:
        """The same, with FP16 weights everywhere."""
        return replace(self, quantization=Quantization.FP16, overrides=(), calibrate=None)

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> Config:
        """Read an ini file. options: fields that win over the ini file's, by name; None leaves one as it is.

        Raises UsageError with everything that is wrong in the file; warns of unknown sections and keys.
        """
        path = Path(path)
        reading = _Reading(path, _text(path))
        values = reading.values()
        warn(*(Problem("DV112", message, Origin(str(path), line=line)) for message, line in reading.unknown))
        if reading.problems:
            raise UsageError(reading.problems)
        return cls(**values | _given(options))

    @classmethod
    def of(cls, path: str | Path, **options: Any) -> Config:
        """The configuration in an ini file, or the one with all defaults for a model file, which is named after it."""
        path = Path(path)
        if not is_model(path) or not path.is_file() or explain(path):
            return cls.read(path, **options)
        return cls.of_model(path, name=name_of(path), **options)

    @classmethod
    def of_model(cls, path: Path, **options: Any) -> Config:
        """The configuration with all defaults. path: a file for which `is_model` is true. options: as `read` takes them."""
        values: dict[str, Any] = {
            key.name: key.kind.parse(key.default, path.parent) for key in KEYS if key.default is not None
        }
        values |= {"name": "network", "definition": path, "data": path, "output_folder": path.parent}
        values["origin"] = recognize(path)
        return cls(**values | _given(options))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given. A device is a profile, its name, or the path of its file."""
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(device := given.get("device"), str):
        given["device"] = read_profile(device, Path())
    return given


def name_of(model: Path) -> str:
    """A network's name from a model's file name: letters, digits and underscores."""
    name = re.sub(r"\W+", "_", model.name.split(".")[0], flags=re.ASCII).strip("_")[:LONGEST_NAME]
    return name if name and name != "DMP_Network" else "network"


def is_model(path: Path) -> bool:
    """Whether the file is a model by its name or content, rather than an ini file."""
    return path.suffix.lower() != ".ini" and recognize(path) is not None


LARGEST = 1_000_000  # bytes of an ini file
_COMMENT = r"\s*(?:[#;].*)?"
_BLANK = re.compile(_COMMENT)
_SECTION = re.compile(r"\s*\[\s*([^\]]*?)\s*\]" + _COMMENT)
_OPEN_SECTION = re.compile(r"\s*\[\s*(\w+)" + _COMMENT)
_SETTING = re.compile(r'\s*([^=\[\]#;"]+?)\s*=\s*(?:"([^"]*)"|([^"#;]*?))' + _COMMENT)


class _Setting(NamedTuple):
    text: str
    line: int


def _text(path: Path) -> str:
    """The file's text, with lines that end in \\n."""
    if problem := explain(path):
        raise UsageError(problem)
    if is_model(path) and path.exists():
        hint = f"write a net.ini with definition = {path.name} in its section [INPUT], and give that"
        raise UsageError.of("DV101", "this is a model, not an ini file", Origin(str(path)), hint)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        reason = f'cannot read "{_short(str(path))}": {error.strerror}'
        if isinstance(error, FileNotFoundError):
            reason = f'there is no file "{_short(str(path))}"{_near_file(path)}'
        raise UsageError(Problem("DV101", reason, hint="give the path of a net.ini")) from None
    if len(data) > LARGEST:
        reason = f"this is not an ini file: it has more than {LARGEST:,} bytes"
        raise UsageError.of("DV101", reason, Origin(str(path)), "give the path of a net.ini")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = Origin(str(path), line=data.count(b"\n", 0, error.start) + 1)
        problem = Problem("DV101", "this is not text in UTF-8", where, "give a net.ini, saved as UTF-8")
        raise UsageError(problem) from None
    if "\0" in text:
        where = Origin(str(path), line=text.count("\n", 0, text.index("\0")) + 1)
        raise UsageError.of("DV101", "this is not text: it holds a zero byte", where, "give a net.ini")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class _Reading:
    """One ini file: its settings, and everything that is wrong with it."""

    def __init__(self, path: Path, text: str) -> None:
        self.problems: list[Problem] = []
        self.unknown: list[tuple[str, int]] = []  # message and line of each unknown section or key
        self._path = path
        self._is_ini = True
        self._sections: dict[str, int] = {}  # name -> line
        self._settings: dict[tuple[str, str], _Setting] = {}  # (section, key) -> setting
        self._scan(text)
        self._look_for_unknown()

    def values(self) -> dict[str, Any]:
        """Field of Config -> value; incomplete if there are problems."""
        if not self._is_ini:
            return {}
        values: dict[str, Any] = {key.name: value for key in KEYS for value in self._parsed(key)}
        if values.get("definition") and "data" in values and "origin" in values:
            values["data"] = values["data"] or values["definition"]
            values["origin"] = values["origin"] or self._guessed_origin(values["definition"], values["data"])
            self._check_data(values)
            self._warn_of_options(values)
        self._warn_of_precisions(values)
        taken = {f"{values.get('name')}_gen", f"{values.get('name')}_selftest"}
        if values.get("python_module") in taken:
            line = self._settings["OUTPUT", "python_module"].line
            self._wrong("DV106", "[OUTPUT] python_module: its source would replace the network's own file", line)
        overrides = [name for name in ("width_override", "height_override") if values.get(name)]
        if len(overrides) == 1:
            problem = f"[INPUT] {overrides[0]}: width_override and height_override must be given together"
            self._wrong("DV104", problem, self._settings["INPUT", overrides[0]].line)
        values["overrides"] = tuple(self._overrides())
        return values

    def _overrides(self) -> Iterator[Override]:
        """The settings of single layers."""
        for (section, name), setting in self._settings.items():
            if section == LAYERS:
                is_palette = {"fp16": False, "palette": True}.get(setting.text.lower())
                if is_palette is None:
                    found = f'not "{setting.text}"' if setting.text else "found nothing"
                    self._wrong("DV106", f"[{section}] {name}: expected fp16 or palette, {found}", setting.line)
                else:
                    yield Override(name, is_palette, Origin(str(self._path), line=setting.line))

    def _parsed(self, key: Key) -> Iterator[object]:
        """The key's value, if it has one."""
        shown = f"[{key.section}] {key.name}"
        setting = self._settings.get((key.section, key.name))
        if setting is None and key.default is None:
            hint = f"add a line {key.name} = ... ({key.meaning})"
            self._wrong("DV105", f"{shown} is missing: expected {key.kind.expected}", hint=hint)
            return
        text, line = setting or (key.default or "", None)
        try:
            if not text and key.default is None:
                raise ValueError
            yield key.kind.parse(text, self._path.parent)
        except ValueError:
            found = f'not "{text}"' if text else "found nothing"
            self._wrong("DV106", f"{shown}: expected {key.kind.expected}, {found}", line)
        except UsageError as error:
            self.problems += error.problems
        except OSError as error:
            reason = str(error)
            if error.errno is not None:  # a message of the system, not a whole sentence
                reason = f'"{_short(text)}" cannot be used, the system says: {error.strerror}'
            hint = "paths are relative to the folder of the ini file" if isinstance(error, FileNotFoundError) else ""
            self._wrong("DV107", f"{shown}: {reason}", line, hint)

    def _check_data(self, values: Mapping[str, Any]) -> None:
        frontend, setting = values["origin"], self._settings.get(("INPUT", "data"))
        if setting and frontend and frontend.finds_weights and values["data"] != values["definition"]:
            problem = f"[INPUT] data: expected nothing, since an {frontend.title} model names the files of its weights"
            self._wrong("DV106", problem, setting.line, "remove the line")

    def _warn_of_options(self, values: Mapping[str, Any]) -> None:
        """Warn of keys that the network's framework does not use."""
        for name, option in _OPTIONS.items():
            frontend = values["origin"]
            if frontend is not None and values.get(name) not in (None, ()) and option not in frontend.options:
                users = " or ".join(other.title for other in FRONTENDS if option in other.options)
                self.unknown.append(
                    (f"[INPUT] {name} is for {users} and is ignored", self._settings["INPUT", name].line)
                )

    def _warn_of_precisions(self, values: Mapping[str, Any]) -> None:
        """Warn of a precision that does not decide how the weights are stored."""
        if values.get("quantization_output_sqnr") is None:
            return
        ignored, why = "quantization_threshold", "as quantization_output_sqnr decides"
        if values.get("quantization") is not Quantization.AUTO:
            ignored, why = "quantization_output_sqnr", "as it is for quantization = auto"
        if setting := self._settings.get(("OUTPUT", ignored)):
            self.unknown.append((f"[OUTPUT] {ignored} is ignored, {why}", setting.line))

    def _guessed_origin(self, definition: Path, data: Path) -> Frontend | None:
        found = recognize(definition, data)
        if found is None:
            problem = f'[INPUT] definition: neither the name nor the content of "{definition}" shows its framework'
            choices = " or ".join(f"origin = {frontend.name}" for frontend in FRONTENDS)
            hint = f"{choices}; export other frameworks' models to one of them"
            self._wrong("DV108", problem, self._settings["INPUT", "definition"].line, hint)
        return found

    def _scan(self, text: str) -> None:
        """Fill sections and settings, line by line."""
        section: str | None = None
        for line, content in enumerate(text.split("\n"), start=1):
            if _BLANK.fullmatch(content):
                continue
            if match := _SECTION.fullmatch(content):
                section = match[1].upper()
                first = self._sections.setdefault(section, line)
                if first != line:
                    self._wrong("DV103", f"[{section}] begins twice, here and in line {first}", line)
            elif match := _OPEN_SECTION.fullmatch(content):
                section = match[1].upper()  # so that the next lines have a section
                self._sections.setdefault(section, line)
                problem = f"the name of the section does not end with a bracket: {content.strip()}"
                self._wrong("DV102", problem, line, f"[{section}]")
            elif section is None:
                self._wrong("DV102", "expected a section before anything else", line, "begin with a line [INPUT]")
                self._is_ini = False
                return  # further messages would not help
            elif match := _SETTING.fullmatch(content):
                name = match[1] if section == LAYERS else match[1].lower()
                setting = _Setting(match[3] if match[2] is None else match[2], line)
                first = self._settings.setdefault((section, name), setting).line
                if first != line:
                    self._wrong("DV103", f"[{section}] {name} is set twice, here and in line {first}", line)
            else:
                problem = f"expected [SECTION], key = value or a comment, found: {content.strip()}"
                hint = (
                    "a value that begins with a double quote ends with one and has none inside"
                    if '"' in content
                    else ""
                )
                self._wrong("DV102", problem, line, hint)

    def _look_for_unknown(self) -> None:
        """Collect sections and keys that do not exist."""
        for section, line in self._sections.items():
            if section not in SECTIONS:
                self.unknown.append((f"there is no section [{section}]{_did_you_mean(section, SECTIONS)}", line))
        for (section, name), setting in self._settings.items():
            here = [key.name for key in KEYS if key.section == section]
            if section not in SECTIONS or section == LAYERS or name in here:
                continue
            home = [f"; it belongs to [{key.section}]" for key in KEYS if key.name == name]
            nearest = home[0] if home else _did_you_mean(name, here) or _did_you_mean(name, [key.name for key in KEYS])
            self.unknown.append((f'[{section}] has no key "{name}"{nearest}', setting.line))

    def _wrong(self, code: str, message: str, line: int | None = None, hint: str = "") -> None:
        self.problems.append(Problem(code, message, Origin(str(self._path), line=line), hint))


def _near_file(path: Path) -> str:
    """What the user may have meant by a missing file."""
    if not path.parent.is_dir():
        return f', since there is no folder "{path.parent}"'
    return _did_you_mean(path.name, sorted(p.name for p in islice(path.parent.iterdir(), 1000) if p.is_file()))


def _short(text: str) -> str:
    """A long path, abbreviated."""
    return text if len(text) <= 100 else f"{text[:50]}...{text[-40:]}"


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    spelled = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), spelled, n=1, cutoff=0.6)
    return f'; did you mean "{spelled[close[0]]}"?' if close else ""
