"""`GuidedLlamaCpp`: an embedded model that is too small to decide by itself when to call a tool.

SmolLM2 writes about tools instead of calling them. So a first request asks it, constrained by a grammar, which tool the
question needs, if any; the examples in that request are made from the tools' descriptions. The second request forces
that tool, or offers none. After a tool's result it answers in text. An answer that repeats itself is ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from jiter import from_json

from ...errors import LLMError
from ...messages import Message, assistant, system, user
from ...providers.base import ProviderAdapter, RequestInput, ResponseDecoder
from ...providers.file_codec import Exchange
from ...providers.llama_cpp.grammar import grammar
from ...transport.network import IOBackend
from ...values.http_request import HTTPRequest
from ...values.settings import Settings
from ...values.tool_spec import NamedTool, ToolSpec
from .llama_cpp import LlamaCpp, fetched
from .repetition import EndedByRepetition

_NONE: Final = "none"
_NEEDS_NONE: Final = ("What is the largest ocean?", "Thanks!", "Hi!")
"""Questions that need no tool. They come first: the model tends to what it has seen last."""
_READ: Final = 500
"""Characters of a question, and of a description, that the choice is made by."""
_EXACT: Final = Settings(temperature=0, max_tokens=50)


class GuidedLlamaCpp(LlamaCpp):
    """A small model inside this process, for a conversation with tools."""

    async def prepare(
        self, conversation: RequestInput, backend: IOBackend, limit: float | None = None
    ) -> ProviderAdapter:
        """Return an adapter which offers the one tool that this conversation needs, or none."""
        bare = replace(conversation, tools=(), tool_choice=None)
        adapter = await super().prepare(bare, backend, limit)
        if conversation.tool_choice not in (None, "auto"):
            bare = conversation
        elif conversation.tools and (question := _question(conversation.messages)):
            tool = await self._chosen(question, conversation, adapter, backend)
            if tool is not None:
                choice = NamedTool(tool.name)
                bare = replace(conversation, tools=(tool,), tool_choice=choice, parallel=False)
        if bare.tools:
            await super().prepare(bare, backend, limit)
        return _GuidedAdapter(adapter, bare)

    async def _chosen(
        self, question: str, conversation: RequestInput, adapter: ProviderAdapter, backend: IOBackend
    ) -> ToolSpec | None:
        """Ask which tool the question needs."""
        tools = {_NONE: None} | {tool.name: tool for tool in conversation.tools}
        asked = RequestInput(conversation.model, tuple(_asking(question, conversation.tools)), stream=False)
        settings = replace(_EXACT, extra={"grammar": grammar(_choice_of(list(tools)))})
        body = await fetched(adapter.request(asked, settings), backend)
        try:
            return tools[from_json(from_json(body)["choices"][0]["message"]["content"].encode())["tool"]]
        except (ValueError, LookupError, TypeError, AttributeError):
            return None  # the request for the answer will report an error of the server


class _GuidedAdapter(ProviderAdapter):
    """An adapter for one `request_input`, which replaces every other."""

    def __init__(self, adapter: ProviderAdapter, request_input: RequestInput) -> None:
        self._adapter = adapter
        self._request_input = request_input

    @property
    def provider(self) -> str:
        return self._adapter.provider

    @property
    def base_url(self) -> str:
        return self._adapter.base_url

    def request(self, request_input: RequestInput, settings: Settings) -> HTTPRequest:
        return self._adapter.request(self._request_input, settings)

    def decoder(self, request_input: RequestInput) -> ResponseDecoder:
        decoder = self._adapter.decoder(self._request_input)
        return decoder if self._request_input.tools else EndedByRepetition(decoder)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        return self._adapter.error(status, headers, body)

    def count_tokens(self, request_input: RequestInput, settings: Settings) -> Exchange[int] | None:
        return self._adapter.count_tokens(self._request_input, settings)


def _question(messages: Sequence[Message]) -> str:
    """Return what the user has just asked; nothing where the last message is a tool's result."""
    return "".join(message.text for message in messages[-1:] if message.role == "user")[:_READ]


def _asking(question: str, tools: Sequence[ToolSpec]) -> list[Message]:
    """Return the messages that ask which tool the question needs."""
    described = [(tool.name, " ".join(tool.description.split())[:_READ]) for tool in tools]
    rules = "\n".join(("Choose the tool for each request, or none.", *(f"{name}: {text}" for name, text in described)))
    messages = [system(rules)]
    for request, name in (*((each, _NONE) for each in _NEEDS_NONE), *((text, name) for name, text in described)):
        messages += (user(request), assistant(json.dumps({"tool": name})))
    return [*messages, user(question)]


def _choice_of(names: list[str]) -> dict[str, object]:
    """Return the schema of `{"tool": one of these names}`."""
    properties = {"tool": {"enum": names}}
    return {"type": "object", "properties": properties, "required": ["tool"], "additionalProperties": False}
