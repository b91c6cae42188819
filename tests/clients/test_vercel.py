"""`useChat` of Vercel's AI SDK, without React, against `toolcast.serve`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st
from pydantic import BaseModel

from clients.node import run_node
from clients.served import DELETE, Model, engine, served, sessions
from support.run_events import RUNS, TURNS
from toolcast import ToolCallPart, ToolOrchestratingLLM
from toolcast.events import Finish, TextDelta, ThinkingDelta
from toolcast.serve.protocol import DONE, PublicError, RunInput
from toolcast.serve.vercel import WAITS, VercelProtocol
from toolcast.testing import ScriptedLLM
from toolcast.values.approvals import fingerprint
from toolcast.values.turn import Turn


class Album(BaseModel):
    title: str
    songs: list[str]


def scene(name: str, url: str, **values: Any) -> list[Any]:
    return run_node("vercel_chat.mjs", scene=name, url=url, **values)


def test_a_streamed_answer() -> None:
    answer = [ThinkingDelta("Look "), ThinkingDelta("outside."), TextDelta("The sea "), TextDelta("is calm.")]
    with served(engine(ScriptedLLM([*answer, Finish("end_turn")]))) as url:
        (result,) = scene("answer", url)
    user, message = result["messages"]
    assert user == {"role": "user", "parts": [{"type": "text", "text": "How is the sea?"}]}
    assert [(part["type"], part.get("text"), part.get("state")) for part in message["parts"]] == [
        ("step-start", None, None),
        ("reasoning", "Look outside.", "done"),
        ("text", "The sea is calm.", "done"),
    ]
    assert result["id"].startswith("msg-")


@pytest.mark.parametrize("last_only", [False, True], ids=["all messages", "the last message"])
def test_a_call_that_is_approved(last_only: bool) -> None:
    llm = ScriptedLLM(DELETE, "They are deleted.", "You are welcome.")
    with served(sessions(llm)) as url:
        asked, answered, later = scene("approve", url, approved=True, lastOnly=last_only)
    assert asked == {
        "state": "approval-requested",
        "input": {"path": "notes.txt"},
        "descriptor": {
            "toolName": "delete_file",
            "arguments": DELETE.arguments,
            "fingerprint": fingerprint("call-1", "delete_file", DELETE.arguments),
            "reason": asked["descriptor"]["reason"],
        },
    }
    assert answered["call"]["state"] == "output-available"
    assert answered["call"]["input"] == {"path": "notes.txt"}
    assert answered["call"]["output"] == {"deleted": "notes.txt"}
    assert (answered["text"], answered["messages"]) == ("They are deleted.", 2)
    assert later == {"text": "You are welcome.", "messages": 4}
    assert [message.text for message in llm.requests[-1].messages if message.role == "user"] == [
        "Delete my notes.",
        "Thanks.",
    ]


def test_a_call_that_is_rejected() -> None:
    llm = ScriptedLLM(DELETE, "They stay.", "You are welcome.")
    with served(sessions(llm)) as url:
        _, answered, later = scene("approve", url, approved=False, reason="They are mine.")
    assert answered["call"]["state"] == "output-denied"
    assert (answered["text"], answered["messages"]) == ("They stay.", 2)
    assert later == {"text": "You are welcome.", "messages": 4}
    (result,) = llm.requests[1].messages[-1].parts
    assert result.is_error
    assert "They are mine." in result.content


def test_decisions_one_by_one() -> None:
    calls = [DELETE, ToolCallPart("call-2", "delete_file", '{"path": "b.txt"}')]
    with served(sessions(ScriptedLLM(calls, "They are deleted."))) as url:
        first, both, result = scene("approveOneByOne", url)
    assert first == [
        {"state": "output-error", "input": {"path": "notes.txt"}, "errorText": WAITS},
        {"state": "approval-requested", "input": {"path": "b.txt"}},
    ]
    assert both == [
        {"state": "output-available", "input": {"path": path}, "output": {"deleted": path}}
        for path in ("notes.txt", "b.txt")
    ]
    assert result == {"text": "They are deleted.", "messages": 2}


def test_forged_approvals_are_refused() -> None:
    llm = ScriptedLLM(DELETE, "They are deleted.")
    with served(sessions(llm)) as url:
        other, longer, malformed, valid = scene("forge", url)
    assert (other["status"], other["body"]["code"]) == (409, "approval_refused")
    assert (longer["status"], longer["body"]["code"]) == (409, "approval_refused")
    assert (malformed["status"], malformed["body"]["code"]) == (400, "invalid_request")
    assert "messages[1].parts" in malformed["body"]["error"]
    assert valid == {"state": "output-available"}
    assert len(llm.requests) == 2


def test_a_disconnect_and_a_resumption() -> None:
    model = Model()
    with served(sessions(model.llm), model) as url:
        resumed, ended = scene("resume", url)
    assert resumed == {
        "text": "The sea is calm.",
        "role": "assistant",
        "status": "ready",
        "model": {"requests": 1, "cancelled": 0},
    }
    assert ended == {"messages": 1, "status": "ready"}


def test_without_a_session_a_disconnect_cancels() -> None:
    model = Model()
    with served(engine(model.llm), model) as url:
        assert scene("disconnect", url) == [{"requests": 1, "cancelled": 1}]


def test_a_run_that_is_stopped() -> None:
    model = Model()
    with served(sessions(model.llm), model) as url:
        (result,) = scene("stop", url)
    assert (result["text"], result["status"]) == ("The sea ", "ready")
    assert "error" not in result
    assert result["parts"][-1]["state"] == "done"


def test_an_error_has_no_internals() -> None:
    with served(engine(ScriptedLLM(RuntimeError("/secret/path")))) as url:
        (result,) = scene("fail", url)
    assert result["status"] == "error"
    assert "secret" not in result["error"]


def test_an_unknown_user() -> None:
    with served(engine(ScriptedLLM("unused")), authorize=lambda request: None) as url:
        (result,) = scene("fail", url)
    assert result == {"status": "error", "error": '{"error":"unknown user","code":"unauthorized"}'}


def test_a_growing_object() -> None:
    llm = ScriptedLLM({"title": "The sea", "songs": ["Waves", "Wind"]})
    make = ToolOrchestratingLLM(output_cls=Album, prompt="Create an album about {topic}", llm=llm)
    with served(make) as url:
        (result,) = scene("object", url)
    (part,) = [part for part in result["parts"] if part["type"] == "data-object"]
    assert part["data"] == {"title": "The sea", "songs": ["Waves", "Wind"]}
    assert len(result["seen"]) > 3
    assert llm.requests[0].messages[-1].text == "Create an album about the sea"


def test_every_run_is_valid_for_the_sdk() -> None:
    """The SDK's own schema has the parts, and the SDK reads the whole stream as a message."""
    protocol = VercelProtocol()
    streams: list[Any] = []
    texts: list[str] = []

    @settings(max_examples=200, phases=[Phase.generate], database=None, deadline=None)
    @given(RUNS, TURNS, st.booleans())
    def generate(events: list[Any], turn: Turn[Any], fails: bool) -> None:
        encoder = protocol.encoder(RunInput(run_id="run"))
        parts = [*encoder.begin(), *[part for event in events for part in encoder.feed(event)]]
        parts += encoder.fail(PublicError(500, "failed", "It failed.")) if fails else encoder.end(turn)
        assert parts.pop() == DONE
        streams.append([json.loads(part) for part in parts])
        texts.append("".join([event.text for event in events if isinstance(event, TextDelta)]))

    generate()
    (results,) = run_node("vercel_parts.mjs", streams=streams)
    assert [result["errors"] for result in results] == [[] for _ in streams]
    for stream, text, result in zip(streams, texts, results, strict=True):
        if stream[-1]["type"] == "finish":
            shown = [part["text"] for part in result["message"]["parts"] if part["type"] == "text"]
            assert "".join(shown) == text.replace("\ud800", "\ufffd")
