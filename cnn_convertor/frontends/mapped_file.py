"""A model file mapped into memory, so that weights are read only when they are needed."""

import mmap
from pathlib import Path

from cnn_convertor.errors import ModelError, Origin


class MappedFile:
    """A file mapped into memory."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def forget_pages(self) -> None:
        """Release the memory of earlier reads; arrays stay valid, and their pages are read again when used."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.data.madvise(mmap.MADV_DONTNEED)


def check_file(path: Path, what: str) -> None:
    """Raise ModelError when the file is missing, empty, or not a regular file."""
    origin = Origin(str(path))
    try:
        if path.is_dir():
            raise ModelError.of("DV201", f"the file of the {what} is a folder", origin, "name the file inside it")
        if path.exists() and not path.is_file():  # opening a pipe may wait forever
            raise ModelError.of("DV201", f"the file of the {what} is a device or a pipe", origin, "name a file")
        with path.open("rb") as file:
            empty = not file.read(1) or not path.stat().st_size  # files under /proc report size 0 but have contents
    except OSError as error:
        reason = error.strerror or str(error)
        problem = f"the file of the {what} cannot be read: {reason}"
        raise ModelError.of("DV201", problem, origin, "check its name") from None
    except ValueError:
        raise ModelError.of("DV201", f"the name of the {what} is not a file name", origin) from None
    if empty:
        raise ModelError.of("DV201", f"the file of the {what} is empty", origin, "download it again")
