"""telemetry_content.py, and what is recorded with and without `capture_content`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.trace import StatusCode
from pydantic import BaseModel, ConfigDict

from support.albums import Album
from support.chunks import album_body
from support.engines import call as tool_call
from support.sync_and_async import API
from support.telemetry import attributes, content, recorded
from toolcast import (
    Engine,
    OpenAI,
    RemoteMCP,
    ToolCallPart,
    ToolOrchestratingLLM,
    ValidationError,
    WebSearch,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.errors import ServerError
from toolcast.messages import AudioPart, DocumentPart, FileRef, ImagePart, Part, ThinkingPart, VideoPart
from toolcast.observability.telemetry_content import definitions_json, messages_json
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM
from toolcast.values.tool_spec import ToolSpec

WORD = "Glass-Sea-42"  # in everything that users, models and tools write


def masked(text: str) -> str:
    return text.replace("sk-secret", "[key]")


@pytest.mark.parametrize(
    ("part", "data"),
    [
        (ThinkingPart("Hm, sk-secret."), {"type": "reasoning", "content": "Hm, [key]."}),
        (
            ToolCallPart("1", "add", '{"a": 1}'),
            {"type": "tool_call", "id": "1", "name": "add", "arguments": {"a": 1}},
        ),
        (
            ToolCallPart("1", "add", '{"a": "sk-secret'),
            {"type": "tool_call", "id": "1", "name": "add", "arguments": '{"a": "[key]'},
        ),
        (
            ImagePart(url="https://h/a.png?key=sk-secret", media_type="image/png"),
            {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "https://h/a.png?key=[key]"},
        ),
        (ImagePart(url="https://h/a.png"), {"type": "uri", "modality": "image", "uri": "https://h/a.png"}),
        (ImagePart(url="data:image/png;base64,AAAA"), {"type": "image", "size": 26}),
        (AudioPart(data=b"abc", media_type="audio/wav"), {"type": "audio", "mime_type": "audio/wav", "size": 3}),
        (
            DocumentPart(data=b"abcd", media_type="application/pdf"),
            {"type": "document", "mime_type": "application/pdf", "size": 4},
        ),
        (VideoPart(data=b"abc", media_type="video/mp4"), {"type": "video", "mime_type": "video/mp4", "size": 3}),
        (
            FileRef("mistral", "sk-secret", "https://files.example/1?sig=x", "video/mp4"),
            {"type": "file", "modality": "video", "mime_type": "video/mp4", "file_id": "[key]"},
        ),
        (FileRef("openai", "file-1"), {"type": "file", "modality": "document", "file_id": "file-1"}),
    ],
)
def test_parts(part: Part, data: dict[str, Any]) -> None:
    assert json.loads(messages_json([assistant(part)], (), masked)) == [{"role": "assistant", "parts": [data]}]


def test_messages() -> None:
    messages = [system("Be kind."), user("Hello, sk-secret."), tool_result("1", "2 sk-secret", name="add")]
    assert json.loads(messages_json(messages, (), masked)) == [
        {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Hello, [key]."}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "2 [key]"}]},
    ]


def test_definitions() -> None:
    schema = {"type": "object", "properties": {"key": {"type": "string", "default": "sk-secret"}}}
    (found,) = json.loads(definitions_json([ToolSpec("add", "Add two numbers, by sk-secret.", schema)], masked))
    assert found == {
        "type": "function",
        "name": "add",
        "description": "Add two numbers, by [key].",
        "parameters": {"type": "object", "properties": {"key": {"type": "string", "default": "[key]"}}},
    }


def test_definitions_of_tools_that_the_provider_runs() -> None:
    tools = [WebSearch(max_uses=2), RemoteMCP("docs", "https://a.com", token="sk-other")]
    assert json.loads(definitions_json([], masked, tools)) == [
        {"kind": "web_search", "max_uses": 2, "type": "web_search", "name": "WebSearch"},
        {
            "kind": "mcp",
            "name": "RemoteMCP('docs')",
            "url": "https://a.com",
            "token": "***",
            "require_approval": "always",
            "type": "mcp",
        },
    ]


def test_a_request_with_tools_of_the_provider_has_their_definitions(api: API) -> None:
    llm = ScriptedLLM("Hi")
    with recorded(capture_content=True) as telemetry:
        api.chat(llm, "Hi", tools=[WebSearch()])
    assert '"type":"web_search"' in telemetry.everything().replace("\\", "").replace(" ", "")


def test_a_lone_surrogate_can_be_exported(api: API) -> None:
    call = tool_call("\ud800", "a\ud800", '{"a": "\ud800"}')
    with recorded(capture_content=True) as telemetry:
        Engine(ScriptedLLM(call, "Done \ud800."), [lambda_tool]).submit("Hello \ud800.")
    telemetry.everything().encode()


def lambda_tool(text: str) -> str:
    return f"{WORD} {text}"


def run_everything(api: API) -> None:
    """A structured call, a turn with tools that fail and succeed, a call that does not validate, and a failure."""
    right, wrong = {"title": WORD, "artist": WORD, "songs": []}, {"title": 1, "artist": WORD}
    api.call(ToolOrchestratingLLM(Album, f"Make one about {WORD}.", ScriptedLLM(right, system_prompt=WORD)))
    with pytest.raises(ValidationError):
        api.call(ToolOrchestratingLLM(Album, f"Make one about {WORD}.", ScriptedLLM(wrong)))
    calls = [
        tool_call("1", "lambda_tool", json.dumps({"text": WORD})),
        tool_call("2", "lambda_tool", f'{{"a": "{WORD}"}}'),
    ]
    Engine(ScriptedLLM(calls, WORD), [lambda_tool]).submit(f"Call {WORD}.")
    with pytest.raises(ServerError):
        api.chat(ScriptedLLM(ServerError(f"down: {WORD}")), WORD)


def test_without_capture_nothing_that_was_written_is_recorded(api: API) -> None:
    with recorded() as telemetry:
        run_everything(api)
    assert len(telemetry.spans) == 8
    assert WORD not in telemetry.everything()


def test_with_capture_spans_have_content_and_metrics_have_none(api: API) -> None:
    with recorded(capture_content=True) as telemetry:
        run_everything(api)
    structured, invalid = telemetry.of("chat scripted")[:2]
    assert [message["role"] for message in content(structured, "gen_ai.input.messages")] == ["system", "user"]
    (answer,) = content(structured, "gen_ai.output.messages")
    assert answer["parts"][0]["arguments"]["title"] == WORD
    (tool,) = content(structured, "gen_ai.tool.definitions")
    assert (tool["name"], list(tool["parameters"]["properties"])) == ("Album", ["title", "artist", "songs"])
    assert tool["description"]
    (attempt,) = invalid.events
    assert "title" in attempt.attributes["toolcast.attempt.error"]
    assert invalid.status.description is not None
    assert "title" in invalid.status.description
    turn = telemetry.one("invoke_agent")
    assert content(turn, "gen_ai.input.messages")[0]["parts"][0]["content"] == f"Call {WORD}."
    assert content(turn, "gen_ai.output.messages")[0]["parts"][0]["content"] == WORD
    first, second = telemetry.of("execute_tool lambda_tool")
    assert attributes(first)["gen_ai.tool.call.result"] == f"{WORD} {WORD}"
    assert content(first, "gen_ai.tool.call.arguments") == {"text": WORD}
    assert second.status.status_code is StatusCode.ERROR
    assert WORD not in str(telemetry.metrics())


def test_credentials_are_removed_from_content(api: API) -> None:
    body = Recorded.of(album_body(json.dumps({"title": "sk-secret", "artist": "", "songs": []})))
    llm = OpenAI("m-1", api="chat", api_key="sk-secret", network=ReplayNetwork(body))
    with recorded(capture_content=True) as telemetry:
        api.call(ToolOrchestratingLLM(Album, "Make one about sk-secret.", llm))
    assert "sk-secret" not in telemetry.everything()
    assert "[key]" in attributes(telemetry.one("chat m-1"))["gen_ai.input.messages"]


class Hidden(BaseModel):
    """A person."""

    model_config = ConfigDict(hide_input_in_errors=True)
    name: str
    age: int


def test_hidden_input_is_left_out(api: API) -> None:
    answer = {"name": WORD, "age": "x"}
    with recorded(capture_content=True) as telemetry:
        with pytest.raises(ValidationError):
            api.call(ToolOrchestratingLLM(Hidden, "Make one.", ScriptedLLM(answer, answer), max_attempts=2))

        def keep(person: Hidden) -> str:
            return person.name

        arguments = json.dumps({"person": {"name": WORD, "age": 1}})
        Engine(ScriptedLLM(tool_call("1", "keep", arguments), "Done."), [keep]).submit("Keep it.")
    call, tool = telemetry.of("chat scripted")[0], telemetry.one("execute_tool keep")
    assert [event.attributes["error.type"] for event in call.events] == ["ValidationError"] * 3
    assert not [event for event in call.events if "toolcast.attempt.error" in event.attributes]
    assert call.status.description is None
    assert "gen_ai.tool.call.arguments" not in attributes(tool)
    assert "gen_ai.tool.call.result" not in attributes(tool)
    assert WORD not in json.dumps([attributes(span) for span in telemetry.of("chat scripted")[:2]], default=str)
