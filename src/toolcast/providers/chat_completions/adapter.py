"""The chat-completions protocol of OpenAI and of most other providers: messages to requests.

The differences between services are in the `ServiceSpec` row; no service is named in this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import BadRequest
from ...messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from ...values.credentials import SecretURL
from ...values.http_request import HTTPRequest, build_request
from ...values.settings import Settings
from ...values.tool_spec import ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..content_parts import (
    base64_of,
    check_parts,
    check_section,
    count_system_messages,
    data_url,
    has_cache_point,
    point_block,
    result_text,
    uncited,
    unsupported_part,
    valid_arguments,
)
from ..http_adapter import check_header, json_body, thinking_budget, thinking_effort
from ..http_errors import ErrorSource
from ..tool_calls.json_calls import CallFormat, instructions, response_schema, schema_call_format, with_instructions
from .decoder import OpenAIChatDecoder
from .openai_base import OpenAIBaseAdapter, OpenAIBaseEncoder, family_behind
from .services import ServiceSpec

if TYPE_CHECKING:
    from ..file_codec import Exchange


class OpenAIChatAdapter(OpenAIBaseAdapter):
    """An adapter for the chat-completions API of one service."""

    path: ClassVar[str] = "/chat/completions"

    def count_tokens(self, request_input: RequestInput, settings: Settings) -> Exchange[int] | None:
        """Return the requests that count the input tokens of a request; None if the service does not count them.

        OpenAI's own endpoint takes requests of the Responses API alone: `OpenAIResponsesAdapter` has it.
        """
        if self._service.counts not in ("vllm", "llama.cpp"):
            return None
        from ..token_counters import count_by_llama_cpp, count_by_vllm

        count = count_by_vllm if self._service.counts == "vllm" else count_by_llama_cpp
        return count(self.request(request_input, settings), self._post_beside)

    def _post_beside(self, path: str, body: Mapping[str, Any]) -> HTTPRequest:
        """Return a request to a path of the server, which is not below that of OpenAI's API."""
        root, mark, query = self.service_root.partition("?")
        url = SecretURL(f"{root.rstrip('/').removesuffix('/v1')}{path}{mark}{query}")
        return build_request("POST", url, self.headers(stream=False), json_body(body))

    def encoder(self, options: RequestOptions, settings: Settings) -> ChatRequestEncoder:
        """Return the encoder of requests with these options and settings."""
        return ChatRequestEncoder(self._service, options, settings)

    def protocol_decoder(self, source: ErrorSource, request_input: RequestInput) -> ResponseDecoder:
        """Return the decoder of the protocol's events."""
        return OpenAIChatDecoder(source, request_input, think_tags=self._service.think_tags)


class ChatRequestEncoder(OpenAIBaseEncoder):
    """The part of a chat-completions request that does not depend on its messages."""

    takes_server_tools: ClassVar[bool] = True

    def __init__(self, service: ServiceSpec, options: RequestOptions, settings: Settings) -> None:
        super().__init__(service, options, settings)
        self.fields.update({"model": options.model, "messages": [], "stream": options.stream, **service.fields})
        if options.stream and service.stream_options:
            self.fields["stream_options"] = {"include_usage": True}
        if "chat" in service.stores:
            self.stores: frozenset[str] = frozenset(("store",))
            if settings.store is not None:
                self.fields["store"] = settings.store
        if "chat" in self._left_out:
            raise BadRequest("this model has no chat completions: leave api='chat' out")
        self._instructions: str | None = None
        self._run = len(options.server_tools)
        form = schema_call_format(options)
        if form is None:
            if options.tools and "tools" in self._left_out:
                raise BadRequest(
                    "this model takes no tools in chat completions while it thinks: leave api='chat' out, or for typed "
                    "output alone pass mode='json_schema'"
                )
            self._tools(options, bool(settings.thinking))
        else:
            self._answer(form)
        if options.server_tools:
            self._run_by_service(options)
        if options.stream and "tools" in self.fields:
            more = service.stream_fields.items()
            self.fields.update({name: value for name, value in more if name not in self._left_out})
        self._settings(settings)
        self._outputs(options, settings)

    def encode_messages(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the messages, encoded."""
        messages = messages if self._instructions is None else with_instructions(messages, self._instructions)
        encoded: dict[str, Any] = {"messages": self._messages(messages)}
        if self._marks is not None and (self._points or self._marks_alone or has_cache_point(messages)):
            self._mark(encoded, "messages", _PARTS, self._run)
        return encoded

    def _answer(self, form: CallFormat) -> None:
        """Constrain the text of the response to a schema."""
        if self._service.response_format == "json_object":  # such services ignore the schema
            self.fields["response_format"] = {"type": "json_object"}
            self._instructions = instructions(form)
            return
        name = "_".join(self.names.sent[tool.name] for tool in form.tools)
        schema, strict = self._strict(name, response_schema(form))
        named = {"name": legal_name(name), **({"strict": True} if strict else {}), "schema": schema}
        self.fields["response_format"] = {"type": "json_schema", "json_schema": named}

    # -- tools and settings

    def _run_by_service(self, options: RequestOptions) -> None:
        """Add the tools that the service runs."""
        protocol = self._service.server_tools or self._service.name
        family = family_behind(self._service, options.model)
        if family is not None and family.has("compound"):
            from ..server_tool_forms import groq_compound

            if options.tools:
                raise BadRequest(f"{options.model} takes no tools but its own: leave out {options.tools[0].name}")
            self.fields.update(groq_compound(self.provider, options.server_tools))
        elif protocol != "groq" or (family is not None and family.has("runs_tools")):
            self.fields["tools"] = [*self.fields.get("tools", ()), *self.server_tools(options, protocol)]
        else:
            raise BadRequest(
                f"{self.provider} runs tools for gpt-oss and compound models, not for {options.model}: leave "
                f"{options.server_tools[0].label} out of tools="
            )

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        parameters, strict = self._strict(tool.name, tool.parameters)
        function = {"name": self.names.sent[tool.name], "description": tool.description, "parameters": parameters}
        return {"type": "function", "function": function | ({"strict": True} if strict else {})}

    def _forcing(self, name: str) -> Any:
        return {"type": "function", "function": {"name": name}}

    def _settings(self, settings: Settings) -> None:
        wanted = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "stop": None if settings.stop is None else list(settings.stop)[: self._service.most_stops],
            "seed": settings.seed,
        }
        for name, value in wanted.items():
            if value is not None and name in self._left_out:
                self.notes.append(name)
            elif value is not None:
                self.fields[name] = value
        if "stop" in self.fields and len(self.fields["stop"]) < len(settings.stop or ()):
            self.notes.append(f"more than {self._service.most_stops} stop sequences")
        if settings.max_tokens is not None:
            self.fields[self._service.max_tokens_field] = settings.max_tokens
        if (alternatives := self._alternatives(settings)) is not None:
            self.fields.update({"logprobs": True, **({"top_logprobs": alternatives} if alternatives else {})})
        self._service_settings(settings)
        if (header := self._service.cache_key_header) and "prompt_cache_key" in self.fields:
            self.headers[header] = self.fields.pop("prompt_cache_key")
            check_header(header, self.headers[header])
        self._think(settings.thinking)

    def _think(self, given: bool | str | int | None) -> None:
        thinking = given
        if thinking is None and not self._service.forced_while_thinking and self._forces:
            thinking = False
        if thinking is None:
            return
        if self._service.thinking_in is None or "thinking" in self._left_out:
            self.notes.append("thinking")
            return
        if thinking is given and self._effort not in (None, thinking_effort(thinking)):
            self._note_effort(thinking)
            thinking = self._effort
        self.fields.update(_THINKING[self._service.thinking_in](thinking))
        if self._service.thinking_in == "thinking" and self._has_efforts and thinking and given is not True:
            self.fields["reasoning_effort"] = self._effort

    def _outputs(self, options: RequestOptions, settings: Settings) -> None:
        """Add the settings for recordings and images.

        Sources: developers.openai.com/api/docs/guides/audio, openrouter.ai/docs/features/multimodal/image-generation.
        """
        kinds = self._service.outputs
        found = frozenset(("text", *kinds))
        self.outputs: frozenset[str] = found | {name for kind in kinds for name in _OUTPUT_SETTINGS[kind]}
        if settings.modalities is None or not found.issuperset(settings.modalities):
            return  # one that the service does not have is an error
        self.fields["modalities"] = list(settings.modalities)
        if "audio" in settings.modalities:
            format = settings.audio_format or ("pcm16" if options.stream else "wav")
            if options.stream and format != "pcm16":
                raise BadRequest(
                    f"{self.provider} streams audio as pcm16 alone, not as audio_format={format!r}: leave it out, or "
                    "use chat() instead of stream_chat()"
                )
            self.fields["audio"] = {"voice": settings.voice or "alloy", "format": format}
        named = {"aspect_ratio": settings.aspect_ratio, "image_size": settings.image_size}
        if "image" in kinds and (image := {name: value for name, value in named.items() if value is not None}):
            self.fields["image_config"] = image

    @property
    def _forces(self) -> bool:
        """True if the model must call a tool."""
        return self.fields.get("tool_choice") not in (None, "auto", "none")

    # -- messages

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        rest = list(messages)
        if self._service.one_system:
            start = count_system_messages(rest)
            if start > 1:
                merged = "\n\n".join(message.text for message in rest[:start])
                rest[:start] = [Message("system", (TextPart(merged),))]
            # A later system message becomes a user message: the service has no other place for it.
            rest[1:] = [_by_user(message) if message.role == "system" else message for message in rest[1:]]
        return [sent for message in rest for sent in self._message(message)]

    def _message(self, message: Message) -> list[dict[str, Any]]:
        points: list[CachePoint] = []
        for part in message.parts:  # without a comprehension, which is a call for each message
            if type(part) is CachePoint:
                points.append(part)
        if points and (message.role in ("assistant", "tool") or len(points) == len(message.parts)):
            # They are taken out again, with their place (cache_marks.py).
            rest = tuple([part for part in message.parts if type(part) is not CachePoint])
            return [*(self._message(Message(message.role, rest)) if rest else ()), *map(point_block, points)]
        if message.role == "assistant":
            return [self._assistant(message)]
        sent: list[dict[str, Any]] = []
        others: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                sent.append(self._result(part))
            else:
                others.append(part)
        if message.role == "tool":
            check_parts(self.provider, others, (), "a tool message takes only ToolResultPart")
        elif message.role == "system":
            check_parts(self.provider, others, (TextPart, CachePoint), "a system message takes only text")
            sent.append({"role": "system", "content": self._content(others) if points else message.text})
        elif others or not message.parts:
            sent.append({"role": "user", "content": self._content(others)})
        return sent

    def _part(self, part: Part) -> dict[str, Any]:
        match part:
            case TextPart():
                return {"type": "text", "text": part.text}
            case CachePoint():
                return point_block(part)
            case ImagePart() if part.url is None or self._service.image_urls or part.url.startswith("data:"):
                detail = {} if part.detail is None else {"detail": part.detail}
                return {"type": "image_url", "image_url": {"url": part.url or data_url(part), **detail}}
            case AudioPart() if self._service.audio and part.data is not None and _sound(part):
                return {"type": "input_audio", "input_audio": {"data": base64_of(part), "format": _sound(part)}}
            case DocumentPart() if self._service.documents and part.data is not None:
                file = {"filename": part.name or "document", "file_data": data_url(uncited(self.provider, part))}
                return {"type": "file", "file": file}
            case FileRef() if not (part.media_type or "").startswith(("image/", "audio/", "video/")):
                return {"type": "file", "file": {"file_id": part.id}}
            case VideoPart() if self._service.video and (
                part.url is None or self._service.image_urls or part.url.startswith("data:")
            ):
                check_section(self.provider, part, *self._service.video_options)
                rate = {} if part.fps is None else {"fps": part.fps}
                return {"type": "video_url", "video_url": {"url": part.url or data_url(part)}, **rate}
            case _:
                raise unsupported_part(self.provider, part)

    def _assistant(self, message: Message) -> dict[str, Any]:
        kinds = (TextPart, ThinkingPart, ToolCallPart, *([ImagePart] if "image" in self._service.outputs else []))
        others = [part for part in message.parts if not self._is_own_audio(part)]
        check_parts(self.provider, others, kinds, "an assistant message takes text, thinking and tool calls")
        calls = [self._call(call) for call in message.tool_calls]
        sent: dict[str, Any] = {"role": "assistant", "content": message.text or (None if calls else "")}
        if calls:
            sent["tool_calls"] = calls
        sent.update(self._thoughts(message))
        if message.images:
            sent["images"] = [{"type": "image_url", "image_url": {"url": _sent_url(image)}} for image in message.images]
        for recording in message.audio:
            sent["audio"] = {"id": _recorded(recording)["id"]}
            sent["content"] = message.text or None
        return sent

    def _is_own_audio(self, part: Part) -> bool:
        """Return True for a recording of the service, which is sent back by its id."""
        return isinstance(part, AudioPart) and _recorded(part).get("provider") == self.provider

    def _thoughts(self, message: Message) -> dict[str, Any]:
        back = self._service.thinking_back
        thoughts = [part for part in message.parts if isinstance(part, ThinkingPart)]
        if back == "reasoning_details":
            details = [d for part in thoughts for d in (part.opaque or {}).get("reasoning_details", ())]
            return {back: details} if details else {}
        text = "".join(part.text for part in thoughts)
        if back and self._requires_thoughts and (message.tool_calls or "tools" in self.fields):
            return {back: text or " "}  # another model's message has none, and "" counts as none
        # Only with tool calls: elsewhere some models refuse them.
        return {back: text} if back and text and message.tool_calls else {}

    @property
    def _requires_thoughts(self) -> bool:
        return self._service.thoughts_required and self.fields.get("thinking") != {"type": "disabled"}

    def _call(self, call: ToolCallPart) -> dict[str, Any]:
        arguments = valid_arguments(call)
        extra: Any = call.opaque.get("extra_content") if call.opaque and self._service.signed_calls else None
        return {
            "id": self._id(call.id),
            "type": "function",
            "function": {"name": legal_name(call.name), "arguments": arguments},
            **({"extra_content": extra} if extra else {}),
        }

    def _result(self, result: ToolResultPart) -> dict[str, Any]:
        if result.images:
            raise unsupported_part(self.provider, result.images[0], "in the result of a tool")
        return {"role": "tool", "tool_call_id": self._id(result.call_id), "content": result_text(result)}

    def _id(self, id: str) -> str:
        limit = self._service.id_limit
        return id if limit is None or len(id) <= limit else legal_name(id, limit)


# The types of parts that can be marked; that of text first.
_PARTS = ("text", "image_url", "input_audio", "file")
_OUTPUT_SETTINGS = {"audio": ("voice", "audio_format"), "image": ("aspect_ratio", "image_size")}


def _recorded(part: AudioPart) -> Mapping[str, Any]:
    """Return the id of a recording at the service that made it, and the name of that; empty for any other."""
    found: Mapping[str, Any] = (part.opaque or {}).get("audio") or {}
    return found if "id" in found else {}


def _sent_url(image: ImagePart) -> str:
    """Return the URL of an image of the model, as the service had it."""
    declared = (image.opaque or {}).get("media_type") or image.media_type
    return image.url or f"data:{declared};base64,{base64_of(image)}"


def _by_user(message: Message) -> Message:
    return Message("user", message.parts)


def _reasoning(thinking: bool | str | int) -> dict[str, Any]:
    tokens = thinking_budget(thinking)
    if tokens:
        return {"reasoning": {"max_tokens": tokens}}
    return {"reasoning": {"enabled": thinking} if isinstance(thinking, bool) else {"effort": thinking_effort(thinking)}}


def _enable_thinking(thinking: bool | str | int) -> dict[str, Any]:
    tokens = thinking_budget(thinking)
    return {"enable_thinking": bool(thinking), **({"thinking_budget": tokens} if tokens else {})}


def _template(thinking: bool | str | int) -> dict[str, Any]:
    kwargs: dict[str, Any] = {"enable_thinking": bool(thinking)}
    return {
        "chat_template_kwargs": kwargs,
        **({"reasoning_effort": thinking} if isinstance(thinking, str) else {}),
    }


_THINKING: dict[str, Callable[[bool | str | int], dict[str, Any]]] = {
    "effort": lambda thinking: {"reasoning_effort": thinking_effort(thinking)},
    "reasoning": _reasoning,
    "thinking": lambda thinking: {"thinking": {"type": "enabled" if thinking else "disabled"}},
    "adaptive": lambda thinking: {"thinking": {"type": "adaptive" if thinking else "disabled"}},
    "enable_thinking": _enable_thinking,
    "template": _template,
}


def _sound(part: AudioPart) -> str | None:
    return {"wav": "wav", "x-wav": "wav", "wave": "wav", "mpeg": "mp3", "mp3": "mp3"}.get(
        (part.media_type or "").partition("/")[2]
    )
