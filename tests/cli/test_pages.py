from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cnn_convertor import cli
from cnn_convertor.cli import pages
from cnn_convertor.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
CODES = re.findall(r"^\| (DV\d{3})", MESSAGES, re.MULTILINE)


def test_every_page_of_the_folder_is_listed_with_its_title() -> None:
    english = (path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "ja")
    assert sorted(pages.names()) == sorted(path.stem for path in english)
    assert list(pages.names())[-1] == "security"
    assert pages.names()["messages"] == "Errors and warnings"


def test_a_japanese_locale_shows_pages_in_japanese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    assert next(iter(pages.names().items())) == ("start", "はじめに")
    assert "変換" in pages.text_of("start") and "ファームウェア" in pages.text_of("usage")
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    monkeypatch.setenv("LANG", "ja_JP.UTF-8")
    assert "start" not in pages.names()


def test_a_page_is_found_by_its_name_file_or_path() -> None:
    assert {pages.text_of(topic) for topic in ("messages", "MESSAGES.md", "docs/messages.md")} == {MESSAGES}
    security = (ROOT / "docs" / "internals" / "security.md").read_text(encoding="utf-8")
    assert {pages.text_of(topic) for topic in ("security", "docs/internals/security.md")} == {security}


def test_every_code_has_an_entry() -> None:
    assert len(CODES) > 100
    for code in CODES:
        title, cause, remedy = pages.text_of(code.lower()).strip().split("\n\n")
        assert title.startswith(f"# {code}"), code
        assert cause
        assert remedy.removeprefix("**Remedy:** ")


@pytest.mark.parametrize(
    ("topic", "message", "hint"),
    [
        ("DV999", "there is no code DV999", "`docs messages` shows all codes"),
        ("mesages", 'there is no page "mesages"', "`docs messages`"),
        ("../README", 'there is no page "../README"', "`docs` without an argument lists the pages"),
    ],
)
def test_what_does_not_exist_is_an_error(topic: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        pages.text_of(topic)
    assert [(p.code, p.message, p.hint) for p in caught.value.problems] == [("DV100", message, hint)]


def test_the_command_prints_markdown_to_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docs", "dv101"]) == 0
    assert capsys.readouterr().out == pages.text_of("DV101")
    assert cli.main(["docs"]) == 0
    assert re.search(r"^  messages +Errors and warnings$", capsys.readouterr().out, re.MULTILINE)
    assert cli.main(["docs", "nothing-like-it"]) == 2


def test_the_command_formats_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert cli.main(["docs", "dv101"]) == 0
    assert "**" not in capsys.readouterr().out


def test_the_site_links_pages_and_leaves_other_files_out(site_page: Callable[[str, str], str]) -> None:
    text = "[a](../README.md#start), [b](usage.md), [c](../examples), [d](../LICENSE), [e](https://x.y)\n```text\n[f](../g)\n```\n"
    assert site_page("verify.md", text) == (
        "[a](index.md#start), [b](usage.md), [c](examples/README.md), d, [e](https://x.y)\n```text\n[f](../g)\n```\n"
    )
    assert site_page("internals/security.md", "[a](../../SECURITY.md), [b](../verify.md)") == (
        "[a](../SECURITY.md), [b](../verify.md)"
    )
    assert site_page("examples/README.md", "[a](../docs/verify.md), [b](firmware)") == (
        "[a](../verify.md), [b](firmware/README.md)"
    )


@pytest.fixture
def site_page() -> Callable[[str, str], str]:
    """Gives a page, by its name in the site, and its text to the hook of the site."""
    from types import SimpleNamespace

    from development import site_hooks

    docs = [
        SimpleNamespace(src_uri=path.relative_to(ROOT / "docs").as_posix()) for path in (ROOT / "docs").rglob("*.md")
    ]
    files = [*docs, *(SimpleNamespace(src_uri=name) for name in site_hooks.sources())]

    def linked(name: str, text: str) -> str:
        page = SimpleNamespace(file=SimpleNamespace(src_uri=name))
        return site_hooks.on_page_markdown(text, page, files)  # type: ignore[arg-type]  # as far as the hook looks

    return linked
