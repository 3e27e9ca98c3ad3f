"""The work that a conversion may cost, counted in steps: the same input gives the same result on every machine.

A step takes about 0.1 us on an idle PC, some up to 0.4. What each part of a conversion asks for has its price in steps there. Each
part spends a share of its own, so that a picture or a constant more changes no plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SHARES: Final = {
    "layers": 96_000_000,  # 6,000 layers and parts; libraries have networks of 4,000, a small file can list 50,000: DV304
    "constants": 16_800_000,  # what a model's nodes compute without its inputs; more for more than 8 million weights: DV302
    "sides": 20_000_000,  # which layers the CPU takes so that sides change less often: those of the cheapest cut
    "memory": 40_000_000,  # the search for a schedule and a plan: the best so far, not proven smallest
    "ends": 100_000_000,  # the weights of parts of a refused network, packed to see whether they convert: DV163
    "picture": 40_000_000,  # 40,000 boxes and bends, more than anybody can read: a report without it, DV164
}


@dataclass
class Budget:
    """left: steps that may still be spent. What a conversion must have is made even when none are left."""

    left: float

    @staticmethod
    def of(share: str) -> Budget:
        return Budget(SHARES[share])

    def spend(self, steps: float) -> None:
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
