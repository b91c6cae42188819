"""Prompted tool calls, for models without tool support: the prompt describes the tools, the text is parsed.

The description goes into the system message; calls and results of the history become plain text (`messages_as_text`).
`PromptedCalls` finds the JSON object after prose and code fences, but not in thoughts, and emits its text as it
arrives. Text that is no strict JSON is emitted whole, to be parsed leniently later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ...events import Event, TextDelta
from ...messages import TAKEN, Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ...parsing.arguments import portable_object
from ...parsing.json_stream import JSONStream, JSONStreamError
from ..think_tags import ThinkTags
from .json_text import CallFormat, JSONTextCalls, instructions


def to_prompted_messages(messages: tuple[Message, ...], form: CallFormat) -> tuple[Message, ...]:
    """Return `messages` with a description of the tools, and with all calls so far as text."""
    text = instructions(form)
    if not form.forced:
        text = f"You can use these tools.\n{text}\nWhere no tool is of use, answer in words."
    system = "\n\n".join([message.text for message in messages if message.role == "system"] + [text])
    return (Message("system", (TextPart(system),)), *messages_as_text(messages, form))


# The start of a JSON object, or of an attempt at one; a brace in prose mostly has another start. The numbers limit the
# text that is delayed until that is decided.
_OBJECT = re.compile(r"""\{\s{0,99}+(?:["'}#]|//|/\*|\w{1,99}+\s{0,99}+:)""")
_MAYBE = re.compile(r"\{\s{0,99}+(?:/|\w{1,99}+\s{0,99}+)?$")


class PromptedCalls(JSONTextCalls):
    """A parser of the tool calls in the text of one response, cut anywhere, with any text around them."""

    def __init__(self, form: CallFormat, before: int = 0) -> None:
        super().__init__(form, before)
        self._tags = ThinkTags()
        self._delayed = ""
        self._begun = False
        self._ended = False
        self._scan: JSONStream | None = JSONStream()

    @property
    def open_call(self) -> str | None:
        """None: after the end of the object, text is text again."""
        return None

    def feed(self, text: str) -> list[Event]:
        """Return the events that `text` completes."""
        return self._after_thoughts(self._tags.feed(text))

    def _after_thoughts(self, events: list[Event]) -> list[Event]:
        """Return thoughts, which may contain drafts of the object, unchanged, and the events of the text after them."""
        read = [self._read(event.text) if isinstance(event, TextDelta) else [event] for event in events]
        return [event for some in read for event in some]

    def _read(self, text: str) -> list[Event]:
        if self._begun:
            return self._object(text)
        text = self._delayed + text
        found = _OBJECT.search(text)
        if found is None:
            maybe = _MAYBE.search(text)
            at = maybe.start() if maybe else len(text)
            self._delayed = text[at:]
            return _text_deltas(text[:at])
        self._begun = True
        return [*_text_deltas(text[: found.start()]), *self._object(text[found.start() :])]

    @property
    def is_complete(self) -> bool:
        """True if the last call has ended, as far as the text shows."""
        return self._ended

    def finish(self, *, cut: bool = False) -> list[Event]:
        """Return the last events. `cut`: the model was stopped by a limit, so the last call may be incomplete."""
        out = self._after_thoughts(self._tags.close())
        return (
            out
            if self._ended
            else [*out, *([] if self._begun else _text_deltas(self._delayed)), *super().finish(cut=cut)]
        )

    def _object(self, text: str) -> list[Event]:
        """Return the events of more of the object; what follows its end is text again."""
        if self._ended:
            return _text_deltas(text)
        end = self._inside(text)
        out = super().feed(text[:end])
        return [*out, *super().finish(), *_text_deltas(text[end:])] if self._ended else out

    def _inside(self, text: str) -> int:
        """Return how many characters of `text` belong to the object: all of them if it is no strict JSON."""
        at = 0
        while self._scan is not None and at < len(text):
            end = text.find("}", at) + 1 or len(text)
            try:
                self._scan.feed(text[at:end])
            except JSONStreamError:
                self._scan = None
                break
            at = end
            if self._scan.done:
                self._ended = True
                return at
        return len(text)


def _text_deltas(text: str) -> list[Event]:
    return [TextDelta(text)] if text else []


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
    return (TextPart(f"{part.name or 'The tool'}{failed}: {part.content}"), *part.images)


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
