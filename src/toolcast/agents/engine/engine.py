"""`Engine`: a model, tools, and a history, turn after turn.

    idle ──> streaming ──> accumulating ──> complete ──> idle
                 ^               │
                 │               v
                 └────────── tool_exec <──> permission_wait

The engine asks the model, listens, runs the tools that it calls, and asks again until it has answered. What one turn
does is written in turn_flow.py; the engine keeps what turns have in common and lets one in at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any
from weakref import ref

from typing_extensions import TypeForm, TypeVar, Unpack

from ...approvals import ApprovalDecision, PermissionRequest
from ...async_support import sync_driver
from ...cancellation import Cancellation
from ...errors import IllegalState
from ...llms.base import FunctionCallingLLM
from ...llms.request import AnyMessage, Messages, Tools, as_message, as_messages
from ...messages import Message, system
from ...option_types import require_text
from ...states import TURN, Trace
from ...tools.callable_tool import CallableTool, as_tools
from ...tools.context import ToolContext
from ...transport.network import IOBackend
from ...turn import Turn
from ...usage import Budget, BudgetTracker, Usage
from ..permissions.permissions import Permissions
from .config import EngineConfig, EngineOptions, TurnRequest, configured
from .conversation import Conversation
from .history import faults, unanswered
from .session_state import SessionState, difference, fold, opened
from .tool_phase import requests_for
from .turn_loop import TurnFlow
from .turn_streams import AsyncTurnStream, TurnStream
from .typed_output import TypedOutput

T = TypeVar("T", default=None)


class Engine:
    """An agent: it asks the model, runs the tools it calls, and asks again until there is an answer.

    `tools` are functions, types, orchestrators, other engines, MCP tools. `permissions` say what may run unasked;
    without them tools run as you gave them, protected paths excepted. `max_rounds` limits the requests of a turn,
    `budget` what all turns may spend, `max_repeats` how often the same call may come in a row. `deps` reach tools
    through their `ToolContext`. `tool_timeout` is in seconds, `output_limit` in characters. `max_attempts` limits how
    often a typed result may be wrong; `auto_continue` asks for the rest of an answer that `max_tokens` cut off.
    `tool_errors="raise"`: an error that a tool raises ends the turn with `TurnFailed`, instead of being a result that
    the model reads. `compaction` makes room in a history that is too long (None: that is an error).
    `observer(turn_id, state)` hears of every state.
    """

    def __init__(
        self,
        llm: FunctionCallingLLM | str | None = None,
        tools: Tools = (),
        **options: Unpack[EngineOptions],
    ) -> None:
        self._make(configured(llm, tools, options), as_messages(options.get("history", ())))

    def _make(
        self, setup: EngineConfig, history: Sequence[Message] = (), context: ToolContext[Any] | None = None
    ) -> None:
        """Begin with this history; a `context` is that of the tool that the engine works for."""
        self._setup = setup
        self._parent = None if context is None else context.cancellation
        self._flow: TurnFlow | None = None
        self._session: ref[Any] | None = None  # the one that is open with this engine
        self._one_at_a_time = Lock()
        spending = None if context is None else context.spending
        self.transcript: Conversation = Conversation(history, setup.budget, spending)

    # What there is.

    @property
    def setup(self) -> EngineConfig:
        """How its turns are made."""
        return self._setup

    @property
    def llm(self) -> FunctionCallingLLM:
        """The LLM that is asked."""
        return self._setup.llm

    @property
    def tools(self) -> tuple[CallableTool, ...]:
        """The tools that the model is offered."""
        return self._setup.tools

    @property
    def permissions(self) -> Permissions:
        """What may run unasked."""
        return self._setup.permissions

    @property
    def state(self) -> str:
        """Where the engine is, as the table `TURN` (toolcast.states) names it."""
        return "idle" if self._flow is None else self._flow.state

    @property
    def trace(self) -> tuple[str, ...]:
        """The states that this turn, or the last, has walked through."""
        return ("idle",) if self._flow is None else tuple(self._flow.states)

    @property
    def history(self) -> tuple[Message, ...]:
        """All that was said, as it is sent with the next request."""
        return tuple(self.transcript.history)

    @property
    def usage(self) -> Usage:
        """Tokens used by all turns."""
        return self.transcript.usage

    @property
    def pending(self) -> tuple[PermissionRequest, ...]:
        """What somebody has to be asked before the turn can go on: `submit(answers=[...])` goes on with it."""
        return requests_for(self._setup, self.transcript, unanswered(self.transcript.history))

    # Turns.

    def submit(
        self,
        message: Messages | None = None,
        *,
        output_cls: TypeForm[T] = None,  # type: ignore[assignment]  # where there is none, T is None
        answers: Iterable[ApprovalDecision] = (),
        budget: Budget | None = None,
    ) -> Turn[T]:
        """A whole turn. Raises what ended it otherwise: an `LLMError`, `TurnCancelled`, `TurnStopped`, `TurnFailed`.

        Without a `message` the engine goes on where it is: it runs the calls that have no result yet, with the
        `answers` to its requests, or asks the model once more. `output_cls` gives the turn a typed `output`.
        """
        flow = self._begin(self._task(message, output_cls, answers, budget), self.llm.sync_backend())
        try:
            return sync_driver.run(flow.finish())
        finally:
            flow.abandon()  # where Ctrl-C came before it began

    async def asubmit(
        self,
        message: Messages | None = None,
        *,
        output_cls: TypeForm[T] = None,  # type: ignore[assignment]  # where there is none, T is None
        answers: Iterable[ApprovalDecision] = (),
        budget: Budget | None = None,
    ) -> Turn[T]:
        """A whole turn, awaited: see `submit`."""
        flow = self._begin(self._task(message, output_cls, answers, budget), self.llm.async_backend())
        return await flow.finish()

    def stream(
        self,
        message: Messages | None = None,
        *,
        output_cls: TypeForm[T] = None,  # type: ignore[assignment]  # where there is none, T is None
        answers: Iterable[ApprovalDecision] = (),
        budget: Budget | None = None,
    ) -> TurnStream[T]:
        """The events of a turn, as they come. The turn begins when the first is asked for. See `submit`."""
        task = self._task(message, output_cls, answers, budget)
        return TurnStream(lambda: self._begin(task, self.llm.sync_backend()))

    def astream(
        self,
        message: Messages | None = None,
        *,
        output_cls: TypeForm[T] = None,  # type: ignore[assignment]  # where there is none, T is None
        answers: Iterable[ApprovalDecision] = (),
        budget: Budget | None = None,
    ) -> AsyncTurnStream[T]:
        """The events of a turn, as they come. The turn begins when the first is awaited. See `submit`."""
        task = self._task(message, output_cls, answers, budget)
        return AsyncTurnStream(lambda: self._begin(task, self.llm.async_backend()))

    def cancel(self) -> None:
        """End the turn that is going on, from any thread. Without one, nothing happens."""
        flow = self._flow
        if flow is not None and not flow.ended:
            flow.cancel()

    def inject(self, message: AnyMessage) -> None:
        """Put a message into the history: now, or during a turn (also one that waits) before its next request."""
        (message,) = _sound([as_message(message)])
        self.transcript.injected.append(message)
        if not self._is_busy and not unanswered(self.transcript.history):
            self.transcript.take_injected()

    # What is kept.

    def reset(self) -> None:
        """Forget the history, what it cost and what was allowed."""
        self._must_be_idle("reset")
        self._flow = None
        self.transcript = Conversation(budget=self._setup.budget, parent=self.transcript.spending.parent)

    def snapshot(self) -> dict[str, Any]:
        """All that the engine remembers, as plain JSON-ready data."""
        state = self.transcript.state()
        return {"records": [opened("", 0.0), *difference(SessionState(""), state)]}

    def restore(self, data: Mapping[str, Any] | SessionState) -> None:
        """Remember what `snapshot` made `data` from."""
        self._must_be_idle("restore")
        if not isinstance(data, SessionState):
            data = fold(data.get("records", ()))
        self.transcript.restore(data)

    def fork(
        self,
        *,
        permissions: Permissions | None = None,
        tools: Tools | None = None,
        max_rounds: int | None = None,
        instructions: str | None = None,
        tool_timeout: float | None = None,
        context: ToolContext[Any] | None = None,
    ) -> Engine:
        """Another engine made like this one, its history empty.

        Its `instructions` follows this one's; `tool_timeout` is for an engine that has none. Made for a tool, it
        shares the tool's `context`: it is cancelled with it, and what it spends counts there.
        """
        require_text("instructions", instructions)
        setup = replace(
            self._setup,
            permissions=permissions or self.permissions,
            tools=self.tools if tools is None else as_tools(tools),
            max_rounds=max_rounds or self._setup.max_rounds,
            instructions=(*self._setup.instructions, *([system(instructions)] if instructions else [])),
            tool_timeout=self._setup.tool_timeout or tool_timeout,
        )
        other = object.__new__(Engine)
        other._make(setup, context=context)
        return other

    def as_tool(self, name: str | None = None, description: str | None = None) -> CallableTool:
        """This engine as a tool for another: each call is a turn of its own, without what was said before."""

        later = self.permissions.approve == "later"  # nobody can be asked so in the middle of a call
        permissions = self.permissions.without_prompt() if later else None

        def ask(prompt: str, context: ToolContext) -> str:
            return self.fork(context=context, permissions=permissions).submit(prompt).text

        async def aask(prompt: str, context: ToolContext) -> str:
            return (await self.fork(context=context, permissions=permissions).asubmit(prompt)).text

        tool = CallableTool.from_function(ask, name or "ask_agent", description or "Give a task to another agent.")
        return replace(tool, async_function=aask)

    def join(self, session: Any) -> None:
        """Belong to `session` until it leaves, or is forgotten. `IllegalState` names the one that has the engine."""
        with self._one_at_a_time:
            other = None if self._session is None else self._session()
            if other is not None:
                raise IllegalState(
                    f"the engine belongs to the session {other.id!r}: close that, or take another, engine.fork()",
                    state=self.state,
                )
            self._session = ref(session)

    def leave(self, session: Any) -> None:
        """Let other sessions have the engine."""
        with self._one_at_a_time:
            if self._session is not None and self._session() is session:
                self._session = None

    def begin(
        self,
        message: Messages | None,
        output_cls: Any,
        answers: Iterable[ApprovalDecision],
        *,
        concurrent: bool,
        checkpoint: Callable[[], object] | None = None,
    ) -> TurnFlow:
        """A turn for who drives it himself, begun: see `TurnRequest` (turn_flow.py) for the `checkpoint`."""
        task = self._task(message, output_cls, answers, None)
        if checkpoint is not None:
            task = replace(task, checkpoint=checkpoint)
        return self._begin(task, self.llm.async_backend() if concurrent else self.llm.sync_backend())

    def _task(
        self, message: Messages | None, output_cls: Any, answers: Iterable[ApprovalDecision], budget: Budget | None
    ) -> TurnRequest:
        messages: Sequence[Message] = () if message is None else _sound(as_messages(message))
        if not messages and not self.transcript.history:
            raise ValueError("nothing was said, and there is no history to go on with; submit() wants some text")
        given = tuple(answers)
        if given:
            self._check_answers(given, messages)
        typed = None if output_cls is None else TypedOutput(output_cls, self._setup.max_attempts)
        if typed is not None:
            as_tools((*self.tools, *typed.tools))  # raises where two have one name
        spending = None if budget is None else BudgetTracker(budget, self.transcript.spending)
        return TurnRequest(tuple(messages), typed, given, spending)

    def _check_answers(self, answers: Sequence[object], said: Sequence[Message]) -> None:
        """Raises where an answer would be lost, or could be taken for one to another call."""
        if said:
            raise ValueError("answers go on with the turn that waits for them: submit(answers=[...]) without text")
        waiting = {call.id for call in unanswered(self.transcript.history)}
        for answer in answers:
            if not isinstance(answer, ApprovalDecision):
                raise TypeError(f"{answer!r:.100} is no answer; a request of engine.pending makes one: request.allow()")
            if answer.call_id not in waiting:
                raise ValueError(f"no call {answer.call_id!r} waits for an answer, or it got two; see engine.pending")
            waiting.remove(answer.call_id)

    def _begin(self, task: TurnRequest, backend: IOBackend) -> TurnFlow:
        """The turn that the engine is in from now on."""
        with self._one_at_a_time:
            self._must_be_idle("begin a turn")
            trace = Trace(TURN, self._setup.observer)
            self._flow = TurnFlow(self._setup, self.transcript, task, backend, trace, Cancellation(self._parent))
            return self._flow

    @property
    def _is_busy(self) -> bool:
        return self._flow is not None and not self._flow.ended

    def _must_be_idle(self, what: str) -> None:
        if self._is_busy:
            raise IllegalState(
                f"the engine cannot {what} while it is {self.state}; wait for the turn's end, or cancel() it",
                state=self.state,
            )


def _sound(messages: Sequence[Message]) -> Sequence[Message]:
    """`messages`, as they may be said: raises for what no service would take."""
    wrong = faults(messages)
    if wrong:
        raise ValueError(f"this cannot be said: {wrong[0]}. Say it with user(...), or give a whole history=")
    return messages
