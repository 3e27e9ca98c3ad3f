"""Turn trained convolutional networks into C++ sources and packed weights for the DV700 accelerator."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cnn_convertor.config import Config as Config
    from cnn_convertor.convert import convert as convert
    from cnn_convertor.convert import load as load
    from cnn_convertor.errors import ConvertorError as ConvertorError
    from cnn_convertor.inspect import inspect as inspect

__version__ = "0.1.0"
__all__ = ["Config", "ConvertorError", "__version__", "convert", "inspect", "load"]

_HOMES = {
    "Config": "cnn_convertor.config",
    "ConvertorError": "cnn_convertor.errors",
    "convert": "cnn_convertor.convert",
    "inspect": "cnn_convertor.inspect",
    "load": "cnn_convertor.convert",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import cnn_convertor` and --help take no time."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


class _Package(ModuleType):
    """Keeps `cnn_convertor.convert` the function, whoever imports the module of that name."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
