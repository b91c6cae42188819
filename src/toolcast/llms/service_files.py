"""Files at an LLM's service: upload, description, download, deletion. Written once for sync and async calls.

The size of a file is checked before it is read.
"""

from __future__ import annotations

import mimetypes
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..errors import BadRequest, LLMError, UnsupportedLLMError
from ..http_request import HTTPRequest
from ..lazy_dataclasses import dataclass
from ..providers.file_codec import BytesContent, Exchange, FileCodec, StoredFile, UploadContent
from ..transport.network import IOBackend
from .service_requests import RESPONSE_LIMIT, LLMTarget, RequestTarget, llm_target, send_request

T = TypeVar("T")


class PathContent:
    """The content of a regular file, read in parts."""

    def __init__(self, path: Path) -> None:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise BadRequest(f"{str(path)!r} is no regular file: pass its content as bytes")
        self.size: int = found.st_size
        self._path = path

    def read(self, start: int, size: int) -> bytes:
        """Return the `size` bytes from the position `start`; fewer at the end. Raise `BadRequest` if it was cut."""
        with self._path.open("rb") as file:
            file.seek(start)
            data = file.read(min(size, self.size - start))
        if len(data) < min(size, self.size - start):
            raise BadRequest(f"{str(self._path)!r} became shorter while it was uploaded: upload it again")
        return data


async def run_exchange(target: RequestTarget, exchange: Exchange[T], backend: IOBackend) -> T:
    """Send the requests of `exchange` and return its result.

    Its steps read and encode whole files, so that under an event loop they run in a worker thread.

    Raises:
        LLMError: A request failed, and the exchange cannot go on after it.
    """
    found: HTTPRequest | _Result[T] = await _step(exchange.__next__, backend)
    while not isinstance(found, _Result):
        try:
            response = await send_request(target, found, backend)
        except LLMError as error:
            found = await _step(partial(exchange.throw, error), backend)
        else:
            found = await _step(partial(exchange.send, response), backend)
    return found.value


async def upload_file(
    llm: object,
    source: Path | bytes,
    backend: IOBackend,
    *,
    name: str | None = None,
    media_type: str | None = None,
    purpose: str | None = None,
) -> StoredFile:
    """Upload a file to the service of `llm`.

    Args:
        llm: The LLM.
        source: The path of the file, or its content.
        backend: The network and the clock.
        name: The name of the file at the service. Default: that of the path.
        media_type: The media type. Default: by the extension of the name.
        purpose: What the service shall use it for, as the provider names it.

    Raises:
        BadRequest: The file is empty, larger than the service accepts, or of an unknown type.
        LLMError: The service refused the file, or the connection failed.
        UnsupportedLLMError: The service has no files.
    """
    target, codec = await _service(llm, backend)
    name = name or (source.name if isinstance(source, Path) else "file")
    media_type = media_type or mimetypes.guess_type(name)[0]
    if media_type is None:
        raise BadRequest(f"{name!r}: the extension has no known media type; pass media_type=")
    content: UploadContent = BytesContent(source) if isinstance(source, bytes) else PathContent(source)
    codec.check_size(name, content.size)
    return await run_exchange(target, codec.upload(name, media_type, content, purpose), backend)


async def describe_file(llm: object, id: str, backend: IOBackend) -> StoredFile:
    """Return the description of the file `id` at the service of `llm`. Raise `NotFound` if there is none."""
    target, codec = await _service(llm, backend)
    return codec.read(await send_request(target, codec.describe(id), backend))


async def fetch_file(llm: object, id: str, backend: IOBackend, *, limit: int = RESPONSE_LIMIT) -> bytes:
    """Return the content of the file `id`. Raise `LimitExceeded` if it has more than `limit` bytes."""
    target, codec = await _service(llm, backend)
    return (await send_request(target, codec.fetch(id), backend, limit=limit)).body


async def delete_file(llm: object, id: str, backend: IOBackend) -> None:
    """Delete the file `id` at the service of `llm`. Raise `NotFound` if there is none."""
    target, codec = await _service(llm, backend)
    await send_request(target, codec.delete(id), backend)


async def _service(llm: object, backend: IOBackend) -> tuple[LLMTarget, FileCodec]:
    target = await llm_target(llm, backend)
    codec = target.adapter.files()
    if codec is None:
        raise UnsupportedLLMError(
            f"{target.adapter.provider} has no files that toolcast can upload. Pass the content in the message instead."
        )
    return target, codec


@dataclass(frozen=True, slots=True)
class _Result(Generic[T]):
    """The result of an exchange. A `StopIteration` cannot be raised through a worker thread."""

    value: T


async def _step(proceed: Callable[[], HTTPRequest], backend: IOBackend) -> HTTPRequest | _Result[Any]:
    if not backend.concurrent:
        return _proceed(proceed)
    import anyio.to_thread

    return await anyio.to_thread.run_sync(_proceed, proceed)


def _proceed(proceed: Callable[[], HTTPRequest]) -> HTTPRequest | _Result[Any]:
    try:
        return proceed()
    except StopIteration as end:
        return _Result(end.value)
