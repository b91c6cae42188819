"""Prompted tool calls, for models without tool support: the prompt describes the tools, the text is parsed.

The description goes into the system message; calls and results of the history become plain text (`messages_as_text`).
`PromptedCalls` finds the JSON after prose and code fences, but not in thoughts, and emits its text as it arrives. Text
that is not strict JSON is emitted whole, to be parsed leniently later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, cast

from pydantic_core import from_json

from ...events import Event, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallReset
from ...messages import TAKEN, Message, Part, ResultImage, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ...parsing.json_stream import JSONStream, JSONStreamError
from ...parsing.thoughts import STARTS, TAG, find_end, find_tag, part_start, searcher
from ...parsing.tool_arguments import is_same, portable_object
from ..think_tags import ThinkTags
from .json_calls import CallFormat, JSONTextCalls, instructions


def to_prompted_messages(messages: tuple[Message, ...], form: CallFormat) -> tuple[Message, ...]:
    """Return `messages` with a description of the tools, and with all calls so far as text."""
    text = instructions(form)
    if not form.forced:
        text = f"You can use these tools.\n{text}\nWhere no tool is of use, answer in words."
    system = "\n\n".join([message.text for message in messages if message.role == "system"] + [text])
    return (Message("system", (TextPart(system),)), *messages_as_text(messages, form))


# The start of JSON, or of an attempt at it; a bracket in prose mostly has another start. The numbers limit the text
# that is delayed until that is decided.
_OBJECT: Final = r"""\{\s{0,99}+(?:["'}#]|//|/\*|\w{1,99}+\s{0,99}+:)"""
_LIST: Final = r"""\[\s{0,99}+(?:[\[{"'\]\d#-]|//|/\*|true|false|null)"""
_MAYBE: Final = r"\{\s{0,99}+(?:/|\w{1,99}+\s{0,99}+)?$"
_find_object = searcher(rf"{STARTS}{{", rf"{TAG}|{_OBJECT}")
_find_maybe_object = re.compile(_MAYBE).search
_find_value = searcher(rf"{STARTS}{{", rf"{TAG}|{_OBJECT}|{_LIST}")
_find_maybe_value = re.compile(rf"{_MAYBE}|\[\s{{0,99}}+(?:/|[a-z]{{0,4}})$").search
_find_closing = re.compile(r"[}\]]").search
_leads_to_json = re.compile(r"\s*(?:[^\n]{0,150}:)?\s*(?:[`~]{3,}\w*\s*)?").fullmatch
_KEPT_PROSE: Final = 400
_LONGEST_MAYBE: Final = 300


class PromptedCalls(JSONTextCalls):
    """A parser of the tool calls in the text of one response, cut anywhere, with any text around them.

    The first object is emitted as it arrives. A further one that is equal is text; another one is another call, or
    where only arguments are expected, more of them, which makes them ambiguous. The end of a thought that nothing began
    makes all before it a thought. Calls by name cannot be taken back, so behind prose that may be a thought they wait
    for the end of the text.
    """

    def __init__(self, form: CallFormat, before: int = 0) -> None:
        super().__init__(form, before)
        self._tags = ThinkTags()
        reads_lists = form.is_bare and list(form.tools[0].parameters.get("properties", ())) == ["value"]
        self._find = _find_value if reads_lists else _find_object
        self._find_maybe = _find_maybe_value if reads_lists else _find_maybe_object
        self._delayed = ""
        self._prose = ""  # the first part of the text before the first object
        self._thinks = False  # in a thought behind other text
        self._open: list[str] | None = None  # the text of the object that is open
        self._scan: JSONStream | None = None  # its scanner; None if it is not JSON
        self._scanned = 0
        self._objects: list[str] = []
        self._draft = ""  # arguments that a thought had
        self._waiting: list[str] | None = None  # the text from the first object on, if it waits
        self._whole = ""  # the same at the end

    @property
    def open_call(self) -> str | None:
        """None: text may follow the object."""
        return None

    @property
    def is_complete(self) -> bool:
        """True if the last call has ended, as far as the text shows."""
        return self._open is None and bool(self._objects)

    def feed(self, text: str) -> list[Event]:
        """Return the events that `text` completes."""
        return self._after_thoughts(self._tags.feed(text))

    def finish(self, *, cut: bool = False) -> list[Event]:
        """Return the last events. `cut`: the model was stopped by a limit, so the last call may be incomplete."""
        out = self._after_thoughts(self._tags.close())
        if self._waiting is not None:
            self._whole, self._waiting = "".join(self._waiting), None
            out += self._read(self._whole)
        if self._open is None:
            self._add_text(self._delayed, out)
        else:
            self._grow(self._delayed, out)
            self._end_object(out, cut=cut)
        if self._draft and not self._bare:  # without an answer behind the thought
            self._add_arguments(self._draft, out)
        return [*out, *super().finish(cut=cut)]

    def _after_thoughts(self, events: list[Event]) -> list[Event]:
        """Return thoughts, which may contain drafts of the object, unchanged, and the events of the text after them."""
        read = [self._read(event.text) if isinstance(event, TextDelta) else [event] for event in events]
        return [event for some in read for event in some]

    def _read(self, text: str) -> list[Event]:
        if self._waiting is not None:
            self._waiting.append(text)
            return []
        out: list[Event] = []
        text, self._delayed = self._delayed + text, ""
        while text:
            read = self._in_text if self._open is None else self._in_object
            text = read(text, out)
        return out

    # Each of these reads the beginning of a text and returns the rest.

    def _in_text(self, text: str, out: list[Event]) -> str:
        found = find_end(text) if self._thinks else self._find(text)
        if found is None:
            maybe = self._find_maybe(text, max(0, len(text) - _LONGEST_MAYBE))
            at = min(part_start(text), maybe.start() if maybe else len(text))
            self._add_text(text[:at], out)
            self._delayed = text[at:]
            return ""
        tag, rest = found.lastgroup, text[found.end() :]
        self._add_text(text[: found.start()], out)
        if tag is None:
            self._open, self._scan, self._scanned = [], JSONStream(), 0
            rest = text[found.start() :]
            if not (self._form.is_bare or self._objects or self._whole or _leads_to_json(self._prose)):
                self._waiting, rest = [rest], ""
        elif tag == "end":
            self._end_thought(found[0], rest, out)
        else:
            self._add_text(found[0], out)
            self._thinks = tag == "begin"
        return rest

    def _in_object(self, text: str, out: list[Event]) -> str:
        at = 0
        while self._scan is not None and at < len(text):
            closing = _find_closing(text, at)
            end = closing.end() if closing else len(text)
            try:
                self._scan.feed(text[at:end])
            except JSONStreamError as error:
                self._scan, at = None, max(at, error.offset - self._scanned)
                break
            self._scanned += end - at
            at = end
            if self._scan.done:
                self._grow(text[:at], out)
                self._end_object(out)
                return text[at:]
        find = find_end if self._thinks else find_tag
        if self._scan is None and (tag := find(text, at)) is not None:
            if not self._thinks and tag["begin"] is None:
                self._grow(text[: tag.start()], out)
                self._end_object(out)
                self._end_thought(tag[0], text[tag.end() :], out)
            else:
                self._grow(text[: tag.end()], out)
                self._thinks = not self._thinks
            return text[tag.end() :]
        at = part_start(text, at) if self._scan is None else len(text)
        self._grow(text[:at], out)
        self._delayed = text[at:]
        return ""

    def _grow(self, text: str, out: list[Event]) -> None:
        """Add text to the open object, and emit it if it is the first one."""
        cast("list[str]", self._open).append(text)
        if not self._objects:
            self._emit(text, out)

    def _end_object(self, out: list[Event], *, cut: bool = False) -> None:
        text, self._open = "".join(self._open or ()), None
        if _is_among(text, self._objects):
            self._add_text(text, out)
            return
        if self._objects:
            self._emit(text, out)
        self._objects.append(text)
        if not self._form.is_bare:
            out += super().finish(cut=cut)
            self._reading = None

    def _emit(self, text: str, out: list[Event]) -> None:
        if self._form.is_bare:
            self._add_arguments(text, out)
        elif text:
            out += super().feed(text)

    def _add_arguments(self, text: str, out: list[Event]) -> None:
        if not self.count:
            self.started(self._form.tools[0].name, out)
        self._bare.append(text)
        out.append(ToolCallDelta(self._id, text))

    def _add_text(self, text: str, out: list[Event]) -> None:
        if text:
            out.append(TextDelta(text))
            if not self._objects and len(self._prose) < _KEPT_PROSE:
                self._prose += text

    def _end_thought(self, tag: str, rest: str, out: list[Event]) -> None:
        """Take back what stands before the end of a thought that nothing has begun."""
        if self._whole:
            thought = self._whole[: len(self._whole) - len(rest) - len(tag)]
            out[:] = [ThinkingDelta(thought)]
            self.ids.difference_update(f"call_{self._before + number}" for number in range(1, self.count + 1))
            self.count = 0
        elif self._bare:
            thought = "".join(self._bare)
            out += [ToolCallReset(self._id), ThinkingDelta(thought)]
            self._draft += thought + tag
            self._bare.clear()
        else:
            self._add_text(tag, out)
            return
        self._objects.clear()


def _is_among(text: str, objects: list[str]) -> bool:
    """Return whether the value of `text` is that of an object before it."""
    try:
        value = from_json(text)
        return any(is_same(value, from_json(other)) for other in objects)
    except ValueError:
        return text in objects


def messages_as_text(messages: tuple[Message, ...], form: CallFormat | None) -> Iterator[Message]:
    """Yield the history as text: calls as the JSON the model writes, their results as user messages."""
    for message in messages:
        if message.role == "system" or _only_confirms(message):
            continue
        shown_parts = [part for part in message.parts if not isinstance(part, (ThinkingPart, ToolCallPart))]
        parts = (
            *(shown for part in shown_parts for shown in _as_text(part)),
            *_calls_as_text(message.tool_calls, form),
        )
        if parts:
            yield Message("user" if message.role == "tool" else message.role, parts)


def _only_confirms(message: Message) -> bool:
    """Return True for results that only confirm that calls were received: such text misleads small models."""
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    return len(results) == len(message.parts) and all(part.content == TAKEN for part in results)


def _as_text(part: Part) -> tuple[Part, ...]:
    if not isinstance(part, ToolResultPart):
        return (part,)
    failed = " failed" if part.is_error else " returned"
    images = [ResultImage(image.url, image.data, image.media_type, image.detail, image.opaque) for image in part.images]
    return (TextPart(f"{part.name or 'The tool'}{failed}: {part.content}"), *images)


def _calls_as_text(calls: tuple[ToolCallPart, ...], form: CallFormat | None) -> Iterator[TextPart]:
    """Yield calls as this format has the model write them; none if it is to write none, since results are enough."""
    if form is None:
        return
    only = form.only.name if form.only is not None else None
    written = [_spaced_arguments(call) if call.name == only else _json_call(call) for call in calls]
    if form.parallel and written:
        yield TextPart(f'{{"calls": [{", ".join(written)}]}}')
    else:
        yield from map(TextPart, written)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json_call(call: ToolCallPart) -> str:
    return f'{{"name": {_json(call.name)}, "arguments": {_spaced_arguments(call)}}}'


def _spaced_arguments(call: ToolCallPart) -> str:
    """Return the arguments with the spaces that the grammar requires; a JSON string if they are not an object."""
    found = portable_object(call.arguments)
    return _json(call.arguments if found is None else found)
