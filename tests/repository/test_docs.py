"""Pages that are written by hand say what the code says, and name what exists."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor import Config, cli, convert
from cnn_convertor.config import KEYS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
named = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
EXAMPLES = ["digits_keras", "digits_caffe"]


# --- links ---------------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@named
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            there = (page.parent / file).resolve() if file else page
            assert there.exists() and there.is_relative_to(ROOT), target
            assert not anchor or anchor in anchors(there), target


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = (page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md"))
    assert [page for page in pages if f"({page}" not in readme] == []


def test_files_that_contributing_names_exist() -> None:
    """By their whole path, or the end of it."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = [
        *ROOT.glob("*"),
        *(path for part in ("cnn_convertor", "development", "tests") for path in (ROOT / part).rglob("*")),
    ]
    files = [f"/{path.relative_to(ROOT)}" for path in found]
    names = re.findall(r"[\w./-]+\.(?:py|h|cpp|proto|binpb)\b|\btests/[\w/]+", page)
    assert len(names) > 50
    assert [name for name in names if not any(file.endswith(f"/{name.rstrip('/')}") for file in files)] == []


# --- commands, options and keys ------------------------------------------------------------------------------------------


def commands(group: Any = cli.commands, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Each command's words, and its options in every form."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            options = {opt for p in command.params if p.param_type_name == "option" for opt in p.opts}
            yield (*path, name), {*options, "-h", "--help"}


COMMANDS = dict(commands())


def lines_of_code(page: Path) -> Iterator[str]:
    """What a page shows as code, on lines of its own or within text; lines that end in a backslash with the next."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
    fenced = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for block in fenced.findall(text):
        yield from block.splitlines()
    rest = fenced.sub("", text)
    # A call may go on in the next line, deeper indented.
    yield from re.findall(r"^    (\S.*)$", re.sub(r"\n {8,}", " ", rest), re.MULTILINE)
    yield from (" ".join(code.split()) for code in re.findall(r"`([^`]+)`", rest))


def calls(line: str) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """The command that each call of the program in a line names, and the options that it is given."""
    for call in re.split(r"&&|\|\|?(?= )|;", line.partition(" #")[0]):
        found = re.search(r"(?:^|\s|/)(?:convertor\.py|cnn-convertor)\s+(.*)", call)
        if found and "pip " not in call:
            words = re.sub(r"[\[\]]", " ", found[1]).split()
            path = next((c for c in COMMANDS if tuple(words[: len(c)]) == c), ("convert",))
            yield path, {word.partition("=")[0] for word in words if re.match(r"-+[a-z]", word)}


@named
def test_calls_of_the_program_have_options_that_exist(page: Path) -> None:
    wrong = [
        (line, path, options - COMMANDS[path])
        for line in lines_of_code(page)
        for path, options in calls(line)
        if options - COMMANDS[path] - {"--version", "--cmake-dir"}
    ]
    assert wrong == []


def test_calls_are_found_in_the_pages() -> None:
    """The test above would pass on nothing."""
    found = {path for page in PAGES for line in lines_of_code(page) for path, _ in calls(line)}
    assert found == set(COMMANDS)


@named
def test_ini_files_in_pages_have_keys_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```ini\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        section = ""
        for line in block.splitlines():
            if found := re.match(r"\[(\w+)\]", line):
                section = found[1]
            elif (found := re.match(r"(?:; )?(\w+) *=", line)) and section != "QUANTIZATION":
                assert (section, found[1]) in {(key.section, key.name) for key in KEYS}


# --- the examples --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_output_of_an_example_in_the_repository_is_fresh(example: str, tmp_path: Path) -> None:
    config = Config.read(ROOT / "examples" / example / "net.ini")
    made = convert(replace(config, output_folder=tmp_path)).files
    kept = config.output_folder / config.name
    assert {path.name for path in kept.iterdir()} == {path.name for path in made}
    assert [path.name for path in made if path.read_bytes() != (kept / path.name).read_bytes()] == []


# --- terminal sessions ---------------------------------------------------------------------------------------------------

TEXT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSIONS = [
    (page, block) for page in PAGES for block in TEXT.findall(page.read_text("utf-8")) if block.startswith("$ ")
]
STARTS = (
    ".venv/",
    ".ci/",
    "cnn-convertor ",
    "python ",
    "python3 ",
    "pip ",
    "make",
    "c++ ",
    "git ",
    "./",
    "CNN_CONVERTOR",
)  # of commands
# Texts that take a board, a changed input or a larger network.
EXCERPTS = (
    "passed    several runs",
    "pool2 | conv3: its map",
    "examples/digits_keras/output/digits/digits_weights.bin:",
)


def test_every_block_of_text_is_commands_or_a_session_or_known() -> None:
    sessions = {block for _, block in SESSIONS}
    others = [
        (page.name, block)
        for page in PAGES
        if page.name not in {"README.md", "layouts.md"}  # they have tests of their own
        for block in TEXT.findall(page.read_text(encoding="utf-8"))
        if block not in sessions and not all(line.startswith(STARTS) for line in block.splitlines())
    ]
    assert [name for name, block in others if not block.startswith(EXCERPTS)] == []
    assert len({block for _, block in others}) == len(EXCERPTS)  # some are in Japanese pages, too


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("page", "session"), SESSIONS, ids=[page.stem for page, _ in SESSIONS])
def test_a_terminal_session_shows_what_its_command_prints(
    page: Path, session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line `...` stands for any lines."""
    if page.stem == "verify":
        pytest.importorskip("tensorflow")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    command, _, shown = session.partition("\n")
    cli.main(shlex.split(command)[2:])
    printed = capsys.readouterr().out
    if page.stem == "verify":  # the last digits depend on the framework's version
        shown, printed = (re.sub(r" +-?\d[\d.e-]*", " #", text) for text in (shown, printed))
    pattern = "".join(r"(?:.*\n)+" if line.strip() == "..." else re.escape(f"{line}\n") for line in shown.splitlines())
    assert re.fullmatch(pattern, printed), printed


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_readme_shows_what_its_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cv2")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for folder in ("digits_keras", "digits_samples"):
        shutil.copytree(ROOT / "examples" / folder, tmp_path / "examples" / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CNN_CONVERTOR_CACHE", str(tmp_path / "cache"))
    calls, shown = re.findall(r"^```sh\n(.*?)\n```$.*?^```text\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[0]
    for words in map(shlex.split, calls.split(" && ")):
        if words[1:2] == ["convertor.py"]:
            assert cli.main(words[2:]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(shown.splitlines()) == len(printed) > 1
    for ours, theirs in zip(shown.splitlines(), printed, strict=True):
        if number := re.fullmatch(r"(  \d  )(\S+)", ours):  # the last digits of a softmax are the C library's
            assert theirs.startswith(number[1])
            assert float(theirs.split()[1]) == pytest.approx(float(number[2]), rel=1e-3)
        else:
            assert ours == theirs
