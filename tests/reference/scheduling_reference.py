"""The least peak of memory over all orders of a few tasks, by exhaustive search."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

# The buffers that each task reads and writes, and the one of them in whose bytes it writes, or none.
Uses = Sequence[tuple[Collection[str], Collection[str], str]]


def orders(tasks: Uses, done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """All orders in which writers precede readers."""
    if len(done) == len(tasks):
        yield done
    for i, (reads, _, _) in enumerate(tasks):
        if i in done:
            continue
        if all(j in done for j, (_, writes, _) in enumerate(tasks) if j != i and set(reads) & set(writes)):
            yield from orders(tasks, (*done, i))


def peak(
    tasks: Uses, sizes: Mapping[str, int], order: Sequence[int], *, given: Collection[str], kept: Collection[str]
) -> int:
    """The peak of live bytes; a buffer is live from its first task to its last."""
    steps: dict[str, list[int]] = {name: [] for name in sizes}
    for step, task in enumerate(order):
        for name in (*tasks[task][0], *tasks[task][1]):
            steps[name].append(step)
    for name in given:
        steps[name].append(-1)
    for name in kept:
        if steps[name]:
            steps[name].append(len(order))
    taken = {step: tasks[task][2] for step, task in enumerate(order)}
    return max(
        sum(
            sizes[name]
            for name, when in steps.items()
            if when and min(when) <= step <= max(when) and name != taken.get(step)
        )
        for step in range(-1, len(order) + 1)
    )
