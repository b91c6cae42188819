"""`BatchDriver`: the driver of a job with `via="batch"`: its items are answered by the batch API of the provider."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from ...errors import LLMError
from ...llms.client import client_of
from ...structured.orchestrator import ToolOrchestratingLLM
from ..job_options import JobPlan
from ..job_run import JobRun
from ..job_workers import GRACE
from ..outcome_iterators import RunningJob
from ..progress.job_progress import JobActivity
from .batch_service import batch_service
from .journal import Journal
from .remote_run import NO_FURTHER, RemoteRun

T = TypeVar("T")

logger: Final = logging.getLogger("toolcast")

MOST_ITEMS: Final = sys.maxsize
"""No limit on items at once: those of batches are limited by the provider, and by `OPEN_BATCHES`."""


def batch_job(
    call: ToolOrchestratingLLM[T],
    rows: Iterator[Any] | AsyncIterator[Any],
    plan: JobPlan,
    total: int | None,
    *,
    concurrent: bool,
) -> RunningJob[T]:
    """Return the job whose items are answered by the batch API of the provider.

    Args:
        call: The call.
        rows: The inputs.
        plan: The options of the job.
        total: The number of inputs, if it is known.
        concurrent: The caller is in an event loop.
    """
    driver = BatchDriver(call, rows, plan, total, concurrent=concurrent)
    return RunningJob(driver.run, driver)


class BatchDriver(Generic[T]):
    """The driver of a job through a batch API, from the first request to the service until the end of the job."""

    resumable: bool = False  # a step may be cancelled in its middle

    def __init__(
        self,
        call: ToolOrchestratingLLM[T],
        rows: Iterator[Any] | AsyncIterator[Any],
        plan: JobPlan,
        total: int | None,
        *,
        concurrent: bool,
    ) -> None:
        self._rows = rows
        self._backend = client_of(call.llm).backend(concurrent)
        self.run: JobRun[T] = JobRun(
            call, plan, total, limit=MOST_ITEMS, activity=self._activity, now=self._backend.now
        )
        self._batches: RemoteRun[T] | None = None  # before the first step

    async def advance(self) -> None:
        """Take steps until an outcome can be taken, or the job has ended."""
        schedule = self.run.schedule
        try:
            if self._batches is None:
                self._batches = await self._begin()
            await self._batches.advance()
        except LLMError as error:
            self.run.stop(error, NO_FURTHER)
            if self._batches is not None:
                await self._batches.finish_reasks()
            schedule.give_up()
        except Exception as error:  # raised after the outcomes that have ended
            schedule.give_up(error)

    async def close(self, *, failed: bool) -> None:
        """End the batches that nothing would fetch the results of."""
        if self._batches is None:
            return
        if not failed:
            await self._batches.close()
            return
        # The caller gets the error that ended the job, and not one of the requests that cancel its batches.
        with suppress(LLMError):
            if not self._backend.concurrent:
                await self._batches.close()
                return
            import anyio

            with anyio.move_on_after(GRACE, shield=True):  # the job may have ended by a cancellation
                await self._batches.close()

    def abandon(self) -> None:
        """End the run without a request: its batches go on."""
        if self._batches is not None:
            self._batches.abandon()

    async def _begin(self) -> RemoteRun[T]:
        checkpoint = self.run.checkpoint
        if checkpoint is None:
            logger.warning(
                "via='batch' without a checkpoint: if this process ends, the results of its batches are lost, and paid "
                "for. Pass checkpoint=, a file"
            )
        journal = Journal(None if checkpoint is None else checkpoint.file)
        service = await batch_service(self.run.call.llm, self._backend)
        return RemoteRun(self.run, self._rows, journal, service)

    def _activity(self) -> JobActivity:
        return JobActivity() if self._batches is None else self._batches.activity
