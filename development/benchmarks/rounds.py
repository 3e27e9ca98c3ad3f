"""Times several tasks in turns, so that their ratios mean the same on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable


def best_times(rounds: int, *tasks: Callable[[], object]) -> list[float]:
    """The shortest time of each task in several rounds, in seconds."""
    best = [float("inf")] * len(tasks)
    for _ in range(rounds):
        for index, task in enumerate(tasks):
            start = time.perf_counter()
            task()
            best[index] = min(best[index], time.perf_counter() - start)
    return best
