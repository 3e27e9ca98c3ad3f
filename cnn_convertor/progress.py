"""The interface through which work reports its progress, and its state."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

WEIGHTS, SURFACES = "weights", "surfaces"
IN_BYTES: Final = frozenset({WEIGHTS, SURFACES})  # steps whose amounts are bytes


class Progress(Protocol):
    """Reports progress. step: the current step. done, total: amounts; total is 1 if it is unknown. layer: the current one."""

    def __call__(self, step: str, done: int, total: int, layer: str = "", /) -> None: ...


def silent(_step: str, _done: int, _total: int, _layer: str = "", /) -> None:
    """Report no progress."""


def counted(
    pieces: Iterable[NDArray[Any]], progress: Progress, *, total: int, layers: Sequence[tuple[int, str]]
) -> Iterator[NDArray[Any]]:
    """The same pieces of packed weights, with progress. total: bytes. layers: the offset and the name of each."""
    offsets = [offset for offset, _ in layers]
    done = 0
    progress(WEIGHTS, 0, total)
    for piece in pieces:
        yield piece
        done += piece.size
        progress(WEIGHTS, done, total, layers[bisect_right(offsets, done) - 1][1] if layers else "")


@dataclass(slots=True)
class State:
    """What a bar shows; the work changes it. started, since: when the work and its step began, in seconds."""

    title: str
    step: str = ""
    done: int = 0
    total: int = 1
    layer: str = ""
    started: float = field(default_factory=time.monotonic)
    since: float = 0.0

    def __call__(self, step: str, done: int, total: int, layer: str = "", /) -> None:
        if step != self.step:
            self.since = time.monotonic()
        self.step, self.done, self.total, self.layer = step, done, total, layer

    @property
    def rate(self) -> float | None:
        """Bytes a second, in steps that count bytes."""
        seconds = time.monotonic() - self.since
        return self.done / seconds if self.step in IN_BYTES and self.done and seconds else None
