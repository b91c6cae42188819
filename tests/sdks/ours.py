"""toolcast, asked as the SDKs are: a whole answer through the sync API, a stream through the async one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import toolcast
from sdks.decoded import PROMPT, Decoded, arguments
from support.sync_and_async import API, AsyncAPI
from toolcast import LLMError
from toolcast.events import ChatResponse
from toolcast.messages import ThinkingPart
from toolcast.values.accumulator import Accumulator

SYNC, ASYNC = API(), AsyncAPI("asyncio")
LLMS: dict[str, tuple[type[Any], str]] = {
    "openai": (toolcast.OpenAI, "gpt-4o"),
    "responses": (toolcast.OpenAIResponses, "gpt-4o"),
    "anthropic": (toolcast.Anthropic, "claude-sonnet-4-6"),
    "gemini": (toolcast.Google, "gemini-2.5-pro"),
    "mistral": (toolcast.Mistral, "mistral-large-latest"),
    "ollama": (toolcast.Ollama, "llama3.2"),
    "cohere": (toolcast.Cohere, "command-a-03-2025"),
    "bedrock": (toolcast.Bedrock, "anthropic.claude-sonnet-4-5-20250929-v1:0"),
}


def weather(city: str) -> str:
    """The weather in a city."""
    return city


def clock() -> str:
    """The time."""
    return "noon"


def ask(protocol: str, url: str, *, stream: bool) -> Decoded:
    """What toolcast makes of the server's answer."""
    make, model = LLMS[protocol]
    with make(model, base_url=url, api_key="any", max_retries=0) as llm:
        if not stream:
            return _decoded(SYNC.chat(llm, PROMPT, tools=[weather, clock]))
        folded = Accumulator()
        for event in ASYNC.events(llm, PROMPT, tools=[weather, clock]):
            folded.apply(event)
        return _decoded(folded.response())


def failure(protocol: str, url: str, *, stream: bool) -> LLMError:
    """The error that toolcast raises."""
    try:
        decoded = ask(protocol, url, stream=stream)
    except LLMError as error:
        return error
    raise AssertionError(f"toolcast took this for an answer: {decoded}")


def _decoded(response: ChatResponse) -> Decoded:
    message, usage = response.message, response.usage
    thoughts = [part for part in message.parts if isinstance(part, ThinkingPart)]
    return Decoded(
        text=response.text,
        calls=tuple((call.name, arguments(call.arguments)) for call in message.tool_calls),
        usage=(usage.input_tokens, usage.output_tokens),
        stop_reason=response.stop_reason,
        thinking="".join(part.text for part in thoughts),
        kept=tuple(kept for part in message.parts for kept in _kept(part)),
    )


def _kept(part: Any) -> Iterator[str]:
    """What of a part is to be sent back as it came."""
    for name in ("signature", "redacted"):
        if value := getattr(part, name, None):
            yield value
    opaque: Mapping[str, Any] = getattr(part, "opaque", None) or {}
    for own in (own for own in opaque.values() if isinstance(own, dict)):
        yield from (own[name] for name in ("thoughtSignature", "encrypted_content") if own.get(name))
        yield from own.get("reasoningContent", {}).values()
