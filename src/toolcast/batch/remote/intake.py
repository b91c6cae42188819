"""`Intake`: the rows of a job on their way into batches of the provider."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar, cast

from ...errors import UnsupportedLLMError
from ...llms.http_llm import ServiceLLM
from ...providers.batch_codec import BatchCodec
from ...structured.call import PreparedCall
from ...structured.orchestrator import prepare_call
from ...values.usage import NO_USAGE, Usage
from ..inputs import InputRow
from ..job_budget import Spending
from ..job_errors import BudgetReached, CheckpointError
from ..job_run import JobRun
from ..outcome import Outcome
from .batch_item import RemoteItem, after_answers, request_of
from .batch_spending import BatchSpending
from .journal import Journal
from .submission import NextBatch

T = TypeVar("T")

logger: Final = logging.getLogger("toolcast")


class Pause(Enum):
    """A reason to put no more items in batches for now."""

    SERVICE = auto()
    """The service takes no further batch before another one has ended."""

    BUDGET = auto()
    """The budget covers no further item before other requests have ended."""


class Intake(Generic[T]):
    """The items that are in no batch.

    Args:
        run: The run of the job.
        rows: The inputs.
        codec: The protocol of the provider's batch API.
        journal: The journal of the batches.
        spending: The budget.

    Attributes:
        batch: The batch that is being filled.
        again: The items that are put in a batch before new rows.
        pause: The reason to put no more items in batches for now, if there is one.
    """

    def __init__(
        self,
        run: JobRun[T],
        rows: Iterator[Any] | AsyncIterator[Any],
        codec: BatchCodec,
        journal: Journal,
        spending: BatchSpending,
    ) -> None:
        self.batch: NextBatch = NextBatch()
        self.again: deque[RemoteItem] = deque()
        self.pause: Pause | None = None
        self._run = run
        self._llm = cast("ServiceLLM", run.call.llm)  # it has a batch API
        self._rows = rows
        self._codec = codec
        self._journal = journal
        self._spending = spending
        self._waiting: dict[str, RemoteItem] = {}  # the items of earlier runs whose inputs have not been read

    @property
    def has_rows(self) -> bool:
        """True if there are items to put in a batch, or inputs to read."""
        schedule = self._run.schedule
        return bool(self.again) or schedule.startable or not schedule.input_ended

    @property
    def is_ready(self) -> bool:
        """True if the batch can be submitted."""
        return bool(self.batch.items) and (self.batch.full or not self.has_rows)

    def expect(self, key: str, tag: str, reserved: Spending | None) -> RemoteItem:
        """Return the item of an earlier run in the batch `tag`, whose row will be read."""
        item = self._waiting[key] = RemoteItem(key, reserved=reserved, tag=tag)
        self._spending.restore(item)
        return item

    def take(self) -> NextBatch:
        """Return the batch, and begin the next one."""
        filled, self.batch = self.batch, NextBatch()
        return filled

    async def fill(self) -> None:
        """Add one item to the batch, or read an input."""
        if self.pause is not Pause.BUDGET:
            if self.again:
                self._put(self.again.popleft())
                return
            if (row := self._run.schedule.start()) is not None:
                self._count_answers(row)
                self._put(RemoteItem(row.key, row))
                return
        try:
            input = await anext(self._rows) if isinstance(self._rows, AsyncIterator) else next(self._rows)
            self._add(self._run.read(input))
        except (StopIteration, StopAsyncIteration):
            self._end_input()
        except Exception as error:  # the caller's iterator, or an input without a key; raised after the outcomes
            self._end_input(error)

    def end(self, row: InputRow, outcome: Outcome[T]) -> None:
        """End an item.

        Raises:
            CheckpointError: The outcome could not be stored, so that its batch must not be settled.
        """
        self._run.end(row, outcome)
        if isinstance(self._run.schedule.error, CheckpointError):
            raise self._run.schedule.error
        self._journal.drop_answers(outcome.key)

    def prepare(self, row: InputRow, *, without: str = "") -> tuple[PreparedCall, Usage]:
        """Return the call for a row after its invalid responses, but that in the batch `without`; and their usage."""
        answers = self._journal.answers(row.key, without=without)
        return after_answers(self._llm, prepare_call(self._run.call, row.values), answers, self._codec.price_factor)

    def _add(self, row: InputRow) -> None:
        """Add a row that has no outcome; it may be in a batch already."""
        item = self._waiting.pop(row.key, None)
        if self._run.restore(row):
            # That run may have been killed in the middle of the results of a batch.
            if item is not None:
                item.row, item.ended = row, True
        elif item is not None:
            item.row = row
            self._count_answers(row, item.tag)
            self._run.add_running(row)
        else:
            self._run.add(row)

    def _end_input(self, error: Exception | None = None) -> None:
        self._run.schedule.end_input(error)
        if self._waiting:
            logger.warning(
                "%d items of batches that were submitted before are not in the inputs any more; their results are "
                "dropped",
                len(self._waiting),
            )

    def _count_answers(self, row: InputRow, tag: str = "") -> None:
        """Count the invalid responses of an earlier run to an item as spent, but that in the batch `tag`."""
        if self._spending.is_limited and self._journal.answers(row.key, without=tag):
            _, usage = self.prepare(row, without=tag)
            self._spending.add(usage)

    def _put(self, item: RemoteItem) -> None:
        """Add an item to the batch, if it fits; else the batch is full, and the item is for the one after it."""
        row, batch, codec = item.row, self.batch, self._codec
        assert row is not None  # only read items are put
        try:
            prepared, _ = self.prepare(row)
            line = batch.encode(request_of(self._llm, prepared), codec)
        except Exception as error:  # the item's: its values do not fit the prompt, or the provider has no such content
            self.end(row, failed(row, error))
            return
        if not batch.has_room(line, codec):
            self.again.appendleft(item)
            return
        try:
            covered = self._spending.reserve(item, prepared)
        except (BudgetReached, UnsupportedLLMError) as error:
            self._run.stop(error)
            return
        if covered:
            batch.add(item, line, codec)
        else:
            self.again.appendleft(item)
            self.pause = Pause.BUDGET
            batch.full = bool(batch.items)


def failed(
    row: InputRow, error: Exception, usage: Usage = NO_USAGE, attempts: int = 0, seconds: float = 0.0
) -> Outcome[Any]:
    """Return the outcome of an item that has failed."""
    return Outcome(row.index, row.key, row.input, None, error, attempts, usage, seconds)
