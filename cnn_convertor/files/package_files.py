"""Where the files that go with the package are: templates, pages and the CMake package."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def folder_of(folder: str) -> Path:
    """The folder of that name: inside the package of a wheel, beside that of a checkout."""
    return next(parent / folder for parent in (_PACKAGE, _PACKAGE.parent) if (parent / folder).is_dir())
