"""One turn: ask the model, listen, run the tools it calls, ask again, until it has answered.

`pull` gives the next events, and takes the turn one step further along the table `TURN` (states.py) when there are
none; each state has one step, below. Everything is awaited, so one flow serves a caller with an event loop and one
without. However a turn ends, the history it leaves is one that every service takes:

* what is complete stays: answers, calls and their results;
* a call without a result gets one that says why;
* an answer that was broken off is dropped, but for the text of one that was cancelled;
* if nothing came of it, what was said is taken back as well, and can be said again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from ...approvals import ApprovalDecision, PermissionRequest
from ...async_support.interruptible import Interrupted, Interruptible
from ...cancellation import Cancellation
from ...errors import ContextTooLong, IllegalState, Timeout, TurnCancelled, TurnFailed, TurnStopped
from ...events import AgentEvent, ChatResponse, ErrorEvent
from ...messages import Message, assistant, user
from ...states import Trace, logger
from ...structured.response_validation import empty_response, is_empty
from ...tools.execution import ToolJob
from ...transport.network import IOBackend
from ...turn import Turn, TurnEnd
from ...usage import NO_USAGE, Usage
from .config import EngineConfig, TurnRequest
from .conversation import NOT_RUN, Conversation
from .history import CUT_OFF, GONE_ON, estimated_tokens, says_something, unanswered
from .limits import TurnLimits
from .model_request import ModelRequest
from .tool_phase import ToolPhase, jobs_of, kept

# Stop reasons that do not explain why an answer is empty.
_UNEXPLAINED: Final = frozenset(("end_turn", "tool_use", "error", "other"))
CONTINUE: Final = "Continue from where you left off."


class TurnFlow:
    """One turn in progress."""

    def __init__(
        self,
        setup: EngineConfig,
        transcript: Conversation,
        task: TurnRequest,
        backend: IOBackend,
        trace: Trace,
        cancellation: Cancellation,
    ) -> None:
        self.ended: bool = False
        self.error: BaseException | None = None
        self.cancellation: Cancellation = cancellation
        self.answers: dict[str, ApprovalDecision] = transcript.answers
        self.answers.update((answer.call_id, answer) for answer in task.answers)
        self.trace: Trace = trace
        self.states: list[str] = [trace.state]  # all that were walked through
        self._setup = setup
        self._transcript = transcript
        self._task = task
        self._limits = TurnLimits(setup, task.spending or transcript.spending)
        self._backend = backend
        self._interruptible = Interruptible()
        self._kept: Turn[Any] | None = None
        self._usage = NO_USAGE
        self._end: TurnEnd = "end_turn"
        self._output: Any = None
        self._round: ModelRequest | None = None
        self._heard: ModelRequest | None = None  # the last that was heard to its end, and paid for
        self._tools: ToolPhase | None = None
        self._request: PermissionRequest | None = None
        self._compacted = self._pulled = self._unheard = False
        transcript.added = []
        self._steps: Mapping[str, Callable[[], Awaitable[list[AgentEvent]]]] = {
            "idle": self._begin,
            "streaming": self._listen,
            "accumulating": self._accumulate,
            "tool_exec": self._use_tools,
            "permission_wait": self._wait_for_permission,
            "complete": self._complete,
        }
        self._forget = cancellation.then(self._interrupt)  # at once, where it is cancelled already

    @property
    def state(self) -> str:
        """Where the turn is."""
        return "idle" if self.ended else self.trace.state

    @property
    def usage(self) -> Usage:
        """Tokens used by this turn so far."""
        going_on = None if self._round is self._heard else self._round
        return self._usage if going_on is None else self._usage + going_on.cost

    @property
    def turn(self) -> Turn[Any]:
        """What there is of the turn."""
        if self._kept is not None:
            return self._kept
        pending = tuple(self._tools.pending) if self._tools is not None and self._end == "approval" else ()
        return Turn(tuple(self._transcript.added), self.usage, self._limits.rounds, self._end, self._output, pending)

    def growing(self, id: str) -> Any:
        """The arguments of the call `id`, typed, as far as they have arrived; None before that."""
        return None if self._round is None else self._round.arguments(id)

    async def next_events(self) -> list[AgentEvent]:
        """The next events; an empty list at the end."""
        if self.ended:
            return []
        if self._pulled:
            raise IllegalState("somebody waits for the events of this turn already; read them once", state=self.state)
        self._pulled = True
        try:
            return await self._interruptible.run(self._go_on)
        except Exception as error:  # the contract: its failure is its last event; result() raises it
            # Whatever goes wrong ends the turn, not the engine: it is told as the last event and raised by `result`.
            return await self._fail(error)
        except GeneratorExit:  # nothing can be awaited any more
            self.abandon()
            raise
        except BaseException as error:
            await self._break(f"by {type(error).__name__}")
            raise
        finally:
            self._pulled = False

    async def _go_on(self) -> list[AgentEvent]:
        """Step after step, until one has something to tell, or was the last."""
        while not self.ended:
            if self.cancellation.cancelled:
                raise Interrupted
            state = self.trace.state
            events = await self._steps[state]()
            if events and not self._unheard:
                return events
            if self.trace.state != state and not self.ended:
                self._task.checkpoint()
        return []

    async def finish(self) -> Turn[Any]:
        """The turn, once it has ended; raises what ended it. Its events are for nobody."""
        self._unheard = True
        while await self.next_events():
            pass
        return self.result()

    def result(self) -> Turn[Any]:
        """The turn that has ended; raises what ended it."""
        if self.error is not None:
            raise self.error
        return self.turn

    async def close(self) -> None:
        """Stop here: the turn is cancelled. Whoever waits for its events just now ends it. Harmless when repeated."""
        if self._pulled:
            self.cancellation.cancel()
        elif not self.ended:
            await self._break("its stream was closed before its end")

    def cancel(self) -> None:
        """Have the turn end: where it waits, or at once where nobody has begun it. From any thread."""
        self.cancellation.cancel()
        if not self._pulled and self.state == "idle":
            self.abandon()

    def abandon(self) -> None:
        """Stop here, where nothing can be awaited: connections close themselves when they are collected."""
        if not self.ended:
            self.cancellation.cancel()
            if self._tools is not None:
                self._tools.abandon()
            self._count()
            self._wind_up(TurnCancelled("the turn was cancelled: its stream was forgotten"), "cancelled", "cancelled")

    # One step for each state.

    async def _begin(self) -> list[AgentEvent]:
        transcript, said = self._transcript, self._task.said
        self._limits.spending.begin(self._backend.now())
        left = () if said else unanswered(transcript.history)
        if said:
            transcript.answer_left(GONE_ON)
            transcript.take_injected()
        transcript.begin(said)
        if left:
            self._use(self._jobs(ChatResponse(Message("assistant", left), "tool_use")))
            self._step("resumed")
        else:
            self._step("submitted")
        return []

    async def _listen(self) -> list[AgentEvent]:
        try:
            if self._round is None:
                self._round = await self._next_round()
                return []
            heard = await self._round.next_events()
        except ContextTooLong as error:
            await self._make_room(error)
            return []
        except Timeout as error:
            if self._round is not None and self._round.of_budget and error.phase == "total":
                raise self._limits.out_of_time() from error
            raise
        if not heard:
            await self._end_round()
            self._step("exhausted")
        return heard

    async def _accumulate(self) -> list[AgentEvent]:
        assert self._round is not None
        response, self._round = self._round.response, None
        calls = response.message.tool_calls
        uses = bool(calls) and response.stop_reason == "tool_use"
        jobs = self._jobs(response) if uses else jobs_of(calls, self._setup.by_name)
        typed = self._task.typed
        if says_something(response.message):
            hidden = not calls and typed is not None and typed.hides(response)
            self._transcript.add(assistant("(no answer)") if hidden else kept(response.message, jobs))
        if typed is not None:
            typed.check()
        if uses:
            self._limits.call(calls, self._backend.now())
            self._use(jobs)
            self._step("tools_called")
        elif (words := self._asks_again(response)) is not None:
            self._transcript.answer_left(CUT_OFF)
            self._transcript.add(user(words))
            self._step("asked_again")
        else:
            self._end = self._end_of(response)
            self._step("answered")
        return []

    def _end_of(self, response: ChatResponse) -> TurnEnd:
        """Return how a final answer ends the turn; raise `EmptyResponse` if it is empty and nothing explains that.

        Anthropic documents empty answers after tool results: the model has nothing to add to them.
        """
        stop = response.stop_reason
        if not is_empty(response.message) or stop not in _UNEXPLAINED:
            return "end_turn" if stop == "tool_use" else stop
        if self._transcript.history[-1].role != "tool":
            raise empty_response(response)
        logger.warning("the model's answer to the tool results was empty (stop reason %r)", stop)
        return "empty"

    def _asks_again(self, response: ChatResponse) -> str | None:
        """What the model is told when its answer was not enough; None when it was."""
        if self._task.typed is not None:
            return self._task.typed.read_text(response)
        cut = response.stop_reason == "max_tokens" and not response.message.tool_calls
        return CONTINUE if cut and self._setup.auto_continue else None

    async def _use_tools(self) -> list[AgentEvent]:
        tools = self._tools
        assert tools is not None
        if tools.running:
            return await tools.more()
        typed = self._task.typed
        if tools.out_of_time and not (typed is not None and typed.found):
            raise self._limits.out_of_time()
        if tools.failure is not None:
            raise tools.failure
        request = tools.next_request(self.answers)
        if request is not None:
            self._request = request
            self._step("approval_needed")
            return [request]
        if tools.pending:
            self._step("approval_needed")
            self._wind_up(None, "suspended", "approval")
            return []
        started = tools.start_group(lambda: self._limits.time_left(self._backend.now()))
        if started is not None:
            self._task.checkpoint()
            return started
        self._tools = None
        if typed is not None:
            typed.take_returned()
        self._step("answered" if typed is not None and typed.found else "tools_executed")
        return []

    async def _wait_for_permission(self) -> list[AgentEvent]:
        request, tools = self._request, self._tools
        assert request is not None and tools is not None
        answer = self.answers.get(request.call_id)
        if answer is not None:
            tools.take(request, answer)
        else:
            await tools.ask(request)
        self._step("decided")
        return []

    async def _complete(self) -> list[AgentEvent]:
        typed = self._task.typed
        if typed is not None and typed.found:
            self._output, self._end = typed.output, "output"
        self._transcript.answer_left(CUT_OFF)
        self._wind_up(None, "returned", self._end)
        return []

    # Asking.

    async def _next_round(self) -> ModelRequest:
        """The next request, made; raises where a limit is reached."""
        setup, transcript = self._setup, self._transcript
        self._limits.ask(self._backend.now())
        transcript.take_injected()
        limit = None if setup.compaction is None else setup.compaction.at
        if limit is not None and not self._compacted and estimated_tokens(transcript.history) > limit:
            await self._compact()
        last = self._limits.rounds == setup.max_rounds
        left = self._limits.time_left(self._backend.now())
        return ModelRequest(setup, transcript, self._task.typed, self._backend, last=last, left=left)

    async def _end_round(self) -> None:
        """Give the connection back, and count what the round cost."""
        try:
            if self._round is not None and self._round is not self._heard:
                await self._round.close()
        except Exception:  # a foreign source's close: the answer is there, and counts
            # The LLM may be the user's own. Its answer is here, or has failed already.
            logger.exception("closing an answer failed")
        finally:
            self._count()

    def _count(self) -> None:
        """Count what the round cost, once."""
        if self._round is not None and self._round is not self._heard:
            self._heard = self._round
            self._pay(self._round.cost)
            self._transcript.context_tokens = self._round.folded.usage.total_tokens

    def _pay(self, usage: Usage) -> None:
        self._usage += usage
        self._transcript.usage += usage
        self._limits.spending.add(usage)

    async def _make_room(self, error: ContextTooLong) -> None:
        """Once in a turn: compact the history, so that it can be asked again. Raises `error` where that is no use."""
        await self._end_round()
        if self._compacted or not await self._compact():
            raise error
        self._round = None
        self._step("compacted")

    async def _compact(self) -> bool:
        """Whether the history is shorter now."""
        self._compacted = True
        compaction, concurrent = self._setup.compaction, self._backend.concurrent
        return compaction is not None and await self._transcript.compact(compaction, concurrent, self._pay)

    # Using tools.

    def _jobs(self, response: ChatResponse) -> list[ToolJob]:
        """One job for each call of `response`, those of the typed result among them."""
        calls, typed = response.message.tool_calls, self._task.typed
        others = [call for call in calls if typed is None or call.name not in typed.names]
        jobs = jobs_of(others, self._setup.by_name, self._transcript.started)
        return jobs if typed is None else typed.jobs(calls, jobs, response)

    def _use(self, jobs: Sequence[ToolJob]) -> None:
        spending, concurrent = self._limits.spending, self._backend.concurrent
        self._tools = ToolPhase(self._setup, self._transcript, jobs, self.cancellation, spending, concurrent=concurrent)

    # Ending.

    async def _fail(self, error: Exception) -> list[AgentEvent]:
        """End with `error`; what broke because the turn was cancelled is a cancellation."""
        if isinstance(error, Interrupted) or self.cancellation.cancelled:
            cancelled = TurnCancelled("the turn was cancelled")
            cancelled.__cause__ = None if isinstance(error, Interrupted) else error
            return await self._stopped(cancelled, "cancelled", "cancelled")
        return await self._stopped(error, "failed", "stopped" if isinstance(error, TurnStopped) else "error")

    async def _break(self, why: str) -> None:
        """End because whoever waited for the turn was cancelled or has left."""
        await self._stopped(TurnCancelled(f"the turn was cancelled: {why}"), "cancelled", "cancelled")

    async def _stopped(self, error: BaseException, event: str, end: TurnEnd) -> list[AgentEvent]:
        tools = self._tools
        try:
            await (self._end_round() if tools is None else tools.stop())
        finally:
            last = [] if self.ended else self._wind_up(error, event, end)  # it may have been given up meanwhile
        return [*last, ErrorEvent(error)]

    def _wind_up(self, error: BaseException | None, event: str, end: TurnEnd) -> list[AgentEvent]:
        """Leave a valid history, and the engine idle. Gives the results that were still to be told."""
        transcript = self._transcript
        last = self._tools.answered() if self._tools is not None else []
        if event == "cancelled" and self._round is not None and (text := self._round.folded.message().text.strip()):
            transcript.add(assistant(text))
        if event != "suspended" and self.state != "idle":
            transcript.answer_left(NOT_RUN)
        if error is not None and self.state != "idle":
            transcript.take_back(self._task.said)
        self._round, self.error, self._end = None, error, end
        self._limits.spending.end(self._backend.now())
        self._forget()
        self.cancellation.forget_parent()
        self._kept, transcript.end = self.turn, end
        self._tools, self._heard, self.ended = None, None, True
        if isinstance(error, (TurnCancelled, TurnStopped, TurnFailed)):
            error.turn = self._kept
        self._step(event)
        if self.trace.state != "idle":
            self._step("returned")
        return last

    def _interrupt(self) -> None:
        """Have the turn end where it waits. May come from any thread."""
        if self._round is not None and not self._backend.concurrent:
            self._round.break_off()
        self._interruptible.interrupt()

    def _step(self, event: str) -> None:
        self.trace.step(event)
        self.states.append(self.trace.state)
