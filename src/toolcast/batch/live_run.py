"""`LiveRun`: each row of a job becomes one structured call, and its result or error an `Outcome`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar, cast

from ..async_support.waiters import Waiters
from ..llms.call_state import CallState
from ..llms.request_gate import Gates, RequestGate, use_gate
from ..structured.call import PreparedCall, run_call
from ..structured.orchestrator import ToolOrchestratingLLM, begin_call
from ..tools.output_schema import calls_functions
from ..transport.network import IOBackend
from ..values.usage import NO_USAGE
from .inputs import InputRow
from .job_budget import Ledger
from .job_errors import BudgetReached, JobInterrupted, WaitTooLong
from .job_options import JobPlan
from .job_run import JobRun
from .outcome import Outcome
from .pacing import Pace
from .progress.job_progress import JobActivity
from .schedule import Schedule

T = TypeVar("T")

CONCURRENCY: Final = 16
"""The number of items at once where neither the caller nor the service sets one: some wait to be admitted."""

MOST_ITEMS: Final = 256
"""The number of items at once that the service's answers may lead to; each may be a thread."""

BLOCK: Final = 256
"""The number of rows that are sorted by their prompts."""


class AbortHandle:
    """The handle to abort the sync call that a worker makes now, from another thread."""

    __slots__ = ("_call", "aborted")

    def __init__(self) -> None:
        self.aborted: bool = False
        self._call: CallState | None = None

    def begin(self, call: CallState) -> None:
        """Set the call that begins."""
        self._call = call
        if self.aborted:  # after the assignment, as in `CallState.open`
            call.break_off()

    def abort(self) -> None:
        """Abort the call, which raises an error soon. Tools and validators run to their end."""
        self.aborted = True
        call = self._call
        if call is not None:
            call.break_off()


class LiveRun(Generic[T]):
    """The calls of a run that are made live: the limits of their requests, and the work on one row.

    Attributes:
        run: The run.
        schedule: That of the run.
        changed: The waiters for outcomes, and for the moment at which further rows can be read.
        wake: The function by which workers wake the consumer.
        reads_apart: True if another task than the consumer reads the rows; it is woken when more can be read.
        ledger: The budget, if there is one.

    Args:
        call: The call.
        plan: The options of the job.
        total: The number of inputs, if it is known.
        gate: A gate that admits the requests in place of the job's own limits: one for many machines.
        prepare: Returns the call that is made for a row. Default: a new one with its values.
    """

    def __init__(
        self,
        call: ToolOrchestratingLLM[T],
        plan: JobPlan,
        total: int | None = None,
        *,
        gate: RequestGate | None = None,
        prepare: Callable[[InputRow], tuple[PreparedCall, CallState]] | None = None,
    ) -> None:
        limit = plan.max_concurrency or CONCURRENCY
        self.run: JobRun[T] = JobRun(call, plan, total, limit=limit, activity=self._activity)
        self.run.interrupt, self.run.end_requests = self._interrupt, self._end_requests
        self.schedule: Schedule[T] = self.run.schedule
        self.changed: Waiters = Waiters()
        self.wake: Callable[[], None] = self.changed.wake
        self.reads_apart: bool = False
        self._prepare = prepare
        self._block: list[InputRow] | None = [] if plan.by_prefix else None
        self._closed = False
        # Validators that are functions may take long: in an event loop they would stop all other items.
        self._blocks = any(tool.output_type is None or calls_functions(tool.output_type) for tool in call.tools)
        self._most: int | None = plan.max_concurrency
        self._pace = Pace(rpm=plan.rpm, tpm=plan.tpm, max_concurrency=self._most)
        estimate = self._pace.expected_input_tokens
        self.ledger: Ledger | None = (
            None if plan.budget is None else Ledger(plan.budget, spent=self.run.spent, estimate=estimate)
        )
        own = self._pace if self.ledger is None else Gates((self.ledger, self._pace))
        self._gate: RequestGate = gate or own

    def close(self) -> None:
        """End the calls once the workers have ended. Called once."""
        self._closed = True
        self.changed.wake()
        self._close_pace()

    # Rows, in the consumer's thread

    def read(self, input: Any) -> None:
        """Add the row of one input.

        Raises:
            UnstableInput: The input has no key, which the checkpoint needs.
            CheckpointError: The stored outcome of the input cannot be read.
        """
        row = self.run.read(input)
        if not self.run.restore(row):
            if self._block is None:
                self.run.add(row)
            else:
                self._block.append(row)
        # Also where no more rows are wanted: stored outcomes after the first row of the block wait for it.
        if self._block and (len(self._block) == BLOCK or not self.schedule.wanted):
            self._add_block(self._block)

    def end_input(self, error: Exception | None = None) -> None:
        """Record the end of the inputs, or the error of reading them, which ends the job."""
        if self._block:
            self._add_block(self._block)
        self.schedule.end_input(error)

    def _add_block(self, block: list[InputRow]) -> None:
        """Add rows so that prompts with the same beginning follow each other: a service reads its part from a cache."""
        # The text between the variables is the same in all rows, so the values decide, in the order of the prompt.
        for row in sorted(block, key=lambda row: [str(value) for value in row.values.values()]):
            self.run.add(row)
        block.clear()

    # Outcomes, in the consumer's thread

    def should_wake(self) -> bool:
        """Return whether the consumer has something to do: to take an outcome, to read rows, or to end."""
        return self.has_outcome() or self.schedule.wants_rows_soon

    def has_outcome(self) -> bool:
        """Return whether an outcome is ready, none will follow, or another thread or task has closed the job."""
        return self.schedule.ready > 0 or self.schedule.ended or self._closed

    # Workers

    async def work(self, row: InputRow | None, backend: IOBackend, handle: AbortHandle) -> None:
        """Work on `row` and then on further rows, until no more may start."""
        try:
            with use_gate(self._gate):
                while row is not None:
                    outcome = await self._outcome(row, backend, handle)
                    error = outcome.error
                    if isinstance(error, BudgetReached | WaitTooLong):
                        self.run.stop(error)
                    if error is not None and (handle.aborted or _is_not_done(outcome)):
                        # It has no outcome, as if it had not started.
                        self.schedule.abandon()
                    else:
                        self.run.end(row, outcome)
                    if self._most is None:
                        self._adapt()
                    row = self.schedule.start()
                    # An outcome out of order is nothing to do yet.
                    if self.reads_apart or self.should_wake():
                        self.wake()
        except BaseException as error:
            # A cancellation, or an exit that a tool demands; the consumer raises the latter.
            self.schedule.stop(error)
            self.schedule.abandon()
            self.changed.wake()
            raise
        finally:
            if self._closed:
                self._close_pace()

    def _close_pace(self) -> None:
        """Remove the limits of the job from those that jobs share, once no request of it waits for them."""
        if not self.schedule.running:
            self._pace.close()

    def _adapt(self) -> None:
        """Start as many items as the service takes requests."""
        self.schedule.limit = min(max(self._pace.concurrency, CONCURRENCY), MOST_ITEMS)

    async def _outcome(self, row: InputRow, backend: IOBackend, handle: AbortHandle) -> Outcome[T]:
        began = backend.now()
        state: CallState | None = None
        output, error = None, None
        try:
            prepared, state = begin_call(self.run.call, row.values) if self._prepare is None else self._prepare(row)
            if self._blocks and backend.concurrent:
                prepared = replace(prepared, blocks=True)
            handle.begin(state)
            output = cast("T", (await run_call(prepared, backend, state)).output)
        except Exception as raised:  # the item's: any error of the call, a validator or a tool
            error = raised
        attempts, usage = (0, NO_USAGE) if state is None else (len(state.attempts), state.usage)
        return Outcome(row.index, row.key, row.input, output, error, attempts, usage, backend.now() - began)

    def _interrupt(self) -> bool:
        """Send no more requests; the consumer gets a KeyboardInterrupt after the outcomes of the items that run."""
        if self.schedule.stopped:
            return False
        self.schedule.stop(KeyboardInterrupt())
        running = self._running
        self._end_requests()
        self.run.progress.finish()
        items = "1 running item" if running == 1 else f"{running} running items"
        what = f"finishing {items}; press Ctrl-C again to stop now" if running else "no request is under way"
        self.run.reporter.message(f"{what}. {self.run.resume_text}")
        self.changed.wake()
        return True

    def _end_requests(self) -> None:
        """Send no more requests: those that wait to be admitted are not sent."""
        # The order in which requests enter: one that leaves the wait for the budget meets the pace.
        if self.ledger is not None:
            self.ledger.stop()
        self._pace.stop()

    @property
    def _running(self) -> int:
        """The number of items that run and do not wait to be admitted."""
        waiting = self._pace.waiting + (0 if self.ledger is None else self.ledger.waiting)
        return max(self.schedule.running - waiting, 0)

    def _activity(self) -> JobActivity:
        """Return the state of the run for a snapshot."""
        schedule, ledger = self.schedule, self.ledger
        concurrency = min(self._pace.concurrency, schedule.limit)
        limited_by: str = self._pace.limited_by or ""
        # Further items have started, and wait to be admitted by the pace; a job that ends waits for them too.
        running = schedule.running if schedule.stopped else min(schedule.running, concurrency)
        if ledger is None:
            return JobActivity(running, concurrency, limited_by)
        if ledger.waiting:
            limited_by = "budget"
        return JobActivity(running, concurrency, limited_by, ledger.describe())


def _is_not_done(outcome: Outcome[Any]) -> bool:
    """Return True if an item ended before its first request was sent, or accepted by the service."""
    if isinstance(outcome.error, JobInterrupted):
        return not outcome.usage.total_tokens
    return isinstance(outcome.error, BudgetReached | WaitTooLong) and not outcome.attempts
