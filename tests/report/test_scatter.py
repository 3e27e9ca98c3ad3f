"""Points are placed between round ticks, whatever their range."""

from __future__ import annotations

import pytest

from cnn_convertor.report.scatter import ScatterPoint, scatter_picture

RANGES = ([0.0], [5.0], [1e-6, 2e-6], [0.0153, 0.0248], [160.01, 173.73], [0.0, 1e9], [3.0, 3.0], [1.0, 10.0, 100.0])


@pytest.mark.parametrize("numbers", RANGES, ids=str)
def test_points_lie_between_few_round_ticks(numbers: list[float]) -> None:
    picture = scatter_picture([ScatterPoint(x, y, "") for x in numbers for y in numbers])
    for ticks in (picture.across, picture.down):
        values = [float(tick.text.replace(",", "")) for tick in ticks]
        assert 2 <= len(ticks) <= 8 and values == sorted(set(values)), "no tick reads as another"
        assert values[0] <= min(numbers) and max(numbers) <= values[-1]
    assert (picture.across[0].position, picture.across[-1].position) == (picture.left, picture.right)
    assert (picture.down[0].position, picture.down[-1].position) == (picture.bottom, picture.top)
    for point in picture.points:
        assert picture.left <= point.x <= picture.right and picture.top <= point.y <= picture.bottom


def test_a_point_is_where_its_numbers_are() -> None:
    picture = scatter_picture([ScatterPoint(0, 0, "a"), ScatterPoint(5, 2, "b"), ScatterPoint(10, 10, "c")])
    middle, height = (picture.left + picture.right) / 2, picture.bottom - picture.top
    second = picture.points[1]
    assert second.x == middle and abs(second.y - (picture.bottom - 0.2 * height)) <= 0.1


def test_points_at_one_place_are_one_and_marked_points_come_last() -> None:
    picture = scatter_picture([ScatterPoint(1, 1, "a", "2"), ScatterPoint(2, 2, "b"), ScatterPoint(1, 1, "c", "3")])
    assert [(point.title, point.mark) for point in picture.points] == [("b", ""), ("a; c", "2, 3")]
