"""A network without connections: recorded responses in chunks of any size, and a clock under control of the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import count

from ..errors import ToolcastError
from ..lazy.lazy_dataclasses import dataclass
from ..text.reprs import safe_repr
from ..values.http_request import HTTPRequest


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded response: the `pieces` in which its body arrives. An exception among them is raised in its place."""

    pieces: Sequence[bytes | BaseException] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})

    @classmethod
    def of(cls, body: bytes | str, piece: int | None = None, status: int = 200) -> Recorded:
        """Return a body in pieces of `piece` bytes; in one piece by default."""
        data = body.encode() if isinstance(body, str) else body
        size = piece or max(len(data), 1)
        return cls([data[start : start + size] for start in range(0, len(data), size)], status)


class ReplayNetwork:
    """A network that returns these responses, in order.

    An exception in place of a response is raised when the request is sent. `requests` lists the requests so far;
    `open_replies` counts the responses that are not closed yet.
    """

    def __init__(self, *answers: Recorded | BaseException) -> None:
        self.requests: list[HTTPRequest] = []
        self.open_replies: int = 0
        self.closed_replies = 0
        self._answers = list(answers)
        self._numbers = count()

    @safe_repr
    def __repr__(self) -> str:
        return f"ReplayNetwork({len(self._answers)} responses left, {len(self.requests)} requests)"

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> ReplayReply:
        """Return the next response."""
        number = next(self._numbers)  # two threads could read the same number of requests
        self.requests.append(request)
        if number >= len(self._answers):
            raise ToolcastError(
                f"{len(self._answers)} answers are recorded, but another request was made: add an answer"
            )
        answer = self._answers[number]
        if isinstance(answer, BaseException):
            raise answer
        self.open_replies += 1
        return ReplayReply(self, answer)

    async def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> AsyncReplayReply:
        """Return the next response."""
        return AsyncReplayReply(self.open(request, connect=connect, read=read))

    def close(self) -> None:
        """Do nothing: there is no connection."""

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


class ReplayReply:
    """One recorded response."""

    def __init__(self, network: ReplayNetwork, recorded: Recorded) -> None:
        self.status: int = recorded.status
        self.headers: Mapping[str, str] = recorded.headers
        self._network = network
        self._pieces = iter(recorded.pieces)
        self._open = True

    def read(self, limit: float | None = None, /) -> bytes:
        """Return the next chunk; empty at the end."""
        piece = next(self._pieces, b"")
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def close(self) -> None:
        """Close the response. A second call has no effect."""
        if self._open:
            self._open = False
            self._network.open_replies -= 1
            self._network.closed_replies += 1


class AsyncReplayReply:
    """One recorded response under the async API."""

    def __init__(self, reply: ReplayReply) -> None:
        self.status: int = reply.status
        self.headers: Mapping[str, str] = reply.headers
        self._reply = reply
        self._read = reply.read

    async def read(self, timeout: float | None) -> bytes:
        """Return the next chunk; empty at the end."""
        return self._read()

    async def aclose(self) -> None:
        """Close the response. A second call has no effect."""
        self._reply.close()


class VirtualClock:
    """A clock that advances only when something sleeps on it. `slept` lists the sleeps, in seconds."""

    def __init__(self, now: float = 1_000.0, wall: float = 1_800_000_000.0) -> None:
        self.slept: list[float] = []
        self._now = now
        self._wall = wall

    @safe_repr
    def __repr__(self) -> str:
        return f"VirtualClock({self._now}, {self._wall})"

    def now(self) -> float:
        """Return the monotonic time in seconds."""
        return self._now

    def time(self) -> float:
        """Return the seconds since 1970."""
        return self._wall

    def sleep(self, seconds: float) -> None:
        """Advance by `seconds`, at once."""
        self.slept.append(seconds)
        self.advance(seconds)

    async def asleep(self, seconds: float) -> None:
        """Advance by `seconds`, at once."""
        self.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Advance without recording a sleep."""
        self._now += seconds
        self._wall += seconds
