"""A configuration: which network to convert, and what to write."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

# `--help` imports all of these; without numpy, which takes long.
from cnn_convertor.config.ini_file import IniFile, is_model
from cnn_convertor.config.keys import KEYS
from cnn_convertor.config.kinds import LONGEST_NAME
from cnn_convertor.config.python_values import field_value
from cnn_convertor.devices.settings import DeviceSettings, Fusion, Override, Quantization, Runtime
from cnn_convertor.errors import Origin, Problem, UsageError, did_you_mean, warn
from cnn_convertor.frontends import recognize
from cnn_convertor.frontends.frontend import Frontend, Model, ReadOptions
from cnn_convertor.frontends.unsupported_formats import explain

if TYPE_CHECKING:
    from cnn_convertor.devices.target import Hardware

# The values of keys that are not in the ini file.
_DEFAULTS: Final[Mapping[str, Any]] = {
    key.name: key.kind.parse(key.default, Path()) for key in KEYS if key.default is not None
}
_FROM_DEFINITION: Final[Any] = None  # the definition gives the value


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What to convert and how: a field for each of KEYS, then what the command line adds."""

    definition: Path
    name: str = _FROM_DEFINITION
    data: Path = _FROM_DEFINITION
    origin: Frontend = _FROM_DEFINITION
    custom_layer: Path | None = _DEFAULTS["custom_layer"]
    inputs: tuple[str, ...] = _DEFAULTS["inputs"]
    width_override: int | None = _DEFAULTS["width_override"]
    height_override: int | None = _DEFAULTS["height_override"]
    mean: tuple[float, ...] = _DEFAULTS["mean"]
    scale: float | tuple[float, ...] | None = _DEFAULTS["scale"]
    std: float | tuple[float, ...] | None = _DEFAULTS["std"]
    channel_order: str = _DEFAULTS["channel_order"]
    stage: tuple[str, ...] = _DEFAULTS["stage"]
    level: int | None = _DEFAULTS["level"]
    output_folder: Path = _FROM_DEFINITION
    outputs: tuple[str, ...] = _DEFAULTS["outputs"]
    input: str = _DEFAULTS["input"]
    generate_source: bool = _DEFAULTS["generate_source"]
    generate_doxy: bool = _DEFAULTS["generate_doxy"]
    generate_dot: bool = _DEFAULTS["generate_dot"]
    quantization: Quantization | bool = _DEFAULTS["quantization"]
    transpose_weight: bool = _DEFAULTS["transpose_weight"]
    quantization_threshold: float = _DEFAULTS["quantization_threshold"]  # dB
    quantization_output_sqnr: float | None = _DEFAULTS["quantization_output_sqnr"]  # dB
    cpu_threads: int = _DEFAULTS["cpu_threads"]  # Threads.AUTO: as many as there are cores
    runtime: str = _DEFAULTS["runtime"]
    report: bool = _DEFAULTS["report"]
    selftest: bool = _DEFAULTS["selftest"]
    python_module: str = _DEFAULTS["python_module"]
    loadable: str = _DEFAULTS["loadable"]
    device: Hardware = _DEFAULTS["device"]
    fusion: str = _DEFAULTS["fusion"]
    softmax: str = _DEFAULTS["softmax"]
    verbose: bool = _DEFAULTS["verbose"]
    graphviz_path: str = _DEFAULTS["graphviz_path"]
    max_kernel_size: int | None = None  # in place of the device's, as the next
    ub_size: int | None = None  # bytes
    overrides: tuple[Override, ...] = ()
    calibrate: Path | None = None  # sample inputs, to which palettes are fitted
    no_custom_code: bool = False  # refuse custom_layer
    lines: Mapping[str, Origin] = field(default_factory=dict, compare=False)  # of the keys in the ini file

    def __post_init__(self) -> None:
        """Fill in what the definition gives: the name, the folder of the outputs, the framework, the file of the weights.

        Every field may have the text of the ini file. Raises UsageError for values that a field cannot have, for a definition of
        no known framework, for sizes that the device cannot have, for a width without a height, for code that may not run,
        and for scale and std together.
        """
        path = Path(self.definition)
        where = Origin(str(path))
        values = {key.name: field_value(key, getattr(self, key.name), where) for key in KEYS}
        missing: dict[str, Callable[[], object]] = {
            "name": lambda: name_of(path),
            "data": lambda: path,
            "origin": lambda: _framework_of(path),
            "output_folder": lambda: path.parent,
        }
        values |= {name: value() for name, value in missing.items() if not values[name]}
        values["calibrate"] = None if self.calibrate is None else Path(self.calibrate)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        assert self.hardware
        if contradictions := tuple(self._contradictions(where)):
            raise UsageError(contradictions)

    def _contradictions(self, where: Origin) -> Iterator[Problem]:
        """Fields that do not go together. where: the definition."""
        overrides = [name for name in ("width_override", "height_override") if getattr(self, name) is not None]
        if len(overrides) == 1:
            problem = f"[INPUT] {overrides[0]}: width_override and height_override must be given together"
            yield Problem("DV104", problem, self.lines.get(overrides[0], where), "add the other")
        if self.scale is not None and self.std is not None:
            problem = "[INPUT] std and scale are both set, and std = 1 / scale"
            yield Problem("DV129", problem, self.lines.get("std", where), "keep one of them")
        if self.runtime == Runtime.GENERATED.value and self.softmax == "sdk":
            problem = "[OPTIONAL] softmax = sdk is a layer of the SDK's library, which runtime = generated does without"
            hint = "set softmax = cpu, or runtime = sdk in [OUTPUT]"
            yield Problem("DV875", problem, self.lines.get("softmax", where), hint)
        if self.no_custom_code and self.custom_layer is not None:
            problem = "[INPUT] custom_layer names Python code, which --no-custom-code forbids to run"
            hint = "read the file, and leave out --no-custom-code if you trust it"
            yield Problem("DV118", problem, Origin(str(self.custom_layer)), hint)

    @property
    def model(self) -> Model:
        """The network's files, and how to read them."""
        height, width = self.height_override, self.width_override
        size = None if height is None or width is None else (height, width)
        options = ReadOptions(size, self.custom_layer, self.stage, self.level)
        return Model(self.origin, self.definition, self.data, options, self.inputs, self.outputs, self.lines)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it names, and its ini file."""
        inis = {Path(line.file) for line in self.lines.values()}
        named = (self.definition, self.data, self.custom_layer, self.calibrate)
        return (*inis, *(path for path in named if path is not None))

    @property
    def folder(self) -> Path:
        """For the network's own outputs."""
        return self.output_folder / self.name

    @property
    def settings(self) -> DeviceSettings:
        """How the network is to run on the device."""
        return DeviceSettings(
            Fusion(self.fusion),
            self.transpose_weight,
            self.softmax,
            Quantization(self.quantization),
            self.overrides,
            int(self.cpu_threads),
            Runtime(self.runtime),
        )

    @property
    def hardware(self) -> Hardware:
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
        reading = IniFile.read(path)
        values = reading.values()
        warn(*(Problem("DV112", message, Origin(str(path), line=line)) for message, line in reading.unknown))
        if reading.problems:
            raise UsageError(reading.problems)
        return cls(**values | checked_options(options, _FIELDS))

    @classmethod
    def of(cls, path: str | Path, **options: Any) -> Config:
        """The configuration in an ini file; or for a model file, which gives its name, that with all defaults and with sources."""
        path = Path(path)
        if not is_model(path) or not path.is_file() or explain(path):
            return cls.read(path, **options)
        return cls(definition=path, **{"generate_source": True, **checked_options(options, _FIELDS)})


_FIELDS: Final = frozenset(field.name for field in fields(Config))


def checked_options(options: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The options that have a value. Raises TypeError for one that does not exist."""
    for name in options:
        if name not in names:
            raise TypeError(
                f'there is no option "{name}"{did_you_mean(name, names)}; the options are the fields of Config'
            )
    return {name: value for name, value in options.items() if value is not None}


def name_of(model: Path) -> str:
    """A network's name from a model's file name: letters, digits and underscores."""
    name = re.sub(r"\W+", "_", model.name.split(".")[0], flags=re.ASCII).strip("_")[:LONGEST_NAME]
    return name if name and name != "DMP_Network" else "network"


def _framework_of(definition: Path) -> Frontend:
    if framework := recognize(definition):
        return framework
    raise UsageError.of("DV108", "neither the name nor the content shows the framework", Origin(str(definition)))
