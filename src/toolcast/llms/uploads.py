"""Files at an LLM's service, as parts of messages: upload, reuse of equal content, renewal, deletion.

Written once for sync and async calls. Nothing is uploaded on a model's word: only the application calls these
functions. The size of a file is checked before it is read. A reference is returned when the file can be used: Google
processes videos for some time.
"""

from __future__ import annotations

import mimetypes
import os
import stat
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from unicodedata import category

from ..errors import BadRequest, MalformedEvent, NotFound, Timeout, UnsupportedLLMError
from ..lazy.lazy_dataclasses import dataclass
from ..messages import FileRef
from ..providers.file_codec import BytesContent, FileCodec, StoredFile, UploadContent
from ..providers.http_adapter import HTTPAdapter
from ..transport.network import IOBackend
from .http.service import Service, has_service, service_of

MARGIN = 600.0
"""The seconds that a file must still live to be used again."""

PROCESSING = 600.0
"""The default limit of the time that the provider processes a file, in seconds."""

_CHUNK = 1024 * 1024
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 10.0
_MOST_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to upload, with its options; see `FileMethods.upload`."""

    source: Path | bytes
    name: str | None = None
    media_type: str | None = None
    purpose: str | None = None
    expires_in: float | None = None
    reuse: bool = False
    timeout: float | None = PROCESSING


_PATHS: Any = (str, os.PathLike)  # typed as Any: a program may pass what its types do not allow


def as_source(source: str | os.PathLike[str] | bytes) -> Path | bytes:
    """Return the path or the content. Raise `TypeError` for anything else, and `BadRequest` for a URL."""
    if isinstance(source, bytes):
        return source
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    if not isinstance(source, _PATHS):
        raise TypeError(f"upload: expected a path or bytes, got {type(source).__name__}")
    if isinstance(source, str) and source.startswith(("https://", "http://", "data:")):
        raise BadRequest(
            f"{source!r:.100} is a URL, which is not fetched: pass it in the message, as DocumentPart(url=...)"
        )
    return Path(source)


async def upload(owner: object, request: Upload, backend: IOBackend) -> FileRef:
    """Upload a file to the service of the LLM `owner`, and return the part of a message that refers to it.

    Raises:
        BadRequest: The file is empty, too large, of an unknown type, or the provider cannot process it.
        LLMError: The service refused the file, or the connection failed after the retries.
        Timeout: The provider has not processed the file in time.
        UnsupportedLLMError: Messages to the service cannot refer to files.
    """
    service, codec = await file_service(owner, backend)
    if not service.adapter.takes_files:
        raise UnsupportedLLMError(
            f"messages to {service.adapter.provider} cannot refer to uploaded files in this API. Pass the content in "
            "the message instead, as DocumentPart, ImagePart, AudioPart or VideoPart."
        )
    name = file_name(request.source, request.name)
    media_type = file_type(name, request.media_type)
    content = file_content(request.source)
    codec.check_size(name, content.size)
    if request.expires_in is not None:
        codec.check_lifetime(request.expires_in)
    lifetime = None if request.expires_in is None else int(request.expires_in)
    files = _index(owner)
    key: tuple[str, ...] = ()
    if request.reuse:
        key = (await _in_thread(backend, content), media_type, request.purpose or "", str(lifetime))
        if (found := files.get(key)) is not None and (again := await _used_again(service, codec, found)):
            files[key] = again
            return again
    hashed = _Hashed(content) if request.reuse else None
    exchange = codec.upload(name, media_type, hashed or content, request.purpose, lifetime)
    stored = await service.run(exchange, repeatable=codec.repeatable)
    stored = await _processed(service, codec, stored, request.timeout)
    ref = _ref(codec, stored, name=name, media_type=media_type, size=content.size)
    ref = await _linked(service, codec, ref)
    # A file that was changed between the two readings is not the content of this hash.
    if hashed is not None and key and hashed.digest == key[0]:
        while len(files) >= _MOST_REMEMBERED:
            files.pop(next(iter(files)), None)
        files[key] = ref
    return ref


async def describe(owner: object, file: FileRef | str, backend: IOBackend, timeout: float | None) -> FileRef:
    """Return the file as the provider describes it now, with a new link if it has one."""
    service, codec = await file_service(owner, backend)
    id = _id(file, codec)
    stored = codec.read(await service.send(codec.describe(id)))
    stored = await _processed(service, codec, stored, timeout)
    return await _linked(service, codec, _ref(codec, stored, file))


async def delete(owner: object, file: FileRef | str, backend: IOBackend) -> None:
    """Delete the file at the provider."""
    service, codec = await file_service(owner, backend)
    id = _id(file, codec)
    files = _index(owner)
    for key, ref in tuple(files.items()):
        if ref.id == id:
            files.pop(key, None)
    await service.send(codec.delete(id))


def _id(file: FileRef | str, codec: FileCodec) -> str:
    if isinstance(file, str):
        try:
            codec.describe(file)
        except MalformedEvent as error:  # it says that the service has returned this id
            text = f"{file!r:.100} is no id of a file at {codec.provider}. Pass the FileRef, or its id."
            raise BadRequest(text, provider=codec.provider) from error
        return file
    if file.provider != codec.provider:
        raise BadRequest(
            f"the file {file.id!r:.100} is stored by {file.provider}, not by {codec.provider}: use the LLM that it was "
            "uploaded with",
            provider=codec.provider,
        )
    return file.id


def _index(owner: object) -> dict[tuple[str, ...], FileRef]:
    """Return the files that this LLM has uploaded, by their hash and options."""
    return owner.uploads if has_service(owner) else {}


async def _used_again(service: Service[HTTPAdapter], codec: FileCodec, ref: FileRef) -> FileRef | None:
    """Return a file that was uploaded before, as the provider describes it now; None if it is gone, or is soon."""
    try:
        stored = codec.read(await service.send(codec.describe(ref.id)))
    except NotFound:
        return None
    if stored.state != "ready" or (stored.expires is not None and stored.expires < service.backend.time() + MARGIN):
        return None
    return await _linked(service, codec, _ref(codec, stored, ref))


async def _processed(
    service: Service[HTTPAdapter], codec: FileCodec, stored: StoredFile, timeout: float | None
) -> StoredFile:
    """Return the file when the provider has processed it."""
    deadline = None if timeout is None else service.backend.now() + timeout
    wait = _FIRST_WAIT
    while stored.state == "processing":
        left = wait if deadline is None else deadline - service.backend.now()
        if left <= 0:
            raise Timeout(
                f"{codec.provider} has not processed the file {stored.id!r} within {timeout} s: wait for it with "
                f"llm.describe_file({stored.id!r}), or allow more with timeout=",
                phase="total",
                provider=codec.provider,
            )
        await service.backend.sleep(min(wait, left))
        wait = min(wait * 1.5, _LONGEST_WAIT)
        stored = codec.read(await service.send(codec.describe(stored.id)))
    if stored.state == "failed":
        raise BadRequest(
            f"{codec.provider} could not process the file {stored.id!r}: check that it is not damaged, and of the type "
            f"{stored.media_type}",
            provider=codec.provider,
        )
    return stored


async def _linked(service: Service[HTTPAdapter], codec: FileCodec, ref: FileRef) -> FileRef:
    """Return the reference with a new link, if messages need one."""
    request = codec.link(ref.id)
    if request is None:
        return ref
    expires = service.backend.time() + codec.link_lifetime
    link = codec.read_link(await service.send(request))
    return replace(ref, uri=link, expires_at=expires if ref.expires_at is None else min(expires, ref.expires_at))


def _ref(
    codec: FileCodec,
    stored: StoredFile,
    before: FileRef | str = "",
    *,
    name: str | None = None,
    media_type: str | None = None,
    size: int | None = None,
) -> FileRef:
    """Return the reference; what the provider does not describe is that of the upload, or the type of the name."""
    if isinstance(before, FileRef):
        name, media_type, size = before.name, before.media_type, before.size
    if media_type is None and stored.media_type is None:
        # OpenAI, for one, describes no types, and takes images and documents in different parts.
        media_type = mimetypes.guess_type(stored.name or name or "")[0]
    return FileRef(
        codec.provider,
        stored.id,
        stored.url,
        stored.media_type or media_type,
        stored.name or name,
        size if stored.size is None else stored.size,
        stored.expires,
    )


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


async def file_service(llm: object, backend: IOBackend) -> tuple[Service[HTTPAdapter], FileCodec]:
    """Return the service of `llm` and the codec of its files. Raise `UnsupportedLLMError` if it has none."""
    service = await service_of(llm, backend)
    codec = service.adapter.files()
    if codec is None:
        raise UnsupportedLLMError(
            f"{service.adapter.provider} has no files that toolcast can upload. Pass the content in the message."
        )
    return service, codec


class _Hashed:
    """The content of a file, and the hash of what was read of it. What is read twice counts once."""

    def __init__(self, content: UploadContent) -> None:
        self.size: int = content.size
        self._content = content
        self._hash = sha256()
        self._read = 0

    @property
    def digest(self) -> str:
        """The hash."""
        return self._hash.hexdigest()

    def read(self, start: int, size: int) -> bytes:
        """Return the `size` bytes from the position `start`; fewer at the end."""
        data = self._content.read(start, size)
        if start <= self._read < start + len(data):
            self._hash.update(data[self._read - start :])
            self._read = start + len(data)
        return data


async def _in_thread(backend: IOBackend, content: UploadContent) -> str:
    """Return the hash of a content; under an event loop, it is computed in a worker thread."""
    if not backend.concurrent:
        return _digest(content)
    from anyio import to_thread

    return await to_thread.run_sync(_digest, content)


def _digest(content: UploadContent) -> str:
    hashed = _Hashed(content)
    for start in range(0, content.size, _CHUNK):
        hashed.read(start, _CHUNK)
    return hashed.digest
