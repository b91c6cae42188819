"""The run of a job: each row becomes one structured call, and its result or error an `Outcome`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any, Final, Generic, TypeVar, cast

from ..async_support.waiters import Waiters
from ..errors import AuthFailed, ConnectFailed, NotFound, QuotaExceeded, UnsupportedLLMError, WouldSuspend
from ..llms.call_state import CallState
from ..llms.request_gate import Gates, RequestGate, use_gate
from ..structured.call import PreparedCall, run_call
from ..structured.orchestrator import ToolOrchestratingLLM, begin_call
from ..tools.output_schema import calls_functions
from ..transport.network import IOBackend
from ..usage import NO_USAGE
from . import interrupts
from .budget import Ledger
from .equal_inputs import copied
from .errors import BudgetReached, CheckpointError, JobInterrupted, JobStopped, WaitTooLong
from .inputs import InputRow
from .item_records import ItemRecords
from .job_options import JobPlan
from .outcome import Outcome
from .pacing import Pace
from .progress.account import JobActivity
from .schedule import Schedule

T = TypeVar("T")

HOPELESS: Final = (AuthFailed, NotFound, QuotaExceeded, UnsupportedLLMError, WouldSuspend)
"""The errors that every other item would get too: those of the key, the model, the account or the API."""

UNREACHABLE: Final = 20
"""The number of items in a row, none of which reached the service, after which it is taken to be down."""

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


class JobRun(Generic[T]):
    """One run of a job: its schedule, and the work on one row.

    Attributes:
        call: The call that is made for each row.
        schedule: Which row starts next, and which outcome is returned next.
        changed: The waiters for outcomes and for room for further rows.
        wake: The function by which workers wake the consumer.
        reads_apart: True if another task than the consumer reads the rows; it is woken when more can be read.
        raises: The first error ends the job.
        records: The keys, the stored outcomes and the progress of the items.
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
        self.call: ToolOrchestratingLLM[T] = call
        self.records: ItemRecords[T] = ItemRecords(call, plan, total, monotonic, self._state)
        self._prepare = prepare
        self.schedule: Schedule[T] = Schedule(limit=plan.max_concurrency or CONCURRENCY, ordered=plan.ordered)
        self.changed: Waiters = Waiters()
        self.wake: Callable[[], None] = self.changed.wake
        self.reads_apart: bool = False
        self.raises: bool = plan.raises
        self._block: list[InputRow] | None = [] if plan.by_prefix else None
        self._unreached = 0  # items in a row; workers in threads may miscount by one or two
        self._begun = self._closed = False
        # Validators that are functions may take long: in an event loop they would stop all other items.
        self._blocks = any(tool.output_type is None or calls_functions(tool.output_type) for tool in call.tools)
        self._most: int | None = plan.max_concurrency
        self._pace = Pace(rpm=plan.rpm, tpm=plan.tpm, max_concurrency=self._most)
        estimate = self._pace.expected_input_tokens
        self.ledger: Ledger | None = (
            None if plan.budget is None else Ledger(plan.budget, spent=self.records.spent, estimate=estimate)
        )
        own = self._pace if self.ledger is None else Gates((self.ledger, self._pace))
        self._gate: RequestGate = gate or own

    def begin(self) -> None:
        """Begin the job: the consumer asks for the first outcome."""
        if not self._begun:
            self._begun = True
            self.records.begin()
            interrupts.watch(self._interrupt)

    def close(self) -> None:
        """End the job once its workers have ended. Called once."""
        self._closed = True
        self.changed.wake()
        interrupts.unwatch(self._interrupt)
        self._close_pace()
        self.records.close()

    # Rows, in the consumer's thread

    def read(self, input: Any) -> None:
        """Add the row of one input.

        Raises:
            UnstableInput: The input has no key, which the checkpoint needs.
            CheckpointError: The stored outcome of the input cannot be read.
        """
        row = self.records.read(input)
        if (found := self.records.find(row)) is not None:
            self.schedule.add_finished(found)
        elif row.error is not None:
            self.schedule.add_finished(self._stored(Outcome(row.index, row.key, row.input, error=row.error)))
        elif self._block is None:
            self._add(row)
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
            self._add(row)
        block.clear()

    def _add(self, row: InputRow) -> None:
        equal = self.records.equal
        found = False if equal is None else equal.add(row)
        if found is False:
            self.schedule.add(row)
        elif found is True:
            self.schedule.add_waiting()
        else:
            self.schedule.add_finished(self._stored(found))

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
                    if isinstance(error, BudgetReached):
                        self._end_budget(error)
                    elif isinstance(error, WaitTooLong):
                        self._stop(error)
                    if error is not None and (handle.aborted or _is_not_done(outcome)):
                        # It has no outcome, as if it had not started.
                        self.schedule.abandon()
                    else:
                        self._finish(row, outcome)
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

    def _finish(self, row: InputRow, outcome: Outcome[T]) -> None:
        error = outcome.error
        # Each has had its retries. A short outage fails the items that run, so more than those have to fail.
        self._unreached = self._unreached + 1 if isinstance(error, ConnectFailed) else 0
        lost = self._unreached >= max(UNREACHABLE, 2 * self.schedule.limit)
        if error is not None and (lost or isinstance(error, HOPELESS)):
            self._stop(error)
        elif error is not None and self.raises:
            self.schedule.stop()
        outcome = self._stored(outcome)
        if (equal := self.records.equal) is not None:
            for other in equal.ended(row, outcome):
                if error is None:
                    self.schedule.answer(self._stored(copied(outcome, other)))
                else:
                    self.schedule.resume(other)
        self.schedule.finish(outcome)

    async def _outcome(self, row: InputRow, backend: IOBackend, handle: AbortHandle) -> Outcome[T]:
        began = backend.now()
        state: CallState | None = None
        output, error = None, None
        try:
            prepared, state = begin_call(self.call, row.values) if self._prepare is None else self._prepare(row)
            if self._blocks and backend.concurrent:
                prepared = replace(prepared, blocks=True)
            handle.begin(state)
            output = cast("T", (await run_call(prepared, backend, state)).output)
        except Exception as raised:  # the item's: any error of the call, a validator or a tool
            error = raised
        attempts, usage = (0, NO_USAGE) if state is None else (len(state.attempts), state.usage)
        return Outcome(row.index, row.key, row.input, output, error, attempts, usage, backend.now() - began)

    def _stored(self, outcome: Outcome[T]) -> Outcome[T]:
        """Store an outcome before the consumer can see it. If that fails, the job ends."""
        try:
            self.records.store(outcome)
        except CheckpointError as error:
            self.schedule.stop(error)
        return outcome

    def _interrupt(self) -> bool:
        """Send no more requests; the consumer gets a KeyboardInterrupt after the outcomes of the items that run."""
        if self.schedule.stopped:
            return False
        self.schedule.stop(KeyboardInterrupt())
        running = self._running
        self._end_requests()
        self.records.progress.finish()
        items = "1 running item" if running == 1 else f"{running} running items"
        what = f"finishing {items}; press Ctrl-C again to stop now" if running else "no request is under way"
        self.records.reporter.message(f"{what}. {self.records.resume_text}")
        self.changed.wake()
        return True

    def _stop(self, error: Exception) -> None:
        """End the job after an error that every other item would get too."""
        self.schedule.stop(stopped_by(error))
        self.records.progress.finish()
        self._end_requests()

    def _end_requests(self) -> None:
        """Send no more requests: those that wait to be admitted are not sent."""
        # The order in which requests enter: one that leaves the wait for the budget meets the pace.
        if self.ledger is not None:
            self.ledger.stop()
        self._pace.stop()

    def _end_budget(self, error: BudgetReached) -> None:
        """Start no more items, as the budget does not cover them."""
        stopped = JobStopped(f"{error}. {self.records.resume_text}", reason="budget")
        stopped.__cause__ = error
        self.schedule.stop(stopped)
        self.records.progress.finish()

    @property
    def _running(self) -> int:
        """The number of items that run and do not wait to be admitted."""
        waiting = self._pace.waiting + (0 if self.ledger is None else self.ledger.waiting)
        return max(self.schedule.running - waiting, 0)

    def _state(self) -> JobActivity:
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


def stopped_by(error: Exception) -> JobStopped:
    """Return the error that ends a job after an error that every other item would get too."""
    stopped = JobStopped(f"the job was stopped, as every other item would fail likewise: {error}")
    stopped.__cause__ = error
    return stopped
