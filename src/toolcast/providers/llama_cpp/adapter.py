"""The adapter of llama.cpp servers, embedded or not: chat completions with tools enforced by a grammar.

The protocol is OpenAI's; but `tool_choice` is not obeyed, and small models do not understand tool messages. So tools
become a grammar and a description in the system message, calls and results of the history become plain text, and the
JSON in the response is read as tool calls. `tool_choice="auto"` leaves the model a choice in the same grammar: a call,
or any text that does not begin with `{`. With `native_tools`, for models whose chat template supports tools, `"auto"`
is left to the template.

A grammar that the server cannot compile is not always rejected: it may be ignored. `preflight` requests one token after
a prompt that no JSON would follow; `preflight_ok` reads the response and remembers the result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from jiter import from_json

from ...errors import BadRequest, LLMError, MalformedEvent
from ...messages import Message, TextPart
from ...values.credentials import Secret, SecretURL
from ...values.http_request import HTTPRequest, build_request
from ...values.settings import Settings
from ...values.tool_spec import ToolSpec
from ..base import ProviderAdapter, RequestInput, ResponseDecoder
from ..chat_completions.adapter import OpenAIChatAdapter
from ..chat_completions.services import LLAMA_CPP
from ..http_adapter import join_url
from ..tool_calls.json_calls import CallFormat, JSONTextCalls, JSONTextDecoder, call_format
from ..tool_calls.prompted_calls import messages_as_text
from .grammar import SchemaLimits, calls_schema, grammar

if TYPE_CHECKING:
    from ..file_codec import Exchange

_PROBE = "The capital of France is"


class LlamaCppAdapter(ProviderAdapter):
    """An adapter for one llama.cpp server. `max_tokens` is the default if the settings have none."""

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
        self._probe_url = SecretURL(join_url(base_url or LLAMA_CPP.base_url, "/completions"))
        self._limits = limits or SchemaLimits()
        self._native_tools = native_tools
        self._checked: set[str] = set()
        # A grammar is long and slow to write; the same tools have the same one.
        self._grammar = lru_cache(64)(self._new_grammar)

    @property
    def provider(self) -> str:
        """The name of the provider."""
        return self._chat.provider

    @property
    def base_url(self) -> str:
        """The URL of the local server."""
        return self._chat.base_url

    def request(self, request_input: RequestInput, settings: Settings) -> HTTPRequest:
        """Return the request to send. Raise `BadRequest` for tools that cannot be enforced."""
        form = self._form(request_input)
        settings = settings.over(Settings(max_tokens=self.max_tokens))
        if form is not None:
            if "grammar" in (settings.extra or {}):
                raise self._of(
                    request_input,
                    BadRequest("extra['grammar'] would replace the grammar that the tools need: call without tools"),
                )
            rules = {"grammar": self._grammar(form, not form.forced)}
            settings = settings.with_(extra={**rules, **(settings.extra or {})})
        return self._chat.request(self._plain(request_input, form), settings)

    def decoder(self, request_input: RequestInput) -> ResponseDecoder:
        """Return a fresh decoder for one response, streamed or not."""
        form = self._form(request_input)
        inner = self._chat.decoder(request_input)
        if form is None:
            return inner
        calls = JSONTextCalls(form, request_input.calls_before)
        return JSONTextDecoder(inner, calls, accept_damaged=request_input.accept_damaged)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """Return the exception for a response with an HTTP status of 300 or more."""
        return self._chat.error(status, headers, body)

    def count_tokens(self, request_input: RequestInput, settings: Settings) -> Exchange[int] | None:
        """Return the requests that count the input tokens of a request."""
        return self._chat.count_tokens(self._plain(request_input, self._form(request_input)), settings)

    def preflight(self, request_input: RequestInput) -> HTTPRequest | None:
        """Return the request that tests if the server enforces the grammar of these tools; None if already known."""
        rules = self._rules(request_input)
        if rules is None or rules in self._checked:
            return None
        probe = {"prompt": _PROBE, "grammar": rules, "max_tokens": 1, "temperature": 0, "cache_prompt": False}
        bare = replace(request_input, messages=(), tools=(), tool_choice=None, stream=False)
        headers = self._chat.request(bare, Settings()).headers
        return build_request("POST", self._probe_url, headers, json.dumps(probe).encode())

    def preflight_ok(self, request_input: RequestInput, body: bytes) -> LLMError | None:
        """Return None if the response to `preflight` shows that the tools are enforced, else the exception to raise."""
        try:
            text = from_json(body)["choices"][0]["text"]
        except (ValueError, LookupError, TypeError):
            return self._of(request_input, MalformedEvent("the answer of /completions is no completion"))
        if not str(text).startswith("{"):
            names = ", ".join(tool.name for tool in request_input.tools)
            return self._of(
                request_input,
                BadRequest(
                    f"this llama.cpp does not enforce the schema of {names}: it was given the schema, and wrote "
                    f"{text!r}. Simplify the type, or use a build with llguidance."
                ),
            )
        self._checked.add(self._rules(request_input) or "")
        return None

    def _of(self, request_input: RequestInput, error: LLMError) -> LLMError:
        error.provider, error.model = self.provider, request_input.model
        return error

    def _form(self, request_input: RequestInput) -> CallFormat | None:
        form = call_format(request_input)
        return None if form is not None and self._native_tools and not form.forced else form

    def _rules(self, request_input: RequestInput) -> str | None:
        form = self._form(request_input)
        return None if form is None else self._grammar(form, False)

    def _new_grammar(self, form: CallFormat, or_text: bool) -> str:
        # Calls have names if text is allowed, so that the arguments of a single tool are no text.
        schema = calls_schema(form.tools, parallel=form.parallel, named=form.only is None, limits=self._limits)
        return grammar(schema, or_text=or_text)

    def _plain(self, request_input: RequestInput, form: CallFormat | None) -> RequestInput:
        if self._native_tools and form is None and request_input.tools:
            return request_input
        messages = (_system(request_input, form), *messages_as_text(request_input.messages, form))
        return replace(request_input, messages=messages, tools=(), tool_choice=None)


def _system(request_input: RequestInput, form: CallFormat | None) -> Message:
    """Return the only system message; without any, small models write nonsense."""
    texts = [message.text for message in request_input.messages if message.role == "system"]
    text = "\n\n".join(texts) or "You are a helpful assistant."
    shown = frozenset(call.name for message in request_input.messages for call in message.tool_calls)
    return Message("system", (TextPart(text if form is None else f"{text}\n\n{describe(form, shown)}"),))


def describe(form: CallFormat, shown: frozenset[str] = frozenset()) -> str:
    """Return the description of the tools for the prompt: name, description, and the form of a call.

    The form is left out for the tools in `shown`: the history contains calls of those, and a small model that sees a
    made-up example beside a real one copies from the wrong one.
    """
    lines = [_described(tool, form, tool.name in shown) for tool in form.tools]
    if form.only is not None:
        return lines[0]
    return "\n".join(["You can use these tools:", *lines])


def _described(tool: ToolSpec, form: CallFormat, shown: bool) -> str:
    if form.only is not None:
        names = ", ".join(tool.parameters.get("properties", {}))
        # SmolLM2 copies the values of a made-up example; with the names alone it makes fewer errors.
        fields = "." if shown else f" with the fields: {names}."
        several = " Write one object for each, in a list named calls." if form.parallel and not shown else ""
        return f"{tool.description}\nAnswer with JSON{fields}{several}"
    if shown:
        return f"{tool.name}: {tool.description}"
    example = _example(tool.parameters, tool.parameters.get("$defs", {}), 0)
    return f"{tool.name}: {tool.description} Example: {_json(_call(tool.name, example, form))}"


def _call(name: str, arguments: Any, form: CallFormat) -> Any:
    call = {"name": name, "arguments": arguments}
    return {"calls": [call]} if form.parallel else call


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _example(schema: Any, definitions: Mapping[str, Any], depth: int) -> Any:
    """Return a value that shows the form of `schema`."""
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
