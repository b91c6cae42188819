"""`BatchService`: the requests to the batch API of one provider. Written once for sync and async callers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...errors import LLMError, NotFound
from ...llms.function_calling_llm import FunctionCallingLLM
from ...llms.http.service import Download, Service, service_of
from ...providers.batch_codec import BatchCodec, BatchStatus
from ...providers.http_adapter import HTTPAdapter
from ...transport.network import IOBackend
from ...values.http_request import HTTPRequest, HTTPResponse
from ..job_errors import ProviderBatchError

logger: Final = logging.getLogger("toolcast")


class BatchService:
    """The batch API of the provider of one LLM.

    Attributes:
        codec: The codec of the API.
        backend: The network and the clock.
    """

    def __init__(self, service: Service[HTTPAdapter], codec: BatchCodec) -> None:
        self.codec: BatchCodec = codec
        self.backend: IOBackend = service.backend
        self._service = service

    @property
    def max_retries(self) -> int:
        """The number of further attempts of a request that failed."""
        return self._service.retry_policy.max_retries

    async def send(self, request: HTTPRequest, *, repeatable: bool | None = None) -> HTTPResponse:
        """Send a request and return its response."""
        return await self._service.send(request, repeatable=repeatable)

    async def open(self, request: HTTPRequest) -> Download:
        """Send a request and return the body of its response, which is still arriving."""
        return await self._service.download(request)

    async def status(self, id: str) -> BatchStatus:
        """Return the status of the batch `id`."""
        return self.codec.read_status(await self.send(self.codec.status(id)))

    async def upload(self, tag: str, lines: Sequence[bytes]) -> str | None:
        """Upload the requests of a batch, again after an error that may pass: a file that is lost costs nothing."""
        used = 0
        while True:
            try:
                return await self._service.run(self.codec.upload(tag, lines))
            except LLMError as error:
                if (wait := self._service.wait_after(error, used)) is None:
                    raise
                used += 1
            await self.backend.sleep(wait)

    async def cancel(self, id: str) -> None:
        """Cancel the batch `id`. A failure is logged."""
        await self._send_quietly(self.codec.cancel(id))

    async def delete_file(self, file: str) -> None:
        """Delete an uploaded file that belongs to no batch. A failure is logged."""
        if (request := self.codec.delete_file(file)) is not None:
            await self._send_quietly(request)

    async def delete_files(self, id: str, status: BatchStatus | None, file: str | None) -> None:
        """Delete what the provider stores of a batch. Failures are logged.

        Args:
            id: The batch.
            status: Its last status, if it is known.
            file: The uploaded file of its requests: not all providers return it with the status.
        """
        if status is None or status.state == "running":
            try:
                status = await self.status(id)
            except LLMError as error:
                if not isinstance(error, NotFound):
                    logger.warning("the files of batch %s were not deleted: %s", id, error)
                return
        if status.input_file is None:
            status = replace(status, input_file=file)
        for request in self.codec.delete_files(status):
            await self._send_quietly(request)

    async def _send_quietly(self, request: HTTPRequest) -> None:
        """Send a request whose failure does not matter for the outcomes: it cancels or deletes something."""
        try:
            await self.send(request, repeatable=True)
        except LLMError as error:
            if not isinstance(error, NotFound):
                logger.warning("%s %s failed: %s", request.method, request.url, error)


async def batch_service(llm: FunctionCallingLLM, backend: IOBackend) -> BatchService:
    """Return the batch API of the provider of `llm`.

    Raises:
        ProviderBatchError: The provider has none.
        UnsupportedLLMError: It is no LLM behind HTTP.
    """
    service = await service_of(llm, backend)
    codec = service.adapter.batches()
    if codec is None:
        raise ProviderBatchError(
            f"{service.adapter.provider} has no batch API that toolcast can use: leave out via='batch'"
        )
    return BatchService(service, codec)
