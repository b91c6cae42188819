"""Tools for a model that has none: it is told of them in words, and the text of its answer is read as the calls.

What is asked is put into the system message, and calls and results of the history into plain text (`spoken`).
`PromptedCalls` reads the answer: the JSON object is looked for behind prose and fences, but not in thoughts, and its
text handed on as it arrives. Whether it is right is for others to tell: what is no strict JSON goes on whole, to be
read leniently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ...events import Event, TextDelta
from ...messages import TAKEN, Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ...parsing.json_stream import JSONStream, JSONStreamError
from ..think_tags import ThinkTags
from .json_text import ForcedCalls, Form, instructions


def prompted(messages: tuple[Message, ...], form: Form) -> tuple[Message, ...]:
    """`messages` that tell in words what the tools are, and all calls so far."""
    told = instructions(form)
    if not form.forced:
        told = f"You can use these tools.\n{told}\nWhere no tool is of use, answer in words."
    system = "\n\n".join([message.text for message in messages if message.role == "system"] + [told])
    return (Message("system", (TextPart(system),)), *spoken(messages, form))


# An object of JSON begins so, or one that JSON was meant by; a brace in prose mostly does not. The numbers bound what
# is held back until it is clear.
_OBJECT = re.compile(r"""\{\s{0,99}+(?:["'}#]|//|/\*|\w{1,99}+\s{0,99}+:)""")
_MAYBE = re.compile(r"\{\s{0,99}+(?:/|\w{1,99}+\s{0,99}+)?$")


class PromptedCalls(ForcedCalls):
    """The calls in one answer's text, cut anywhere, with whatever stands around them."""

    def __init__(self, form: Form, before: int = 0) -> None:
        super().__init__(form, before)
        self._tags = ThinkTags()
        self._held = ""
        self._begun = False
        self._ended = False
        self._scan: JSONStream | None = JSONStream()

    def feed(self, text: str) -> list[Event]:
        """The events that `text` completes."""
        return self._spelled(self._tags.feed(text))

    def _spelled(self, events: list[Event]) -> list[Event]:
        """These thoughts, which may hold drafts of the object, as they are; the text behind them read."""
        read = [self._read(event.text) if isinstance(event, TextDelta) else [event] for event in events]
        return [event for some in read for event in some]

    def _read(self, text: str) -> list[Event]:
        if self._begun:
            return self._object(text)
        text = self._held + text
        found = _OBJECT.search(text)
        if found is None:
            maybe = _MAYBE.search(text)
            at = maybe.start() if maybe else len(text)
            self._held = text[at:]
            return _said(text[:at])
        self._begun = True
        return [*_said(text[: found.start()]), *self._object(text[found.start() :])]

    @property
    def is_complete(self) -> bool:
        """Return True if the last call has ended, as far as the text tells."""
        return self._ended

    def finish(self, *, cut: bool = False) -> list[Event]:
        """The last events. `cut`: a limit stopped the model, so the last call may be half."""
        out = self._spelled(self._tags.close())
        return out if self._ended else [*out, *([] if self._begun else _said(self._held)), *super().finish(cut=cut)]

    def _object(self, text: str) -> list[Event]:
        """More of the object; what follows its end is text again."""
        if self._ended:
            return _said(text)
        end = self._inside(text)
        out = super().feed(text[:end])
        return [*out, *super().finish(), *_said(text[end:])] if self._ended else out

    def _inside(self, text: str) -> int:
        """How much of `text` belongs to the object: all of it, where it is no strict JSON."""
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


def _said(text: str) -> list[Event]:
    return [TextDelta(text)] if text else []


def spoken(messages: tuple[Message, ...], form: Form | None) -> Iterator[Message]:
    """The history in words: calls as the JSON the model writes, their results as what the user says."""
    for message in messages:
        if message.role == "system" or _says_nothing(message):
            continue
        said = [part for part in message.parts if not isinstance(part, (ThinkingPart, ToolCallPart))]
        parts = (*(shown for part in said for shown in _words(part)), *_written(message.tool_calls, form))
        if parts:
            yield Message("user" if message.role == "tool" else message.role, parts)


def _says_nothing(message: Message) -> bool:
    """Whether these are only results saying that the calls were taken: words that lead a small model astray."""
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    return len(results) == len(message.parts) and all(part.content == TAKEN for part in results)


def _words(part: Part) -> tuple[Part, ...]:
    if not isinstance(part, ToolResultPart):
        return (part,)
    failed = " failed" if part.is_error else " returned"
    return (TextPart(f"{part.name or 'The tool'}{failed}: {part.content}"), *part.images)


def _written(calls: tuple[ToolCallPart, ...], form: Form | None) -> Iterator[TextPart]:
    """Calls, as this form has the model write them. Where it is to write none, their results tell enough."""
    if form is None:
        return
    only = form.only.name if form.only is not None else None
    written = [_spaced(call) if call.name == only else _json_call(call) for call in calls]
    if form.parallel and written:
        yield TextPart(f'{{"calls": [{", ".join(written)}]}}')
    else:
        yield from map(TextPart, written)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json_call(call: ToolCallPart) -> str:
    return f'{{"name": {_json(call.name)}, "arguments": {_spaced(call)}}}'


def _spaced(call: ToolCallPart) -> str:
    """The arguments with the spaces that the grammar makes the model write; text, where they are no JSON."""
    try:
        return _json(json.loads(call.arguments))
    except ValueError:
        return _json(call.arguments)
