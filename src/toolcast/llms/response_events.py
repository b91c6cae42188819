"""What a stream needs of the call behind it. The calls themselves are in exchange.py and object_flow.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ..events import ChatResponse, Event
from ..parsing.path_changes import Path
from ..usage import Usage

ViewReducer: TypeAlias = Callable[[], list[Any]]
"""What one view of a stream found in the last event; after the end, what is still owed."""


class ResponseEvents(Protocol):
    """Where the events of one answer come from."""

    @property
    def request_id(self) -> str | None:
        """The service's name for the request."""
        ...

    async def pull(self) -> list[Event]:
        """The next events; an empty list at the end."""
        ...

    async def close(self) -> None:
        """Stop, and give the connection back. Harmless when repeated."""
        ...

    def break_off(self) -> None:
        """End what a thread waits for in `pull`, which raises some error soon. From any thread, and again.

        Under an event loop the task that waits is interrupted instead.
        """
        ...


class ObjectEvents(Protocol):
    """One structured call in progress. `step` works on what is here; what is awaited waits for more."""

    ended: bool
    event: Event | None

    @property
    def started(self) -> bool: ...
    @property
    def state(self) -> str: ...
    @property
    def item(self) -> Any: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def response(self) -> ChatResponse: ...
    @property
    def changed(self) -> tuple[Path, ...]: ...

    def step(self) -> bool: ...
    def field_state(self, path: Path) -> str: ...
    def view(self, kind: str, path: Path | None = None) -> ViewReducer: ...
    async def fill(self) -> None: ...
    async def wait(self) -> bool: ...
    async def newest(self) -> bool: ...
    async def finish(self) -> Any: ...
    async def close(self) -> None: ...
