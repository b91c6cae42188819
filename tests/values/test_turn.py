"""support/turns.py: what a turn gave."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from toolcast.messages import ThinkingPart, ToolCallPart, assistant, tool_result, user
from toolcast.values.turn import Turn, TurnEnd

LOOKED = (assistant("Let me look.", ToolCallPart("c1", "look")), tool_result("c1", "42"))


@pytest.mark.parametrize(
    "messages, text",
    [
        ((), ""),
        (LOOKED, "Let me look."),
        ((*LOOKED, assistant(ThinkingPart("Hm."), "It is ", "42.")), "It is 42."),
        ((*LOOKED, assistant("It is 42."), user("Continue from where you left off.")), "It is 42."),
        ((user("Hello."),), ""),
    ],
)
def test_the_text_is_the_last_answers(messages: Any, text: str) -> None:
    assert Turn(messages).text == text


@pytest.mark.parametrize("end", get_args(TurnEnd))
def test_only_max_tokens_cuts_an_answer_off(end: TurnEnd) -> None:
    assert Turn[Any](end=end).truncated == (end == "max_tokens")


def test_a_turn_of_nothing() -> None:
    turn = Turn[Any]()
    assert (turn.messages, turn.rounds, turn.end, turn.output, turn.pending) == ((), 0, "end_turn", None, ())
