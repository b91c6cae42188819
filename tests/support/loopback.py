"""A small real HTTP server on the loopback interface, scripted piece by piece.

    with Loopback() as server:
        gate = threading.Event()
        server.answer(head(200, "transfer-encoding: chunked"), chunk(b"one"), gate, chunk(b"two"), END)
        ... request server.url ...; gate.set()

`answer(...)` queues the answer to one request; they are used in order, and without one the answer is an empty
200. A piece is raw bytes, which are sent as they are; a `threading.Event`, which is waited for (this is how a
test delays: nothing sleeps); `CLOSE` (FIN), `RESET` (RST), `HALF_CLOSE` (FIN, but go on listening), or
`HOLD`: send nothing more until the client closes. After the last piece the connection is kept alive for the
next request.

`requests` are the raw requests so far, `accepted` counts the connections ever made, `open` those that still
stand. `wait_open(n)` blocks until n stand and fails the test after five seconds. Everything ends with the
`with` block.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Self, TypeAlias

PATIENCE = 30.0


class Step(Enum):
    """What a script may do besides sending bytes."""

    CLOSE = "close"
    RESET = "reset"
    HALF_CLOSE = "half close"
    HOLD = "hold"


CLOSE, RESET, HALF_CLOSE, HOLD = Step.CLOSE, Step.RESET, Step.HALF_CLOSE, Step.HOLD
Piece: TypeAlias = bytes | threading.Event | Step
END = b"0\r\n\r\n"


def head(status: int = 200, *headers: str) -> bytes:
    """The start of an answer, up to its body."""
    return "\r\n".join((f"HTTP/1.1 {status} Some Reason", *headers, "", "")).encode()


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def whole(body: bytes, status: int = 200, *headers: str) -> bytes:
    """A complete answer."""
    return head(status, f"content-length: {len(body)}", *headers) + body


@dataclass(frozen=True)
class Request:
    """What a client sent: the request line, the headers (names in lower case), and the body."""

    line: str
    headers: dict[str, str]
    body: bytes
    raw: bytes


class Loopback:
    """The server; see the module."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.requests: list[Request] = []
        self.accepted = 0
        self._answers: deque[tuple[Piece, ...]] = deque()
        self._sockets: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/v1/chat"

    def answer(self, *pieces: Piece) -> None:
        """Queue the answer to one request."""
        self._answers.append(pieces)

    @property
    def open(self) -> int:
        """How many connections stand."""
        return len(self._sockets)

    def forget(self) -> None:
        """Keep nothing of the requests so far."""
        self.requests.clear()
        self._threads[:] = [thread for thread in self._threads if thread.is_alive()]

    def wait_open(self, count: int) -> None:
        """Block until `count` connections stand."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.open == count, PATIENCE):
                raise AssertionError(f"{self.open} connections stand, not {count}")

    def wait_requests(self, count: int) -> None:
        """Block until `count` requests have come."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, PATIENCE):
                raise AssertionError(f"{len(self.requests)} requests came, not {count}")

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(PATIENCE)

    def _pieces(self, request: Request) -> tuple[Piece, ...]:
        """Return the answer to a request, which a subclass may compute. Connections are served in parallel."""
        try:
            return self._answers.popleft()
        except IndexError:
            return (whole(b""),)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or a second piece waits 40 ms
                with self._changed:
                    self.accepted += 1
                    self._sockets.add(connection)
                    self._changed.notify_all()
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        accepted = connection
        try:
            with suppress(OSError):
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                while (request := _read_request(connection)) is not None:
                    with self._changed:
                        self.requests.append(request)
                        self._changed.notify_all()
                    pieces = self._pieces(request)
                    if not _play(connection, pieces):
                        break
        finally:
            connection.close()
            with self._changed:
                self._sockets.discard(accepted)
                self._changed.notify_all()


def _play(connection: socket.socket, pieces: tuple[Piece, ...]) -> bool:
    """Send an answer; whether the connection may be used again."""
    for piece in pieces:
        if isinstance(piece, bytes):
            connection.sendall(piece)
        elif isinstance(piece, threading.Event):
            assert piece.wait(PATIENCE), "the test did not open the gate"
        elif piece is RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        elif piece is HALF_CLOSE:
            connection.shutdown(socket.SHUT_WR)
        elif piece is HOLD:
            while connection.recv(65536):
                pass
            return False
        else:
            return False
    return True


def _read_request(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65536)):
            return None
        data += more
    start, _, body = data.partition(b"\r\n\r\n")
    line, *lines = start.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (text.partition(": ") for text in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        if not (more := connection.recv(65536)):
            return None
        body += more
    return Request(line, headers, body, start + b"\r\n\r\n" + body)
