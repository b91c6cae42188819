"""`OpenBatches`: the submitted batches whose results were not fetched, and when to ask for their status."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from ...errors import LLMError, NotFound
from ...lazy.lazy_dataclasses import dataclass
from ...providers.batch_codec import BatchStatus
from ..job_errors import ProviderBatchError
from .batch_item import RemoteItem
from .batch_service import BatchService
from .journal import Plan

logger: Final = logging.getLogger("toolcast")

FIRST_POLL: Final = 5.0
LONGEST_POLL: Final = 60.0
POLL_GROWTH: Final = 1.5

PATIENCE: Final = 3600.0
"""The seconds for which the status of a batch may be unavailable."""


@dataclass(slots=True, eq=False)
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
        asked: The number of its items that are being asked again live.
        read_to: The number of its first items whose inputs are known to have been read.
    """

    plan: Plan
    id: str
    items: list[RemoteItem]
    status: BatchStatus | None = None
    next_poll: float = 0.0
    wait: float = FIRST_POLL
    seen: float = 0.0
    asked: int = 0
    read_to: int = 0

    @property
    def is_complete(self) -> bool:
        """True if the inputs of all its items have been read."""
        # Asked for each row that is read, so that it must not take longer for larger batches.
        while self.read_to < len(self.items) and self.items[self.read_to].row is not None:
            self.read_to += 1
        return self.read_to == len(self.items)


class OpenBatches:
    """The batches of one run that are at the provider.

    Args:
        poll: The seconds between two requests for the status of a batch; None: 5, growing to 60.
    """

    def __init__(self, poll: float | None) -> None:
        self._poll = poll
        self._batches: list[RemoteBatch] = []

    def __iter__(self) -> Iterator[RemoteBatch]:
        return iter(self._batches)

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def ids(self) -> list[str]:
        """The provider's ids."""
        return [batch.id for batch in self._batches]

    @property
    def longest_wait(self) -> float:
        """The longest wait between two requests for the status of a batch, in seconds."""
        return LONGEST_POLL if self._poll is None else self._poll

    def due(self, *, input_ended: bool) -> list[RemoteBatch]:
        """Return the batches whose results can be used, as their inputs have been read."""
        return [batch for batch in self._batches if input_ended or batch.is_complete]

    def add(self, batch: RemoteBatch, now: float, *, at_once: bool = False) -> None:
        """Add a batch at the time `now`. Its status is asked for after the first wait, or `at_once`."""
        batch.wait = FIRST_POLL if self._poll is None else self._poll
        batch.seen = now
        batch.next_poll = now if at_once else now + batch.wait
        self._batches.append(batch)

    def clear(self) -> None:
        """Remove all batches."""
        self._batches.clear()

    async def poll(self, batch: RemoteBatch, service: BatchService) -> BatchStatus | None:
        """Ask for the status of `batch`. Remove it and return the status if it has ended, or else None.

        Raises:
            ProviderBatchError: The provider has no such batch.
            LLMError: The status was not available for an hour, or the service refuses to return it.
        """
        try:
            status = await service.status(batch.id)
        except NotFound as error:
            raise ProviderBatchError(
                f"{service.codec.provider} has no batch {batch.id}, which this job has submitted: use the key of the "
                "same account. If the batch was deleted, start again with another checkpoint"
            ) from error
        except LLMError as error:
            if not error.retryable or service.backend.now() > batch.seen + PATIENCE:
                raise
            logger.warning("the status of batch %s is not available: %s", batch.id, error)
            self._postpone(batch, service.backend.now())
            return None
        batch.seen = service.backend.now()
        batch.status = status
        if status.state == "running":
            logger.debug("batch %s: %s, %s of %s done", status.id, status.raw, status.done, status.total)
            self._postpone(batch, batch.seen)
            return None
        self._batches.remove(batch)
        return status

    def _postpone(self, batch: RemoteBatch, now: float) -> None:
        """Plan the next request for the status of a batch."""
        batch.wait = min(batch.wait * POLL_GROWTH, LONGEST_POLL) if self._poll is None else self._poll
        batch.next_poll = now + batch.wait
