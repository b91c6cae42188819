"""A search and then a typed object over HTTP with each provider, and the credentials of MCP servers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from support.loopback import Loopback, whole
from support.sync_and_async import API
from toolcast import (
    Anthropic,
    CallInfo,
    Engine,
    FunctionCallingLLM,
    Google,
    Hooks,
    LLMError,
    OpenAICompatible,
    OpenAIResponses,
    RemoteMCP,
    RequestInfo,
    ToolOrchestratingLLM,
    WebSearch,
)
from toolcast.errors import BadRequest
from toolcast.llms import CachedLLM, MemoryCache, RecordingLLM
from toolcast.llms.client import client_of
from toolcast.testing import record

KEY = "sk-test-0123456789"
TOKEN = 'mcp-"token"-0123456789'
HEADER = "header-secret-0123456789"


class Weather(BaseModel):
    """The weather."""

    city: str
    degrees: int


OSLO = Weather(city="Oslo", degrees=4)
JSON = '{"city": "Oslo", "degrees": 4}'


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as loopback:
        yield loopback


def base(server: Loopback) -> str:
    return f"http://127.0.0.1:{server.port}/v1"


def answer(server: Loopback, document: Any, status: int = 200) -> None:
    server.answer(whole(json.dumps(document).encode(), status, "content-type: application/json"))


def bodies(server: Loopback) -> list[Any]:
    return [json.loads(request.body) for request in server.requests]


def weather(llm: FunctionCallingLLM, **options: Any) -> ToolOrchestratingLLM[Weather]:
    return ToolOrchestratingLLM(Weather, "Weather in {city}?", llm, tools=[WebSearch()], **options)


def openai_response(text: str, *items: Mapping[str, Any]) -> dict[str, Any]:
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    return {"id": "resp_1", "model": "gpt-5.4", "status": "completed", "output": [*items, message]}


SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "Oslo"}}


@pytest.mark.parametrize(("service", "model"), [("openai", "gpt-5.4"), ("xai", "grok-4.5")])
def test_responses_constrain_the_text_after_a_search(server: Loopback, api: API, service: str, model: str) -> None:
    llm = OpenAIResponses(model, service=service, api_key=KEY, base_url=base(server), max_retries=0)
    answer(server, openai_response(JSON, SEARCH))
    result = api.run(weather(llm), city="Oslo")
    assert result.output == OSLO
    (part,) = result.response.message.server_tools
    assert (part.name, part.provider, part.raw) == ("web_search", service, SEARCH)
    (body,) = bodies(server)
    assert body["tools"] == [{"type": "web_search"}]
    assert body["text"]["format"]["type"] == "json_schema"
    assert "tool_choice" not in body


def test_an_answer_in_words_is_requested_again_as_an_object(server: Loopback, api: API) -> None:
    llm = OpenAIResponses("gpt-5.4", api_key=KEY, base_url=base(server), max_retries=0)
    answer(server, openai_response("It is 4 degrees.", SEARCH))
    answer(server, openai_response(JSON))
    assert api.run(weather(llm), city="Oslo").output == OSLO
    second = bodies(server)[1]
    assert second["input"][1] == SEARCH
    assert second["tools"][0] == {"type": "web_search"} or second["tools"][0]["name"] == "Weather"


def test_a_function_as_output_is_called_after_the_search(server: Loopback, api: API) -> None:
    def store(city: str, degrees: int) -> str:
        """Store the weather."""
        return f"{city}: {degrees}"

    llm = OpenAIResponses("gpt-5.4", api_key=KEY, base_url=base(server), max_retries=0)
    make = ToolOrchestratingLLM(store, "Weather in {city}?", llm, tools=[WebSearch()])
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "store", "arguments": JSON}
    answer(server, {"id": "resp_1", "status": "completed", "output": [SEARCH, call]})
    assert api.call(make, city="Oslo") == "Oslo: 4"
    (body,) = bodies(server)
    assert body["tool_choice"] == "auto"
    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search"]


def gemini(*parts: Mapping[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}]}


def test_gemini_3_constrains_its_text(server: Loopback, api: API) -> None:
    answer(server, gemini({"text": JSON}))
    llm = Google("gemini-3-flash-preview", api_key=KEY, base_url=base(server), max_retries=0)
    assert api.call(weather(llm), city="Oslo") == OSLO
    (body,) = bodies(server)
    assert body["tools"] == [{"googleSearch": {}}]
    assert body["generationConfig"]["responseMimeType"] == "application/json"


def test_gemini_3_calls_a_function_beside_its_search(server: Loopback) -> None:
    def degrees(city: str) -> int:
        """Return the degrees in a city."""
        return 4

    call = {
        "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["Oslo"]}, "id": "b1"},
        "thoughtSignature": "S1",
    }
    found = {
        "toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"a": 1}, "id": "b1"},
        "thoughtSignature": "S2",
    }
    function = {"functionCall": {"name": "degrees", "args": {"city": "Oslo"}, "id": "f1"}, "thoughtSignature": "S3"}
    for parts in ((call, found, function), ({"text": "4 degrees."},)):
        body = b"data: %b\n\n" % json.dumps(gemini(*parts)).encode()
        server.answer(whole(body, 200, "content-type: text/event-stream"))
    llm = Google("gemini-3-flash-preview", api_key=KEY, base_url=base(server), max_retries=0)
    assert Engine(llm, [degrees, WebSearch()]).submit("Weather in Oslo?").text == "4 degrees."
    first, second = bodies(server)
    assert first["toolConfig"]["includeServerSideToolInvocations"] is True
    assert second["contents"][1]["parts"] == [call, found, function]


def test_gemini_2_reads_the_schema_in_the_prompt(server: Loopback, api: API) -> None:
    grounded = gemini({"text": f"Here it is: {JSON}"})
    grounded["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["Oslo"]}
    answer(server, grounded)
    llm = Google("gemini-2.5-flash", api_key=KEY, base_url=base(server), max_retries=0)
    result = api.run(weather(llm), city="Oslo")
    assert result.output == OSLO
    assert [part.input for part in result.response.message.server_tools] == [{"queries": ["Oslo"]}]
    (body,) = bodies(server)
    assert body["tools"] == [{"googleSearch": {}}]
    assert "degrees" in json.dumps(body["systemInstruction"])
    assert "responseMimeType" not in body.get("generationConfig", {})


def test_gemini_2_is_asked_again_in_words(server: Loopback, api: API) -> None:
    answer(server, gemini({"text": "It is 4 degrees."}))
    answer(server, gemini({"text": JSON}))
    llm = Google("gemini-2.5-flash", api_key=KEY, base_url=base(server), max_retries=0)
    assert api.call(weather(llm), city="Oslo") == OSLO
    assert [body["tools"] for body in bodies(server)] == [[{"googleSearch": {}}]] * 2


def test_a_model_of_anthropic_without_required_calls_has_the_tool(server: Loopback) -> None:
    llm = Anthropic("claude-opus-5-5", api_key=KEY)
    assert "output_config" in ToolOrchestratingLLM(Weather, "Hi", llm).preview().body
    body = weather(llm).preview(city="Oslo").body
    assert "output_config" not in body
    assert body["tools"][0]["name"] == "Weather"
    assert weather(llm, tool_choice="Weather").preview(city="Oslo").body["tools"][0]["name"] == "Weather"


def chat_answer(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]}


def test_groq_calls_the_output_after_its_search(server: Loopback, api: API) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "Weather", "arguments": JSON}}
    executed = {"index": 0, "type": "browser_search", "arguments": "{}", "output": "4"}
    answer(server, chat_answer({"content": None, "tool_calls": [call], "executed_tools": [executed]}))
    llm = OpenAICompatible("openai/gpt-oss-120b", service="groq", api_key=KEY, base_url=base(server), max_retries=0)
    result = api.run(weather(llm), city="Oslo")
    assert result.output == OSLO
    assert result.response.message.server_tools[0].output == {"output": "4"}
    (body,) = bodies(server)
    assert [tool["type"] for tool in body["tools"]] == ["function", "browser_search"]
    assert body["tool_choice"] == "auto"


def test_groqs_compound_system_reads_the_schema_in_the_prompt(server: Loopback, api: API) -> None:
    answer(server, chat_answer({"content": JSON}))
    llm = OpenAICompatible("groq/compound", service="groq", api_key=KEY, base_url=base(server), max_retries=0)
    assert api.call(weather(llm), city="Oslo") == OSLO
    (body,) = bodies(server)
    assert "tools" not in body
    assert body["compound_custom"] == {"tools": {"enabled_tools": ["web_search"]}}


def test_a_mode_of_the_caller_that_cannot_be_combined_is_an_error() -> None:
    llm = Google("gemini-2.5-flash", api_key=KEY)
    for mode in ("json_schema", "tool_call"):
        with pytest.raises(BadRequest, match="combines WebSearch neither with"):
            weather(llm, mode=mode).preview(city="Oslo")
    claude = weather(Anthropic("claude-sonnet-4-5", api_key=KEY), mode="json_schema").preview(city="Oslo").body
    assert claude["tools"] == [{"type": "web_search_20250305", "name": "web_search"}]
    assert "output_config" in claude


MCP = RemoteMCP("docs", f"https://a.com/mcp?key={HEADER}u", TOKEN, {"X-Key": HEADER}, require_approval="never")


class Seen(Hooks):
    """Everything that hooks get, as text."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def request(self, call: CallInfo, request: RequestInfo) -> None:
        assert request.http is not None
        self.texts += [repr(request), repr(request.http), request.http.body.decode(), repr(request.server_tools)]
        assert request.server_tools == (MCP,)

    def error(self, call: CallInfo, error: BaseException) -> None:
        self.texts += [repr(error), str(error), repr(vars(error))]


def test_credentials_of_a_server_are_in_the_request_alone(
    server: Loopback, api: API, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    seen = Seen()
    inner = OpenAIResponses("gpt-5.4", api_key=KEY, base_url=base(server), max_retries=0, hooks=seen)
    cache = MemoryCache()
    llm = CachedLLM(RecordingLLM(inner, tmp_path / "calls.jsonl"), cache)
    answer(server, openai_response("Hi"))
    with record(tmp_path / "http.yaml", "all"):
        assert api.chat(llm, "Hi", tools=[MCP]).text == "Hi"
    (tool,) = bodies(server)[0]["tools"]
    assert tool["authorization"] == TOKEN
    assert tool["headers"] == {"X-Key": HEADER}
    assert tool["server_url"] == f"https://a.com/mcp?key={HEADER}u"
    # The service repeats them in an error.
    echo = f"no access to {MCP.url.reveal()} with {TOKEN} and {HEADER}"  # type: ignore[union-attr]  # it is a SecretURL
    answer(server, {"error": {"message": echo, "type": "invalid_request_error"}}, 400)
    with pytest.raises(LLMError) as raised:
        api.chat(inner, "Hello", tools=[MCP])
    request = inner.preview("Hi", tools=[MCP])
    assert request is not None
    make = ToolOrchestratingLLM(Weather, "Hi", inner, tools=[MCP])
    texts = [*seen.texts, caplog.text, str(raised.value), repr(raised.value), repr(request), repr(make)]
    texts += [
        json.dumps(make.preview().body),
        repr(client_of(llm).cache_data(client_of(llm).build_request("Hi", [MCP], None, None, parallel=True))),
    ]
    texts += [path.read_text() for path in tmp_path.iterdir()]
    assert any("docs" in text for text in texts)
    for text in texts:
        for secret in (TOKEN, json.dumps(TOKEN)[1:-1], HEADER, f"{HEADER}u"):
            assert secret not in text


def test_another_token_is_another_entry_of_a_cache(server: Loopback, api: API) -> None:
    inner = OpenAIResponses("gpt-5.4", api_key=KEY, base_url=base(server), max_retries=0)
    llm = CachedLLM(inner, MemoryCache())
    for number, token in enumerate(("token-of-ann-012345", "token-of-bob-012345")):
        answer(server, openai_response(f"Hi {number}", SEARCH))
        tool = RemoteMCP("docs", "https://a.com", token, require_approval="never")
        for _ in range(2):
            response = api.chat(llm, "Hi", tools=[tool])
            assert response.text == f"Hi {number}"
            assert [part.raw for part in response.message.server_tools] == [SEARCH]
    assert len(server.requests) == 2
