"""The configuration of a network in any form: a path, a configuration, or a model in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from cnn_convertor.config.config import Config, checked_options, name_of
from cnn_convertor.errors import ConvertorError, Origin, Problem, UsageError
from cnn_convertor.files.dependencies import inputs_kept
from cnn_convertor.files.temporary import temporary_folder


@runtime_checkable
class KerasModel(Protocol):
    """A model of Keras 3 or tf_keras, as far as its file is concerned."""

    name: str

    def save(self, filepath: str) -> None: ...

    def get_config(self) -> Mapping[str, Any]: ...


@runtime_checkable
class OnnxProto(Protocol):
    """A ModelProto of the onnx package."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802  # the name that protobuf gives it


Network: TypeAlias = Config | str | os.PathLike[str] | bytes | KerasModel | OnnxProto

ACCEPTED: Final = (
    "the path of an ini file or of a model, a Config, a Keras model, an ONNX ModelProto, or the bytes of an ONNX model"
)
_OPTIONS: Final = frozenset(field.name for field in fields(Config)) - {"definition", "data", "origin", "lines"}
_KEPT: Final = ExitStack()  # the folders of models whose weights are read later; they go with this process
_FOREIGN: Final = {"torch": "an ONNX file: torch.onnx.export(model, sample, 'model.onnx')"}  # package -> what to give


@contextmanager
def configured(network: Network, options: Mapping[str, Any] = {}) -> Iterator[Config]:
    """The configuration of a network for a block, whose outputs replace none of its inputs.

    options: fields of Config that win over the ini file's. The files of a model in memory exist as long as the block; its outputs
    go into the current folder unless output_folder is given. Raises TypeError for anything but a network and for unknown options,
    UsageError for wrong values.
    """
    with inputs_kept(), _files_kept(network, options) as config:
        yield config


@contextmanager
def _files_kept(network: Network, options: Mapping[str, Any]) -> Iterator[Config]:
    """The configuration of a network. The files of a model in memory exist as long as the block."""
    present = checked_options(options, _OPTIONS)
    with ExitStack() as stack:
        if not isinstance(samples := present.get("calibrate", ""), str | os.PathLike):
            present["calibrate"] = _stored(samples, stack.enter_context(temporary_folder()) / "samples.npz")
        match network:
            case Config():
                yield replace(network, **present)
            case str() | os.PathLike():
                yield Config.of(os.fspath(network), **present)
            case _:
                write, suffix, name = _written(network)
                present = {"name": name, "output_folder": Path(), "generate_source": True, **present}
                folder = stack.enter_context(temporary_folder())
                definition = folder / f"{present['name']}{suffix}"
                with _told_without(folder):
                    write(definition)
                    yield Config(definition=definition, **present)


@contextmanager
def _told_without(folder: Path) -> Iterator[None]:
    """In errors, a model in memory has the name of its file, without a folder that the user does not know."""
    try:
        yield
    except ConvertorError as error:
        raise type(error)([_within(problem, folder) for problem in error.problems], error.notes) from error


def _within(problem: Problem, folder: Path) -> Problem:
    where = problem.where
    if where is None or folder not in Path(where.file).parents:
        return problem
    return replace(problem, where=replace(where, file=Path(where.file).name))


def kept(network: Network, options: Mapping[str, Any]) -> Config:
    """The configuration of a network. The files of a model in memory exist as long as this process."""
    return _KEPT.enter_context(_files_kept(network, options))


def _written(network: object) -> tuple[Callable[[Path], object], str, str]:
    """How a model in memory is written, with which suffix, and its name. Raises TypeError for anything else."""
    package = {each.__module__.partition(".")[0] for each in type(network).__mro__}
    if isinstance(network, KerasModel) and package & {"keras", "tf_keras"}:
        suffix = ".h5" if "tf_keras" in package else ".keras"
        return partial(_save, network), suffix, name_of(Path(network.name))
    if isinstance(network, bytes | bytearray | memoryview):
        return partial(_write, network), ".onnx", "network"
    if isinstance(network, OnnxProto) and type(network).__name__ == "ModelProto":
        return partial(_serialize, network), ".onnx", "network"
    hints = [f"; give {hint}" for foreign, hint in _FOREIGN.items() if foreign in package]
    hints += ["; convert_all takes several"] * isinstance(network, list | tuple)
    raise TypeError(f"expected {ACCEPTED}, not {_described(network)}{''.join(hints)}")


def _stored(samples: object, path: Path) -> Path:
    """A file of the samples: an array for the only input, or the name of each input -> its array."""
    from cnn_convertor.files.numpy_files import save_arrays  # here, as it takes long
    from cnn_convertor.samples import arrays_of

    save_arrays(path, arrays_of(samples))
    return path


def _described(value: object) -> str:
    if value is None:
        return "None"
    kind = type(value)
    home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"a value of type {home}{kind.__qualname__}"


def _write(data: bytes | bytearray | memoryview, path: Path) -> None:
    path.write_bytes(data)


def _save(model: KerasModel, path: Path) -> None:
    try:
        model.save(str(path))
    except Exception as error:  # Keras raises any type for a model that it cannot save
        problem = f"Keras cannot save the model: {error}"
        raise UsageError.of("DV139", problem, Origin(path.name), "build it, with shapes for its inputs") from error


def _serialize(model: OnnxProto, path: Path) -> None:
    try:
        path.write_bytes(model.SerializeToString())
    except Exception as error:  # protobuf's own types, for more than 2 GB
        hint = "write it with onnx.save(model, path, save_as_external_data=True), and give the path"
        raise UsageError.of(
            "DV139", f"the ONNX model cannot be serialized: {error}", Origin(path.name), hint
        ) from error
