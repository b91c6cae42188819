"""`LiveReasks`: invalid responses of a batch that are asked about again at once, as the items of a live job.

The workers, the pacing and the budget are those of a live job (`LiveRun`), while the batches of the provider go on. All
methods are called by the thread or task of the consumer.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from ...lazy.lazy_dataclasses import dataclass
from ...llms.call_state import CallState
from ...structured.call import PreparedCall
from ...structured.orchestrator import ToolOrchestratingLLM, begin_call
from ...transport.network import IOBackend
from ...values.usage import Usage
from ..inputs import InputRow
from ..job_budget import Ledger
from ..job_options import JobPlan
from ..job_workers import workers_of
from ..live_run import LiveRun
from ..outcome import Outcome
from .batch_item import RemoteItem
from .open_batches import RemoteBatch

T = TypeVar("T")

FULL_WAIT: Final = 0.5
"""The seconds after which it is checked again if the requests wait for the budget."""


@dataclass(slots=True, eq=False)
class Reask:
    """An item whose response in a batch was invalid.

    Attributes:
        batch: The batch.
        item: The item.
        row: Its row.
        prepared: The call with the error appended to its messages.
        attempts: The number of its requests in batches.
        usage: The tokens of these.
    """

    batch: RemoteBatch
    item: RemoteItem
    row: InputRow
    prepared: PreparedCall
    attempts: int
    usage: Usage


class LiveReasks(Generic[T]):
    """The items that are asked about again live.

    Args:
        call: The call of the job.
        plan: The options of the job: the budget and the limits of the requests.
        backend: The network of the consumer.

    Attributes:
        ledger: The budget of the job, if it has one.
    """

    def __init__(self, call: ToolOrchestratingLLM[T], plan: JobPlan, backend: IOBackend) -> None:
        limits = {name: getattr(plan, name) for name in ("budget", "max_concurrency", "rpm", "tpm")}
        self._call = call
        self._backend = backend
        self._run: LiveRun[T] = LiveRun(call, JobPlan(**limits, ordered=False, progress=False), prepare=self._prepare)
        self._run.run.progress.begin(None, backend.now())  # and not the run: Ctrl-C ends the whole job
        self._asked: dict[int, Reask] = {}
        self._workers = workers_of(self._run, concurrent=backend.concurrent)
        self.ledger: Ledger | None = self._run.ledger

    @property
    def busy(self) -> bool:
        """True if outcomes will follow."""
        return bool(self._asked) and not self._run.schedule.ended

    @property
    def ready(self) -> bool:
        """True if an outcome can be taken."""
        return self._run.schedule.ready > 0

    @property
    def is_full(self) -> bool:
        """True if no more items are wanted now: each is in memory with its messages.

        Requests that wait for the budget may wait for the results of batches, so that these have to be read then.
        """
        schedule, ledger = self._run.schedule, self.ledger
        return not (schedule.stopped or schedule.wanted or (ledger is not None and ledger.waiting))

    @property
    def error(self) -> BaseException | None:
        """The error that every other item would get too, once no request is under way."""
        return self._run.schedule.error if self._run.schedule.ended else None

    def add(self, reask: Reask) -> None:
        """Add an item, which is asked as soon as the pacing allows it."""
        self._asked[reask.row.index] = reask
        self._run.schedule.add(reask.row)
        self._workers.start()

    def take(self) -> tuple[Reask, Outcome[T]] | None:
        """Return the outcome of an item's live requests, if one has ended."""
        outcome = self._run.schedule.take()
        if outcome is None:
            return None
        self._workers.start()
        return self._asked.pop(outcome.index), outcome

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until an outcome can be taken or none will follow, or for `seconds`."""
        if not self._backend.concurrent:
            self._run.changed.block(self._run.has_outcome, seconds)
            return
        import anyio

        with anyio.move_on_after(seconds):
            await self._run.changed.suspend(self._run.has_outcome)

    def stop(self) -> None:
        """Start no more items."""
        self._run.schedule.stop()

    async def close(self) -> None:
        """Abort the requests that run."""
        self.stop()
        await self._workers.close()
        self._run.close()
        self._run.run.close()

    def abandon(self) -> None:
        """Abort the requests that run, without waiting for their end."""
        self.stop()
        self._workers.abandon()
        self._run.close()
        self._run.run.close()

    def _prepare(self, row: InputRow) -> tuple[PreparedCall, CallState]:
        """Return the call for the next attempt of an item, and the state of a call that begins now."""
        _, state = begin_call(self._call, row.values)
        return self._asked[row.index].prepared, state
