"""The file of a recording: JSON Lines in UTF-8, to be read and reviewed by people.

The first line names the format and its version. Each exchange is a line with the request, a line with the status and
headers of the response, a line for each chunk of its body, and a line with its end. The file is data: its URLs are
compared and never opened, and an error in it is one of the types in `_ERRORS`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from ..errors import ConnectFailed, LimitExceeded, LLMError, MalformedEvent, StreamInterrupted, Timeout
from ..lazy_dataclasses import dataclass
from .request_matching import RESPONSE_HEADERS, RecordedRequest, decode_bytes, encode_bytes
from .scrubbing import RecordingError, Scrubber

_VERSION: Final = 1
_ERRORS: Final[Mapping[str, type[LLMError]]] = {
    each.__name__: each for each in (ConnectFailed, LimitExceeded, MalformedEvent, StreamInterrupted, Timeout)
}


@dataclass(slots=True)
class Exchange:
    """One request and what came back. Its repr leaves out what may contain a credential until it is scrubbed.

    Args:
        request: The request.
        status: The HTTP status, or None if no response came.
        headers: The recorded headers of the response.
        chunks: The body in the chunks in which it was read.
        complete: True if the body was read to its end.
        error: The error that ended the exchange as JSON data, or None.
    """

    request: RecordedRequest
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    chunks: list[bytes] = field(default_factory=list[bytes], repr=False)
    complete: bool = False
    error: Mapping[str, Any] | None = field(default=None, repr=False)

    def add(self, data: bytes) -> None:
        """Record a chunk of the body, or its end if `data` is empty."""
        if data:
            self.chunks.append(data)
        else:
            self.complete = True

    def fails_with(self, error: BaseException) -> bool:
        """Record the error that ended the exchange. Return False if no service causes such errors."""
        if isinstance(error, LLMError) and type(error).__name__ in _ERRORS:
            shown = {"type": type(error).__name__, "message": error.message, "retryable": error.retryable}
            self.error = {**shown, "phase": error.phase} if isinstance(error, Timeout) else shown
        elif isinstance(error, TimeoutError):
            self.error = {"type": "TimeoutError", "message": str(error)}
        return self.error is not None

    def failure(self) -> LLMError | TimeoutError | None:
        """Return the error that ended the exchange, or None."""
        if self.error is None:
            return None
        message = str(self.error["message"])
        if self.error["type"] == "TimeoutError":
            return TimeoutError(message)
        phase = {"phase": self.error["phase"]} if "phase" in self.error else {}
        return _ERRORS[self.error["type"]](message, retryable=bool(self.error["retryable"]), **phase)

    def scrubbed(self, scrubber: Scrubber) -> Exchange:
        """Return the exchange without credentials and without what the user's filter replaces."""
        headers = {
            name: scrubber.text(value) for name, value in self.headers.items() if RESPONSE_HEADERS.fullmatch(name)
        }
        error = None if self.error is None else {**self.error, "message": scrubber.text(str(self.error["message"]))}
        request, chunks = self.request.scrubbed(scrubber), scrubber.chunks(self.chunks)
        return Exchange(request, self.status, headers, chunks, self.complete, error)

    def check(self, scrubber: Scrubber, number: int) -> None:
        """Raise `RecordingError` if a body of the exchange still contains a credential."""
        scrubber.check(self.request.body, f"the body of request {number}")
        scrubber.check(b"".join(self.chunks), f"the body of response {number}")

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the exchange."""
        yield {"request": self.request.to_dict()}
        if self.status is not None:
            yield {"response": {"status": self.status, "headers": dict(self.headers)}}
        for chunk in self.chunks:
            encoded = encode_bytes(chunk)
            yield {"chunk": encoded.get("text", encoded)}
        yield {"end": self.error or ("complete" if self.complete else "closed")}


def write_recording(path: Path, exchanges: list[Exchange], scrubber: Scrubber) -> None:
    """Write the exchanges to `path`, readable by its owner alone, in place of what is there.

    Raises:
        RecordingError: If a credential is left in them. Nothing is written then.
    """
    clean = [exchange.scrubbed(scrubber) for exchange in exchanges]
    for number, exchange in enumerate(clean, 1):
        exchange.check(scrubber, number)
    lines = [{"toolcast_recording": _VERSION}, *(line for exchange in clean for line in exchange.lines())]
    data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    scrubber.check(data, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        new.replace(path)  # at once, so that a program that is killed leaves the old recording
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


def read_recording(path: Path) -> list[Exchange]:
    """Return the exchanges of the recording at `path`. Raise `RecordingError` if it is damaged."""
    exchanges: list[Exchange] = []
    ended = True
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            ((kind, value),) = json.loads(line).items()
            ended = _read_line(exchanges, kind, value, ended)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise RecordingError(
                f"{path}, line {number}: expected a line of a recording, got {_shown(line)}. Delete the file to record "
                "it again."
            ) from error
    if not ended:
        raise RecordingError(f"{path}: the last exchange has no end. Delete the file to record it again.")
    return exchanges


def _read_line(exchanges: list[Exchange], kind: str, value: Any, ended: bool) -> bool:
    """Add a line to the exchanges. Return True if it ends one. Raise an error of Python if it has another form."""
    if kind == "toolcast_recording" and not exchanges:
        if value == _VERSION:
            return True
        raise ValueError("of another version")
    if kind == "request" and ended:
        exchanges.append(Exchange(request := RecordedRequest.from_dict(value)))
        _ = request.stable  # fails here, and not at the first request, for a URL or a header that cannot be compared
        return False
    if ended:
        raise ValueError("outside of an exchange")
    exchange = exchanges[-1]
    if kind == "response":
        exchange.status = int(value["status"])
        exchange.headers = {name: str(text) for name, text in value["headers"].items()}
    elif kind == "chunk":
        exchange.chunks.append(value.encode() if isinstance(value, str) else decode_bytes(value))
    elif kind == "end":
        exchange.complete = value == "complete"
        exchange.error = None if isinstance(value, str) else {**value}
        exchange.failure()  # fails for an unknown type
        return True
    else:
        raise ValueError("unknown")
    return False


def _shown(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace"))
