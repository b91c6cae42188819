"""Google's Gemini protocol, spoken by the Gemini API and by Vertex AI: messages -> request.

What is said is turns of the user and of the model, and turns of one kind in a row become one. Gemini signs its
thoughts, and wants each signature back on the part that it came on: google_decoder.py, which reads the answers, tells
where that was. A part that is not Gemini's own goes back without.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

from ...credentials import API_KEY_VARIABLES, Secret, SecretURL
from ...errors import BadRequest
from ...messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from ...settings import Settings
from ...tool_spec import ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..content_parts import arguments_of, cannot_take, inlined, only, system_messages
from ..http_adapter import Address, HTTPAdapter, RequestEncoder, budget, effort, endpoint
from ..http_errors import ErrorSource
from ..schemas.strict import gemini_schema
from ..tool_calls.json_text import answer_schema, instructed, instructions, schema_form
from .decoder import GoogleDecoder

BASE_URL = "https://generativelanguage.googleapis.com"
_VERSIONED = re.compile(r"/v\d+[a-z0-9]*(?=/|$)")


class GoogleAdapter(HTTPAdapter):
    """The wire of the Gemini API, at one address, with one key.

    `api_version` becomes part of the address, where `base_url` has no version in it. Vertex AI is a `base_url` up to
    `/publishers/google`. `headers` go with every request, over the wire's own.
    """

    def __init__(
        self,
        *,
        api_key: Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        api_version: str = "v1beta",
    ) -> None:
        base_url = base_url or BASE_URL
        versioned = _VERSIONED.search(urlsplit(base_url).path)
        url = endpoint(base_url, "" if versioned else f"/{api_version.strip('/')}")
        super().__init__(
            Address("google", SecretURL(url), api_key, headers or {}, "x-goog-api-key", API_KEY_VARIABLES["google"])
        )

    def url(self, conversation: RequestInput) -> SecretURL:
        """Return the URL of the request. A model that is not a bare name keeps its prefix (`tunedModels/...`)."""
        model = conversation.model if "/" in conversation.model else f"models/{conversation.model}"
        path = f"/{quote(model, safe='/@')}:{'streamGenerateContent' if conversation.stream else 'generateContent'}"
        url = endpoint(super().url(conversation).reveal(), path)
        return SecretURL(f"{url}{'&' if '?' in url else '?'}alt=sse" if conversation.stream else url)

    def frame(self, terms: RequestOptions, settings: Settings) -> GoogleRequestEncoder:
        """What requests with these terms and settings have in common."""
        return GoogleRequestEncoder(terms, settings)

    def answer(self, source: ErrorSource, conversation: RequestInput) -> ResponseDecoder:
        """What reads the protocol's own events."""
        return GoogleDecoder(source, conversation)


class GoogleRequestEncoder(RequestEncoder):
    """One request of `generateContent` but for its contents."""

    fixed: ClassVar[tuple[str, ...]] = (
        "toolConfig.functionCallingConfig",
        "generationConfig.responseMimeType",
        "generationConfig.responseJsonSchema",
    )

    def __init__(self, terms: RequestOptions, settings: Settings) -> None:
        super().__init__("google", terms)
        self._signs_calls = bool(_LEVELS.match(_name(terms.model)))
        self._told: str | None = None
        self.fields["contents"] = []
        config = _sampling(settings, self.notes) | _thinking(terms.model, settings.thinking, self.notes)
        held = schema_form(terms)
        if held is None:
            self._tools(terms)
        else:
            config |= {"responseMimeType": "application/json", "responseJsonSchema": gemini_schema(answer_schema(held))}
            self._told = None if held.is_bare else instructions(held)
        if config:
            self.fields["generationConfig"] = config

    # -- tools

    def _tools(self, terms: RequestOptions) -> None:
        choice, forced = terms.tool_choice, self.forced(terms.tool_choice)
        if not terms.tools:
            return
        self.fields["tools"] = [{"functionDeclarations": [self._declaration(tool) for tool in terms.tools]}]
        if isinstance(choice, Mapping):
            self.fields["toolConfig"] = {"functionCallingConfig": choice}
        elif forced:
            calling = {"mode": "ANY", "allowedFunctionNames": [self.names.sent[forced]]}
            self.fields["toolConfig"] = {"functionCallingConfig": calling}
        elif isinstance(choice, str):
            self.fields["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[choice]}}

    def _declaration(self, tool: ToolSpec) -> dict[str, Any]:
        declared = {"name": self.names.sent[tool.name], "description": tool.description}
        schema = {} if _takes_nothing(tool.parameters) else {"parametersJsonSchema": gemini_schema(tool.parameters)}
        return declared | schema

    # -- what is said

    def said(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The contents, and the instruction that system messages at the start are."""
        if self._told is not None:
            messages = instructed(messages, self._told)
        start = system_messages(messages)
        system = [sent for message in messages[:start] for sent in self._user(message, {})]
        calls = {call.id: call for message in messages for call in message.tool_calls}
        contents: list[dict[str, Any]] = []
        for message in messages[start:]:
            role = "model" if message.role == "assistant" else "user"
            parts = self._model(message) if role == "model" else list(self._user(message, calls))
            if parts and contents and contents[-1]["role"] == role:
                contents[-1]["parts"] += parts
            elif parts:
                contents.append({"role": role, "parts": parts})
        if not contents:  # a request must ask something
            return {"contents": [{"role": "user", "parts": system or [{"text": ""}]}]}
        return {"contents": contents, **({"systemInstruction": {"parts": system}} if system else {})}

    def _user(self, message: Message, calls: Mapping[str, ToolCallPart]) -> Iterator[dict[str, Any]]:
        """The parts of all that is not said by the model. A system message that comes late is said by the user."""
        if message.role == "system":
            only(self.provider, message.parts, (TextPart,), "a system message takes only text")
        if message.role == "tool":
            only(self.provider, message.parts, (ToolResultPart,), "a tool message takes only ToolResultPart")
        for part in message.parts:
            match part:
                case TextPart():
                    if part.text:
                        yield {"text": part.text}
                case ImagePart() | AudioPart() | DocumentPart():
                    yield self._media(part)
                case ToolResultPart():
                    yield from self._result(part, calls.get(part.call_id))
                case _:
                    raise cannot_take(self.provider, part)

    def _media(self, part: ImagePart | AudioPart | DocumentPart) -> dict[str, Any]:
        found = inlined(part)
        if found is not None:
            return {"inlineData": {"mimeType": found[0], "data": found[1]}}
        url = part.url or ""
        kind = part.media_type or mimetypes.guess_type(urlsplit(url).path)[0]
        if kind is None:
            raise BadRequest(f"{self.provider} must be told what is at {url!r}; add media_type= to the part")
        return {"fileData": {"mimeType": kind, "fileUri": url}}

    def _result(self, result: ToolResultPart, call: ToolCallPart | None) -> Iterator[dict[str, Any]]:
        """The answer to `call`. Gemini 3 takes images in it; they follow it where it does not."""
        if call is None and not result.name:
            raise BadRequest(
                f"{self.provider} must be told which tool the result of {result.call_id!r} is of: add name="
            )
        response: dict[str, Any] = {
            "name": legal_name(result.name or (call.name if call else "")),
            "response": {"error" if result.is_error else "result": result.content},
        }
        if call is not None and (id := _own(call).get("id")):
            response["id"] = id
        images = [self._media(image) for image in result.images]
        inside = images and self._signs_calls and all("inlineData" in image for image in images)
        yield {"functionResponse": response | ({"parts": images} if inside else {})}
        if not inside:
            yield from images

    def _model(self, message: Message) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []
        unsigned = self._signs_calls
        for part in message.parts:
            match part:
                case TextPart():
                    sent += [{"text": part.text}] if part.text else []
                case ThinkingPart():
                    _signed(part, sent)
                case ToolCallPart():
                    sent.append(self._call(part, foreign=unsigned))
                    unsigned = False
                case _:
                    raise cannot_take(self.provider, part, "in an assistant message")
        return sent

    def _call(self, call: ToolCallPart, *, foreign: bool) -> dict[str, Any]:
        """A call as Gemini made it. `foreign`: it must be signed; where Gemini has not, that is not to be checked."""
        own = _own(call)
        function: dict[str, Any] = {"name": legal_name(call.name), "args": arguments_of(call)}
        if "id" in own:
            function["id"] = own["id"]
        signature = own.get("thoughtSignature") or ("skip_thought_signature_validator" if foreign else None)
        return {"functionCall": function} | ({"thoughtSignature": signature} if signature else {})


def _own(part: ThinkingPart | ToolCallPart) -> Mapping[str, Any]:
    """What Gemini itself said of a part, and wants back."""
    return (part.opaque or {}).get("google") or {}


def _signed(thought: ThinkingPart, sent: list[dict[str, Any]]) -> None:
    """Put a signature back where it came: on a thought, on a part of its own, or on the end of the text before it."""
    own = dict(_own(thought))
    if "thoughtSignature" not in own:
        return
    count = own.pop("characters", None)
    if count is None:
        sent.append({"text": thought.text, "thought": True, **own} if len(own) == 1 else own)
        return
    before: str = sent[-1].get("text", "") if sent and sent[-1].keys() == {"text"} else ""
    if not count or len(before) < count:
        sent.append({"text": "", **own})
        return
    rest = before[: len(before) - count]
    sent[-1:] = [*([{"text": rest}] if rest else []), {"text": before[len(rest) :], **own}]


_MODES = {"auto": "AUTO", "required": "ANY", "any": "ANY", "none": "NONE"}


def _takes_nothing(parameters: Mapping[str, Any]) -> bool:
    """Whether a tool has no parameters. Gemini refuses the schema of an object that is always empty."""
    says = {name for name, value in parameters.items() if value not in ({}, [], False)}
    return says <= {"type", "title", "description"}


# -- settings


_MOST_STOPS = 5


def _sampling(settings: Settings, notes: list[str]) -> dict[str, Any]:
    if len(settings.stop or ()) > _MOST_STOPS:
        notes.append(f"more than {_MOST_STOPS} stop sequences")
    config = {
        "maxOutputTokens": settings.max_tokens,
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "topK": settings.top_k,
        "stopSequences": None if settings.stop is None else list(settings.stop)[:_MOST_STOPS],
        "seed": settings.seed,
    }
    return {name: value for name, value in config.items() if value is not None}


# Which models think by level, and which not at all; all others think by a budget of tokens.
_LEVELS = re.compile(r"gemini-(?:[3-9]|\d\d)")
_THOUGHTLESS = re.compile(r"gemini-(?:1|2\.0)|gemma|learnlm")
# What cannot be switched off thinks as little as it may.
_LEAST_IS_LOW = re.compile(r"gemini-3(?:\.\d+)?-pro|gemini-3\.7-flash")
_ALWAYS_THINKS = re.compile(r"gemini-2\.5-pro")
_BUDGETS = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576}
_DYNAMIC = -1


def _name(model: str) -> str:
    return model.rpartition("/")[2]


def _thinking(model: str, thinking: bool | str | int | None, notes: list[str]) -> dict[str, Any]:
    """How much the model shall think, in the way that it is told. Thoughts are asked for where it shall at all."""
    if thinking is None:
        return {}
    name = _name(model)
    if _THOUGHTLESS.match(name):
        notes.append("thinking")
        return {}
    config = _level(name, thinking) if _LEVELS.match(name) else _budget(name, thinking)
    return {"thinkingConfig": config | ({} if effort(thinking) == "none" else {"includeThoughts": True})}


def _level(name: str, thinking: bool | str | int) -> dict[str, Any]:
    if thinking is True:
        return {}
    level = effort(thinking)
    if level in ("none", "minimal"):
        level = "low" if _LEAST_IS_LOW.match(name) else "minimal"
    level = {"xhigh": "high", "max": "high"}.get(level, level)
    return {"thinkingLevel": level.upper()}


def _budget(name: str, thinking: bool | str | int) -> dict[str, Any]:
    wanted = effort(thinking)
    if wanted == "none":
        return {"thinkingBudget": 128 if _ALWAYS_THINKS.match(name) else 0}
    return {"thinkingBudget": _DYNAMIC if thinking is True else budget(thinking) or _BUDGETS.get(wanted, _DYNAMIC)}
