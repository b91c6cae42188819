"""toolcast beside the SDKs of Anthropic and of Google on Vertex AI: the same call is the same request, with a token."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import toolcast
from support.google_cloud import GoogleCloud, reply, user as account
from support.loopback import Request, whole
from support.turns import PROTOCOLS, Turn
from toolcast import AnthropicVertex, Google, Settings, assistant, system, tool_result, user

pytestmark = pytest.mark.networked

CLAUDE, GEMINI = "claude-sonnet-4-5@20250929", "gemini-2.5-flash"
JSON = "content-type: application/json"
TURN = Turn(text="Hello")
CALL = toolcast.ToolCallPart("toolu_1", "weather", '{"city": "Oslo"}')


def weather(city: str) -> str:
    """The weather in a city."""
    return city


PARAMETERS = toolcast.CallableTool.from_function(weather).parameters


@pytest.fixture
def cloud() -> Iterator[GoogleCloud]:
    with GoogleCloud() as cloud:
        cloud.any_token = True
        yield cloud


def sent(request: Request) -> tuple[str, str | None, str | None, Any]:
    """What the service gets: the line, the token, the project that pays, and the body."""
    headers = request.headers
    return request.line, headers.get("authorization"), headers.get("x-goog-user-project"), json.loads(request.body)


def requests(cloud: GoogleCloud) -> list[Any]:
    return [sent(request) for request in cloud.requests if "/models/" in request.line]


# -- Claude

CLAUDE_CALLS: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any]]] = {
    "text": (
        [system("Be kind."), user("Hi é")],
        {"settings": Settings(max_tokens=20, stop=("a",))},
        {
            "system": "Be kind.",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi é"}]}],
            "max_tokens": 20,
            "stop_sequences": ["a"],
        },
    ),
    "tools": (
        [user("Go"), assistant(CALL), tool_result(CALL, "4C")],
        {"tools": [weather], "tool_choice": "weather", "settings": Settings(max_tokens=20)},
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Go"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "4C"}]},
            ],
            "tools": [{"name": "weather", "description": "The weather in a city.", "input_schema": PARAMETERS}],
            "tool_choice": {"type": "tool", "name": "weather"},
            "max_tokens": 20,
        },
    ),
}


@pytest.mark.gate("G15")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", CLAUDE_CALLS)
def test_claude(name: str, stream: bool, cloud: GoogleCloud) -> None:
    from anthropic import AnthropicVertex as Client

    messages, options, theirs = CLAUDE_CALLS[name]
    wire = PROTOCOLS["anthropic"]
    answer = (
        whole(b"".join(wire.stream(TURN)), 200, "content-type: text/event-stream")
        if stream
        else whole(wire.whole(TURN), 200, JSON)
    )
    cloud.answer(answer)
    cloud.answer(answer)
    where = {"region": "europe-west1", "base_url": f"{cloud.root}/v1"}
    with Client(**where, project_id="my-project", access_token="any", max_retries=0) as client:
        found = client.messages.create(model=CLAUDE, stream=stream, **theirs)
        if stream:
            list(found)
    with AnthropicVertex(CLAUDE, **where, project="my-project", api_key="any") as llm:
        if stream:
            list(llm.stream_chat(messages, **options))
        else:
            assert llm.chat(messages, **options).text == found.content[0].text == "Hello"
    _check_same(cloud)


def _check_same(cloud: GoogleCloud) -> None:
    """The SDK has the version of October 2026, which takes no sampling settings; toolcast that of all models."""
    first, second = requests(cloud)
    assert first[-1].pop("anthropic_version") == "2026-10-21"
    assert second[-1].pop("anthropic_version") == "vertex-2023-10-16"
    assert second == first


def test_the_tokens_of_claude(cloud: GoogleCloud) -> None:
    from anthropic import AnthropicVertex as Client

    for _ in range(2):
        cloud.answer(reply({"input_tokens": 14}))
    where = {"region": "global", "base_url": f"{cloud.root}/v1"}
    messages: Any = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    with Client(**where, project_id="my-project", access_token="any", max_retries=0) as client:
        found = client.messages.count_tokens(model=CLAUDE, messages=messages)
    with AnthropicVertex(CLAUDE, **where, project="my-project", api_key="any") as llm:
        assert llm.count_tokens("Hi").tokens == found.input_tokens == 14
    _check_same(cloud)


@pytest.mark.parametrize("region", ["global", "us", "eu", "us-east5"])
def test_the_addresses_of_claude(region: str) -> None:
    from anthropic import AnthropicVertex as Client

    with Client(region=region, project_id="p", access_token="any") as client:
        theirs = str(client.base_url)
    mine = AnthropicVertex("m", region=region, project="p").adapter.base_url
    assert mine.startswith(theirs)


# -- Gemini


def camel(value: Any) -> Any:
    """The names of a request as the reference has them: the SDK writes some as `snake_case`, which is the same."""
    if isinstance(value, dict):
        return {re.sub(r"_(.)", lambda found: found[1].upper(), name): camel(each) for name, each in value.items()}
    return type(value)(map(camel, value)) if isinstance(value, (list, tuple)) else value


@pytest.mark.gate("G15")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_gemini(stream: bool, cloud: GoogleCloud) -> None:
    """With credentials that name the project that pays: its header is the same."""
    from google import genai
    from google.genai import types

    wire = PROTOCOLS["google"]
    answer = (
        whole(b"".join(wire.stream(TURN)), 200, "content-type: text/event-stream")
        if stream
        else whole(wire.whole(TURN), 200, JSON)
    )
    cloud.answer(answer)
    cloud.answer(answer)
    cloud.any_token = False
    where = {"project": "my-project", "location": "europe-west1"}
    paying = account(cloud).with_quota_project("paying-project")
    schema = PARAMETERS | {"propertyOrdering": ["city"]}
    function = {"name": "weather", "description": "The weather in a city.", "parametersJsonSchema": schema}
    calling = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}}
    config = types.GenerateContentConfig.model_validate(
        {
            "systemInstruction": {"parts": [{"text": "Be kind."}]},
            "temperature": 0.5,
            "maxOutputTokens": 20,
            "tools": [{"functionDeclarations": [function]}],
            "toolConfig": calling,
        }
    )
    contents: Any = [{"role": "user", "parts": [{"text": "Hi é"}]}]
    options: Any = {"base_url": cloud.root, "api_version": "v1beta1"}
    with genai.Client(vertexai=True, credentials=paying, http_options=options, **where) as client:
        if stream:
            list(client.models.generate_content_stream(model=GEMINI, contents=contents, config=config))
        else:
            found = client.models.generate_content(model=GEMINI, contents=contents, config=config)
            assert found.text == "Hello"
    settings = Settings(max_tokens=20, temperature=0.5)
    asked = {"tools": [weather], "tool_choice": "weather", "settings": settings}
    with Google(GEMINI, vertex=True, credentials=paying, base_url=cloud.root, **where) as llm:
        if stream:
            list(llm.stream_chat([system("Be kind."), user("Hi é")], **asked))
        else:
            assert llm.chat([system("Be kind."), user("Hi é")], **asked).text == "Hello"
    first, second = requests(cloud)
    assert second == camel(first)
    assert first[1:3] == ("Bearer token-1", "paying-project")


@pytest.mark.parametrize("location", ["global", "us", "eu", "us-central1"])
def test_the_addresses_of_gemini(location: str) -> None:
    from google import genai
    from google.oauth2.credentials import Credentials

    given = Credentials("any")  # type: ignore[no-untyped-call]  # google-auth is untyped
    with genai.Client(vertexai=True, credentials=given, project="p", location=location) as client:
        theirs = client._api_client._http_options.base_url
    mine = Google("m", project="p", location=location).adapter.base_url
    assert theirs is not None and mine.startswith(f"{theirs}v1beta1/projects/p/locations/{location}/")
