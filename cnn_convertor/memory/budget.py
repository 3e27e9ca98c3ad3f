"""The work that the search for a schedule and a memory plan may cost, counted in steps: the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WORK: Final = 40_000_000  # steps of a conversion; about 0.1 us each on an idle PC, some up to 0.4


@dataclass
class Budget:
    """left: steps that may still be spent. What a conversion must have is made even when none are left."""

    left: int = WORK

    def spend(self, steps: int) -> None:
        self.left -= steps

    @property
    def is_spent(self) -> bool:
        return self.left <= 0

    def part(self, divisor: int) -> Budget:
        """A part of what is left; `take_back` returns what it does not need."""
        taken = Budget(max(self.left, 0) // divisor)
        self.left -= taken.left
        return taken

    def take_back(self, part: Budget) -> None:
        self.left += part.left
