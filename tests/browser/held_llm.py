"""A model whose stream is held where the test wants it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count
from typing import TypeAlias

import anyio
import anyio.to_thread

from toolcast import FunctionCallingLLM, ToolCallPart
from toolcast.events import (
    Event,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    UsageReport,
)
from toolcast.messages import Message
from toolcast.tools.callable_tool import CallableTool
from toolcast.values.capabilities import LLMMetadata
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import ToolChoice
from toolcast.values.usage import Usage


class Gate:
    """The stream stops here until the test opens it."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def open(self) -> None:
        """Let it go on."""
        self._open.set()

    async def passed(self) -> None:
        """Wait until it is open."""
        await anyio.to_thread.run_sync(self._open.wait, 30, abandon_on_cancel=True)


class Flow:
    """Text that keeps coming, a word at a time, until the test stops it."""

    def __init__(self, *, per_second: int = 150) -> None:
        self._pause = 1 / per_second
        self._stopped = False

    def stop(self) -> None:
        """End the answer."""
        self._stopped = True

    async def words(self) -> AsyncIterator[Event]:
        """Yield the words, a paragraph for every ten; the first 300 come at once."""
        for number in count(1):
            if self._stopped:
                return
            yield TextDelta(f"word {number}{' ' if number % 10 else chr(10) * 2}")
            await anyio.sleep(self._pause if number > 300 else 0)


Answer: TypeAlias = "Sequence[Event | Gate] | Flow | Exception"


def text(words: str, chunk: int = 6) -> list[Event | Gate]:
    """The pieces of a text."""
    return [TextDelta(words[at : at + chunk]) for at in range(0, len(words), chunk)]


def thinking(words: str) -> list[Event | Gate]:
    """The pieces of a thought."""
    return [ThinkingDelta(word) for word in words.split(" ") for word in (word, " ")]


def call(name: str, arguments: str, id: str = "c1", *, held: Gate | None = None) -> list[Event | Gate]:
    """A call, its arguments in two pieces, between which it may be held."""
    half = len(arguments) // 2
    gate = [held] if held else []
    return [
        ToolCallStart(id, name),
        ToolCallDelta(id, arguments[:half]),
        *gate,
        ToolCallDelta(id, arguments[half:]),
        ToolCallDone(id, name, arguments),
    ]


class HeldLLM(FunctionCallingLLM):
    """Gives the queued answers, one per request. `requests` are the messages it was sent."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__()
        self.requests: list[tuple[Message, ...]] = []
        self._answers = iter(answers)

    @property
    def metadata(self) -> LLMMetadata:
        """What is known about the model."""
        return LLMMetadata("held", "test", True)

    async def _events(
        self,
        messages: Sequence[Message],
        tools: Sequence[CallableTool],
        tool_choice: ToolChoice,
        settings: Settings,
    ) -> AsyncIterator[Event]:
        self.requests.append(tuple(messages))
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Flow):
            async for event in answer.words():
                yield event
            answer = ()
        for event in answer:
            if isinstance(event, Gate):
                await event.passed()
            else:
                yield event
        for event in self._end(answer):
            yield event

    def _end(self, answer: Sequence[Event | Gate]) -> Iterator[Event]:
        yield UsageReport(Usage(input_tokens=120, output_tokens=len(answer)))
        yield Finish("tool_use" if any(isinstance(event, ToolCallDone) for event in answer) else "end_turn")


def asked(request: Sequence[Message], id: str = "c1") -> tuple[ToolCallPart, str]:
    """The call `id` in a request, and the result that the model reads."""
    (made,) = [part for message in request for part in message.tool_calls if part.id == id]
    results = [part for message in request for part in message.parts if getattr(part, "call_id", None) == id]
    return made, results[0].content
