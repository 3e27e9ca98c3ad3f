"""Work for the cluster of test_cluster.py, whose workers import this file."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from cnn_convertor.workers.outcomes import Outcome
from cnn_convertor.workers.pool import share


def square(item: int) -> Outcome[int]:
    return Outcome(item * item)


def share_of(_: object) -> Outcome[int]:
    return Outcome(share())


def deadly(item: tuple[int, Path]) -> Outcome[int]:
    """Item 2 kills its first worker, item 3 each one."""
    number, folder = item
    if number == 3 or (number == 2 and not (folder / "killed").exists()):
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(number)


def broken(item: int) -> Outcome[int]:
    raise ValueError(f"no {item}")


def running(dask_worker: Any) -> int:
    """The number of tasks that a worker has not ended, wanted or not."""
    return len(dask_worker.active_threads)
