"""Files at an LLM's service, as its codec has them: what tests compare with official clients."""

from __future__ import annotations

from toolcast.async_support.sync_driver import run
from toolcast.llms.client import client_of
from toolcast.llms.http_llm import ServiceLLM
from toolcast.llms.uploads import file_service, file_type
from toolcast.providers.file_codec import BytesContent, StoredFile
from toolcast.values.http_request import HTTPRequest, HTTPResponse


def upload_file(llm: ServiceLLM, content: bytes, name: str) -> StoredFile:
    """Upload a file."""

    async def upload() -> StoredFile:
        service, codec = await file_service(llm, client_of(llm).sync_backend())
        exchange = codec.upload(name, file_type(name, None), BytesContent(content))
        return await service.run(exchange, repeatable=codec.repeatable)

    return run(upload())


def describe_file(llm: ServiceLLM, id: str) -> StoredFile:
    """Return the description of a file."""
    codec = llm.adapter.files()  # type: ignore[attr-defined]  # of an adapter for HTTP
    return codec.read(send(llm, codec.describe(id)))


def fetch_file(llm: ServiceLLM, id: str) -> bytes:
    """Return the content of a file."""
    return send(llm, llm.adapter.files().fetch(id)).body  # type: ignore[attr-defined]  # of an adapter for HTTP


def send(llm: ServiceLLM, request: HTTPRequest) -> HTTPResponse:
    """Send a request for files."""

    async def sent() -> HTTPResponse:
        service, _ = await file_service(llm, client_of(llm).sync_backend())
        return await service.send(request)

    return run(sent())
