"""The templates that are filled in: sources, drawings and the page of a report."""

from __future__ import annotations

import os
import pickle
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import jinja2
import jinja2.compiler
from jinja2.bccache import Bucket

from cnn_convertor.places import place_of

_COMPILERS: Final = (jinja2.compiler.__file__, __file__)  # the options are here


def environment(
    *, autoescape: bool = False, finalize: Callable[[Any], Any] | None = None, filters: Mapping[str, Any] = {}
) -> jinja2.Environment:
    """An environment for the templates of the package. A name without a value is an error. Parameters: as those of Jinja."""
    folder = place_of("templates")
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        autoescape=autoescape,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=_Compiled(folder, autoescape=autoescape),
    )
    made.filters.update(filters)
    return made


class _Compiled(jinja2.FileSystemBytecodeCache):
    """Compiled templates, kept where and when Python keeps compiled modules: whoever can change one can change the other.

    Jinja compares the contents of the template. The name of the folder stands for everything else that decides.
    """

    def __init__(self, templates: Path, *, autoescape: bool) -> None:
        versions = [(stat.st_size, stat.st_mtime_ns) for stat in map(os.stat, _COMPILERS)]
        name = f"{sys.implementation.cache_tag}-{zlib.crc32(repr((versions, autoescape)).encode()):08x}"
        super().__init__(os.fspath(templates / "__pycache__" / name), "%s")

    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            super().load_bytecode(bucket)
        except (OSError, EOFError, ValueError, TypeError, pickle.UnpicklingError):  # unreadable, or damaged
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):  # the package may be read-only
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)
