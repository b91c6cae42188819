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
from ...usage import NO_USAGE
from ..budget import check_budget
from ..checkpoint import Checkpoint
from ..inputs import InputRow, read_row
from ..item_keys import ItemKeys
from ..job_options import JobPlan
from ..outcome import Outcome
from ..progress.account import JobActivity, JobProgress
from ..progress.choice import choose_display
from ..progress.reporter import ProgressReporter
from ..workers import GRACE
from .driver import RemoteRun
from .journal import Journal, TemporaryDatabase

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
        if plan.budget is not None:
            check_budget(plan.budget, call.llm)
        self.raises: bool = plan.raises
        self._call = call
        self._rows = rows
        self._plan = plan
        self._concurrent = concurrent
        self._total = total
        self._count = 0
        self._progress = JobProgress(self._activity)
        self._reporter: ProgressReporter | None = None
        self._run: RemoteRun[T] | None = None
        self._checkpoint: Checkpoint | None = None
        self._keys: ItemKeys | None = None
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
            self._close_files()

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
            self._close_files()

    def _close_files(self) -> None:
        if self._run is not None and self._reporter is not None:
            self._progress.end(self._run.backend.now())
            self._reporter.stop()
        for each in (self._checkpoint, self._keys):
            if each is not None:
                each.close()

    def _begin(self) -> RemoteRun[T]:
        path = self._plan.checkpoint
        self._keys = ItemKeys(self._plan.key, positions=path is None)
        if path is None:
            logger.warning(
                "via='batch' without a checkpoint: if this process ends, the results of its batches are lost, and paid "
                "for. Pass checkpoint=, a file"
            )
        else:
            self._checkpoint = Checkpoint(path, self._call)
        database = TemporaryDatabase() if self._checkpoint is None else self._checkpoint.file
        backend = client_of(self._call.llm).backend(self._concurrent)
        self._progress.begin(self._total, backend.now())
        self._reporter = ProgressReporter(self._progress, choose_display(self._plan.progress), backend.now)
        self._run = RemoteRun(
            self._call,
            read_row=self._read_row,
            key_of=self._key_of,
            store=self._checkpoint,
            journal=Journal(database),
            progress=self._progress,
            backend=backend,
            plan=self._plan,
            spent=NO_USAGE if self._checkpoint is None else self._checkpoint.spent,
        )
        self._reporter.start()
        return self._run

    def _activity(self) -> JobActivity:
        return JobActivity() if self._run is None else self._run.activity

    def _key_of(self, row: InputRow) -> str:
        assert self._keys is not None  # made before the run
        return self._keys.key_of(row.input, row.index)

    async def _read_row(self) -> InputRow | None:
        try:
            input = await anext(self._rows) if isinstance(self._rows, AsyncIterator) else next(self._rows)
        except (StopIteration, StopAsyncIteration):
            return None
        self._count += 1
        return read_row(self._count - 1, input, self._call.prompt.variables)
