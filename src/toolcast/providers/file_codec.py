"""The interface of a provider's files: upload, description, download, deletion. No I/O.

A codec makes the HTTP requests, with the credentials and the URL of its adapter, and reads their responses;
llms/uploads.py sends them. An adapter returns its codec from `HTTPAdapter.files`.

The encoding of a form with a file as `multipart/form-data` (RFC 7578).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from hashlib import sha256
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from ..errors import BadRequest
from ..lazy.lazy_dataclasses import dataclass
from ..values.http_request import HTTPRequest, HTTPResponse

_QUOTED: Final = {'"': "%22", "\r": "%0D", "\n": "%0A"}


def encode_form(
    fields: Mapping[str, str], name: str, filename: str, content: bytes, content_type: str
) -> tuple[bytes, str]:
    """Return the body of a form with one file, and the value of its header `content-type`.

    Args:
        fields: The other fields of the form, which come first.
        name: The name of the field with the file.
        filename: The name of the file.
        content: The content of the file.
        content_type: The media type of the file.
    """
    boundary = _boundary(content, *fields.values())
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(field)}"\r\n\r\n{value}\r\n'.encode()
        for field, value in fields.items()
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(name)}"; filename="{_quoted(filename)}"\r\n'
    parts += [f"{head}Content-Type: {content_type}\r\n\r\n".encode(), content, f"\r\n--{boundary}--\r\n".encode()]
    return b"".join(parts), f"multipart/form-data; boundary={boundary}"


def _boundary(content: bytes, *values: str) -> str:
    """Return a boundary that occurs in none of the values; equal forms have equal ones, so that recordings match."""
    everything = (content, *(value.encode() for value in values))
    digest = sha256()
    for each in everything:
        digest.update(each)
    while any(digest.hexdigest()[:32].encode() in each for each in everything):
        digest.update(b".")
    return digest.hexdigest()[:32]


def _quoted(text: str) -> str:
    """Return a name with the escapes of HTML forms, which servers read (RFC 7578, section 2, and the HTML standard)."""
    return re.sub('["\r\n]', lambda found: _QUOTED[found[0]], text)


T = TypeVar("T")

Exchange: TypeAlias = Generator[HTTPRequest, HTTPResponse, T]
"""Requests that follow on each other: a generator of requests, to which the response to each is sent.

An `LLMError` of a request is thrown into it; a generator that can go on after it yields the next request.
"""

FileState: TypeAlias = Literal["processing", "ready", "failed"]


class UploadContent(Protocol):
    """The content of a file to upload, of a size that is fixed before it is read."""

    @property
    def size(self) -> int:
        """The size in bytes."""
        ...

    def read(self, start: int, size: int) -> bytes:
        """Return the `size` bytes from the position `start`; fewer at the end."""
        ...


class BytesContent:
    """The content of a file that is in memory."""

    def __init__(self, content: bytes) -> None:
        self.size: int = len(content)
        self._content = content

    def read(self, start: int, size: int) -> bytes:
        """Return the `size` bytes from the position `start`; fewer at the end."""
        return self._content if start == 0 and size >= self.size else self._content[start : start + size]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that a provider stores.

    Attributes:
        id: The provider's id of the file.
        name: The name that it was uploaded with, where the provider returns it.
        size: The size in bytes, where the provider returns it.
        media_type: The media type, where the provider returns it.
        created: When it was uploaded, in seconds since 1970.
        expires: When the provider deletes it, in seconds since 1970; None: never, or unknown.
        state: If it can be used yet.
        url: The URL that requests refer to it by, where that is not the id.
    """

    id: str
    name: str | None = None
    size: int | None = None
    media_type: str | None = None
    created: float | None = None
    expires: float | None = None
    state: FileState = "ready"
    url: str | None = None


class FileCodec(ABC):
    """The codec of one provider's files.

    Attributes:
        provider: The name of the provider.
        limit: The size limit of one file in bytes.
        purpose: The default of `purpose`: a file for chat. Providers without purposes ignore it.
        lifetimes: The shortest and the longest lifetime of a file in seconds that can be chosen; None: none can be.
        repeatable: An upload may be sent again where it is unknown if it was received: at worst, there are two files.
        link_lifetime: The seconds for which the link of `link` is valid.
    """

    provider: str
    limit: int
    purpose: str = ""
    lifetimes: tuple[int, int] | None = None
    repeatable: bool = True
    link_lifetime: int = 0

    def check_size(self, name: str, size: int) -> None:
        """Raise `BadRequest` for a file that the provider would refuse. To be called before the file is read."""
        if size > self.limit:
            raise BadRequest(
                f"{name!r} has {size:,} bytes, but a file of {self.provider} has at most {self.limit:,}. "
                "Split it, or upload a smaller one.",
                provider=self.provider,
            )
        if not size:
            raise BadRequest(f"{name!r} is empty: expected a file with content", provider=self.provider)

    def check_lifetime(self, lifetime: float) -> None:
        """Raise `BadRequest` for a lifetime of a file, in seconds, that the provider does not have."""
        if self.lifetimes is None:
            raise BadRequest(
                f"{self.provider} has no choice of a file's lifetime: leave expires_in out, and delete the file with "
                "llm.delete_file(ref)",
                provider=self.provider,
            )
        shortest, longest = self.lifetimes
        if not shortest <= lifetime <= longest:
            raise BadRequest(
                f"expires_in={lifetime!r}: a file of {self.provider} lives for {shortest:,} to {longest:,} seconds",
                provider=self.provider,
            )

    @abstractmethod
    def upload(
        self,
        name: str,
        media_type: str,
        content: UploadContent,
        purpose: str | None = None,
        lifetime: int | None = None,
    ) -> Exchange[StoredFile]:
        """Upload a file.

        Args:
            name: The name of the file.
            media_type: The media type of its content.
            content: The content.
            purpose: What the provider shall use the file for, as the provider names it. Default: `self.purpose`.
            lifetime: The seconds after which the provider shall delete it. Default: the provider's.
        """

    def link(self, id: str) -> HTTPRequest | None:
        """Return the request for a link to the content of the file `id`, if messages need one beside the id."""
        return None

    def read_link(self, response: HTTPResponse) -> str:
        """Return the link in the response to `link`."""
        raise NotImplementedError(f"{type(self).__name__} has no links")

    @abstractmethod
    def describe(self, id: str) -> HTTPRequest:
        """Return the request for the description of the file `id`."""

    @abstractmethod
    def read(self, response: HTTPResponse) -> StoredFile:
        """Return the file in the response to `describe`."""

    @abstractmethod
    def fetch(self, id: str) -> HTTPRequest:
        """Return the request for the content of the file `id`."""

    @abstractmethod
    def delete(self, id: str) -> HTTPRequest:
        """Return the request that deletes the file `id`."""
