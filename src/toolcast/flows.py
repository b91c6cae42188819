"""What a stream needs of the call behind it. The calls themselves are in exchange.py and calls.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from .events import ChatResponse, Event
from .usage import Usage

Path: TypeAlias = str | tuple[str | int, ...]
"""The place of a field: dotted, or a tuple where a key itself holds a dot."""

Collect: TypeAlias = Callable[[], list[Any]]
"""What one view of a stream found in the last event; after the end, what is still owed."""


class Events(Protocol):
    """The events of one answer, however they are had."""

    request_id: str | None

    async def pull(self) -> list[Event]: ...

    async def close(self) -> None: ...


class Objects(Protocol):
    """One structured call in progress. `advance` and `step` work on what is here; `fill` waits for more."""

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

    def advance(self) -> bool: ...
    def step(self) -> bool: ...
    def result(self) -> Any: ...
    def field_state(self, path: Path) -> str: ...
    def view(self, kind: str, path: Path | None = None) -> Collect: ...
    async def fill(self) -> None: ...
    async def close(self) -> None: ...
