"""Tool calls in the JSON text of a response, for models whose text is constrained to a schema instead of to a tool.

A provider takes the schema of the calls (`response_schema`), or the prompt describes it (`instructions`), and the text
of the response is the call. Three formats: the arguments of the only tool; `{"name", "arguments"}` for one of several
tools; `{"calls": [...]}` of either for several calls. The text is parsed incrementally and the raw text of each
`arguments` is emitted at once, as if the provider had streamed a tool call. Text that does not begin with `{` stays
text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_core import from_json

from ...errors import BadRequest, LLMError, MalformedEvent
from ...events import (
    Event,
    Finish,
    RawEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
)
from ...lazy.lazy_dataclasses import dataclass
from ...messages import CachePoint, Message, TextPart
from ...parsing.json_stream import ARRAY, CLOSE, GROW, KEY, OBJECT, STRING_END, Change, JSONStream, JSONStreamError
from ...values.tool_spec import NamedTool, ToolSpec
from ..base import RequestInput, RequestOptions, ResponseDecoder


@dataclass(frozen=True, slots=True)
class CallFormat:
    """The format of a response that contains tool calls as JSON text.

    Args:
        parallel: There may be several calls.
        forced: There must be a call; otherwise the response may be plain text.
        listed: The calls are in a list, although there may be only one. (Several always are.)
    """

    tools: tuple[ToolSpec, ...]
    parallel: bool = False
    forced: bool = True
    listed: bool = False

    @property
    def only(self) -> ToolSpec | None:
        """The only tool that can and must be called, so that its calls need no name; None if there is a choice."""
        return self.tools[0] if len(self.tools) == 1 and self.forced else None

    @property
    def is_bare(self) -> bool:
        """True if the response is the arguments of the only tool and nothing else."""
        return self.only is not None and not self.is_list

    @property
    def is_list(self) -> bool:
        """True if the response is `{"calls": [...]}`."""
        return self.parallel or self.listed


def call_format(request_input: RequestInput | RequestOptions) -> CallFormat | None:
    """Return the format for the tool choice of a request; None if no tool may be called.

    Raises:
        BadRequest: The tool choice names a tool that is not offered.
    """
    choice = request_input.tool_choice
    name = _named(choice)
    tools = request_input.tools[-request_input.answers :] if request_input.answer_now else request_input.tools
    if name is not None:
        tools = tuple(tool for tool in tools if tool.name == name)
        if not tools:
            offered = [tool.name for tool in request_input.tools]
            raise BadRequest(f"tool_choice names {name!r}, which is not among the tools: {offered}")
        return CallFormat(tools, request_input.parallel)
    if choice in ("required", "any"):
        if not tools:
            raise BadRequest(f"tool_choice={choice!r} needs tools")
        return CallFormat(tools, request_input.parallel)
    if choice not in (None, "auto", "none"):
        raise BadRequest(f"tool_choice={choice!r} is not understood here; use a tool's name")
    return CallFormat(tools, request_input.parallel, forced=False) if tools and choice != "none" else None


def _named(choice: object) -> str | None:
    if isinstance(choice, NamedTool):
        return choice.name
    if isinstance(choice, str):
        return None if choice in ("auto", "required", "any", "none") else choice
    if isinstance(choice, Mapping):
        found = cast("Mapping[str, Any]", choice)
        name = (found.get("function") or found).get("name")
        return name if isinstance(name, str) else None
    return None


def with_object_root(form: CallFormat) -> CallFormat:
    """Return the same format with an object at the root, for providers that reject a union there."""
    return replace(form, listed=True) if len(form.tools) > 1 else form


def schema_call_format(options: RequestInput | RequestOptions) -> CallFormat | None:
    """Return the format of a response that the provider constrains to a schema; None in other modes.

    None also if no call is required.
    """
    form = call_format(options) if options.mode == "json_schema" else None
    return with_object_root(form) if form is not None and form.forced else None


def answer_format(options: RequestInput | RequestOptions) -> CallFormat | None:
    """Return the format of a constrained answer beside tools that are called natively; else `schema_call_format`."""
    form = schema_call_format(options)
    return with_object_root(CallFormat(options.tools[-options.answers :])) if form and options.answers else form


def described(form: CallFormat) -> CallFormat:
    """Return the same format with the descriptions of the tools in their schemas."""
    tools = [replace(tool, parameters={"description": tool.description, **tool.parameters}) for tool in form.tools]
    return replace(form, tools=tuple(tools))


def response_schema(form: CallFormat) -> dict[str, Any]:
    """Return the JSON schema of a required response. `$defs` are at the root, prefixed by the number of their tool."""
    if form.is_bare:
        return dict(form.tools[0].parameters)
    definitions: dict[str, Any] = {}
    calls: list[Any] = []
    for number, tool in enumerate(form.tools):
        parameters = _renamed(tool.parameters, f"{number}.")
        definitions.update({f"{number}.{name}": body for name, body in parameters.pop("$defs", {}).items()})
        named = _object({"name": {"const": tool.name}, "arguments": parameters})
        calls.append(named if form.only is None else parameters)
    whole = calls[0] if len(calls) == 1 else {"anyOf": calls}
    if form.is_list:
        most = {} if form.parallel else {"maxItems": 1}
        whole = _object({"calls": {"type": "array", "items": whole, "minItems": 1, **most}})
    return {**whole, "$defs": definitions} if definitions else whole


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _renamed(schema: Any, prefix: str) -> Any:
    if isinstance(schema, Mapping):
        found = cast("Mapping[str, Any]", schema)
        copy = {key: _renamed(value, prefix) for key, value in found.items()}
        if isinstance(ref := copy.get("$ref"), str):
            copy["$ref"] = ref.replace("#/$defs/", f"#/$defs/{prefix}", 1)
        return copy
    if isinstance(schema, list):
        return [_renamed(value, prefix) for value in cast("list[object]", schema)]
    return schema


def instructions(form: CallFormat) -> str:
    """Return the description of the tools and of the schema for the prompt: the model itself may not see the schema."""
    descriptions = "\n".join(f"{tool.name}: {tool.description}" for tool in form.tools)
    schema = json.dumps(response_schema(form), ensure_ascii=False)
    return f"{descriptions}\n\nAnswer with JSON that follows this JSON Schema: {schema}"


def with_instructions(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """Return `messages` with `text` appended to the system message."""
    first = messages[0] if messages and messages[0].role == "system" else None
    if first is not None and any(isinstance(part, CachePoint) for part in first.parts):
        return (Message("system", (*first.parts, TextPart(f"\n\n{text}"))), *messages[1:])
    text = text if first is None else f"{first.text}\n\n{text}"
    return (Message("system", (TextPart(text),)), *(messages[1:] if first else messages))


class JSONTextDecoder:
    """A decoder that reads the text of another decoder's events as tool calls."""

    def __init__(self, inner: ResponseDecoder, calls: JSONTextCalls, *, accept_damaged: bool = False) -> None:
        self._inner = inner
        self._read = JSONTextFilter(calls, accept_damaged=accept_damaged)

    @property
    def failed(self) -> bool:
        """True if `close` will raise."""
        return self._read.failure is not None or self._inner.failed

    @property
    def model(self) -> str | None:
        """The model that the response names, once it has."""
        return self._inner.model

    @property
    def open_call(self) -> str | None:
        """The id of the open call, if the text of the response is its arguments and nothing else."""
        return self._read.open_call if self._inner.open_call is None else None

    def more_text(self, data: bytes) -> str | None:
        """Return the text of an event that differs from the last one in its text alone; None for any other data."""
        text = self._inner.more_text(data)
        if text is not None:
            self._read.add(text)
        return text

    def expect_body(self) -> None:
        """Read another body from now on, in which the response goes on."""
        self._inner.expect_body()

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes."""
        return self._read.of(self._inner.feed(data))

    def close(self) -> list[Event]:
        """Return the last events. Raise `MalformedEvent` if a damaged event may have contained a part of a call."""
        out = self._read.of(self._inner.close())
        if self._read.failure is not None:
            raise self._read.failure
        return out


class JSONTextFilter:
    """A filter of events that replaces JSON text by the tool calls in it.

    Attributes:
        failure: The exception to raise at the end, because the response as a whole is invalid.
    """

    def __init__(self, calls: JSONTextCalls, *, accept_damaged: bool = False) -> None:
        self._calls = calls
        self._accept_damaged = accept_damaged
        self._damaged = False
        self._renamed: dict[str, str] = {}  # native tool calls whose id a call in the text has
        self.failure: LLMError | None = None

    @property
    def open_call(self) -> str | None:
        """The id of the call whose arguments all further text is; None if the text must be parsed."""
        return self._calls.open_call

    def add(self, text: str) -> None:
        """Add text to the arguments of `open_call`."""
        self._calls.add(text)

    def of(self, events: list[Event]) -> list[Event]:
        """Return the events, with text that is a tool call replaced by the call."""
        out: list[Event] = []
        for event in events:
            match event:
                case TextDelta(text):
                    out += self._calls.feed(text)
                case RawEvent(str(data), damaged=True, repeated=False):
                    if data.lstrip().startswith("{") and not (self._damaged or self._accept_damaged):
                        self._damaged = not self._calls.is_complete
                    out.append(event)
                case Finish():
                    self._finish(event, out)
                case ToolCallStart() | ToolCallDelta() | ToolCallReset() | ToolCallDone():
                    out.append(self._with_own_id(event))
                case _:
                    out.append(event)
        return out

    def _with_own_id(
        self, event: ToolCallStart | ToolCallDelta | ToolCallReset | ToolCallDone
    ) -> ToolCallStart | ToolCallDelta | ToolCallReset | ToolCallDone:
        """Return an event of a native tool call, with an id that no call in the text has."""
        if type(event) is ToolCallStart:
            id, number = event.id, 1
            while id in self._calls.ids:
                number += 1
                id = f"{event.id}_{number}"
            self._calls.ids.add(id)
            self._renamed[event.id] = id
        own = self._renamed.get(event.id, event.id)
        return event if own == event.id else replace(event, id=own)

    def _finish(self, event: Finish, out: list[Event]) -> None:
        if self._damaged:
            # Raised at the end: the events before it have not been returned yet.
            self.failure = MalformedEvent(
                "an event in the middle of the response could not be read, so the arguments may lack a piece. "
                "Send the request again."
            )
            return
        out += self._calls.finish(cut=event.stop_reason == "max_tokens")
        called = self._calls.count and event.stop_reason in ("end_turn", "stop_sequence", "other")
        out.append(replace(event, stop_reason="tool_use") if called else event)


class JSONTextCalls:
    """A parser of the tool calls in the text of one response, cut anywhere.

    Args:
        before: The number of earlier calls in the messages; generated ids continue from it.
    """

    def __init__(self, form: CallFormat, before: int = 0) -> None:
        self._form = form
        self._before = before
        self.count: int = 0
        """The number of calls begun."""
        self.ids: set[str] = set()
        """The ids of all calls of the response, native tool calls included."""
        self._id = ""
        self._blank: str = ""
        self._is_text = False
        self._reading: _Calls | None = None
        self._bare: list[str] = []

    @property
    def open_call(self) -> str | None:
        """The id of the call whose arguments all further text is; None if the text must be parsed."""
        return self._id if self._bare else None

    def add(self, text: str) -> None:
        """Add text to the arguments of `open_call`."""
        self._bare.append(text)

    def feed(self, text: str) -> list[Event]:
        """Return the events that `text` completes."""
        out: list[Event] = []
        if not (self._is_text or self._bare or self._reading):
            text = self._begin(text, out)
        if not text:
            return out
        if self._is_text:
            out.append(TextDelta(text))
        elif self._reading is not None:
            self._reading.feed(text, out)
        else:
            self._bare.append(text)
            out.append(ToolCallDelta(self._id, text))
        return out

    def finish(self, *, cut: bool = False) -> list[Event]:
        """Return the last events. `cut`: the model was stopped by a limit, so the last call may be incomplete."""
        out: list[Event] = []
        if self._bare:
            arguments = "".join(self._bare)
            name = self._form.tools[0].name
            out.append(ToolCallDone(self._id, name, arguments, cut and not _is_whole(arguments)))
        elif self._reading is not None:
            self._reading.finish(out, cut=cut)
        elif self._blank:
            out.append(TextDelta(self._blank))
        return out

    @property
    def is_complete(self) -> bool:
        """True if the last call has ended, as far as the text shows."""
        if self._reading is not None:
            return self._reading.is_complete
        return bool(self._bare) and _is_whole("".join(self._bare))

    def is_call(self, name: str) -> bool:
        """Return True if an object with this name is a call, even without arguments.

        Outside of a list the name may be a field: of a model that wrote the arguments without the call around them.
        """
        return self._form.is_list or any(tool.name == name for tool in self._form.tools)

    def started(self, name: str, out: list[Event]) -> str:
        """Announce a call and return its id."""
        self.count += 1
        number = self._before + self.count
        while (id := f"call_{number}") in self.ids:
            number += 1
        self._id = id
        self.ids.add(id)
        out.append(ToolCallStart(id, name))
        return id

    def _begin(self, text: str, out: list[Event]) -> str:
        """Return the rest of `text` after its first character has decided the format."""
        text = self._blank + text
        start = text.lstrip()
        self._blank = "" if start else text
        if not start:
            return ""
        if start[0] != "{":
            self._is_text = True
            return text
        if self._form.is_bare:
            self.started(self._form.tools[0].name, out)
        else:
            only = self._form.only
            self._reading = _Calls(self, 3 if self._form.is_list else 1, only.name if only else None)
        return start


def _is_whole(text: str) -> bool:
    stream = JSONStream()
    try:
        stream.feed(text)
        stream.close()
    except JSONStreamError:
        return False
    return True


class _Calls:
    """A reader of the objects at one depth of the text: with `name` and `arguments`, or the arguments of `only`."""

    def __init__(self, owner: JSONTextCalls, depth: int, only: str | None) -> None:
        self._owner = owner
        self._before = owner.count
        self._stream = JSONStream()
        self._depth = depth
        self._only = only
        self._arguments_depth = depth if only else depth + 1
        self._now = 0
        self._key = ""
        self._offset = 0
        self._whole: list[str] = []
        self._broken = False
        self._call = _Call()

    @property
    def is_complete(self) -> bool:
        return self._stream.done and not self._broken

    def feed(self, text: str, out: list[Event]) -> None:
        self._whole.append(text)
        if self._broken:
            return
        begin, self._offset = self._offset, self._offset + len(text)
        try:
            changes = self._stream.feed(text)
        except JSONStreamError:
            self._broken = True
            return
        unsent = begin
        for change in changes:
            unsent = self._change(change, text, begin, unsent, out)
        if self._call.open:
            self._grow(text[unsent - begin :], out)

    def finish(self, out: list[Event], *, cut: bool) -> None:
        if self._call.id:
            if self._broken and not cut:
                self._read_leniently(out)
            self._done(out, truncated=cut and not self._call.closed)
        elif self._owner.count == self._before:
            out.append(TextDelta("".join(self._whole)))

    def _read_leniently(self, out: list[Event]) -> None:
        """Replace the arguments, which end where the text is not JSON, by those of the one call in the whole."""
        from ...parsing.lenient_json import parse_lenient  # it compiles 14 patterns

        found: list[Any] = [from_json(each.text) for each in parse_lenient("".join(self._whole))]
        calls = [cast("dict[str, Any]", call) for call in found if isinstance(call, dict)]
        written = [call.get("arguments") for call in calls if call.get("name") == self._call.name]
        if len(written) == 1 and (arguments := written[0]) is not None:
            out.append(ToolCallReset(self._call.id))
            self._call.pieces = []
            self._grow(arguments if isinstance(arguments, str) else json.dumps(arguments), out)

    def _change(self, change: Change, text: str, begin: int, unsent: int, out: list[Event]) -> int:
        """Apply one change. Return the offset of the first character of the arguments that is not emitted yet."""
        kind = change[0]
        if kind in (OBJECT, ARRAY):
            self._now += 1
            if self._now == self._arguments_depth and (self._only or self._key == "arguments"):
                self._call.open = True
                if self._only:
                    self._call.id, self._call.name = self._owner.started(self._only, out), self._only
                return int(change[1])
        elif kind == CLOSE:
            if self._now == self._arguments_depth and self._call.open:
                self._grow(text[unsent - begin : change[1] - begin], out)
                self._call.open, self._call.closed = False, True
            if self._now == self._depth and self._call.id:
                self._done(out)
            self._now -= 1
        elif self._now == self._depth and not self._only:
            self._member(change, out)
        return unsent

    def _member(self, change: Change, out: list[Event]) -> None:
        kind = change[0]
        if kind == KEY:
            self._key = change[1]
            if self._key == "arguments":
                self._call.has_arguments = True
                self._start(out)
        elif kind == GROW and self._key == "name":
            self._call.name += change[1]
        elif kind == GROW and self._key == "arguments":
            self._grow(change[1], out)  # an object written as a string: its text is the arguments
        elif kind == STRING_END and self._key == "name":
            self._call.named = True
            self._start(out)
        elif kind == STRING_END and self._key == "arguments":
            self._call.closed = True

    def _start(self, out: list[Event]) -> None:
        call = self._call
        if call.id or not call.named or not (call.has_arguments or self._owner.is_call(call.name)):
            return
        call.id = self._owner.started(call.name, out)
        waiting, call.pieces = call.pieces, []
        self._grow("".join(waiting), out)

    def _grow(self, text: str, out: list[Event]) -> None:
        if not text:
            return
        self._call.pieces.append(text)
        if self._call.id:
            out.append(ToolCallDelta(self._call.id, text))

    def _done(self, out: list[Event], *, truncated: bool = False) -> None:
        call = self._call
        out.append(ToolCallDone(call.id, call.name, "".join(call.pieces) or "{}", truncated))
        self._call = _Call()
        self._key = ""


class _Call:
    """The call that is being read. `id` is empty until the call is announced; text before that waits in `pieces`."""

    __slots__ = ("closed", "has_arguments", "id", "name", "named", "open", "pieces")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.named = False
        self.has_arguments = False
        self.pieces: list[str] = []
        self.open = False
        self.closed = False
