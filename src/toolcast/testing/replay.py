"""A network without a network: recorded answers, cut as the test likes, and a clock that only moves when told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import ToolcastError
from ..http_request import HTTPRequest


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded answer: the pieces its body arrives in; an exception among them is raised in its place."""

    pieces: Sequence[bytes | BaseException] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})

    @classmethod
    def of(cls, body: bytes | str, piece: int | None = None, status: int = 200) -> Recorded:
        """A body in pieces of `piece` bytes; whole without it."""
        data = body.encode() if isinstance(body, str) else body
        size = piece or max(len(data), 1)
        return cls([data[start : start + size] for start in range(0, len(data), size)], status)


class ReplayNetwork:
    """A network that gives these answers, in order, to the requests made of it.

    An exception in place of an answer is raised when the request is opened. `requests` are those made so far;
    `open_replies` counts the answers that were not yet given back.
    """

    def __init__(self, *answers: Recorded | BaseException) -> None:
        self.requests: list[HTTPRequest] = []
        self.open_replies: int = 0
        self.closed_replies = 0
        self._answers = list(answers)

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> ReplayReply:
        """The next answer."""
        number = len(self.requests)
        self.requests.append(request)
        if number >= len(self._answers):
            raise ToolcastError(f"{len(self._answers)} answers are recorded and one more request was made")
        answer = self._answers[number]
        if isinstance(answer, BaseException):
            raise answer
        self.open_replies += 1
        return ReplayReply(self, answer)

    async def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> AsyncReplayReply:
        """The next answer."""
        return AsyncReplayReply(self.open(request, connect=connect, read=read))

    def close(self) -> None:
        """Nothing: there is no connection."""

    async def aclose(self) -> None:
        """Nothing: there is no connection."""


class ReplayReply:
    """One recorded answer being read."""

    def __init__(self, network: ReplayNetwork, recorded: Recorded) -> None:
        self.status: int = recorded.status
        self.headers: Mapping[str, str] = recorded.headers
        self._network = network
        self._pieces = iter(recorded.pieces)
        self._open = True

    def read(self, limit: float | None = None, /) -> bytes:
        """The next piece; empty at the end."""
        piece = next(self._pieces, b"")
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def close(self) -> None:
        """Give it back. Harmless when repeated."""
        if self._open:
            self._open = False
            self._network.open_replies -= 1
            self._network.closed_replies += 1


class AsyncReplayReply:
    """One recorded answer being awaited."""

    def __init__(self, reply: ReplayReply) -> None:
        self.status: int = reply.status
        self.headers: Mapping[str, str] = reply.headers
        self._reply = reply

    async def read(self, timeout: float | None) -> bytes:
        """The next piece; empty at the end."""
        return self._reply.read()

    async def aclose(self) -> None:
        """Give it back. Harmless when repeated."""
        self._reply.close()


class VirtualClock:
    """A clock that stands still until someone sleeps on it. `slept` are the sleeps, in seconds."""

    def __init__(self, now: float = 1_000.0, wall: float = 1_800_000_000.0) -> None:
        self.slept: list[float] = []
        self._now = now
        self._wall = wall

    def now(self) -> float:
        """Seconds on the clock that waits are measured with."""
        return self._now

    def time(self) -> float:
        """Seconds since 1970."""
        return self._wall

    def sleep(self, seconds: float) -> None:
        """Move on by `seconds`, at once."""
        self.slept.append(seconds)
        self.advance(seconds)

    async def asleep(self, seconds: float) -> None:
        """Move on by `seconds`, at once."""
        self.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Move on without anybody sleeping."""
        self._now += seconds
        self._wall += seconds
