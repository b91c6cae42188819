"""toolcast beside Cohere's SDK: the same call is the same request, and the same failures are failures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

import toolcast
from sdks import ours
from sdks.official import SDKS
from support.loopback import Loopback, Request, whole
from support.turns import PROTOCOLS, Turn
from toolcast import Settings, assistant, system, tool_result, user
from toolcast.messages import ImagePart, ThinkingPart

pytestmark = pytest.mark.networked

MODEL = "command-a-reasoning-08-2025"
JSON = "content-type: application/json"
HELLO = whole(PROTOCOLS["cohere"].whole(Turn(text="Hello")), 200, JSON)
PLAN = ThinkingPart("I look.", opaque={"cohere": {"type": "tool_plan"}})
THOUGHT = ThinkingPart("Hm é.", opaque={"cohere": {"type": "thinking"}})
CALL = toolcast.ToolCallPart("weather_1", "weather", '{"city": "Oslo"}')
FUNCTION = {"name": "weather", "arguments": '{"city": "Oslo"}'}
CALLED = {"id": "weather_1", "type": "function", "function": FUNCTION}


def weather(city: str) -> str:
    """The weather in a city."""
    return city


class Album(BaseModel):
    """A music album."""

    title: str


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": toolcast.CallableTool.from_function(weather).parameters,
    },
}
# What toolcast is asked, and what Cohere's SDK is asked.
CALLS: dict[str, tuple[list[Any], dict[str, Any], list[Any], dict[str, Any]]] = {
    "text": ([user("Hi é 🎶")], {}, [{"role": "user", "content": "Hi é 🎶"}], {}),
    "a picture": (
        [user("What?", ImagePart(url="https://host/a.png", detail="low"))],
        {},
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What?"},
                    {"type": "image_url", "image_url": {"url": "https://host/a.png", "detail": "low"}},
                ],
            }
        ],
        {},
    ),
    "a conversation with a plan": (
        [system("Be kind."), user("Go"), assistant(PLAN, CALL), tool_result(CALL, "4C")],
        {"tools": [weather], "tool_choice": "required"},
        [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Go"},
            {"role": "assistant", "tool_calls": [CALLED], "tool_plan": "I look."},
            {"role": "tool", "tool_call_id": "weather_1", "content": "4C"},
        ],
        {"tools": [TOOL], "tool_choice": "REQUIRED"},
    ),
    "a conversation with thoughts": (
        [user("Go"), assistant(THOUGHT, "So.", CALL), tool_result(CALL, "4C")],
        {"tools": [weather], "tool_choice": "auto"},
        [
            {"role": "user", "content": "Go"},
            {
                "role": "assistant",
                "tool_calls": [CALLED],
                "content": [{"type": "thinking", "thinking": "Hm é."}, {"type": "text", "text": "So."}],
            },
            {"role": "tool", "tool_call_id": "weather_1", "content": "4C"},
        ],
        {"tools": [TOOL]},
    ),
    "settings": (
        [user("Hi")],
        {
            "settings": Settings(
                temperature=0.25,
                max_tokens=20,
                stop=("a", "b"),
                top_p=0.5,
                top_k=5,
                seed=7,
                thinking=500,
                logprobs=True,
                extra={"safety_mode": "STRICT"},
            )
        },
        [{"role": "user", "content": "Hi"}],
        {
            "temperature": 0.25,
            "max_tokens": 20,
            "stop_sequences": ["a", "b"],
            "p": 0.5,
            "k": 5,
            "seed": 7,
            "thinking": {"type": "enabled", "token_budget": 500},
            "logprobs": True,
            "safety_mode": "STRICT",
        },
    ),
}


def sent(request: Request) -> tuple[str, dict[str, str], Any]:
    """What the service gets: the line, the headers that matter, and the body."""
    headers = {name: request.headers[name].partition(";")[0] for name in ("authorization", "content-type")}
    return request.line, headers, json.loads(request.body)


@pytest.mark.gate("G15")
@pytest.mark.parametrize("name", CALLS)
def test_the_same_call_is_the_same_request(name: str) -> None:
    messages, options, theirs, more = CALLS[name]
    with Loopback() as server, SDKS["cohere"].client(f"http://127.0.0.1:{server.port}") as client:  # type: ignore[attr-defined]  # of this one
        server.answer(HELLO)
        server.answer(HELLO)
        answered = client.chat(model=MODEL, messages=theirs, **more)
        with toolcast.Cohere(MODEL, api_key="any", base_url=f"http://127.0.0.1:{server.port}") as llm:
            mine = llm.chat(messages, **options)
        assert answered.message.content[0].text == mine.text == "Hello"
        first, second = map(sent, server.requests)
    assert second == first


def test_typed_output_is_the_same_request() -> None:
    with Loopback() as server, SDKS["cohere"].client(f"http://127.0.0.1:{server.port}") as client:  # type: ignore[attr-defined]  # of this one
        llm = toolcast.Cohere(MODEL, api_key="any", base_url=f"http://127.0.0.1:{server.port}")
        make = toolcast.ToolOrchestratingLLM(Album, "x", llm, mode="json_schema")
        body = make.preview().body
        server.answer(HELLO)
        client.chat(model=MODEL, messages=body["messages"], response_format=body["response_format"])
        assert sent(server.requests[0])[2] == body
    assert body["response_format"]["json_schema"]["required"] == ["title"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_a_status(status: int, stream: bool) -> None:
    body = whole(json.dumps({"id": "1", "message": "because of the weather"}).encode(), status, JSON)
    with Loopback() as server:
        server.answer(body)
        server.answer(body)
        url = f"http://127.0.0.1:{server.port}"
        theirs = SDKS["cohere"].failure(url, stream=stream)
        mine = ours.failure("cohere", url, stream=stream)
    assert SDKS["cohere"].meaning(theirs).matches(type(mine).__name__, mine.status)
    assert mine.status == status
    assert "because of the weather" in str(theirs) and "because of the weather" in str(mine)
