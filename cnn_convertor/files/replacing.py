"""Writes a set of files into a folder: at every moment the folder holds one whole set, the earlier one or the new one.

Where the system can exchange two folders (Linux), the new set appears in one step. Elsewhere, and in the current folder, a journal
allows the next run to undo a replacement that was cut off.
"""

import ctypes
import filecmp
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from errno import EACCES, EDQUOT, EEXIST, EISDIR, ELOOP, ENOSPC, ENOSYS, ENOTDIR, ENXIO, EXDEV
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.files import json_files, locks, owners
from cnn_convertor.files.dependencies import require_kept, unrecorded, without_inputs
from cnn_convertor.files.interruption import require_no_end, uninterrupted

Contents: TypeAlias = str | Iterable[NDArray[np.uint8]]


class Digest(NamedTuple):
    """Of a file. sha256: in hexadecimal digits."""

    bytes: int
    sha256: str


Later: TypeAlias = Callable[[Mapping[str, Digest]], Mapping[str, str]]  # digests of files -> names and texts of more

_JOURNAL: Final = "journal.json"
_RENAME_EXCHANGE: Final = 2  # linux/fs.h
_AT_FDCWD: Final = -100  # fcntl.h
_LONGEST: Final = 60.0  # seconds that other processes may lock a folder: each only renames files
_READER: Final = 3.0  # seconds that a pipe may be without a reader
_PAUSE: Final = 0.02  # seconds between two tries


def replace_all(
    folder: Path,
    files: Mapping[str, Contents],
    *,
    later: Sequence[Later] = (),
    obsolete: Callable[[], Collection[str]] = tuple,
) -> tuple[Path, ...]:
    """Write all files or none. Files whose contents stay the same are not touched; other files in the folder stay.

    files: path relative to the folder -> text, or pieces of bytes that are written as they come.
    later: give more files, one after the other, once those before them are written, from their digests.
    obsolete: gives the files of the earlier set, which the new set replaces: they are removed. It is called while the folder is
        locked, since another process may have replaced the set in the meantime.
    Raises UsageError when the folder cannot be written, or when the command has read a file that would be replaced; on any error
    the earlier files stay as they are.
    """
    with uninterrupted() as block, _prepared(folder, block) as staging:
        with block.interruptible():
            new = staging / "new"
            digests = {file: _write(folder, new / file, contents) for file, contents in files.items()}
            for more in later:
                digests |= {file: _write(folder, new / file, text) for file, text in more(digests).items()}
            require_no_end()
        require_kept(folder / file for file in digests)
        with _writing(folder), _locked(folder.resolve().parent, block):
            with unrecorded():
                earlier = [folder / file for file in obsolete() if file not in digests]
            removed = [file.relative_to(folder).as_posix() for file in without_inputs(earlier) if file.is_file()]
            _replace(folder.resolve(), staging, digests, removed)
    return tuple(folder / file for file in digests)


def write(path: Path, contents: Contents) -> None:
    """Write one file as a whole, or leave an earlier one as it is. Raises UsageError.

    Links and special files such as /dev/stdout are not replaced: the contents go to their target.
    """
    require_kept([path])
    with _naming(path):
        if _is_replaced(path):
            replace_all(path.parent, {path.name: contents})
        else:
            _write(path, path, contents)


def _opened_for_writing(path: Path) -> FileIO:
    """A file without a buffer, so that closing it has nothing left to fail with. Raises OSError for a pipe without a reader."""
    _require_own_links(path)
    if not path.is_fifo():
        return path.open("wb", 0)
    end = time.monotonic() + _READER
    while (handle := _pipe(path)) is None:
        if time.monotonic() > end:
            raise OSError(ENXIO, "nobody reads this pipe")
        time.sleep(_PAUSE)
    os.set_blocking(handle, True)
    return os.fdopen(handle, "wb", 0)


def _pipe(path: Path) -> int | None:
    """The handle of a pipe; None while nobody reads it."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == ENXIO:
            return None
        raise


def _require_own_links(path: Path) -> None:
    for each in (path, *path.parents):
        if owners.is_planted(each):
            raise OSError(ELOOP, f"another user made the link {each}")


def check_file(path: Path) -> None:
    """Raises UsageError when `write` could not write the file, after the work."""
    with _naming(path):
        if _is_replaced(path):
            check_writable(path.parent)


def _is_replaced(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or not path.exists())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors name the file in place of its folder."""
    try:
        yield
    except UsageError as error:
        (problem,) = error.problems
        hint = problem.hint.replace("a folder that", "a file that")
        wrong = replace(problem, where=Origin(str(path)), hint=hint)
        raise UsageError(wrong) from error


def check_writable(folder: Path) -> None:
    """Raises UsageError when files cannot be written to a folder, as `replace_all` would after the work."""
    with uninterrupted() as block, _prepared(folder, block):
        pass


def recover(folder: Path) -> None:
    """Clean up after killed runs, as `replace_all` does before it writes."""
    folder = folder.resolve()
    with uninterrupted() as block, _writing(folder), _locked(folder.parent, block):
        _recover(folder)


def _pieces(contents: Contents) -> Iterator[memoryview]:
    """The contents in bytes, piece by piece. Bytes of a path that are not text stay as they are."""
    for piece in (contents.encode(errors="surrogateescape"),) if isinstance(contents, str) else contents:
        yield memoryview(piece) if isinstance(piece, bytes) else piece.data


def _write(folder: Path, path: Path, contents: Contents) -> Digest:
    """Write one file. Errors of the pieces themselves are not about the folder, and pass."""
    size = 0
    digest = hashlib.sha256()
    with _writing(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = _opened_for_writing(path)
    with stream:
        for rest in _pieces(contents):
            size += rest.nbytes
            digest.update(rest)
            with _writing(folder):
                while rest:
                    rest = rest[stream.write(rest) :]
    return Digest(size, digest.hexdigest())


# --- where the new set is written ----------------------------------------------------------------------------------------


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = locks.open_folder(folder)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _locked(folder: Path, block: uninterrupted) -> Iterator[None]:
    """Lock a folder against other processes, where it can be opened and locked.

    Raises TimeoutError when another process keeps it locked.
    """
    with ExitStack() as stack:
        handle = None
        with suppress(OSError):
            handle = stack.enter_context(_opened(folder))
        if handle is not None:
            locks.wait_for_lock(handle, folder, block, _LONGEST)
        yield


@contextmanager
def _prepared(folder: Path, block: uninterrupted) -> Iterator[Path]:
    """A locked temporary folder beside the folder, or in it where its parent is read-only. Cleans up after killed runs.

    The folder is made; folders that stay empty are removed again.
    """
    created: list[Path] = []
    with ExitStack() as stack:
        stack.callback(_remove_empty, created)
        with _writing(folder):
            created += [parent for parent in (folder, *folder.parents) if not parent.exists()]
            _require_own_links(folder)
            folder.mkdir(parents=True, exist_ok=True)
            folder = folder.resolve()
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(EACCES, os.strerror(EACCES))
            with _locked(folder.parent, block):
                _recover(folder)
                staging = _temporary(folder)
                stack.enter_context(_locked(staging, block))
                stack.callback(_clean_up, folder, staging)
            (staging / "new").mkdir()
        yield staging


def _prefix(folder: Path) -> str:
    return f".{folder.name}.unfinished-"


def _temporary(folder: Path) -> Path:
    """Beside the folder, where it can be exchanged; or in it, where its parent is read-only or on another disk."""
    if not _is_mounted(folder):
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix=_prefix(folder), dir=folder.parent))
    return Path(tempfile.mkdtemp(prefix=_prefix(folder), dir=folder))


def _is_mounted(folder: Path) -> bool:
    """Whether nothing moves into a folder from beside it, since it is the top of a disk or of a mount."""
    if os.name == "nt":
        return False
    try:
        os.rename(f"{folder.parent}/.", f"{folder}/.")  # noqa: PTH104  # a Path has no such dot; it never moves
    except OSError as error:
        return error.errno == EXDEV
    return False


def _remove_empty(created: Iterable[Path]) -> None:
    for parent in created:  # the innermost first; one that holds anything stays
        with suppress(OSError):
            parent.rmdir()


def _recover(folder: Path) -> None:
    """Clean up after killed runs of this user. The temporary folders of running ones are locked."""
    for parent in (folder.parent, folder):
        with suppress(OSError):  # it may be one that cannot be listed
            for staging in sorted(path for path in parent.iterdir() if path.name.startswith(_prefix(folder))):
                with suppress(OSError):
                    if reason := owners.doubt(staging):
                        owners.warn_of(staging, reason)
                        continue
                    with _opened(staging) as handle:
                        locks.lock(handle)
                        _clean_up(folder, staging)


def _clean_up(folder: Path, staging: Path) -> None:
    """Remove a temporary folder; one that still holds files of the user's stays, for the next run to try again."""
    with suppress(OSError, ValueError):
        _settle(folder, staging)
        shutil.rmtree(staging)


# --- replacing -----------------------------------------------------------------------------------------------------------


def _replace(folder: Path, staging: Path, files: Iterable[str], removed: Collection[str]) -> None:
    """Put the new files in the place of the earlier ones, while the folder is locked.

    Raises OSError; then the earlier ones are there.
    """
    new = staging / "new"
    for file in files:
        if (folder / file).is_dir():
            raise IsADirectoryError(EISDIR, f"{file} is a folder")
    for file in {PurePosixPath(file).parent: file for file in files}.values():
        if not is_inside(folder, file):
            raise OSError(ELOOP, f"a link leads {file} out of the folder")
    same: set[str] = set()
    changed: list[str] = []
    for file in files:
        is_same = (folder / file).is_file() and filecmp.cmp(folder / file, new / file, shallow=False)
        if is_same:
            same.add(file)
        else:
            changed.append(file)
    for file in changed:
        _keep_mode(folder / file, new / file)
    if len(changed) == 1 and not removed:  # one step by itself
        (folder / changed[0]).parent.mkdir(parents=True, exist_ok=True)
        (new / changed[0]).replace(folder / changed[0])
    elif len(changed) + len(removed) > 1 and staging.parent == folder.parent and not _is_worked_in(folder):
        try:
            _exchange(folder, staging, same, set(changed).union(removed))
        except OSError:
            _replace_one_by_one(folder, staging, changed, removed)
        else:
            _settle(folder, staging)
    elif changed or removed:
        _replace_one_by_one(folder, staging, changed, removed)


def _keep_mode(earlier: Path, new: Path) -> None:
    """Let the same users read and write a file as before, where the system allows it: some file systems have no modes."""
    with suppress(OSError):
        mode = earlier.stat().st_mode & 0o777
        if mode != new.stat().st_mode & 0o777:
            new.chmod(mode)


def _is_worked_in(folder: Path) -> bool:
    """Whether this process, and so the shell that started it, is in the folder: after an exchange it would be nowhere."""
    with suppress(OSError):
        return Path.cwd().is_relative_to(folder)
    return False


def _exchange(folder: Path, staging: Path, same: Iterable[str], replaced: Collection[str]) -> None:
    """Complete the new folder with what stays, and exchange it with the earlier one.

    Files that stay get a second link, so they are never missing. Folders that stay move later, by the journal.
    Raises OSError if the system cannot do this; then nothing has changed.
    """
    new, probe = staging / "new", staging / "probe"
    for file in filter(lambda file: (folder / file).exists(), replaced):
        os.link(folder / file, probe)  # Raises OSError if the file may not be removed.
        probe.unlink()
    for file in same:
        (new / file).unlink()
    folders = []
    for path, is_folder in _staying(folder, folder, replaced):
        if is_folder:
            folders.append(path)
        else:
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            os.link(folder / path, new / path, follow_symlinks=False)
    shutil.copymode(folder, new)
    if folders:
        _begin(staging, _Journal(moved=folders))
    _exchange_names(folder, new)


def _staying(folder: Path, root: Path, replaced: Collection[str]) -> Iterator[tuple[str, bool]]:
    """What stays in a folder: path relative to the root, and whether it is a folder that stays whole."""
    for entry in sorted(folder.iterdir()):
        path = entry.relative_to(root).as_posix()
        if entry.is_symlink() or not entry.is_dir():
            yield from [(path, False)] if path not in replaced else []
        elif any(file.startswith(f"{path}/") for file in replaced):
            yield from _staying(entry, root, replaced)
        else:
            yield path, True


def _exchange_names(one: Path, other: Path) -> None:
    """Exchange two folders in one step. Raises OSError if the system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError) as error:
        raise OSError(ENOSYS, os.strerror(ENOSYS)) from error
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class _Journal(TypedDict, total=False):
    """What a replacement is about to do, written before it begins. moved: folders that stay, in an exchange."""

    moved: list[str]
    replaced: list[str]
    added: list[str]


def _replace_one_by_one(folder: Path, staging: Path, changed: Sequence[str], removed: Collection[str]) -> None:
    new, old = staging / "new", staging / "old"
    journal = _Journal(
        replaced=[file for file in (*changed, *removed) if (folder / file).exists()],
        added=[file for file in changed if not (folder / file).exists()],
    )
    _begin(staging, journal)
    for file in (*changed, *removed):
        for target in (folder, old):
            (target / file).parent.mkdir(parents=True, exist_ok=True)
        if file in journal["replaced"]:
            (folder / file).replace(old / file)
        if file not in removed:
            (new / file).replace(folder / file)
    (staging / _JOURNAL).unlink()  # From here on it is not undone.


def _begin(staging: Path, journal: _Journal) -> None:
    """Write the journal, which is there as a whole or not at all."""
    draft = staging / "draft"
    draft.write_text(json.dumps(journal))
    draft.replace(staging / _JOURNAL)


def _settle(folder: Path, staging: Path) -> None:
    """Undo a replacement one by one, however far it got; complete an exchange that has taken place."""
    new, old = staging / "new", staging / "old"
    if not (staging / _JOURNAL).exists():
        return
    journal = _read_journal(folder, staging)
    for name in journal.get("moved", ()):
        if (new / name).is_dir() and not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).rename(folder / name)
    for file in journal.get("replaced", ()):
        if (old / file).exists():
            (old / file).replace(folder / file)
    for file in journal.get("added", ()):
        if not (new / file).exists():
            (folder / file).unlink(missing_ok=True)


def _read_journal(folder: Path, staging: Path) -> _Journal:
    """Raises ValueError for a journal that is not ours: no path in it leaves the folders, not even by a link."""
    journal: _Journal = json_files.load(staging / _JOURNAL)
    if not (isinstance(journal, dict) and all(isinstance(paths, list) for paths in journal.values())):
        raise ValueError("this is not a journal")
    folders = (staging, staging / "new", staging / "old")
    listed = [file for paths in journal.values() if isinstance(paths, list) for file in paths]
    is_ours = all(isinstance(file, str) and is_relative(file) for file in listed)
    beside = {f"{PurePosixPath(file).parent}/x" for file in listed} if is_ours else set()  # each folder once
    is_ours = is_ours and all(is_inside(path, file) for file in beside for path in (folder, *folders[1:]))
    if not is_ours or any(path.is_symlink() for path in folders):
        raise ValueError("a path in the journal leaves its folder")
    return journal


def is_inside(folder: Path, file: str) -> bool:
    """Whether a path, relative to a folder, names something in it, wherever links lead."""
    try:
        return is_relative(file) and (folder / file).parent.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # no name of a file, or links that have no end
        return False


def is_relative(file: str) -> bool:
    """Whether a path goes down only."""
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts and path.name != ""


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn errors of the operating system into errors of the user's."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (EEXIST, ENOTDIR):
            reason = "there is a file in place of a folder"
        hint = "name a folder that can be written"
        if isinstance(error, TimeoutError):
            hint = "end that process, which `lslocks` shows to an administrator, or write to a folder elsewhere"
        if error.errno in (ENOSPC, EDQUOT):
            hint = f"make room on that disk, or {hint}"
        raise UsageError.of("DV110", f"cannot write the outputs: {reason}", Origin(str(folder)), hint) from error
