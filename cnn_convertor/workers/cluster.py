"""Applies a function to many items on the workers of a Dask cluster, which repeats work that a dying worker loses."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

from cnn_convertor.errors import Origin, Problem, UsageError
from cnn_convertor.files.hashing import versions
from cnn_convertor.workers.outcomes import Item, Outcome, problems_of
from cnn_convertor.workers.pool import limited
from cnn_convertor.workers.relocation import Pickled, mapped, packed, placed, read_all, unpacked

T = TypeVar("T")
R = TypeVar("R")

_CONNECTING: Final = 10.0  # seconds that a scheduler may take to answer
_PATIENCE: Final = 30.0  # seconds that a cluster may be without workers
_AHEAD: Final = 2  # items that wait or run for each worker
_IN_TURN: Final = threading.Lock()  # warnings belong to a process, so that a worker with several threads uses one
_RUNNING: Final = threading.local()


class Cluster(NamedTuple):
    """The workers of a Dask scheduler at an address, like tcp://host:8786.

    ships: send the files that the work reads; otherwise all computers have them at the same paths.
    """

    address: str
    ships: bool = False


def spread(
    work: Callable[[T], Outcome[R]],
    items: Sequence[Item[T]],
    *,
    cluster: Cluster,
    uses: Sequence[str],
    started: Callable[[int], None],
) -> Iterator[tuple[int, Outcome[R]]]:
    """As `workers.spread`. Raises UsageError without a scheduler, or without workers of the same versions.

    If workers die, Dask gives up every item that they held, not only the one at fault. So such an item is tried once more, alone.
    """
    own = versions(uses)
    with _connected(cluster.address, uses) as client:
        run = os.urandom(8).hex()
        waiting = deque(range(len(items)))
        blamed = deque[int]()
        busy: dict[int, Any] = {}
        names_back: dict[int, Callable[[Any], Any]] = {}
        uploads = _Files(client)
        workers = _WorkerCount(client, cluster)
        finished: SimpleQueue[int] = SimpleQueue()

        def submit(number: int, *, again: bool) -> None:
            started(number)
            item = items[number]
            value, names_back[number] = packed((work, item.value))
            key = f"{work.__name__}-{run}-{number}-{again:d}"
            try:
                files = uploads.of((*item.files, *item.inputs()) if cluster.ships else item.files)
            except OSError as error:  # of one item; it ends like one that fails on a worker
                future = client.submit(Outcome, None, problems_of(error), key=key)
            else:
                future = client.submit(_at_worker, own, uses, value, files, key=key)
            future.add_done_callback(lambda _: finished.put(number))
            busy[number] = future

        try:
            while waiting or blamed or busy:
                while waiting and len(busy) < _AHEAD * workers.count():
                    submit(waiting.popleft(), again=False)
                is_alone = not busy
                if is_alone:
                    submit(blamed.popleft(), again=True)
                number = _next(finished, client, cluster)
                outcome = _outcome(busy.pop(number), items[number].name, cluster)
                if outcome is not None:
                    yield number, mapped(outcome, names_back.pop(number))
                elif is_alone:
                    yield number, _deadly(items[number].name)
                else:
                    blamed.append(number)
        finally:
            if busy:
                client.cancel([*busy.values()], force=True)


def client_of(address: str, *, timeout: float) -> Any:
    """A client of the scheduler at the address. Raises what distributed.Client raises; timeout: in seconds."""
    import distributed

    class Client(distributed.Client):  # type: ignore[misc]  # Any: Dask has no hints for it
        def __del__(self) -> None:
            """Do nothing: Dask's own waits for a lock that the thread may hold in which garbage is collected."""

    return Client(address, timeout=timeout, set_as_default=False)


@contextmanager
def _connected(address: str, uses: Sequence[str]) -> Iterator[Any]:
    """A client of the scheduler. Raises UsageError."""
    try:
        import dask
        import distributed  # noqa: F401
    except ImportError:
        problem = "--scheduler needs Dask, which is not installed"
        hint = "install the extra `cluster`: pip install 'cnn-convertor[cluster]', or -e '.[cluster]' in a checkout"
        raise UsageError.of("DV132", problem, hint=hint) from None
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters comes as an exception
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}):  # graphs contain files
        try:
            client = client_of(address, timeout=_CONNECTING)
        except (OSError, ValueError, TypeError) as error:
            problem = (
                f"there is no Dask scheduler at {address}: {str(error).partition(chr(10))[0] or type(error).__name__}"
            )
            hint = "start one with `dask scheduler`, and give the address that it prints, like tcp://host:8786"
            raise UsageError.of("DV133", problem, hint=hint) from None
        try:
            _require_workers(client, address, uses)
            yield client
        finally:
            with suppress(Exception):  # the scheduler has ended, which another exception reports
                client.close(timeout=_CONNECTING)


def _require_workers(client: Any, address: str, uses: Sequence[str]) -> None:
    """Raises UsageError unless there are workers, all with the same versions of what computes."""
    with suppress(TimeoutError):
        client.wait_for_workers(1, timeout=_PATIENCE)
    versions_of_workers = client.run(versions, uses, on_error="return")
    if not versions_of_workers:
        raise _without_workers(address)
    own = versions(uses)
    problems = [_other_versions(worker, its, own) for worker, its in sorted(versions_of_workers.items()) if its != own]
    if problems:
        raise UsageError(problems)


def _without_workers(address: str) -> UsageError:
    hint = f"start workers with `dask worker {address} --nthreads 1`"
    return UsageError.of("DV134", f"the scheduler at {address} has no workers", hint=hint)


def _other_versions(worker: str, reply: object, own: Mapping[str, str]) -> Problem:
    """found: the worker's versions, or why it cannot give them."""
    hint = "install the same versions of the convertor and of what it uses for all workers, and restart them"
    if not isinstance(reply, Mapping):
        return Problem(
            "DV135", f"the worker cannot import this version of cnn-convertor: {reply}", Origin(worker), hint
        )
    its = {name: reply.get(name, "") for name in own}
    differing = [f"{name} {its[name] or 'none'} (here {own[name] or 'none'})" for name in own if its[name] != own[name]]
    return Problem("DV135", f"the worker has {', '.join(differing)}", Origin(worker), hint)


class _WorkerCount:
    """How many workers there are, by an answer that is at most a second old."""

    def __init__(self, client: Any, cluster: Cluster) -> None:
        self._client = client
        self._cluster = cluster
        self._asked = -math.inf
        self._count = 0

    def count(self) -> int:
        """At least 1: work can wait for a worker."""
        if monotonic() - self._asked > 1.0:
            self._count, self._asked = _count_now(self._client, self._cluster), monotonic()
        return max(1, self._count)


def _count_now(client: Any, cluster: Cluster) -> int:
    """How many workers there are. Raises UsageError if the scheduler has ended, which the client may not know yet."""
    try:
        return len(client.nthreads())
    except OSError:
        raise _lost(cluster) from None


class _Files:
    """The files of items on the cluster, once for items in a row that have the same.

    Dask's own uploads cannot carry them: they send each file to every worker through the scheduler, under its last name alone,
    and keep it until the worker ends. A future goes where its items run, and is released with the last of them.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._paths: tuple[Path, ...] = ()
        self._future: Any = None
        self._is_everywhere = True

    def of(self, paths: tuple[Path, ...]) -> Any:
        """A future of what `read_all` gives, which Dask copies between workers, and recomputes if they die; None without files.

        Raises OSError.
        """
        if paths != self._paths:
            key = f"files-{os.urandom(8).hex()}"
            self._future = self._client.submit(dict, read_all(paths), key=key) if paths else None
            self._paths, self._is_everywhere = paths, not paths
        elif (
            not self._is_everywhere
        ):  # otherwise Dask gives all items to the worker that has the files, until others steal some
            self._is_everywhere = True
            with suppress(Exception):  # errors of the cluster also surface through its tasks
                self._future.exception(timeout=_PATIENCE)
                self._client.replicate([self._future], callback_timeout=_PATIENCE)
        return self._future


# --- the outcome of an item --------------------------------------------------------------------------------------------------


def _next(finished: SimpleQueue[int], client: Any, cluster: Cluster) -> int:
    """The number of an item that has ended. Raises UsageError when no worker is left."""
    since = monotonic()
    while True:
        with suppress(Empty):
            return finished.get(timeout=1.0)
        if client.status != "running":
            raise _lost(cluster)
        if _count_now(client, cluster):
            since = monotonic()
        elif monotonic() - since > _PATIENCE:
            raise _without_workers(cluster.address)


def _outcome(future: Any, name: str, cluster: Cluster) -> Outcome[Any] | None:
    """The outcome of an item; None if its workers died. Raises UsageError if the scheduler has ended."""
    import distributed

    try:
        outcome: Outcome[Any] = future.result()  # computed again if the worker that has it dies now
        return outcome
    except distributed.KilledWorker:
        return None
    except (CancelledError, distributed.comm.CommClosedError):
        raise _lost(cluster) from None
    except Exception as error:  # noqa: BLE001  # of any type: it comes from the worker
        hint = "install the same versions of Python, Dask and the convertor on all computers"
        return Outcome(problems=(Problem("DV136", f"the cluster cannot work on {name}: {error!r}", hint=hint),))


def _lost(cluster: Cluster) -> UsageError:
    hint = "look at the log of the scheduler, then repeat the command; finished outputs remain"
    return UsageError.of("DV133", f"the Dask scheduler at {cluster.address} has ended", hint=hint)


def _deadly(name: str) -> Outcome[Any]:
    problem = f"each worker that worked on {name} died"
    hint = "look at the workers' logs; use workers with more memory, or fewer processes on each computer"
    return Outcome(problems=(Problem("DV127", problem, hint=hint),))


# --- on a worker ---------------------------------------------------------------------------------------------------------


class _UnwantedError(BaseException):
    """The client was interrupted or has ended."""


def _at_worker(
    own: Mapping[str, str], uses: Sequence[str], value: Pickled, files: Mapping[str, bytes] | None
) -> Outcome[Any]:
    """Work for a client. own: its versions, for `uses`. value: the work and its item. files: that the item names, or None."""
    import distributed

    worker = distributed.get_worker()
    if (its := versions(uses)) != own:
        return Outcome(problems=(_other_versions(worker.address, its, own),), is_misuse=True)
    _RUNNING.task = worker.state.tasks.get(worker.get_current_task())
    with _IN_TURN, limited(worker.state.nthreads):
        stop_if_unwanted()
        if files is None:
            work, item = unpacked(value)
            ending: Outcome[Any] = work(item)
            return ending
        with placed(files) as (there, back):
            work, item = unpacked(value, there)
            return mapped(work(item), back)


def stop_if_unwanted() -> None:
    """End work whose client was interrupted or has ended. Work calls this between steps; it has an effect only on a cluster."""
    task = getattr(_RUNNING, "task", None)
    if task is not None and task.state == "cancelled":
        raise _UnwantedError
