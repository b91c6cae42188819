"""Reading a client's JSON request: each error names the field, what was expected, and what came."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

from ..messages import AudioPart, DocumentPart, ImagePart, MediaPart, VideoPart
from .protocol import RequestError

FILE_LIMIT: Final = 10 * 1024 * 1024
"""The default size limit of a file that a client attaches, in bytes."""

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w.+-]+=[^;,]*)*)(;base64)?,", re.ASCII | re.IGNORECASE)
_NAMES: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    type(None): "nothing",
}


class Fields:
    """A JSON object of a request, with its place in it."""

    def __init__(self, value: Any, place: str = "") -> None:
        if not isinstance(value, dict):
            raise wrong(place or "the body", "an object", value)
        self._values = cast("Mapping[str, Any]", value)
        self.place: str = place

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def error(self, name: str, expected: str) -> RequestError:
        """Return the error for a field that has another value than expected."""
        return wrong(self._place(name), expected, self._values.get(name))

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string. Without a default the field is required."""
        value = self._values.get(name, default)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.error(name, "a string")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean; False if the field is missing."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(name, "true or false")
        return bool(value)

    def elements(self, name: str) -> Sequence[Any]:
        """Return a list, which is required."""
        value = self._values.get(name)
        if not isinstance(value, list):
            raise self.error(name, "a list")
        return cast("Sequence[Any]", value)

    def object(self, name: str) -> Fields:
        """Return an object; an empty one if the field is missing."""
        value = self._values.get(name)
        return Fields({} if value is None else value, self._place(name))

    def objects(self, name: str) -> Sequence[Fields]:
        """Return a list of objects, which is required."""
        place = self._place(name)
        return [Fields(each, f"{place}[{at}]") for at, each in enumerate(self.elements(name))]

    def value(self, name: str) -> Any:
        """Return the value of a field, of any type; None if it is missing."""
        return self._values.get(name)

    def values(self) -> Mapping[str, Any]:
        """Return all fields."""
        return self._values

    def _place(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name


def wrong(place: str, expected: str, value: object) -> RequestError:
    """Return the error for a value that is not the expected one."""
    came = _NAMES.get(type(value)) or f"the number {value}"[:60]
    return RequestError(f"{place}: expected {expected}, got {came}")


class Attachments:
    """The reader of the files that a client attaches.

    Args:
        limit: The size limit of each file in bytes.
        remote: True passes HTTP and HTTPS addresses of files on to the model's service, which fetches them.
    """

    def __init__(self, limit: int, *, remote: bool) -> None:
        self._limit = limit
        self._remote = remote

    def part(self, place: str, url: str, media_type: str = "", name: str | None = None) -> MediaPart:
        """Return the part of a message for a file.

        Args:
            place: The place of the URL in the request.
            url: The URL: of the scheme `data`, or of HTTP where these are passed on.
            media_type: The media type, if the client names one beside the URL. That of a data URL is preferred.
            name: The name of the file.
        """
        found = _DATA_URL.match(url)
        if found is not None:
            return _media(self._decoded(place, url, found), (found[1] or media_type or "text/plain").lower(), name)
        if not url.lower().startswith(("http://", "https://")):
            raise RequestError(f"{place}: expected a data URL, got {url[:40]!r}")
        if not self._remote:
            raise RequestError(f"{place}: expected a data URL, got the address of a file, which is not fetched")
        return _media(url, media_type.lower(), name)

    def _decoded(self, place: str, url: str, found: re.Match[str]) -> bytes:
        content = url[found.end() :]
        if found[3]:
            return self.base64(place, content)
        data = unquote_to_bytes(content)
        self._check(place, len(data))
        return data

    def base64(self, place: str, content: str) -> bytes:
        """Return the bytes of base64 text."""
        self._check(place, len(content) * 3 // 4 - 2)
        try:
            return b64decode(content, validate=True)
        except ValueError:
            raise RequestError(f"{place}: expected base64 data, got {content[:20]!r}") from None

    def _check(self, place: str, size: int) -> None:
        if size > self._limit:
            raise RequestError(f"{place}: expected a file of at most {self._limit:,} bytes, got {size:,}")


def _media(source: str | bytes, media_type: str, name: str | None) -> MediaPart:
    url, data = (source, None) if isinstance(source, str) else (None, source)
    kind = media_type.partition("/")[0]
    given = media_type or None
    if kind == "image":
        return ImagePart(url, data, given)
    if kind == "audio":
        return AudioPart(url, data, given)
    if kind == "video":
        return VideoPart(url, data, given)
    return DocumentPart(url, data, given, name=name)
