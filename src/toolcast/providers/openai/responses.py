"""OpenAI's Responses protocol: messages -> request. The answer is read by `openai_responses_decoder`.

What is said is a list of items: messages, thoughts, calls and their results stand side by side. Nothing is stored by
the service, so a model gets its own thoughts back as they came, each directly before what it led to; one that led to
nothing is left out, as the service refuses it. Calls and messages go back without the service's ids for them: those
name things that it did not store, or that another service made. A call and its result share the id of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from ...messages import DocumentPart, ImagePart, Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ...settings import Settings
from ...tool_spec import ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..chat_completions.openai_base import OpenAIBaseAdapter, OpenAIBaseEncoder
from ..chat_completions.services import ServiceSpec
from ..content_parts import cannot_take, data_url, only, result_text, system_messages, valid_arguments
from ..http_adapter import effort
from ..http_errors import ErrorSource
from ..tool_calls.json_text import Form, answer_schema, schema_form
from .responses_decoder import OpenAIResponsesDecoder

_Item: TypeAlias = dict[str, Any]


class OpenAIResponsesAdapter(OpenAIBaseAdapter):
    """The Responses wire of one service, at one address, with one key."""

    path: ClassVar[str] = "/responses"

    def frame(self, terms: RequestOptions, settings: Settings) -> ResponsesRequestEncoder:
        """What requests with these terms and settings have in common."""
        return ResponsesRequestEncoder(self._service, terms, settings)

    def answer(self, source: ErrorSource, conversation: RequestInput) -> ResponseDecoder:
        """What reads the protocol's own events."""
        return OpenAIResponsesDecoder(source, conversation)


class ResponsesRequestEncoder(OpenAIBaseEncoder):
    """One Responses request but for its messages."""

    fixed: ClassVar[tuple[str, ...]] = ("tool_choice", "text.format", "response_format")

    def __init__(self, service: ServiceSpec, terms: RequestOptions, settings: Settings) -> None:
        super().__init__(service, terms, settings)
        self.fields.update({"model": terms.model, "input": [], "stream": terms.stream, "store": False})
        if "include" not in self._left_out:
            self.fields["include"] = ["reasoning.encrypted_content"]
        form = schema_form(terms)
        if form is None:
            self._tools(terms, bool(settings.thinking))
        else:
            self._answer(form)
        self._settings(settings)

    def said(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The system messages at the start as `instructions`, all others as items of `input`."""
        start = system_messages(messages)
        for message in messages[:start]:
            self._system(message)
        items = [item for message in messages[start:] for item in self._message(message)]
        _name_outputs(items)
        told = "\n\n".join(message.text for message in messages[:start])
        return {"instructions": told, "input": items} if start else {"input": items}

    # -- tools and settings

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        schema, strict = self._strict(tool.name, tool.parameters)
        name = self.names.sent[tool.name]
        # Whether it is strict is always said: what is not said to be loose is taken to be.
        about = {"description": tool.description, "parameters": schema, "strict": strict}
        return {"type": "function", "name": name, **about}

    def _forcing(self, name: str) -> Any:
        return {"type": "function", "name": name}

    def _answer(self, form: Form) -> None:
        """Hold the text of the answer to a schema."""
        name = "_".join(self.names.sent[tool.name] for tool in form.tools)
        told = form.tools[0].description
        if len(form.tools) > 1:
            told = "\n".join(f"{tool.name}: {tool.description}" for tool in form.tools)
        schema, strict = self._strict(name, answer_schema(form))
        held = {"name": legal_name(name), "description": told, "schema": schema, "strict": strict}
        if self._service.schema_in_text:
            self.fields["text"] = {"format": {"type": "json_schema", **held}}
        else:
            self.fields["response_format"] = {"type": "json_schema", "json_schema": held}

    def _settings(self, settings: Settings) -> None:
        taken = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_output_tokens"}
        for name in ("temperature", "top_p", "top_k", "max_tokens", "stop", "seed"):
            value = getattr(settings, name)
            if value is not None and name in taken and name not in self._left_out:
                self.fields[taken[name]] = value
            elif value is not None:
                self.notes.append(name)
        if settings.thinking is None:
            return
        if self._service.thinking_in is None or "thinking" in self._left_out:
            self.notes.append("thinking")
        else:
            summary = {"summary": "auto"} if settings.thinking else {}
            self.fields["reasoning"] = {"effort": effort(settings.thinking), **summary}

    # -- messages

    def _message(self, message: Message) -> Iterator[_Item]:
        if message.role == "assistant":
            yield from self._assistant(message)
        elif message.role == "system":
            yield {"role": "system", "content": self._system(message)}
        else:
            yield from self._user(message)

    def _system(self, message: Message) -> str:
        only(self.provider, message.parts, (TextPart,), "a system message takes only text")
        return message.text

    def _user(self, message: Message) -> Iterator[_Item]:
        others: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                yield {"type": "function_call_output", "call_id": _id(part.call_id), "output": self._output(part)}
            else:
                others.append(part)
        if message.role == "tool":
            only(self.provider, others, (), "a tool message takes only ToolResultPart")
        elif others or not message.parts:
            yield {"role": "user", "content": self._content(others)}

    def _part(self, part: Part) -> dict[str, Any]:
        match part:
            case TextPart():
                return {"type": "input_text", "text": part.text}
            case ImagePart() if part.url is None or self._service.image_urls or part.url.startswith("data:"):
                detail = part.detail or "auto"
                return {"type": "input_image", "image_url": part.url or data_url(part), "detail": detail}
            case DocumentPart() if self._service.documents and part.data is None:
                return {"type": "input_file", "file_url": part.url}
            case DocumentPart() if self._service.documents:
                return {"type": "input_file", "filename": part.name or "document", "file_data": data_url(part)}
            case _:
                raise cannot_take(self.provider, part)

    def _output(self, result: ToolResultPart) -> Any:
        return self._content((TextPart(result_text(result)), *result.images))

    def _assistant(self, message: Message) -> Iterator[_Item]:
        kinds = (TextPart, ThinkingPart, ToolCallPart)
        only(self.provider, message.parts, kinds, "an assistant message takes text, thinking and tool calls")
        thought: _Item | None = None
        phase: dict[str, str] = {}
        for part in (part for part in message.parts if isinstance(part, kinds)):
            if isinstance(part, ThinkingPart):
                item = _own(part)
                if item.get("type") == "message":
                    phase = {"phase": item["phase"]}
                else:
                    # One that is followed by another led to a search, say, which does not go back.
                    thought = _named(item) if _can_go_back(item) else None
            elif isinstance(part, ToolCallPart) or part.text:
                if thought is not None:
                    yield thought
                yield self._call(part) if isinstance(part, ToolCallPart) else _spoken(part, phase)
                thought, phase = None, {}

    def _call(self, call: ToolCallPart) -> _Item:
        if _own(call).get("type") == "custom_tool_call":
            name = legal_name(call.name)
            return {"type": "custom_tool_call", "call_id": _id(call.id), "name": name, "input": call.arguments}
        arguments = valid_arguments(call) if self._service.valid_arguments else call.arguments
        return {"type": "function_call", "call_id": _id(call.id), "name": legal_name(call.name), "arguments": arguments}


def _spoken(part: TextPart, phase: Mapping[str, str]) -> _Item:
    content = [{"type": "output_text", "text": part.text}]
    return {"type": "message", "role": "assistant", "content": content, **phase}


def _name_outputs(items: list[_Item]) -> None:
    """Give the results of custom tools their own type."""
    custom = {item["call_id"] for item in items if item.get("type") == "custom_tool_call"}
    for item in items:
        if item.get("type") == "function_call_output" and item["call_id"] in custom:
            item["type"] = "custom_tool_call_output"


def _own(part: ThinkingPart | ToolCallPart) -> _Item:
    """What this protocol keeps in a thought; nothing where another wrote it."""
    return (part.opaque or {}).get("responses") or {}


def _can_go_back(item: _Item) -> bool:
    """Whether a thought holds more than its summary: the service did not store it, and cannot look it up."""
    return item.get("type") == "reasoning" and bool(item.get("encrypted_content") or item.get("content"))


def _named(item: _Item) -> _Item:
    """`item` without an id that is empty: some services give none, and all refuse it."""
    return item if item.get("id", "-") else {name: value for name, value in item.items() if name != "id"}


def _id(id: str) -> str:
    return legal_name(id) if len(id) > 64 else id
