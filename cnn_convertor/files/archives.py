"""Opens zip archives that anyone may have written."""

import lzma
import zipfile
import zlib
from pathlib import Path
from typing import Final

# What a damaged archive raises, depending on where the damage is and on how it is packed.
DAMAGES: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def open_archive(path: Path) -> zipfile.ZipFile:
    """An archive of stored and deflated members. Other methods let the file choose how
    much memory unpacking takes; no framework writes them.

    Raises one of DAMAGES, or OSError.
    """
    archive = zipfile.ZipFile(path)
    if any(member.compress_type not in _COMPRESSIONS for member in archive.infolist()):
        archive.close()
        raise NotImplementedError("a member is neither stored nor deflated")
    return archive
