"""chat_actions.py: what the rows of the chat machine do. See test_chat_transitions.py for where they do it."""

from __future__ import annotations

import pytest

from support.engines import call, results
from toolcast.agents.engine.history import find_problems
from toolcast.chat import actions as actions
from toolcast.chat.actions import ContextBuilder, Effect
from toolcast.chat.chat_context import ChatContext, ChatError, Streamed
from toolcast.chat.events import Interrupt, StreamChunk, StreamComplete, ToolCallSuccess
from toolcast.events import TextDelta, ThinkingDelta, ToolCallStart
from toolcast.messages import Message, ThinkingPart, ToolResultPart, assistant, user

CALLED = (user("Look."), assistant(call("a", "look"), call("b", "look"), call("c", "look")))


def test_a_draft_leaves_the_context_it_began_with_alone() -> None:
    before = ChatContext()
    draft = ContextBuilder(before)
    draft.start("generate")
    draft.cancel()
    assert (before, draft.context.run) == (ChatContext(), 1)
    assert draft.effects == [Effect("generate", 1), Effect("cancel", 1)]


def test_a_model_that_failed_leaves_what_was_to_be_done() -> None:
    draft = ContextBuilder(ChatContext(retry="stream"))
    draft.fail("model_load", "gone")
    assert (draft.context.retry, draft.context.last_error) == ("stream", ChatError("model_load", "gone"))
    draft.fail("tool_call", "broken", retryable=False)
    assert (draft.context.retry, draft.context.last_error) == ("tool_call", ChatError("tool_call", "broken", False))


@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
def test_results_stand_in_the_order_of_their_calls(order: str) -> None:
    draft = ContextBuilder(ChatContext(CALLED, running=("a", "b", "c")))
    for id in order:
        actions.append_tool_response_message(draft, ToolCallSuccess(ToolResultPart(id, id.upper())))
    assert [result.content for result in results(draft.context.messages)] == ["A", "B", "C"]
    assert find_problems(draft.context.messages) == []


def test_calls_are_closed_in_words_that_say_which_had_begun() -> None:
    draft = ContextBuilder(ChatContext(CALLED, running=("b",)))
    actions.close_calls(draft, Interrupt())
    begun = [result.content == actions.INTERRUPTED for result in results(draft.context.messages)]
    assert begun == [False, True, False]
    assert all(result.is_error for result in results(draft.context.messages))


def test_pieces_are_text_or_events() -> None:
    draft = ContextBuilder(ChatContext())
    actions.append_chunk(draft, StreamChunk("Hi "))
    actions.append_chunk(draft, StreamChunk(TextDelta("there")))
    assert draft.context.streamed.text == "Hi there"


def test_of_an_answer_that_broke_off_only_its_text_is_kept() -> None:
    written = Streamed([ThinkingDelta("Hm."), TextDelta("Let me look."), ToolCallStart("a", "look")])
    draft = ContextBuilder(ChatContext((user("Look."),), streamed=written))
    actions.keep_partial_text(draft, Interrupt())
    assert draft.context.messages[1:] == (assistant("Let me look."),)
    assert draft.context.interrupted == (1,)


@pytest.mark.parametrize(
    "interrupted, left, texts", [((1,), (), ["Hello."]), ((0,), (0,), ["Hello.", "Hi."]), ((), (), ["Hello.", "Hi."])]
)
def test_only_an_answer_that_broke_off_is_taken_out(
    interrupted: tuple[int, ...], left: tuple[int, ...], texts: list[str]
) -> None:
    draft = ContextBuilder(ChatContext((user("Hello."), assistant("Hi.")), interrupted=interrupted))
    actions.drop_interrupted(draft, Interrupt())
    assert ([message.text for message in draft.context.messages], draft.context.interrupted) == (texts, left)


def test_thoughts_are_kept_as_they_came() -> None:
    message = assistant(ThinkingPart("Hm.", "signed", opaque={"model": "m"}), "Hi.", call("a", "look", '{"a":  1}'))
    draft = ContextBuilder(ChatContext((user("Hello."),)))
    actions.append_assistant_message(draft, StreamComplete(message))
    assert draft.context.messages[-1] == message


def test_an_answer_of_thoughts_alone_is_none() -> None:
    draft = ContextBuilder(ChatContext((user("Hello."),)))
    actions.append_assistant_message(draft, StreamComplete(Message("assistant", (ThinkingPart("Hm."),))))
    assert len(draft.context.messages) == 1


def test_the_model_reads_that_the_user_changed_his_mind() -> None:
    assert actions.denial_text("too dear") == "permission denied: too dear"
