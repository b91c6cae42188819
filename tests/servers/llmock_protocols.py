"""Each protocol that llmock serves, who speaks it, and llmock's verdict on its client."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from toolcast import Anthropic, Google, LLMError, Mistral, OpenAI, OpenAIResponses
from toolcast.errors import MalformedEvent, StreamTruncated
from toolcast.llms.http_llm import ServiceLLM

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock


@dataclass(frozen=True)
class Protocol:
    """One protocol: who speaks it, what llmock calls it, and what a whole answer looks like, read with no library.

    `breaks` are the numbers of chunks after which a stream of `says_sea` has shown something and is not at its end.
    `damaged` is what becomes of a stream whose chunk after the later break is damaged; None where nothing is lost.
    `streams_fragments` is whether llmock sends arguments in fragments, as the text that the model wrote.
    """

    name: str
    make: Callable[..., ServiceLLM]
    model: str
    served: str
    text: Callable[[Any], str]
    arguments: Callable[[Any], Any]
    usage: Callable[[Any], tuple[int, int]]
    breaks: tuple[int, int]
    damaged: type[LLMError] | None = MalformedEvent
    streams_fragments: bool = True

    def __str__(self) -> str:
        return self.name

    def llm(self, server: LLMock, **options: Any) -> ServiceLLM:
        """The ready-made LLM; its key is in the environment, where the fixture of llmock puts one."""
        return self.make(self.model, base_url=server.base_url(self.served), api_key="any", **options)


def _chat_call(body: Any) -> Any:
    return json.loads(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])


def _chat_usage(body: Any) -> tuple[int, int]:
    return body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]


def _usage(body: Any) -> tuple[int, int]:
    return body["usage"]["input_tokens"], body["usage"]["output_tokens"]


CHAT = Protocol(
    "chat",
    OpenAI,
    "gpt-4o",
    "openai",
    lambda body: body["choices"][0]["message"]["content"],
    _chat_call,
    _chat_usage,
    (3, 11),
)
RESPONSES = Protocol(
    "responses",
    OpenAIResponses,
    "gpt-4o",
    "openai",
    lambda body: body["output"][0]["content"][0]["text"],
    lambda body: json.loads(body["output"][-1]["arguments"]),
    _usage,
    (6, 16),
    damaged=None,  # the arguments come once more, whole
)
ANTHROPIC = Protocol(
    "anthropic",
    Anthropic,
    "claude-sonnet-4-6",
    "anthropic",
    lambda body: body["content"][0]["text"],
    lambda body: body["content"][-1]["input"],
    _usage,
    (5, 13),
)
GOOGLE = Protocol(
    "google",
    Google,
    "gemini-2.5-pro",
    "gemini",
    lambda body: body["candidates"][0]["content"]["parts"][0]["text"],
    lambda body: body["candidates"][0]["content"]["parts"][-1]["functionCall"]["args"],
    lambda body: (body["usageMetadata"]["promptTokenCount"], body["usageMetadata"]["candidatesTokenCount"]),
    (2, 5),
    damaged=StreamTruncated,  # the last words, the call and the end come in one chunk
    streams_fragments=False,
)
MISTRAL = Protocol(
    "mistral",
    Mistral,
    "mistral-large-latest",
    "mistral",
    lambda body: body["choices"][0]["message"]["content"],
    _chat_call,
    _chat_usage,
    (3, 8),
    streams_fragments=False,
)
PROTOCOLS = (CHAT, RESPONSES, ANTHROPIC, GOOGLE, MISTRAL)


def findings(llmock: LLMock, plainly: httpx.Client) -> list[str]:
    """What llmock finds wrong with its client."""
    verdict = plainly.get(f"{llmock.url}/_llmock/verdict").raise_for_status().json()
    return [finding["code"] for finding in verdict["findings"]]
