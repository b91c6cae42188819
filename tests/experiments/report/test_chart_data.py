"""The data of the charts: measures, bars that stand for several cycles, and curves that lie on each other."""

from __future__ import annotations

from toolcast.experiments.report.chart_data import overlaid, place_in_row, tokens_of
from toolcast.experiments.report.summary import CycleSummary


def test_tokens_of_a_cycle() -> None:
    assert tokens_of(CycleSummary(1)) is None
    assert tokens_of(CycleSummary(1, input_tokens=3)) == 3
    assert tokens_of(CycleSummary(1, input_tokens=3, output_tokens=4)) == 7


def test_curves_that_agree_lie_on_each_other() -> None:
    short, long = [(1, 5.0), (2, 6.0)], [(1, 5.0), (2, 6.0), (3, 1.0)]
    found = overlaid({"short": short, "long": long, "other": [(1, 5.0), (2, 7.0)], "empty": []})
    assert found["short"] == found["long"] == ["long", "short"]
    assert found["other"] == ["other"] and found["empty"] == ["empty"]
    assert [*found] == ["long", "short", "other", "empty"]


def test_one_common_point_is_no_agreement_unless_it_is_all() -> None:
    assert overlaid({"a": [(1, 5.0)], "b": [(1, 5.0), (2, 6.0)]})["a"] == ["a"]
    assert overlaid({"a": [(1, 5.0)], "b": [(1, 5.0)]})["b"] == ["a", "b"]


def test_equal_ratings_stand_beside_each_other() -> None:
    assert [*place_in_row([])] == []
    assert [*place_in_row([4, 3, 4])] == [(3, 3.0), (4, 4 - 0.075), (4, 4 + 0.075)]
    places = [place for _, place in place_in_row([5] * 30)]
    assert len({*places}) == 30 and max(places) - min(places) < 0.8
