"""Tests of `evaluate`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from toolcast.batch import Evaluation, Outcome, evaluate, exact, numeric, similarity


class Author(BaseModel):
    name: str
    age: int | None = None


class Book(BaseModel):
    title: str
    author: Author


def outcome(index: int, title: str, name: str, age: int | None = None) -> Outcome[Any]:
    return Outcome(index, f"k{index}", {"n": index}, Book(title=title, author=Author(name=name, age=age)))


OUTCOMES = [
    outcome(0, "Tide", "Ada", 30),
    outcome(1, "Foam", "Bob", 41),
    Outcome[Any](2, "k2", {"n": 2}, error=ValueError("no tool call")),
]
EXPECTED: list[Any] = [
    {"title": "Tide", "author": {"name": "Ada", "age": 30}},
    Book(title="Fog", author=Author(name="Bob", age=40)),
    {"title": "Sand", "author": {"name": "Eve", "age": 5}},
]
DIFFERENCE = 'expected {"name":"Bob","age":40}, got {"name":"Bob","age":41}'
METRICS = {"title": similarity(), "author.name": exact, "author.age": numeric(1)}


def evaluation() -> Evaluation:
    return evaluate(OUTCOMES, EXPECTED, METRICS)


def test_scores_by_field() -> None:
    made = evaluation()
    assert [(field.path, field.metric, field.perfect, field.count) for field in made.fields] == [
        ("title", "similarity", 1, 3),
        ("author.name", "exact", 2, 3),
        ("author.age", "numeric", 2, 3),
    ]
    assert made.fields[1].mean == pytest.approx(2 / 3)
    assert made.fields[1].stderr == pytest.approx(1 / 3)
    assert made.score == pytest.approx(sum(field.mean for field in made.fields) / 3)
    assert (made.count, made.failed) == (3, 1)


def test_an_outcome_without_output_is_wrong_in_all_fields() -> None:
    failed = [each for each in evaluation().comparisons if each.index == 2]
    assert {each.score for each in failed} == {0}
    assert {each.error for each in failed} == {"ValueError: no tool call"}
    assert [each.actual for each in failed] == [None] * 3


def test_the_worst_cases() -> None:
    made = evaluation()
    assert [(each.index, each.path) for each in made.worst()] == [(1, "title")]
    assert made.worst(1, "author.name") == []
    (one,) = evaluate(OUTCOMES[:2], EXPECTED).worst(1)
    assert (one.index, one.path, one.expected, one.actual) == (1, "title", "Fog", "Foam")


def test_errors_do_not_hide_wrong_outputs() -> None:
    """Each is one line, however many fields there are."""
    failed = [Outcome[Any](index, f"k{index}", {}, error=ValueError("no tool call")) for index in range(2, 20)]
    made = evaluate([*OUTCOMES[:2], *failed], lambda outcome: EXPECTED[min(outcome.index, 2)])
    assert str(made).count("no tool call") == 5
    assert str(made).endswith('worst:\n  1 title 0.00: expected "Fog", got "Foam"\n  1 author 0.00: ' + DIFFERENCE)
    assert made._repr_html_().count("no tool call") == 10
    assert "Foam" in made._repr_html_()


def test_all_fields_are_compared_by_default() -> None:
    made = evaluate(OUTCOMES[:2], EXPECTED)
    assert [(field.path, field.metric) for field in made.fields] == [("title", "exact"), ("author", "exact")]
    assert [field.mean for field in made.fields] == [0.5, 0.5]


@pytest.mark.parametrize("expected", [[3, 4], {"a": 3, "b": 4}, {0: 3, 1: 4}, lambda outcome: outcome.input + 1])
def test_expected_values(expected: Any) -> None:
    made = evaluate([Outcome(1, "b", 3, 4), Outcome(0, "a", 2, 5)], expected)
    (field,) = made.fields
    assert (field.path, field.mean) == ("(output)", 0.5)


def test_a_single_outcome_has_no_standard_error() -> None:
    assert evaluate([Outcome(0, "a", 2, 5)], [5]).fields[0].stderr == 0


def test_mixed_expected_values_are_compared_whole() -> None:
    made = evaluate([Outcome(0, "a", 0, {"x": 1}), Outcome(1, "b", 0, 5)], [{"x": 1}, 5])
    assert [(field.path, field.mean) for field in made.fields] == [("(output)", 1)]


@pytest.mark.parametrize("expected", [[3], {"a": 3}])
def test_an_outcome_without_an_expected_output(expected: Any) -> None:
    with pytest.raises(ValueError, match=r"input 1 with the key 'b': expected= has 1 values"):
        evaluate([Outcome(1, "b", 3, 4)], expected)


def test_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="no outcomes"):
        evaluate([], [])
    with pytest.raises(ValueError, match="compares nothing"):
        evaluate(OUTCOMES, EXPECTED, {})


def test_as_text() -> None:
    assert str(evaluation()) == (
        "3 outcomes, 1 failed, score 0.619\n"
        "\n"
        "field        score    +/-  perfect  metric\n"
        "title        0.524  0.290      1/3  similarity\n"
        "author.name  0.667  0.333      2/3  exact\n"
        "author.age   0.667  0.333      2/3  numeric\n"
        "\n"
        "failed:\n"
        "  2: ValueError: no tool call\n"
        "\n"
        "worst:\n"
        '  1 title 0.57: expected "Fog", got "Foam"'
    )


def test_a_perfect_evaluation_has_no_worst_cases() -> None:
    made = evaluate([Outcome(0, "a", 2, 5)], [5])
    assert "worst" not in str(made)
    assert "Worst" not in made._repr_html_()


def test_long_values_and_control_characters() -> None:
    text = str(evaluate([Outcome(0, "a", 2, "\x1b[31m" + "x" * 200)], ["y"]))
    assert "\x1b" not in text
    assert "…" in text
    assert max(map(len, text.splitlines())) < 120


def test_as_html_and_data() -> None:
    made = evaluate([Outcome(0, "a", 2, "<script>")], ["<b>"])
    assert "&lt;script&gt;" in made._repr_html_()
    assert "<script>" not in made._repr_html_()
    data = json.loads(evaluation().to_json())
    assert data["count"] == 3
    assert data["fields"][0]["path"] == "title"
    assert data["comparisons"][0]["score"] == 1
