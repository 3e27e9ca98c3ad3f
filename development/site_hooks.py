"""Makes a site of README, docs/, CONTRIBUTING, CHANGELOG and the examples' pages, for mkdocs.

Pages keep the links that they have in a checkout. Here links to pages lead to pages of the site; other files of the checkout
become text, since the site does not have them.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

import cnn_convertor
from cnn_convertor import layouts

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
REFERENCE = "reference.md"
# Beside the names of cnn_convertor itself.
PUBLIC = (
    "conversion.bulk.ConversionJob",
    "conversion.bulk.convert_all",
    "trials.sweep.sweep",
    "memory.buffer.Buffer",
    "memory.planning.plan",
    *(f"layouts.{name}" for name in layouts.__all__),
)


def sources() -> dict[str, str]:
    """Page of the site -> its file in the checkout, for pages outside docs/."""
    found = {"index.md": "README.md"}
    found |= {path.name: path.name for path in ROOT.glob("*.md") if path.name != "README.md"}
    examples = (path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("README.md"))
    return found | {name: name for name in examples}


def reference() -> str:
    """The page of the public interface, for mkdocstrings."""
    names = [*(name for name in cnn_convertor.__all__ if name != "__version__"), *PUBLIC]
    return "# Python reference\n\n" + "\n".join(f"::: cnn_convertor.{name}\n" for name in names)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    for page, source in sources().items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, REFERENCE, content=reference()))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """The page with links for the site."""
    added = sources()
    here = added.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    pages = {source: name for name, source in added.items()}
    pages |= {f"docs/{file.src_uri}": file.src_uri for file in files if file.src_uri not in added}

    def relinked(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        path, hash_, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return match[0]
        name = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        name = name if name in pages else f"{name}/README.md"
        if name not in pages:
            return text
        relative = posixpath.relpath(pages[name], posixpath.dirname(page.file.src_uri) or ".")
        return f"{image}[{text}]({relative}{hash_}{anchor})"

    # Code is left alone.
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(relinked, part) for part in parts)
