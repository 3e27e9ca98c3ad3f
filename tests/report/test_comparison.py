"""Reports of the same network differ where it was converted differently."""

from __future__ import annotations

from cnn_convertor.report.comparison import ReportDifference, differences
from report.networks import report


def test_nothing_differs_from_itself() -> None:
    assert differences(report(), report()) == ()


def test_a_level_of_fusion_changes_commands() -> None:
    found = differences(report(fusion="none"), report(fusion="full"))
    assert ReportDifference("network", "fusion", "none", "full") in found
    assert {each.section for each in found} >= {"network", "commands"}
    assert all(each.before != each.after for each in found)


def test_what_is_gone_or_new_is_empty_on_one_side() -> None:
    commands = [d for d in differences(report(fusion="none"), report(fusion="full")) if d.section == "commands"]
    assert any(not each.after for each in commands)
