"""`RemoteRun`: a job through the batch API of a provider, written once for sync and async callers.

Each call of `next_outcomes` takes one step at a time, in this order: look for the batches of an earlier process
(recovery.py), read the results of an ended batch (fetching.py), read inputs until a batch is full, submit it
(submission.py), ask for the status of the batches (open_batches.py). A step that changes something at the provider is
recorded in the journal first (journal.py), so that the process may be killed at any moment: what was submitted is found
again, and an outcome that was written is not asked for again.

All I/O is awaited from an `IOBackend`; the order of the steps depends only on the responses and on the clock in it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Generic, TypeVar, cast

from ...errors import BadRequest, LLMError, RateLimited, StreamTruncated, TryAgain
from ...llms.http_llm import ServiceLLM
from ...providers.batch_codec import BatchResult, BatchStatus
from ...structured.orchestrator import ToolOrchestratingLLM
from ...structured.response_validation import RETRYABLE, retry_text
from ...transport.network import IOBackend
from ...usage import NO_USAGE
from ..errors import BudgetReached, JobStopped
from ..inputs import InputRow
from ..item_records import ItemRecords
from ..job_options import JobPlan
from ..outcome import Outcome
from ..progress.account import JobActivity
from ..run import HOPELESS, stopped_by
from .ended_items import EndedItems
from .fetching import Fetch
from .intake import Intake, failed
from .item import RemoteItem, output_of, read_answer
from .journal import InvalidAnswer, Journal, Plan
from .open_batches import OpenBatches, RemoteBatch
from .reasks import FULL_WAIT, LiveReasks, Reask
from .recovery import find_batch
from .service import BatchService, batch_service
from .spending import BatchSpending
from .submission import discard, submit_batch

T = TypeVar("T")

logger: Final = logging.getLogger("toolcast")

OPEN_BATCHES: Final = 8
"""The number of batches at once. The inputs of the items in them are in memory."""


class RemoteRun(Generic[T]):
    """One run of a job through the batch API of the provider.

    Args:
        call: The call of the job.
        read_row: Return the next row, None at the end.
        records: The keys, the stored outcomes and the progress. Without a checkpoint, batches end with the run.
        journal: The journal of the batches.
        backend: The network and the clock.
        plan: The options of the job.
    """

    def __init__(
        self,
        call: ToolOrchestratingLLM[T],
        *,
        read_row: Callable[[], Awaitable[InputRow | None]],
        records: ItemRecords[T],
        journal: Journal,
        backend: IOBackend,
        plan: JobPlan,
    ) -> None:
        self._call = call
        self._llm = cast("ServiceLLM", call.llm)  # checked by `_begin`
        self._read_row = read_row
        self._raises = plan.raises
        self._records = records
        self._journal = journal
        self._backend = backend
        self._reask_live = plan.reask == "live"
        self._ended: EndedItems[T] = EndedItems(records, journal, ordered=plan.ordered)
        self._reasks: LiveReasks[T] = LiveReasks(call, plan, backend)
        if self._reasks.ledger is not None:
            self._reasks.ledger.add(records.spent)
        self._begun = False
        self._service: BatchService
        self._spending: BatchSpending
        self._intake: Intake[T]
        self._open = OpenBatches(plan.poll)
        self._unfinished: list[RemoteBatch] = []  # whose results were read, with items that are asked again live
        self._fetch: Fetch | None = None
        self._held_back = False  # no batch is submitted before another has ended
        self._refusal: Exception | None = None  # of all further batches
        self._error: Exception | None = None  # the end of the run

    async def next_outcomes(self) -> list[Outcome[T]]:
        """Return the next outcomes, or an empty list at the end.

        Raises:
            JobStopped: The provider refuses all batches; what has ended before was returned.
            ProviderBatchError: The provider's results do not fit to the batch, or a batch of an earlier run is gone.
        """
        if self._error is None:
            try:
                return await self._run_to_outcomes()
            except LLMError as error:
                self._end_job(error, "it gets no further at the service")
                await self._finish_reasks()
            except Exception as error:  # raised after the outcomes that have ended
                self._error = error
        if ready := self._ended.take(all=True):
            return ready
        assert self._error is not None  # set above, or by an earlier call
        raise self._error

    async def _run_to_outcomes(self) -> list[Outcome[T]]:
        """Take steps until there are outcomes; return an empty list at the end."""
        if not self._begun:
            await self._begin()
        while True:
            await self._take_reasks()
            if ready := self._ended.take():
                return ready
            if self._fetch is not None and self._reasks.is_full:
                await self._reasks.wait(FULL_WAIT)
            elif self._fetch is not None:
                await self._read_results(self._fetch)
            elif self._may_fill:
                await self._fill()
            elif self._intake.is_ready and self._has_room:
                await self._submit()
            elif not await self._wait():
                return self._end()

    async def _wait(self) -> bool:
        """Wait for a batch or for live requests; return False if there are none."""
        if self._open and (self._refusal is None or not self._journal.keeps):
            await self._poll_batches()
        elif self._reasks.busy:
            await self._reasks.wait()
        else:
            return False
        return True

    def _end(self) -> list[Outcome[T]]:
        """Return the last outcomes, or an empty list after them; raise the error that has ended the job early."""
        if self._refusal is not None:
            raise self._refusal
        assert not self._intake.again  # each of them goes into a batch, unless there is a refusal
        ready = self._ended.take(all=True)
        if not ready and self._intake.error is not None:
            raise self._intake.error
        return ready

    async def _finish_reasks(self) -> None:
        """Wait for the live requests that run, and send no more."""
        self._reasks.stop()
        while self._reasks.busy:
            await self._reasks.wait()
            await self._take_reasks()

    async def close(self) -> None:
        """End the run. Batches that nothing would fetch the results of are cancelled and deleted."""
        await self._reasks.close()
        if self._fetch is not None:
            await self._fetch.close()
        if self._journal.keeps:
            self.report_open_batches()
            return
        for batch in self._open:
            await self._service.cancel(batch.id)
        ended = self._unfinished if self._fetch is None else [*self._unfinished, self._fetch.batch]
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
            how = (
                "their results are lost" if not self._journal.keeps else "start the job again with the same checkpoint"
            )
            logger.warning("the batches %s of %s go on: %s", ids, self._service.codec.provider, how)

    @property
    def activity(self) -> JobActivity:
        """The number of items in batches, for the display of the progress."""
        batches = self._open if self._fetch is None else [*self._open, self._fetch.batch]
        items = sum([len(batch.items) for batch in batches]) + sum([batch.asked for batch in self._unfinished])
        budget = self._spending.describe() if self._begun else ""
        return JobActivity(items, None, "batch API" if items else "", budget)

    # The batches of earlier runs

    async def _begin(self) -> None:
        self._service = await batch_service(self._call.llm, self._backend)
        codec = self._service.codec
        self._spending = BatchSpending(self._reasks.ledger, self._llm, codec.price_factor)
        self._intake = Intake(
            self._call, self._read_row, codec, self._journal, self._ended, self._spending, self._after_error
        )
        self._begun = True
        for plan in self._journal.plans():
            await self._recover(plan)

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
        return self._open.due(input_ended=self._intake.at_end)

    @property
    def _has_room(self) -> bool:
        """True if a further batch may be submitted."""
        due = len(self._due)
        return self._refusal is None and due < OPEN_BATCHES and not (due and self._held_back)

    @property
    def _may_fill(self) -> bool:
        """True if more items can be added to the next batch, or rows read."""
        intake = self._intake
        if intake.batch.full or not self._has_room:
            return False
        if not intake.is_short:
            return bool(intake.again) or not intake.at_end
        # The results of the batches of an earlier run are not used before the inputs of their items have been read.
        return not intake.at_end and bool(self._open) and not self._due

    async def _fill(self) -> None:
        """Add one item to the next batch, or find out that it needs no request."""
        try:
            await self._intake.fill()
        except BudgetReached as error:
            raise self._out_of_budget(error) from error

    def _out_of_budget(self, error: BudgetReached) -> JobStopped:
        stopped = JobStopped(f"{error}. {self._records.resume_text}", reason="budget")
        stopped.__cause__ = error
        return stopped

    def _after_error(self, error: Exception) -> None:
        """Submit no more batches after the error of an item that is raised, or that every other item would get too."""
        if self._refusal is None and (self._raises or isinstance(error, HOPELESS)):
            self._stop(error if self._raises else stopped_by(error))

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
        self._intake.is_short = False
        self._intake.again.extendleft(reversed([item for item in items if item.row is not None and not item.ended]))
        if isinstance(error, RateLimited) and self._due:
            self._held_back = True
        else:
            self._stop(error)

    def _stop(self, error: Exception) -> None:
        """Submit no more batches; the error ends the job after what has ended."""
        self._refusal = error
        self._records.progress.finish()

    def _end_job(self, error: LLMError, why: str) -> None:
        again = "" if not self._journal.keeps else " Start it again with the same checkpoint; its batches go on."
        self._error = JobStopped(f"the job was stopped, as {why}: {error}{again}")
        self._error.__cause__ = error

    # Waiting

    async def _poll_batches(self) -> None:
        """Wait for the next status that is due, and begin to read the results of a batch that has ended."""
        batch = min(self._due, key=lambda each: each.next_poll)
        if (wait := batch.next_poll - self._backend.now()) > 0 and self._reasks.busy:
            await self._reasks.wait(wait)
            if self._reasks.ready or not self._reasks.busy:
                return
        if (wait := batch.next_poll - self._backend.now()) > 0:
            await self._backend.sleep(wait)
        status = await self._open.poll(batch, self._service)
        if status is None:
            return
        self._held_back = False
        if status.state == "failed":
            await self._settle_batch(batch)
            self._refused(batch.items, _error_of(status))
            return
        self._fetch = Fetch(batch, status, self._service)

    # Results

    async def _read_results(self, fetch: Fetch) -> None:
        """Read the next chunk of the results, or end the batch."""
        if fetch.at_end:
            await self._end_batch(fetch)
            return
        for result in await fetch.read():
            if (item := fetch.match(result)) is None:
                continue
            if item.row is None:  # it is not in the inputs any more
                self._spending.settle(item, may_cost=result.error is None)
            elif item.ended:  # its usage is in the checkpoint
                self._spending.settle(item)
            else:
                await self._read_result(fetch.batch, item, item.row, result)

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
                if self._reask_live:
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
            self._intake.end(reask.row, replace(found, attempts=attempts, usage=usage, seconds=self._age(batch)))
            batch.asked -= 1
            if not batch.asked and batch in self._unfinished:
                self._unfinished.remove(batch)
                await self._settle_batch(batch)
            self._intake.is_short = self._intake.is_short and self._reasks.busy
        error = self._reasks.error
        if error is None or self._refusal is not None:
            return
        if not isinstance(error, Exception):  # an exit that a function demands
            raise error
        why = error.__cause__
        self._stop(self._out_of_budget(why) if isinstance(why, BudgetReached) else error)

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
        self._fetch = None
        self._intake.is_short = False
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
