"""Counting tokens through the official clients and through toolcast: the same request, and the same count."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.loopback import Loopback, Request, whole
from toolcast import Anthropic, FunctionCallingLLM, Google, OpenAI, OpenAIResponses, Settings, system, user

pytestmark = pytest.mark.networked

SCHEMA = {
    "additionalProperties": False,
    "properties": {"city": {"description": "The city.", "type": "string"}},
    "required": ["city"],
    "type": "object",
}
MESSAGES = [system("Be terse."), user("How is the weather in Oslo?")]
QUESTION = "How is the weather in Oslo?"


def weather(city: str) -> str:
    """Return the weather.

    Args:
        city: The city.
    """
    return city


def anthropic(url: str) -> int:
    from anthropic import Anthropic as Client

    with Client(base_url=url, api_key="any") as client:
        found = client.messages.count_tokens(
            model="claude-sonnet-4-5",
            system="Be terse.",
            messages=[{"role": "user", "content": [{"type": "text", "text": QUESTION}]}],
            tools=[{"name": "weather", "description": "Return the weather.", "input_schema": SCHEMA}],
            thinking={"type": "enabled", "budget_tokens": 2048},
        )
    return found.input_tokens


def openai(url: str) -> int:
    from openai import OpenAI as Client

    with Client(base_url=f"{url}/v1", api_key="any") as client:
        found = client.responses.input_tokens.count(
            model="gpt-5.4",
            instructions="Be terse.",
            input=[{"role": "user", "content": QUESTION}],
            tools=[
                {
                    "type": "function",
                    "name": "weather",
                    "description": "Return the weather.",
                    "parameters": SCHEMA,
                    "strict": True,
                }
            ],
            parallel_tool_calls=True,
        )
    return found.input_tokens


def google_on_vertex(url: str) -> int:
    from google import genai
    from google.oauth2.credentials import Credentials

    options = {"base_url": url, "api_version": "v1"}
    client = genai.Client(
        vertexai=True, project="p", location="l", credentials=Credentials("any"), http_options=options
    )
    with client:
        found = client.models.count_tokens(
            model="gemini-2.5-flash",
            contents=QUESTION,
            config={"system_instruction": "Be terse."},
        )
    return found.total_tokens


VERTEX = "/v1/projects/p/locations/l/publishers/google"
CASES: list[tuple[str, Callable[[str], int], Callable[[str], FunctionCallingLLM], Any, list[Any]]] = [
    (
        "anthropic",
        anthropic,
        lambda url: Anthropic("claude-sonnet-4-5", base_url=url, api_key="any", settings=Settings(thinking=2048)),
        {"input_tokens": 40},
        [weather],
    ),
    (
        "openai",
        openai,
        lambda url: OpenAI("gpt-5.4", base_url=f"{url}/v1", api_key="any"),
        {"object": "response.input_tokens", "input_tokens": 40},
        [weather],
    ),
    (
        "responses",
        openai,
        lambda url: OpenAIResponses("gpt-5.4", base_url=f"{url}/v1", api_key="any"),
        {"object": "response.input_tokens", "input_tokens": 40},
        [weather],
    ),
    (
        "vertex",
        google_on_vertex,
        lambda url: Google("gemini-2.5-flash", base_url=f"{url}{VERTEX}", api_key="any"),
        {"totalTokens": 40},
        [],
    ),
]


def meant(request: Request) -> Any:
    """Return the path and the body of a request, without the roles that repeat a default."""
    body = json.loads(request.body)
    body.get("systemInstruction", {}).pop("role", None)
    return request.line.split()[1].partition("?")[0], body


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_token_counts(case: Any) -> None:
    _, official, llm, answer, tools = case
    with Loopback() as server:
        url = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            server.answer(whole(json.dumps(answer).encode(), 200, "content-type: application/json"))
        theirs = official(url)
        ours = llm(url).count_tokens(MESSAGES, tools)
        assert (ours.tokens, ours.estimated) == (theirs, False)
        first, second = map(meant, server.requests)
        assert second == first
