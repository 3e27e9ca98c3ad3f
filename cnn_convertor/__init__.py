"""Turn trained convolutional networks into C++ sources and packed weights for the DV700 accelerator."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cnn_convertor.config import Config as Config
    from cnn_convertor.conversion.convert import convert as convert
    from cnn_convertor.conversion.inspection import inspect as inspect
    from cnn_convertor.errors import ConvertorError as ConvertorError
    from cnn_convertor.pipeline import load as load
    from cnn_convertor.trials.verify import verify as verify

__version__ = "0.1.0"
__all__ = ["Config", "ConvertorError", "__version__", "convert", "inspect", "load", "verify"]

_HOMES = {
    "Config": "cnn_convertor.config",
    "ConvertorError": "cnn_convertor.errors",
    "convert": "cnn_convertor.conversion.convert",
    "inspect": "cnn_convertor.conversion.inspection",
    "load": "cnn_convertor.pipeline",
    "verify": "cnn_convertor.trials.verify",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import cnn_convertor` and --help take no time."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
