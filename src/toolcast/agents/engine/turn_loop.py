"""`TurnLoop`: one turn of an engine, as a loop of model requests and tool calls.

`next_events` returns the next events, and advances the turn along the table `TURN` (states.py) while there are none;
each state has one step, below. All I/O is awaited, so the same code serves callers with and without an event loop.
However a turn ends, the history is valid for every service:

* complete responses, calls and results stay;
* a call without a result gets one with the reason, unless the turn could not be saved: then it can be continued;
* an interrupted response is dropped, except for the text of a cancelled one;
* if the turn produced nothing, the caller's messages are rolled back too, and can be sent again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Final

from ...async_support.cancellation import Cancellation
from ...async_support.interruptible import Interrupted, Interruptible
from ...errors import (
    CallError,
    ContextTooLong,
    FailTurn,
    IllegalState,
    TurnCancelled,
    TurnFailed,
    TurnStopped,
    set_requests,
)
from ...events import AgentEvent, ChatResponse, ErrorEvent
from ...messages import Message, assistant, user
from ...structured.response_validation import empty_response, is_empty
from ...tools.execution import ToolJob
from ...tools.tool_context import ToolContext
from ...transport.network import IOBackend
from ...values.approvals import ApprovalDecision
from ...values.hooks import CallHooks
from ...values.states import Trace, logger
from ...values.turn import Turn, TurnEnd
from ...values.usage import Usage
from .conversation import NOT_RUN, Conversation
from .engine_config import EngineConfig
from .history import CUT_OFF, SUPERSEDED, has_content, unanswered_calls
from .model_phase import ModelPhase
from .model_request import ModelRequest
from .tool_phase import ToolPhase, failed_turn, make_jobs, stored_message
from .turn_limits import TurnLimits
from .turn_request import TurnRequest

# Stop reasons that do not explain why an answer is empty.
_UNEXPLAINED: Final = frozenset(("end_turn", "tool_use", "error", "other"))
CONTINUE: Final = "Continue from where you left off."


class TurnLoop:
    """One turn in progress."""

    def __init__(
        self,
        conversation: Conversation,
        turn_request: TurnRequest,
        backend: IOBackend,
        trace: Trace,
        cancellation: Cancellation,
        hooks: CallHooks | None = None,
    ) -> None:
        self._hooks = hooks
        self.ended: bool = False
        self.error: BaseException | None = None
        self.cancellation: Cancellation = cancellation
        self.answers: dict[str, ApprovalDecision] = conversation.answers
        self.answers.update((answer.call_id, answer) for answer in turn_request.answers)
        self.trace: Trace = trace
        self.states: list[str] = [trace.state]  # all states so far
        self.config: EngineConfig = turn_request.config
        self._conversation = conversation
        self._turn_request = turn_request
        self._limits = TurnLimits(self.config, turn_request.spending or conversation.spending)
        self._context = ToolContext[Any](
            deps=self.config.deps, cancellation=cancellation, spending=self._limits.spending
        )  # for functions that serve no tool call: instructions and output validators
        self._model = ModelPhase(
            self.config, conversation, self._limits, self._context, backend, hooks, turn_request.typed
        )
        if turn_request.typed is not None:
            turn_request.typed.begin_turn(self._context, self._model.attempts, concurrent=backend.concurrent)
        self._backend = backend
        self._interruptible = Interruptible()
        self._final_turn: Turn[Any] | None = None
        self._end: TurnEnd = "end_turn"
        self._output: Any = None
        self._undecided: ModelRequest | None = None  # the last whose response was complete
        self._tools: ToolPhase | None = None
        self._reading = Lock()  # taken by the caller that waits for events
        self._discarding = self._unsaved = False
        conversation.added = []
        self._steps: Mapping[str, Callable[[], Awaitable[list[AgentEvent]]]] = {
            "idle": self._begin,
            "streaming": self._receive,
            "accumulating": self._accumulate,
            "tool_exec": self._run_tools,
            "permission_wait": self._wait_for_permission,
            "complete": self._complete,
        }
        self._forget = cancellation.then(self._interrupt)  # called at once if it is cancelled already

    @property
    def state(self) -> str:
        """The current state."""
        return "idle" if self.ended else self.trace.state

    @property
    def now(self) -> Callable[[], float]:
        """The clock of the turn."""
        return self._backend.now

    @property
    def usage(self) -> Usage:
        """Tokens used by this turn so far."""
        return self._model.usage

    @property
    def turn(self) -> Turn[Any]:
        """The turn so far."""
        if self._final_turn is not None:
            return self._final_turn
        pending = tuple(self._tools.pending) if self._tools is not None and self._end == "approval" else ()
        typed = self._turn_request.typed
        hidden = typed.hidden_tools if typed is not None else frozenset[str]()
        return Turn(
            tuple(self._conversation.added),
            self.usage,
            self._limits.rounds,
            self._end,
            self._output,
            pending,
            hidden,
            tuple(self._conversation.history),
        )

    def partial_arguments(self, id: str) -> Any:
        """Return the typed arguments received so far of the call `id`; None before the first."""
        return None if self._model.request is None else self._model.request.partial_arguments(id)

    async def next_events(self) -> list[AgentEvent]:
        """Return the next events; an empty list at the end."""
        if self.ended:
            return []
        if not self._reading.acquire(blocking=False):
            raise IllegalState(
                "another caller is already waiting for the events of this turn; read them once", state=self.state
            )
        try:
            return await self._interruptible.run(self._advance)
        except Exception as error:  # the contract: its failure is its last event; result() raises it
            # An error ends the turn, not the engine: it is the last event, and `result` raises it.
            return await self._fail(error)
        except GeneratorExit:  # nothing can be awaited in a generator that is being closed
            self.abandon()
            raise
        except BaseException as error:
            await self._cancel_because(f"by {type(error).__name__}")
            raise
        finally:
            self._reading.release()

    async def _advance(self) -> list[AgentEvent]:
        """Run steps until one has events, or was the last."""
        while not self.ended:
            if self.cancellation.cancelled:
                raise Interrupted
            state = self.trace.state
            events = await self._steps[state]()
            if events and not self._discarding:
                return events
            if self.trace.state != state and not self.ended:
                self._unsaved = True
                self._turn_request.checkpoint()
                self._unsaved = False
        return []

    async def finish(self) -> Turn[Any]:
        """Run the turn to its end without emitting events; return it, or raise what ended it."""
        self._discarding = True
        while await self.next_events():
            pass
        return self.result()

    def result(self) -> Turn[Any]:
        """Return the turn that has ended, or raise what ended it."""
        if self.error is not None:
            raise self.error
        return self.turn

    async def close(self) -> None:
        """Cancel the turn and wait for its end, unless another caller reads its events. Idempotent."""
        if not self._reading.acquire(blocking=False):
            self.cancellation.cancel()
            return
        try:
            if not self.ended:
                await self._cancel_because("its stream was closed before its end")
        finally:
            self._reading.release()

    def cancel(self) -> None:
        """Cancel the turn, from any thread; one that has not begun ends at once."""
        self.cancellation.cancel()
        if not self._reading.locked() and self.state == "idle":
            self.abandon()

    def abandon(self) -> None:
        """Cancel without awaiting anything: connections are closed when they are garbage-collected."""
        if not self.ended:
            self.cancellation.cancel()
            if self._tools is not None:
                self._tools.abandon()
            self._model.abandon()
            self._conclude(TurnCancelled("the turn was cancelled: its stream was forgotten"), "cancelled", "cancelled")

    # One step for each state.

    async def _begin(self) -> list[AgentEvent]:
        conversation, messages = self._conversation, self._turn_request.messages
        self._limits.spending.begin(self._backend.now())
        if self._hooks is not None:
            self._hooks.emit("turn_start", messages)
        left = () if messages else unanswered_calls(conversation.history)
        if messages:
            conversation.answer_open_calls(SUPERSEDED)
            conversation.pop_injected()
        conversation.begin(messages)
        if left:
            self._start_tools(await self._jobs(ChatResponse(Message("assistant", left), "tool_use")))
            self._step("resumed")
        else:
            self._step("submitted")
        return []

    async def _receive(self) -> list[AgentEvent]:
        try:
            if self._model.request is None:
                await self._model.begin()
                return []
            events = await self._model.next_events()
        except ContextTooLong as error:
            await self._model.shorten(error)
            self._step("compacted")
            return []
        if not events:
            self._step("exhausted")
        return events

    async def _accumulate(self) -> list[AgentEvent]:
        self._undecided = request = self._model.take()
        response = request.response
        calls = response.message.tool_calls
        uses = bool(calls) and response.stop_reason == "tool_use"
        jobs = await self._jobs(response) if uses else make_jobs(self.config, calls)
        typed = self._turn_request.typed
        if has_content(response.message):
            hidden = not calls and typed is not None and typed.must_hide(response)
            message = assistant("(no answer)") if hidden else stored_message(response.message, jobs)
            self._conversation.keep_instructions(request.instructions, message)
            self._conversation.add(replace(message, response_id=response.response_id))
            if request.stored is not None:
                self._conversation.remember_stored(request.stored)
        if typed is not None:
            typed.check()
        if uses:
            if any(job.error is not None for job in jobs):
                request.reject()
            elif typed is None or not typed.runs_function:
                # Now, not after the tools: a call may wait for its approval for days.
                await request.accept()
            self._limits.count_calls(calls, self._backend.now())
            self._start_tools(jobs)
            self._step("tools_called")
        elif (words := await self._follow_up(response)) is not None:
            request.reject()
            self._conversation.answer_open_calls(CUT_OFF)
            self._conversation.add(user(words))
            self._step("asked_again")
        else:
            self._end = self._end_of(response)
            await request.accept()
            self._step("answered")
        return []

    def _end_of(self, response: ChatResponse) -> TurnEnd:
        """Return how a final answer ends the turn; raise `EmptyResponse` if it is empty and nothing explains that.

        Anthropic documents empty answers after tool results: the model has nothing to add to them.
        """
        stop = response.stop_reason
        if not is_empty(response.message) or stop not in _UNEXPLAINED:
            return "end_turn" if stop == "tool_use" else stop
        if self._conversation.history[-1].role != "tool":
            raise empty_response(response)
        logger.warning("the model's answer to the tool results was empty (stop reason %r)", stop)
        return "empty"

    async def _follow_up(self, response: ChatResponse) -> str | None:
        """Return the message that asks the model to correct or continue its answer; None if it is complete."""
        if self._turn_request.typed is not None:
            return await self._turn_request.typed.read_text(response)
        cut = response.stop_reason == "max_tokens" and not response.message.tool_calls
        return CONTINUE if cut and self.config.auto_continue else None

    async def _run_tools(self) -> list[AgentEvent]:
        tools = self._tools
        assert tools is not None
        if tools.running:
            return await tools.next_events()
        typed = self._turn_request.typed
        if tools.exceeded_budget and not (typed is not None and typed.found):
            raise self._limits.time_exceeded()
        if tools.failure is not None:
            raise tools.failure
        requests = tools.next_requests(self.answers)
        if requests:
            self._step("approval_needed")
            return list(requests)
        if tools.pending:
            self._step("approval_needed")
            self._conclude(None, "suspended", "approval")
            return []
        started = tools.start_group(lambda: self._limits.time_left(self._backend.now()))
        if started is not None:
            self._unsaved = True
            self._turn_request.checkpoint()
            self._unsaved = False
            return started
        self._tools = None
        if typed is not None:
            correction = await typed.collect_function_result()
            if self._undecided is not None:
                if typed.found:
                    await self._undecided.accept()
                self._undecided.reject()
            if correction is not None:
                self._conversation.add(user(correction))
        self._step("answered" if typed is not None and typed.found else "tools_executed")
        return []

    async def _wait_for_permission(self) -> list[AgentEvent]:
        assert self._tools is not None
        await self._tools.settle_requests(self.answers)
        self._step("decided")
        return []

    async def _complete(self) -> list[AgentEvent]:
        typed = self._turn_request.typed
        if typed is not None and typed.found:
            self._output, self._end = typed.output, "output"
        self._conversation.answer_open_calls(CUT_OFF)
        self._conclude(None, "returned", self._end)
        return []

    # Tools.

    async def _jobs(self, response: ChatResponse) -> list[ToolJob]:
        """Return one job for each call of `response`, those of the typed result included."""
        calls, typed = response.message.tool_calls, self._turn_request.typed
        others = [call for call in calls if typed is None or call.name not in typed.names]
        jobs = make_jobs(self.config, others, self._conversation.started)
        return jobs if typed is None else await typed.jobs(calls, jobs, response)

    def _start_tools(self, jobs: Sequence[ToolJob]) -> None:
        spending, concurrent = self._limits.spending, self._backend.concurrent
        self._tools = ToolPhase(
            self.config, self._conversation, jobs, self.cancellation, spending, self._hooks, concurrent=concurrent
        )

    # Ending.

    async def _fail(self, error: Exception) -> list[AgentEvent]:
        """End with `error`, or with `TurnCancelled` if the turn was cancelled."""
        if isinstance(error, Interrupted) or self.cancellation.cancelled:
            cancelled = TurnCancelled("the turn was cancelled")
            cancelled.__cause__ = None if isinstance(error, Interrupted) else error
            return await self._end_with(cancelled, "cancelled", "cancelled")
        if isinstance(error, FailTurn):
            error = failed_turn(error, "a function of the engine")
        if isinstance(error, CallError) and error.partial is None and self._model.request is not None:
            typed = self._turn_request.typed
            error.partial = self._model.request.accumulated.message().text or None if typed is None else typed.partial
        return await self._end_with(error, "failed", "stopped" if isinstance(error, TurnStopped) else "error")

    async def _cancel_because(self, why: str) -> None:
        """End because the caller was cancelled or has left."""
        await self._end_with(TurnCancelled(f"the turn was cancelled: {why}"), "cancelled", "cancelled")

    async def _end_with(self, error: BaseException, event: str, end: TurnEnd) -> list[AgentEvent]:
        tools = self._tools
        if tools is not None and event == "failed" and self._unsaved:
            tools.forget_group()
        try:
            await (self._model.close() if tools is None else tools.stop())
        finally:
            last = [] if self.ended else self._conclude(error, event, end)  # it may have been abandoned meanwhile
        return [*last, ErrorEvent(error)]

    def _conclude(self, error: BaseException | None, event: str, end: TurnEnd) -> list[AgentEvent]:
        """Leave a valid history and an idle engine; return the results that were not emitted yet."""
        conversation = self._conversation
        last = self._tools.collect_results() if self._tools is not None else []
        if (
            event == "cancelled"
            and self._model.request is not None
            and (text := self._model.request.accumulated.message().text.strip())
        ):
            conversation.add(assistant(text))
        if error is not None and self.state != "idle":
            if event != "failed" or not self._unsaved:
                conversation.answer_open_calls(NOT_RUN)
            conversation.rollback(self._turn_request.messages)
        if self._undecided is not None:
            self._undecided.reject()
        if error is not None:
            response = None if self._undecided is None else self._undecided.response
            set_requests(error, self._model.attempts, self.config.client.origin, response)
        self._model.forget()
        self._undecided, self.error, self._end = None, error, end
        self._limits.spending.end(self._backend.now())
        self._forget()
        self.cancellation.forget_parent()
        self._final_turn, conversation.end = self.turn, end
        self._tools, self.ended = None, True
        if isinstance(error, (CallError, TurnCancelled, TurnStopped, TurnFailed)):
            error.turn = self._final_turn
        self._step(event)
        if self.trace.state != "idle":
            self._step("returned")
        if self._hooks is not None:
            if error is not None:
                self._hooks.emit("error", error)
            self._hooks.emit("turn", self._final_turn)
        return last

    def _interrupt(self) -> None:
        """Stop waiting. From any thread."""
        if not self._backend.concurrent:
            self._model.interrupt()
        self._interruptible.interrupt()

    def _step(self, event: str) -> None:
        self.trace.step(event)
        self.states.append(self.trace.state)
