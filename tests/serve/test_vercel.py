from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.run_events import RUNS, TURNS
from toolcast.events import (
    AudioOutput,
    Finish,
    ImageOutput,
    Restarted,
    ServerToolUse,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from toolcast.messages import AudioPart, DocumentPart, ImagePart, VideoPart, assistant, user
from toolcast.parsing.path_changes import PathChange
from toolcast.serve.protocol import DONE, PublicError, RequestError, RunInput
from toolcast.serve.vercel import NO_RESULT, VercelProtocol, approval_id
from toolcast.values.approvals import ApprovalDecision, PermissionRequest
from toolcast.values.turn import Turn

PROTOCOL = VercelProtocol(new_id=lambda: "run")
RUN = RunInput(run_id="run")
REQUEST = PermissionRequest("call-1", "delete_file", '{"path": "notes.txt"}', "It deletes.")
DONE_TURN = Turn[Any]()
STARTED = {"type": "start", "messageId": "msg-run"}
ENDED = {"type": "finish", "finishReason": "stop"}


def encode(*events: Any, result: Any = DONE_TURN, error: PublicError | None = None, run: RunInput = RUN) -> list[Any]:
    """Return the parts of a run, without the marker of its end."""
    encoder = PROTOCOL.encoder(run)
    texts = encoder.begin()
    for event in events:
        texts += encoder.feed(event)
    texts += encoder.end(result) if error is None else encoder.fail(error)
    assert texts.pop() == DONE
    assert not any("\n" in text or "\r" in text for text in texts)
    return [json.loads(text, parse_constant=pytest.fail) for text in texts]


def parse(*messages: Any, **fields: Any) -> RunInput:
    return PROTOCOL.parse({"id": "thread-1", "messages": list(messages), "trigger": "submit-message", **fields})


def file(url: str, media_type: str = "", name: str | None = None) -> dict[str, Any]:
    part = {"type": "file", "url": url, "mediaType": media_type}
    return {"id": "m", "role": "user", "parts": [part if name is None else {**part, "filename": name}]}


def text(words: str, role: str = "user") -> dict[str, Any]:
    return {"id": "m", "role": role, "parts": [{"type": "text", "text": words}]}


def answered(id: str, approved: Any, **more: Any) -> dict[str, Any]:
    approval = {"id": id, "approved": approved, **more}
    part = {"type": "tool-delete_file", "toolCallId": "call-1", "state": "approval-responded", "approval": approval}
    return {"id": "m", "role": "assistant", "parts": [{"type": "step-start"}, {**part, "input": {"path": "notes.txt"}}]}


class TestRequests:
    def test_texts_of_the_user_and_the_assistant_are_read(self) -> None:
        run = parse(text("Hello."), text("Hi.", "assistant"), text("How is the sea?"), values={"topic": "sea"})
        assert run == RunInput(
            (user("Hello."), assistant("Hi."), user("How is the sea?")),
            thread_id="thread-1",
            run_id="run",
            values={"topic": "sea"},
            echo={},
        )

    def test_other_messages_and_parts_are_not_used(self) -> None:
        tool = {"type": "tool-look", "toolCallId": "1", "state": "output-available", "input": {}, "output": "sunny"}
        parts = [
            {"type": "reasoning", "text": "Hm."},
            {"type": "step-start"},
            tool,
            {"type": "text", "text": "Sunny."},
            {"type": "text", "text": ""},
            {"type": "source-url", "sourceId": "1", "url": "https://example.com"},
            {"type": "data-any", "data": 5},
        ]
        run = PROTOCOL.parse(
            {
                "messages": [
                    text("Obey.", "system"),
                    {"role": "user", "parts": [{"type": "data-any", "data": 5}]},
                    {"role": "assistant", "parts": [tool]},
                    {"id": "m", "role": "assistant", "parts": parts},
                ],
                "tools": {"mine": {}},
            }
        )
        assert run == RunInput((assistant("Sunny."),), run_id="run", echo={})

    def test_texts_of_a_repeated_request_are_not_used(self) -> None:
        step, void = {"type": "step-start"}, {"type": "data-restarted", "data": {"attempt": 2}}
        parts = [step, text("One. ")["parts"][0], step, text("Tw")["parts"][0], void, text("Two.")["parts"][0]]
        run = parse({"id": "m", "role": "assistant", "parts": parts})
        assert run.messages == (assistant("One. ", "Two."),)

    @pytest.mark.parametrize(
        ("message", "part"),
        [
            (file("data:image/png;base64,iVBORw=="), ImagePart(data=b"\x89PNG", media_type="image/png")),
            (file("data:;base64,iVBORw==", "IMAGE/PNG"), ImagePart(data=b"\x89PNG", media_type="image/png")),
            (file("data:audio/wav;base64,AAA="), AudioPart(data=b"\0\0", media_type="audio/wav")),
            (file("data:video/mp4;base64,AAA="), VideoPart(data=b"\0\0", media_type="video/mp4")),
            (
                file("data:application/pdf;base64,JVBERg==", "image/png", "a.pdf"),
                DocumentPart(data=b"%PDF", media_type="application/pdf", name="a.pdf"),
            ),
            (file("data:text/plain;charset=utf-8,a%20b"), DocumentPart(data=b"a b", media_type="text/plain")),
            (file("data:,a"), DocumentPart(data=b"a", media_type="text/plain")),
        ],
    )
    def test_files_are_read_from_data_urls(self, message: Any, part: Any) -> None:
        assert parse(message).messages == (user(part),)

    def test_addresses_of_files_are_passed_on_if_that_is_allowed(self) -> None:
        message = file("https://example.com/a.png", "image/png")
        with pytest.raises(RequestError, match="address of a file, which is not fetched"):
            parse(message)
        run = VercelProtocol(remote_files=True).parse({"messages": [message, file("https://example.com/a")]})
        assert run.messages == (
            user(ImagePart("https://example.com/a.png", media_type="image/png")),
            user(DocumentPart("https://example.com/a")),
        )

    def test_a_file_has_a_size_limit(self) -> None:
        protocol = VercelProtocol(file_bytes=3)
        for url in ("data:image/png;base64,AAAA", "data:text/plain,abc"):
            assert protocol.parse({"messages": [file(url)]}).messages
        for url in ("data:image/png;base64,AAAAAAAA", "data:text/plain,abcd"):
            with pytest.raises(RequestError, match=r"parts\[0\].url: expected a file of at most 3 bytes, got"):
                protocol.parse({"messages": [file(url)]})

    @pytest.mark.parametrize(("approved", "action"), [(True, "allow"), (False, "deny")], ids=["approved", "rejected"])
    def test_a_decision_names_the_call_and_its_arguments(self, approved: bool, action: Any) -> None:
        run = parse(text("Delete."), answered(approval_id(REQUEST), approved, reason="Mine."))
        assert run.decisions == (ApprovalDecision("call-1", REQUEST.fingerprint, action, "Mine."),)
        assert run.messages == (user("Delete."),)
        call = {"toolName": "delete_file", "input": {"path": "notes.txt"}}
        assert run.echo == {"message_id": "m", "calls": {"call-1": call}}

    def test_a_tool_may_be_dynamic(self) -> None:
        message = answered(approval_id(REQUEST), True)
        message["parts"][1] |= {"type": "dynamic-tool", "toolName": "other"}
        run = parse(message)
        assert run.echo is not None
        assert run.echo["calls"]["call-1"]["toolName"] == "other"

    def test_a_decision_before_a_newer_message_is_void(self) -> None:
        run = parse(answered(approval_id(REQUEST), True), text("Hello."))
        assert (run.decisions, run.echo) == ((), {})

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            ([], "the body: expected an object, got a list"),
            ({}, "messages: expected a list, got nothing"),
            ({"id": 5, "messages": []}, "id: expected a string, got the number 5"),
            ({"messages": ["a"]}, "messages[0]: expected an object, got a string"),
            (
                {"messages": [{"role": "tool"}]},
                "messages[0].role: expected 'user', 'assistant' or 'system', got a string",
            ),
            ({"messages": [{"role": "user", "parts": None}]}, "messages[0].parts: expected a list, got nothing"),
            ({"messages": [{"role": "assistant"}]}, "messages[0].parts: expected a list, got nothing"),
            (
                {"messages": [{"role": "user", "parts": [{"type": "text", "text": True}]}]},
                "messages[0].parts[0].text: expected a string, got true or false",
            ),
            ({"messages": [file("blob:x")]}, "messages[0].parts[0].url: expected a data URL, got 'blob:x'"),
            (
                {"messages": [file("data:image/png;base64,?")]},
                "messages[0].parts[0].url: expected base64 data, got '?'",
            ),
            ({"messages": [], "values": "a"}, "values: expected an object, got a string"),
            (
                {"messages": [answered("call-1", True)]},
                "messages[0].parts[1].approval.id: expected the id of a tool-approval-request, got a string",
            ),
            (
                {"messages": [answered("0" * 64, True)]},
                "messages[0].parts[1].approval.id: expected the id of a tool-approval-request, got a string",
            ),
            (
                {"messages": [answered(approval_id(REQUEST), None)]},
                "messages[0].parts[1].approval.approved: expected true or false, got nothing",
            ),
        ],
    )
    def test_other_forms_are_refused(self, body: Any, error: str) -> None:
        with pytest.raises(RequestError) as raised:
            PROTOCOL.parse(body)
        assert str(raised.value) == error

    def test_a_response_is_always_streamed(self) -> None:
        with pytest.raises(RequestError, match="not streamed"):
            PROTOCOL.whole(RUN, Turn())

    def test_an_error_is_short(self) -> None:
        assert PROTOCOL.error_body(PublicError(409, "busy", "wait")) == {"error": "wait", "code": "busy"}

    def test_the_protocol_is_named(self) -> None:
        assert (PROTOCOL.name, PROTOCOL.path) == ("vercel", "/vercel")
        assert PROTOCOL.headers == {"x-vercel-ai-ui-message-stream": "v1"}


class TestStreams:
    def test_text_and_reasoning_are_parts_of_a_step(self) -> None:
        first, second = "reasoning-run-1", "text-run-2"
        assert encode(ThinkingDelta("Hm."), ThinkingDelta(signature="s"), TextDelta("A"), TextDelta("B")) == [
            STARTED,
            {"type": "start-step"},
            {"type": "reasoning-start", "id": first},
            {"type": "reasoning-delta", "id": first, "delta": "Hm."},
            {"type": "reasoning-end", "id": first},
            {"type": "text-start", "id": second},
            {"type": "text-delta", "id": second, "delta": "A"},
            {"type": "text-delta", "id": second, "delta": "B"},
            {"type": "text-end", "id": second},
            {"type": "finish-step"},
            ENDED,
        ]

    def test_a_tool_call_and_the_next_step(self) -> None:
        id = {"toolCallId": "call-1"}
        events = (
            *(ToolCallStart("call-1", "look"), ToolCallDelta("call-1", '{"x'), ToolCallReset("call-1")),
            *(ToolCallDelta("call-1", "{}"), ToolCallDone("call-1", "look", "{}"), Finish("tool_use")),
            *(ToolStarted("call-1", "look"), ToolProgress("call-1", "look", 0.5)),
            *(ToolResult("call-1", "look", '{"sun": 1}'), TextDelta("Sunny.")),
        )
        assert encode(*events) == [
            STARTED,
            {"type": "start-step"},
            {"type": "tool-input-start", **id, "toolName": "look"},
            {"type": "tool-input-delta", **id, "inputTextDelta": '{"x'},
            {"type": "tool-input-start", **id, "toolName": "look"},
            {"type": "tool-input-delta", **id, "inputTextDelta": "{}"},
            {"type": "tool-input-available", **id, "toolName": "look", "input": {}},
            {"type": "data-tool-progress", "data": {**id, "toolName": "look", "data": 0.5}, "transient": True},
            {"type": "tool-output-available", **id, "output": {"sun": 1}},
            {"type": "finish-step"},
            {"type": "start-step"},
            {"type": "text-start", "id": "text-run-1"},
            {"type": "text-delta", "id": "text-run-1", "delta": "Sunny."},
            {"type": "text-end", "id": "text-run-1"},
            {"type": "finish-step"},
            ENDED,
        ]

    @pytest.mark.parametrize(
        ("content", "output"), [("5", "5"), ("sunny", "sunny"), (" [1]", [1]), ("[sunny]", "[sunny]")]
    )
    def test_the_output_is_structured_if_it_is_an_object_or_a_list(self, content: str, output: Any) -> None:
        parts = encode(ToolCallDone("1", "look", "{}"), ToolResult("1", "look", content))
        assert parts[-3] == {"type": "tool-output-available", "toolCallId": "1", "output": output}

    @pytest.mark.parametrize(
        ("truncated", "error"), [(True, "The arguments were cut off."), (False, "The arguments are not JSON.")]
    )
    def test_arguments_that_are_not_json(self, truncated: bool, error: str) -> None:
        parts = encode(ToolCallDone("1", "look", '{"x', truncated))
        call = {"toolCallId": "1", "toolName": "look", "input": '{"x', "errorText": error}
        assert parts[2] == {"type": "tool-input-error", **call}

    def test_a_call_that_fails(self) -> None:
        parts = encode(ToolCallDone("1", "look", "{}"), ToolResult("1", "look", "no", is_error=True))
        assert parts[-3] == {"type": "tool-output-error", "toolCallId": "1", "errorText": "no"}

    def test_a_call_that_waits_for_an_approval(self) -> None:
        call = ToolCallDone("call-1", "delete_file", REQUEST.arguments)
        waiting = Turn[Any](end="approval", pending=(REQUEST,))
        asked = {
            "type": "tool-approval-request",
            "approvalId": f"{REQUEST.fingerprint}:call-1",
            "toolCallId": "call-1",
            "approvalDescriptor": {
                "toolName": "delete_file",
                "arguments": REQUEST.arguments,
                "fingerprint": REQUEST.fingerprint,
                "reason": "It deletes.",
            },
        }
        ended = [{"type": "finish-step"}, {"type": "finish", "finishReason": "tool-calls"}]
        assert encode(call, Finish("tool_use"), REQUEST, result=waiting)[3:] == [asked, *ended]
        # One that an earlier run has requested is in the turn alone.
        assert encode(call, Finish("tool_use"), result=waiting)[3:] == [asked, *ended]
        available = encode(result=waiting)[1]
        assert (available["type"], available["input"]) == ("tool-input-available", {"path": "notes.txt"})

    @pytest.mark.parametrize("approved", [True, False])
    def test_a_message_is_continued_after_an_approval(self, approved: bool) -> None:
        run = parse(answered(approval_id(REQUEST), approved))
        result = ToolResult("call-1", "delete_file", "gone", is_error=not approved)
        output = {"type": "tool-output-available", "toolCallId": "call-1", "output": "gone"}
        assert encode(ToolStarted("call-1", "delete_file"), result, TextDelta("Done."), run=run)[:4] == [
            {"type": "start", "messageId": "m"},
            {
                "type": "tool-input-available",
                "toolCallId": "call-1",
                "toolName": "delete_file",
                "input": {"path": "notes.txt"},
            },
            output if approved else {"type": "tool-output-denied", "toolCallId": "call-1"},
            {"type": "start-step"},
        ]

    def test_a_call_has_no_result_if_the_run_is_stopped(self) -> None:
        # Otherwise a client that sends decisions by itself would send this one again.
        run = parse(answered(approval_id(REQUEST), True))
        stopped = PublicError(499, "cancelled", "the run was stopped")
        started, available, failed, aborted = encode(run=run, error=stopped)
        assert (started["messageId"], available["input"]) == ("m", {"path": "notes.txt"})
        assert failed == {"type": "tool-output-error", "toolCallId": "call-1", "errorText": NO_RESULT}
        assert aborted == {"type": "abort", "reason": "the run was stopped"}

    def test_an_error_ends_what_is_open(self) -> None:
        parts = encode(ToolCallStart("1", "look"), TextDelta("A"), error=PublicError(502, "model_error", "failed"))
        assert [part["type"] for part in parts[5:]] == ["text-end", "tool-output-error", "finish-step", "error"]
        assert parts[-1] == {"type": "error", "errorText": "failed"}

    def test_a_request_that_is_repeated(self) -> None:
        events = (TextDelta("Th"), ToolCallStart("1", "look"), Restarted(2, "secret"), TextDelta("The sea"))
        parts = encode(*events)
        assert [part["type"] for part in parts[4:9]] == [
            *("text-end", "tool-input-start", "tool-output-error", "data-restarted", "text-start")
        ]
        assert parts[7]["data"] == {"attempt": 2}

    def test_a_tool_of_the_provider(self) -> None:
        search = ServerToolUse("web_search", "s", {"query": "sea"})
        found = ServerToolUse("web_search", "s", output=["calm"])
        failed = ServerToolUse("web_search", error="unavailable")
        run = {"providerExecuted": True}
        assert encode(search, found, failed)[2:-2] == [
            {
                "type": "tool-input-available",
                "toolCallId": "s",
                "toolName": "web_search",
                "input": {"query": "sea"},
                **run,
            },
            {"type": "tool-output-available", "toolCallId": "s", **run, "output": ["calm"]},
            {
                "type": "tool-input-available",
                "toolCallId": "server-run-1",
                "toolName": "web_search",
                "input": None,
                **run,
            },
            {"type": "tool-output-error", "toolCallId": "server-run-1", **run, "errorText": "unavailable"},
        ]

    def test_images_and_recordings_are_files(self) -> None:
        events = (
            ImageOutput(ImagePart(data=b"\x89PNG", media_type="image/png"), partial=0),
            ImageOutput(ImagePart(data=b"\x89PNG", media_type="image/png")),
            AudioOutput(b"\0", "audio/wav"),
            AudioOutput(b"\0", "audio/wav"),
            AudioOutput(b"\0", "audio/mpeg"),
            ImageOutput(ImagePart("https://example.com/a")),
        )
        assert encode(*events)[2:-2] == [
            {"type": "file", "url": "data:image/png;base64,iVBORw==", "mediaType": "image/png"},
            {"type": "file", "url": "data:audio/wav;base64,AAA=", "mediaType": "audio/wav"},
            {"type": "file", "url": "data:audio/mpeg;base64,AA==", "mediaType": "audio/mpeg"},
            {"type": "file", "url": "https://example.com/a", "mediaType": "image/png"},
        ]

    @pytest.mark.parametrize(
        ("end", "reason"), [("max_tokens", "length"), ("refusal", "content-filter"), ("pause", "other")]
    )
    def test_the_reason_of_the_end(self, end: Any, reason: str) -> None:
        assert encode(result=Turn(end=end)) == [STARTED, {"type": "finish", "finishReason": reason}]

    def test_an_object_grows_in_one_part(self) -> None:
        changes = [
            PathChange("set", "", {"title": ""}),
            PathChange("text", "title", "The"),
            PathChange("set", "songs", []),
            PathChange("set", "songs.0", "Waves"),
        ]
        parts = encode(*changes, result={"title": "The sea", "songs": ["Waves"]})
        assert parts[1:-1] == [
            {"type": "data-object", "id": "object-run", "data": data}
            for data in (
                {"title": ""},
                {"title": "The"},
                {"title": "The", "songs": []},
                {"title": "The", "songs": ["Waves"]},
                {"title": "The sea", "songs": ["Waves"]},
            )
        ]
        assert changes[0].value == {"title": ""}  # it is the caller's

    def test_an_object_is_sent_again_when_it_has_grown_enough(self) -> None:
        changes = [PathChange("set", "", {"title": ""}), PathChange("text", "title", "a" * 400)]
        changes += [PathChange("text", "title", "b") for _ in range(8)]
        sizes = [len(part["data"]["title"]) for part in encode(*changes, result={"title": "c"})[1:-1]]
        assert sizes == [0, 400, 407, 1]

    @given(RUNS, TURNS | st.just({"title": "The sea"}), st.sampled_from([None, "cancelled", "model_error"]))
    def test_every_run_is_well_formed(self, events: list[Any], result: Any, error: str | None) -> None:
        decisions = (REQUEST.deny(),)
        run = replace(
            RUN, decisions=decisions, echo={"message_id": "m", "calls": {"call-1": {"toolName": "x", "input": 1}}}
        )
        problem = None if error is None else PublicError(500, error, "failed")
        parts = encode(*events, result=result, run=run, error=problem)
        assert parts == encode(*events, result=result, run=run, error=problem)
        check(parts)
        deltas = [event.text for event in events if isinstance(event, TextDelta)]
        assert "".join([part["delta"] for part in parts if part["type"] == "text-delta"]) == "".join(deltas).replace(
            "\ud800", "\ufffd"
        )
        finished = ["finish"] if error is None else ["abort" if error == "cancelled" else "error"]
        assert [part["type"] for part in parts if part["type"] in ("finish", "abort", "error")] == finished


def check(parts: list[Any]) -> None:
    """Check the order of the parts of a stream."""
    assert parts[0]["type"] == "start"
    open_part: str | None = None
    in_step = False
    begun: set[str] = set()
    streaming: set[str] = set()
    unfinished: set[str] = set()
    for part in parts[1:]:
        kind, _, phase = part["type"].rpartition("-")
        if kind in ("text", "reasoning"):
            assert in_step
            assert open_part == (None if phase == "start" else part["id"])
            open_part = None if phase == "end" else part["id"]
        elif part["type"] == "start-step":
            assert not in_step
            in_step = True
        elif part["type"] == "finish-step":
            assert in_step
            assert open_part is None
            in_step = False
        elif part["type"].startswith("tool-"):
            id = part["toolCallId"]
            if kind == "tool-input":
                assert phase != "delta" or id in streaming
                begun.add(id)
                (streaming.add if phase in ("start", "delta") else streaming.discard)(id)
                ended = phase == "error" or part.get("providerExecuted")
                (unfinished.discard if ended else unfinished.add)(id)
            else:
                assert id in begun
                unfinished.discard(id)
    assert open_part is None
    assert not in_step
    assert not unfinished
