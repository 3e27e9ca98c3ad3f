"""Interruptions wait in blocks that make and remove something."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from cnn_convertor.files.interruption import uninterrupted


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """An interruption raises KeyboardInterrupt, also where the shell ignores it."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.mark.parametrize("within", [False, True], ids=["waited", "within"])
def test_a_second_interruption_waits_while_the_first_cleans_up(within: bool) -> None:
    cleaned = []

    def work() -> None:
        with uninterrupted() as block:
            try:
                if not within:
                    signal.raise_signal(signal.SIGINT)
                with block.interruptible():
                    signal.raise_signal(signal.SIGINT)
                    pytest.fail("this is not reached")
            finally:
                signal.raise_signal(signal.SIGINT)
                cleaned.append("all")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert cleaned == ["all"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
