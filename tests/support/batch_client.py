"""A plain client of a codec: each step of a batch by itself, over the network of an LLM, without an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolcast.async_support.sync_driver import run
from toolcast.events import ChatResponse
from toolcast.llms.client import client_of
from toolcast.llms.http.service import service_of
from toolcast.llms.http_llm import ServiceLLM
from toolcast.llms.request import ChatRequest
from toolcast.messages import user
from toolcast.providers.batch_codec import BatchCodec, BatchResult, BatchStatus
from toolcast.values.accumulator import Accumulator
from toolcast.values.http_request import HTTPRequest, HTTPResponse


class BatchClient:
    """The steps of the batch API of an LLM's provider."""

    def __init__(self, llm: ServiceLLM) -> None:
        self.llm = llm
        self.service = run(service_of(llm, client_of(llm).sync_backend()))
        codec = self.service.adapter.batches()
        assert codec is not None
        self.codec: BatchCodec = codec

    def send(self, request: HTTPRequest) -> HTTPResponse:
        """Send one request."""
        return run(self.service.send(request))

    def lines(self, texts: dict[str, str]) -> list[bytes]:
        """Return the lines of a batch with these prompts by id."""
        return [self.codec.encode(id, self.request(text)) for id, text in texts.items()]

    def request(self, text: str) -> HTTPRequest:
        """Return the request for a prompt."""
        found = client_of(self.llm).preview(ChatRequest((user(text),), stream=False))
        assert found is not None
        return found

    def submit(self, tag: str, lines: list[bytes]) -> BatchStatus:
        """Upload and submit a batch."""
        file = run(self.service.run(self.codec.upload(tag, lines)))
        return self.codec.read_status(self.send(self.codec.submit(tag, lines, file)))

    def status(self, id: str) -> BatchStatus:
        """Return the status of a batch."""
        return self.codec.read_status(self.send(self.codec.status(id)))

    def list(self) -> list[BatchStatus]:
        """Return all batches."""
        found: list[BatchStatus] = []
        cursor: str | None = None
        while True:
            more, cursor = self.codec.read_page(self.send(self.codec.list_page(cursor)), cursor)
            found += more
            if cursor is None:
                return found

    def decode(self, body: bytes) -> ChatResponse:
        """Return the response in the body of a result."""
        decoder, accumulator = client_of(self.llm).decoder(ChatRequest((user("?"),))), Accumulator()
        for event in (*decoder.feed(body), *decoder.close()):
            accumulator.apply(event)
        return accumulator.response(**client_of(self.llm).origin)

    def results(
        self, status: BatchStatus, cut: Callable[[bytes], list[bytes]] = lambda data: [data]
    ) -> list[BatchResult]:
        """Return the results of an ended batch; `cut` divides the downloads that the decoder is fed with."""
        found = list(status.results)
        for request in self.codec.downloads(status):
            decoder = self.codec.result_decoder()
            for piece in cut(self.download(request)):
                found += decoder.feed(piece)
            found += decoder.close()
        return found

    def download(self, request: HTTPRequest) -> bytes:
        """Return a download."""

        async def read() -> bytes:
            body = await self.service.download(request)
            try:
                data = b""
                while more := await body.read():
                    data += more
                return data
            finally:
                await body.close()

        return run(read())

    def whole(self, tag: str, texts: dict[str, str]) -> dict[str, Any]:
        """Run a batch from its submission to its end; return its results by id."""
        status = self.submit(tag, self.lines(texts))
        while status.state == "running":
            status = self.status(status.id)
        return {result.id: result for result in self.results(status)}
