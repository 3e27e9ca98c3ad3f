"""Places what another user of the computer could place wherever the convertor opens something.

python -m development.benchmarks.strangers [--count N] [--first N], as root, which can give files to another user.

Each case is a place, a kind of file and a command, which runs in a process of its own beside the files of its user. Fails when
one of these is lost, when something behind a link is written, when a command takes more than five seconds, or shows a traceback.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from cnn_convertor.cli import main as convertor

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOBODY = 65534
LONGEST = 5.0  # seconds of a command
ENDLESS = 30.0  # seconds after which it is killed
UNFINISHED = ".unfinished-"

COMMANDS = {  # command -> what it opens by a name that its user chooses
    "convert net.ini": ("net.ini", "digits.keras", "out/digits/digits_gen.cpp", "out/digits/digits.json"),
    "convert caffe.ini": ("caffe.ini", "digits.prototxt", "digits.caffemodel"),
    "convert onnx.ini": ("onnx.ini", "net.onnx", "net.data"),
    "convert custom.ini": ("custom.ini", "custom.py"),
    "convert net.ini --cache cache": ("net.ini", "digits.keras"),
    "convert net.ini --device device.toml": ("device.toml",),
    "convert net.ini --calibrate samples.npz": ("samples.npz",),
    "convert net.ini --depfile dep": ("net.ini",),
    "cache stats cache": (),
    "cache clear cache": (),
    "inspect net.onnx": ("net.onnx", "net.data"),
    "inspect digits.h5": ("digits.h5",),
    "init digits.keras -o new.ini": ("digits.keras",),
    "passes net.ini": ("net.ini", "digits.keras"),
    "check net.ini": ("net.ini", "out/digits/digits_gen.h", "out/digits/digits_weights.bin", "out/digits/digits.json"),
    "report net.ini --json report.json": ("digits.keras", "net.ini"),
    "report net.ini --compare old.json --html report.html": ("old.json",),
    "audit out/digits/digits_gen.cpp": ("out/digits/digits_gen.cpp", "out/digits/digits_weights.bin", "out/digits/digits.json"),
    "layouts plan table.csv": ("table.csv",),
    "run net.ini --inputs samples.npy --labels labels.txt": ("samples.npy", "labels.txt"),
    "run net.ini --inputs image.png": ("image.png",),
}  # fmt: skip
OUTPUTS = {  # what commands write by a name that their user chooses
    "convert net.ini": ("out", "out/digits", "out/digits/digits_weights.bin"),
    "convert net.ini --depfile dep": ("dep",),
    "init digits.keras -o new.ini": ("new.ini",),
    "report net.ini --json report.json": ("report.json",),
    "report net.ini --compare old.json --html report.html": ("report.html",),
}
OWN = (  # names that the convertor chooses; every command may meet them
    f"out/.digits{UNFINISHED}x",
    f"out/digits/.digits{UNFINISHED}x",
    f"../.case{UNFINISHED}x",
    f".out{UNFINISHED}x",
    "tmp/cnn-convertor-x.temporary",
    "tmp/cnn-convertor-x.temporary/lock",
    "tmp/cnn-convertor-0",
    "cache",
    "cache/CACHEDIR.TAG",
    "cache/entries",
    "cache/files",
    "cache/work",
    "cache/work/cnn-convertor-x.temporary",
    "compiled",
    f"compiled/{UNFINISHED}x.temporary",
    f"compiled/{UNFINISHED}x.temporary/lock",
)


class Case(NamedTuple):
    place: str
    kind: str
    command: str


def foreign(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def journal(path: Path, mine: Path) -> None:
    """The rest of a killed run that would replace and remove files."""
    for place in (path, path / "new", path / "old", path / "files"):
        place.mkdir(mode=0o777, parents=True)
    (path / "journal.json").write_text('{"replaced": ["digits.json"], "added": ["digits_gen.h", "net.ini"]}')
    (path / "old" / "digits.json").write_text("theirs")
    (path / "lock").symlink_to(mine / "new")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(path.parent, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


KINDS: Mapping[str, Callable[[Path, Path], object]] = {
    "a file": lambda path, _: path.write_text("theirs"),
    "a folder": lambda path, _: path.mkdir(),
    "a folder with a journal": journal,
    "a pipe": lambda path, _: os.mkfifo(path),
    "a socket": lambda path, _: listening(path),
    "an endless device": lambda path, _: os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5)),
    "a link to an endless device": lambda path, _: path.symlink_to("/dev/zero"),
    "a link to a file": lambda path, mine: path.symlink_to(mine / "file"),
    "a link to a folder": lambda path, mine: path.symlink_to(mine),
    "a link to nothing": lambda path, mine: path.symlink_to(mine / "new"),
    "a link to itself": lambda path, _: path.symlink_to(path.name),
}
LINKS = {kind for kind in KINDS if "link" in kind}


def cases() -> Iterator[Case]:
    """All of them. Whoever owns a link that a user names as an output wants it to be followed."""
    for command, inputs in COMMANDS.items():
        for place, kind, owner in product((*inputs, *OWN), KINDS, ("", " of another user")):
            yield Case(place, kind + owner, command)
    for command, outputs in OUTPUTS.items():
        for place, kind, owner in product(outputs, KINDS, ("", " of another user")):
            if owner or kind not in LINKS:
                yield Case(place, kind + owner, command)


def prepare(folder: Path) -> None:
    """The files of a user, and what two conversions of them leave."""
    import onnx

    for name in ("digits_keras/net.ini", "digits_keras/digits.keras", "digits_caffe/digits.prototxt", "digits_caffe/digits.caffemodel"):  # fmt: skip
        shutil.copy(EXAMPLES / name, folder)
    shutil.copy(EXAMPLES / "digits_keras" / "digits_keras2.h5", folder / "digits.h5")
    onnx.save(
        onnx.load(EXAMPLES / "digits_pytorch" / "digits.onnx"),
        folder / "net.onnx",
        save_as_external_data=True,
        location="net.data",
        size_threshold=0,
    )
    output = "[OUTPUT]\noutput_folder = out\n"
    text = (folder / "net.ini").read_text().replace("output_folder = output", "output_folder = out")
    (folder / "net.ini").write_text(text)
    (folder / "custom.ini").write_text(text.replace("[OUTPUT]", "custom_layer = custom.py\n[OUTPUT]"))
    (folder / "caffe.ini").write_text(
        f"[INPUT]\nname = caffe\ndefinition = digits.prototxt\ndata = digits.caffemodel\n{output}"
    )
    (folder / "onnx.ini").write_text(f"[INPUT]\nname = onnx\ndefinition = net.onnx\n{output}")
    (folder / "custom.py").write_text("custom_layer = {}\n")
    (folder / "device.toml").write_text('base = "dv700"\n')
    (folder / "labels.txt").write_text("\n".join(map(str, range(10))))
    (folder / "table.csv").write_text("id,lower,upper,size\na,0,1,16\n")
    with np.load(EXAMPLES / "digits_test.npz") as arrays:
        images = next(arrays[name] for name in arrays.files if arrays[name].ndim >= 3)[:2].astype(np.float32)
    shutil.copy(next((EXAMPLES / "digits_samples").rglob("*.png")), folder / "image.png")
    np.save(folder / "samples.npy", images.reshape(2, *images.shape[1:3], 1))
    np.savez(folder / "samples.npz", input=images.reshape(2, *images.shape[1:3], 1))
    for place in ("tmp", "compiled"):
        (folder / place).mkdir(mode=0o755)
    (folder / "tmp").chmod(0o1777)
    for command in (
        "report net.ini --json old.json",
        "convert net.ini --cache cache",
        "run net.ini --inputs image.png",
    ):
        _, code, said = outcome(folder, command, "g++", 600)
        if code:
            raise click.ClickException(f"{command}: {said}")


def outcome(folder: Path, command: str, compiler: str, longest: float = ENDLESS) -> tuple[float, int, str]:
    """Seconds, exit code or -signal, and what a command prints in a folder."""
    with tempfile.TemporaryFile() as stream:
        begin = time.monotonic()
        child = os.fork()
        if not child:
            _run(folder, command, compiler, stream.fileno())
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() - begin > longest:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.005)
        seconds = time.monotonic() - begin
        stream.seek(0)
        return seconds, os.waitstatus_to_exitcode(ended[1]), stream.read().decode(errors="replace")


def _run(folder: Path, command: str, compiler: str, stream: int) -> None:
    """In the child. No case compiles: the compiler does nothing, and what runs was compiled before."""
    try:
        os.setpgid(0, 0)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.chdir(folder)
        tempfile.tempdir = str(folder / "tmp")
        os.environ.update(CNN_CONVERTOR_CACHE=str(folder / "compiled"), CXX=compiler, TMPDIR=tempfile.tempdir)
        code = convertor(command.split())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    except BaseException:  # noqa: BLE001  # the parent looks for its traceback
        sys.excepthook(*sys.exc_info())
    os._exit(99)


def tree(folder: Path, *without: str) -> dict[str, bytes | None]:
    """The user's files with their contents, without some places; links and special files have none."""
    paths: dict[str, bytes | None] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            key = path.relative_to(folder).as_posix()
            if not any(key == place or key.startswith(f"{place}/") for place in without):
                paths[key] = path.read_bytes() if path.is_file() and not path.is_symlink() else None
    return paths


def faults(case: Case, template: Path, root: Path) -> list[str]:
    """What goes wrong in one case."""
    folder, mine = root / "case", root / "mine"
    shutil.copytree(template, folder, symlinks=True)
    mine.mkdir(mode=0o700)
    (mine / "file").write_text("mine")
    for shared in (root, folder, folder / "out"):
        shared.chmod(0o1777)
    path = folder / case.place
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    kind = case.kind.removesuffix(" of another user")
    for parent in [each for each in (path.parent, path.parent.parent) if not each.exists()]:
        parent.mkdir(parents=True)
        if kind != case.kind:
            foreign(parent)
    KINDS[kind](path, mine)
    if kind != case.kind:
        for each in (path, *(path.rglob("*") if path.is_dir() and not path.is_symlink() else ())):
            foreign(each)
    written = {name for names in OUTPUTS.values() for name in names}
    changing = (case.place, "cache", "tmp", "compiled", *written)
    before, before_mine = tree(folder, *changing), tree(mine)
    seconds, code, said = outcome(folder, case.command, "true")
    if LONGEST < seconds < ENDLESS:  # on a busy computer; what hangs does so every time
        seconds, code, said = outcome(folder, case.command, "true")
    wrong = []
    if seconds > LONGEST:
        wrong.append("hangs")
    if code not in (0, 1, 2) or "Traceback" in said or "DV000" in said:
        wrong.append(f"ends with {code}: {said[-300:]}")
    if tree(mine) != before_mine:
        wrong.append("follows a link")
    after = tree(folder, *changing)
    if lost := [name for name, content in before.items() if after.get(name, b"") != content]:
        wrong.append(f"loses {', '.join(lost)}")
    if code == 0 and case.command.startswith("convert net.ini") and not (folder / "out/digits/digits_gen.h").is_file():
        wrong.append("loses its outputs")
    return wrong


def run(count: int, first: int = 0) -> tuple[Counter[str], list[str]]:
    """How often each end comes, over so many cases, and what is wrong."""
    chosen = list(cases())
    random.Random(1).shuffle(chosen)
    ends: Counter[str] = Counter()
    wrong = []
    with tempfile.TemporaryDirectory() as temporary:
        template = Path(temporary) / "template"
        template.mkdir()
        prepare(template)
        for number, case in enumerate(chosen[first : first + count]):
            root = Path(temporary) / str(number)
            root.mkdir()
            reasons = faults(case, template, root)
            ends.update([reason.partition(" ")[0].rstrip(":") for reason in reasons] or ["nothing wrong"])
            wrong += [f"{case.place}, {case.kind}, {case.command}: {reason}" for reason in reasons]
            shutil.rmtree(root)
    return ends, wrong


@click.command()
@click.option("--count", default=2000, help="Cases.")
@click.option("--first", default=0, help="Where in their order to begin.")
def main(count: int, first: int) -> None:
    if os.geteuid() != 0:
        raise click.ClickException("only root can give files to another user")
    ends, wrong = run(count, first)
    for line in wrong:
        click.echo(line)
    click.echo(f"{sum(1 for _ in cases()):,} cases, of which {count:,} ran: {dict(ends)}")
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
