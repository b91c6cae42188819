"""`RemoteRun`: a job through the batch API of a provider, written once for sync and async callers.

Each call of `next_outcomes` takes one step at a time, in this order: look for the batches of an earlier process, read
the results of an ended batch, read inputs until a batch is full, submit it, ask for the status of the batches. A step
that changes something at the provider is recorded in the journal first (journal.py), so that the process may be killed
at any moment: what was submitted is found again, and an outcome that was written is not asked for again.

All I/O is awaited from an `IOBackend`; the order of the steps depends only on the responses and on the clock in it.
"""

from __future__ import annotations

import logging
import random
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from ...errors import BadRequest, CallError, ConnectFailed, LLMError, NotFound, RateLimited, StreamTruncated, TryAgain
from ...http_request import HTTPRequest, HTTPResponse
from ...lazy_dataclasses import dataclass
from ...llms.http_llm import ServiceLLM
from ...llms.service_files import run_exchange
from ...llms.service_requests import Download, LLMTarget, llm_target, open_download, send_request
from ...providers.batch_codec import BatchCodec, BatchResult, BatchStatus, ResultDecoder
from ...retries import next_wait
from ...structured.call import run_call
from ...structured.orchestrator import ToolOrchestratingLLM, begin_call, prepare_call
from ...structured.response_validation import RETRYABLE, retry_text
from ...transport.network import IOBackend
from ...usage import NO_USAGE, Usage
from ..errors import JobStopped, ProviderBatchError
from ..inputs import InputRow
from ..outcome import Outcome
from ..progress.account import JobActivity, JobProgress
from .item import RemoteItem, after_answers, output_of, read_answer, request_of
from .journal import InvalidAnswer, Journal, Plan

T = TypeVar("T")

logger: Final = logging.getLogger("toolcast")

OPEN_BATCHES: Final = 8
"""The number of batches at once. The inputs of the items in them are in memory."""

FIRST_POLL: Final = 5.0
LONGEST_POLL: Final = 60.0
POLL_GROWTH: Final = 1.5

PATIENCE: Final = 3600.0
"""The seconds for which the status of a batch may be unavailable."""

GRACE: Final = 30.0
"""The seconds after which a batch that was submitted is in the provider's list, if it was created at all."""

CLOCK_SKEW: Final = 300.0
"""The seconds by which the clocks of this machine and the provider may differ."""


class OutcomeStore(Protocol):
    """The stored outcomes of a job: its `Checkpoint`."""

    def find(self, key: str, index: int = 0, input: Any = None) -> Outcome[Any] | None:
        """Return the stored outcome of an item, if there is one."""
        ...

    def write(self, outcome: Outcome[Any]) -> None:
        """Store an outcome, before it is returned."""
        ...


@dataclass(slots=True)
class Filling:
    """The next batch: its tag, its items, their lines, and the size of these in bytes."""

    tag: str = field(default_factory=lambda: f"tc{secrets.token_hex(12)}")
    items: list[RemoteItem] = field(default_factory=list[RemoteItem])
    lines: list[bytes] = field(default_factory=list[bytes])
    size: int = 0


@dataclass(slots=True)
class RemoteBatch:
    """A submitted batch.

    Attributes:
        plan: Its row of the journal.
        id: The provider's id.
        items: Its items, by position.
        status: Its last status.
        next_poll: The time of the next request for its status, on the backend's clock.
        wait: The seconds between the last two.
        seen: The time of its last status.
    """

    plan: Plan
    id: str
    items: list[RemoteItem]
    status: BatchStatus | None = None
    next_poll: float = 0.0
    wait: float = FIRST_POLL
    seen: float = 0.0

    @property
    def is_complete(self) -> bool:
        """True if the inputs of all its items have been read."""
        return all(item.row is not None for item in self.items)


@dataclass(slots=True)
class Fetch:
    """The results of an ended batch, which are being read.

    Attributes:
        batch: The batch.
        left: The downloads that were not begun.
        current: The download that is being read.
        open: Its response.
        decoder: Its decoder.
        seen: The positions of the results so far.
        read: The number of results of the current download that were processed.
        skip: The number of its results to skip, after it was begun anew.
        retries: How often it was begun anew.
    """

    batch: RemoteBatch
    left: deque[HTTPRequest]
    current: HTTPRequest | None = None
    open: Download | None = None
    decoder: ResultDecoder | None = None
    seen: set[int] = field(default_factory=set[int])
    read: int = 0
    skip: int = 0
    retries: int = 0


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
        self._poll = poll
        self._reask_live = reask == "live"
        self._ordered = ordered
        self._begun = False
        self._target: LLMTarget
        self._codec: BatchCodec
        self._open: list[RemoteBatch] = []
        self._waiting: dict[str, RemoteItem] = {}  # the items of earlier runs whose inputs have not been read
        self._fetch: Fetch | None = None
        self._filling = Filling()
        self._full = False  # no more items fit into it
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
        if (fetch := self._fetch) is not None and fetch.open is not None:
            await fetch.open.close()
        if self._store is not None:
            self.report_open_batches()
            return
        for batch in self._open:
            await self._send_quietly(self._codec.cancel(batch.id))
            await self._delete_files(batch)
        self._open.clear()

    def report_open_batches(self) -> None:
        """Log the batches that go on."""
        if self._open:
            ids = ", ".join([batch.id for batch in self._open])
            how = "their results are lost" if self._store is None else "start the job again with the same checkpoint"
            logger.warning("the batches %s of %s go on: %s", ids, self._codec.provider, how)

    @property
    def activity(self) -> JobActivity:
        """The number of items in batches, for the display of the progress."""
        batches = self._open if self._fetch is None else [*self._open, self._fetch.batch]
        items = sum([len(batch.items) for batch in batches])
        return JobActivity(items, None, "batch API" if items else "")

    # The batches of earlier runs

    async def _begin(self) -> None:
        self._target = await llm_target(self._call.llm, self.backend)
        codec = self._target.adapter.batches()
        if codec is None:
            raise ProviderBatchError(
                f"{self._target.adapter.provider} has no batch API that toolcast can use: leave out via='batch'"
            )
        self._codec = codec
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
            found = await self._find_batch(plan, plan.created + GRACE)
            if found is not None:
                self._journal.submitted(plan.tag, found)
        if found is None:
            await self._discard(plan.tag, plan.file)
            return
        batch = RemoteBatch(plan, found, [self._waiting_item(key) for key in plan.keys])
        self._add_batch(batch)
        batch.next_poll = self.backend.now()

    def _waiting_item(self, key: str) -> RemoteItem:
        item = self._waiting[key] = RemoteItem(key)
        return item

    def _add_batch(self, batch: RemoteBatch) -> None:
        batch.wait = FIRST_POLL if self._poll is None else self._poll
        batch.seen = self.backend.now()
        batch.next_poll = batch.seen + batch.wait
        self._open.append(batch)

    async def _find_batch(self, plan: Plan, until: float) -> str | None:
        """Return the id of the batch that may have been submitted, from the provider's list of batches.

        The list may lack a new batch, so it is read again at the time `until`.
        """
        while True:
            left = until - self.backend.time()
            found = await self._look_through(plan)
            if found is not None or left <= 0:
                return found
            await self.backend.sleep(left)

    async def _look_through(self, plan: Plan) -> str | None:
        cursor: str | None = None
        while True:
            batches, cursor = self._codec.read_page(await self._send(self._codec.list_page(cursor)), cursor)
            for status in batches:
                if await self._is_batch_of(plan, status):
                    return status.id
            # What is older than the plan is not its batch, and neither is what comes after it.
            oldest = min([status.created for status in batches if status.created is not None], default=None)
            old = self._codec.newest_first and oldest is not None and oldest < plan.created - CLOCK_SKEW
            if cursor is None or old:
                return None

    async def _is_batch_of(self, plan: Plan, status: BatchStatus) -> bool:
        if self._codec.lists_tags:
            return status.tag == plan.tag
        # Only the results show the ids of the requests, which begin with the tag.
        if status.created is not None and status.created < plan.created - CLOCK_SKEW:
            return False
        if status.total is not None and status.total != len(plan.keys):
            return False
        if any(batch.id == status.id for batch in self._open):
            return False
        while status.state == "running":
            await self.backend.sleep(LONGEST_POLL if self._poll is None else self._poll)
            status = self._codec.read_status(await self._send(self._codec.status(status.id)))
        try:
            first = await self._first_result(status)
        except NotFound:  # the results were deleted, as no other run deletes those of this plan
            return False
        return first is not None and first.id.startswith(plan.tag)

    async def _first_result(self, status: BatchStatus) -> BatchResult | None:
        if status.results:
            return status.results[0]
        for request in self._codec.downloads(status):
            download = await open_download(self._target, request, self.backend)
            decoder = self._codec.result_decoder()
            try:
                while data := await download.read():
                    if found := decoder.feed(data):
                        return found[0]
                if found := decoder.close():
                    return found[0]
            finally:
                await download.close()
        return None

    # Inputs

    @property
    def _due(self) -> list[RemoteBatch]:
        """The batches whose results can be used, as their inputs have been read."""
        return [batch for batch in self._open if self._input_ended or batch.is_complete]

    @property
    def _has_room(self) -> bool:
        """True if a further batch may be submitted."""
        due = len(self._due)
        return self._refusal is None and due < OPEN_BATCHES and not (due and self._held_back)

    @property
    def _may_fill(self) -> bool:
        """True if more items can be added to the next batch."""
        return not self._full and (bool(self._again) or not self._input_ended) and self._has_room

    @property
    def _may_submit(self) -> bool:
        return self._has_room and (self._full or (self._input_ended and not self._again))

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
            prepared, _ = after_answers(self._llm, prepared, self._journal.answers(item.key), self._codec.price_factor)
            request = request_of(self._llm, prepared)
        except Exception as error:  # the item's: its values do not fit the prompt, or the provider has no such content
            self._end_item(self._failed(item, error))
            return
        limits, filling = self._codec.limits, self._filling
        line = self._codec.encode(f"{filling.tag}-{len(filling.items)}", request)
        size = len(line) + 1
        longest = limits.bytes if limits.line_bytes is None else min(limits.bytes, limits.line_bytes)
        if size > longest:
            too_long = ProviderBatchError(
                f"the request has {size:,} bytes, and one in a batch of {self._codec.provider} may have {longest:,}: "
                "make the input shorter, or leave out via='batch'"
            )
            self._end_item(self._failed(item, too_long))
        elif filling.size + size > limits.bytes:
            self._again.appendleft(item)
            self._full = True
        else:
            filling.items.append(item)
            filling.lines.append(line)
            filling.size += size
            self._full = len(filling.items) >= limits.requests

    # Submitting

    async def _submit(self) -> None:
        """Upload and submit the batch that was filled. Each step is recorded before it is taken."""
        filling, self._filling, self._full = self._filling, Filling(), False
        plan = self._journal.plan(filling.tag, [item.key for item in filling.items], self.backend.time())
        try:
            file = await self._upload(filling)
        except LLMError as error:
            await self._discard(plan.tag, None)
            self._refused(filling.items, error)
            return
        self._journal.submitting(plan.tag, file, self.backend.time())
        plan = replace(plan, file=file)
        created = await self._create(plan, filling, file)
        if isinstance(created, LLMError):
            await self._discard(plan.tag, file)
            self._refused(filling.items, created)
            return
        self._journal.submitted(plan.tag, created.id)
        logger.info("batch %s of %s with %d items was submitted", created.id, self._codec.provider, len(filling.items))
        self._add_batch(RemoteBatch(plan, created.id, filling.items, created))

    async def _create(self, plan: Plan, filling: Filling, file: str | None) -> BatchStatus | LLMError:
        """Create the batch once; return its status, or the error with which it was certainly not created.

        Where the response was lost, the batch is looked for before it is created again.
        """
        request = self._codec.submit(plan.tag, filling.lines, file)
        retries = self._target.retry_policy.max_retries
        while True:
            try:
                return self._codec.read_status(await self._send(request))
            except LLMError as error:
                if _was_refused(error):
                    return error
                lost = error
            found = await self._find_batch(plan, self.backend.time() + GRACE)
            if found is not None:
                return self._codec.read_status(await self._send(self._codec.status(found)))
            if retries == 0:
                return lost
            retries -= 1

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
        try:
            response = await self._send(self._codec.status(batch.id))
        except NotFound as error:
            raise ProviderBatchError(
                f"{self._codec.provider} has no batch {batch.id}, which this job has submitted: use the key of the "
                "same account. If the batch was deleted, start again with another checkpoint"
            ) from error
        except LLMError as error:
            if not error.retryable or self.backend.now() > batch.seen + PATIENCE:
                raise
            logger.warning("the status of batch %s is not available: %s", batch.id, error)
            self._postpone(batch)
            return
        batch.seen = self.backend.now()
        batch.status = status = self._codec.read_status(response)
        if status.state == "running":
            logger.debug("batch %s: %s, %s of %s done", status.id, status.raw, status.done, status.total)
            self._postpone(batch)
            return
        self._open.remove(batch)
        self._held_back = False
        if status.state == "failed":
            self._journal.settled(batch.plan.tag)
            await self._finish(batch)
            self._refused([item for item in batch.items if item.row is not None], _error_of(status))
            return
        self._fetch = Fetch(batch, deque(self._codec.downloads(status)))
        await self._read_batch(self._fetch, status.results)

    def _postpone(self, batch: RemoteBatch) -> None:
        """Plan the next request for the status of a batch."""
        batch.wait = min(batch.wait * POLL_GROWTH, LONGEST_POLL) if self._poll is None else self._poll
        batch.next_poll = self.backend.now() + batch.wait

    # Results

    async def _read_results(self, fetch: Fetch) -> None:
        """Read the next chunk of the results, or begin the next download, or end the batch."""
        if fetch.current is None:
            if not fetch.left:
                await self._end_batch(fetch)
                return
            fetch.current, fetch.read, fetch.skip, fetch.retries = fetch.left.popleft(), 0, 0, 0
        try:
            if fetch.open is None:
                fetch.open = await open_download(self._target, fetch.current, self.backend)
                fetch.decoder = self._codec.result_decoder()
            assert fetch.decoder is not None  # made with the download
            data = await fetch.open.read()
            results = fetch.decoder.feed(data) if data else fetch.decoder.close()
        except LLMError as error:
            if fetch.open is None or not error.retryable or fetch.retries >= self._target.retry_policy.max_retries:
                raise
            await fetch.open.close()
            fetch.open, fetch.skip, fetch.retries = None, fetch.read, fetch.retries + 1
            return
        skipped, fetch.skip = results[: fetch.skip], max(fetch.skip - len(results), 0)
        new = results[len(skipped) :]
        fetch.read += len(new)
        await self._read_batch(fetch, new)
        if not data:
            await fetch.open.close()
            fetch.current = fetch.open = None

    async def _read_batch(self, fetch: Fetch, results: Sequence[BatchResult]) -> None:
        for result in results:
            item = self._match(fetch, result)
            if item.row is not None and item.row.index not in self._finished and not item.ended:
                await self._read_result(fetch.batch, item, item.row, result)

    def _match(self, fetch: Fetch, result: BatchResult) -> RemoteItem:
        """Return the item of a result. Raise `ProviderBatchError` for a foreign or doubled result."""
        tag, _, place = result.id.rpartition("-")
        items = fetch.batch.items
        if tag != fetch.batch.plan.tag or not place.isdecimal() or int(place) >= len(items):
            raise ProviderBatchError(
                f"the results of batch {fetch.batch.id} have the id {result.id!r:.100}, which is none of its requests; "
                "nothing of them was used. Report it to the provider"
            )
        if int(place) in fetch.seen:
            raise ProviderBatchError(
                f"the results of batch {fetch.batch.id} have two for the id {result.id!r}; expected one. Report it to "
                "the provider"
            )
        fetch.seen.add(int(place))
        return items[int(place)]

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
            prepared, usage = after_answers(self._llm, prepared, answers, self._codec.price_factor)
            response = read_answer(self._llm, prepared, result.body, self._codec.price_factor)
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
        if cancelled or not (unprocessed or error.retryable) or item.repeated >= self._target.retry_policy.max_retries:
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

    # Requests

    async def _send(self, request: HTTPRequest, *, repeatable: bool | None = None) -> HTTPResponse:
        return await send_request(self._target, request, self.backend, repeatable=repeatable)

    async def _upload(self, filling: Filling) -> str | None:
        """Upload the requests of a batch, again after an error that may pass: a file that is lost costs nothing."""
        policy, used = self._target.retry_policy, 0
        while True:
            try:
                upload = self._codec.upload(filling.tag, filling.lines)
                return await run_exchange(self._target, upload, self.backend)
            except LLMError as error:
                now, chance = self.backend.now(), random.random()
                wait = next_wait(policy, error, retries_used=used, now=now, deadline=None, chance=chance)
                if wait is None:
                    raise
                used += 1
            await self.backend.sleep(wait)

    async def _send_quietly(self, request: HTTPRequest) -> None:
        """Send a request whose failure does not matter for the outcomes: it cancels or deletes something."""
        try:
            await self._send(request, repeatable=True)
        except LLMError as error:
            if not isinstance(error, NotFound):
                logger.warning("%s %s failed: %s", request.method, request.url, error)

    async def _delete_files(self, batch: RemoteBatch) -> None:
        status = batch.status
        if status is None or status.state == "running":
            try:
                status = self._codec.read_status(await self._send(self._codec.status(batch.id)))
            except LLMError as error:
                if not isinstance(error, NotFound):
                    logger.warning("the files of batch %s were not deleted: %s", batch.id, error)
                return
        if status.input_file is None:  # not all providers return it
            status = replace(status, input_file=batch.plan.file)
        for request in self._codec.delete_files(status):
            await self._send_quietly(request)

    async def _finish(self, batch: RemoteBatch) -> None:
        """Delete what the provider stores of a batch whose outcomes are stored."""
        await self._delete_files(batch)
        self._journal.drop(batch.plan.tag)

    async def _discard(self, tag: str, file: str | None) -> None:
        """Delete a batch that was not submitted from the journal, and its file."""
        if file is not None and (request := self._codec.delete_file(file)) is not None:
            await self._send_quietly(request)
        self._journal.drop(tag)


def _was_refused(error: LLMError) -> bool:
    """Return True if the service has certainly not created what was asked for."""
    if isinstance(error, ConnectFailed):
        return True
    return error.status is not None and 300 <= error.status < 500 and error.status not in (408, 409)


def _error_of(status: BatchStatus) -> LLMError:
    return status.error or BadRequest(f"the service refused the batch {status.id} ({status.raw}) without a reason.")
