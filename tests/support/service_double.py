"""The base of doubles of services beside chat: a router on the loopback interface, JSON answers, and faults on demand.

A double is written from the vendor's reference and stores what clients create. `fail(pattern, *pieces)` answers the
next request whose `METHOD /path` matches with these pieces, `log` has the lines `METHOD /path` of all requests.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from support.loopback import CLOSE, Loopback, Piece, Request, head, whole


class Refused(Exception):
    """An HTTP error with this JSON body."""

    def __init__(self, status: int, body: Mapping[str, Any], *headers: str) -> None:
        super().__init__(status, body)
        self.status, self.body, self.headers = status, body, headers


@dataclass(frozen=True)
class Received:
    """A request, parsed: `query` has the last value of each parameter."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The parsed body."""
        return json.loads(self.body)


def as_json(document: Any, status: int = 200, *headers: str) -> tuple[Piece, ...]:
    """Return the answer with this document."""
    return (whole(json.dumps(document).encode(), status, "content-type: application/json", *headers),)


def as_file(content: bytes, kind: str, cut: int | None = None) -> tuple[Piece, ...]:
    """Return the answer with this content; with `cut`, the connection ends after so many of its bytes."""
    if cut is None:
        return (whole(content, 200, f"content-type: {kind}"),)
    return (head(200, f"content-length: {len(content)}", f"content-type: {kind}") + content[:cut], CLOSE)


class ServiceDouble(Loopback):
    """A server with routes: pairs of a pattern of `METHOD /path` and the name of the method that answers."""

    routes: ClassVar[tuple[tuple[str, str], ...]]

    def __init__(self) -> None:
        super().__init__()
        self.base = f"http://127.0.0.1:{self.port}"
        self.log: list[str] = []
        self.lock = threading.RLock()
        self.processed: Callable[[str], None] = lambda line: None
        """Called with `METHOD /path` of a request that was processed and is not answered yet."""
        self._faults: list[tuple[str, tuple[Piece, ...]]] = []

    def fail(self, pattern: str, *pieces: Piece, times: int = 1) -> None:
        """Answer the next `times` requests that match with these pieces; without pieces, the connection closes."""
        self._faults += [(pattern, pieces or (CLOSE,))] * times

    def count(self, pattern: str) -> int:
        """Return the number of requests that match."""
        return sum(1 for line in self.log if re.search(pattern, line))

    def authorize(self, request: Received) -> None:
        """Raise `Refused` for a request without the key or the headers that the service demands."""

    def not_found(self, request: Received) -> Refused:
        """Return the error for an unknown path or object."""
        return Refused(404, {"error": {"message": f"no {request.method} {request.path}"}})

    def _pieces(self, request: Request) -> tuple[Piece, ...]:
        method, target, _ = request.line.split()
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        received = Received(method, parts.path, query, request.headers, request.body)
        line = f"{method} {parts.path}"
        with self.lock:
            self.log.append(line)
            for at, (pattern, pieces) in enumerate(self._faults):
                if re.search(pattern, line):
                    del self._faults[at]
                    return pieces
            try:
                self.authorize(received)
                for pattern, name in self.routes:
                    if found := re.fullmatch(pattern, line):
                        answer: Callable[..., tuple[Piece, ...]] = getattr(self, name)
                        pieces = answer(received, *found.groups())
                        self.processed(line)
                        return pieces
                raise self.not_found(received)
            except Refused as refused:
                return as_json(refused.body, refused.status, *refused.headers)
