"""Anthropic's Messages protocol: messages -> request. The answer is read by `anthropic_decoder`.

Anthropic is strict about the order of what is said: roles alternate, the results of tools come first in the turn that
follows the calls, thoughts go back as they came, blank text is refused. So messages are laid out as blocks, each into
the turn where it belongs. What a model takes is in `capabilities`, how it takes it in `_WAYS`; an unknown name is taken
for a model behind another server that speaks the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

from ...capabilities import Capabilities
from ...credentials import API_KEY_VARIABLES, Secret, SecretURL
from ...errors import BadRequest
from ...messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from ...settings import NOTHING_SET, Settings
from ...tool_spec import ToolChoice, ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..content_parts import arguments_of, cannot_take, inlined, only, system_messages, unique_ids
from ..http_adapter import Address, HTTPAdapter, RequestEncoder, budget, effort, endpoint, once_for_all
from ..http_errors import ErrorSource
from ..model_features import capabilities
from ..schemas.strict import anthropic_schema
from ..tool_calls.json_text import Form, answer_schema, instructed, instructions, schema_form
from .decoder import AnthropicDecoder


class AnthropicAdapter(HTTPAdapter):
    """The Messages wire at one address. `bearer` is sent as `Authorization: Bearer` where there is no `api_key`.

    `base_url` may end in a slash or in `/v1`, carry a query, or be the full address of `/v1/messages`. `headers` go
    with every request, over the wire's own: `anthropic-beta` for one.
    """

    fixed_headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

    def __init__(
        self,
        *,
        api_key: Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        bearer: Secret | None = None,
    ) -> None:
        base_url = base_url or "https://api.anthropic.com"
        key, header = (api_key, "x-api-key") if api_key else (bearer, "authorization")
        versioned = re.match(r"[^?]*/(v1|messages)/*\s*(\?|$)", base_url)
        url = endpoint(base_url, "/messages" if versioned else "/v1/messages")
        super().__init__(
            Address("anthropic", SecretURL(url), key, headers or {}, header, API_KEY_VARIABLES["anthropic"])
        )
        self._holds = once_for_all(_can_hold)

    def can_hold(self, conversation: RequestInput) -> bool:
        """Whether the text of an answer could be held to the schema of these tools."""
        return self._holds(replace(conversation, mode="json_schema"), NOTHING_SET)

    def frame(self, terms: RequestOptions, settings: Settings) -> AnthropicRequestEncoder:
        """What requests with these terms and settings have in common."""
        return AnthropicRequestEncoder(terms, settings)

    def answer(self, source: ErrorSource, conversation: RequestInput) -> ResponseDecoder:
        """What reads the protocol's own events."""
        return AnthropicDecoder(source, conversation)


def _can_hold(terms: RequestOptions, settings: Settings) -> bool:
    form = schema_form(terms)
    return form is None or anthropic_schema(answer_schema(form)).loose is None


class AnthropicRequestEncoder(RequestEncoder):
    """One Messages request but for its messages."""

    fixed: ClassVar[tuple[str, ...]] = ("tool_choice", "output_config.format")

    def __init__(self, terms: RequestOptions, settings: Settings) -> None:
        super().__init__("anthropic", terms)
        self._facts, self._ways = known(terms.model)
        self._held = schema_form(terms)
        self._tools = [self._tool(tool) for tool in terms.tools]
        self.fields.update({"model": terms.model, "max_tokens": 0, "messages": [], "stream": terms.stream})
        if self._held is not None:
            self.fields["output_config"] = {"format": self._format(self._held)}
            forcing = False
        else:
            forcing = self._choose(terms)
        self._sampling(settings, thinks=self._think(settings, forcing=forcing))

    def said(self, messages: Sequence[Message]) -> dict[str, Any]:
        """What is said, and the system prompt."""
        if self._held is not None:
            messages = instructed(messages, instructions(self._held))
        start = system_messages(messages)
        said: dict[str, Any] = {"messages": self._turns(messages[start:])}
        if texts := [block for message in messages[:start] for block in self._blocks(message)]:
            said["system"] = texts[0]["text"] if len(texts) == 1 else texts
        if self._held is not None and _holds_calls(messages):
            # Calls in the history are refused where their tools are not told.
            said |= {"tools": self._tools, "tool_choice": {"type": "none"}}
        return said

    # -- tools

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        told = {"description": tool.description} if tool.description else {}
        return {"name": self.names.sent[tool.name], **told, "input_schema": tool.parameters}

    def _format(self, form: Form) -> dict[str, Any]:
        schema, loose = anthropic_schema(answer_schema(form))
        if self._facts.json_schema is False:
            loose = f"{self.fields['model']} has no such output"
        if loose:
            raise BadRequest(
                f"the answer cannot be held to a JSON schema: {loose}. Use mode='tool_call' or 'prompted'."
            )
        return {"type": "json_schema", "schema": schema}

    def _choose(self, terms: RequestOptions) -> bool:
        """Offer the tools; whether the model is made to call one."""
        choice, forced = terms.tool_choice, self.forced(terms.tool_choice)
        forcing = _forces(choice, forced)
        if not terms.tools:
            if forcing:
                raise BadRequest(f"tool_choice={choice!r} needs tools")
            return False
        free = forcing and self._facts.forced_tools is False
        # A name is also lost on other servers that speak the protocol: only what is offered can be called.
        only_one = self.names.sent[forced] if forced and (free or not self._facts.known) else None
        self.fields["tools"] = [tool for tool in self._tools if only_one in (None, tool["name"])]
        if free:
            self.notes.append("tool_choice")
            forcing, forced, choice = False, None, "auto"
        if sent := self._choice(choice, forced, parallel=terms.parallel):
            self.fields["tool_choice"] = sent
        return forcing

    def _choice(self, choice: ToolChoice, forced: str | None, *, parallel: bool) -> dict[str, Any]:
        if isinstance(choice, Mapping):
            return dict(choice)
        if choice == "none":
            return {"type": "none"}
        one = {} if parallel else {"disable_parallel_tool_use": True}
        if forced:
            return {"type": "tool", "name": self.names.sent[forced], **one}
        if choice is None:
            return {"type": "auto", **one} if one else {}
        return {"type": "auto" if choice == "auto" else "any", **one}

    # -- settings

    def _think(self, settings: Settings, *, forcing: bool) -> bool:
        """Say how much may be written and thought; whether the model thinks."""
        most = self._facts.max_output
        usual = _MUCH if self._ways.adaptive != "never" else _USUAL
        tokens = settings.max_tokens or (min(most or usual, usual) if self._facts.known else _LITTLE)
        self.fields["max_tokens"] = tokens
        thinking = settings.thinking
        if thinking is None or effort(thinking) == "none":
            self._without_thoughts(said=thinking is not None, forcing=forcing)
            return False
        if self._facts.thinking is False or (forcing and not self._facts.forced_while_thinking):
            self.notes.append("thinking")
            self._without_thoughts(said=False, forcing=forcing)
            return False
        if self._ways.adaptive == "only" or (self._ways.adaptive == "also" and not budget(thinking)):
            self.fields["thinking"] = {"type": "adaptive"}
            if thinking is not True:
                config: dict[str, Any] = self.fields.setdefault("output_config", {})
                config["effort"] = "low" if thinking == "minimal" else effort(thinking)
            return True
        return self._think_within(thinking, settings.max_tokens, tokens)

    def _think_within(self, thinking: bool | str | int, limit: int | None, tokens: int) -> bool:
        """Give a budget, which must leave room for the answer; where there is none, the model does not think."""
        wanted = max(_LEAST, budget(thinking) or _BUDGETS.get(effort(thinking), _BUDGETS["high"]))
        if limit is None:
            tokens = min(tokens + wanted, self._facts.max_output or tokens + wanted)
        if wanted >= tokens:
            wanted = tokens // 2
        if wanted < _LEAST:
            self.notes.append("thinking")
            return False
        self.fields["thinking"] = {"type": "enabled", "budget_tokens": wanted}
        self.fields["max_tokens"] = tokens
        return True

    def _without_thoughts(self, *, said: bool, forcing: bool) -> None:
        if (said and self._facts.thinking is not False) or (forcing and self._ways.by_default):
            self.fields["thinking"] = {"type": "disabled"}

    def _sampling(self, settings: Settings, *, thinks: bool) -> None:
        stops = [stop for stop in settings.stop or () if stop.strip()]
        wanted = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "stop_sequences": stops or None,
            "seed": settings.seed,
        }
        left_out = set(self._left_out(settings, thinks))
        for name, value in wanted.items():
            if value is not None and name in left_out:
                self.notes.append(name)
            elif value is not None:
                self.fields[name] = value
        if len(stops) < len(settings.stop or ()):
            self.notes.append("stop")  # one of nothing but blanks, which is refused

    def _left_out(self, settings: Settings, thinks: bool) -> Iterator[str]:
        yield "seed"
        if thinks or self._ways.adaptive == "only":
            yield from ("temperature", "top_k")
        if self._ways.adaptive == "only" or (thinks and settings.top_p is not None and settings.top_p < 0.95):
            yield "top_p"
        if self._ways.one_of_two and settings.temperature is not None and not thinks:
            yield "top_p"
        if self._facts.known and (settings.temperature or 0) > 1:
            yield "temperature"

    # -- messages

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Turns of alternating roles. A system message between others is said by the user: it has no other place."""
        turns: list[dict[str, Any]] = []
        for message in unique_ids(messages):
            role = "assistant" if message.role == "assistant" else "user"
            blocks = self._blocks(message)
            if blocks and turns and turns[-1]["role"] == role:
                turns[-1]["content"] += blocks
            elif blocks:
                turns.append({"role": role, "content": blocks})
        if not turns:
            raise BadRequest("nothing is said: Anthropic needs a user message with text or media")
        for turn in turns:
            if turn["role"] == "user":
                turn["content"].sort(key=_is_no_result)
        last = turns[-1]["content"][-1]
        if turns[-1]["role"] == "assistant" and last["type"] == "text":
            last["text"] = last["text"].rstrip()  # an answer to go on from must not end in a blank
        return turns

    def _blocks(self, message: Message) -> list[dict[str, Any]]:
        only(self.provider, message.parts, *_TAKES[message.role])
        blocks: list[dict[str, Any]] = []
        for part in message.parts:
            if (cited := _citations(part)) is not None:
                _cite(blocks, cited)
            elif block := self._block(part):
                blocks.append(block)
        return blocks

    def _block(self, part: Part) -> dict[str, Any] | None:
        match part:
            case TextPart():
                return {"type": "text", "text": part.text} if part.text.strip() else None
            case ThinkingPart():
                return _thought(part)
            case ToolCallPart():
                id, name = legal_name(part.id), legal_name(part.name)
                return {"type": "tool_use", "id": id, "name": name, "input": arguments_of(part), **_own(part)}
            case ToolResultPart():
                return self._result(part)
            case ImagePart():
                return {"type": "image", "source": self._image(part)}
            case DocumentPart():
                title = {"title": part.name} if part.name else {}
                return {"type": "document", "source": self._document(part), **title}
            case _:
                raise cannot_take(self.provider, part)

    def _result(self, result: ToolResultPart) -> dict[str, Any]:
        content: Any = result.content
        if result.images:
            parts: tuple[Part, ...] = (TextPart(result.content), *result.images)
            content = [block for part in parts if (block := self._block(part))]
        error = {"is_error": True} if result.is_error else {}
        return {"type": "tool_result", "tool_use_id": legal_name(result.call_id), "content": content, **error}

    def _image(self, part: ImagePart) -> dict[str, Any]:
        if (found := inlined(part)) is None:
            return {"type": "url", "url": part.url}
        kind, data = found
        kind = "image/jpeg" if kind == "image/jpg" else kind
        if kind not in _IMAGES:
            raise cannot_take(self.provider, part, f"as {kind}: it takes {', '.join(sorted(_IMAGES))}")
        return {"type": "base64", "media_type": kind, "data": data}

    def _document(self, part: DocumentPart) -> dict[str, Any]:
        if part.data is not None and (part.media_type or "").startswith("text/"):
            return {"type": "text", "media_type": "text/plain", "data": part.data.decode("utf-8", "replace")}
        if (found := inlined(part)) is None:
            return {"type": "url", "url": part.url}
        if found[0] != "application/pdf":
            raise cannot_take(self.provider, part, "as a document: it takes PDF and text")
        return {"type": "base64", "media_type": found[0], "data": found[1]}


def _is_no_result(block: Mapping[str, Any]) -> bool:
    return bool(block["type"] != "tool_result")


def _own(part: ThinkingPart | ToolCallPart) -> dict[str, Any]:
    """Return what the service wants back with a part; empty for a part of another service."""
    return dict((part.opaque or {}).get("anthropic") or {})


def _citations(part: Part) -> dict[str, Any] | None:
    """Return the citations of the text before a part, as the decoder keeps them; None for any other part."""
    own = _own(part) if isinstance(part, ThinkingPart) else {}
    return own if own.get("type") == "text" else None


def _cite(blocks: list[dict[str, Any]], cited: Mapping[str, Any]) -> None:
    """Give the end of the last text its citations, as a block of its own; leave them out if that text has changed."""
    length = cited.get("characters") or 0
    last = blocks[-1] if blocks else {}
    if last.get("type") != "text" or "citations" in last or not 0 < length <= len(last["text"]):
        return
    before, text = last["text"][:-length], last["text"][-length:]
    if before.strip():
        last["text"] = before
    else:
        blocks.pop()  # blank text is refused
    blocks.append({"type": "text", "text": text, "citations": cited["citations"]})


def _thought(part: ThinkingPart) -> dict[str, Any] | None:
    """Return a thought, or a block that is kept in one, as it came; None without a signature: it is another model's."""
    if own := _own(part):
        return own
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.redacted}
    if part.signature:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return None


def _forces(choice: ToolChoice, forced: str | None) -> bool:
    if isinstance(choice, Mapping):
        return choice.get("type") in ("any", "tool")
    return forced is not None or choice == "required" or choice == "any"


def _holds_calls(messages: Sequence[Message]) -> bool:
    return any(isinstance(part, (ToolCallPart, ToolResultPart)) for message in messages for part in message.parts)


_IMAGES = frozenset(("image/gif", "image/jpeg", "image/png", "image/webp"))
_TAKES: dict[str, tuple[tuple[type, ...], str]] = {
    "system": ((TextPart,), "a system message takes only text"),
    "user": ((TextPart, ImagePart, AudioPart, DocumentPart, ToolResultPart), "only the model thinks and calls tools"),
    "assistant": ((TextPart, ThinkingPart, ToolCallPart), "an assistant message takes text, thinking and tool calls"),
    "tool": ((ToolResultPart,), "a tool message takes only ToolResultPart"),
}

# `max_tokens` where none is set: it must be, and what is more than the context has left is refused.
_LITTLE, _USUAL, _MUCH = 4_096, 16_384, 32_000
# The least budget that is taken, and what a level of thinking comes to.
_LEAST = 1_024
_BUDGETS = {"minimal": _LEAST, "low": 2_048, "medium": 8_192, "high": 16_384}


class ModelFeatures(NamedTuple):
    """How models ask for things. `adaptive`: whether thinking is, instead of having a budget; those `only` so take no
    sampling. `by_default`: it thinks unless told not to. `one_of_two`: temperature or top_p, but not both."""

    adaptive: Literal["never", "also", "only"] = "never"
    by_default: bool = False
    one_of_two: bool = False


_WAYS = (
    (r"claude-[a-z]+-([5-9]|\d\d)(?!\d)", ModelFeatures("only", by_default=True)),
    (r"claude-[a-z]+-4-[7-9](?!\d)", ModelFeatures("only")),
    (r"claude-[a-z]+-4-6(?!\d)", ModelFeatures("also", one_of_two=True)),
    (r"claude-[a-z]+-4-[1-5](?!\d)", ModelFeatures(one_of_two=True)),
)


@lru_cache(64)
def known(model: str) -> tuple[Capabilities, ModelFeatures]:
    """What is known of a model. Clouds write more before its name, and `@` before its date."""
    name = model[max(0, model.find("claude-")) :].replace("@", "-")
    ways = next((ways for models, ways in _WAYS if re.match(models, name)), ModelFeatures())
    return capabilities("anthropic", name), ways
