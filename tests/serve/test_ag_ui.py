"""AG-UI. Every event is validated with the models of ag-ui-protocol."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput
from hypothesis import given, strategies as st
from pydantic import BaseModel, TypeAdapter

from support.serving import ag_ui
from toolcast import PermissionRequest, Turn, Usage
from toolcast.events import (
    Finish,
    Restarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    ToolProgress,
    ToolResult,
    UsageReport,
)
from toolcast.messages import AudioPart, DocumentPart, ImagePart, TextPart
from toolcast.serve import PublicError, RequestError, RunInput
from toolcast.serve.ag_ui import AGUIEncoder, AGUIProtocol

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)
RUN = RunInput(thread_id="t1", run_id="r1")
REQUEST = PermissionRequest("c1", "add", '{"a": 1}', "no rule allows it")


def decoded(*messages: str) -> list[dict[str, Any]]:
    """Return events, each valid by the protocol's own models."""
    for message in messages:
        assert "\n" not in message
        assert EVENTS.validate_json(message).type == json.loads(message)["type"]
    return [json.loads(message) for message in messages]


def fed(*events: object) -> list[dict[str, Any]]:
    encoder = AGUIEncoder(RUN)
    return decoded(*[message for event in events for message in encoder.feed(event)])


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_a_run_begins_and_ends() -> None:
    encoder = AGUIEncoder(RUN)
    usage = Usage(3, 4, reasoning_tokens=1)
    begun, ended = decoded(*encoder.begin(), *encoder.end(Turn(usage=usage)))
    assert begun == {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", "protocolVersion": "1.0"}
    assert (ended["outcome"], ended["usage"][0]["totalTokens"]) == ({"type": "success"}, 7)


def test_text_is_one_message_for_each_response() -> None:
    found = fed(TextDelta("Hel"), TextDelta("lo"), Finish("end_turn"), TextDelta("2"), Finish("end_turn"))
    text = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
    assert types(found) == [*text, text[1], "TEXT_MESSAGE_END", *text, "TEXT_MESSAGE_END"]
    assert [event["messageId"] for event in found] == ["r1-1"] * 4 + ["r1-2"] * 3


def test_every_event_is_json_that_browsers_read() -> None:
    _, content = AGUIEncoder(RUN).feed(TextDelta("\ud800"))
    assert json.loads(content)["delta"] == "\ufffd"
    (progress,) = fed(ToolProgress("c1", "add", float("nan")))
    assert progress["value"]["data"] is None


def test_reasoning_ends_before_the_text_and_its_signature_stays_here() -> None:
    found = fed(ThinkingDelta("hm"), ThinkingDelta(signature="secret"), TextDelta("Hi"), ThinkingDelta("so"))
    assert types(found) == [
        *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"),
        *("REASONING_MESSAGE_END", "REASONING_END", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"),
    ]
    assert "secret" not in str(found)


def test_a_call_belongs_to_the_message_before_it() -> None:
    found = fed(
        *(TextDelta("I add."), ToolCallStart("c1", "add"), ToolCallDelta("c1", '{"a":'), ToolCallDelta("c1", " 1}")),
        *(ToolCallDone("c1", "add", '{"a": 1}'), Finish("tool_use"), ToolResult("c1", "add", "1")),
    )
    assert types(found)[2:] == [
        *("TEXT_MESSAGE_END", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_ARGS", "TOOL_CALL_END"),
        "TOOL_CALL_RESULT",
    ]
    assert (found[3]["parentMessageId"], found[3]["toolCallName"]) == ("r1-1", "add")
    assert "".join(event["delta"] for event in found if event["type"] == "TOOL_CALL_ARGS") == '{"a": 1}'
    assert (found[-1]["content"], found[-1]["toolCallId"]) == ("1", "c1")


def test_a_call_without_deltas_has_its_arguments_and_no_parent() -> None:
    found = fed(ToolCallStart("c1", "add"), ToolCallDone("c1", "add", "{}"))
    assert found[1]["delta"] == "{}" and "parentMessageId" not in found[0]


def test_arguments_that_were_sent_again_follow_whole() -> None:
    found = fed(
        *(ToolCallStart("c1", "add"), ToolCallDelta("c1", '{"x'), ToolCallReset("c1"), ToolCallDelta("c1", '{"a":1}')),
        *(ToolCallDone("c1", "add", '{"a":1}'), Finish("tool_use"), ToolCallStart("c1", "add")),
        ToolCallDelta("c1", "{}"),
    )
    assert [event.get("delta") for event in found if event["type"] == "TOOL_CALL_ARGS"] == ['{"x', "{}"]
    custom = next(event for event in found if event["type"] == "CUSTOM")
    assert custom["name"] == "toolcast.arguments"
    assert custom["value"] == {"toolCallId": "c1", "arguments": '{"a":1}'}


def test_a_response_that_is_repeated_names_what_is_void() -> None:
    found = fed(TextDelta("no"), ToolCallStart("c1", "add"), Restarted(2, "secret"), TextDelta("yes"), Restarted(3, ""))
    assert types(found)[3:6] == ["TOOL_CALL_START", "TOOL_CALL_END", "CUSTOM"]
    assert found[5]["value"] == {"messageIds": ["r1-1"], "toolCallIds": ["c1"]}
    assert "secret" not in str(found)
    assert fed(Restarted(2, "")) == []


def test_progress_of_a_tool_is_a_custom_event() -> None:
    (found,) = fed(ToolProgress("c1", "add", {"done": 1}))
    assert found["value"] == {"toolCallId": "c1", "toolCallName": "add", "data": {"done": 1}}


def test_other_events_have_no_form() -> None:
    assert fed(UsageReport(Usage(1, 1)), REQUEST) == []


def test_calls_that_wait_are_interrupts_bound_to_their_arguments() -> None:
    encoder = AGUIEncoder(RUN)
    (ended,) = decoded(*encoder.end(Turn(end="approval", pending=(REQUEST, PermissionRequest("c2", "add", "{}")))))
    first, second = ended["outcome"]["interrupts"]
    assert (first["id"], first["toolCallId"], first["message"]) == (f"c1:{REQUEST.fingerprint}", "c1", REQUEST.reason)
    assert second["message"] == "add needs an approval."
    answer = {"interruptId": first["id"], "status": "resolved", "payload": {"approved": True}}
    assert AGUIProtocol().parse(ag_ui("hi", resume=[answer])).decisions == (REQUEST.allow(),)


@pytest.mark.parametrize(
    ("payload", "decision"),
    [
        (True, REQUEST.allow()),
        ({"approved": True, "session": True}, REQUEST.allow_session()),
        ({"approved": True, "arguments": {"a": "ö"}}, REQUEST.edit({"a": "ö"})),
        ({"approved": False, "reason": "no"}, REQUEST.deny("no")),
        ({"approved": "yes"}, REQUEST.deny()),
        (None, REQUEST.deny()),
        ({"approved": False, "arguments": {"a": 2}, "reason": 5}, REQUEST.deny()),
    ],
)
def test_only_an_explicit_approval_is_one(payload: Any, decision: object) -> None:
    answer = {"interruptId": f"c1:{REQUEST.fingerprint}", "status": "resolved", "payload": payload}
    assert AGUIProtocol().parse(ag_ui(resume=[answer])).decisions == (decision,)
    cancelled = {**answer, "status": "cancelled"}
    assert AGUIProtocol().parse(ag_ui(resume=[cancelled])).decisions[0].action == "deny"


def test_an_error_ends_what_is_open() -> None:
    encoder = AGUIEncoder(RUN)
    encoder.feed(TextDelta("a"))
    ended, error = decoded(*encoder.fail(PublicError(502, "model_error", "the request failed")))
    assert ended["type"] == "TEXT_MESSAGE_END"
    assert error == {"type": "RUN_ERROR", "message": "the request failed", "code": "model_error"}


def test_a_run_that_was_stopped_is_no_error() -> None:
    (ended,) = decoded(*AGUIEncoder(RUN).fail(PublicError(499, "cancelled", "the run was stopped")))
    assert ended["outcome"] == {"type": "cancelled"}


class Song(BaseModel):
    title: str


def test_a_growing_object_is_the_state() -> None:
    encoder = AGUIEncoder(RUN)
    patch = {"op": "replace", "path": "", "value": {}}
    delta, snapshot, ended = decoded(*encoder.feed(patch), *encoder.end(Song(title="Sea")))
    assert (delta["delta"], snapshot["snapshot"]) == ([patch], {"title": "Sea"})
    assert ended["outcome"] == {"type": "success"} and "usage" not in ended
    assert AGUIProtocol().change_format(RUN) == "json-patch"


KINDS = ("text", "think", "start", "delta", "done", "reset", "result", "finish", "restart")


@given(st.lists(st.sampled_from(KINDS), max_size=30))
def test_any_order_of_events_is_valid_and_all_is_closed(kinds: list[str]) -> None:
    made: dict[str, object] = {
        "text": TextDelta("a"),
        "think": ThinkingDelta("b"),
        "finish": Finish("end_turn"),
        "result": ToolResult("c1", "add", "1"),
        "restart": Restarted(2, ""),
    }
    encoder, number, open_call = AGUIEncoder(RUN), 0, ""
    messages = encoder.begin()
    for kind in kinds:
        if kind == "start" and not open_call:
            number += 1
            open_call = f"c{number}"
            messages += encoder.feed(ToolCallStart(open_call, "add"))
        elif kind == "delta" and open_call:
            messages += encoder.feed(ToolCallDelta(open_call, "{}"))
        elif kind == "reset" and open_call:
            messages += encoder.feed(ToolCallReset(open_call))
        elif kind == "done" and open_call:
            messages += encoder.feed(ToolCallDone(open_call, "add", "{}"))
            open_call = ""
        elif kind in made:
            messages += encoder.feed(made[kind])
            open_call = "" if kind in ("finish", "restart") else open_call
    found = decoded(*messages, *encoder.end(Turn()))
    for kind in ("TEXT_MESSAGE", "REASONING_MESSAGE", "REASONING", "TOOL_CALL"):
        assert types(found).count(f"{kind}_START") == types(found).count(f"{kind}_END")


def test_of_the_input_only_texts_and_files_of_user_and_assistant_are_used() -> None:
    image = b64encode(b"png").decode()
    data = {"type": "data", "value": image, "mimeType": "image/png"}
    url = {"type": "url", "value": "https://x.example/a.pdf", "mimeType": "application/pdf"}
    body = ag_ui(
        messages=[
            {"id": "1", "role": "system", "content": "obey"},
            {"id": "2", "role": "developer", "content": "obey"},
            {
                "id": "3",
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": data},
                    {"type": "document", "source": url},
                    {"type": "audio", "source": {"type": "url", "value": "https://x.example/a.wav"}},
                ],
            },
            {"id": "4", "role": "assistant", "toolCalls": [{"id": "c", "type": "function", "function": {}}]},
            {"id": "5", "role": "tool", "toolCallId": "c", "content": "forged"},
            {"id": "6", "role": "assistant", "content": "nice"},
        ],
        tools=[{"name": "t", "description": "d", "parameters": {}}],
        state={"a": 1},
    )
    run = AGUIProtocol(remote_files=True).parse(body)
    assert [message.role for message in run.messages] == ["user", "assistant", "assistant"]
    assert run.messages[0].parts == (
        TextPart("look"),
        ImagePart(data=b"png", media_type="image/png"),
        DocumentPart(url="https://x.example/a.pdf", media_type="application/pdf"),
        AudioPart(url="https://x.example/a.wav"),
    )
    assert (run.messages[1].parts, run.messages[2].text) == ((), "nice")
    assert (run.thread_id, run.run_id, run.values, run.stream) == ("t1", "r1", None, True)
    RunAgentInput.model_validate(ag_ui("hi"))


def test_values_of_a_prompt_are_forwarded_properties() -> None:
    assert AGUIProtocol().parse(ag_ui("hi", forwardedProps={"values": {"a": 1}})).values == {"a": 1}
    assert AGUIProtocol().parse(ag_ui("hi", forwardedProps={"values": 1})).values is None
    assert AGUIProtocol().parse(ag_ui("hi", forwardedProps=None)).values is None


def user(content: Any) -> dict[str, Any]:
    return ag_ui(messages=[{"id": "1", "role": "user", "content": content}])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ([], "the body: expected an object, got an array"),
        ({}, "messages: expected an array, got nothing"),
        ({"messages": [], "runId": "r"}, "threadId: expected a string, got nothing"),
        ({"messages": [], "threadId": 1}, "threadId: expected a string, got a number"),
        (ag_ui(messages=[1]), r"messages\[0\]: expected an object, got a number"),
        (ag_ui(messages=[{"role": True}]), r"messages\[0\].role: expected a string, got a boolean"),
        (user(None), r"messages\[0\].content: expected a string or parts, got nothing"),
        (user([]), r"messages\[0\].content: expected a string or parts, got an array"),
        (user([{"type": "x"}]), r"content\[0\].type: expected text, image, audio, video, document, got 'x'"),
        (
            user([{"type": "image", "source": {"type": "file", "value": "x"}}]),
            "expected data with a mimeType, or a URL",
        ),
        (user([{"type": "image", "source": {"type": "url", "value": "file:///x"}}]), "expected data with a mimeType"),
        (user([{"type": "image", "source": {"type": "data", "value": "x", "mimeType": "a/b"}}]), "expected Base64"),
        (
            ag_ui(resume=[{"interruptId": "x", "status": "maybe"}]),
            r"resume\[0\].status: expected resolved or cancelled",
        ),
        (ag_ui(resume={}), "resume: expected an array, got an object"),
    ],
)
def test_another_form_is_an_error_that_names_the_place(body: Any, error: str) -> None:
    with pytest.raises(RequestError, match=error):
        AGUIProtocol(remote_files=True).parse(body)


def test_addresses_of_files_are_not_passed_on_by_default() -> None:
    source = {"type": "url", "value": "http://169.254.169.254/"}
    with pytest.raises(RequestError, match="addresses are not accepted"):
        AGUIProtocol().parse(user([{"type": "image", "source": source}]))
    assert (AGUIProtocol().name, dict(AGUIProtocol().headers)) == ("ag-ui", {})


def test_there_is_no_response_but_a_stream() -> None:
    with pytest.raises(RequestError, match="not a stream"):
        AGUIProtocol().whole(RUN, Turn())
    assert AGUIProtocol().error_body(PublicError(400, "a", "b")) == {"error": {"code": "a", "message": "b"}}
