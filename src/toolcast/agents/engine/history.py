"""Validation, repair, trimming and token estimates of message histories.

Services agree on these rules: each call has one result; the results of a response follow it at once, in the order of
its calls; no two calls have one id; arguments are a JSON object; no message is empty. `find_problems` lists where a
history breaks them, and `repair` fixes those places and no others. Both go through it segment by segment: assistant
messages, then those of others, until the next assistant message. A result belongs to a call of its own segment;
anywhere else it answers nothing.

Parts in the wrong role, a call by the user for example, are left for the provider adapter to refuse: no cancelled turn
and no crash produces them, so they are a mistake that the caller should see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final, NamedTuple

from ...llms.token_estimates import estimate_message_tokens
from ...messages import CachePoint, Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ...providers.content_parts import CallIds, valid_arguments

CUT_OFF: Final = "The call was not run: the answer it was made in was stopped before its end."
SUPERSEDED: Final = "The call was not run: the user went on without answering it."


def unanswered_calls(history: Sequence[Message]) -> tuple[ToolCallPart, ...]:
    """Return the calls of the last response that have no result, if only tool messages follow it."""
    end = len(history)
    while end and history[end - 1].role == "tool":
        end -= 1
    if not end:
        return ()
    given = _Segment([], list(history[end:])).results()
    return tuple([call for call in history[end - 1].tool_calls if not (given[call.id] and given[call.id].pop())])


def find_problems(history: Sequence[Message]) -> list[str]:
    """Return descriptions of what services would refuse in `history`; an empty list if it is valid."""
    seen: set[str] = set()
    found: list[str] = []
    for segment in _segments(history):
        found += segment.problems(seen)
        seen.update(call.id for call in segment.calls())
    return found


def repair(history: Sequence[Message], text: str) -> tuple[Message, ...]:
    """Return `history` as every service accepts it. A call without a result gets an error result with `text`.

    Results without a call, second results and empty messages are removed. Valid messages stay as they are.
    """
    ids, seen = CallIds(history), set[str]()
    kept: list[Message] = []
    for segment in _segments(history):
        if any(segment.problems(seen)):
            kept += filter(has_content, segment.repaired(text, ids, seen))
        else:
            kept += [*segment.answers, *segment.others]
            seen.update(call.id for call in segment.calls())
    return tuple(kept)


def has_content(message: Message) -> bool:
    """Return True if `message` has more than thinking and whitespace, which some services treat as empty."""
    return any(map(_part_has_content, message.parts))


def _part_has_content(part: Part) -> bool:
    match part:
        case TextPart():
            return bool(part.text.strip())
        case ThinkingPart():
            # Anthropic's server tool calls and results are stored in thinking parts without text.
            return part.opaque is not None and "anthropic" in part.opaque
        case CachePoint():
            return False
        case _:
            return True


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Return an estimate of the tokens in `messages`, as for the limits of batch jobs (llms/token_estimates.py).

    The estimate of two histories together is the sum of theirs, so only new messages have to be counted.
    """
    return sum(map(estimate_message_tokens, messages))


def trim(history: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """Return a valid `history` without its `surplus` over `tokens`. It is valid, and not empty unless it was."""
    gone = surplus(history, tokens)
    return tuple([message for at, message in enumerate(history) if at not in gone])


def surplus(history: Sequence[Message], tokens: int) -> set[int]:
    """Return the indexes of the messages to remove from a valid `history` so that at most `tokens` are left.

    The oldest go first. Of a user's message and what follows it, calls go before the rest, each with its results.
    System messages stay, and so does the end: the user's last message, and everything after it except calls before the
    last.
    """
    gone: set[int] = set()
    over = estimate_tokens(history) - tokens
    for places in _by_age(history) if over > 0 else ():
        gone.update(places)
        over -= estimate_tokens(history[at] for at in places)
        if over <= 0:
            break
    return gone


def _by_age(history: Sequence[Message]) -> Iterator[list[int]]:
    """Yield lists of indexes that can be removed, the oldest first; those in one list go together."""

    def calls(unit: list[list[int]]) -> list[list[int]]:
        return [block for block in unit if history[block[0]].tool_calls]

    *earlier, last = _units(history)
    for unit in earlier:
        yield from calls(unit)
        yield [at for block in unit if not history[block[0]].tool_calls for at in block]
    yield from calls(last[:-1])


def _units(history: Sequence[Message]) -> list[list[list[int]]]:
    """Return the indexes in groups: user messages with what follows; inside, calls with their results."""
    units: list[list[list[int]]] = [[]]
    before = "user"
    for at, message in enumerate(history):
        if message.role == "system":
            continue
        if message.role == "tool" and units[-1]:
            units[-1][-1].append(at)
        elif message.role == "user" != before:
            units.append([[at]])
        else:
            units[-1].append([at])
        before = message.role
    return units


class _Segment(NamedTuple):
    """Consecutive assistant messages (`answers`), and the messages of `others` up to the next assistant message."""

    answers: list[Message]
    others: list[Message]

    def calls(self) -> list[ToolCallPart]:
        return [call for message in self.answers for call in message.tool_calls]

    def results(self) -> defaultdict[str, list[ToolResultPart]]:
        """Return the results by the ids of their calls, the first of each last."""
        found: defaultdict[str, list[ToolResultPart]] = defaultdict(list)
        for message in reversed(self.others):
            for part in reversed(message.parts):
                if isinstance(part, ToolResultPart):
                    found[part.call_id].append(part)
        return found

    def problems(self, seen: set[str]) -> Iterator[str]:
        """Yield what services would refuse here; `seen` are the ids of all earlier calls."""
        for message in (*self.answers, *self.others):
            if not has_content(message):
                yield f"a message of the {message.role} is empty"
        calls = self.calls()
        ids = [call.id for call in calls]
        if not all(ids) or len(set(ids)) < len(ids) or not seen.isdisjoint(ids):
            yield f"an id is empty or another call's: {ids}"
        for call in calls:
            if _with_valid_arguments(call) is not call:
                yield f"the arguments of the call {call.id!r} are no object: {call.arguments:.40}"
        yield from self._misplaced(ids)

    def _misplaced(self, ids: list[str]) -> Iterator[str]:
        if any(message.tool_calls for message in self.answers[:-1]):
            yield f"the model went on before it had all results of {ids}"
        first = list(takewhile(lambda message: message.role == "tool", self.others))
        parts = [part for message in first for part in message.parts]
        given = [part.call_id if isinstance(part, ToolResultPart) else type(part).__name__ for part in parts]
        if given != ids:
            yield f"the calls {ids} are followed by results of {given}"
        for message in self.others[len(first) :]:
            if message.role == "tool" or _drop_results(message) is not message:
                yield "a result does not follow its call at once"

    def repaired(self, text: str, ids: CallIds, seen: set[str]) -> Iterator[Message]:
        """Yield the segment's messages as every service accepts them; add the ids of its calls to `seen`."""
        results = self.results()
        for message in self.answers:
            results_here: list[Message] = []
            parts: list[Part] = []
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    found = results[part.id]
                    id = ids.unique(part.id) if part.id in seen or not part.id else part.id
                    seen.add(id)
                    part = replace(_with_valid_arguments(part), id=id)
                    answer = found.pop() if found else ToolResultPart(id, text, part.name, is_error=True)
                    results_here.append(Message("tool", (replace(answer, call_id=id),)))
                parts.append(part)
            yield Message("assistant", tuple(parts))
            yield from results_here
        yield from map(_drop_results, self.others)


def _segments(history: Iterable[Message]) -> Iterator[_Segment]:
    segment = _Segment([], [])
    for message in history:
        if message.role != "assistant":
            segment.others.append(message)
        elif segment.others:
            yield segment
            segment = _Segment([message], [])
        else:
            segment.answers.append(message)
    yield segment


def _with_valid_arguments(call: ToolCallPart) -> ToolCallPart:
    """Return `call` with the JSON text of an object as its arguments."""
    arguments = valid_arguments(call)
    return call if arguments == call.arguments else replace(call, arguments=arguments)


def _drop_results(message: Message) -> Message:
    """Return `message` without its results; a tool message has nothing else."""
    parts = () if message.role == "tool" else tuple(p for p in message.parts if not isinstance(p, ToolResultPart))
    return message if len(parts) == len(message.parts) else replace(message, parts=parts)
