"""OpenAI's Responses protocol: messages to requests.

The input is a list of items: messages, thoughts, calls and results. By default the service stores nothing, so the
model's own thoughts are returned unchanged, each directly before the item that it led to; a thought that led to none is
left out, because the service rejects it. Calls and messages are sent without the service's ids, which name items that
it did not store or that another service made. A call and its result share the id of the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from typing_extensions import Unpack

from ...errors import BadRequest, LLMError
from ...messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    Message,
    Part,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from ...values.server_tools import APPROVED, is_reviewable
from ...values.settings import Settings
from ...values.tool_spec import ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..chat_completions.openai_base import AddressOptions, OpenAIBaseAdapter, OpenAIBaseEncoder
from ..chat_completions.services import ServiceSpec
from ..content_parts import (
    base64_of,
    check_parts,
    count_system_messages,
    data_url,
    has_cache_point,
    point_block,
    result_text,
    uncited,
    unsupported_part,
    valid_arguments,
)
from ..http_errors import ErrorSource
from ..response_decoder import json_or_text
from ..tool_calls.json_calls import CallFormat, response_schema, schema_call_format
from .decoder import ABOUT_CALLS, OpenAIResponsesDecoder

if TYPE_CHECKING:
    from ..chat_completions.adapter import OpenAIChatAdapter
    from ..file_codec import Exchange

_Item: TypeAlias = dict[str, Any]


class OpenAIResponsesAdapter(OpenAIBaseAdapter):
    """An adapter for the Responses API of one service.

    Args:
        chat: Makes the adapter of chat completions, for requests that this protocol cannot carry.
    """

    path: ClassVar[str] = "/responses"

    def __init__(
        self,
        service: ServiceSpec,
        *,
        chat: Callable[[], OpenAIChatAdapter] | None = None,
        **address: Unpack[AddressOptions],
    ) -> None:
        super().__init__(service, **address)
        self._chat = None if chat is None else cache(chat)
        self._given_up: set[str] = set()

    def for_request(self, request_input: RequestInput, settings: Settings) -> OpenAIBaseAdapter:
        """Return the adapter of chat completions for a request that only they carry, if there is one."""
        left_out = self.limits(request_input.model, settings.thinking)
        if not (what := self.needs_chat(request_input.messages, settings, left_out)) or self._chat is None:
            return self
        if other := _only_in_responses(request_input, settings, left_out):
            raise BadRequest(
                f"only chat completions (api='chat') take {what}, and only the Responses API takes {other}: leave out "
                "or change one of them",
                provider=self.provider,
                model=request_input.model,
            )
        return self._chat()

    def needs_chat(self, messages: Sequence[Message], settings: Settings, left_out: frozenset[str]) -> str | None:
        """Return what of a request chat completions carry, and the Responses API does not."""
        return None if self._chat is None else _only_in_chat(messages, settings, left_out)

    def adapt_to(self, refusal: LLMError, request_input: RequestInput, settings: Settings) -> bool:
        """Leave out encrypted thoughts or summaries of thoughts, if the model or the organization may not have them."""
        found = {name for name, words in _REFUSED.items() if words in str(refusal).lower()}
        if found - self._given_up:
            self._given_up |= found
            self.forget_encoders()
        return bool(found) or super().adapt_to(refusal, request_input, settings)

    def count_tokens(self, request_input: RequestInput, settings: Settings) -> Exchange[int] | None:
        """Return the request that counts the input tokens of a request; None if the service does not count them."""
        if self._service.counts != "responses":
            return None
        # The endpoint takes neither models nor audio that the Responses API does not take.
        left_out, kinds = self.limits(request_input.model, settings.thinking), Settings(modalities=settings.modalities)
        if _only_in_chat(request_input.messages, kinds, left_out):
            return None
        from ..token_counters import count_by_responses

        return count_by_responses(self.request(request_input, settings), self.post)

    def encoder(self, options: RequestOptions, settings: Settings) -> ResponsesRequestEncoder:
        """Return the encoder of requests with these options and settings."""
        service = replace(self._service, drops=(*self._service.drops, *self._given_up))
        return ResponsesRequestEncoder(service, options, settings)

    def protocol_decoder(self, source: ErrorSource, request_input: RequestInput) -> ResponseDecoder:
        """Return the decoder of the protocol's events."""
        return OpenAIResponsesDecoder(source, request_input)


# What `Settings.extra` may have for chat completions, and the Responses API rejects or has under another name.
_CHAT_FIELD = re.compile(
    "audio|(frequency|presence)_penalty|function_call|functions|logit_bias|logprobs|max_(completion_)?tokens|messages|"
    "modalities|n|prediction|reasoning_effort|response_format|seed|stop|stream_options|verbosity|web_search_options"
)
_RESPONSES_FIELD = re.compile(
    "background|conversation|include|instructions|max_(output_tokens|tool_calls)|previous_response_id|prompt|reasoning|"
    "text|truncation"
)
_LEAST_TOKENS = 16  # of `max_output_tokens` (developers.openai.com/api/reference/resources/responses)
_REFUSED = {"include": "encrypted content is not supported", "summary": "generate reasoning summaries"}
"""What a service may refuse although its documentation has it, and the words of its message."""


def _only_in_chat(messages: Sequence[Message], settings: Settings, left_out: frozenset[str]) -> str | None:
    if "responses" in left_out:
        return "this model"
    for name in ("seed", "stop"):
        # A model without chat completions is sent neither, with a warning.
        if getattr(settings, name) not in (None, ()) and name not in left_out and "chat" not in left_out:
            return name
    if settings.max_tokens is not None and settings.max_tokens < _LEAST_TOKENS:
        return f"max_tokens below {_LEAST_TOKENS}"
    if settings.modalities is not None and "audio" in settings.modalities:
        return "audio output"
    for name, value in (settings.extra or {}).items():
        if value is not None and _CHAT_FIELD.fullmatch(name):
            return f"extra[{name!r}]"
    audio = any(type(part) is AudioPart for message in messages for part in message.parts)
    return "AudioPart" if audio else None


def _only_in_responses(request_input: RequestInput, settings: Settings, left_out: frozenset[str]) -> str | None:
    """Return what of a request the Responses API carries, and chat completions do not."""
    if "chat" in left_out:
        return "this model"
    if "tools" in left_out and request_input.tools and schema_call_format(request_input) is None:
        return "tools of a model that thinks"
    if request_input.server_tools:
        return "tools that the provider runs"
    for name in ("previous_response_id", "conversation", "background"):
        if getattr(settings, name) not in (None, False, "auto"):
            return name
    for name in settings.extra or ():
        if _RESPONSES_FIELD.fullmatch(name):
            return f"extra[{name!r}]"
    parts = (part for message in request_input.messages for part in message.parts)
    return next(filter(None, map(_part_of_responses, parts)), None)


def _part_of_responses(part: Part) -> str | None:
    match part:
        case ToolResultPart() if part.images:
            return "images in the result of a tool"
        case ImagePart() if "responses" in (part.opaque or {}):
            return "images that the model has generated"
        case DocumentPart() if part.data is None:
            return "DocumentPart by URL"
        case FileRef() if (part.media_type or "").startswith("image/"):
            return "FileRef of an image"
        case _:
            return None


class ResponsesRequestEncoder(OpenAIBaseEncoder):
    """The part of a Responses request that does not depend on its messages."""

    protected_fields: ClassVar[tuple[str, ...]] = ("tool_choice", "text.format", "response_format")
    takes_server_tools: ClassVar[bool] = True
    returns_server_tools: ClassVar[bool] = True

    def __init__(self, service: ServiceSpec, options: RequestOptions, settings: Settings) -> None:
        super().__init__(service, options, settings)
        if "responses" in self._left_out:
            raise BadRequest(
                "this model has no Responses API: leave api='responses' out, or use OpenAI in place of OpenAIResponses"
            )
        self.takes_cache_points: bool = self._marks == "prompt_cache_breakpoint"
        self._approves = (service.responses_tools or service.name) == "openai"  # has approvals of MCP calls
        self.fields.update({"model": options.model, "input": [], "stream": options.stream})
        self._stored(settings)
        if "include" not in self._left_out:
            self.fields["include"] = ["reasoning.encrypted_content"]
        form = schema_call_format(options)
        if form is None:
            self._tools(options, bool(settings.thinking))
        else:
            self._answer(form)
        if options.server_tools:
            self._run_by_service(options)
        self._settings(settings)

    def encode_messages(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the system messages at the start as `instructions`, all others as items of `input`."""
        marks = self.takes_cache_points and has_cache_point(messages)
        # `instructions` is a text, of which no part can be marked. Without any input a request is refused.
        start = 0 if marks else count_system_messages(messages)
        start = 0 if start == len(messages) else start
        for message in messages[:start]:
            self._system(message)
        items = [item for message in messages[start:] for item in self._message(message)]
        items = _since_compaction(_name_outputs(items))
        if marks:
            encoded = {"input": items}
            self._mark(encoded, "input", _PARTS, 0)
            return encoded
        instructions = "\n\n".join(message.text for message in messages[:start])
        return {"instructions": instructions, "input": items} if start else {"input": items}

    # -- tools and settings

    def _stored(self, settings: Settings) -> None:
        """Add the settings for responses that the service stores: it stores none unless one of them needs that."""
        found = {name for kind, names in _STORES.items() if kind in self._service.stores for name in names}
        self.stores: frozenset[str] = self.stores | found
        needs = settings.previous_response_id is not None or settings.conversation is not None or settings.background
        default = bool(needs) and bool(self.stores)
        self.fields["store"] = default if settings.store is None else settings.store
        if settings.conversation is not None:
            self.fields["conversation"] = settings.conversation
        if settings.background:
            self.fields["background"] = True

    def _run_by_service(self, options: RequestOptions) -> None:
        """Add the tools that the service runs, and request what they found."""
        protocol = self._service.responses_tools or self._service.name
        self.fields["tools"] = [*self.fields.get("tools", ()), *self.server_tools(options, protocol)]
        found = [_RESULTS[tool.kind] for tool in options.server_tools if tool.kind in _RESULTS]
        if protocol == "openai" and found:
            self.fields["include"] = [*self.fields.get("include", ()), *found]
            self.extended.append("include")

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        schema, strict = self._strict(tool.name, tool.parameters)
        name = self.names.sent[tool.name]
        # `strict` is always sent: its default is true.
        about = {"description": tool.description, "parameters": schema, "strict": strict}
        return {"type": "function", "name": name, **about}

    def _forcing(self, name: str) -> Any:
        return {"type": "function", "name": name}

    def _answer(self, form: CallFormat) -> None:
        """Constrain the text of the response to a schema."""
        name = "_".join(self.names.sent[tool.name] for tool in form.tools)
        description = form.tools[0].description
        if len(form.tools) > 1:
            description = "\n".join(f"{tool.name}: {tool.description}" for tool in form.tools)
        schema, strict = self._strict(name, response_schema(form))
        named = {"name": legal_name(name), "description": description, "schema": schema, "strict": strict}
        if self._service.schema_in_text:
            self.fields["text"] = {"format": {"type": "json_schema", **named}}
        else:
            self.fields["response_format"] = {"type": "json_schema", "json_schema": named}

    def _settings(self, settings: Settings) -> None:
        taken = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_output_tokens"}
        for name in ("temperature", "top_p", "top_k", "max_tokens", "stop", "seed"):
            value = getattr(settings, name)
            if value is not None and name in taken and name not in self._left_out:
                self.fields[taken[name]] = value
            elif value is not None:
                self.notes.append(name)
        if (alternatives := self._alternatives(settings)) is not None:
            self.fields["include"] = [*self.fields.get("include", ()), "message.output_text.logprobs"]
            self.fields.update({"top_logprobs": alternatives} if alternatives else {})
        self._service_settings(settings)
        if settings.thinking is None:
            return
        if self._service.thinking_in is None or "thinking" in self._left_out:
            self.notes.append("thinking")
        else:
            summary = {"summary": "auto"} if settings.thinking and "summary" not in self._left_out else {}
            self.fields["reasoning"] = {"effort": self._effort, **summary}
            self._note_effort(settings.thinking)

    # -- messages

    def _message(self, message: Message) -> Iterator[_Item]:
        points = [part for part in message.parts if type(part) is CachePoint]
        if points and (message.role in ("assistant", "tool") or len(points) == len(message.parts)):
            # They are taken out again, with their place (cache_marks.py).
            rest = tuple([part for part in message.parts if type(part) is not CachePoint])
            yield from self._message(Message(message.role, rest)) if rest else ()
            yield from map(point_block, points)
            return
        if message.role == "assistant":
            yield from self._assistant(message)
        elif message.role == "system":
            content = self._content(message.parts) if has_cache_point((message,)) else self._system(message)
            yield {"role": "system", "content": content}
        else:
            yield from self._user(message)

    def _system(self, message: Message) -> str:
        check_parts(self.provider, message.parts, (TextPart,), "a system message takes only text")
        return message.text

    def _user(self, message: Message) -> Iterator[_Item]:
        others: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                if self._approves and part.call_id.startswith(_APPROVAL_ID):
                    yield _decision(part)
                    continue
                yield {"type": "function_call_output", "call_id": _id(part.call_id), "output": self._output(part)}
            else:
                others.append(part)
        if message.role == "tool":
            check_parts(self.provider, others, (), "a tool message takes only ToolResultPart")
        elif others or not message.parts:
            yield {"role": "user", "content": self._content(others)}

    def _part(self, part: Part) -> dict[str, Any]:
        match part:
            case TextPart():
                return {"type": "input_text", "text": part.text}
            case CachePoint():
                return point_block(part)
            case ImagePart() if part.url is None or self._service.image_urls or part.url.startswith("data:"):
                detail = part.detail or "auto"
                return {"type": "input_image", "image_url": part.url or data_url(part), "detail": detail}
            case FileRef() if (part.media_type or "").startswith("image/"):
                return {"type": "input_image", "file_id": part.id, "detail": "auto"}
            case FileRef() if not (part.media_type or "").startswith(("audio/", "video/")):
                return {"type": "input_file", "file_id": part.id}
            case DocumentPart() if self._service.documents and part.data is None:
                return {"type": "input_file", "file_url": uncited(self.provider, part).url}
            case DocumentPart() if self._service.documents:
                data = data_url(uncited(self.provider, part))
                return {"type": "input_file", "filename": part.name or "document", "file_data": data}
            case _:
                raise unsupported_part(self.provider, part)

    def _output(self, result: ToolResultPart) -> Any:
        return self._content((TextPart(result_text(result)), *result.images))

    def _assistant(self, message: Message) -> Iterator[_Item]:
        kinds = (TextPart, ThinkingPart, ToolCallPart, ServerToolPart, ImagePart)
        check_parts(self.provider, message.parts, kinds, "an assistant message takes text, thinking and tool calls")
        thought: _Item | None = None
        lost = False  # the last thought cannot go back
        phase: dict[str, str] = {}
        for part in (part for part in message.parts if isinstance(part, kinds)):
            if (sent := self._as_it_came(part)) is not None:
                if not sent:
                    continue  # an image of code, which is in the item before it
                # The service looks for the thought that led to an item, by the id of the item.
                if not lost:
                    yield from () if thought is None else (thought,)
                    yield sent
                thought = None
            elif isinstance(part, ThinkingPart):
                item = _own(part)
                if item.get("type") == "message":
                    phase = {"phase": item["phase"]}
                else:
                    # A thought followed by another one led to an item that is not sent, such as a search.
                    thought = _named(item) if _can_go_back(item) else None
                    lost = thought is None
            elif isinstance(part, ToolCallPart) or (isinstance(part, TextPart) and part.text):
                if thought is not None:
                    yield thought
                yield self._call(part) if isinstance(part, ToolCallPart) else _text_item(part, phase)
                thought, phase = None, {}

    def _as_it_came(self, part: Part) -> _Item | None:
        """Return the item of a part that goes back unchanged; None if the part is sent in another form."""
        match part:
            case ServerToolPart():
                return dict(part.raw or {})
            case ImagePart():
                return self._image(part)
            case ThinkingPart() if _own(part).get("type", "reasoning") not in ("message", "reasoning"):
                return dict(_own(part))
            case _:
                return None

    def _image(self, part: ImagePart) -> _Item:
        """Return the item of an image that the service generated, as it was; empty if it is in another item."""
        opaque = part.opaque or {}
        if opaque.get("provider") != self.provider or "responses" not in opaque:
            raise unsupported_part(self.provider, part, "in an assistant message: send it in a user message")
        item: _Item = opaque["responses"]
        return {**item, "result": base64_of(part)} if item else {}

    def _call(self, call: ToolCallPart) -> _Item:
        item = _own(call)
        # Exactly what was approved goes back. Where the arguments were changed, such as by a redaction, the item is not
        # sent, and what is sent in its place cannot be approved.
        if item.get("type") == "mcp_approval_request" and self._approves and is_reviewable(call):
            return item
        if item.get("type") == "custom_tool_call":
            name = legal_name(call.name)
            return {"type": "custom_tool_call", "call_id": _id(call.id), "name": name, "input": call.arguments}
        arguments = valid_arguments(call)
        about: _Item = {name: item[name] for name in ABOUT_CALLS if name in item}
        name = legal_name(call.name)
        return {"type": "function_call", "call_id": _id(call.id), "name": name, "arguments": arguments, **about}


_STORES: Mapping[str, frozenset[str]] = {
    "responses": frozenset(("store", "previous_response_id")),
    "conversations": frozenset(("conversation",)),
    "background": frozenset(("background",)),
}

# The types of parts that can be marked; that of text first.
_PARTS = ("input_text", "input_image", "input_file")

# The kinds of calls whose results are texts, and that may be without one.
_TEXT_CALLS = ("function_call", "custom_tool_call")

# What a tool found is in its item if it is requested.
_RESULTS = {
    "web_search": "web_search_call.action.sources",
    "code_execution": "code_interpreter_call.outputs",
    "file_search": "file_search_call.results",
}


def _text_item(part: TextPart, phase: Mapping[str, str]) -> _Item:
    content = [{"type": "output_text", "text": part.text}]
    return {"type": "message", "role": "assistant", "content": content, **phase}


_APPROVAL_ID = "mcpr_"
"""The start of the ids of `mcp_approval_request`s."""


def _decision(result: ToolResultPart) -> _Item:
    """Return the item that approves or denies a call of a remote MCP server.

    Only the result of `waits_for_approval` calls that were approved approves; anything else denies.
    """
    about = {"type": "mcp_approval_response", "approval_request_id": result.call_id}
    if result.content == APPROVED and not result.is_error:
        return {**about, "approve": True}
    return {**about, "approve": False, "reason": result.content}


def _name_outputs(items: list[_Item]) -> list[_Item]:
    """Return `items` with results of the kinds of their calls, and without calls of unknown kinds that have no result.

    The service refuses such calls. Decisions on calls that are not sent as they came are usual results.
    """
    calls = {item["call_id"]: item for item in items if _kind(item).endswith("_call") and item.get("call_id")}
    for place, item in enumerate(items):
        if _kind(item) == "mcp_approval_response" and (id := item["approval_request_id"]) in calls:
            items[place] = {"type": "function_call_output", "call_id": id, "output": item.get("reason", "Not run.")}
        elif _kind(item) == "function_call_output" and (call := calls.get(item["call_id"])) is not None:
            item["type"] = f"{_kind(call)}_output"
            if _kind(call) not in _TEXT_CALLS:
                item["output"] = json_or_text(item["output"])
            if "caller" in call:
                item["caller"] = call["caller"]
    answered = {item.get("call_id") for item in items if _kind(item).endswith("_output")}
    open = [call for id, call in calls.items() if id not in answered and _kind(call) not in _TEXT_CALLS]
    return _without(items, open) if open else items


def _since_compaction(items: list[_Item]) -> list[_Item]:
    """Return `items` from the last compaction on, which stands for all before it but system messages and open calls.

    Source: developers.openai.com/api/docs/guides/compaction.
    """
    at = max((place for place, item in enumerate(items) if _kind(item) == "compaction"), default=0)
    if not at:
        return items
    open = {item.get("call_id") for item in items[at:] if _kind(item).endswith("_output")}
    kept = (item for item in items[:at] if item.get("role") == "system" or item.get("call_id") in open)
    return [*kept, *items[at:]]


def _without(items: list[_Item], left_out: list[_Item]) -> list[_Item]:
    """Return `items` without those of `left_out`, and without the thoughts that led to them alone."""
    kept: list[_Item] = []
    thought: _Item | None = None
    for item in items:
        if any(item is each for each in left_out):
            continue
        follows = item.get("role", "assistant") == "assistant" and not _kind(item).endswith(("_output", "reasoning"))
        if thought is not None and follows:
            kept.append(thought)
        thought = item if _kind(item) == "reasoning" else None
        if thought is None:
            kept.append(item)
    return kept


def _kind(item: _Item) -> str:
    return str(item.get("type") or "")


def _own(part: ThinkingPart | ToolCallPart) -> _Item:
    """Return the data of this protocol in a part; empty for a part of another protocol."""
    return (part.opaque or {}).get("responses") or {}


def _can_go_back(item: _Item) -> bool:
    """Return True if a thought contains more than its summary: the service did not store it, and cannot look it up."""
    return item.get("type") == "reasoning" and bool(item.get("encrypted_content") or item.get("content"))


def _named(item: _Item) -> _Item:
    """Return `item` without an empty id: some services send one, and all reject it."""
    return item if item.get("id", "-") else {name: value for name, value in item.items() if name != "id"}


def _id(id: str) -> str:
    return legal_name(id) if len(id) > 64 else id
