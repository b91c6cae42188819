"""`ask_once` of jobs through a batch API: equal prompts are in one batch once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batch.remote.test_remote_run import Pair, sayings, texts
from batch.remote.test_resume import stop, submitted
from support.openai_batches import echo, last_text


def rows(*numbers: int) -> list[dict[str, int]]:
    return [{"x": number, "id": index} for index, number in enumerate(numbers)]


@pytest.mark.parametrize("ordered", [True, False])
def test_equal_prompts_are_submitted_once(ordered: bool) -> None:
    pair = Pair()
    outcomes = sorted(pair.map(rows(1, 2, 1, 1, 2), ask_once=True, ordered=ordered), key=lambda each: each.index)
    assert texts(outcomes) == sayings(1, 2, 1, 1, 2)
    assert submitted(pair) == {"Say 1/1": 1, "Say 2/1": 1}
    assert [outcome.attempts for outcome in outcomes] == [1, 1, 0, 0, 0]
    assert [outcome.usage.total_tokens for outcome in outcomes] == [110, 110, 0, 0, 0]
    assert [outcome.input["id"] for outcome in outcomes] == [0, 1, 2, 3, 4]
    assert len({outcome.key for outcome in outcomes}) == 5


def test_a_prompt_whose_equal_has_ended_is_not_submitted() -> None:
    pair = Pair()
    pair.limit(requests=1)
    numbers = (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)  # more than the batches that are open at once
    assert texts(pair.map(rows(*numbers), ask_once=True)) == sayings(*numbers)
    assert submitted(pair).total() == 9


def test_after_an_error_the_next_of_the_equal_prompts_is_submitted() -> None:
    pair = Pair()
    asked = 0

    def fail_once(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        nonlocal asked
        asked += last_text(body) == "Say 1"
        return (400, {"error": {"message": "no"}}) if asked == 1 and last_text(body) == "Say 1" else echo(body)

    pair.service.answer = fail_once
    outcomes = pair.map(rows(1, 1, 1, 2), ask_once=True)
    assert texts(outcomes) == ["BadRequest", "Say 1", "Say 1", "Say 2"]
    assert [outcome.attempts for outcome in outcomes] == [1, 1, 0, 1]
    assert [batch["request_counts"]["total"] for batch in pair.service.batches.values()] == [2, 1]


def test_a_prompt_equal_to_one_in_a_batch_of_an_earlier_run_waits_for_it(tmp_path: Path) -> None:
    pair = Pair()
    path = tmp_path / "job.db"
    inputs = rows(1, 1, 2)
    stop(pair, path, inputs, ask_once=True)
    assert texts(pair.map(inputs, checkpoint=path, ask_once=True)) == sayings(1, 1, 2)
    assert set(submitted(pair).values()) == {1}


class Odd:
    def __str__(self) -> str:
        return "odd"


def test_equal_prompts_that_an_earlier_run_has_submitted_both(tmp_path: Path) -> None:
    pair = Pair()
    path = tmp_path / "job.db"
    inputs = [*rows(1, 1), {"x": Odd(), "id": 2}]  # the last has no stable hash
    stop(pair, path, inputs, key="id")
    outcomes = pair.map(inputs, checkpoint=path, ask_once=True, key="id")
    assert [outcome.attempts for outcome in outcomes] == [1, 1, 1]
