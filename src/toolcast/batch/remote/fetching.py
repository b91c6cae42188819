"""`Fetch`: the results of an ended batch, read in parts, each matched with its item."""

from __future__ import annotations

from collections import deque

from ...errors import LLMError
from ...http_request import HTTPRequest
from ...llms.service_requests import Download
from ...providers.batch_codec import BatchResult, BatchStatus, ResultDecoder
from ..errors import ProviderBatchError
from .item import RemoteItem
from .open_batches import RemoteBatch
from .service import BatchService


class Fetch:
    """The results of one batch, which are being read.

    Attributes:
        batch: The batch.
        seen: The positions of the results so far.
    """

    def __init__(self, batch: RemoteBatch, status: BatchStatus, service: BatchService) -> None:
        self.batch: RemoteBatch = batch
        self.seen: set[int] = set()
        self._service = service
        self._inline = status.results  # where the provider returns them with the status
        self._left = deque(service.codec.downloads(status))  # the downloads that were not begun
        self._current: HTTPRequest | None = None
        self._download: Download | None = None
        self._decoder: ResultDecoder | None = None
        self._read = 0  # the number of results of the current download that were returned
        self._skip = 0  # the number of its results to skip, after it was begun anew
        self._retries = 0  # how often it was begun anew

    @property
    def at_end(self) -> bool:
        """True if all results were read."""
        return not (self._inline or self._left or self._current)

    async def read(self) -> list[BatchResult]:
        """Read the next chunk of the results, or begin its download anew; return the results that it completes.

        Raises:
            LLMError: The results are not available, or their download broke off too often.
        """
        if self._inline:
            inline, self._inline = self._inline, ()
            return list(inline)
        if self._current is None:
            self._current, self._read, self._skip, self._retries = self._left.popleft(), 0, 0, 0
        try:
            if self._download is None:
                self._download = await self._service.open(self._current)
                self._decoder = self._service.codec.result_decoder()
            assert self._decoder is not None  # made with the download
            data = await self._download.read()
            results = self._decoder.feed(data) if data else self._decoder.close()
        except LLMError as error:
            if self._download is None or not error.retryable or self._retries >= self._service.max_retries:
                raise
            await self._download.close()
            self._download, self._skip, self._retries = None, self._read, self._retries + 1
            return []
        skipped, self._skip = results[: self._skip], max(self._skip - len(results), 0)
        new = results[len(skipped) :]
        self._read += len(new)
        if not data:
            await self._download.close()
            self._current = self._download = None
        return new

    def match(self, result: BatchResult) -> RemoteItem:
        """Return the item of a result. Raise `ProviderBatchError` for a foreign or doubled result."""
        tag, _, place = result.id.rpartition("-")
        items = self.batch.items
        if tag != self.batch.plan.tag or not place.isdecimal() or int(place) >= len(items):
            raise ProviderBatchError(
                f"the results of batch {self.batch.id} have the id {result.id!r:.100}, which is none of its requests; "
                "nothing of them was used. Report it to the provider"
            )
        if int(place) in self.seen:
            raise ProviderBatchError(
                f"the results of batch {self.batch.id} have two for the id {result.id!r}; expected one. Report it to "
                "the provider"
            )
        self.seen.add(int(place))
        return items[int(place)]

    async def close(self) -> None:
        """Release the connection of a download."""
        if self._download is not None:
            await self._download.close()
