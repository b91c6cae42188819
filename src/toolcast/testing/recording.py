"""`record` and `replay`: the HTTP exchanges of a test, recorded once and replayed from then on.

The file of a recording: JSON Lines in UTF-8, to be read and reviewed by people.

The first line names the format and its version. Each exchange is a line with the request, a line with the status and
headers of the response, a line for each chunk of its body, and a line with its end. The file is data: its URLs are
compared and never opened, and an error in it is one of the types in `_ERRORS`.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import field
from functools import wraps
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from ..errors import ConnectFailed, LimitExceeded, LLMError, MalformedEvent, StreamInterrupted, Timeout
from ..lazy.lazy_dataclasses import dataclass
from ..transport.interception import intercept, intercept_by_default
from ..transport.network import AsyncResponse, Network, Response
from ..values.http_request import HTTPRequest
from .replay_network import AsyncReplayReply, Recorded, ReplayNetwork, ReplayReply
from .request_matching import (
    RESPONSE_HEADERS,
    RecordedRequest,
    decode_bytes,
    describe_difference,
    encode_bytes,
    find_match,
)
from .scrubbing import RecordingError, Scrubber, TextFilter

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


RecordMode: TypeAlias = Literal["none", "once", "new", "all"]
"""The `mode` of `record`."""

F = TypeVar("F", bound=Callable[..., Any])

_MODES: Final = ("none", "once", "new", "all")


class RecordingMismatch(RecordingError):
    """The error for a request that is not in the recording, and that may not be sent."""


def record(
    path: str | os.PathLike[str],
    mode: RecordMode | None = None,
    *,
    filter: TextFilter | None = None,
    secrets: Iterable[str] = (),
    process_wide: bool = False,
) -> RecordingBlock:
    """Record the HTTP exchanges of a block or a function at its first run, and replay them from then on.

    Use it as a context manager or as a decorator of a sync or async function. It applies to every request of toolcast
    in the block, over any `Network`: of LLMs, embedders and tools, in its threads and tasks as well. The file is
    written at the end of the block, in JSON Lines, readable by its owner alone. It has the headers that are known to
    be harmless, and `[key]` in place of each credential.

    Args:
        path: The file, one for each test. Its folders are created.
        mode: `"once"` records if there is no file, and otherwise sends nothing. `"none"` sends nothing. `"new"` sends
            and adds the requests that are not in the file. `"all"` sends everything and replaces the file. The
            default is `"none"` where the environment variable CI is true, and `"once"` elsewhere.
        filter: Removes personal data: a function from a text to a text, or a mapping of regular expressions to
            replacements. It is applied to each string in the bodies, also where a stream has cut it, to URLs and to
            recorded headers, when requests are compared as well.
        secrets: Further texts to remove as credentials. Those in the headers and URLs of requests, and the environment
            variables with names like `OPENAI_API_KEY`, are removed anyway.
        process_wide: Apply to the whole process, except inside blocks that are not process-wide. The blocks may begin
            and end in any thread or task, as the halves of a fixture may.

    Returns:
        A context manager, which returns a `Recording` on entry, and decorator.

    Raises:
        RecordingMismatch: In the block, by a request that is not in the recording and may not be sent.
        RecordingError: If the file is damaged; at the end of the block, if a credential would be written.
    """
    if mode is not None and mode not in _MODES:
        raise ValueError(f"mode: expected one of {', '.join(map(repr, _MODES))} or None, got {mode!r}")
    secrets = tuple(secrets)
    return RecordingBlock(
        lambda: Recording(Path(path), mode or _default_mode(), Scrubber(filter, secrets)), process_wide=process_wide
    )


def replay(
    path: str | os.PathLike[str], *, filter: TextFilter | None = None, chunk_size: int | None = None
) -> RecordingBlock:
    """Replay a recording in a block or a function, and send nothing: `record` with the mode `"none"`.

    Args:
        path: The file that `record` has written.
        filter: The filter with which it was recorded.
        chunk_size: The size of the chunks of each body, in bytes. By default they have the borders that were recorded;
            1 is the hardest case for code that reads streams.

    Returns:
        A context manager, which returns a `Recording` on entry, and decorator.

    Raises:
        RecordingMismatch: In the block, by a request that is not in the recording.
        RecordingError: If the file is damaged.
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size: expected a positive number of bytes or None, got {chunk_size}")
    return RecordingBlock(lambda: Recording(Path(path), "none", Scrubber(filter), chunk_size))


def _default_mode() -> RecordMode:
    return "none" if os.environ.get("CI", "").lower() in ("1", "true", "yes") else "once"


class RecordingBlock:
    """A context manager and decorator; each entry and each call of the function begins with the file as it is then."""

    def __init__(self, make: Callable[[], Recording], *, process_wide: bool = False) -> None:
        self._make = make
        self._process_wide = process_wide
        self._entered: list[tuple[Recording, AbstractContextManager[None]]] = []

    def __enter__(self) -> Recording:
        recording = self._make()
        block = (intercept_by_default if self._process_wide else intercept)(recording)
        block.__enter__()
        self._entered.append((recording, block))
        return recording

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        recording, block = self._entered.pop()
        block.__exit__(None, None, None)
        # A test that was interrupted or cancelled has recorded an arbitrary part of its exchanges.
        if error is None or isinstance(error, Exception):
            recording.write()

    def __call__(self, function: F, /) -> F:
        """Return `function` with each call in a block of its own."""
        if not callable(function) or inspect.isclass(function):
            raise TypeError(f"expected a function to decorate, got {function!r}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} is a generator: write `with record(...)` inside of it")
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def acall(*args: Any, **values: Any) -> Any:
                with self._again():
                    return await function(*args, **values)

            return cast("F", acall)

        @wraps(function)
        def call(*args: Any, **values: Any) -> Any:
            with self._again():
                return function(*args, **values)

        return cast("F", call)

    def _again(self) -> RecordingBlock:
        """Return another block with the same options."""
        return RecordingBlock(self._make, process_wide=self._process_wide)


class Recording:
    """The recording of a block of `record` or `replay`.

    Attributes:
        path: The file.
        mode: The mode of the block.
        sent: The number of requests that were sent to a service.
        replayed: The number of requests that were answered from the file.
    """

    def __init__(self, path: Path, mode: RecordMode, scrubber: Scrubber, chunk_size: int | None = None) -> None:
        self.path: Path = path
        self.mode: RecordMode = mode
        self.sent: int = 0
        self.replayed: int = 0
        self._scrubber = scrubber
        self._chunk_size = chunk_size
        exists = path.exists()
        self._sends = mode in ("all", "new") or (mode == "once" and not exists)
        self._recorded = read_recording(path) if exists and mode != "all" else []
        self._unused = list(self._recorded)
        self._new: list[Exchange] = []
        self._network = ReplayNetwork()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Recording({str(self.path)!r}, mode={self.mode!r}, sent={self.sent}, replayed={self.replayed})"

    @property
    def unused(self) -> list[str]:
        """The method and URL of each recorded request that the block has not made yet."""
        with self._lock:
            return [str(exchange.request) for exchange in self._unused]

    @property
    def sends_nothing(self) -> bool:
        """True if nothing is sent, so that the waits between retries take no time."""
        return not self._sends

    def sends_to(self, url: str) -> bool:
        """Return False if nothing is sent, so that no API key is needed."""
        return self._sends

    def open(self, network: Network, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        """Return the recorded response, or send the request over `network` and record its response."""
        if (recorded := self._match(request)) is not None:
            return self._replay(recorded)
        exchange = self._begin(request)
        try:
            reply = network.open(request, connect=connect, read=read)
        except BaseException as error:
            self._failed(exchange, error)
            raise
        _answered(exchange, reply)
        return _RecordedResponse(reply, exchange)

    async def aopen(
        self, network: Network, request: HTTPRequest, *, connect: float | None, read: float | None
    ) -> AsyncResponse:
        """Return the recorded response, or send the request over `network` and record its response."""
        if (recorded := self._match(request)) is not None:
            return AsyncReplayReply(self._replay(recorded))
        exchange = self._begin(request)
        try:
            reply = await network.aopen(request, connect=connect, read=read)
        except BaseException as error:
            self._failed(exchange, error)
            raise
        _answered(exchange, reply)
        return _RecordedAsyncResponse(reply, exchange)

    def write(self) -> None:
        """Write the file, if a request was sent. Raise `RecordingError` if a credential would be written."""
        with self._lock:
            if self._new:
                write_recording(self.path, [*self._recorded, *self._new], self._scrubber)

    def _match(self, request: HTTPRequest) -> Exchange | None:
        """Return the recorded exchange for a request; None if it is to be sent. Raise `RecordingMismatch` otherwise."""
        with self._lock:
            self._scrubber.learn(request)
            if self.mode == "all" or (self._sends and not self._recorded):
                return None
            sent = RecordedRequest.of(request).scrubbed(self._scrubber)
            place = find_match(sent, [exchange.request for exchange in self._unused])
            if place is not None:
                self.replayed += 1
                return self._unused.pop(place)
            if self._sends:
                return None
            problem = self._problem(sent)
        raise RecordingMismatch(problem)

    def _problem(self, sent: RecordedRequest) -> str:
        """Return the message for a request that is not in the recording."""
        requests = [exchange.request for exchange in self._recorded]
        how = 'Record it with mode="new", or everything again with mode="all".'
        if not self.path.exists():
            how = 'Record it with mode="once", which is the default except where CI=true.'
            return f"{sent}: there is no recording at {self.path}, and nothing was sent. {how}"
        if not requests:
            return f"{sent}: the recording at {self.path} is empty, and nothing was sent. {how}"
        if find_match(sent, requests) is not None:
            return f"{sent}: the program sends it more often than it is in {self.path}. Nothing was sent. {how}"
        unused = [exchange.request for exchange in self._unused]
        if sent.url.endswith("/responses") and any(each.url.endswith("/chat/completions") for each in unused):
            how = f"It was recorded with chat completions, which api='chat' of the LLM selects. {how}"
        difference = describe_difference(sent, unused or requests)
        return (
            f"{sent}: no request in {self.path} matches, and nothing was sent. {how} The most similar one (- recorded, "
            f"+ now):\n{difference}"
        )

    def _begin(self, request: HTTPRequest) -> Exchange:
        exchange = Exchange(RecordedRequest.of(request))
        with self._lock:
            self.sent += 1
            self._new.append(exchange)
        return exchange

    def _failed(self, exchange: Exchange, error: BaseException) -> None:
        """Record the failure of a request, unless it says nothing of the service."""
        if exchange.fails_with(error):
            return
        with self._lock:
            self.sent -= 1
            self._new = [each for each in self._new if each is not exchange]

    def _replay(self, exchange: Exchange) -> ReplayReply:
        failure = exchange.failure()
        if exchange.status is None:
            raise failure or self._cut_short()
        chunks: Sequence[bytes | BaseException] = exchange.chunks
        if self._chunk_size is not None:
            chunks = Recorded.of(b"".join(exchange.chunks), self._chunk_size).pieces
        end = [] if exchange.complete else [failure or self._cut_short()]
        return ReplayReply(self._network, Recorded([*chunks, *end], exchange.status, exchange.headers))

    def _cut_short(self) -> RecordingMismatch:
        return RecordingMismatch(
            f"the response in {self.path} ends here, as the program did not read more of it when it was recorded. "
            'Record it again with mode="all".'
        )


def _answered(exchange: Exchange, reply: Response | AsyncResponse) -> None:
    exchange.status, exchange.headers = reply.status, {name.lower(): value for name, value in reply.headers.items()}


class _RecordedResponse:
    """A response whose chunks are recorded as they are read."""

    def __init__(self, reply: Response, exchange: Exchange) -> None:
        self.status: int = reply.status
        self.headers = reply.headers
        self._reply = reply
        self._exchange = exchange
        if (break_off := getattr(reply, "break_off", None)) is not None:
            self.break_off = break_off

    def read(self, limit: float | None = None, /) -> bytes:
        """Return the next chunk, `b""` at the end."""
        try:
            data = self._reply.read(limit)
        except (LLMError, TimeoutError) as error:
            self._exchange.fails_with(error)
            raise
        self._exchange.add(data)
        return data

    def close(self) -> None:
        """Release the connection."""
        self._reply.close()


class _RecordedAsyncResponse:
    """An async response whose chunks are recorded as they are read."""

    def __init__(self, reply: AsyncResponse, exchange: Exchange) -> None:
        self.status: int = reply.status
        self.headers = reply.headers
        self._reply = reply
        self._exchange = exchange

    async def read(self, limit: float | None, /) -> bytes:
        """Return the next chunk, `b""` at the end."""
        try:
            data = await self._reply.read(limit)
        except (LLMError, TimeoutError) as error:
            self._exchange.fails_with(error)
            raise
        self._exchange.add(data)
        return data

    async def aclose(self) -> None:
        """Release the connection."""
        await self._reply.aclose()
