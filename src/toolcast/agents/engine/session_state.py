"""`SessionState`, and its log: `fold` reads records into a state, `difference` writes the records between two states.

No I/O, no clock. Usually the history has grown at its end, and the records are the new messages; if messages were
removed from its end (a turn that failed), `cut` has the number of those that are left. So the size of a step's records
does not depend on the length of the history. Any other change (a repair, a compaction) is one record, `replaced`, with
the whole history. The records are untrusted: they may be damaged, or written by others, and are treated as data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field, fields
from math import isfinite
from typing import Any, Final, TypeAlias, cast

from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...llms.request import StoredResponse
from ...messages import Message, ToolResultPart
from ...values.usage import NO_USAGE, TOKENS, Usage
from .instructions import SentInstructions

logger: Final = logging.getLogger("toolcast")

VERSION = (1, 0)
"""Of the records: with another first number they cannot be read, with a higher second one there are more kinds."""

Record: TypeAlias = dict[str, Any]

_STORED_FIELDS: Final = tuple(field.name for field in fields(StoredResponse))


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of a session.

    `opened` is the time at which it was begun. `started` are the ids of calls that began to run and have no result:
    after a crash their effect is unknown. `remembered` are the rules from approvals for the session, as data. `turns`
    counts those begun, and `end` is how the last one ended: None while it is running, or after a crash. `spent` is the
    usage of the budget, sub-agents included (`BudgetTracker.to_dict`). `answers` are decisions about some of the
    pending calls, and `injected` messages wait for the next request. `stored` is the last response that a service
    stores, and `seen` is the number of messages that it has: those before the response, and the response.
    `instructions` are those that thoughts of the history are bound to.
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
    stored: StoredResponse | None = None
    seen: int = 0
    instructions: SentInstructions | None = None


def opened_record(id: str, time: float, details: Mapping[str, Any] | None = None) -> Record:
    """Return the first record of a log, or a further one that adds `details`, for example a title.

    Details are for people.
    """
    record: Record = {"kind": "opened", "version": list(VERSION), "id": id, "time": time}
    return {**record, "details": dict(details)} if details else record


def read_details(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the details in `records`; later ones replace earlier ones. Anything that is no detail is ignored."""
    details: dict[str, Any] = {}
    for record in records:
        if record.get("kind") == "opened" and isinstance(found := record.get("details"), dict):
            details |= cast("dict[str, Any]", found)
    return details


def difference(before: SessionState, after: SessionState) -> list[Record]:
    """Return the records that lead from `before` to `after`, in the order to write them."""
    grown = _added_records(before, after)
    records = [_replaced(after)] if grown is None else grown
    if (after.usage, after.spent) != (before.usage, before.spent):
        records.append({"kind": "usage", "usage": after.usage.to_dict(), "spent": dict(after.spent)})
    sent = after.instructions
    changed = {} if sent == before.instructions else {"instructions": sent and sent.to_dict()}
    if changed or (after.turns, after.end) != (before.turns, before.end):
        records.append({"kind": "turn", "turns": after.turns, "end": after.end, **changed})
    if (after.answers, after.injected) != (before.answers, before.injected):
        injected = [message.to_dict() for message in after.injected]
        records.append({"kind": "waiting", "answers": [dict(answer) for answer in after.answers], "injected": injected})
    return records


def _added_records(before: SessionState, after: SessionState) -> list[Record] | None:
    """Return the records of what was added, or removed from the end of the history.

    None if only the whole history describes the change.
    """
    kept = _common_length(before.history, after.history)
    rules = _suffix(before.remembered, after.remembered)
    if rules is None or (not kept and before.history):
        return None
    new = after.history[kept:]
    open_calls = before.started.difference(*map(_answered_ids, new))
    if not open_calls <= after.started:
        return None
    return [
        *([{"kind": "cut", "messages": kept}] if kept < len(before.history) else []),
        *(_message_record(message, after, kept + place) for place, message in enumerate(new, 1)),
        *({"kind": "started", "call_id": id} for id in sorted(after.started - open_calls)),
        *({"kind": "remembered", "rule": dict(rule)} for rule in rules),
    ]


def _message_record(message: Message, after: SessionState, count: int) -> Record:
    """Return the record of the message that makes `count` of them."""
    record: Record = {"kind": "message", "message": message.to_dict()}
    return record if after.stored is None or count != after.seen else {**record, "stored": asdict(after.stored)}


def _common_length(before: tuple[Message, ...], after: tuple[Message, ...]) -> int:
    """Return how many messages at the start of `before` are also the start of `after`."""
    # Tuples are compared item by item, and an item with itself by identity: a few nanoseconds for each old message.
    shorter = min(len(before), len(after))
    if before[:shorter] == after[:shorter]:
        return shorter
    return next(at for at in range(shorter) if before[at] != after[at])


def _suffix(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the items of `after` behind all of `before`; None if it does not start with them."""
    return after[len(before) :] if after[: len(before)] == before else None


def _answered_ids(message: Message) -> list[str]:
    return [part.call_id for part in message.parts if isinstance(part, ToolResultPart)]


def _replaced(state: SessionState) -> Record:
    return {
        "kind": "replaced",
        "history": [message.to_dict() for message in state.history],
        "started": sorted(state.started),
        "remembered": [dict(rule) for rule in state.remembered],
        **({} if state.stored is None else {"stored": asdict(state.stored), "seen": state.seen}),
    }


def fold(records: Iterable[Mapping[str, Any]]) -> SessionState:
    """Return the state that `records` lead to; raise a `ToolcastError` that names an unreadable record."""
    log = _LogReader()
    number = 0
    for number, record in enumerate(records, 1):
        try:
            log.apply(record)
        except (TypeError, ValueError, LookupError, OverflowError, RecursionError) as error:
            raise _unreadable(number, f"{type(error).__name__}: {error}") from error
    if not number:
        raise ToolcastError("there is no such session: its log is empty")
    return log.state()


def _unreadable(number: int, why: str) -> ToolcastError:
    why = " ".join(why.split())[:300]
    return ToolcastError(f"record {number} of the session is damaged: {why}. Repair it by hand, or delete it")


class _LogReader:
    """The state that the records so far lead to."""

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
        self.stored: StoredResponse | None = None
        self.seen: int = 0
        self.instructions: SentInstructions | None = None
        self.newer: bool = False
        self.ignored: set[str] = set()

    def apply(self, record: Mapping[str, Any]) -> None:
        """Apply one record."""
        kind = _require_type(str, record["kind"])
        if self.id is None and kind != "opened":
            raise ValueError(f"the first record is {kind!r}, not 'opened'")
        if kind in _KINDS:
            _KINDS[kind](self, record)
        elif self.newer:
            self._ignore(kind)
        else:
            raise ValueError(f"{kind[:50]!r} is no kind of record")

    def state(self) -> SessionState:
        """Return the state that was read."""
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
            stored=self.stored,
            seen=self.seen,
            instructions=self.instructions,
        )

    def read_stored(self, record: Mapping[str, Any], seen: int) -> None:
        """Read the stored response in a record, if it has one. `seen`: the number of messages that it has."""
        if (stored := record.get("stored")) is not None:
            found = _require_type(dict, stored)
            self.stored = StoredResponse(**{name: _require_type(str, found[name]) for name in _STORED_FIELDS})
            self.seen = seen

    def forget_stored(self) -> None:
        """Forget the stored response: the history has not all of its messages any more."""
        self.stored, self.seen = None, 0

    def _ignore(self, kind: str) -> None:
        if kind not in self.ignored:
            self.ignored.add(kind)
            logger.warning("the session %s was written by a newer toolcast: its %r records are left out", self.id, kind)


def _opened(log: _LogReader, record: Mapping[str, Any]) -> None:
    """Read the version. The record may occur again: a newer version that continues a log writes its own."""
    major, minor = (_require_type(int, number) for number in _require_type(list, record["version"]))
    if major != VERSION[0]:
        raise ValueError(f"version {major}.{minor} of the records, and only {VERSION[0]}.x is known: upgrade toolcast")
    id = _require_type(str, record["id"])
    if log.id not in (None, id):
        raise ValueError(f"it belongs to another session, {id[:100]!r}")
    if log.id is None:
        log.id, log.opened = id, float(_require_type((int, float), record["time"]))
    log.newer = log.newer or minor > VERSION[1]


def _message(log: _LogReader, record: Mapping[str, Any]) -> None:
    message = Message.from_dict(_require_type(dict, record["message"]))
    log.history.append(message)
    log.read_stored(record, len(log.history))
    log.started.difference_update(_answered_ids(message))


def _cut(log: _LogReader, record: Mapping[str, Any]) -> None:
    kept = _require_type(int, record["messages"])
    if not 0 <= kept <= len(log.history):
        raise ValueError(f"{kept} messages of {len(log.history)} cannot be left")
    del log.history[kept:]
    if kept < log.seen:
        log.forget_stored()


def _started(log: _LogReader, record: Mapping[str, Any]) -> None:
    log.started.add(_require_type(str, record["call_id"]))


def _remembered(log: _LogReader, record: Mapping[str, Any]) -> None:
    log.remembered.append(_require_type(dict, record["rule"]))


def _replaced_by(log: _LogReader, record: Mapping[str, Any]) -> None:
    log.history = [
        Message.from_dict(_require_type(dict, message)) for message in _require_type(list, record["history"])
    ]
    log.started = {_require_type(str, id) for id in _require_type(list, record["started"])}
    log.remembered = [_require_type(dict, rule) for rule in _require_type(list, record["remembered"])]
    log.forget_stored()
    log.read_stored(record, min(_require_type(int, record.get("seen", 0)), len(log.history)))


def _usage(log: _LogReader, record: Mapping[str, Any]) -> None:
    log.usage = _usage_from(_require_type(dict, record["usage"]))
    spent = _require_type(dict, record["spent"])
    if spent:
        usage, calls = _usage_from(_require_type(dict, spent["usage"])), _require_type(int, spent["tool_calls"])
        spent = {
            "usage": usage.to_dict(),
            "tool_calls": calls,
            "seconds": _require_type((int, float), spent["seconds"]),
        }
    log.spent = spent


def _usage_from(data: Mapping[str, Any]) -> Usage:
    for name in TOKENS[:4]:  # the others are left out where they are 0
        _require_type(int, data[name])
    return Usage.from_dict({name: data[name] for name in (*TOKENS, "details", "cost", "known_cost") if name in data})


def _turn(log: _LogReader, record: Mapping[str, Any]) -> None:
    end = record["end"]
    log.turns, log.end = _require_type(int, record["turns"]), None if end is None else _require_type(str, end)
    if "instructions" in record:
        sent = record["instructions"]
        log.instructions = None if sent is None else SentInstructions.from_dict(_require_type(dict, sent))


def _waiting(log: _LogReader, record: Mapping[str, Any]) -> None:
    log.answers = [_require_type(dict, answer) for answer in _require_type(list, record["answers"])]
    log.injected = [
        Message.from_dict(_require_type(dict, message)) for message in _require_type(list, record["injected"])
    ]


_KINDS: Mapping[str, Callable[[_LogReader, Mapping[str, Any]], None]] = {
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


def _require_type(kind: type[Any] | tuple[type[Any], ...], value: Any) -> Any:
    """Return `value` if it has the type `kind`; raise `TypeError` otherwise."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{str(value)[:50]!r} is a {type(value).__name__}, which was not to be expected there")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not a number in JSON")
    return value
