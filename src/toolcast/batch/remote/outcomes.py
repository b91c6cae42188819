"""`RemoteJob`: a job with `via="batch"`, its checkpoint, and the outcomes that were not returned yet."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from ...errors import LLMError
from ...llms.client import client_of
from ...structured.orchestrator import ToolOrchestratingLLM
from ..inputs import InputRow
from ..item_records import ItemRecords
from ..job_options import JobPlan
from ..outcome import Outcome
from ..progress.account import JobActivity
from ..workers import GRACE
from .driver import RemoteRun
from .journal import Journal

T = TypeVar("T")

logger: Final = logging.getLogger("toolcast")


class RemoteJob(Generic[T]):
    """A job with its checkpoint, through the batch API of the provider.

    Args:
        call: The call.
        rows: The inputs.
        plan: The options of the job.
        total: The number of inputs, if it is known.
        concurrent: The caller is in an event loop.
    """

    def __init__(
        self,
        call: ToolOrchestratingLLM[T],
        rows: Iterator[Any] | AsyncIterator[Any],
        plan: JobPlan,
        total: int | None,
        *,
        concurrent: bool,
    ) -> None:
        self.raises: bool = plan.raises
        self._call = call
        self._rows = rows
        self._plan = plan
        self._concurrent = concurrent
        self._backend = client_of(call.llm).backend(concurrent)
        self._records: ItemRecords[T] = ItemRecords(call, plan, total, self._backend.now, self._activity)
        self._run: RemoteRun[T] | None = None
        self._ready: deque[Outcome[T]] = deque()
        self._closed = False

    async def next_outcome(self) -> Outcome[T] | None:
        """Return the next outcome, or None at the end."""
        while not self._ready:
            if self._closed:
                return None
            try:
                self._ready.extend(await (self._run or self._begin()).next_outcomes())
            except BaseException:
                await self.close(failed=True)
                raise
            if not self._ready:
                await self.close()
        return self._ready.popleft()

    async def close(self, *, failed: bool = False) -> None:
        """End the run, and close its checkpoint. With it, the batches go on; without one, they are cancelled."""
        if failed:
            await self._close_quietly()
            return
        if self._closed:
            return
        self._closed = True
        self._ready.clear()
        try:
            if self._run is not None:
                await self._run.close()
        finally:
            self._records.close()

    async def _close_quietly(self) -> None:
        # The caller gets the error that ended the job, and not one of the requests that cancel its batches.
        with suppress(LLMError):
            if not self._concurrent:
                await self.close()
                return
            import anyio

            with anyio.move_on_after(GRACE, shield=True):  # the job may have ended by a cancellation
                await self.close()

    def abandon(self) -> None:
        """Close the checkpoint of a run that was not closed. Nothing can be sent any more."""
        if not self._closed:
            self._closed = True
            if self._run is not None:
                self._run.abandon()
            self._records.close()

    def _begin(self) -> RemoteRun[T]:
        checkpoint = self._records.checkpoint
        if checkpoint is None:
            logger.warning(
                "via='batch' without a checkpoint: if this process ends, the results of its batches are lost, and paid "
                "for. Pass checkpoint=, a file"
            )
        self._run = RemoteRun(
            self._call,
            read_row=self._read_row,
            records=self._records,
            journal=Journal(None if checkpoint is None else checkpoint.file),
            backend=self._backend,
            plan=self._plan,
        )
        self._records.begin()
        return self._run

    def _activity(self) -> JobActivity:
        return JobActivity() if self._run is None else self._run.activity

    async def _read_row(self) -> InputRow | None:
        try:
            input = await anext(self._rows) if isinstance(self._rows, AsyncIterator) else next(self._rows)
        except (StopIteration, StopAsyncIteration):
            return None
        return self._records.read(input)
