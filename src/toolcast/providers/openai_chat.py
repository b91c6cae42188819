"""OpenAI's chat-completions protocol, spoken by OpenAI and by most others: messages -> request.

What differs between services is in the `Service` row the wire is made with; no service is named in this file.
A request is a `_Frame`, everything that many requests have in common, written as JSON once; and the messages,
written into it each time. `Settings.extra` has the last word. What a service cannot take is refused before
anything is sent if it is content or tools, and left out and noted if it is a setting. The answer is read by
`openai_chat_decoder`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jiter import from_json

from ..errors import BadRequest, LLMError
from ..messages import (
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
from ..settings import Settings
from .compatible import Service
from .http_errors import Source, http_error
from .openai_chat_decoder import OpenAIChatDecoder
from .wire import (
    Conversation,
    HTTPRequest,
    NamedTool,
    Secret,
    Terms,
    ToolChoice,
    ToolNames,
    ToolSpec,
    legal_name,
    member,
    once_for_all,
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class OpenAIChatWire:
    """The chat-completions wire of one service, at one address, with one key.

    `base_url` may end in a slash, carry a query, or be the full address of `/chat/completions`. `headers` go
    with every request, over the wire's own.
    """

    def __init__(
        self,
        service: Service,
        *,
        api_key: Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
    ) -> None:
        self._service = service
        self._key = api_key
        self._url = endpoint(base_url or service.base_url, "/chat/completions")
        self._own_headers = {name.lower(): value for name, value in (headers or {}).items()}
        secrets = [value for value in self._own_headers.values() if isinstance(value, Secret)]
        self._secrets = tuple(secrets if api_key is None else [api_key, *secrets])
        self._frame = once_for_all(self._new_frame)

    @property
    def provider(self) -> str:
        """The name of the service."""
        return self._service.name

    def request(self, conversation: Conversation, settings: Settings) -> HTTPRequest:
        """The request to send. Raises `BadRequest` for what the service cannot take."""
        try:
            frame = self._frame(conversation, settings)
            members = {**frame.members, "messages": member("messages", frame.messages(conversation.messages))}
            for name, value in (settings.extra or {}).items():
                members[name] = member(name, value)
        except BadRequest as error:
            error.provider, error.model = self._service.name, conversation.model
            raise
        return HTTPRequest("POST", self._url, dict(frame.headers), _encoded(members), frame.notes)

    def decoder(self, conversation: Conversation) -> OpenAIChatDecoder:
        """A fresh decoder for one answer, streamed or whole."""
        return OpenAIChatDecoder(self._source(conversation.model), conversation, think_tags=self._service.think_tags)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """The error that an HTTP status of 300 or more stands for."""
        return http_error(status, headers, body, self._source(None))

    def _source(self, model: str | None) -> Source:
        return Source(self._service.name, model, self._service.key_env, self._secrets)

    def _new_frame(self, terms: Terms, settings: Settings) -> _Frame:
        return _Frame(self._service, terms, settings, self._headers(terms.stream))

    def _headers(self, stream: bool) -> dict[str, str | Secret]:
        headers: dict[str, str | Secret] = {
            "content-type": "application/json",
            "accept": "text/event-stream" if stream else "application/json",
        }
        if self._key:
            headers["authorization"] = Secret(f"Bearer {self._key.reveal()}")
        headers.update(self._own_headers)
        for name, value in headers.items():
            text = value.reveal() if isinstance(value, Secret) else value
            if _CONTROL.search(name + text) or not text.isascii() or not name.isascii():
                raise BadRequest(
                    f"the header {name!r} holds characters that a header cannot have; "
                    "look for a line break or a typographic quote at the end of the key"
                )
        return headers


def endpoint(base_url: str, path: str) -> str:
    """`base_url` with `path` at its end, where it does not end in it already; a query stays behind it."""
    url, mark, query = base_url.strip().partition("?")
    url = url.rstrip("/")
    if not re.match(r"https?://[^/]", url) or _CONTROL.search(base_url.strip()):
        raise BadRequest(f"base_url={base_url!r} is no http address; give it as https://host/v1")
    return (url if url.endswith(path) else url + path) + mark + query


class _Frame:
    """One request but for its messages: the `members` of its JSON body by name, and notes on what was left out."""

    def __init__(self, service: Service, terms: Terms, settings: Settings, headers: Mapping[str, str | Secret]) -> None:
        if not terms.model or _CONTROL.search(terms.model):
            raise BadRequest(f"{terms.model!r} is no name of a model")
        self.headers = headers
        self._service = service
        self._names = ToolNames(terms.tools)
        self._notes: list[str] = []
        self._left_out = frozenset(_left_out(service, terms.model, settings.thinking))
        self._fields: dict[str, Any] = {"model": terms.model, "messages": [], "stream": terms.stream}
        if terms.stream and service.stream_options:
            self._fields["stream_options"] = {"include_usage": True}
        self._tools(terms, bool(settings.thinking))
        self._settings(settings)
        self.members = {name: member(name, value) for name, value in self._fields.items()}
        self.notes = tuple(self._notes)

    # -- tools and settings

    def _tools(self, terms: Terms, thinking: bool) -> None:
        tools, choice = terms.tools, terms.tool_choice
        forced = self._forced(choice)
        if tools and not self._service.tools:
            raise BadRequest(f"{self._service.name} takes no tools: leave them out, or use another service")
        if not tools:
            if choice == "required":
                raise BadRequest("tool_choice='required' needs tools")
            return
        as_auto = self._service.forced == "auto" or (thinking and not self._service.forced_while_thinking)
        if forced and (as_auto or self._service.forced == "required"):
            tools = tuple(tool for tool in tools if tool.name == forced)
        self._fields["tools"] = [self._tool(tool) for tool in tools]
        if as_auto and (forced or choice == "required"):
            self._notes.append("tool_choice")
        elif forced and self._service.forced == "object":
            self._fields["tool_choice"] = {"type": "function", "function": {"name": self._names.wire[forced]}}
        elif choice is not None:
            self._fields["tool_choice"] = "required" if forced or choice == "any" else choice
        if self._service.parallel_flag and "parallel_tool_calls" not in self._left_out:
            self._fields["parallel_tool_calls"] = terms.parallel

    def _forced(self, choice: ToolChoice) -> str | None:
        """The name of the one tool that must be called, or None."""
        name = choice.name if isinstance(choice, NamedTool) else choice
        if not isinstance(name, str) or (choice is name and name in ("auto", "required", "none", "any")):
            return None
        if name not in self._names.wire:
            raise BadRequest(f"tool_choice names {name!r}, which is not among the tools: {list(self._names.wire)}")
        return name

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        return {
            "type": "function",
            "function": {
                "name": self._names.wire[tool.name],
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }

    def _settings(self, settings: Settings) -> None:
        wanted = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "stop": None if settings.stop is None else list(settings.stop),
            "seed": settings.seed,
        }
        for name, value in wanted.items():
            if value is not None and name in self._left_out:
                self._notes.append(name)
            elif value is not None:
                self._fields[name] = value
        if settings.max_tokens is not None:
            self._fields[self._service.max_tokens_field] = settings.max_tokens
        if settings.thinking is None:
            return
        if self._service.thinking_in is None or "thinking" in self._left_out:
            self._notes.append("thinking")
        else:
            self._fields.update(_THINKING[self._service.thinking_in](settings.thinking))

    # -- messages

    def messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """What is said, as data. Raises `BadRequest` for what the service cannot take."""
        rest = list(messages)
        if self._service.one_system:
            start = 0
            while start < len(rest) and rest[start].role == "system":
                start += 1
            if start > 1:
                merged = "\n\n".join(message.text for message in rest[:start])
                rest[:start] = [Message("system", (TextPart(merged),))]
        return [sent for message in rest for sent in self._message(message)]

    def _message(self, message: Message) -> Iterator[dict[str, Any]]:
        if message.role == "assistant":
            yield self._assistant(message)
            return
        others: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                yield self._result(part)
            else:
                others.append(part)
        if message.role == "tool":
            self._only(others, (), "a tool message takes only ToolResultPart")
        elif message.role == "system":
            self._only(others, (TextPart,), "a system message takes only text")
            yield {"role": self._service.system_role, "content": message.text}
        elif others or not message.parts:
            yield {"role": "user", "content": self._content(others)}

    def _only(self, parts: Sequence[Part], kinds: tuple[type, ...], why: str) -> None:
        for part in parts:
            if not isinstance(part, kinds):
                raise BadRequest(f"{self._service.name} cannot take {type(part).__name__} here: {why}")

    def _content(self, parts: Sequence[Part]) -> Any:
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        return "".join(texts) if len(texts) == len(parts) else [self._part(part) for part in parts]

    def _part(self, part: Part) -> dict[str, Any]:
        match part:
            case TextPart():
                return {"type": "text", "text": part.text}
            case ImagePart() if part.url is None or self._service.image_urls or part.url.startswith("data:"):
                detail = {} if part.detail is None else {"detail": part.detail}
                return {"type": "image_url", "image_url": {"url": part.url or _data_url(part), **detail}}
            case AudioPart() if self._service.audio and part.data is not None and _sound(part):
                sound = base64.b64encode(part.data).decode()
                return {"type": "input_audio", "input_audio": {"data": sound, "format": _sound(part)}}
            case DocumentPart() if self._service.documents and part.data is not None:
                file = {"filename": part.name or "document", "file_data": _data_url(part)}
                return {"type": "file", "file": file}
            case _:
                raise BadRequest(f"{self._service.name} cannot take {_described(part)} in a user message")

    def _assistant(self, message: Message) -> dict[str, Any]:
        kinds = (TextPart, ThinkingPart, ToolCallPart)
        self._only(message.parts, kinds, "an assistant message takes text, thinking and tool calls")
        calls = [self._call(call) for call in message.tool_calls]
        sent: dict[str, Any] = {"role": "assistant", "content": message.text or (None if calls else "")}
        if calls:
            sent["tool_calls"] = calls
        sent.update(self._thoughts(message))
        return sent

    def _thoughts(self, message: Message) -> dict[str, Any]:
        back = self._service.thinking_back
        thoughts = [part for part in message.parts if isinstance(part, ThinkingPart)]
        if back == "reasoning_details":
            details = [d for part in thoughts for d in (part.opaque or {}).get("reasoning_details", ())]
            return {back: details} if details else {}
        # Only with tool calls: there thoughts are required, elsewhere some models refuse them.
        text = "".join(part.text for part in thoughts) if message.tool_calls else ""
        return {back: text} if back and text else {}

    def _call(self, call: ToolCallPart) -> dict[str, Any]:
        arguments = call.arguments
        if self._service.valid_arguments and not _is_object(arguments):
            arguments = json.dumps({"malformed": arguments}, ensure_ascii=False)
        name = self._names.wire.get(call.name) or legal_name(call.name)
        extra: Any = call.opaque.get("extra_content") if call.opaque else None
        return {
            "id": self._id(call.id),
            "type": "function",
            "function": {"name": name, "arguments": arguments},
            **({"extra_content": extra} if extra else {}),
        }

    def _result(self, result: ToolResultPart) -> dict[str, Any]:
        if result.images:
            raise BadRequest(f"{self._service.name} cannot take ImagePart in the result of a tool")
        return {"role": "tool", "tool_call_id": self._id(result.call_id), "content": result.content}

    def _id(self, id: str) -> str:
        limit = self._service.id_limit
        return id if limit is None or len(id) <= limit else legal_name(id, limit)


def _encoded(members: Mapping[str, str]) -> bytes:
    text = "{" + ",".join(members.values()) + "}"
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair cannot be sent as UTF-8; no service could read it either.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _left_out(service: Service, model: str, thinking: bool | str | int | None) -> Iterator[str]:
    yield from service.drops
    name = model.rpartition("/")[2]
    on = {"always": True, "unless_off": thinking is not False, "if_on": bool(thinking)}
    for rule in service.rules:
        if on[rule.when] and re.match(rule.models, name):
            yield from rule.fields


def _effort(thinking: bool | str | int) -> str:
    """A level, for services that know no budgets of tokens."""
    if isinstance(thinking, bool):
        return "medium" if thinking else "none"
    if isinstance(thinking, str):
        return thinking
    return "none" if thinking <= 0 else "low" if thinking <= 2048 else "medium" if thinking <= 8192 else "high"


def _budget(thinking: bool | str | int) -> int | None:
    return thinking if isinstance(thinking, int) and not isinstance(thinking, bool) and thinking > 0 else None


def _reasoning(thinking: bool | str | int) -> dict[str, Any]:
    budget = _budget(thinking)
    if budget:
        return {"reasoning": {"max_tokens": budget}}
    return {"reasoning": {"enabled": thinking} if isinstance(thinking, bool) else {"effort": _effort(thinking)}}


def _enable_thinking(thinking: bool | str | int) -> dict[str, Any]:
    budget = _budget(thinking)
    return {"enable_thinking": bool(thinking), **({"thinking_budget": budget} if budget else {})}


def _template(thinking: bool | str | int) -> dict[str, Any]:
    kwargs: dict[str, Any] = {"enable_thinking": bool(thinking)}
    return {
        "chat_template_kwargs": kwargs,
        **({"reasoning_effort": thinking} if isinstance(thinking, str) else {}),
    }


_THINKING: dict[str, Callable[[bool | str | int], dict[str, Any]]] = {
    "effort": lambda thinking: {"reasoning_effort": _effort(thinking)},
    "reasoning": _reasoning,
    "thinking": lambda thinking: {"thinking": {"type": "enabled" if thinking else "disabled"}},
    "enable_thinking": _enable_thinking,
    "template": _template,
}


def _data_url(part: ImagePart | DocumentPart) -> str:
    return f"data:{part.media_type};base64,{base64.b64encode(part.data or b'').decode()}"


def _sound(part: AudioPart) -> str | None:
    return {"wav": "wav", "x-wav": "wav", "wave": "wav", "mpeg": "mp3", "mp3": "mp3"}.get(
        (part.media_type or "").partition("/")[2]
    )


def _described(part: Part) -> str:
    given = "by url" if getattr(part, "url", None) else getattr(part, "media_type", None)
    return f"{type(part).__name__} ({given})" if given else type(part).__name__


def _is_object(text: str) -> bool:
    try:
        return isinstance(from_json(text.encode("utf-8", "replace")), dict)
    except ValueError:
        return False
