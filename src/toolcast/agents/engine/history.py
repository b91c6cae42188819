"""Histories as every service takes them: what is wrong with one, how it is mended, and what goes first.

Services agree on this much: each call has one result, the results of an answer follow it at once, in the order of its
calls, no id is given to two calls, arguments are an object, and no message is empty. `faults` says where a history
departs from that, `repaired` mends those places and no others. Both go through it stretch by stretch: the model
speaks, and then others do, until the model speaks again. A result belongs to a call of its own stretch; anywhere else
it answers nothing.

What a message cannot hold at all, a call by the user for example, is left for the service's wire to refuse: no
cancelled turn and no crash leaves it behind, so it is a mistake that somebody should see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final, NamedTuple

from ...messages import Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ...providers.content_parts import valid_arguments

CUT_OFF: Final = "The call was not run: the answer it was made in was stopped before its end."
GONE_ON: Final = "The call was not run: the user went on without answering it."


def denied(reason: str) -> str:
    """What the model reads of a call that was not allowed."""
    return f"permission denied: {reason}"


class Ids:
    """The ids of the calls in a history, and new ones for calls whose id is taken.

    Some services number the calls of each answer from the start.
    """

    __slots__ = ("_taken",)

    def __init__(self, history: Iterable[Message] = ()) -> None:
        # With each id the last number that was put behind it, so that the next is found at once.
        self._taken: dict[str, int] = {call.id: 1 for message in history for call in message.tool_calls}

    def of(self, id: str) -> str:
        """The id for a new call that says `id`: that very one if it is free, otherwise one with a number behind it."""
        name = id = id or "call"
        number = self._taken.get(id, 0)
        while name in self._taken:
            number += 1
            name = f"{id}-{number}"
        self._taken[name] = 1
        if number:
            self._taken[id] = number
        return name


def unanswered(history: Sequence[Message]) -> tuple[ToolCallPart, ...]:
    """The calls that a history ends in: those of the last answer that have no result, if nothing else follows it."""
    end = len(history)
    while end and history[end - 1].role == "tool":
        end -= 1
    if not end:
        return ()
    given = _Stretch([], list(history[end:])).results()
    return tuple([call for call in history[end - 1].tool_calls if not (given[call.id] and given[call.id].pop())])


def faults(history: Sequence[Message]) -> list[str]:
    """What services would refuse in `history`, in words; nothing where all is well."""
    seen: set[str] = set()
    found: list[str] = []
    for stretch in _stretches(history):
        found += stretch.faults(seen)
        seen.update(call.id for call in stretch.calls())
    return found


def repaired(history: Sequence[Message], words: str) -> tuple[Message, ...]:
    """`history` as every service takes it. A call without a result gets an error as one, which says `words`.

    Results without a call, and second ones, are left out, and so are empty messages. What is sound stays as it is.
    """
    ids, seen = Ids(history), set[str]()
    kept: list[Message] = []
    for stretch in _stretches(history):
        if any(stretch.faults(seen)):
            kept += filter(says_something, stretch.mended(words, ids, seen))
        else:
            kept += [*stretch.said, *stretch.heard]
            seen.update(call.id for call in stretch.calls())
    return tuple(kept)


def says_something(message: Message) -> bool:
    """Return True if there is anything in `message` but thoughts and blanks, which some services take for nothing."""
    return any(map(_says_something, message.parts))


def _says_something(part: Part) -> bool:
    match part:
        case TextPart():
            return bool(part.text.strip())
        case ThinkingPart():
            # Anthropic's calls of server tools and their results are kept in thoughts without words.
            return part.opaque is not None and "anthropic" in part.opaque
        case _:
            return True


_MEDIA = 4_000


def estimated_tokens(messages: Iterable[Message]) -> int:
    """About how many tokens `messages` are: a fourth of their characters, and 1,000 for an image, sound or document.

    Of two histories together it is the sum, so that only what is new has to be counted.
    """
    return sum(-(-sum(map(_characters, message.parts)) // 4) for message in messages)


def _characters(part: Part) -> int:
    match part:
        case TextPart() | ThinkingPart():
            return len(part.text)
        case ToolCallPart():
            return len(part.name) + len(part.arguments)
        case ToolResultPart():
            return len(part.content) + len(part.images) * _MEDIA
        case _:
            return _MEDIA


def trimmed(history: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """A sound `history` without its `surplus` over so many tokens. It is sound, and not empty if it was not."""
    gone = surplus(history, tokens)
    return tuple([message for at, message in enumerate(history) if at not in gone])


def surplus(history: Sequence[Message], tokens: int) -> set[int]:
    """The places in a sound `history` of the messages that must go for it to have at most so many tokens.

    The oldest go first. Of what a user said and what followed, calls go before the rest, each with its results.
    System messages stay, and so does the end: what the user said last, and all that followed but calls before the last.
    """
    gone: set[int] = set()
    over = estimated_tokens(history) - tokens
    for places in _by_age(history) if over > 0 else ():
        gone.update(places)
        over -= estimated_tokens(history[at] for at in places)
        if over <= 0:
            break
    return gone


def _by_age(history: Sequence[Message]) -> Iterator[list[int]]:
    """The places of what may go, in the order in which it does; places in one list go together."""

    def calls(unit: list[list[int]]) -> list[list[int]]:
        return [block for block in unit if history[block[0]].tool_calls]

    *earlier, last = _units(history)
    for unit in earlier:
        yield from calls(unit)
        yield [at for block in unit if not history[block[0]].tool_calls for at in block]
    yield from calls(last[:-1])


def _units(history: Sequence[Message]) -> list[list[list[int]]]:
    """The places of messages by what belongs together: a call and its results; what a user said and what followed."""
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


class _Stretch(NamedTuple):
    """What the model `said` without a break, and what it `heard` before it spoke again."""

    said: list[Message]
    heard: list[Message]

    def calls(self) -> list[ToolCallPart]:
        return [call for message in self.said for call in message.tool_calls]

    def results(self) -> defaultdict[str, list[ToolResultPart]]:
        """The results by the ids of their calls, the first of each last."""
        found: defaultdict[str, list[ToolResultPart]] = defaultdict(list)
        for message in reversed(self.heard):
            for part in reversed(message.parts):
                if isinstance(part, ToolResultPart):
                    found[part.call_id].append(part)
        return found

    def faults(self, seen: set[str]) -> Iterator[str]:
        """What is wrong here; `seen` are the ids of all calls before."""
        for message in (*self.said, *self.heard):
            if not says_something(message):
                yield f"a message of the {message.role} is empty"
        calls = self.calls()
        ids = [call.id for call in calls]
        if not all(ids) or len(set(ids)) < len(ids) or not seen.isdisjoint(ids):
            yield f"an id is empty or another call's: {ids}"
        for call in calls:
            if _readable(call) is not call:
                yield f"the arguments of the call {call.id!r} are no object: {call.arguments:.40}"
        yield from self._misplaced(ids)

    def _misplaced(self, ids: list[str]) -> Iterator[str]:
        if any(message.tool_calls for message in self.said[:-1]):
            yield f"the model went on before it had all results of {ids}"
        first = list(takewhile(lambda message: message.role == "tool", self.heard))
        parts = [part for message in first for part in message.parts]
        given = [part.call_id if isinstance(part, ToolResultPart) else type(part).__name__ for part in parts]
        if given != ids:
            yield f"the calls {ids} are followed by results of {given}"
        for message in self.heard[len(first) :]:
            if message.role == "tool" or _without_results(message) is not message:
                yield "a result does not follow its call at once"

    def mended(self, words: str, ids: Ids, seen: set[str]) -> Iterator[Message]:
        """The messages of the stretch as every service takes them; the ids of its calls are `seen` then."""
        results = self.results()
        for message in self.said:
            answers: list[Message] = []
            parts: list[Part] = []
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    found = results[part.id]
                    id = ids.of(part.id) if part.id in seen or not part.id else part.id
                    seen.add(id)
                    part = replace(_readable(part), id=id)
                    answer = found.pop() if found else ToolResultPart(id, words, part.name, is_error=True)
                    answers.append(Message("tool", (replace(answer, call_id=id),)))
                parts.append(part)
            yield Message("assistant", tuple(parts))
            yield from answers
        yield from map(_without_results, self.heard)


def _stretches(history: Iterable[Message]) -> Iterator[_Stretch]:
    stretch = _Stretch([], [])
    for message in history:
        if message.role != "assistant":
            stretch.heard.append(message)
        elif stretch.heard:
            yield stretch
            stretch = _Stretch([message], [])
        else:
            stretch.said.append(message)
    yield stretch


def _readable(call: ToolCallPart) -> ToolCallPart:
    """`call` with the JSON text of an object as its arguments."""
    arguments = valid_arguments(call) if call.arguments.strip() else "{}"
    return call if arguments == call.arguments else replace(call, arguments=arguments)


def _without_results(message: Message) -> Message:
    """`message` without its results; a message of tools has nothing else."""
    parts = () if message.role == "tool" else tuple(p for p in message.parts if not isinstance(p, ToolResultPart))
    return message if len(parts) == len(message.parts) else replace(message, parts=parts)
