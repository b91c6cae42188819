"""Files at an LLM's service: upload, description, download, deletion. Written once for sync and async calls.

The size of a file is checked before it is read.
"""

from __future__ import annotations

import mimetypes
import stat
from pathlib import Path
from typing import Final
from unicodedata import category

from ..errors import BadRequest, UnsupportedLLMError
from ..providers.file_codec import BytesContent, FileCodec, StoredFile, UploadContent
from ..transport.network import IOBackend
from .service_requests import RESPONSE_LIMIT, run_exchange, send_request
from .service_targets import LLMTarget, llm_target


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
    target, codec = await file_service(llm, backend)
    name = file_name(source, name)
    media_type = file_type(name, media_type)
    content = file_content(source)
    codec.check_size(name, content.size)
    exchange = codec.upload(name, media_type, content, purpose)
    return await run_exchange(target, exchange, backend, repeatable=codec.repeatable)


_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""The categories of characters that are invisible, control something, or are no character."""


def file_name(source: Path | bytes, name: str | None) -> str:
    """Return the name of a file at the service: `name`, or that of the path, with `_` for what is no visible text."""
    found = name or (source.name if isinstance(source, Path) else "file")
    return "".join("_" if category(char) in _UNSEEN else char for char in found)


def file_type(name: str, media_type: str | None) -> str:
    """Return the media type of a file: `media_type`, or that of the extension of its name."""
    media_type = media_type or mimetypes.guess_type(name)[0]
    if media_type is None:
        raise BadRequest(f"{name!r}: the extension has no known media type; pass media_type=")
    return media_type


def file_content(source: Path | bytes) -> UploadContent:
    """Return the content of a file, which is not read yet."""
    return BytesContent(source) if isinstance(source, bytes) else PathContent(source)


async def describe_file(llm: object, id: str, backend: IOBackend) -> StoredFile:
    """Return the description of the file `id` at the service of `llm`. Raise `NotFound` if there is none."""
    target, codec = await file_service(llm, backend)
    return codec.read(await send_request(target, codec.describe(id), backend))


async def fetch_file(llm: object, id: str, backend: IOBackend, *, limit: int = RESPONSE_LIMIT) -> bytes:
    """Return the content of the file `id`. Raise `LimitExceeded` if it has more than `limit` bytes."""
    target, codec = await file_service(llm, backend)
    return (await send_request(target, codec.fetch(id), backend, limit=limit)).body


async def delete_file(llm: object, id: str, backend: IOBackend) -> None:
    """Delete the file `id` at the service of `llm`. Raise `NotFound` if there is none."""
    target, codec = await file_service(llm, backend)
    await send_request(target, codec.delete(id), backend)


async def file_service(llm: object, backend: IOBackend) -> tuple[LLMTarget, FileCodec]:
    """Return the service of `llm` and the codec of its files. Raise `UnsupportedLLMError` if it has none."""
    target = await llm_target(llm, backend)
    codec = target.adapter.files()
    if codec is None:
        raise UnsupportedLLMError(
            f"{target.adapter.provider} has no files that toolcast can upload. Pass the content in the message instead."
        )
    return target, codec
