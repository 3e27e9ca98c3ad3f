"""Starts a Dask cluster on this computer, for measurements and tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from cnn_convertor.workers.cluster import client_of

ROOT: Final = Path(__file__).resolve().parents[2]
LONG: Final = 300  # seconds, on a machine that does other things as well
_CLOSING: Final = 10  # seconds in which a process may end by itself


class Running(NamedTuple):
    """A cluster. processes: the scheduler, then the workers or their nannies."""

    address: str
    processes: tuple[subprocess.Popen[bytes], ...]


@contextmanager
def running(
    workers: int,
    *,
    options: Sequence[str] = (),
    of_scheduler: Sequence[str] = (),
    environment: Mapping[str, str] = {},
    modules: Sequence[Path] = (),
) -> Iterator[Running]:
    """A scheduler and workers of one thread each, in a working directory of their own.

    options: of each worker. environment: more variables. modules: folders beside the checkout from which workers import.
    """
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "scheduler.json")
        path = os.pathsep.join(map(str, (ROOT, *modules)))
        processes: list[subprocess.Popen[bytes]] = []

        def start(program: str, *arguments: str) -> None:
            call = [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", str(file), "--no-dashboard"]
            with Path(name, f"log{len(processes)}").open("wb") as log:
                own = {**os.environ, "PYTHONPATH": path, **environment}
                processes.append(subprocess.Popen([*call, *arguments], cwd=name, env=own, stdout=log, stderr=log))

        start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", *of_scheduler)
        for _ in range(workers):
            start("dask_worker", "--nthreads", "1", "--local-directory", name, *options)
        try:
            wait_for(lambda: file.exists() and bool(file.read_text().strip()))
            address = str(json.loads(file.read_text())["address"])
            with client_of(address, timeout=LONG) as client:
                client.wait_for_workers(workers, timeout=LONG)
            yield Running(address, tuple(processes))
            if processes[0].poll() is None:
                with client_of(address, timeout=LONG) as client:
                    client.shutdown()
        finally:
            _end(processes)


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait for the processes, and kill those that stay. Without a scheduler, workers would wait for it."""
    for process in processes:
        if processes[0].poll() in {None, 0}:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_CLOSING)
        process.kill()
        process.wait()
