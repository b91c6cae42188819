"""`ChatTurn`: a turn of a chat, as its hooks observe it.

A turn is the work between two rests of a chat: it begins with a message of the user, an answered approval or a retry,
and ends in a state that waits for the user. The machine begins and ends it; the stages count its requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..errors import Attempt, RoundsExceeded, ToolcastError, TurnCancelled, TurnFailed, TurnStopped, set_requests
from ..messages import Message
from ..values.approvals import PermissionRequest
from ..values.hooks import CallHooks
from ..values.turn import Turn, TurnEnd
from ..values.usage import NO_USAGE, Usage
from .actions import limit_text
from .chat_context import ChatContext, ChatState
from .events import ChatEvent, Failure, Interrupt, RejectToolCall, StreamComplete, ToolCallFailure, ToolCallSuccess

TURN_STATES: Final[tuple[ChatState, ...]] = (
    "searching_tools",
    "generating_response",
    "streaming_response",
    "calling_tool",
)
"""The states of a turn. In every other state it has ended."""


class ChatTurn:
    """A turn in progress. There is one only if the chat has hooks.

    Attributes:
        hooks: Its hooks.
        usage: The tokens of its requests, those of interrupted ones included.
        rounds: The number of its model requests.
        attempts: The requests that were sent, which an error of the turn carries.
        origin: The provider and the model of the last one.
        error: The error of the stage that failed.
        due: True from the event that ends it until `report`.
    """

    __slots__ = (
        "_begin",
        "_end",
        "_messages",
        "_observer",
        "_pending",
        "attempts",
        "due",
        "error",
        "hooks",
        "origin",
        "rounds",
        "usage",
    )

    def __init__(self, hooks: CallHooks, asked: Sequence[Message], begin: int) -> None:
        """Begin a turn.

        Args:
            hooks: Its hooks.
            asked: The messages of the user that it begins with.
            begin: The number of messages before those that it adds.
        """
        self.hooks: CallHooks = hooks
        self.usage: Usage = NO_USAGE
        self.rounds: int = 0
        self.attempts: list[Attempt] = []
        self.origin: Mapping[str, Any] = {}
        self.error: BaseException | None = None
        self.due: bool = False
        self._begin = begin
        self._observer = hooks.observer()
        self._messages: tuple[Message, ...] = ()
        self._pending: tuple[PermissionRequest, ...] = ()
        self._end: TurnEnd = "end_turn"
        hooks.emit("turn_start", tuple(asked))

    def observe(self, state: ChatState) -> None:
        """Notify the hooks of a state."""
        if self._observer is not None:
            self._observer(self.hooks.info.id, state)

    def end(self, event: ChatEvent, state: ChatState, rest: ChatState, context: ChatContext, delivered: int) -> None:
        """Store how the turn has ended; `report` notifies the hooks.

        Args:
            event: The event that ended it.
            state: The state before that.
            rest: The state after it.
            context: The context after it.
            delivered: The number of messages at the end of the context that begin the next turn.
        """
        self.due = True
        self._messages = context.messages[self._begin : len(context.messages) - delivered]
        if isinstance(event, Failure):
            failed = TurnFailed if isinstance(event, ToolCallFailure) else ToolcastError
            self.error = self.error or failed(event.error)
            self._end = "stopped" if isinstance(self.error, TurnStopped) else "error"
        elif rest == "waiting_for_tool_approval":
            self._pending, self._end = context.pending, "approval"
        elif isinstance(event, StreamComplete):
            stop = event.stop_reason or "end_turn"
            self._end = "end_turn" if stop == "tool_use" else stop
        elif isinstance(event, (ToolCallSuccess, RejectToolCall)) or (
            isinstance(event, Interrupt) and state == "calling_tool"
        ):
            # After the results of tools a turn goes on, unless there is no round left.
            self.error, self._end = RoundsExceeded(limit_text(context)), "stopped"
        else:
            self.error, self._end = TurnCancelled(f"the turn was cancelled by {event.type}"), "cancelled"

    def report(self) -> None:
        """Notify the hooks of the end."""
        self.due = False
        turn = Turn(self._messages, self.usage, self.rounds, self._end, pending=self._pending)
        if isinstance(self.error, (TurnCancelled, TurnStopped, TurnFailed)):
            self.error.turn = turn
        if self.error is not None:
            set_requests(self.error, self.attempts, self.origin)
            self.hooks.emit("error", self.error)
        self.hooks.emit("turn", turn)
