"""Service tier, log probabilities and Ollama's options through the official clients and through toolcast."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import toolcast
from support.loopback import Loopback, whole
from toolcast import LLMError, OpenAIResponses, Settings

pytestmark = pytest.mark.networked

CHAT = [{"role": "user", "content": "Hi"}]


def openai_chat(url: str) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        client.chat.completions.create(
            model="gpt-4o", messages=CHAT, service_tier="flex", logprobs=True, top_logprobs=2, stream=False
        )


def openai_responses(url: str) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        client.responses.create(
            model="gpt-4o",
            input=CHAT,
            service_tier="flex",
            top_logprobs=2,
            include=["message.output_text.logprobs"],
            store=False,
            stream=False,
        )


def anthropic(url: str) -> None:
    from anthropic import Anthropic

    with Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
        client.messages.create(
            model="claude-sonnet-5", max_tokens=9, messages=messages, service_tier="standard_only", stream=False
        )


def google(url: str) -> None:
    from google import genai

    config = {"service_tier": "flex", "response_logprobs": True, "logprobs": 2}
    with genai.Client(api_key="any", http_options={"base_url": url, "api_version": "v1beta"}) as client:
        client.models.generate_content(model="gemini-2.5-flash", contents="Hi", config=config)


def mistral(url: str) -> None:
    from mistralai.client import Mistral

    with Mistral(server_url=url, api_key="any") as client:
        client.chat.complete(
            model="m", messages=CHAT, service_tier="standard_only", logprobs=True, top_logprobs=2, stream=False
        )


def ollama(url: str) -> None:
    from ollama import Client

    with Client(host=url) as client:
        client.chat(
            model="m", messages=CHAT, keep_alive="10m", options={"num_ctx": 8192}, logprobs=True, top_logprobs=2
        )


FLEX = Settings(service_tier="flex", logprobs=2)
CASES: list[tuple[str, Callable[[str], None], Callable[[str], Any], Settings]] = [
    ("openai", openai_chat, lambda url: toolcast.llm("openai:gpt-4o", base_url=f"{url}/v1", api_key="any"), FLEX),
    ("responses", openai_responses, lambda url: OpenAIResponses("gpt-4o", base_url=f"{url}/v1", api_key="any"), FLEX),
    (
        "anthropic",
        anthropic,
        lambda url: toolcast.llm("anthropic:claude-sonnet-5", base_url=url, api_key="any"),
        Settings(service_tier="standard_only", max_tokens=9),
    ),
    ("google", google, lambda url: toolcast.llm("google:gemini-2.5-flash", base_url=url, api_key="any"), FLEX),
    (
        "mistral",
        mistral,
        lambda url: toolcast.llm("mistral:m", base_url=f"{url}/v1", api_key="any"),
        Settings(service_tier="standard_only", logprobs=2),
    ),
    (
        "ollama",
        ollama,
        lambda url: toolcast.llm("ollama:m", base_url=url, api_key="any"),
        Settings(keep_alive="10m", num_ctx=8192, logprobs=2),
    ),
]


def set_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value: a client may send others as null."""
    return {name: value for name, value in body.items() if value}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_the_settings_of_services(case: Any) -> None:
    _, official, llm, settings = case
    with Loopback() as server:
        url = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            server.answer(whole(b'{"error": {"message": "enough"}}', 400, "content-type: application/json"))
        with suppress(Exception):  # each client has an error class of its own
            official(url)
        with pytest.raises(LLMError):
            llm(url).chat("Hi", settings=settings)
        theirs, ours = (json.loads(request.body) for request in server.requests)
        assert set_fields(ours) == set_fields(theirs)
