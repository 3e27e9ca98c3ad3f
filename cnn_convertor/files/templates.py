"""Loads the templates of the package, and keeps them compiled."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import Any, Final

import jinja2
import jinja2.compiler
from jinja2.bccache import Bucket

from cnn_convertor.files.opening import bytes_of
from cnn_convertor.files.package_files import folder_of

_COMPILERS: Final = (jinja2.compiler.__file__, __file__)  # the options are here
_DIGEST: Final = sha256().digest_size


def environment(
    *, autoescape: bool = False, finalize: Callable[[Any], Any] | None = None, filters: Mapping[str, Any] = {}
) -> jinja2.Environment:
    """An environment for the templates of the package. A name without a value is an error. Parameters: as those of Jinja."""
    folder = folder_of("templates")
    result = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        autoescape=autoescape,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=_Compiled(folder, autoescape=autoescape),
    )
    result.filters.update(filters)
    return result


class _Compiled(jinja2.BytecodeCache):
    """Compiled templates, kept where and when Python keeps compiled modules: whoever can change one can change the other.

    A file has the SHA-256 of what follows; one that is damaged is not used. Jinja compares the contents of the template. The
    name of the folder stands for everything else that decides.
    """

    def __init__(self, templates: Path, *, autoescape: bool) -> None:
        versions = [(stat.st_size, stat.st_mtime_ns) for stat in map(os.stat, _COMPILERS)]
        name = f"{sys.implementation.cache_tag}-{zlib.crc32(repr((MAGIC_NUMBER, versions, autoescape)).encode()):08x}"
        self._folder = Path(cache_from_source(os.fspath(templates / name))).with_name(name)

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            kept = bytes_of(self._folder / bucket.key)
            digest = kept[:_DIGEST]
            code = kept[_DIGEST:]
            if sha256(code).digest() == digest:
                bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode:
            return
        code = bucket.bytecode_to_string()
        with suppress(OSError):  # the package may be read-only
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / bucket.key).write_bytes(sha256(code).digest() + code)
