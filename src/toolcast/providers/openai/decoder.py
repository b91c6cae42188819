"""The decoder of responses of OpenAI's Responses protocol.

A response is a list of items: messages, thoughts, calls, and others, which are passed on. An item is found by its id
or that of its call, else by its index, else it is the open one of its kind: some gateways give several items one index,
others give an item a new id in each event, and llama.cpp sends no index. An item that has begun never begins again.
Everything that is streamed is repeated as a whole, so items without deltas are read from the whole, and the whole
overrides the deltas. That also repairs damage: the deltas of items that were open when an event was damaged are not
emitted until the missing text arrives as a whole. A response ends with an event of its own; `[DONE]` is ignored.
"""

# pyright: reportPrivateUsage=false
# The tables of methods follow their class: in a class body, a compiled class has no methods yet.

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, ClassVar, Final, TypeAlias

from ...errors import EmptyResponse, MalformedEvent, StreamInterrupted
from ...events import (
    Event,
    ImageOutput,
    LogprobsDelta,
    RawEvent,
    ServerToolUse,
    StopReason,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from ...messages import ImagePart
from ...text.text_buffer import TextBuffer
from ...values.server_tools import RemoteMCP
from ...values.usage import Usage
from ..answer_detail_forms import token_logprobs
from ..base import RequestInput
from ..http_errors import ErrorSource, stream_error
from ..media_output import MediaBytes, image_of_url, media_type_of
from ..response_decoder import StreamDecoder, as_count, as_dict, as_list, as_str, json_or_text, without_encrypted
from ..sse import MEDIA_LIMIT
from ..tool_calls.by_id import OpenCalls
from ..tool_calls.by_index import is_json, unwrapped
from ..usage_detail_forms import details_of, openai_counts, reported_cost

_Part: TypeAlias = tuple[str, int]
"""A part of an item: its kind, and its index among those of its kind."""

_STOP: dict[str, StopReason] = {
    "max_output_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "content_filter",
    "in_progress": "pause",
}
# Events that repeat the content of others.
_SILENT = frozenset(
    (
        "response.content_part.added",
        "response.content_part.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.done",
        "response.reasoning_text.done",
        "keepalive",
    )
)


class _Item:
    """An item of the response.

    Attributes:
        waits: A delta may be lost, so the whole is needed.
        over: The whole has arrived.
        done: Its last event has arrived.
    """

    __slots__ = ("call_id", "cited", "done", "kind", "over", "parts", "place", "waits")

    def __init__(self, kind: str, waits: bool, call_id: str, place: int | None) -> None:
        self.kind = kind
        self.call_id = call_id
        self.place = place
        self.waits = waits
        self.over = False
        self.done = False
        self.parts: dict[_Part, TextBuffer] = {}
        self.cited: set[tuple[int, int]] = set()  # the annotations that were emitted: the places of text and annotation

    def is_other_call(self, call_id: str) -> bool:
        """Return True if this item is a call with another id than `call_id`, where both have one."""
        return bool(call_id and self.call_id) and call_id != self.call_id


class OpenAIResponsesDecoder(StreamDecoder):
    """A decoder of one response, streamed or not."""

    kind: ClassVar[str] = "answer of the Responses protocol"
    longest: ClassVar[int] = MEDIA_LIMIT
    grown: ClassVar[Mapping[type[Event], str]] = {ToolCallDelta: "delta", TextDelta: "delta"}

    def __init__(self, source: ErrorSource, request_input: RequestInput) -> None:
        super().__init__(source, request_input)
        self._calls = OpenCalls(request_input)
        self._items: list[_Item] = []
        # By kind, and id or index; None for an id that several items have.
        self._by_key: dict[tuple[str, str | int], _Item | None] = {}
        self._last: _Item | None = None
        self._growing = TextBuffer()  # the text that received the last delta
        self._custom: list[dict[str, Any]] = []  # calls of custom tools after the last message
        self._server_tools = request_input.server_tools
        self._lost = False
        self._media = MediaBytes()
        self._refused = False

    def _chunk(self, chunk: dict[str, Any], out: list[Event]) -> None:
        kind = as_str(chunk.get("type"))
        read = _READERS.get(kind)
        if read is not None:
            read(self, chunk, out)
        elif chunk.get("error"):
            raise stream_error(chunk, self._source)
        elif kind not in _SILENT:
            out.append(RawEvent(chunk))

    def _message(self, message: dict[str, Any], out: list[Event]) -> bool:
        if message.get("error") or message.get("status") == "failed":
            raise stream_error(message, self._source)
        if "output" in message:
            self._finish(message, out)
        return self._over

    def _may_end(self) -> bool:
        return False

    def _end(self, out: list[Event]) -> None:
        """Ignore `[DONE]`, which some proxies add."""

    def _odd(self, payload: bytes, out: list[Event]) -> Any:
        before = len(out)
        chunk = super()._odd(payload, out)
        for event in out[before:]:
            if isinstance(event, RawEvent) and event.data.lstrip().startswith("{"):
                out[-1] = RawEvent(event.data, damaged=True, repeated=True)
                self._lost = True
                for item in self._items:
                    item.waits = not item.over
        return chunk

    def _adder(self, kind: type[Event]) -> Callable[[str], bool]:
        return self._calls.last.add if kind is ToolCallDelta else self._add_text

    def _add_text(self, text: str) -> bool:
        self._growing.add(text)
        return True

    # -- items

    def _find_item(
        self, chunk: dict[str, Any], kind: str, *, begins: bool = False, whole: bool = False
    ) -> _Item | None:
        """Return the item of this kind that an event refers to; None if it has not begun.

        Args:
            chunk: The event.
            kind: The kind of the item.
            begins: The event begins an item, unless it repeats the beginning of one.
            whole: The item is from the whole response, which may number items differently.
        """
        ids, call_id, place = _ids(chunk), as_str(as_dict(chunk.get("item")).get("call_id")), _index(chunk)
        for id in ids:
            found = self._by_key.get((kind, id))
            if found is None or found.is_other_call(call_id):
                continue
            # Some services give all items of a kind one id: then the index tells them apart, and calls their own ids.
            same_call = bool(call_id and found.call_id) and id == ids[0]
            if whole or same_call or not (begins or found.done) or place in (None, found.place) or found.place is None:
                return found
        if place is not None:
            found = self._by_key.get((kind, place))
            # Another id at the index of an item that is done, or at a beginning, is that of another item.
            another = found is None or found.is_other_call(call_id) or (ids and (begins or found.done) and not whole)
            return None if another else found
        if begins or self._lost:  # the open item may be another one
            return None
        return next((item for item in reversed(self._items) if item.kind == kind and not item.over), None)

    def _begun(self, chunk: dict[str, Any], kind: str, *, waits: bool = False) -> _Item:
        if kind == "message":
            self._custom = []
        place = _index(chunk)
        item = self._last = _Item(kind, waits, as_str(as_dict(chunk.get("item")).get("call_id")), place)
        self._items.append(item)
        if place is not None:
            self._by_key[kind, place] = item
        for id in _ids(chunk):
            self._by_key[kind, id] = None if (kind, id) in self._by_key else item
        self._has_content = True
        return item

    def _added(self, chunk: dict[str, Any], out: list[Event]) -> None:
        if self._find_item(chunk, as_str(as_dict(chunk.get("item")).get("type")), begins=True) is None:
            self._begin_item(chunk, out)

    def _begin_item(self, chunk: dict[str, Any], out: list[Event]) -> _Item:
        sent_item = self._object(chunk.get("item"), "item", out)
        item = self._begun(chunk, as_str(sent_item.get("type")))
        if (
            item.kind == "function_call"
            and (name := as_str(sent_item.get("name")))
            and not self._calls.is_wrapper(name)
        ):
            self._calls.start(item, sent_item.get("call_id"), name, out).opaque = self._about_call(sent_item)
        elif item.kind == "message" and (phase := as_str(sent_item.get("phase"))):
            # The model wants the phase of a text back, and TextPart has no field for it.
            out.append(ThinkingDelta(opaque={"responses": {"type": "message", "phase": phase}}))
        return item

    def _done(self, chunk: dict[str, Any], out: list[Event], *, whole: bool = False) -> None:
        sent_item = self._object(chunk.get("item"), "item", out)
        item = self._find_item(chunk, as_str(sent_item.get("type")), whole=whole) or self._begin_item(chunk, out)
        self._close(item, sent_item, out)
        item.done = True

    def _close(self, item: _Item, sent_item: dict[str, Any], out: list[Event]) -> None:
        if item.over:
            return
        close = _CLOSERS.get(item.kind)
        if close is None:
            out.append(RawEvent(sent_item))
            if item.kind:  # such as a compaction, which the service reads in the next request
                out.append(ThinkingDelta(opaque=self._own(sent_item)))
        item.over = close is None or close(self, item, sent_item, out)

    def _own(self, sent_item: dict[str, Any]) -> Mapping[str, Any]:
        """Return an item as the data of a part. Another service cannot decrypt what is encrypted in it."""
        return {"responses": sent_item, "provider": self._source.provider}

    def _about_call(self, sent_item: dict[str, Any]) -> Mapping[str, Any] | None:
        about = {name: sent_item[name] for name in ABOUT_CALLS if sent_item.get(name)}
        return self._own({"type": "function_call", **about}) if about else None

    def _close_message(self, item: _Item, sent_item: dict[str, Any], out: list[Event]) -> bool:
        content = self._objects(sent_item.get("content"), "item.content", out)
        for place, part in enumerate(content):
            self._refused |= part.get("type") == "refusal"
            self._whole(item, ("text", place), part.get("text") or part.get("refusal"), out)
            # From here alone: the deltas have the same ones without their bytes.
            if part.get("logprobs") and (tokens := token_logprobs(part["logprobs"])):
                out.append(LogprobsDelta(tokens))
            for number, annotation in enumerate(as_list(part.get("annotations"))):
                self._cite(item, place, number, annotation, out)
        return bool(content) or not item.waits

    def _close_thought(self, item: _Item, sent_item: dict[str, Any], out: list[Event]) -> bool:
        for kind in ("summary", "content"):
            for place, part in enumerate(map(as_dict, as_list(sent_item.get(kind)))):
                self._whole(item, (kind, place), part.get("text"), out)
        # Services that end a thought after the items that follow it (llama.cpp, OpenRouter) encrypt nothing in it.
        if item is self._last:
            out.append(ThinkingDelta(opaque=self._own(sent_item)))
        return True

    def _close_call(self, item: _Item, sent_item: dict[str, Any], out: list[Event]) -> bool:
        whole, name = _arguments(sent_item.get("arguments")), as_str(sent_item.get("name"))
        if item not in self._calls and self._calls.is_wrapper(name) and unwrapped(whole) is not None:
            self._calls.whole(sent_item.get("call_id"), name, whole, out)
            return True
        call = self._calls.more(item, "", out)
        if call is None:
            call = self._calls.start(item, sent_item.get("call_id"), name, out)
        call.opaque = call.opaque or self._about_call(sent_item)
        if whole and not is_json(whole):
            # Cut off, or invalid: the end of the response decides. Until then the call stays open.
            rest = whole.removeprefix(call.pieces.whole())
            self._calls.more(item, rest if rest != whole or not call.pieces else "", out)
        elif whole or not item.waits:
            self._calls.done(item, out, whole=whole or None)
        return bool(whole) or not item.waits

    def _close_server_tool(self, item: _Item, sent_item: dict[str, Any], out: list[Event]) -> bool:
        """Emit the call of a tool that the service ran; its result is in the same item."""
        name, input_, output, error = _SERVER_TOOLS[item.kind](sent_item)
        if error is None and as_str(sent_item.get("status")) in ("failed", "incomplete"):
            error = as_str(sent_item["status"])
        error = error if error is None or isinstance(error, str) else json.dumps(error, ensure_ascii=False)
        id, provider = as_str(sent_item.get("id")), self._source.provider
        out.append(ServerToolUse(name, id, input_, without_encrypted(output), error, provider, sent_item))
        if name == "code_execution":
            # The images of the code, which are sent back in its item.
            for found in map(as_dict, as_list(output)):
                own: dict[str, Any] = {"responses": {}, "provider": provider}
                if found.get("type") == "image" and (image := image_of_url(as_str(found.get("url")), self._media, own)):
                    out.append(ImageOutput(image))
        return True

    def _close_approval(self, item: _Item, sent_item: dict[str, Any], out: list[Event]) -> bool:
        """Emit a call of a `RemoteMCP` that needs an approval: its result is the decision."""
        if any(isinstance(tool, RemoteMCP) for tool in self._server_tools):
            name = f"mcp.{as_str(sent_item.get('server_label'))}.{as_str(sent_item.get('name'))}"
            id, arguments = as_str(sent_item.get("id")), as_str(sent_item.get("arguments"))
            self._calls.whole(id, name, arguments, out, opaque={"responses": sent_item})
        else:
            out.append(RawEvent(sent_item))
        return True

    def _close_image(self, item: _Item, sent_item: dict[str, Any], out: list[Event]) -> bool:
        """Emit the call of the image generation and its image, which is sent back with the fields of its item."""
        about = {name: sent_item[name] for name in _ABOUT_IMAGES if sent_item.get(name) is not None}
        id, provider, result = as_str(sent_item.get("id")), self._source.provider, as_str(sent_item.get("result"))
        found = {name: value for name, value in sent_item.items() if name != "result"}
        image = self._image(result, sent_item, {"responses": found, "provider": provider}) if result else None
        if image is None:
            # One that cannot be read is not worth the rest of the response, which is complete.
            unreadable = "the image cannot be read" if result else None
            error: Any = sent_item.get("error") or unreadable or as_str(sent_item.get("status")) or "failed"
            error = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
            out.append(ServerToolUse("image_generation", id, about or None, None, error, provider))
        else:
            out.append(ServerToolUse("image_generation", id, about or None, None, None, provider))
            out.append(ImageOutput(image))
        return True

    def _image(self, text: str, about: dict[str, Any], opaque: Mapping[str, Any] | None = None) -> ImagePart | None:
        try:
            data = self._media.whole(text)
        except MalformedEvent:
            return None
        declared = f"image/{as_str(about.get('output_format')) or 'png'}"
        declared = "image/svg+xml" if declared == "image/svg" else declared
        media_type = media_type_of(data, declared, "image")
        return None if media_type is None else ImagePart(data=data, media_type=media_type, opaque=opaque)

    def _partial_image(self, chunk: dict[str, Any], out: list[Event]) -> None:
        image = self._image(as_str(chunk.get("partial_image_b64")), chunk)
        if image is not None:
            out.append(ImageOutput(image, _place(chunk, "partial_image_index")))

    def _close_custom(self, item: _Item, sent_item: dict[str, Any], out: list[Event]) -> bool:
        """Store a custom call, whose input is any text. If a message follows it, the service (xAI) has run it."""
        self._custom.append(sent_item)
        out.append(RawEvent(sent_item))
        return True

    # -- deltas and wholes

    def _grow(self, item: _Item, part: _Part, text: str, out: list[Event]) -> None:
        if not text:
            return
        pieces = item.parts.get(part)
        if pieces is None:
            if item.parts and part[0] != "text":
                out.append(ThinkingDelta("\n\n"))
            pieces = item.parts[part] = TextBuffer()
        pieces.add(text)
        self._growing = pieces
        out.append(TextDelta(text) if part[0] == "text" else ThinkingDelta(text))

    def _whole(self, item: _Item, part: _Part, whole: object, out: list[Event]) -> None:
        """Emit the rest of a part that was not streamed."""
        seen = item.parts[part].whole() if part in item.parts else ""
        if isinstance(whole, str) and whole.startswith(seen):
            self._grow(item, part, whole[len(seen) :], out)
        elif item.waits and not self._accepts_damaged:
            raise _not_repeated()

    def _text(self, chunk: dict[str, Any], out: list[Event]) -> None:
        item = self._find_item(chunk, "message") or self._begun(chunk, "message", waits=self._lost)
        if not (item.waits or item.over):
            self._grow(item, ("text", _place(chunk, "content_index")), as_str(chunk.get("delta")), out)

    def _whole_text(self, chunk: dict[str, Any], out: list[Event]) -> None:
        item = self._find_item(chunk, "message") or self._begun(chunk, "message")
        self._whole(item, ("text", _place(chunk, "content_index")), chunk.get("text") or chunk.get("refusal"), out)

    def _annotation(self, chunk: dict[str, Any], out: list[Event]) -> None:
        item = self._find_item(chunk, "message")
        if not as_dict(chunk.get("annotation")):
            out.append(RawEvent(chunk))
            return
        # Of an item whose text waits for its whole, the citations do, too: they follow the text.
        if item is not None and not item.waits:
            place, number = _place(chunk, "content_index"), _place(chunk, "annotation_index")
            self._cite(item, place, number, chunk.get("annotation"), out)

    def _cite(self, item: _Item, place: int, number: int, annotation: Any, out: list[Event]) -> None:
        """Emit an annotation of a text, unless the stream has repeated it."""
        if (place, number) in item.cited or not as_dict(annotation):
            return
        from ..citation_forms import openai_citation

        item.cited.add((place, number))
        earlier = takewhile(lambda other: other is not item, self._items)
        texts = [buffer for other in earlier for key, buffer in other.parts.items() if key[0] == "text"]
        texts += [buffer for key, buffer in item.parts.items() if key[0] == "text" and key[1] < place]
        before = sum(len(buffer.whole()) for buffer in texts)
        out.append(TextCitation(openai_citation(annotation, before, self._source.provider)))

    def _refusal(self, chunk: dict[str, Any], out: list[Event]) -> None:
        self._refused = True
        self._text(chunk, out)

    def _summary(self, chunk: dict[str, Any], out: list[Event]) -> None:
        self._thought(chunk, ("summary", _place(chunk, "summary_index")), out)

    def _reasoning(self, chunk: dict[str, Any], out: list[Event]) -> None:
        self._thought(chunk, ("content", _place(chunk, "content_index")), out)

    def _thought(self, chunk: dict[str, Any], part: _Part, out: list[Event]) -> None:
        item = self._find_item(chunk, "reasoning") or self._begun(chunk, "reasoning", waits=self._lost)
        if not (item.waits or item.over):
            self._grow(item, part, as_str(chunk.get("delta")), out)

    def _more_arguments(self, chunk: dict[str, Any], out: list[Event]) -> None:
        item = self._find_item(chunk, "function_call")
        if item is not None and not item.waits:
            self._calls.more(item, as_str(chunk.get("delta")), out)

    def _whole_arguments(self, chunk: dict[str, Any], out: list[Event]) -> None:
        item = self._find_item(chunk, "function_call")
        if item is not None and item in self._calls:
            item.over = self._close_call(item, chunk, out)

    # -- the response

    def _about(self, chunk: dict[str, Any], out: list[Event]) -> None:
        response = as_dict(chunk.get("response"))
        self._name_model(response.get("model"))
        self._response_id = as_str(response.get("id")) or self._response_id

    def _error(self, chunk: dict[str, Any], out: list[Event]) -> None:
        raise stream_error(as_dict(chunk.get("response")) or chunk, self._source)

    def _ended(self, chunk: dict[str, Any], out: list[Event]) -> None:
        self._finish(as_dict(chunk.get("response")), out)

    def _finish(self, response: dict[str, Any], out: list[Event]) -> None:
        reason = as_str(as_dict(response.get("incomplete_details")).get("reason")) or as_str(response.get("status"))
        self._check_status(reason)
        output = as_list(response.get("output"))
        if self._lost and self._items:
            placed = any(item.place is not None for item in self._items)
            for place, item in enumerate(output):
                self._done({"output_index": place if placed else None, "item": item}, out, whole=True)
        else:
            for sent_item in self._not_streamed(output):
                self._close(self._begin_item({"item": sent_item}, out), sent_item, out)
        if not self._accepts_damaged and any(item.waits and not item.over for item in self._items):
            raise _not_repeated()
        for sent_item in self._custom:
            opaque = {"responses": {"type": "custom_tool_call"}}
            name, input_ = as_str(sent_item.get("name")), as_str(sent_item.get("input"))
            self._calls.whole(sent_item.get("call_id"), name, input_, out, opaque=opaque)
        self._calls.finish(out, cut=reason not in ("completed", ""))
        if usage := as_dict(response.get("usage")):
            counted, cost = _usage(usage, response.get("service_tier")), reported_cost(usage)
            out.append(UsageReport(counted if cost is None else counted.with_cost(cost)))
        self._name_model(response.get("model"))
        self._response_id = as_str(response.get("id")) or self._response_id
        out.append(self._finished(self._stop_reason(reason), reason or None))
        self._over = True

    def _not_streamed(self, output: list[object]) -> list[dict[str, Any]]:
        """Return the items of the whole response that were not streamed.

        Calls are identified by their ids, other items by their count per kind: some services number items differently
        in the stream and in the response.
        """
        if not self._items:
            return [as_dict(item) for item in output]
        ids = {item.call_id for item in self._items if item.kind == "function_call"} - {""}
        streamed = Counter(item.kind for item in self._items if item.kind != "function_call" or not item.call_id)
        missing: list[dict[str, Any]] = []
        for sent_item in map(as_dict, output):
            kind, id = as_str(sent_item.get("type")), as_str(sent_item.get("call_id"))
            if kind == "function_call" and id in ids:
                continue
            if streamed[kind]:
                streamed[kind] -= 1
            else:
                missing.append(sent_item)
        return missing

    def _check_status(self, status: str) -> None:
        """Raise if the status says that there is no response: it was cancelled, or is still queued."""
        if status == "cancelled":
            raise StreamInterrupted("the response was cancelled at the service", retryable=False)
        if status == "queued":
            error = EmptyResponse("the response is queued: the service has not begun to answer", retryable=False)
            error.advice = "Fetch it later by its id, or send the request without background=True."
            raise error

    def _cancelled(self, chunk: dict[str, Any], out: list[Event]) -> None:
        self._check_status("cancelled")

    def _stop_reason(self, reason: str) -> StopReason:
        if reason not in ("completed", ""):
            if reason not in _STOP and reason != "incomplete" and not self._items and not self._custom:
                raise EmptyResponse(f"the response ended as {reason!r}, without output", retryable=False)
            return _STOP.get(reason, "other")
        if self._refused:
            return "refusal"
        return "tool_use" if self._calls.count else "end_turn"


def _searched(item: dict[str, Any]) -> tuple[str, Any, Any, Any]:
    action = as_dict(item.get("action"))
    input_ = {name: value for name, value in action.items() if name != "sources"}
    return "web_search", input_ or None, action.get("sources"), None


def _searched_files(item: dict[str, Any]) -> tuple[str, Any, Any, Any]:
    return "file_search", {"queries": item.get("queries")}, item.get("results"), None


def _ran_code(item: dict[str, Any]) -> tuple[str, Any, Any, Any]:
    input_ = {"code": item.get("code"), "container": item.get("container_id")}
    return "code_execution", input_, item.get("outputs"), None


def _called_mcp(item: dict[str, Any]) -> tuple[str, Any, Any, Any]:
    server, name = as_str(item.get("server_label")), as_str(item.get("name"))
    input_ = {"server": server, "name": name, "arguments": json_or_text(item.get("arguments"))}
    return "mcp", input_, item.get("output"), item.get("error")


def _listed_mcp(item: dict[str, Any]) -> tuple[str, Any, Any, Any]:
    tools = [as_str(as_dict(tool).get("name")) for tool in as_list(item.get("tools"))]
    return "mcp", {"server": as_str(item.get("server_label"))}, {"tools": tools}, item.get("error")


_SERVER_TOOLS: Mapping[str, Callable[[dict[str, Any]], tuple[str, Any, Any, Any]]] = {
    "web_search_call": _searched,
    "file_search_call": _searched_files,
    "code_interpreter_call": _ran_code,
    "mcp_call": _called_mcp,
    "mcp_list_tools": _listed_mcp,
}
"""Functions from the item of a tool that the service ran to its name, input, output and error."""

ABOUT_CALLS: Final[tuple[str, ...]] = ("namespace", "caller", "async")
"""The fields of a function call that are sent back with it. `caller` is also a field of its result."""

_ABOUT_IMAGES = ("revised_prompt", "action", "size", "quality", "background", "output_format")

_CLOSERS: Mapping[str, Callable[[Any, _Item, dict[str, Any], list[Event]], bool]] = {
    "message": OpenAIResponsesDecoder._close_message,
    "reasoning": OpenAIResponsesDecoder._close_thought,
    "function_call": OpenAIResponsesDecoder._close_call,
    "custom_tool_call": OpenAIResponsesDecoder._close_custom,
    "image_generation_call": OpenAIResponsesDecoder._close_image,
    **dict.fromkeys(_SERVER_TOOLS, OpenAIResponsesDecoder._close_server_tool),
    "mcp_approval_request": OpenAIResponsesDecoder._close_approval,
}
_READERS: Mapping[str, Callable[[Any, dict[str, Any], list[Event]], object]] = {
    "response.output_text.delta": OpenAIResponsesDecoder._text,
    "response.function_call_arguments.delta": OpenAIResponsesDecoder._more_arguments,
    "response.reasoning_summary_text.delta": OpenAIResponsesDecoder._summary,
    "response.reasoning_text.delta": OpenAIResponsesDecoder._reasoning,
    "response.refusal.delta": OpenAIResponsesDecoder._refusal,
    "response.output_text.annotation.added": OpenAIResponsesDecoder._annotation,
    "response.output_text.done": OpenAIResponsesDecoder._whole_text,
    "response.refusal.done": OpenAIResponsesDecoder._whole_text,
    "response.function_call_arguments.done": OpenAIResponsesDecoder._whole_arguments,
    "response.image_generation_call.partial_image": OpenAIResponsesDecoder._partial_image,
    "response.output_item.added": OpenAIResponsesDecoder._added,
    "response.output_item.done": OpenAIResponsesDecoder._done,
    "response.created": OpenAIResponsesDecoder._about,
    "response.queued": OpenAIResponsesDecoder._about,
    "response.in_progress": OpenAIResponsesDecoder._about,
    "response.completed": OpenAIResponsesDecoder._ended,
    "response.incomplete": OpenAIResponsesDecoder._ended,
    "response.failed": OpenAIResponsesDecoder._error,
    "response.cancelled": OpenAIResponsesDecoder._cancelled,
    "error": OpenAIResponsesDecoder._error,
}


def _ids(chunk: dict[str, Any]) -> list[str]:
    """Return the ids that an event gives its item: its own, and that of its call."""
    if (id := chunk.get("item_id")) and type(id) is str:
        return [id]
    item = as_dict(chunk.get("item"))
    return [id for id in (item.get("id"), item.get("call_id"), chunk.get("call_id")) if id and isinstance(id, str)]


def _index(chunk: dict[str, Any]) -> int | None:
    place = chunk.get("output_index")
    return place if type(place) is int else None


def _place(chunk: dict[str, Any], name: str) -> int:
    place = chunk.get(name)
    return place if type(place) is int else 0


def _arguments(value: object) -> str:
    """Return arguments as text, also if a service sends the object itself."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else as_str(value)


def _usage(found: dict[str, Any], tier: object) -> Usage:
    into, out_of = as_dict(found.get("input_tokens_details")), as_dict(found.get("output_tokens_details"))

    def count(counts: Mapping[str, Any], name: str) -> int:
        return as_count(counts.get(name)) or 0

    details = details_of(openai_counts(found, into, out_of), tier)
    return Usage(
        count(found, "input_tokens"),
        count(found, "output_tokens"),
        count(into, "cached_tokens"),
        count(into, "cache_write_tokens"),
        count(out_of, "reasoning_tokens"),
        details.input_audio_tokens + details.output_audio_tokens,
        details=details,
    )


def _not_repeated() -> MalformedEvent:
    return MalformedEvent(
        "an event in the middle of the response could not be read, and its content was not repeated. "
        "Send the request again."
    )
