"""The live range of a buffer."""

from __future__ import annotations

from typing import NamedTuple


class Buffer(NamedTuple):
    """size in bytes; live from step `first` to step `last`, inclusive; never live by itself if `last` < `first`.

    inside: the name of the buffer that contains this one, `at` bytes from its start. Bytes shared by nested buffers are live
    from the first step of all of them to the last; other bytes of the container only as long as it is live itself. So the
    bytes of a part that is not live are free for other buffers, unless the container is live.
    """

    name: str
    size: int
    first: int
    last: int
    inside: str = ""
    at: int = 0

    def meets(self, other: Buffer) -> bool:
        """Whether both are live at some step."""
        return self.first <= other.last and other.first <= self.last

    @property
    def lives(self) -> bool:
        """Whether it needs any bytes at any step."""
        return self.size > 0 and self.first <= self.last
