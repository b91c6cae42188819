"""`Fetch`: the results of an ended batch, read in parts, each matched with its item."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from ...errors import LLMError
from ...llms.http.service import Download
from ...providers.batch_codec import BatchResult, BatchStatus, ResultDecoder
from ...values.http_request import HTTPRequest
from ..job_errors import ProviderBatchError
from .batch_item import RemoteItem
from .batch_service import BatchService
from .open_batches import RemoteBatch

logger: Final = logging.getLogger("toolcast")


class Fetch:
    """The results of one batch, which are being read.

    Attributes:
        batch: The batch.
        seen: The positions of the results so far.
        unread: Why results were left out, such as a line that cannot be read. Their items are asked again.
    """

    def __init__(self, batch: RemoteBatch, status: BatchStatus, service: BatchService) -> None:
        self.batch: RemoteBatch = batch
        self.seen: set[int] = set()
        self.unread: list[Exception] = []
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
        data: bytes | None = None
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
            if self._download is None or not error.retryable:
                raise
            if self._retries < self._service.max_retries:
                await self._download.close()
                self._download, self._skip, self._retries = None, self._read, self._retries + 1
                return []
            if data != b"":
                raise
            self.unread.append(error)  # the file itself ends inside a line
            results = []
        skipped, self._skip = results[: self._skip], max(self._skip - len(results), 0)
        new = results[len(skipped) :]
        self._read += len(new)
        if not data:
            await self._download.close()
            self._current = self._download = None
        return new

    def match(self, result: BatchResult) -> RemoteItem | None:
        """Return the item of a result; None for one that is unreadable, foreign or the second of its item."""
        tag, _, place = result.id.rpartition("-")
        items = self.batch.items
        if not result.id and result.error is not None:
            self.unread.append(result.error)
        elif tag != self.batch.plan.tag or not place.isdecimal() or int(place) >= len(items):
            self.unread.append(ProviderBatchError(f"the id {result.id!r:.100} is that of none of its requests"))
        elif int(place) in self.seen:
            self.unread.append(
                ProviderBatchError(f"there are two results for the id {result.id!r}, the first was used")
            )
        else:
            self.seen.add(int(place))
            return items[int(place)]
        return None

    def check(self) -> None:
        """Log which results were left out. Raise `ProviderBatchError` if nothing else was there."""
        if not self.unread:
            return
        what = f"{len(self.unread)} results of batch {self.batch.id} cannot be used: {self.unread[0]}"
        if not self.seen:
            raise ProviderBatchError(f"{what}. There are no others; report it to the provider") from self.unread[0]
        logger.warning("%s; requests without a result are sent again", what)

    async def close(self) -> None:
        """Release the connection of a download."""
        if self._download is not None:
            await self._download.close()
