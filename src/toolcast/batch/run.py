"""The run of a job: each row becomes one structured call, and its result or error an `Outcome`."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar, cast

from ..async_support.waiters import Waiters
from ..errors import AuthFailed, CallError, NotFound, QuotaExceeded, UnsupportedLLMError
from ..structured.call import run_call
from ..structured.orchestrator import ToolOrchestratingLLM, begin_call
from ..transport.network import IOBackend
from ..usage import NO_USAGE
from .errors import JobStopped
from .inputs import InputRow, read_row
from .job_options import JobOptions
from .outcome import Outcome
from .schedule import Schedule

T = TypeVar("T")

HOPELESS: Final = (AuthFailed, NotFound, QuotaExceeded, UnsupportedLLMError)
"""The errors that every other item would get too: the key, the model or the account."""

CONCURRENCY: Final = 16
"""The number of items at once where neither the caller nor the service sets one."""


class JobRun(Generic[T]):
    """One run of a job: its schedule, and the work on one row.

    Attributes:
        call: The call that is made for each row.
        schedule: Which row starts next, and which outcome is returned next.
        changed: The waiters for outcomes and for room for further rows.
    """

    def __init__(self, call: ToolOrchestratingLLM[T], options: JobOptions) -> None:
        self.call = call
        self.schedule: Schedule[T] = Schedule(
            limit=options.get("max_concurrency") or CONCURRENCY, ordered=options.get("ordered", True)
        )
        self.changed = Waiters()
        self.raises: bool = options.get("on_error") == "raise"
        self._key = options.get("key")

    def read(self, input: Any) -> None:
        """Add the row of one input."""
        self.schedule.add(read_row(self.schedule.next_index, input, self.call.prompt.variables))

    def should_wake(self) -> bool:
        """Return whether the consumer has something to do: to take an outcome, to read rows, or to end."""
        return self.schedule.wants_rows_soon or self.has_outcome()

    def has_outcome(self) -> bool:
        """Return whether an outcome is ready, or none will follow."""
        return self.schedule.ready > 0 or self.schedule.ended

    async def work(self, row: InputRow | None, backend: IOBackend) -> None:
        """Work on `row` and then on further rows, until no more may start."""
        try:
            while row is not None:
                outcome = await self._outcome(row, backend)
                if isinstance(outcome.error, HOPELESS):
                    self.schedule.stop(_stopped_by(outcome.error))
                row = self.schedule.finish(outcome)
                self.changed.wake()
        except BaseException as error:
            # A cancellation, or an exit that a tool demands; the consumer raises the latter.
            self.schedule.abandon()
            self.schedule.stop(error)
            self.changed.wake()
            raise

    async def _outcome(self, row: InputRow, backend: IOBackend) -> Outcome[T]:
        key = self._key_of(row)
        if row.error is not None:
            return Outcome(row.index, key, row.input, error=row.error)
        began = backend.now()
        try:
            prepared, trace = begin_call(self.call, row.values)
            result = await run_call(prepared, backend, trace)
        except Exception as error:  # the item's: any error of the call, a validator or a tool
            attempts = error.attempts if isinstance(error, CallError) else ()
            usage = sum([attempt.usage or NO_USAGE for attempt in attempts], NO_USAGE)
            seconds = backend.now() - began
            return Outcome(row.index, key, row.input, None, error, len(attempts), usage, seconds)
        return Outcome(
            row.index,
            key,
            row.input,
            cast("T", result.output),
            None,
            len(result.attempts),
            result.usage,
            backend.now() - began,
        )

    def _key_of(self, row: InputRow) -> str:
        if self._key is None or row.error is not None:
            return str(row.index)
        if callable(self._key):
            return str(self._key(row.input))
        return str(row.input[self._key] if isinstance(row.input, dict) else getattr(row.input, self._key))


def _stopped_by(error: Exception) -> JobStopped:
    stopped = JobStopped(f"the job was stopped, as every other item would fail likewise: {error}")
    stopped.__cause__ = error
    return stopped
