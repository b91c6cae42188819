"""The lanes of a door: its connections, each a transport of its own, or the one client that a user has brought.

httpx's pool looks through all of its connections whenever a request begins or ends, several times, and asks the
system about each idle one; a hundred requests at once take it twice the time of a hundred in turn. So a lane is an
httpx transport that may hold one connection and has nothing to look through, and which lane a request takes is
decided here: the last that came back from where it goes, else a new one. A bare transport also leaves out what an
httpx client does for browsing, which is half of its time: cookies, redirects, hooks. Only where the environment
names a proxy a lane is a client, because it is the client that reads the environment.
"""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from sys import maxsize
from time import monotonic
from types import ModuleType
from typing import Any, NamedTuple

from ..errors import ConnectFailed

EXPIRY = 30.0
"""Seconds that an idle connection is kept."""


class Origin(NamedTuple):
    """Where a request goes: the URL as the library has parsed it, and the headers that say so.

    `login` is what the URL itself says about who is asking. `origin` is who a connection was made to, and had proven
    to be: no other request may use it.
    """

    url: Any
    origin: str
    headers: dict[str, str]
    login: dict[str, str]


@lru_cache(64)
def origin_of(library: ModuleType, url: str, tls_name: str | None = None) -> Origin:
    """The place that `url` names, whose server must prove `tls_name`, or else its host. Raises `InvalidURL`."""
    parsed = library.URL(url)
    host = parsed.netloc.decode("ascii")
    login = {}
    if parsed.userinfo:
        words = f"{parsed.username}:{parsed.password}".encode()
        login["authorization"] = f"Basic {b64encode(words).decode('ascii')}"
    origin = f"{parsed.scheme}://{host}" + (f" as {tls_name}" if tls_name else "")
    return Origin(parsed, origin, {"host": host, "user-agent": "toolcast"}, login)


class PooledConnection:
    """One transport or client, and the origin it was last used for.

    `stream` is the network stream of its one connection, where that is known.
    """

    __slots__ = ("origin", "since", "stream", "way")

    def __init__(self, way: Any) -> None:
        self.way: Any = way
        self.origin: str = ""
        self.since: float = 0.0
        self.stream: Any = None

    def send(self, request: Any) -> Any:
        """Send a request of the library. Return its response, or what to await for it."""
        way = self.way
        if hasattr(way, "send"):
            return way.send(request, stream=True, follow_redirects=False)
        # Looked up at each request: vcrpy and others replace the method of the class for as long as a test lasts.
        return (getattr(way, "handle_async_request", None) or way.handle_request)(request)


class ConnectionPool:
    """The lanes of one door, at most `most`. Who picks one has found that there is room; from any thread."""

    brought: Any = None

    def __init__(self, library: ModuleType, make: Callable[[], Any], most: int) -> None:
        self.library = library
        self.most = most
        self._make = make
        self._kept = most // 10 + 1
        self._idle: list[PooledConnection] = []
        self._count = 0
        self._closed = False
        self._lock = threading.Lock()

    def pick(self, origin: str) -> PooledConnection:
        """A lane for one request, perhaps with a connection to `origin`."""
        with self._lock:
            lane = self._last_from(origin)
            if lane is None:
                lane = PooledConnection(self._new())
                self._count += 1
            lane.origin = origin
            return lane

    def put(self, lane: PooledConnection, whole: bool) -> list[PooledConnection]:
        """Take a lane back, whose answer was read to its end or not. Gives those that are now to be closed."""
        now = monotonic()
        spent: list[PooledConnection] = []
        with self._lock:
            lane.since = now
            if whole and not self._closed:
                self._idle.append(lane)
            else:
                spent.append(lane)
            while self._idle and (len(self._idle) > self._kept or self._idle[0].since < now - EXPIRY):
                spent.append(self._idle.pop(0))
            self._count -= len(spent)
        return spent

    def drain(self) -> list[PooledConnection]:
        """All idle lanes, to be closed; those in use are when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            return idle

    def _new(self) -> Any:
        try:
            return self._make()
        except ImportError as error:
            raise ConnectFailed(f"no connection is made: {error}", retryable=False) from None
        except ValueError:
            failure = ConnectFailed(
                "the environment names a proxy that cannot be used; set HTTP_PROXY, HTTPS_PROXY and ALL_PROXY "
                "to http://host:port, or unset them",
                retryable=False,
            )
        # Outside of the `except`: the error of the library contains the proxy's user.
        raise failure

    def _last_from(self, origin: str) -> PooledConnection | None:
        idle = self._idle
        for place in range(len(idle) - 1, -1, -1):
            if idle[place].origin == origin:
                return idle.pop(place)
        # Where no lane may be added, one changes over: its transport closes the old connection for the new one.
        return idle.pop(0) if self._count >= self.most else None


class SingleConnection(ConnectionPool):
    """A client of the user's, for all requests at once: whatever limits it has are its own. It is never closed."""

    def __init__(self, library: ModuleType, client: Any) -> None:
        super().__init__(library, lambda: client, maxsize)
        self.brought = client
        self._lane = PooledConnection(client)

    def pick(self, origin: str) -> PooledConnection:
        """The client."""
        return self._lane

    def put(self, lane: PooledConnection, whole: bool) -> list[PooledConnection]:
        """Nothing that is to be closed."""
        return []
