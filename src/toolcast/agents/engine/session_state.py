"""A session as a list of records, and what has to be added to it: no I/O, no clock.

`fold` reads the records into a `SessionState`; `difference` says which records lead from one state to another. For
the usual step, where the history has grown at its end, these are only what is new; where messages were taken off its
end (a turn that failed), `cut` says how many are left. So what a step writes does not grow with the history. Whatever
else may have happened to it (a repair, a compaction) is one record, `replaced`, with all of it. Nothing that is read
is trusted: it may be damaged, or made by a stranger, and is data in any case.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, Final, TypeAlias

from ...errors import ToolcastError
from ...messages import Message, ToolResultPart
from ...usage import NO_USAGE, Usage

logger: Final = logging.getLogger("toolcast")

VERSION = (1, 0)
"""Of the records: with another first number they cannot be read, with a higher second one there are more kinds."""

Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a session is made of.

    `opened` is the time at which it was begun. `started` are the ids of calls that began to run and have no answer:
    after a crash nobody knows what they did. `remembered` are the rules that people's answers left, as data. `turns`
    counts those begun, and `end` is how the last one ended: None while it goes on, or was cut off by a crash.
    `spent` is what its budget counts, sub-agents included (`Spending.to_dict`).
    `answers` were given to some of the calls that wait for one, and `injected` messages wait for the next request.
    """

    id: str
    opened: float = 0.0
    history: tuple[Message, ...] = ()
    usage: Usage = NO_USAGE
    started: frozenset[str] = frozenset()
    remembered: tuple[Mapping[str, Any], ...] = ()
    turns: int = 0
    end: str | None = None
    spent: Mapping[str, Any] = field(default_factory=dict[str, Any])
    answers: tuple[Mapping[str, Any], ...] = ()
    injected: tuple[Message, ...] = ()


def opened(id: str, time: float) -> Record:
    """The record that every log begins with."""
    return {"kind": "opened", "version": list(VERSION), "id": id, "time": time}


def difference(before: SessionState, after: SessionState) -> list[Record]:
    """The records that lead from `before` to `after`, two states of one session, in the order to write them."""
    grown = _grown(before, after)
    records = [_replaced(after)] if grown is None else grown
    if (after.usage, after.spent) != (before.usage, before.spent):
        records.append({"kind": "usage", "usage": after.usage.to_dict(), "spent": dict(after.spent)})
    if (after.turns, after.end) != (before.turns, before.end):
        records.append({"kind": "turn", "turns": after.turns, "end": after.end})
    if (after.answers, after.injected) != (before.answers, before.injected):
        injected = [message.to_dict() for message in after.injected]
        records.append({"kind": "waiting", "answers": [dict(answer) for answer in after.answers], "injected": injected})
    return records


def _grown(before: SessionState, after: SessionState) -> list[Record] | None:
    """Return the records of what was added to a state, or taken off the end of its history.

    None where only the whole of it says what has changed.
    """
    kept = _kept(before.history, after.history)
    rules = _rest(before.remembered, after.remembered)
    if rules is None or (not kept and before.history):
        return None
    new = after.history[kept:]
    open_calls = before.started.difference(*map(_answered, new))
    if not open_calls <= after.started:
        return None
    return [
        *([{"kind": "cut", "messages": kept}] if kept < len(before.history) else []),
        *({"kind": "message", "message": message.to_dict()} for message in new),
        *({"kind": "started", "call_id": id} for id in sorted(after.started - open_calls)),
        *({"kind": "remembered", "rule": dict(rule)} for rule in rules),
    ]


def _kept(before: tuple[Message, ...], after: tuple[Message, ...]) -> int:
    """Return how many messages at the start of `before` are also the start of `after`."""
    # Tuples are compared item by item, and an item with itself by identity: a few nanoseconds for each old message.
    shorter = min(len(before), len(after))
    if before[:shorter] == after[:shorter]:
        return shorter
    return next(at for at in range(shorter) if before[at] != after[at])


def _rest(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return what stands in `after` behind all of `before`; None where it does not begin so."""
    return after[len(before) :] if after[: len(before)] == before else None


def _answered(message: Message) -> list[str]:
    return [part.call_id for part in message.parts if isinstance(part, ToolResultPart)]


def _replaced(state: SessionState) -> Record:
    return {
        "kind": "replaced",
        "history": [message.to_dict() for message in state.history],
        "started": sorted(state.started),
        "remembered": [dict(rule) for rule in state.remembered],
    }


def fold(records: Iterable[Mapping[str, Any]]) -> SessionState:
    """The state that `records` lead to. Raises `ToolcastError`, which names the record, where they cannot be read."""
    log = _Log()
    number = 0
    for number, record in enumerate(records, 1):
        try:
            log.take(record)
        except (TypeError, ValueError, LookupError, OverflowError, RecursionError) as error:
            raise _unreadable(number, f"{type(error).__name__}: {error}") from error
    if not number:
        raise ToolcastError("there is no such session: its log is empty")
    return log.state()


def _unreadable(number: int, why: str) -> ToolcastError:
    why = " ".join(why.split())[:300]
    return ToolcastError(f"record {number} of the session is damaged: {why}. Repair it by hand, or delete it")


class _Log:
    """The state that is being read."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.opened: float = 0.0
        self.history: list[Message] = []
        self.usage: Usage = NO_USAGE
        self.spent: Mapping[str, Any] = {}
        self.started: set[str] = set()
        self.remembered: list[Mapping[str, Any]] = []
        self.turns: int = 0
        self.end: str | None = None
        self.answers: list[Mapping[str, Any]] = []
        self.injected: list[Message] = []
        self.newer: bool = False
        self.ignored: set[str] = set()

    def take(self, record: Mapping[str, Any]) -> None:
        """Read one record."""
        kind = _is(str, record["kind"])
        if self.id is None and kind != "opened":
            raise ValueError(f"the first record is {kind!r}, not 'opened'")
        if kind in _KINDS:
            _KINDS[kind](self, record)
        elif self.newer:
            self._ignore(kind)
        else:
            raise ValueError(f"{kind[:50]!r} is no kind of record")

    def state(self) -> SessionState:
        """What was read."""
        return SessionState(
            id=self.id or "",
            opened=self.opened,
            history=tuple(self.history),
            usage=self.usage,
            spent=self.spent,
            started=frozenset(self.started),
            remembered=tuple(self.remembered),
            turns=self.turns,
            end=self.end,
            answers=tuple(self.answers),
            injected=tuple(self.injected),
        )

    def _ignore(self, kind: str) -> None:
        if kind not in self.ignored:
            self.ignored.add(kind)
            logger.warning("the session %s was written by a newer toolcast: its %r records are left out", self.id, kind)


def _opened(log: _Log, record: Mapping[str, Any]) -> None:
    """It may come again: whoever goes on with a log in a newer version says so by another one."""
    major, minor = (_is(int, number) for number in _is(list, record["version"]))
    if major != VERSION[0]:
        raise ValueError(f"version {major}.{minor} of the records, and only {VERSION[0]}.x is known: upgrade toolcast")
    id = _is(str, record["id"])
    if log.id not in (None, id):
        raise ValueError(f"it belongs to another session, {id[:100]!r}")
    if log.id is None:
        log.id, log.opened = id, float(_is((int, float), record["time"]))
    log.newer = log.newer or minor > VERSION[1]


def _message(log: _Log, record: Mapping[str, Any]) -> None:
    message = Message.from_dict(_is(dict, record["message"]))
    log.history.append(message)
    log.started.difference_update(_answered(message))


def _cut(log: _Log, record: Mapping[str, Any]) -> None:
    kept = _is(int, record["messages"])
    if not 0 <= kept <= len(log.history):
        raise ValueError(f"{kept} messages of {len(log.history)} cannot be kept")
    del log.history[kept:]


def _started(log: _Log, record: Mapping[str, Any]) -> None:
    log.started.add(_is(str, record["call_id"]))


def _remembered(log: _Log, record: Mapping[str, Any]) -> None:
    log.remembered.append(_is(dict, record["rule"]))


def _replaced_by(log: _Log, record: Mapping[str, Any]) -> None:
    log.history = [Message.from_dict(_is(dict, message)) for message in _is(list, record["history"])]
    log.started = {_is(str, id) for id in _is(list, record["started"])}
    log.remembered = [_is(dict, rule) for rule in _is(list, record["remembered"])]


def _usage(log: _Log, record: Mapping[str, Any]) -> None:
    log.usage = _tokens(_is(dict, record["usage"]))
    spent = _is(dict, record["spent"])
    if spent:
        usage, calls = _tokens(_is(dict, spent["usage"])), _is(int, spent["tool_calls"])
        spent = {"usage": usage.to_dict(), "tool_calls": calls, "seconds": _is((int, float), spent["seconds"])}
    log.spent = spent


def _tokens(said: Mapping[str, Any]) -> Usage:
    return Usage(*(_is(int, said[each.name]) for each in fields(Usage)))


def _turn(log: _Log, record: Mapping[str, Any]) -> None:
    end = record["end"]
    log.turns, log.end = _is(int, record["turns"]), None if end is None else _is(str, end)


def _waiting(log: _Log, record: Mapping[str, Any]) -> None:
    log.answers = [_is(dict, answer) for answer in _is(list, record["answers"])]
    log.injected = [Message.from_dict(_is(dict, message)) for message in _is(list, record["injected"])]


_KINDS: Mapping[str, Callable[[_Log, Mapping[str, Any]], None]] = {
    "opened": _opened,
    "message": _message,
    "cut": _cut,
    "started": _started,
    "remembered": _remembered,
    "replaced": _replaced_by,
    "usage": _usage,
    "turn": _turn,
    "waiting": _waiting,
}


def _is(kind: type[Any] | tuple[type[Any], ...], value: Any) -> Any:
    """`value`, if it is of that type. Else raises `TypeError`."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{str(value)[:50]!r} is a {type(value).__name__}, which was not to be expected there")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not a number in JSON")
    return value
