"""chat/branches.py: edited messages and other answers keep what they replace, whatever the chat does meanwhile."""

from __future__ import annotations

import pytest

from support.chats import BUSY, CALL, LOADED, Walker, answer, orders
from toolcast.agents.engine.history import SUPERSEDED, find_problems
from toolcast.chat.chat_context import STATES, Branch, BranchPoint, ChatContext, ChatMark, ChatState
from toolcast.chat.events import (
    EditMessage,
    EditQueued,
    GenerationFailure,
    GenerationSuccess,
    HoldQueue,
    LoadModel,
    ModelLoadSuccess,
    QueueMessage,
    Regenerate,
    ReleaseQueue,
    RemoveQueued,
    RetryGeneration,
    SetMode,
    Stop,
    StreamChunk,
    StreamComplete,
    SwitchBranch,
    ToolCallFailure,
    ToolCallSuccess,
    ToolSearchSuccess,
)
from toolcast.messages import ImagePart, ToolResultPart, assistant, user

ANSWERS = (ToolSearchSuccess(()), GenerationSuccess())


def turn(message: str, text: str) -> tuple[QueueMessage | ToolSearchSuccess | GenerationSuccess | StreamComplete, ...]:
    return (QueueMessage(message), *answered(text))


def answered(text: str) -> tuple[ToolSearchSuccess | GenerationSuccess | StreamComplete, ...]:
    return (*ANSWERS, StreamComplete(assistant(text), (), "end_turn"))


def texts(walker: Walker) -> list[str]:
    return [message.text for message in walker.context.messages]


def points(walker: Walker) -> list[tuple[int, int, int]]:
    return [(point.index, point.current, len(point.branches)) for point in walker.context.branches]


def test_an_edited_message_begins_a_branch_and_a_turn() -> None:
    walker = Walker(*LOADED, *turn("One?", "1"), *turn("Two?", "2"))
    step = walker.go(EditMessage(0, "Eins?"))
    assert (step.path, step.delivered, orders(step.effects)) == (("ready", "searching_tools"), 1, ["search_tools"])
    walker.go(*answered("eins"))
    assert (texts(walker), points(walker)) == (["Eins?", "eins"], [(0, 1, 2)])
    walker.go(SwitchBranch(0, 0))
    assert (walker.state, texts(walker), points(walker)) == ("ready", ["One?", "1", "Two?", "2"], [(0, 0, 2)])
    walker.go(EditMessage(2, "Zwei?"), *answered("zwei"), SwitchBranch(0, 1))
    assert (texts(walker), points(walker)) == (["Eins?", "eins"], [(0, 1, 2)])
    walker.go(SwitchBranch(0, 0))
    assert (texts(walker), points(walker)) == (["One?", "1", "Zwei?", "zwei"], [(0, 0, 2), (2, 1, 2)])


def test_another_answer_is_requested_for_the_turn_of_any_message() -> None:
    walker = Walker(*LOADED, QueueMessage("Look."), *ANSWERS)
    walker.go(StreamComplete(answer("I look.", CALL), (), "tool_use"))
    walker.go(ToolCallSuccess(ToolResultPart("a", "42", "look")), *answered("42"))
    assert walker.roles == ["user", "assistant", "tool", "assistant"]
    for index in (3, 1, 0):
        step = walker.go(Regenerate(index))
        assert (step.path, step.delivered) == (("ready", "searching_tools"), 1)
        walker.go(*answered(f"Again {index}."))
    assert texts(walker) == ["Look.", "Again 0."]
    assert points(walker) == [(1, 3, 4)]
    walker.go(SwitchBranch(1, 0))
    assert walker.roles == ["user", "assistant", "tool", "assistant"]
    assert find_problems(walker.context.messages) == []


def test_messages_that_were_delivered_together_are_answered_together_again() -> None:
    walker = Walker(QueueMessage("One."), QueueMessage("Two."), *LOADED, *answered("Both."))
    step = walker.go(Regenerate(2))
    assert (texts(walker), step.delivered) == (["One.", "Two."], 2)


def test_an_answer_that_never_came_leaves_no_branch() -> None:
    walker = Walker(*LOADED, QueueMessage("Look."), ToolSearchSuccess(()), GenerationFailure("down"))
    assert walker.context.marks == (ChatMark(1, "failed", "down"),)
    walker.go(Regenerate(0))
    assert (points(walker), walker.context.marks, walker.context.last_error) == ([], (), None)


def test_an_empty_answer_leaves_a_mark_until_it_is_retried() -> None:
    walker = Walker(*LOADED, *turn("Look.", " "))
    assert walker.context.marks == (ChatMark(1, "empty", "the model answered nothing"),)
    walker.go(RetryGeneration(), GenerationSuccess(), StreamComplete(assistant("42."), (), "end_turn"))
    assert (texts(walker), walker.context.marks, walker.context.retry) == (["Look.", "42."], (), None)


def test_an_answer_that_failed_is_a_branch_with_its_mark() -> None:
    walker = Walker(*LOADED, *turn("Look.", "42."), Regenerate(1), ToolSearchSuccess(()), GenerationFailure("down"))
    assert (texts(walker), walker.context.marks) == (["Look."], (ChatMark(1, "failed", "down"),))
    walker.go(SwitchBranch(1, 0))
    assert (texts(walker), walker.context.marks, walker.context.retry) == (["Look.", "42."], (), None)
    walker.go(SwitchBranch(1, 1))
    assert (texts(walker), walker.context.marks) == (["Look."], (ChatMark(1, "failed", "down"),))
    walker.go(Regenerate(0), *answered("43."))
    assert (texts(walker), points(walker), walker.context.marks) == (["Look.", "43."], [(1, 1, 2)], ())


def test_interrupted_answers_belong_to_their_branch() -> None:
    walker = Walker(*LOADED, QueueMessage("Look."), *ANSWERS, StreamChunk("Half"), Stop())
    assert (walker.context.interrupted, walker.context.marks) == (
        (1,),
        (ChatMark(2, "stopped", "The turn was stopped."),),
    )
    walker.go(Regenerate(1), *answered("Whole."))
    assert (walker.context.interrupted, walker.context.marks) == ((), ())
    walker.go(SwitchBranch(1, 0))
    assert (walker.context.interrupted, len(walker.context.marks)) == ((1,), 1)


@pytest.mark.parametrize("state", STATES)
def test_a_branch_begins_in_every_state(state: ChatState) -> None:
    history = (user("One?"), assistant("1"))
    branches = (BranchPoint(0, 1, (Branch((user("Eins?"),)), Branch())),)
    rests = state in ("idle", "loading_model", "load_failed")
    for event in (EditMessage(0, "Uno?"), Regenerate(1), SwitchBranch(0, 0)):
        walker = Walker.at(state, messages=history, branches=branches)
        running = walker.context.run if state in BUSY and not rests else None
        step = walker.go(event)
        begins = not isinstance(event, SwitchBranch)
        assert step.state == (state if rests else "searching_tools" if begins else "ready")
        assert [effect.run for effect in step.effects if effect.order == "cancel"] == ([running] if running else [])
        assert (walker.context.pending, walker.context.running, find_problems(walker.context.messages)) == ((), (), [])
        if rests and begins:
            walker.go(*([] if state == "loading_model" else [LoadModel("x")]), ModelLoadSuccess())
            assert walker.state == "searching_tools"


def test_calls_that_wait_are_answered_before_their_branch_is_left() -> None:
    walker = Walker.at("waiting_for_tool_approval")
    walker.go(EditMessage(0, "Look elsewhere."))
    (point,) = walker.context.branches
    (result,) = point.branches[0].messages[-1].parts
    assert isinstance(result, ToolResultPart) and "interrupted" in result.content


def test_calls_that_failed_are_answered_before_their_branch_is_left() -> None:
    walker = Walker.at("calling_tool")
    walker.go(ToolCallFailure("it broke"), Regenerate(0))
    (point,) = walker.context.branches
    assert point.branches[0].messages[-1].parts == (ToolResultPart("a", SUPERSEDED, "look", is_error=True),)


def test_the_queue_is_edited() -> None:
    walker = Walker(QueueMessage("One."), QueueMessage("Two."), QueueMessage("Three."))
    walker.go(EditQueued(1, "Zwei."), RemoveQueued(0))
    assert [message.text for message in walker.context.queue] == ["Zwei.", "Three."]
    assert walker.ignores(RemoveQueued(2)) and walker.ignores(EditQueued(2, "x"))


def test_messages_that_are_held_back_begin_no_turn_until_they_are_released() -> None:
    walker = Walker.at("streaming_response", QueueMessage("One."), QueueMessage("Two."), QueueMessage("Three."))
    walker.go(HoldQueue(1))
    assert [message.text for message in walker.context.held] == ["Two.", "Three."]
    walker.go(EditQueued(1, "Zwei."), RemoveQueued(2), HoldQueue(0), Stop())
    assert (walker.state, walker.context.queue) == ("ready", ())
    assert [message.text for message in walker.context.held] == ["One.", "Zwei."]
    assert walker.ignores(RemoveQueued(2)) and walker.ignores(EditQueued(2, "x")) and walker.ignores(HoldQueue(0))
    walker.go(QueueMessage("At once."))  # a new message does not wait behind them
    assert (walker.state, walker.context.messages[-1].text) == ("searching_tools", "At once.")
    assert ChatContext.from_dict(walker.context.to_dict()).held == walker.context.held
    walker.go(Stop(), ReleaseQueue())
    assert (walker.state, walker.context.held) == ("searching_tools", ())
    assert [message.text for message in walker.context.messages[-2:]] == ["One.", "Zwei."]
    assert walker.ignores(ReleaseQueue())
    assert "held" not in walker.context.to_dict()


def test_a_queued_message_keeps_what_was_attached_when_its_text_is_edited() -> None:
    picture = ImagePart(data=b"x", media_type="image/png")
    walker = Walker(QueueMessage(user("One.", picture)))
    walker.go(EditQueued(0, "Eins."))
    assert walker.context.queue == (user("Eins.", picture),)
    walker.go(EditQueued(0, user("Uno.", ImagePart(data=b"y", media_type="image/png"))))
    assert walker.context.queue[0].parts[1:] == (ImagePart(data=b"y", media_type="image/png"),)


def test_a_retry_removes_the_mark_and_a_new_message_does_not() -> None:
    walker = Walker(*LOADED, QueueMessage("Look."), ToolSearchSuccess(()), GenerationFailure("down"))
    walker.go(QueueMessage("Well?"), ToolSearchSuccess(()), GenerationFailure("down again"))
    assert [mark.at for mark in walker.context.marks] == [1, 2]
    walker.go(RetryGeneration())
    assert [mark.at for mark in walker.context.marks] == [1]
    assert [mark.to_dict()["index"] for mark in walker.context.marks] == [0]


@pytest.mark.parametrize("state", STATES)
def test_the_mode_is_set_in_every_state(state: ChatState) -> None:
    walker = Walker.at(state)
    assert (walker.context.mode, walker.go(SetMode("plan")).state, walker.context.mode) == (None, state, "plan")


def test_another_answer_that_waits_for_the_model_can_be_left() -> None:
    walker = Walker(*LOADED, *turn("Look.", "42."), LoadModel("other"), Regenerate(1), SwitchBranch(1, 0))
    assert (texts(walker), walker.context.retry) == (["Look.", "42."], None)
    walker.go(SwitchBranch(1, 1), Regenerate(0))
    assert (texts(walker), points(walker)) == (["Look."], [(1, 1, 2)])
    walker.go(ModelLoadSuccess())
    assert walker.state == "searching_tools"
