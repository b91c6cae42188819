"""transcripts.py: what an engine remembers between turns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from support.engines import call, results
from support.histories import broken, sound
from toolcast.agents.engine.conversation import INTERRUPTED, Conversation, load_history as made_sound
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems, repair, unanswered_calls
from toolcast.agents.engine.session_state import SessionState
from toolcast.agents.permissions.permissions import Rule
from toolcast.errors import BudgetExceeded
from toolcast.messages import assistant, tool_result, user
from toolcast.testing import ScriptedLLM
from toolcast.values.budgets import Budget
from toolcast.values.usage import Usage

ASKED = (user("Go."), assistant(call("a", "look"), call("b", "look")))


def test_calls_without_a_result_get_a_synthetic_one() -> None:
    transcript = Conversation(ASKED)
    transcript.started.update({"a", "elsewhere"})
    transcript.answer_open_calls("not run")
    assert [(one.call_id, one.content, one.is_error) for one in results(transcript.added)] == [
        ("a", INTERRUPTED, True),
        ("b", "not run", True),
    ]
    assert transcript.started == {"elsewhere"}
    assert find_problems(transcript.history) == []


def test_what_is_sent_is_taken_back_only_where_nothing_came_of_it() -> None:
    message = (user("Hello?"),)
    transcript = Conversation([user("Hi."), assistant("Hello.")])
    transcript.begin(message)
    transcript.rollback(message)
    assert len(transcript.history) == 2
    transcript.begin(message)
    transcript.add(assistant("Yes?"))
    transcript.rollback(message)
    assert len(transcript.history) == 4
    transcript.begin(())
    transcript.rollback(())
    assert len(transcript.history) == 4


def test_ids_are_those_of_the_conversation() -> None:
    transcript = Conversation(ASKED)
    assert (transcript.ids.unique("a"), transcript.ids.unique("c")) == ("a-2", "c")
    transcript.rewrite([])
    assert transcript.ids.unique("c") == "c-2"
    transcript.restore(Conversation().snapshot())
    assert transcript.ids.unique("a") == "a"


@given(sound())
def test_a_sound_history_stays_as_it_is(history: Any) -> None:
    if find_problems(history) == []:
        assert tuple(made_sound(history)) == history


@given(broken)
def test_any_history_becomes_one_that_can_be_gone_on_with(history: Any) -> None:
    transcript = Conversation(history)
    left = unanswered_calls(transcript.history)
    transcript.answer_open_calls("not run")
    assert find_problems(transcript.history) == []
    assert all(
        result.content != "not run" or result.call_id in {each.id for each in left}
        for result in results(transcript.history)
    )
    assert tuple(repair(transcript.history, "never sent")) == tuple(transcript.history)


def test_a_state_is_all_there_is() -> None:
    transcript = Conversation(ASKED, Budget(tokens=100))
    transcript.begin(())
    transcript.add(tool_result(call("a", "look"), "ok"))
    transcript.usage, transcript.end = Usage(3, 4), "cancelled"
    transcript.remembered.append(Rule("look", "allow"))
    transcript.started.add("b")
    other = Conversation(budget=Budget(tokens=100))
    other.injected.append(user("forgotten"))
    other.restore(transcript.state("id", 1.0))
    assert other.state("id", 1.0) == transcript.state("id", 1.0)
    assert (other.added, other.injected) == ([], [])
    assert json.dumps(list(other.state().remembered))


def test_what_was_spent_is_remembered_with_what_sub_agents_spent() -> None:
    inner = Engine(ScriptedLLM("42."))
    budget = Budget(tokens=46, tool_calls=5)
    engine = Engine(ScriptedLLM(call("a", "ask_agent", '{"prompt": "?"}'), "42."), [inner], budget=budget)
    engine.submit("Go.")
    assert (engine.usage.total_tokens, engine.conversation.spending.usage.total_tokens) == (30, 45)
    later = Engine(ScriptedLLM("Yes.", "No."), [inner], budget=budget)
    later.restore(json.loads(json.dumps(engine.snapshot())))
    assert later.conversation.spending.to_dict() == engine.conversation.spending.to_dict()
    assert later.submit("Sure?").text == "Yes."
    with pytest.raises(BudgetExceeded):
        later.submit("Really?")


def test_of_records_without_it_nothing_was_spent() -> None:
    transcript = Conversation()
    transcript.restore(SessionState("", usage=Usage(3, 4)))
    assert transcript.usage == Usage(3, 4) and transcript.spending.usage == Usage()
