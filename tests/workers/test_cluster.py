"""Work on a Dask cluster gives the same results as in one process, even if workers die."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from cnn_convertor import cli
from cnn_convertor.errors import UsageError
from cnn_convertor.files import hashing
from cnn_convertor.workers import cluster
from cnn_convertor.workers.cluster import Cluster, _Files, _next, _WorkerCount
from cnn_convertor.workers.outcomes import Item, Outcome
from cnn_convertor.workers.processes import spread
from development.benchmarks.loopback import LONG, Running, running, wait_for
from workers import cluster_work

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits_keras"
NAMES = [f"n{i}" for i in range(4)]


def dask(*, workers: int, options: Sequence[str] = ()) -> AbstractContextManager[Running]:
    """A cluster that can import `cluster_work`, and gives up an item at the second worker's death."""
    limit = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    return running(workers, options=options, environment=limit, modules=[ROOT / "tests"])


@pytest.fixture(scope="module")
def address(compiler: None) -> Iterator[str]:
    """A scheduler with two workers, which come back when they die."""
    with dask(workers=2) as cluster:
        yield cluster.address


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler that does not answer is given up soon."""
    monkeypatch.setattr(cluster, "_CONNECTING", 0.5)


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with networks, of which the third cannot be converted; it is in the working directory."""
    for name in NAMES:
        folder = tmp_path / "nets" / name
        folder.mkdir(parents=True)
        layer = "Unknown" if name == NAMES[2] else "ReLU"
        (folder / "net.prototxt").write_text(
            'input: "x" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n'
            f'layer {{ name: "r" type: "{layer}" bottom: "x" top: "y" }}\n'
        )
        (folder / "net.ini").write_text(
            f"[INPUT]\nname = {name}\ndefinition = net.prototxt\nkey = 1\n[OUTPUT]\noutput_folder = out\n"
        )
    monkeypatch.chdir(tmp_path)
    return Path("nets")


def converted(
    nets: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, str, list[str], dict[str, bytes]]:
    """The exit code, what is printed, and the outputs, which are removed."""
    code = cli.main([str(nets), *options])
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not re.match(r"n\d: ", line)]
    outputs = {}
    for path in sorted(nets.glob("*/out/*/*")):
        outputs[str(path)] = path.read_bytes()
        path.unlink()
    return code, out, lines, outputs


# --- the same as here ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--ship"]], ids=["shared folder", "ship"])
def test_conversions_print_and_write_the_same(
    nets: Path, address: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The workers have another working directory, so relative paths are found only if they travel as whole ones."""
    here = converted(nets, capsys)
    assert here[0] == 1 and {path.split("/")[1] for path in here[3]} == {*NAMES} - {NAMES[2]}
    assert converted(nets, capsys, "--scheduler", address, *options) == here


def test_files_that_are_shipped_are_read_from_another_place(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of the user's leaves a note of where it is when it runs."""
    note = tmp_path / "note"
    (tmp_path / "layers.py").write_text(
        f"import pathlib\npathlib.Path({str(note)!r}).write_text(__file__)\ncustom_layer = {{}}\n"
    )
    (tmp_path / "net.ini").write_text(
        f"[INPUT]\nname = n\ndefinition = {DIGITS / 'digits.keras'}\ncustom_layer = layers.py\n[OUTPUT]\noutput_folder = out\n"
    )
    monkeypatch.chdir(tmp_path)
    for options, is_there in (([], True), (["--ship"], False)):
        assert cli.main(["-q", "net.ini", "--scheduler", address, *options]) == 0
        assert (Path(note.read_text()) == tmp_path / "layers.py") == is_there
        assert Path("out/n/n_weights.bin").exists()


def test_a_sweep_is_the_same(address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DIGITS)
    shown = []
    for options in ([], ["--scheduler", address]):
        assert cli.main(["sweep", "net.ini", "--vary", "fusion=none,proven", *options]) == 0
        shown.append(capsys.readouterr())
    assert shown[0] == shown[1]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_a_verification_is_the_same(address: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    found = []
    for options in ([], ["--scheduler", address, "--ship"]):
        file = tmp_path / "verification.json"
        call = ["verify", str(ROOT / "examples/digits_pytorch/net.ini"), "--samples", "300", "--json", str(file)]
        assert cli.main([*call, *options]) == 0
        found.append(file.read_bytes())
    assert json.loads(found[0])["samples"] == 300
    assert found[0] == found[1]


def test_a_worker_divides_no_further_than_its_threads(address: str) -> None:
    ((_, outcome),) = spread(cluster_work.share_of, [Item(0, "x")], on=Cluster(address))
    assert outcome.result == 1


# --- what goes wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_death_of_workers_costs_what_kills_each_of_them(address: str, tmp_path: Path) -> None:
    items = [Item((number, tmp_path), f"n{number}") for number in range(6)]
    found = dict(spread(cluster_work.deadly, items, on=Cluster(address)))
    assert [found[number].result for number in range(6)] == [0, 1, 2, None, 4, 5]
    (problem,) = found[3].problems
    assert (problem.code, problem.message) == ("DV127", "each worker that worked on n3 died")
    assert "--jobs" not in problem.hint, "n3 can be a batch of samples"


@pytest.mark.slow
def test_the_death_of_the_scheduler_ends_all() -> None:
    """What was done before stays."""
    items = [Item(number, str(number)) for number in range(100_000)]
    with dask(workers=1, options=["--no-nanny"]) as (address, processes):
        found = spread(cluster_work.square, items, on=Cluster(address))
        number, first = next(found)
        assert first.result == number**2
        processes[0].kill()
        processes[0].wait()  # its connections close before it has ended, and a running scheduler would be shut down
        with pytest.raises(UsageError, match=f"DV133: the Dask scheduler at {address} has ended"):
            assert all(outcome.result == number**2 for number, outcome in found)


@pytest.mark.parametrize("when", ["before an item", "while items run"])
def test_a_scheduler_that_does_not_answer_any_more_has_ended(when: str) -> None:
    """The connection may break before the client notices it."""

    class Client:
        status = "running"

        def nthreads(self) -> dict[str, int]:
            raise OSError("Timed out trying to connect")

    gone = Cluster("tcp://a:1")
    with pytest.raises(UsageError, match="DV133: the Dask scheduler at tcp://a:1 has ended"):
        _WorkerCount(Client(), gone).count() if when == "before an item" else _next(SimpleQueue(), Client(), gone)


def test_files_that_cannot_be_read_cost_one_item(address: str) -> None:
    """Nothing lies at the beginning of a process's memory."""
    items = [Item(number, str(number), (Path("/proc/self/mem"),) * (number == 1)) for number in range(3)]
    found = dict(spread(cluster_work.square, items, on=Cluster(address)))
    assert [found[number].result for number in range(3)] == [0, None, 4]
    assert [problem.code for problem in found[1].problems] == ["DV113"]


def test_each_worker_gets_the_files_that_several_items_carry(address: str, tmp_path: Path) -> None:
    """Dask would give all items to the only worker that has their files."""
    from distributed import Client

    file = tmp_path / "file"
    file.write_bytes(b"content")
    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=LONG)  # an earlier test may have killed one, which starts again
        files = _Files(client)
        first = files.of((file,))
        assert files.of((file,)) is first
        assert set(client.who_has([first])[first.key]) == set(client.nthreads())
        assert len(client.nthreads()) == 2
        other = files.of((ROOT / "README.md",))
        assert other.result() != first.result() and len(client.who_has([other])[other.key]) == 1


def test_workers_that_cannot_copy_the_files_hold_up_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask repeats what fails, without an end where workers do not reach each other."""
    from distributed import Client

    ended = []

    async def without_end(*_: object, **__: object) -> None:
        await asyncio.sleep(LONG)
        ended.append(True)

    monkeypatch.setattr(cluster, "_PATIENCE", 0.5)
    monkeypatch.setattr(Client, "_replicate", without_end)
    with Client(address, set_as_default=False) as client:
        files = _Files(client)
        assert files.of((DIGITS,)) is files.of((DIGITS,))
    assert not ended


def waiting_network(folder: Path) -> tuple[Path, Path]:
    """Write a network whose conversion makes the first file, with the number of its process, and waits for the second."""
    begun, go = (folder / name for name in ("begun", "go"))
    (folder / "layers.py").write_text(
        "import os, pathlib, time\n"
        f"begun, go = pathlib.Path({str(begun.absolute())!r}), pathlib.Path({str(go.absolute())!r})\n"
        'own = begun.with_suffix(".own")\n'
        "own.write_text(str(os.getpid()))\n"
        "own.replace(begun)\n"
        "while not go.exists(): time.sleep(0.05)\n"
        "custom_layer = {}\n"
    )
    (folder / "net.ini").write_text(
        f"[INPUT]\nname = {folder.name}\ndefinition = {DIGITS / 'digits.keras'}\ncustom_layer = layers.py\n"
        "[OUTPUT]\noutput_folder = out\n"
    )
    return begun, go


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_a_worker_that_dies_in_a_conversion_leaves_no_trace(nets: Path, address: str) -> None:
    """Another worker converts the network."""
    folder = nets / NAMES[0]
    begun, go = waiting_network(folder)
    call = [sys.executable, str(ROOT / "convertor.py"), "-q", str(folder / "net.ini")]
    with subprocess.Popen([*call, "--scheduler", address]) as command:
        try:
            wait_for(begun.exists)
            os.kill(int(begun.read_text()), signal.SIGKILL)
        finally:
            go.touch()
        assert command.wait(LONG) == 0
    found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("out/**/*") if path.is_file()}
    shutil.rmtree(folder / "out")
    subprocess.run(call, check=True)
    assert found == {path.relative_to(folder): path.read_bytes() for path in folder.rglob("out/**/*") if path.is_file()}
    assert not [*nets.rglob("*unfinished*")]


@pytest.mark.slow
def test_an_interruption_cancels_and_leaves_nothing(nets: Path, address: str) -> None:
    """Work that has begun ends when it next looks, and writes nothing."""
    import distributed

    begun, go = waiting_network(nets / NAMES[2])
    call = [sys.executable, str(ROOT / "convertor.py"), "nets", "--scheduler", address]
    command = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(begun.exists)
        command.send_signal(signal.SIGINT)
        _, err = command.communicate(timeout=LONG)
    finally:
        go.touch()
        command.kill()
    assert command.returncode == 130
    assert err.endswith("interrupted\n") and "Traceback" not in err
    with distributed.Client(address, timeout=LONG, set_as_default=False) as client:
        wait_for(lambda: not any(client.run(cluster_work.running).values()))
    assert not [*(nets / NAMES[2]).rglob("out/*")] and not [*nets.rglob("*unfinished*")]


def test_a_worker_of_another_version_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "__version__", "9.9")
    with pytest.raises(UsageError, match=r"DV135: the worker has cnn-convertor .* \(here 9\.9 [^,]*\)\n"):
        list(spread(cluster_work.square, [Item(1, "x")], on=Cluster(address)))


def test_a_worker_with_another_library_is_refused_where_the_work_uses_it(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def squares(*uses: str) -> list[tuple[int, Outcome[int]]]:
        return list(spread(cluster_work.square, [Item(3, "x")], on=Cluster(address), uses=uses))

    version = hashing._version  # noqa: SLF001
    with monkeypatch.context() as patch:
        patch.setattr(hashing, "_version", lambda name: "9.9" if name == "onnxruntime" else version(name))
        with pytest.raises(UsageError, match=r"DV135: the worker has onnxruntime \S+ \(here 9\.9\)\n"):
            squares("onnxruntime")
        assert squares() == [(0, Outcome(9))]
    monkeypatch.setattr(hashing, "_version", lambda name: "" if name == "numpy" else version(name))
    with pytest.raises(UsageError, match=r"DV135: the worker has numpy \S+ \(here none\)\n"):
        squares()


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_connections_with_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/cluster.md describes them. Whoever has none is refused."""
    import dask.config

    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make certificates")
    key, certificate = (str(tmp_path / name) for name in ("key.pem", "certificate.pem"))
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    subprocess.run([*make.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    files = {"tls.ca-file": certificate}
    for who in ("client", "scheduler", "worker"):
        files |= {f"tls.{who}.cert": certificate, f"tls.{who}.key": key}
    given = {f"distributed.comm.{name}": value for name, value in {"require-encryption": "True", **files}.items()}
    variables = {"DASK_" + re.sub(r"\W", "_", n.replace(".", "__")).upper(): value for n, value in given.items()}

    def squares(address: str) -> list[tuple[int, Outcome[int]]]:
        return list(spread(cluster_work.square, [Item(3, "x")], on=Cluster(address)))

    server = running(1, of_scheduler=["--protocol", "tls"], environment=variables, modules=[ROOT / "tests"])
    with dask.config.set(given), server as (address, _):
        assert address.startswith("tls://") and squares(address) == [(0, Outcome(9))]
        monkeypatch.setattr(cluster, "_CONNECTING", 2.0)
        for refused in (address, address.replace("tls://", "tcp://")):
            with dask.config.set(dict.fromkeys(given)), pytest.raises(UsageError, match="DV133"):
                squares(refused)


def test_what_the_engine_refuses_is_an_error_of_one_item(address: str) -> None:
    ((_, outcome),) = spread(cluster_work.broken, [Item(1, "x")], on=Cluster(address))
    assert [problem.code for problem in outcome.problems] == ["DV136"]
    assert outcome.problems[0].message == "the cluster cannot work on x: ValueError('no 1')"


def test_no_scheduler_is_an_error_within_seconds(hurried: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(DIGITS / "net.ini"), "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "error DV133: there is no Dask scheduler at tcp://127.0.0.1:9" in capsys.readouterr().err


def test_a_cluster_without_workers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        status = "running"

        def __init__(self, *_: object, **__: object) -> None: ...

        def wait_for_workers(self, *_: object, **__: object) -> None:
            raise TimeoutError

        def run(self, *_: object, **__: object) -> dict[str, Any]:
            return {}

        def close(self, *_: object, **__: object) -> None: ...

    monkeypatch.setattr("distributed.Client", Client)
    with pytest.raises(UsageError, match="DV134: the scheduler at tcp://a:1 has no workers"):
        list(spread(cluster_work.square, [Item(1, "x")], on=Cluster("tcp://a:1")))


def test_without_dask_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match="DV132"):
        list(spread(cluster_work.square, [Item(1, "x")], on=Cluster("tcp://a:1")))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scheduler", "localhost:8786"], "is not an address like"),
        (["--scheduler", "tcp://a:1", "--jobs", "2"], "give --jobs"),
        (["--ship"], "--ship sends files"),
        (["--scheduler", "tcp://a:1", "--ship", "--cache", "c"], "--cache does not go with --ship"),
        (["--scheduler", "tcp://a:1", "--depfile", "d"], "--depfile does not go with --scheduler"),
    ],
)
def test_options_that_contradict_each_other(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(DIGITS / "net.ini"), *options]) == 2
    err = capsys.readouterr().err
    assert "error DV100" in err and said in err


@pytest.mark.slow
def test_clients_that_found_no_scheduler_stop_no_other(hurried: None) -> None:
    """Dask closes an abandoned client wherever garbage is collected, also while another takes its lock."""
    from distributed.utils import LoopRunner

    with pytest.raises(UsageError, match="DV133"):
        list(spread(cluster_work.square, [Item(1, "x")], on=Cluster("tcp://127.0.0.1:9")))
    with LoopRunner._lock:  # noqa: SLF001
        gc.collect()  # a deadlock, if a client waits for the lock here
