"""Damaged models and other files are read, or refused with a code, within limits of time and memory.

The harnesses and their mutations are those of fuzz/; the inputs are the same in each run.
"""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cnn_convertor.errors import ConvertorError, ModelError
from development.fuzz.__main__ import LONGEST
from development.fuzz.counts import repeat
from development.fuzz.harnesses import HARNESSES
from development.fuzz.mutation import mutate_text
from development.fuzz.watching import MEMORY, outcome

SECONDS = 10  # for one input, on a busy machine
EXAMPLES = {"hdf5": 6, "sources": 20}  # the slow ones
USUAL = 40


@cache
def seeds_of(name: str) -> list[bytes]:
    return list(HARNESSES[name].seeds())


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("name", HARNESSES)
def test_seeds_are_read_or_refused(name: str) -> None:
    found = [outcome(HARNESSES[name].run, content, SECONDS) for content in seeds_of(name)]
    assert not any(found)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("name", HARNESSES)
def test_damaged_inputs_are_read_or_refused(name: str) -> None:
    harness, seeds, words = HARNESSES[name], seeds_of(name), HARNESSES[name].words()

    @settings(max_examples=EXAMPLES.get(name, USUAL), suppress_health_check=list(HealthCheck))
    @given(st.integers(0, len(seeds) - 1), st.randoms(use_true_random=False))
    def damage(seed: int, random: Random) -> None:
        damaged = harness.mutate(seeds[seed], random, words)[: harness.largest]
        assert outcome(harness.run, damaged, SECONDS) is None

    damage()


@pytest.mark.parametrize("name", HARNESSES)
def test_inputs_with_repeated_parts_are_read_or_refused(name: str) -> None:
    harness, random = HARNESSES[name], Random(5)
    for _ in range(2):
        repeated = repeat(harness.mutate, random.choice(seeds_of(name)), random)
        assert outcome(harness.run, repeated, 6 * SECONDS) is None


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("name", HARNESSES)
def test_parts_are_repeated_up_to_a_megabyte(name: str) -> None:
    harness, random = HARNESSES[name], Random(1)
    seeds = [random.choice(seeds_of(name)) for _ in range(20)]
    sizes = [(len(seed), len(repeat(harness.mutate, seed, random))) for seed in seeds]
    assert max(after - before for before, after in sizes) > 90 and max(after for _, after in sizes) <= LONGEST


def test_copies_have_texts_of_their_own() -> None:
    """Some make nodes of their own, some a chain of them."""
    made = {repeat(mutate_text, b'layer { name: "a" bottom: "b" }\n', Random(seed)) for seed in range(300)}
    assert any(b'name: "a7" bottom: "b"' in text for text in made)
    assert any(b'name: "a7" bottom: "b6"' in text for text in made)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize("name", sorted(set(HARNESSES) - {"hdf5"}))
def test_some_seeds_are_read_to_the_end(name: str) -> None:
    """A harness whose seeds are all refused would not reach far."""
    whole = 0
    for content in seeds_of(name)[:40]:
        try:
            HARNESSES[name].run(content)
        except ConvertorError:
            continue
        whole += 1
    assert whole


# --- the watch itself ----------------------------------------------------------------------------------------------------


def loop(_data: bytes) -> None:
    while True:
        pass


def flood(data: bytes) -> None:
    bytes(2 * MEMORY + len(data))


def recurse(data: bytes) -> None:
    recurse(data)


def refuse(data: bytes) -> None:
    raise ModelError.of(data.decode(), "no")


@pytest.mark.parametrize(
    ("run", "signature"),
    [(loop, "OutOfTime"), (flood, "MemoryError"), (recurse, "RecursionError"), (refuse, "code DV000")],
)
def test_every_other_outcome_is_a_finding(run: object, signature: str) -> None:
    assert callable(run)
    finding = outcome(run, b"DV000", 0.2)
    assert finding is not None and finding.signature.startswith(signature)


def test_an_error_with_a_code_is_none() -> None:
    assert outcome(refuse, b"DV201", 1) is None
