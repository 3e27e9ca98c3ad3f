"""The rows of docs/messages.md are read as they are written."""

from __future__ import annotations

from cnn_convertor.files.codes import Entry, entries, entries_of, hint


def test_a_row_is_an_entry_and_other_lines_are_not() -> None:
    rows = [
        "| code | meaning | cause | remedy |",
        "|---|---|---|---|",
        "| DV901 | A | B. | C. |",
        "| DV902 (warning) | D | E. | F. |",
    ]
    assert entries_of("\n".join([*rows, "| DV903 | too few |", "DV904"])) == {
        "DV901": Entry("A", "B.", "C."),
        "DV902": Entry("D", "E.", "F.", is_warning=True),
    }


def test_a_hint_continues_a_sentence_but_keeps_names() -> None:
    assert hint("DV680") == "convert again, and copy the source and the weights together"
    assert hint("DV663") == entries()["DV663"].remedy.removesuffix(".")
    assert entries()["DV663"].remedy.startswith("is_f32_output")
