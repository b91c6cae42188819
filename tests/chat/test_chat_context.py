"""chat_context.py: what a chat knows, written down and read again, and the answer that is being written."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.engines import call
from toolcast.chat.chat_context import (
    NOTHING_STREAMED,
    STATES,
    Branch,
    BranchPoint,
    ChatContext,
    ChatError,
    ChatMark,
    Streamed,
    differences,
)
from toolcast.events import (
    AudioOutput,
    Event,
    Finish,
    ImageOutput,
    Restarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    UsageReport,
)
from toolcast.messages import AudioPart, DocumentPart, ImagePart, Message, ToolResultPart, assistant, user
from toolcast.values.approvals import PermissionRequest
from toolcast.values.usage import Usage

REQUEST = PermissionRequest("a", "look", "{}", "it writes")
INNER = Branch(
    (user("Look!"), assistant("No.")),
    (1,),
    (ChatMark(2, "stopped"),),
    (BranchPoint(1, 0, (Branch(), Branch((assistant("Yes."),)))),),
)
FULL = ChatContext(
    messages=(
        user("Look.", ImagePart(data=b"\xff", media_type="image/png")),
        assistant("Well.", call("a", "look"), call("b", "look", opaque={"x": [1]})),
        Message("tool", (ToolResultPart("b", "42", "look", True, (ImagePart(url="http://x/y.png"),)),)),
    ),
    queue=(user("One."), user("Two.")),
    interrupted=(0, 3),
    model="model",
    load_progress=50.0,
    last_error=ChatError("stream", "reset", retryable=False),
    retry="stream",
    tools=("look", "write"),
    streamed=Streamed([TextDelta("Hi "), TextDelta("there")]),
    stop_reason="max_tokens",
    pending=(REQUEST,),
    answers=(REQUEST.allow(), REQUEST.edit("{}"), REQUEST.deny("no")),
    running=("b",),
    remembered=({"tool": "look", "verdict": "allow"},),
    rounds=3,
    max_rounds=7,
    usage=Usage(1, 2, 3, 4),
    run=12,
    mode="plan",
    marks=(ChatMark(1, "failed", "it broke"),),
    branches=(BranchPoint(0, 1, (INNER, Branch())),),
    held=(user("Later."),),
)


def again(context: ChatContext) -> ChatContext:
    return ChatContext.from_dict(json.loads(json.dumps(context.to_dict(), allow_nan=False)))


def test_there_are_nine_states() -> None:
    assert len(STATES) == len(set(STATES)) == 9


@pytest.mark.parametrize("context", [ChatContext(), FULL])
def test_a_context_is_written_down_and_read_again(context: ChatContext) -> None:
    assert again(context) == context
    assert again(context).to_dict() == context.to_dict()


def test_every_field_was_tried() -> None:
    empty = ChatContext()
    assert [name for name in ChatContext.__slots__ if getattr(FULL, name) == getattr(empty, name)] == []


def test_what_earlier_versions_do_not_read_is_written_only_if_it_is_in_use() -> None:
    newer = {"mode", "marks", "branches", "held"}
    assert newer & ChatContext().to_dict().keys() == set()
    assert FULL.to_dict().keys() - ChatContext().to_dict().keys() == newer


def test_what_is_not_written_is_as_in_a_new_chat() -> None:
    assert ChatContext.from_dict({}) == ChatContext()


def test_nothing_streamed_is_one_value() -> None:
    assert again(ChatContext()).streamed is NOTHING_STREAMED


# The answer that is being written.

WHOLE: list[Event] = [
    Restarted(2, "again"),
    ThinkingDelta("Hm"),
    ThinkingDelta("m", signature="signed"),
    ThinkingDelta(redacted="xyz"),
    TextDelta("Let me "),
    TextDelta("look."),
    ToolCallStart("a", "look"),
    ToolCallDelta("a", '{"va'),
    ToolCallReset("a"),
    ToolCallDelta("a", '{"value'),
    ToolCallDelta("a", '": 1}'),
    ToolCallDone("a", "look", '{"value": 1}', opaque={"x": 1}),
    ToolCallStart("b", "write"),
    ToolCallDelta("b", '{"cut'),
    UsageReport(Usage(1, 2)),
    Finish("tool_use"),
]


def streamed(events: list[Event]) -> Streamed:
    made = Streamed()
    for event in events:
        made = made.with_event(event)
    return made


@pytest.mark.parametrize("length", range(len(WHOLE) + 1))
def test_an_answer_is_written_down_wherever_it_is(length: int) -> None:
    answer = streamed(WHOLE[:length])
    assert (len(answer), list(answer)) == (length, WHOLE[:length])
    read = again(ChatContext(streamed=answer)).streamed
    assert (read, read.message, hash(read)) == (answer, answer.message, hash(answer))


def test_the_answer_so_far() -> None:
    answer = streamed(WHOLE)
    assert answer.text == "Let me look."
    assert [call.arguments for call in answer.message.tool_calls] == ['{"value": 1}', '{"cut']
    assert repr(answer) == "Streamed('Let me look.')"


def test_answers_are_equal_that_say_the_same() -> None:
    assert Streamed([TextDelta("ab")]) == Streamed([TextDelta("a"), TextDelta("b")])
    assert Streamed([TextDelta("ab")]) != Streamed([TextDelta("ba")])
    assert Streamed([TextDelta("ab")]) != "ab"


def test_an_answer_is_its_own_whatever_follows_it() -> None:
    one = streamed([TextDelta("One")])
    two, three = one.with_event(TextDelta(" two")), one.with_event(TextDelta(" three"))
    four = two.with_event(TextDelta(" four"))
    assert [each.text for each in (one, two, three, four)] == ["One", "One two", "One three", "One two four"]


def test_nothing_streamed_stays_so() -> None:
    """Every chat begins with it; what one of them streams is none of the others' business."""
    made = [NOTHING_STREAMED.with_event(TextDelta(str(number))) for number in range(3)]
    assert [each.text for each in made] == ["0", "1", "2"]
    assert vars_of(NOTHING_STREAMED) == ([], 0)


def vars_of(answer: Streamed) -> tuple[list[Event], int]:
    return answer._events, answer._length


def test_chats_in_several_threads_do_not_hear_each_other() -> None:
    texts: dict[int, str] = {}
    ready = threading.Barrier(4)

    def stream(number: int) -> None:
        ready.wait(30)
        answer = NOTHING_STREAMED
        for _ in range(200):
            answer = answer.with_event(TextDelta(str(number)))
        texts[number] = answer.text

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert texts == {number: str(number) * 200 for number in range(4)}


def test_to_add_a_piece_costs_the_same_at_any_length() -> None:
    answer = streamed([TextDelta("x")])
    longer = answer
    for _ in range(1000):
        longer = longer.with_event(TextDelta("x"))
    assert longer._events is answer._events
    assert (len(longer), len(answer)) == (1001, 1)


# What has changed.


def test_nothing_has_changed() -> None:
    assert differences(FULL, FULL) == {}


def test_only_what_has_changed_is_reported() -> None:
    changed = replace(FULL, queue=(), run=13, last_error=None, streamed=Streamed())
    assert differences(FULL, changed) == {"queue": [], "run": 13, "last_error": None}


@pytest.mark.parametrize(
    "change, start",
    [
        (lambda text: (*text, user("More.")), 3),
        (lambda text: text[:2], 2),
        (lambda text: (*text[:1], assistant("Other."), *text[2:]), 1),
        (lambda text: (), 0),
    ],
)
def test_of_messages_those_are_reported_that_are_new(change: Any, start: int) -> None:
    after = replace(FULL, messages=change(FULL.messages))
    text = differences(FULL, after)["messages"]
    assert text == {"from": start, "messages": [message.to_dict() for message in after.messages[start:]]}


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_who_takes_the_changes_over_has_the_messages(before: list[int], after: list[int]) -> None:
    text = [user(str(number)) for number in range(4)]
    old, new = (ChatContext(tuple(text[number] for number in numbers)) for numbers in (before, after))
    text = differences(old, new).get("messages", {"from": len(before), "messages": []})
    shown = [message.to_dict() for message in old.messages][: text["from"]] + text["messages"]
    assert shown == [message.to_dict() for message in new.messages]


def test_what_no_model_streams_is_left_out() -> None:
    document = Message("assistant", (DocumentPart(url="http://x/y.pdf"),))
    assert ChatContext.from_dict({"streamed": document.to_dict()}).streamed is NOTHING_STREAMED


def test_images_and_recordings_are_a_part_of_what_was_streamed() -> None:
    image = ImagePart(url="http://x/y.png")
    spoken = AudioPart(data=b"12", media_type="audio/wav", transcript="Hi")
    by_url = AudioPart(url="http://x/y.wav")
    message = Message("assistant", (image, spoken, by_url))
    streamed = ChatContext.from_dict({"streamed": message.to_dict()}).streamed
    assert streamed == Streamed([ImageOutput(image), AudioOutput(b"12", "audio/wav", "Hi")])
