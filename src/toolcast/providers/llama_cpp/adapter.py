"""A llama.cpp server, embedded or not: chat completions, with tools enforced by a grammar.

The dialect is OpenAI's; what differs is that `tool_choice` is not obeyed and that small models know no
tool messages. So tools go out as a grammar and a description in the system message, calls and results of
the history as plain text, and the JSON that comes back is read as tool calls. `tool_choice="auto"` leaves
the model a choice in the same grammar: a call, or any text that does not begin with `{`. With
`native_tools`, for models whose chat template knows tools, `"auto"` is left to the template.

A grammar that the server cannot take is not always refused: it may just be ignored. `preflight` asks for
one token after words that no JSON follows; `preflight_ok` reads the answer and remembers it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, cast

from jiter import from_json

from ...credentials import Secret, SecretURL
from ...errors import BadRequest, LLMError, MalformedEvent
from ...http_request import HTTPRequest, build_request
from ...messages import Message, TextPart
from ...settings import Settings
from ...tool_spec import ToolSpec
from ..base import RequestInput, ResponseDecoder
from ..chat_completions.adapter import OpenAIChatAdapter
from ..chat_completions.services import LLAMA_CPP
from ..http_adapter import endpoint
from ..tool_calls.json_text import ForcedCalls, ForcedDecoder, Form, form_of
from ..tool_calls.prompted import spoken
from .grammar import SchemaLimits, calls_schema, grammar

_PROBE = "The capital of France is"


class LlamaCppAdapter:
    """The wire of one llama.cpp server. `max_tokens` is sent where the settings have none."""

    max_tokens: ClassVar[int] = 1024

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: Secret | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        limits: SchemaLimits | None = None,
        native_tools: bool = False,
    ) -> None:
        self._chat = OpenAIChatAdapter(LLAMA_CPP, api_key=api_key, base_url=base_url, headers=headers)
        self._probe_url = SecretURL(endpoint(base_url or LLAMA_CPP.base_url, "/completions"))
        self._limits = limits or SchemaLimits()
        self._native_tools = native_tools
        self._checked: set[str] = set()
        # It takes a while to write one, and it is long; the same tools have the same.
        self._grammar = lru_cache(64)(self._new_grammar)

    @property
    def provider(self) -> str:
        """The name of the service."""
        return self._chat.provider

    def request(self, conversation: RequestInput, settings: Settings) -> HTTPRequest:
        """The request to send. Raises `BadRequest` for what cannot be enforced."""
        form = self._form(conversation)
        settings = settings.over(Settings(max_tokens=self.max_tokens))
        if form is not None:
            if "grammar" in (settings.extra or {}):
                raise self._of(
                    conversation,
                    BadRequest("extra['grammar'] would replace the grammar that the tools need: call without tools"),
                )
            rules = {"grammar": self._grammar(form, not form.forced)}
            settings = settings.with_(extra={**rules, **(settings.extra or {})})
        return self._chat.request(self._plain(conversation, form), settings)

    def decoder(self, conversation: RequestInput) -> ResponseDecoder:
        """A fresh decoder for one answer, streamed or whole."""
        form = self._form(conversation)
        inner = self._chat.decoder(conversation)
        if form is None:
            return inner
        calls = ForcedCalls(form, conversation.calls_before)
        return ForcedDecoder(inner, calls, accept_damaged=conversation.accept_damaged)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """The error that an HTTP status of 300 or more stands for."""
        return self._chat.error(status, headers, body)

    def preflight(self, conversation: RequestInput) -> HTTPRequest | None:
        """The request that finds out whether the server enforces this conversation's tools, unless known."""
        rules = self._rules(conversation)
        if rules is None or rules in self._checked:
            return None
        probe = {"prompt": _PROBE, "grammar": rules, "max_tokens": 1, "temperature": 0, "cache_prompt": False}
        bare = replace(conversation, messages=(), tools=(), tool_choice=None, stream=False)
        headers = self._chat.request(bare, Settings()).headers
        return build_request("POST", self._probe_url, headers, json.dumps(probe).encode())

    def preflight_ok(self, conversation: RequestInput, body: bytes) -> LLMError | None:
        """None if the answer to `preflight` shows that the tools are enforced, else the error to raise."""
        try:
            text = from_json(body)["choices"][0]["text"]
        except (ValueError, LookupError, TypeError):
            return self._of(conversation, MalformedEvent("the answer of /completions is no completion"))
        if not str(text).startswith("{"):
            names = ", ".join(tool.name for tool in conversation.tools)
            return self._of(
                conversation,
                BadRequest(
                    f"this llama.cpp does not enforce the schema of {names}: it was given the schema, and wrote "
                    f"{text!r}. Simplify the type, or use a build with llguidance."
                ),
            )
        self._checked.add(self._rules(conversation) or "")
        return None

    def _of(self, conversation: RequestInput, error: LLMError) -> LLMError:
        error.provider, error.model = self.provider, conversation.model
        return error

    def _form(self, conversation: RequestInput) -> Form | None:
        form = form_of(conversation)
        return None if form is not None and self._native_tools and not form.forced else form

    def _rules(self, conversation: RequestInput) -> str | None:
        form = self._form(conversation)
        return None if form is None else self._grammar(form, False)

    def _new_grammar(self, form: Form, or_text: bool) -> str:
        # A choice of text must be told from the arguments of a single tool: there, calls have names.
        schema = calls_schema(form.tools, parallel=form.parallel, named=form.only is None, limits=self._limits)
        return grammar(schema, or_text=or_text)

    def _plain(self, conversation: RequestInput, form: Form | None) -> RequestInput:
        if self._native_tools and form is None and conversation.tools:
            return conversation
        messages = (_system(conversation, form), *spoken(conversation.messages, form))
        return replace(conversation, messages=messages, tools=(), tool_choice=None)


def _system(conversation: RequestInput, form: Form | None) -> Message:
    """The one system message; without any, small models answer nonsense."""
    said = [message.text for message in conversation.messages if message.role == "system"]
    text = "\n\n".join(said) or "You are a helpful assistant."
    shown = frozenset(call.name for message in conversation.messages for call in message.tool_calls)
    return Message("system", (TextPart(text if form is None else f"{text}\n\n{describe(form, shown)}"),))


def describe(form: Form, shown: frozenset[str] = frozenset()) -> str:
    """What the model is told about the tools: name, description, and the shape of a call.

    Not the shape of the tools in `shown`: calls of those are in the history, and a small model that is given a
    made-up example beside a real one copies from the wrong one.
    """
    lines = [_described(tool, form, tool.name in shown) for tool in form.tools]
    if form.only is not None:
        return lines[0]
    return "\n".join(["You can use these tools:", *lines])


def _described(tool: ToolSpec, form: Form, shown: bool) -> str:
    if form.only is not None:
        names = ", ".join(tool.parameters.get("properties", {}))
        # Of a made-up example SmolLM2 copies the values; from the names alone it gets more right.
        fields = "." if shown else f" with the fields: {names}."
        several = " Write one object for each, in a list named calls." if form.parallel and not shown else ""
        return f"{tool.description}\nAnswer with JSON{fields}{several}"
    if shown:
        return f"{tool.name}: {tool.description}"
    example = _example(tool.parameters, tool.parameters.get("$defs", {}), 0)
    return f"{tool.name}: {tool.description} Example: {_json(_call(tool.name, example, form))}"


def _call(name: str, arguments: Any, form: Form) -> Any:
    call = {"name": name, "arguments": arguments}
    return {"calls": [call]} if form.parallel else call


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _example(schema: Any, definitions: Mapping[str, Any], depth: int) -> Any:
    """A value that shows the shape of `schema`."""
    if depth > 6 or not isinstance(schema, Mapping):
        return None
    node = cast("Mapping[str, Any]", schema)
    if "$ref" in node:
        return _example(definitions.get(str(node["$ref"]).removeprefix("#/$defs/")), definitions, depth + 1)
    for given in ("examples", "enum"):
        if node.get(given):
            return node[given][0]
    if "const" in node:
        return node["const"]
    branches = node.get("anyOf") or node.get("oneOf") or node.get("allOf")
    if branches:
        return _example(branches[0], definitions, depth + 1)
    if "properties" in node:
        return {name: _example(part, definitions, depth + 1) for name, part in node["properties"].items()}
    if "prefixItems" in node:
        return [_example(part, definitions, depth + 1) for part in node["prefixItems"]]
    if node.get("type") == "array":
        return [_example(node.get("items"), definitions, depth + 1)]
    return _EXAMPLES.get(str(node.get("format")), _EXAMPLES.get(str(node.get("type")), {}))


_EXAMPLES: dict[str, Any] = {
    "string": "...",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "null": None,
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00",
    "duration": "PT1H",
    "email": "name@example.com",
    "uri": "https://example.com",
}
