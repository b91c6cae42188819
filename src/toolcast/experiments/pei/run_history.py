"""History of a run, rebuilt from its log as one conversation that every provider accepts.

Every request in the log repeats the messages before it, so each cycle is there many times over. Its last request has
all of them, followed by the answer; calls of that answer may have been run without another request, if a limit ended
the cycle. So one request of each of the first ten cycles is used, whatever the log's length. Of the system messages
only that of the last cycle is used, which has the reflections of all earlier ones. If a run carries its history along,
each cycle begins with all messages before it, which are not repeated; nothing else is deduplicated: two equal results
are two results.

Logs of the published format are read as well: calls without ids, and results without a call's id, in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...agents.engine.history import has_content, repair
from ...lazy.lazy_dataclasses import dataclass
from ...messages import Message, Part, ToolCallPart, ToolResultPart, system
from ...values.message_dicts import message_from_dict
from ..log_events import LogEvent
from ..log_reading import LogError, read_log

CYCLES: Final = 10
"""The cycles of a run that are assessed: the first ten, as published."""

NO_RESULT: Final = "(no result was logged)"
"""The result, for the evaluator, of a call without one in the log."""


def history_of(run_log: str | PathLike[str]) -> tuple[Message, ...]:
    """Return the history of the run whose log is at `run_log`: valid, and at most its first ten cycles.

    The log is read line by line. Raises `LogError` if it cannot be read, or has no answer of the model.
    """
    path = Path(run_log)
    cycles = _last_requests(read_log(path))
    if not cycles:
        raise LogError(
            f"{path} has no answer of the model in cycles 1 to {CYCLES}, so there is nothing to assess. "
            "Is it the log of the run you mean?",
            path=path,
        )
    history = [_cycle(number, request, path) for number, request in cycles.items()]
    return repair([*_system(history[-1].messages), *_join(history)], NO_RESULT)


@dataclass(slots=True)
class _Request:
    """The last request of a cycle, its answer, and the calls that were run after it."""

    payload: Mapping[str, Any]
    results: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])


class _Cycle(NamedTuple):
    """A cycle as messages, and the results that were never sent to the model."""

    number: int
    messages: list[Message]
    results: list[ToolResultPart]


def _last_requests(events: Iterable[LogEvent]) -> dict[int, _Request]:
    """Return the last request of each of the first cycles, by their numbers."""
    found: dict[int, _Request] = {}
    for event in events:
        number = event.cycle_number
        if number > CYCLES:
            continue
        if event.event_type == "LLM_INVOCATION":
            found[number] = _Request(event.payload)
        elif event.event_type == "TOOL_CALL" and number in found:
            found[number].results.append(event.payload)
    return dict(sorted(found.items()))


def _cycle(number: int, request: _Request, path: Path) -> _Cycle:
    payload = request.payload
    try:
        messages = [message_from_dict(each) for each in (*payload["prompt_messages"], payload["response_message"])]
        results = [ToolResultPart("", _text(each["output"]), str(each["tool_name"])) for each in request.results]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise LogError(
            f"{path}: what cycle {number} says last cannot be read ({what:.200}). "
            "Is it a log of ContReAct's format? Repair it by hand, or assess another run",
            path=path,
        ) from error
    return _Cycle(number, messages, results)


def _text(output: object) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def _system(messages: Iterable[Message]) -> list[Message]:
    """Merge the system messages into one; return an empty list if there are none."""
    texts = [message.text for message in messages if message.role == "system" and message.text]
    return [system("\n\n".join(texts))] if texts else []


def _join(cycles: Iterable[_Cycle]) -> Iterator[Message]:
    """Yield all messages of the cycles but system messages, in order."""
    before: list[object] = []
    for number, messages, results in cycles:
        messages = [message for message in messages if message.role != "system" and has_content(message)]
        comparable = [_comparable(message) for message in messages]
        goes_on = len(comparable) > len(before) and comparable[: len(before)] == before
        new = len(before) if goes_on else 0
        calls = _Calls(number)
        yield from map(calls.named, messages[new:])
        answers = [Message("tool", (calls.answered(result),)) for result in results]
        yield from answers
        before += comparable[new:] + [_comparable(answer) for answer in answers]


def _comparable(message: Message) -> object:
    """Return the parts of a message that are equal in every request that repeats it."""
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    results = [part.content for part in message.parts if isinstance(part, ToolResultPart)]
    return message.role, message.text, calls, results


class _Calls:
    """The calls of one cycle, which get unique ids, and those without a result yet."""

    def __init__(self, cycle: int) -> None:
        self._cycle = cycle
        self._count = 0
        self._waiting: list[tuple[ToolCallPart, str]] = []

    def named(self, message: Message) -> Message:
        """Return `message` with the new ids of its calls, or of the calls that its results answer."""
        if message.role == "assistant":
            self._waiting.clear()
        return replace(message, parts=tuple(map(self._named, message.parts)))

    def _named(self, part: Part) -> Part:
        if isinstance(part, ToolResultPart):
            return self.answered(part)
        if not isinstance(part, ToolCallPart):
            return part
        self._count += 1
        id = f"c{self._cycle}_{self._count}"
        self._waiting.append((part, id))
        return replace(part, id=id)

    def answered(self, result: ToolResultPart) -> ToolResultPart:
        """Match `result` to the call that it names, or else to the next call of its tool, or else to the next call.

        Without an open call it gets no id, and is removed when the history is repaired.
        """
        if not self._waiting:
            return replace(result, call_id="")

        def distance(at: int) -> tuple[bool, bool]:
            call, _ = self._waiting[at]
            return call.id != result.call_id, call.name != result.name

        call, id = self._waiting.pop(min(range(len(self._waiting)), key=distance))
        return replace(result, call_id=id, name=call.name)
