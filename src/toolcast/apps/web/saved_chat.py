"""`SavedChat`: a chat of the page in a store of sessions, with which `toolcast chat` can go on, and the reverse.

The log is that of a session: its history, usage, rules and decisions. What only the page needs is in the details of the
session, as `chat` and `branches`. If another program has gone on with the session since, they apply as far as its
history is still the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any, Final, cast

from ...agents.engine.history import unanswered_calls
from ...agents.engine.session_state import SessionState, read_details
from ...agents.sessions.saved_session import SavedSession
from ...chat.chat_context import ChatContext, ChatState
from ...chat.turn_hooks import TURN_STATES
from ...messages import Message, assistant
from ...stores.store import Store
from ...values.approvals import PermissionRequest
from ..call_log import clean_title
from ..session_index import first_words
from .chat_view import AnswerNote

_FIELDS: Final = (
    "interrupted",
    "model",
    "last_error",
    "retry",
    "tools",
    "stop_reason",
    "pending",
    "running",
    "rounds",
    "mode",
    "marks",
    "held",
)
"""The fields of the context that a session does not have."""

_PARTIAL: Final = "partial"
"""The detail with the text of the answer in progress: the number of a piece, from 0 on, and the piece."""

_ANSWER: Final = "answer"
"""The detail with the key of the last answer, its model, and its time."""

_HISTORY: Final = ("message", "cut", "replaced", "started", "waiting")
"""The kinds of records that change the history or the calls."""


class SavedChat:
    """A chat in `store`. It has the lease of the session `id` until `close`.

    Raises:
        SessionLocked: The session is open elsewhere.
        ToolcastError: The log is damaged.
    """

    def __init__(self, id: str, store: Store, *, clock: Callable[[], float] = time) -> None:
        self._session = SavedSession(id, store)
        self._clock = clock
        self._changes: int = _chat_fields(self._session.details).get("changes", 0)
        self._id = id
        self._partial = ""
        self._parts = 0

    @property
    def exists(self) -> bool:
        """True if anything was written."""
        return self._session.exists

    @property
    def state(self) -> SessionState:
        """The state that was written."""
        return self._session.state

    @property
    def title(self) -> str:
        """The title that was given, or else the beginning of the first message."""
        state = self._session.state
        return str(self._session.details.get("title") or "") or first_words((*state.history, *state.injected))

    def rename(self, title: str) -> None:
        """Give the chat a title; an empty one restores the beginning of its first message."""
        self._session.describe({"title": clean_title(title)})

    def save(
        self,
        state: ChatState,
        context: ChatContext,
        *,
        updated: float | None = None,
        answer: tuple[int, AnswerNote] | None = None,
    ) -> None:
        """Write what has changed. A chat without messages is not written.

        Args:
            state: The state of the chat.
            context: Its context.
            updated: The time of the last message, by default now if there is a new one.
            answer: The index of a new answer, and who has written it.
        """
        session = self._session
        if not (session.exists or context.messages or context.queue or context.held):
            return
        before, now = session.state, self._clock()
        after = SessionState(
            self._id,
            before.opened or now,
            context.messages,
            context.usage,
            frozenset(context.running),
            context.remembered,
            sum(message.role == "user" for message in context.messages),
            _end(state, context),
            before.spent,
            tuple([answer.to_dict() for answer in context.answers]),
            context.queue,
        )
        data = replace(context, messages=(), queue=()).to_dict()
        if after != before:  # then the records of this change end with `chat`, by which they are recognized
            self._changes += 1
        details: dict[str, Any] = {
            "chat": {
                "state": state,
                "changes": self._changes,
                **{name: data[name] for name in _FIELDS if name in data},
            },
            "branches": data.get("branches", []),
            "model": context.model or "",
            "mode": context.mode or "",
        }
        if answer is not None:
            details[_ANSWER] = [answer_key(answer[0], context.messages[answer[0]]), *answer[1]]
        if session.details.get(_PARTIAL):
            details[_PARTIAL] = []
            self._partial, self._parts = "", 0
        if not session.exists:
            details["directory"] = str(Path.cwd())
        if (before.history, before.injected) != (after.history, after.injected):
            details["updated"] = now if updated is None else updated
        session.write(after, {name: value for name, value in details.items() if value or name in session.details})

    def save_partial(self, text: str) -> None:
        """Write what is new in the text of the answer in progress: a chat that is cut off has it when it is read."""
        if not text.startswith(self._partial):
            self._partial, self._parts = "", 0
        if self.exists and text != self._partial:
            self._session.describe({_PARTIAL: [self._parts, text[len(self._partial) :]]})
            self._partial, self._parts = text, self._parts + 1

    def close(self) -> None:
        """Release the lease."""
        self._session.close()


def _end(state: ChatState, context: ChatContext) -> str | None:
    """Return how the last turn has ended, as sessions store it."""
    if state in TURN_STATES:
        return None
    if state == "waiting_for_tool_approval":
        return "approval"
    if context.last_error is not None and context.last_error.stage != "model_load":
        return "error"
    return "cancelled" if context.retry is not None else context.stop_reason or "end_turn"


def chat_snapshot(records: Sequence[Mapping[str, Any]], state: SessionState) -> dict[str, Any]:
    """Return the snapshot of a chat from the records of its session and the state that they lead to.

    Its messages are those of the state themselves, which `save` then recognizes as written.
    """
    details = read_details(records)
    chat = _chat_fields(details)
    same = _same_messages(records)
    context: dict[str, Any] = {name: chat[name] for name in _FIELDS if name in chat}
    branches: Sequence[Mapping[str, Any]] = details.get("branches") or []
    context["branches"] = branches
    name: str = chat.pop("state", "idle")
    if name == "streaming_response" and same is None and (partial := _partial_text(records)):
        context["streamed"] = assistant(partial).to_dict()
    if same is not None:  # another program has gone on with the session
        context["marks"] = [mark for mark in context.get("marks", ()) if mark["index"] < same]
        context["interrupted"] = [at for at in context.get("interrupted", ()) if at < same]
        context["branches"] = [point for point in branches if point["index"] < same]
        context |= {"last_error": None, "retry": None, "rounds": 0, "stop_reason": None}
        context |= {"pending": _waiting(state), "running": sorted(state.started)}
        name = "calling_tool" if state.started else "waiting_for_tool_approval" if context["pending"] else "idle"
    context |= {
        "messages": state.history,
        "queue": state.injected,
        "usage": state.usage.to_dict(),
        "remembered": [dict(rule) for rule in state.remembered],
        "answers": [dict(answer) for answer in state.answers],
    }
    return {"version": 1, "state": name, "context": context}


def hold_queue(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return the snapshot with its queue held back if the last turn did not end by itself: a user decides then."""
    context = snapshot["context"]
    if not context["queue"] or not (snapshot["state"] in TURN_STATES or context.get("retry") is not None):
        return snapshot
    held = [*(message.to_dict() for message in context["queue"]), *context.get("held", ())]
    return snapshot | {"context": context | {"queue": (), "held": held}}


def _chat_fields(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the page has written, as they were after its last change."""
    found = details.get("chat")
    return dict(cast("dict[str, Any]", found)) if isinstance(found, dict) else {}


def answer_notes(records: Sequence[Mapping[str, Any]]) -> dict[str, AnswerNote]:
    """Return who has written the answers of all branches of a chat, by their keys."""
    notes: dict[str, AnswerNote] = {}
    for record in records:
        details = record.get("details")
        if isinstance(details, dict) and _ANSWER in details:
            key, model, at = cast("dict[str, Any]", details)[_ANSWER]
            notes[str(key)] = AnswerNote(str(model), float(at))
    return notes


def answer_key(index: int, message: Message) -> str:
    """Return what an answer is recognized by when its branch is shown again: its place and its content."""
    content = json.dumps([index, message.to_dict()], sort_keys=True, default=str)
    return sha256(content.encode()).hexdigest()[:24]


def _partial_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the answer that was in progress at the end of the log."""
    pieces: list[str] = []
    for record in records:
        details = record.get("details")
        if isinstance(details, dict) and _PARTIAL in details:
            number, piece = cast("dict[str, Any]", details)[_PARTIAL] or (0, "")
            pieces = [*pieces[: int(number)], str(piece)]
    return "".join(pieces)


def _waiting(state: SessionState) -> list[dict[str, Any]]:
    calls = [call for call in unanswered_calls(state.history) if call.id not in state.started]
    return [PermissionRequest(call.id, call.name, call.arguments).to_dict() for call in calls]


def _same_messages(records: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the number of messages that are the same since the page wrote last; None if it wrote last."""
    same: int | None = None
    count = 0
    for record in records:
        kind, details = record.get("kind"), record.get("details")
        if kind == "opened" and isinstance(details, dict) and "chat" in details:
            same = None
        elif kind in _HISTORY:
            left = {"cut": record.get("messages", 0), "replaced": 0}.get(kind, count)
            same = left if same is None else min(same, left)
        count = _count_after(record, count)
    return same


def _count_after(record: Mapping[str, Any], count: int) -> int:
    """Return the number of messages after a record."""
    match record.get("kind"):
        case "message":
            return count + 1
        case "cut":
            return int(record["messages"])
        case "replaced":
            return len(record["history"])
        case _:
            return count
