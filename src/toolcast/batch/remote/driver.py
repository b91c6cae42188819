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
from collections import deque
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from ...errors import BadRequest, CallError, LLMError, RateLimited, StreamTruncated, TryAgain
from ...llms.http_llm import ServiceLLM
from ...providers.batch_codec import BatchResult, BatchStatus
from ...structured.call import run_call
from ...structured.orchestrator import ToolOrchestratingLLM, begin_call, prepare_call
from ...structured.response_validation import RETRYABLE, retry_text
from ...transport.network import IOBackend
from ...usage import NO_USAGE, Usage
from ..errors import JobStopped
from ..inputs import InputRow
from ..outcome import Outcome
from ..progress.account import JobActivity, JobProgress
from .fetching import Fetch
from .item import RemoteItem, after_answers, output_of, read_answer, request_of
from .journal import InvalidAnswer, Journal, Plan
from .open_batches import OpenBatches, RemoteBatch
from .recovery import find_batch
from .service import BatchService, batch_service
from .submission import NextBatch, discard, submit_batch

T = TypeVar("T")

logger: Final = logging.getLogger("toolcast")

OPEN_BATCHES: Final = 8
"""The number of batches at once. The inputs of the items in them are in memory."""


class OutcomeStore(Protocol):
    """The stored outcomes of a job: its `Checkpoint`."""

    def find(self, key: str, index: int = 0, input: Any = None) -> Outcome[Any] | None:
        """Return the stored outcome of an item, if there is one."""
        ...

    def write(self, outcome: Outcome[Any]) -> None:
        """Store an outcome, before it is returned."""
        ...


class RemoteRun(Generic[T]):
    """One run of a job through the batch API of the provider.

    Args:
        call: The call of the job.
        read_row: Return the next row, None at the end.
        key_of: Return the key of a row.
        store: The stored outcomes; None without a checkpoint, so that batches end with the run.
        journal: The journal of the batches.
        progress: The counts of the job.
        backend: The network and the clock.
        poll: The seconds between two requests for the status of a batch; None: 5, growing to 60.
        reask: `"live"`: an invalid response is asked about at once, at the usual price; `"batch"`: in the next batch.
        ordered: Return the outcomes in the order of the rows.

    Attributes:
        backend: The network and the clock.
    """

    def __init__(
        self,
        call: ToolOrchestratingLLM[T],
        *,
        read_row: Callable[[], Awaitable[InputRow | None]],
        key_of: Callable[[InputRow], str],
        store: OutcomeStore | None,
        journal: Journal,
        progress: JobProgress,
        backend: IOBackend,
        poll: float | None = None,
        reask: str = "live",
        ordered: bool = True,
    ) -> None:
        self._call = call
        self._llm = cast("ServiceLLM", call.llm)  # checked by `_begin`
        self._read_row = read_row
        self._key_of = key_of
        self._store = store
        self._journal = journal
        self._progress = progress
        self.backend = backend
        self._reask_live = reask == "live"
        self._ordered = ordered
        self._begun = False
        self._service: BatchService
        self._open = OpenBatches(poll)
        self._waiting: dict[str, RemoteItem] = {}  # the items of earlier runs whose inputs have not been read
        self._fetch: Fetch | None = None
        self._filling = NextBatch()
        self._again: deque[RemoteItem] = deque()  # items that are put in a further batch, before new rows
        self._held_back = False  # no batch is submitted before another has ended
        self._input_ended = False
        self._finished: dict[int, Outcome[T]] = {}
        self._returned = 0  # ordered: the outcomes up to this index were returned
        self._refusal: LLMError | None = None  # of all further batches
        self._input_error: Exception | None = None
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
            except Exception as error:  # raised after the outcomes that have ended
                self._error = error
        if ready := self._take(all=True):
            return ready
        assert self._error is not None  # set above, or by an earlier call
        raise self._error

    async def _run_to_outcomes(self) -> list[Outcome[T]]:
        """Take steps until there are outcomes; return an empty list at the end."""
        if not self._begun:
            await self._begin()
        while True:
            if ready := self._take():
                return ready
            if self._fetch is not None:
                await self._read_results(self._fetch)
            elif self._may_fill:
                await self._fill()
            elif self._filling.items and self._may_submit:
                await self._submit()
            elif self._open and (self._refusal is None or self._store is None):
                await self._poll_batches()
            elif self._refusal is not None:
                raise self._refusal
            elif ready := self._take(all=True):
                return ready
            elif self._input_error is not None:
                raise self._input_error
            else:
                return []

    async def close(self) -> None:
        """End the run. Batches that nothing would fetch the results of are cancelled and deleted."""
        if self._fetch is not None:
            await self._fetch.close()
        if self._store is not None:
            self.report_open_batches()
            return
        for batch in self._open:
            await self._service.cancel(batch.id)
            await self._service.delete_files(batch.id, batch.status, batch.plan.file)
        self._open.clear()

    def report_open_batches(self) -> None:
        """Log the batches that go on."""
        if self._open:
            ids = ", ".join(self._open.ids)
            how = "their results are lost" if self._store is None else "start the job again with the same checkpoint"
            logger.warning("the batches %s of %s go on: %s", ids, self._service.codec.provider, how)

    @property
    def activity(self) -> JobActivity:
        """The number of items in batches, for the display of the progress."""
        batches = self._open if self._fetch is None else [*self._open, self._fetch.batch]
        items = sum([len(batch.items) for batch in batches])
        return JobActivity(items, None, "batch API" if items else "")

    # The batches of earlier runs

    async def _begin(self) -> None:
        self._service = await batch_service(self._call.llm, self.backend)
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
        items = [self._waiting_item(key) for key in plan.keys]
        self._open.add(RemoteBatch(plan, found, items), self.backend.now(), at_once=True)

    def _waiting_item(self, key: str) -> RemoteItem:
        item = self._waiting[key] = RemoteItem(key)
        return item

    # Inputs

    @property
    def _due(self) -> list[RemoteBatch]:
        """The batches whose results can be used."""
        return self._open.due(input_ended=self._input_ended)

    @property
    def _has_room(self) -> bool:
        """True if a further batch may be submitted."""
        due = len(self._due)
        return self._refusal is None and due < OPEN_BATCHES and not (due and self._held_back)

    @property
    def _may_fill(self) -> bool:
        """True if more items can be added to the next batch."""
        return not self._filling.full and (bool(self._again) or not self._input_ended) and self._has_room

    @property
    def _may_submit(self) -> bool:
        return self._has_room and (self._filling.full or (self._input_ended and not self._again))

    async def _fill(self) -> None:
        """Add one item to the next batch, or find out that it needs no request."""
        if self._again:
            self._put(self._again.popleft())
            return
        try:
            row = await self._read_row()
        except Exception as error:  # the caller's iterator; raised after the outcomes of the rows before it
            self._input_error = error
            row = None
        if row is None:
            self._end_input()
            return
        if row.error is not None:
            self._end_item(Outcome(row.index, self._key_or_index(row), row.input, error=row.error))
            return
        key = self._key_of(row)
        if self._store is not None and (stored := self._store.find(key, row.index, row.input)) is not None:
            self._progress.restored(stored)
            self._finished[row.index] = stored
            # That run may have been killed in the middle of the results of a batch.
            if (item := self._waiting.pop(key, None)) is not None:
                item.row, item.ended = row, True
            return
        if (item := self._waiting.pop(key, None)) is not None:
            item.row = row
            return
        self._put(RemoteItem(key, row))

    def _key_or_index(self, row: InputRow) -> str:
        try:
            return self._key_of(row)
        except Exception:  # an unreadable row may have no key; its error is that of the row
            return str(row.index)

    def _end_input(self) -> None:
        self._input_ended = True
        if self._waiting:
            logger.warning(
                "%d items of batches that were submitted before are not in the inputs any more; their results are "
                "dropped",
                len(self._waiting),
            )

    def _put(self, item: RemoteItem) -> None:
        """Add an item to the next batch, if it fits; else the batch is full, and the item is for the one after it."""
        assert item.row is not None  # only read items are put
        try:
            prepared = prepare_call(self._call, item.row.values)
            prepared, _ = after_answers(self._llm, prepared, self._journal.answers(item.key), self._factor)
            line = self._filling.encode(request_of(self._llm, prepared), self._service.codec)
        except Exception as error:  # the item's: its values do not fit the prompt, or the provider has no such content
            self._end_item(self._failed(item, error))
            return
        if self._filling.has_room(line, self._service.codec):
            self._filling.add(item, line, self._service.codec)
        else:
            self._again.appendleft(item)

    # Submitting

    async def _submit(self) -> None:
        """Submit the batch that was filled."""
        filled, self._filling = self._filling, NextBatch()
        batch = await submit_batch(self._service, self._journal, filled, self._open)
        if isinstance(batch, LLMError):
            self._refused(filled.items, batch)
            return
        provider = self._service.codec.provider
        logger.info("batch %s of %s with %d items was submitted", batch.id, provider, len(batch.items))
        self._open.add(batch, self.backend.now())

    def _refused(self, items: list[RemoteItem], error: LLMError) -> None:
        """Put the items of a refused batch into a later one if the service has too many now; else submit no more."""
        self._again.extendleft(reversed(items))
        if isinstance(error, RateLimited) and self._due:
            self._held_back = True
        else:
            self._refusal = error

    def _end_job(self, error: LLMError, why: str) -> None:
        again = "" if self._store is None else " Start it again with the same checkpoint; its batches go on."
        self._error = JobStopped(f"the job was stopped, as {why}: {error}{again}")
        self._error.__cause__ = error

    # Waiting

    async def _poll_batches(self) -> None:
        """Wait for the next status that is due, and begin to read the results of a batch that has ended."""
        batch = min(self._due, key=lambda each: each.next_poll)
        if (wait := batch.next_poll - self.backend.now()) > 0:
            await self.backend.sleep(wait)
        status = await self._open.poll(batch, self._service)
        if status is None:
            return
        self._held_back = False
        if status.state == "failed":
            self._journal.settled(batch.plan.tag)
            await self._finish(batch)
            self._refused([item for item in batch.items if item.row is not None], _error_of(status))
            return
        self._fetch = Fetch(batch, status, self._service)

    # Results

    async def _read_results(self, fetch: Fetch) -> None:
        """Read the next chunk of the results, or end the batch."""
        if fetch.at_end:
            await self._end_batch(fetch)
            return
        for result in await fetch.read():
            item = fetch.match(result)
            if item.row is not None and item.row.index not in self._finished and not item.ended:
                await self._read_result(fetch.batch, item, item.row, result)

    async def _read_result(self, batch: RemoteBatch, item: RemoteItem, row: InputRow, result: BatchResult) -> None:
        """End an item by its result, or ask again."""
        if result.error is not None or result.body is None:
            failure = result.error or StreamTruncated("the result of the request has no response. Send it again.")
            if not self._goes_again(item, failure, unprocessed=result.unprocessed, cancelled=result.cancelled):
                self._end_item(self._failed(item, failure, began=batch.plan.created))
            return
        usage, attempts = NO_USAGE, 1
        try:
            # An earlier run may have been killed after it recorded this response as invalid.
            answers = self._journal.answers(item.key, without=batch.plan.tag)
            attempts += len(answers)
            prepared = prepare_call(self._call, row.values)
            prepared, usage = after_answers(self._llm, prepared, answers, self._factor)
            response = read_answer(self._llm, prepared, result.body, self._factor)
            usage += response.usage
            try:
                output = await output_of(prepared, response, self.backend)
            except (*RETRYABLE, TryAgain) as error:
                if prepared.max_attempts < 2:
                    raise
                if not self._reask_live:
                    reason = retry_text(error)
                    self._journal.add_answer(item.key, batch.plan.tag, InvalidAnswer(result.body, reason))
                    self._again.append(item)
                    return
                _, trace = begin_call(self._call, row.values)
                live = await run_call(prepared.with_retry_messages(response, error), self.backend, trace)
                output, usage, attempts = live.output, usage + live.usage, attempts + len(live.attempts)
        except Exception as error:  # the item's: any error of its response, a validator or a tool
            self._end_item(self._failed(item, error, usage, attempts, batch.plan.created))
            return
        seconds = self.backend.time() - batch.plan.created
        self._end_item(Outcome(row.index, item.key, row.input, output, None, attempts, usage, seconds))

    def _goes_again(self, item: RemoteItem, error: LLMError, *, unprocessed: bool, cancelled: bool) -> bool:
        """Put an item into a further batch whose request was not processed, or failed for a reason that may pass."""
        if cancelled or not (unprocessed or error.retryable) or item.repeated >= self._service.max_retries:
            return False
        item.repeated += 1
        self._again.append(item)
        return True

    async def _end_batch(self, fetch: Fetch) -> None:
        """End a batch whose results are read: each item without a result goes into a further batch, or fails."""
        batch = fetch.batch
        cancelled = batch.status is not None and batch.status.cancelled
        for place, item in enumerate(batch.items):
            if place not in fetch.seen and item.row is not None and not item.ended:
                error = StreamTruncated(f"the batch {batch.id} ended without a result of this request. Send it again.")
                if not self._goes_again(item, error, unprocessed=True, cancelled=cancelled):
                    self._end_item(self._failed(item, error, began=batch.plan.created))
        self._journal.settled(batch.plan.tag)
        self._fetch = None
        await self._finish(batch)

    def _failed(
        self, item: RemoteItem, error: Exception, usage: Usage = NO_USAGE, attempts: int = 0, began: float | None = None
    ) -> Outcome[T]:
        assert item.row is not None  # only read items end
        later = error.attempts if isinstance(error, CallError) else ()
        usage = sum([attempt.usage or NO_USAGE for attempt in later], usage)
        seconds = 0.0 if began is None else self.backend.time() - began
        sent = attempts + len(later) if attempts or began is None else 1
        return Outcome(item.row.index, item.key, item.row.input, None, error, sent, usage, seconds)

    def _end_item(self, outcome: Outcome[T]) -> None:
        if self._store is not None:
            self._store.write(outcome)
        self._journal.drop_answers(outcome.key)
        self._progress.ended(outcome, self.backend.now())
        self._finished[outcome.index] = outcome

    def _take(self, *, all: bool = False) -> list[Outcome[T]]:
        """Remove and return the outcomes that can be returned now."""
        finished = self._finished
        if not finished:
            return []
        if self._ordered and not all:
            ready: list[Outcome[T]] = []
            while (outcome := finished.pop(self._returned, None)) is not None:
                ready.append(outcome)
                self._returned += 1
            return ready
        taken = [finished[index] for index in sorted(finished)] if self._ordered else list(finished.values())
        finished.clear()
        return taken

    async def _finish(self, batch: RemoteBatch) -> None:
        """Delete what the provider stores of a batch whose outcomes are stored."""
        await self._service.delete_files(batch.id, batch.status, batch.plan.file)
        self._journal.drop(batch.plan.tag)

    @property
    def _factor(self) -> Decimal:
        """The price of a request in a batch as a part of its usual price."""
        return self._service.codec.price_factor


def _error_of(status: BatchStatus) -> LLMError:
    return status.error or BadRequest(f"the service refused the batch {status.id} ({status.raw}) without a reason.")
