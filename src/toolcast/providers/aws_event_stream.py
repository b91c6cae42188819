"""An incremental parser of AWS event streams, `application/vnd.amazon.eventstream`. No I/O.

A message is a prelude of 12 bytes (its length, the length of its headers, and their CRC-32), the headers, the payload,
and the CRC-32 of all of it (Amazon Transcribe developer guide, "Event stream encoding"). Input may be cut anywhere: the
messages, and the error that ends them, are the same for every cut. Each is yielded as soon as it is complete, so that
an error is raised after the messages before it were used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from struct import Struct, error as struct_error
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from ..errors import LimitExceeded, MalformedEvent
from .sse import Bytes

HeaderValue: TypeAlias = bool | int | str | bytes
"""The value of a header. A timestamp is in milliseconds since 1970, a UUID its 16 bytes."""

HEADERS_LIMIT: Final = 128 * 1024
PAYLOAD_LIMIT: Final = 24 * 1024 * 1024
"""The limits of one message in bytes: those of botocore."""

_PRELUDE: Final = Struct("!III")
_CRC: Final = Struct("!I")
_LENGTH: Final = Struct("!H")
_OVERHEAD: Final = _PRELUDE.size + _CRC.size

# The types of header values by their number. 0 and 1 are True and False, without further bytes.
_TRUE, _FALSE, _BYTES, _STRING, _UUID = 0, 1, 6, 7, 9
_NUMBERS: Final[Mapping[int, Struct]] = {
    2: Struct("!b"),
    3: Struct("!h"),
    4: Struct("!i"),
    5: Struct("!q"),
    8: Struct("!q"),
}


class AWSEventMessage(NamedTuple):
    """One message of an event stream."""

    headers: Mapping[str, HeaderValue]
    payload: bytes

    def text(self, name: str) -> str:
        """Return the text of a header; `""` if it is missing or no text."""
        value = self.headers.get(name)
        return value if isinstance(value, str) else ""


class AWSEventStream:
    """A parser of an event stream from bytes cut anywhere.

    Attributes:
        between: No message has begun, or the last one has ended.
    """

    def __init__(self) -> None:
        self.between: bool = True
        self._rest = bytearray()
        self._wanted = _PRELUDE.size  # the bytes that the next step needs
        self._checked = False  # the prelude of the first message in `_rest` was checked

    def feed(self, data: Bytes) -> Iterator[AWSEventMessage]:
        """Yield the messages that `data` completes.

        Raises:
            MalformedEvent: A checksum or a length is wrong.
            LimitExceeded: A message is too long.
        """
        self._rest += data  # a copy, of a buffer of any type
        self.between = not self._rest
        while len(self._rest) >= self._wanted:
            if not self._checked:
                self._wanted = _message_length(self._rest)
                self._checked = True
                continue
            message = bytes(self._rest[: self._wanted])
            del self._rest[: self._wanted]
            self._wanted, self._checked = _PRELUDE.size, False
            self.between = not self._rest
            yield _parsed(message)


def is_event_stream(start: Bytes) -> bool:
    """Return True if a body that starts with these bytes is an event stream, and no text."""
    # The first byte of a length below 150 MB: a control character before the tab, with which no text begins.
    return bool(start) and start[0] < 9


def _message_length(prelude: bytearray) -> int:
    """Return the length of the message that this prelude begins, after checking it."""
    total, headers, checksum = _PRELUDE.unpack_from(prelude)
    if crc32(prelude[: _PRELUDE.size - _CRC.size]) != checksum:
        raise _wrong("the checksum of a message's beginning is wrong")
    if headers > HEADERS_LIMIT or total - headers - _OVERHEAD > PAYLOAD_LIMIT:
        raise LimitExceeded(
            f"one message of the event stream has {headers} bytes of headers and {total} in all; the limits are "
            f"{HEADERS_LIMIT} and {PAYLOAD_LIMIT}"
        )
    if total < headers + _OVERHEAD:
        raise _wrong(f"a message of {total} bytes has {headers} bytes of headers")
    return int(total)


def _parsed(message: bytes) -> AWSEventMessage:
    end = len(message) - _CRC.size
    if crc32(memoryview(message)[:end]) != _CRC.unpack_from(message, end)[0]:
        raise _wrong("the checksum of a message is wrong")
    payload = _PRELUDE.size + _PRELUDE.unpack_from(message)[1]
    try:
        headers = _parsed_headers(message[_PRELUDE.size : payload])
    except (struct_error, ValueError, IndexError) as error:
        raise _wrong("the headers of a message cannot be read") from error
    return AWSEventMessage(headers, message[payload:end])


@lru_cache(64)  # nearly all messages of a stream have one of five headers, which take half of the time
def _parsed_headers(data: bytes) -> Mapping[str, HeaderValue]:
    return MappingProxyType(dict(_headers(data)))


def _headers(data: bytes) -> Iterator[tuple[str, HeaderValue]]:
    """Yield name and value of each header. Raise an error of Python for incomplete ones."""
    at = 0
    while at < len(data):
        name, at = _taken(data, at + 1, data[at])
        kind = data[at]
        at += 1
        value: HeaderValue
        if kind in (_TRUE, _FALSE):
            value = kind == _TRUE
        elif (number := _NUMBERS.get(kind)) is not None:
            value, at = number.unpack_from(data, at)[0], at + number.size
        elif kind in (_BYTES, _STRING):
            value, at = _taken(data, at + _LENGTH.size, _LENGTH.unpack_from(data, at)[0])
            value = value.decode() if kind == _STRING else value
        elif kind == _UUID:
            value, at = _taken(data, at, 16)
        else:
            raise ValueError(f"{kind} is no type of a header")
        yield name.decode(), value


def _taken(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    """Return the next `length` bytes, and the place after them."""
    end = at + length
    if end > len(data):
        raise ValueError("a header is longer than the headers")
    return data[at:end], end


def _wrong(problem: str) -> MalformedEvent:
    return MalformedEvent(f"the response is no valid AWS event stream: {problem}. Send the request again.")
