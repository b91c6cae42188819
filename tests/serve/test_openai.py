from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import BaseModel

import toolcast
from support.run_events import RUNS, TURNS
from support.serving import client_of, user_of
from toolcast import Engine
from toolcast.events import Finish, Restarted, TextDelta, ThinkingDelta, ToolCallDone, ToolResult
from toolcast.messages import AudioPart, DocumentPart, ImagePart, assistant, tool_result, user
from toolcast.parsing.path_changes import PathChange
from toolcast.serve.openai import OpenAIProtocol
from toolcast.serve.protocol import DONE, DocumentProtocol, PublicError, RequestError, RunInput
from toolcast.testing import ScriptedLLM
from toolcast.values.approvals import ApprovalDecision, PermissionRequest
from toolcast.values.turn import Turn
from toolcast.values.usage import Usage

PROTOCOL = OpenAIProtocol(new_id=lambda: "run", clock=lambda: 1700000000.5)
ECHO = {"model": "any", "created": 1700000000, "include_usage": False}
RUN = RunInput(run_id="run", echo=ECHO)
REQUEST = PermissionRequest("call-1", "delete_file", '{"path": "notes.txt"}', "It deletes.")
PENDING = [{**REQUEST.to_dict(), "fingerprint": REQUEST.fingerprint}]
WAITING = 'Waiting for approval:\ndelete_file {"path": "notes.txt"}'
TURN = Turn[Any]((assistant("Look."), tool_result("1", "x"), assistant(""), assistant("Calm.")), Usage(3, 2, 1))
USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "total_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 0},
}


async def test_the_models_are_served_to_users() -> None:
    app = toolcast.serve.app(Engine(ScriptedLLM("unused")), authorize=user_of)
    async with client_of(app) as client:
        models = await client.get("/v1/models")
        del client.headers["x-user"]
        unknown = await client.get("/v1/models")
    assert [model["id"] for model in models.json()["data"]] == ["toolcast"]
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (401, "authentication_error")


class Album(BaseModel):
    title: str


def encode(*events: Any, result: Any = TURN, run: RunInput = RUN) -> list[Any]:
    """Return the chunks of a run, without the marker of its end."""
    encoder = PROTOCOL.encoder(run)
    texts = encoder.begin()
    for event in events:
        texts += encoder.feed(event)
    texts += encoder.fail(result) if isinstance(result, PublicError) else encoder.end(result)
    assert texts.pop() == DONE
    return [json.loads(text, parse_constant=pytest.fail) for text in texts]


def content(chunks: list[Any]) -> str:
    return "".join([choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]])


def parse(*messages: Any, **fields: Any) -> RunInput:
    return PROTOCOL.parse({"model": "any", "messages": list(messages), **fields})


def part(kind: str, value: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": kind, kind: value}]}


class TestRequests:
    def test_texts_of_the_user_and_the_assistant_are_read(self) -> None:
        run = parse(
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": [{"type": "text", "text": "Hi."}, {"type": "refusal", "refusal": "No."}]},
            {"role": "user", "content": [{"type": "text", "text": "How is the sea?"}]},
        )
        messages = (user("Hello."), assistant("Hi."), user("How is the sea?"))
        assert run == RunInput(messages, run_id="run", stream=False, echo=ECHO)

    def test_other_messages_and_fields_are_not_used(self) -> None:
        run = parse(
            {"role": "system", "content": "Obey."},
            {"role": "developer", "content": 5},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "content": "sunny", "tool_call_id": "1"},
            {"role": "user", "content": ""},
            tools=[{"type": "function"}],
            tool_choice="required",
            user="root",
            response_format={"type": "json_object"},
        )
        assert run == RunInput(run_id="run", stream=False, echo=ECHO)

    def test_the_thread_the_values_and_the_decisions(self) -> None:
        decision = {"call_id": "call-1", "fingerprint": "f", "action": "deny", "reason": "Mine."}
        extension = {"values": {"topic": "sea"}, "decisions": [decision, {**decision, "action": "allow"}]}
        fields: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}, "n": 1}
        run = parse(metadata={"thread_id": "thread-1"}, toolcast=extension, **fields)
        assert run == RunInput(
            decisions=(
                ApprovalDecision("call-1", "f", "deny", "Mine."),
                ApprovalDecision("call-1", "f", "allow", "Mine."),
            ),
            thread_id="thread-1",
            run_id="run",
            values={"topic": "sea"},
            echo={**ECHO, "include_usage": True},
        )

    @pytest.mark.parametrize(
        ("message", "expected"),
        [
            (
                part("image_url", {"url": "data:image/gif;base64,AAA=", "detail": "low"}),
                ImagePart(data=b"\0\0", media_type="image/gif", detail="low"),
            ),
            (part("input_audio", {"data": "AAA=", "format": "wav"}), AudioPart(data=b"\0\0", media_type="audio/wav")),
            (
                part("file", {"file_data": "data:application/pdf;base64,AAA=", "filename": "a.pdf"}),
                DocumentPart(data=b"\0\0", media_type="application/pdf", name="a.pdf"),
            ),
        ],
    )
    def test_files_are_read_from_data_urls(self, message: Any, expected: Any) -> None:
        assert parse(message).messages == (user(expected),)

    def test_addresses_of_images_are_passed_on_if_that_is_allowed(self) -> None:
        body = {"model": "any", "messages": [part("image_url", {"url": "https://example.com/a"})]}
        run = OpenAIProtocol(remote_files=True).parse(body)
        assert run.messages == (user(ImagePart("https://example.com/a", media_type="image/png")),)

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"model": None}, "model: expected a string, got nothing"),
            ({"messages": {}}, "messages: expected a list, got an object"),
            ({"n": 2}, "n: expected 1, got the number 2"),
            ({"stream": "yes"}, "stream: expected true or false, got a string"),
            ({"metadata": {"thread_id": 5}}, "metadata.thread_id: expected a string, got the number 5"),
            ({"messages": [{"role": "root"}]}, "messages[0].role: expected 'user', 'assistant', "),
            (
                {"messages": [{"role": "user"}]},
                "messages[0].content: expected a string or a list of parts, got nothing",
            ),
            ({"messages": [part("video_url", {})]}, "messages[0].content[0].type: expected 'text', 'image_url', "),
            (
                {"messages": [part("image_url", {"url": "https://example.com/a"})]},
                "messages[0].content[0].image_url.url: expected a data URL, got the address of a file",
            ),
            (
                {"messages": [part("image_url", {"url": "data:text/plain,a"})]},
                "messages[0].content[0].image_url.url: expected an image, got text/plain",
            ),
            (
                {"messages": [part("input_audio", {"data": "?", "format": "wav"})]},
                "messages[0].content[0].input_audio.data: expected base64 data, got '?'",
            ),
            (
                {"messages": [part("input_audio", {"data": "", "format": ","})]},
                "messages[0].content[0].input_audio.format: expected 'wav' or 'mp3', got a string",
            ),
            (
                {"messages": [part("file", {"file_id": "file-1"})]},
                "messages[0].content[0].file.file_data: expected a string, got nothing",
            ),
            (
                {"toolcast": {"decisions": [{"action": "allow_session"}]}},
                "toolcast.decisions[0].action: expected 'allow' or 'deny', got a string",
            ),
            (
                {"toolcast": {"decisions": [{"action": "allow"}]}},
                "toolcast.decisions[0].call_id: expected a string, got nothing",
            ),
            ({"toolcast": {"values": []}}, "toolcast.values: expected an object, got a list"),
        ],
    )
    def test_other_forms_are_refused(self, fields: Any, error: str) -> None:
        with pytest.raises(RequestError) as raised:
            PROTOCOL.parse({"model": "any", "messages": [], **fields})
        assert str(raised.value).startswith(error)


class TestResponses:
    def test_texts_are_chunks_of_one_message(self) -> None:
        call = ToolCallDone("1", "look", "{}")
        events = (
            *(ThinkingDelta("Hm."), ThinkingDelta(signature="s"), TextDelta("Look."), call, Finish("tool_use")),
            *(ToolResult("1", "look", "x"), TextDelta(""), TextDelta("Ca"), TextDelta("lm."), Finish("end_turn")),
        )
        chunks = encode(*events)
        assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
            {"role": "assistant", "content": ""},
            {"reasoning_content": "Hm."},
            {"content": "Look."},
            {"content": "\n\nCa"},
            {"content": "lm."},
            {},
        ]
        assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 5 + ["stop"]
        assert chunks[0] == {
            "id": "chatcmpl-run",
            "object": "chat.completion.chunk",
            "created": 1700000000,
            "model": "any",
            "choices": [chunks[0]["choices"][0]],
        }
        assert content(chunks) == PROTOCOL.whole(RUN, TURN)["choices"][0]["message"]["content"]

    def test_the_usage_follows_if_it_is_requested(self) -> None:
        run = RunInput(run_id="run", echo={**ECHO, "include_usage": True})
        *others, last = encode(TextDelta("A"), run=run)
        assert [chunk["usage"] for chunk in others] == [None] * 3
        assert (last["choices"], last["usage"]) == ([], USAGE)
        # That of a structured call is not in its result.
        assert encode(result=Album(title="The sea"), run=run)[-1]["usage"] is None

    def test_a_whole_response(self) -> None:
        message = {"role": "assistant", "content": "Look.\n\nCalm.", "refusal": None}
        assert PROTOCOL.whole(RUN, TURN) == {
            "id": "chatcmpl-run",
            "object": "chat.completion",
            "created": 1700000000,
            "model": "any",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": USAGE,
        }

    @pytest.mark.parametrize(
        ("end", "reason"), [("max_tokens", "length"), ("content_filter", "content_filter"), ("other", "stop")]
    )
    def test_the_finish_reason(self, end: Any, reason: str) -> None:
        turn = Turn[Any]((assistant("A"),), end=end)
        assert PROTOCOL.whole(RUN, turn)["choices"][0]["finish_reason"] == reason
        assert encode(result=turn)[-1]["choices"][0]["finish_reason"] == reason

    def test_calls_that_wait_for_an_approval_are_named(self) -> None:
        turn = Turn[Any]((assistant("Look."),), end="approval", pending=(REQUEST,))
        chunks = encode(TextDelta("Look."), Finish("tool_use"), REQUEST, result=turn)
        whole = PROTOCOL.whole(RUN, turn)
        assert content(chunks) == whole["choices"][0]["message"]["content"] == f"Look.\n\n{WAITING}"
        assert chunks[-1]["toolcast"] == whole["toolcast"] == {"pending": PENDING}
        assert chunks[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "stop"

    @pytest.mark.parametrize("result", [Album(title="The sea"), Turn[Any](typed_output=Album(title="The sea"))])
    def test_an_object_is_json_text(self, result: Any) -> None:
        chunks = encode(PathChange("set", "", {}), PathChange("set", "title", ""), result=result)
        assert content(chunks) == '{"title":"The sea"}'
        assert PROTOCOL.whole(RUN, result)["choices"][0]["message"]["content"] == '{"title":"The sea"}'
        assert ("usage" in PROTOCOL.whole(RUN, result)) == isinstance(result, Turn)

    def test_a_request_that_is_repeated(self) -> None:
        chunks = encode(TextDelta("Th"), Restarted(2, "secret"), TextDelta("The sea"))
        assert chunks[2]["toolcast"] == {"restarted": 2}
        assert content(chunks) == "Th\n\nThe sea"

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (403, "permission_error"),
            (409, "invalid_request_error"),
            (429, "rate_limit_error"),
            (502, "server_error"),
        ],
    )
    def test_errors(self, status: int, kind: str) -> None:
        error = PublicError(status, "a_code", "failed")
        body = {"error": {"message": "failed", "type": kind, "param": None, "code": "a_code"}}
        assert PROTOCOL.error_body(error) == body
        assert encode(result=error)[-1] == body

    def test_the_models_are_documents(self) -> None:
        protocol = OpenAIProtocol(path="/api/v1/chat/completions", model="sea")
        assert isinstance(protocol, DocumentProtocol)
        model = {"id": "sea", "object": "model", "created": 0, "owned_by": "toolcast"}
        assert protocol.documents == {
            "/api/v1/models": {"object": "list", "data": [model]},
            "/api/v1/models/sea": model,
        }

    def test_the_protocol_is_named(self) -> None:
        assert (PROTOCOL.name, PROTOCOL.path, PROTOCOL.headers) == ("openai", "/v1/chat/completions", {})

    @given(RUNS, TURNS)
    def test_every_run_is_well_formed(self, events: list[Any], turn: Turn[Any]) -> None:
        chunks = encode(*events, result=turn)
        assert chunks == encode(*events, result=turn)
        assert [chunk["choices"][0]["finish_reason"] is None for chunk in chunks] == [True] * (len(chunks) - 1) + [
            False
        ]
        assert "secret" not in json.dumps(chunks)
        texts = [event.text for event in events if isinstance(event, TextDelta)]
        text = content(chunks).replace("\n\n", "")
        assert text.startswith("".join(texts).replace("\ud800", "\ufffd").replace("\n\n", ""))
