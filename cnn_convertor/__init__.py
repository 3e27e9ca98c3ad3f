"""Turn trained convolutional networks into C++ sources and packed weights for the DV700 accelerator."""

TYPE_CHECKING = False  # `typing` takes a moment to load, in which Ctrl-C ends the program with a traceback

if TYPE_CHECKING:
    from typing import Any

    from cnn_convertor import layouts as layouts
    from cnn_convertor.api.entry_points import convert as convert
    from cnn_convertor.api.entry_points import convert_all as convert_all
    from cnn_convertor.api.entry_points import inspect as inspect
    from cnn_convertor.api.entry_points import load as load
    from cnn_convertor.api.entry_points import run as run
    from cnn_convertor.api.entry_points import sweep as sweep
    from cnn_convertor.api.entry_points import verify as verify
    from cnn_convertor.config import Config as Config
    from cnn_convertor.errors import ConvertorError as ConvertorError
    from cnn_convertor.errors import ConvertorWarning as ConvertorWarning
    from cnn_convertor.memory.buffer import Buffer as Buffer
    from cnn_convertor.memory.planning import plan as plan
    from cnn_convertor.report import Report as Report
    from cnn_convertor.verification.results import Verification as Verification
    from cnn_convertor.workers.cluster import Cluster as Cluster
    from cnn_convertor.workers.processes import Processes as Processes

__version__ = "0.2.0"

_HOMES = {
    "Buffer": "memory.buffer",
    "Cluster": "workers.cluster",
    "Config": "config",
    "ConvertorError": "errors",
    "ConvertorWarning": "errors",
    "Processes": "workers.processes",
    "Report": "report",
    "Verification": "verification.results",
    "convert": "api.entry_points",
    "convert_all": "api.entry_points",
    "inspect": "api.entry_points",
    "load": "api.entry_points",
    "plan": "memory.planning",
    "run": "api.entry_points",
    "sweep": "api.entry_points",
    "verify": "api.entry_points",
}
__all__ = [  # noqa: PLE0604  # names of _HOMES, and a room that is public as a whole
    "__version__",
    "layouts",
    *_HOMES,
]


def __getattr__(name: str) -> "Any":
    """Import a public name when it is first used, so that `import cnn_convertor` and --help take no time."""
    from importlib import import_module

    if name == "layouts":
        return import_module("cnn_convertor.layouts")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"cnn_convertor.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """All public names, also those that are not imported yet: for completion."""
    return sorted({*globals(), *__all__})
