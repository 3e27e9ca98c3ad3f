"""Files and folders have one hash, whatever the order of their entries."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cnn_convertor.files.hashing import sha256_of


def test_a_folder_is_the_names_and_contents_of_its_files(tmp_path: Path) -> None:
    for name in ("b", "a/c", "a-b/c", "docs/d", "a/docs/e"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(name)
    listed = ["a/c", "a/docs/e", "a-b/c", "b", "docs/d"]  # sorted by the parts of the names

    def expected(names: list[str]) -> str:
        lines = (f"{name}\0{hashlib.sha256(name.encode()).hexdigest()}\n" for name in names)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    assert sha256_of(tmp_path) == expected(listed)
    assert sha256_of(tmp_path, without=["docs"]) == expected(listed[:-1])
    (tmp_path / "a/__pycache__").mkdir()
    (tmp_path / "a/__pycache__/c.pyc").touch()
    assert sha256_of(tmp_path) == expected(listed)


def test_links_that_lead_nowhere_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    before = sha256_of(tmp_path)
    for name, target in {"itself": "itself", "missing": "none", "below a file": "file/x"}.items():
        (tmp_path / name).symlink_to(target)
    assert sha256_of(tmp_path) == before
    (tmp_path / "link").symlink_to("file")
    assert sha256_of(tmp_path) != before
