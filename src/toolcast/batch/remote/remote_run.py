"""`RemoteRun`: the batches of a job at the provider, written once for sync and async callers.

A run takes one step at a time, each in one of these phases:

    recovering ──> filling ──nothing more can be put in batches──> waiting ──a batch has ended──> fetching
                      ^                                               │                               │
                      ├──a status has arrived, a live request ended───┘        its results were read  │
                      └───────────────────────────────────────────────────────────────────────────────┘

* `recovering`: look for the batches of an earlier process (recovery.py).
* `filling`: read inputs until a batch is full, and submit it (submission.py).
* `waiting`: ask for the status of the batches (open_batches.py). If there are none, the job ends.
* `fetching`: read the results of a batch (batch_results.py).

A step that changes something at the provider is recorded in the journal first (journal.py), so that the process may be
killed at any moment: what was submitted is found again, and an outcome that was written is not asked for again. All I/O
is awaited from an `IOBackend`; the order of the steps depends only on the responses and on the clock in it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar, cast

from ...errors import BadRequest, LLMError, RateLimited, StreamTruncated, TryAgain
from ...llms.http_llm import ServiceLLM
from ...providers.batch_codec import BatchResult, BatchStatus
from ...structured.response_validation import RETRYABLE, retry_text
from ...values.usage import NO_USAGE
from ..inputs import InputRow
from ..job_run import JobRun
from ..outcome import Outcome
from ..progress.job_progress import JobActivity
from .batch_item import RemoteItem, output_of, read_answer
from .batch_results import Fetch
from .batch_service import BatchService
from .batch_spending import BatchSpending
from .intake import Intake, Pause, failed
from .journal import InvalidAnswer, Journal, Plan
from .open_batches import OpenBatches, RemoteBatch
from .reasks import FULL_WAIT, LiveReasks, Reask
from .recovery import find_batch
from .submission import discard, submit_batch

T = TypeVar("T")

logger: Final = logging.getLogger("toolcast")

OPEN_BATCHES: Final = 8
"""The number of batches at once. The inputs of the items in them are in memory."""

NO_FURTHER: Final = "it gets no further at the service"


class Phase(Enum):
    """A phase in which no results are read. While they are, the phase is the `Fetch` of their batch."""

    RECOVERING = auto()
    FILLING = auto()
    WAITING = auto()


class RemoteRun(Generic[T]):
    """The batches of a job at the provider.

    Args:
        run: The run. Without a checkpoint, batches end with it.
        rows: The inputs.
        journal: The journal of the batches.
        service: The batch API of the provider.
    """

    def __init__(
        self, run: JobRun[T], rows: Iterator[Any] | AsyncIterator[Any], journal: Journal, service: BatchService
    ) -> None:
        plan = run.plan
        self._run = run
        self._schedule = run.schedule
        self._llm = cast("ServiceLLM", run.call.llm)  # checked by `batch_service`
        self._journal = journal
        self._service = service
        self._backend = service.backend
        self._reasks: LiveReasks[T] = LiveReasks(run.call, plan, service.backend)
        if self._reasks.ledger is not None:
            self._reasks.ledger.add(run.spent)
        self._spending = BatchSpending(self._reasks.ledger, self._llm, service.codec.price_factor)
        self._intake: Intake[T] = Intake(run, rows, service.codec, journal, self._spending)
        self._phase: Phase | Fetch = Phase.RECOVERING
        self._open = OpenBatches(plan.poll)
        self._unfinished: list[RemoteBatch] = []  # whose results were read, with items that are asked again live

    async def advance(self) -> None:
        """Take steps until there is an outcome, or none will follow.

        Raises:
            LLMError: It gets no further at the service.
            ProviderBatchError: The provider's results do not fit to the batch, or a batch of an earlier run is gone.
        """
        while not (self._schedule.ready or self._schedule.given_up):
            await self._take_reasks()
            if not self._schedule.ready:
                self._phase = await self._step(self._phase)

    async def _step(self, phase: Phase | Fetch) -> Phase | Fetch:
        """Take the next step of a phase, and return the phase that follows."""
        if isinstance(phase, Fetch):
            if self._reasks.is_full:
                await self._reasks.wait(FULL_WAIT)
                return phase
            return await self._read_results(phase)
        if phase is Phase.RECOVERING:
            for plan in self._journal.plans():
                await self._recover(plan)
        elif phase is Phase.WAITING:
            return await self._wait()
        elif self._may_fill:
            await self._intake.fill()
        elif self._intake.is_ready and self._has_room:
            await self._submit()
        else:
            return Phase.WAITING
        return Phase.FILLING

    async def _wait(self) -> Phase | Fetch:
        """Wait for a batch or for live requests; without either the job ends. Batches of a checkpoint may go on."""
        if self._open and not (self._schedule.stopped and self._journal.keeps):
            return await self._poll_batches()
        if self._reasks.busy:
            await self._reasks.wait()
        else:
            assert self._schedule.stopped or not self._intake.again  # each of them goes into a batch
            self._schedule.give_up()
        return Phase.FILLING

    async def finish_reasks(self) -> None:
        """Wait for the live requests that run, and send no more."""
        self._reasks.stop()
        while self._reasks.busy:
            await self._reasks.wait()
            await self._take_reasks()

    async def close(self) -> None:
        """End the run. Batches that nothing would fetch the results of are cancelled and deleted."""
        await self._reasks.close()
        ended = list(self._unfinished)
        if isinstance(self._phase, Fetch):
            await self._phase.close()
            ended.append(self._phase.batch)
        if self._journal.keeps:
            self.report_open_batches()
            return
        for batch in self._open:
            await self._service.cancel(batch.id)
        for batch in (*self._open, *ended):
            await self._service.delete_files(batch.id, batch.status, batch.plan.file)
        self._open.clear()

    def abandon(self) -> None:
        """End the run without a request: its batches go on."""
        self._reasks.abandon()
        self.report_open_batches()

    def report_open_batches(self) -> None:
        """Log the batches that go on."""
        if self._open:
            ids = ", ".join(self._open.ids)
            how = "start the job again with the same checkpoint" if self._journal.keeps else "their results are lost"
            logger.warning("the batches %s of %s go on: %s", ids, self._service.codec.provider, how)

    @property
    def activity(self) -> JobActivity:
        """The number of items in batches, for the display of the progress."""
        batches = [*self._open, self._phase.batch] if isinstance(self._phase, Fetch) else self._open
        items = sum([len(batch.items) for batch in batches]) + sum([batch.asked for batch in self._unfinished])
        return JobActivity(items, None, "batch API" if items else "", self._spending.describe())

    # The batches of earlier runs

    async def _recover(self, plan: Plan) -> None:
        """Find out what has happened to a batch of an earlier run."""
        if plan.state == "settled":
            assert plan.batch is not None  # it was submitted
            await self._finish(RemoteBatch(plan, plan.batch, []))
            return
        found = plan.batch
        if plan.state == "submitting":
            found = await find_batch(self._service, plan, plan.created, self._open)
            if found is not None:
                self._journal.submitted(plan.tag, found)
        if found is None:
            await discard(self._service, self._journal, plan.tag, plan.file)
            return
        items = [self._intake.expect(key, plan.tag, kept) for key, kept in zip(plan.keys, plan.reserved, strict=True)]
        self._open.add(RemoteBatch(plan, found, items), self._backend.now(), at_once=True)

    @property
    def _due(self) -> list[RemoteBatch]:
        """The batches whose results can be used."""
        return self._open.due(input_ended=self._schedule.input_ended)

    @property
    def _has_room(self) -> bool:
        """True if a further batch may be submitted."""
        due = len(self._due)
        return not self._schedule.stopped and due < OPEN_BATCHES and not (due and self._intake.pause is Pause.SERVICE)

    @property
    def _may_fill(self) -> bool:
        """True if more items can be added to the next batch, or rows read."""
        intake = self._intake
        if intake.batch.full or not self._has_room:
            return False
        if intake.pause is not Pause.BUDGET:
            return intake.has_rows
        # The results of the batches of an earlier run are not used before the inputs of their items have been read.
        return not self._schedule.input_ended and bool(self._open) and not self._due

    # Submitting

    async def _submit(self) -> None:
        """Submit the batch that was filled."""
        filled = self._intake.take()
        batch = await submit_batch(self._service, self._journal, filled, self._open)
        if isinstance(batch, LLMError):
            self._refused(filled.items, batch)
            return
        provider = self._service.codec.provider
        logger.info("batch %s of %s with %d items was submitted", batch.id, provider, len(batch.items))
        self._open.add(batch, self._backend.now())

    def _refused(self, items: list[RemoteItem], error: LLMError) -> None:
        """Put the items of a refused batch into a later one if the service has too many now; else submit no more."""
        for item in items:
            self._spending.settle(item)
        self._intake.pause = None
        self._intake.again.extendleft(reversed([item for item in items if item.row is not None and not item.ended]))
        if isinstance(error, RateLimited) and self._due:
            self._intake.pause = Pause.SERVICE
        else:
            self._run.stop(error, NO_FURTHER)

    # Waiting

    async def _poll_batches(self) -> Phase | Fetch:
        """Wait for the next status that is due, and begin to read the results of a batch that has ended."""
        batch = min(self._due, key=lambda each: each.next_poll)
        if (wait := batch.next_poll - self._backend.now()) > 0 and self._reasks.busy:
            await self._reasks.wait(wait)
            if self._reasks.ready or not self._reasks.busy:
                return Phase.FILLING
        if (wait := batch.next_poll - self._backend.now()) > 0:
            await self._backend.sleep(wait)
        status = await self._open.poll(batch, self._service)
        if status is None:
            return Phase.FILLING
        self._intake.pause = None
        if status.state == "failed":
            await self._settle_batch(batch)
            self._refused(batch.items, _error_of(status))
            return Phase.FILLING
        return Fetch(batch, status, self._service)

    # Results

    async def _read_results(self, fetch: Fetch) -> Phase | Fetch:
        """Read the next chunk of the results, or end the batch."""
        if fetch.at_end:
            await self._end_batch(fetch)
            return Phase.FILLING
        for result in await fetch.read():
            if (item := fetch.match(result)) is None:
                continue
            if item.row is None:  # it is not in the inputs any more
                self._spending.settle(item, may_cost=result.error is None)
            elif item.ended:  # its usage is in the checkpoint
                self._spending.settle(item)
            else:
                await self._read_result(fetch.batch, item, item.row, result)
        return fetch

    async def _read_result(self, batch: RemoteBatch, item: RemoteItem, row: InputRow, result: BatchResult) -> None:
        """End an item by its result, or ask again."""
        if result.error is not None or result.body is None:
            failure = result.error or StreamTruncated("the result of the request has no response. Send it again.")
            self._spending.settle(item)
            if not self._goes_again(item, failure, unprocessed=result.unprocessed, cancelled=result.cancelled):
                self._intake.end(row, failed(row, failure, attempts=1, seconds=self._age(batch)))
            return
        usage, attempts = NO_USAGE, 1
        try:
            # An earlier run may have been killed after it recorded this response as invalid.
            attempts += len(self._journal.answers(item.key, without=batch.plan.tag))
            prepared, usage = self._intake.prepare(row, without=batch.plan.tag)
            response = read_answer(self._llm, prepared, result.body, self._service.codec.price_factor)
            self._spending.settle(item, response.usage, may_cost=True)
            usage += response.usage
            try:
                output = await output_of(prepared, response, self._backend)
            except (*RETRYABLE, TryAgain) as error:
                if prepared.max_attempts < 2:
                    raise
                if self._run.plan.reask == "live":
                    following = prepared.with_retry_messages(response, error)
                    batch.asked += 1
                    self._reasks.add(Reask(batch, item, row, following, attempts, usage))
                else:
                    reason = retry_text(error)
                    self._journal.add_answer(item.key, batch.plan.tag, InvalidAnswer(result.body, reason))
                    self._intake.again.append(item)
                return
        except Exception as error:  # the item's: any error of its response, a validator or a tool
            self._spending.settle(item, may_cost=True)  # a body that is no response reports no usage
            self._intake.end(row, failed(row, error, usage, attempts, self._age(batch)))
            return
        self._intake.end(row, Outcome(row.index, row.key, row.input, output, None, attempts, usage, self._age(batch)))

    async def _take_reasks(self) -> None:
        """End the items that were asked again live, and the batches of which these were the last items."""
        while (ended := self._reasks.take()) is not None:
            reask, found = ended
            batch = reask.batch
            attempts, usage = reask.attempts + found.attempts, reask.usage + found.usage
            outcome = replace(found, attempts=attempts, usage=usage, seconds=self._age(batch))
            self._intake.end(reask.row, outcome)
            batch.asked -= 1
            if not batch.asked and batch in self._unfinished:
                self._unfinished.remove(batch)
                await self._settle_batch(batch)
            if self._intake.pause is Pause.BUDGET and not self._reasks.busy:
                self._intake.pause = None
        error = self._reasks.error
        if error is None or self._schedule.stopped:
            return
        if not isinstance(error, Exception):  # an exit that a function demands
            raise error
        assert isinstance(error.__cause__, Exception)  # that of a `JobStopped`
        self._run.stop(error.__cause__)

    def _goes_again(self, item: RemoteItem, error: LLMError, *, unprocessed: bool, cancelled: bool) -> bool:
        """Put an item into a further batch whose request was not processed, or failed for a reason that may pass."""
        if cancelled or not (unprocessed or error.retryable) or item.repeated >= self._service.max_retries:
            return False
        item.repeated += 1
        self._intake.again.append(item)
        return True

    async def _end_batch(self, fetch: Fetch) -> None:
        """End a batch whose results are read: each item without a result goes into a further batch, or fails."""
        fetch.check()
        batch = fetch.batch
        cancelled = batch.status is not None and batch.status.cancelled
        for place, item in enumerate(batch.items):
            if place in fetch.seen:
                continue
            self._spending.settle(item, may_cost=bool(fetch.unread))
            if item.row is not None and not item.ended:
                error = StreamTruncated(f"the batch {batch.id} ended without a result of this request. Send it again.")
                if not self._goes_again(item, error, unprocessed=True, cancelled=cancelled):
                    self._intake.end(item.row, failed(item.row, error, attempts=1, seconds=self._age(batch)))
        self._intake.pause = None
        if batch.asked:
            self._unfinished.append(batch)
        else:
            await self._settle_batch(batch)

    def _age(self, batch: RemoteBatch) -> float:
        """Return the seconds since a batch was planned."""
        return self._backend.time() - batch.plan.created

    async def _settle_batch(self, batch: RemoteBatch) -> None:
        """Record that nothing of a batch is needed any more, and delete what the provider stores of it."""
        self._journal.settled(batch.plan.tag)
        await self._finish(batch)

    async def _finish(self, batch: RemoteBatch) -> None:
        """Delete what the provider stores of a batch that is settled."""
        await self._service.delete_files(batch.id, batch.status, batch.plan.file)
        self._journal.drop(batch.plan.tag)


def _error_of(status: BatchStatus) -> LLMError:
    return status.error or BadRequest(f"the service refused the batch {status.id} ({status.raw}) without a reason.")
