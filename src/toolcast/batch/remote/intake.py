"""`Intake`: the rows of a job on their way into batches of the provider.

A row that needs no request gets its outcome here: it is stored, equal to another one, or cannot be sent.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar, cast

from ...errors import UnsupportedLLMError
from ...llms.http_llm import ServiceLLM
from ...providers.batch_codec import BatchCodec
from ...structured.call import PreparedCall
from ...structured.orchestrator import ToolOrchestratingLLM, prepare_call
from ...usage import NO_USAGE, Usage
from ..budget import Spending
from ..inputs import InputRow
from ..outcome import Outcome
from ..run import stopped_by
from .ended_items import EndedItems
from .item import RemoteItem, after_answers, request_of
from .journal import Journal
from .spending import BatchSpending
from .submission import NextBatch

T = TypeVar("T")

logger: Final = logging.getLogger("toolcast")


class Intake(Generic[T]):
    """The items that are in no batch.

    Args:
        call: The call of the job.
        read_row: Return the next row, None at the end.
        codec: The protocol of the provider's batch API.
        journal: The journal of the batches.
        ended: The outcomes that were not returned yet.
        spending: The budget.
        on_error: Called with the error of an item, before it is ended.

    Attributes:
        batch: The batch that is being filled.
        again: The items that are put in a batch before new rows.
        is_short: True if the budget covers no further item before other requests have ended.
        at_end: True after the last row.
        error: The error of the caller's inputs, which is raised after the outcomes of the rows before it.
    """

    def __init__(
        self,
        call: ToolOrchestratingLLM[T],
        read_row: Callable[[], Awaitable[InputRow | None]],
        codec: BatchCodec,
        journal: Journal,
        ended: EndedItems[T],
        spending: BatchSpending,
        on_error: Callable[[Exception], None],
    ) -> None:
        self.batch: NextBatch = NextBatch()
        self.again: deque[RemoteItem] = deque()
        self.is_short: bool = False
        self.at_end: bool = False
        self.error: Exception | None = None
        self._call = call
        self._llm = cast("ServiceLLM", call.llm)  # it has a batch API
        self._read_row = read_row
        self._codec = codec
        self._journal = journal
        self._ended = ended
        self._spending = spending
        self._on_error = on_error
        self._waiting: dict[str, RemoteItem] = {}  # the items of earlier runs whose inputs have not been read

    @property
    def is_ready(self) -> bool:
        """True if the batch can be submitted."""
        return bool(self.batch.items) and (self.batch.full or (self.at_end and not self.again))

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
        """Add one item to the batch, or find out that it needs no request."""
        if self.again and not self.is_short:
            self._put(self.again.popleft())
            return
        try:
            row = await self._read_row()
        except Exception as error:  # the caller's iterator, or an input without a key
            self.error = error
            row = None
        if row is None:
            self._end()
        elif row.error is not None:
            self._ended.add(Outcome(row.index, row.key, row.input, error=row.error))
        else:
            self._add(row)

    def end(self, row: InputRow, outcome: Outcome[T]) -> None:
        """End an item. After an error, one that has waited for it as its input is equal goes into a further batch."""
        if outcome.error is not None:
            self._on_error(outcome.error)
        self.again.extend([RemoteItem(other.key, other) for other in self._ended.end(row, outcome)])

    def _add(self, row: InputRow) -> None:
        """Add a row: to the items of the next batch, unless it is in a batch, has an outcome, or waits for one."""
        item = self._waiting.pop(row.key, None)
        if self._ended.restore(row):
            # That run may have been killed in the middle of the results of a batch.
            if item is not None:
                item.row, item.ended = row, True
        elif item is not None:
            item.row = row
            self._count_answers(row, item.tag)
            self._ended.add_running(row)
        elif self._ended.needs_request(row):
            item = RemoteItem(row.key, row)
            self._count_answers(row)
            if self.is_short:
                self.again.append(item)
            else:
                self._put(item)

    def _end(self) -> None:
        self.at_end = True
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

    def prepare(self, row: InputRow, *, without: str = "") -> tuple[PreparedCall, Usage]:
        """Return the call for a row after its invalid responses, but that in the batch `without`; and their usage."""
        answers = self._journal.answers(row.key, without=without)
        return after_answers(self._llm, prepare_call(self._call, row.values), answers, self._codec.price_factor)

    def _put(self, item: RemoteItem) -> None:
        """Add an item to the next batch, if it fits; else the batch is full, and the item is for the one after it."""
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
        elif self._reserve(item, prepared):
            batch.add(item, line, codec)
        else:
            self.again.appendleft(item)
            self.is_short = True
            batch.full = bool(batch.items)

    def _reserve(self, item: RemoteItem, prepared: PreparedCall) -> bool:
        """Reserve what the request of an item may cost; return False if other requests have to end first.

        Raises:
            BudgetReached: The budget does not cover it.
            JobStopped: The cost of requests is unknown.
        """
        try:
            return self._spending.reserve(item, prepared)
        except UnsupportedLLMError as error:
            raise stopped_by(error) from error


def failed(
    row: InputRow, error: Exception, usage: Usage = NO_USAGE, attempts: int = 0, seconds: float = 0.0
) -> Outcome[Any]:
    """Return the outcome of an item that has failed."""
    return Outcome(row.index, row.key, row.input, None, error, attempts, usage, seconds)
