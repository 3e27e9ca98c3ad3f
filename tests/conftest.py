"""What all tests share."""

from __future__ import annotations

import gc
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import pytest

# numpy starts its threads when it loads. Two processes of tests on two processors leave nothing for them to do.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

from cnn_convertor.files.codes import entries
from cnn_convertor.files.temporary import one_at_a_time
from cnn_convertor.frontends.keras.model_files import OpenedModel
from cnn_convertor.passes.contract import CHECK
from repository import raised_codes

# The hundreds of Python processes of a run read modules as bytecode; without, each compiles them again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault(CHECK, "1")  # what passes require and ensure, for the networks of every test
os.environ.setdefault("DMP_DV_STRICT", "1")  # of every program that a test runs on the emulated device
# TensorFlow reads it once, in whichever test imports it first. With oneDNN it crashes in pools without outputs, which Keras's
# adaptive pools make.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
# Hypothesis: a busy machine takes longer, and what fails must fail again. `--hypothesis-profile random` takes other examples.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("random", settings.get_profile("tests"), derandomize=False)
settings.load_profile("tests")


TURNS = 12  # commits in a row whose runs have all rotating cases, unless their marker says otherwise
MOST_ALONE = 5  # tests of a file in a process of its own: what a file lacks alone, most of its tests lack


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of models and test vectors beside the checkout; tests that need it are skipped where it is missing."""
    folder = Path(os.environ.get("CNN_CONVERTOR_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "vectors").is_dir():
        pytest.skip(f"no test vectors in {folder}")
    return folder


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all processes of a session."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@pytest.fixture(scope="session")
def _standard_headers(session_folder: Path) -> Path:
    """A header with those that generated networks include, to compile them once instead of with each network."""
    path = session_folder / "standard.h"
    system = ["sys/ioctl.h", "sys/time.h", "sys/types.h", "time.h", "unistd.h"]
    library = (
        "algorithm cmath cstddef cstdint cstring fstream functional iomanip iostream sstream string utility vector"
    )
    own = path.with_name(f"standard-{os.getpid()}.h")
    own.write_text("".join(f"#include <{name}>\n" for name in [*system, *library.split()]), encoding="utf-8")
    return own.replace(path)  # whole, whenever another process reads it


@pytest.fixture(scope="session", autouse=True)
def _compiled(session_folder: Path, _standard_headers: Path) -> Iterator[None]:
    """One cache for all that is compiled in a session, which leaves the user's alone."""
    from cnn_convertor.emulation import build

    with pytest.MonkeyPatch.context() as patch:
        if "CNN_CONVERTOR_CACHE" not in os.environ:
            patch.setenv("CNN_CONVERTOR_CACHE", str(session_folder / "compiled"))
        command = shlex.split(os.environ.get("CXX", "g++"))
        if command[0] == "g++":
            # Half the time of -O1, at which commands compile. With options for vectors, g++ 12 crashes on a precompiled header.
            linker = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []  # takes half the time of the usual linker
            flags = (*build.NETWORK_FLAGS, "-O0", *linker, "-include", str(_standard_headers))

            @cache
            def network_flags() -> tuple[str, ...]:
                _precompile(_standard_headers, [*command, *flags])
                return flags

            patch.setattr(build, "network_flags", network_flags)
        yield


def _precompile(header: Path, command: list[str]) -> None:
    """One process does it, for all networks of the session."""
    precompiled = header.with_suffix(".h.gch")
    with one_at_a_time(header.with_suffix(".lock")):
        if not precompiled.exists():
            subprocess.run([*command, "-x", "c++-header", "/dev/null", "-o", f"{precompiled}.new"], check=True)
            Path(f"{precompiled}.new").replace(precompiled)


@pytest.fixture(scope="session")
def compiler(_compiled: None) -> None:
    """The emulated device, which one process compiles for all; without a compiler, what needs one is skipped."""
    if shutil.which(os.environ.get("CXX", "g++").split()[0]) is None:
        pytest.skip("there is no C++ compiler")
    from cnn_convertor.emulation.build import device_library
    from cnn_convertor.workers.compiler import find_compiler

    device_library(find_compiler())


@pytest.fixture
def keras_reads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras reads a model once for all verifications of a test."""
    from cnn_convertor.verification import keras_models, keras_runner

    models: dict[tuple[Any, ...], Any] = {}

    def load(opened: OpenedModel, *arguments: Any) -> Any:
        key = (opened.path, *map(repr, arguments))
        return models[key] if key in models else models.setdefault(key, keras_models.load_model(opened, *arguments))

    monkeypatch.setattr(keras_runner, "load_model", load)


@pytest.fixture
def hdf5_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """libhdf5 reads a test's many files here: they are good ones, and to fork a process with TensorFlow takes longer than all else."""
    monkeypatch.setattr("cnn_convertor.frontends.keras.hdf5.isolated", lambda function, **_limits: function())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each process takes one stretch of the tests, so that what a folder's tests share is seldom made twice.

    An option --dist of the user's counts more.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests, and the modules that they import, stay to the end: the garbage collector never looks at them."""
    gc.disable()
    yield
    gc.enable()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts anew instead of comparing")
    parser.addoption(
        "--every-code", action="store_true", help="fail unless the run raises every code of docs/messages.md"
    )
    parser.addoption("--random-networks", type=int, default=50, help="random networks to compare for each framework")
    parser.addoption("--random-seed", type=int, default=0, help="seed of the first of these networks")
    parser.addoption(
        "--turn",
        type=int,
        metavar="NUMBER",
        help="of the cases marked as rotating, run only those of the commit of this number",
    )
    parser.addoption(
        "--shuffled", type=int, metavar="SEED", help=f"run {MOST_ALONE} tests that compile nothing, at random"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After -m and -k have chosen."""
    if (turn := config.getoption("--turn")) is not None:
        _keep(config, items, [item for item in items if _has_its_turn(item, turn)])
    seed = config.getoption("--shuffled")
    if seed is None:
        return
    cheap = [
        item for item in items if "compiler" not in getattr(item, "fixturenames", ())
    ]  # each process compiles anew
    random.Random(seed).shuffle(cheap)
    _keep(config, items, cheap[:MOST_ALONE])


def _has_its_turn(item: pytest.Item, turn: int) -> bool:
    """Cases of one name, such as a network's, have the same turn: what they share is made once. `case` names those of a file."""
    marker = item.get_closest_marker("rotating")
    if marker is None:
        return True
    turns: int = marker.kwargs.get("turns", TURNS)
    case = marker.kwargs.get("case") or (item.callspec.id if hasattr(item, "callspec") else item.nodeid)
    return (crc32(case.encode()) + turn) % turns == 0


def _keep(config: pytest.Config, items: list[pytest.Item], chosen: list[pytest.Item]) -> None:
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # by a shell that runs the tests in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # programs that tests interrupt would inherit it
    if config.getoption("--every-code"):
        if not _is_worker(config):  # the first process; xdist's workers inherit its environment
            os.environ[raised_codes.FOLDER] = tempfile.mkdtemp(prefix="cnn-convertor-codes-")
        raised_codes.start(Path(os.environ[raised_codes.FOLDER]))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With --every-code, a run that passes and misses a code fails."""
    if session.config.getoption("--every-code") and not _is_worker(session.config):
        folder = Path(os.environ.pop(raised_codes.FOLDER))
        missing = sorted(set(entries()) - raised_codes.raised(folder))
        shutil.rmtree(folder)
        if missing:
            print(f"\nno test raises {', '.join(missing)}")  # noqa: T201  # the run's verdict
            if exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.fixture
def random_seeds(request: pytest.FixtureRequest) -> range:
    """The seeds of the networks that a test compares."""
    first = request.config.getoption("--random-seed")
    return range(first, first + request.config.getoption("--random-networks"))


Golden: TypeAlias = Callable[[str, str], None]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with the file of that name in tests/golden; --update-golden writes the file instead."""
    folder = Path(__file__).parent / "golden"

    def compare(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.exists(), f"there is no {path}; run pytest with --update-golden, and look at what it writes"
        assert text == path.read_text(encoding="utf-8")

    return compare
