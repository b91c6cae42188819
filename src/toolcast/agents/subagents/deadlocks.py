"""Detection of deadlocks between sub-agents: elves that wait for themselves, or for each other in a circle.

Waiting elves are registered, and a context variable, which tasks, threads and tools inherit, has the current elf. So a
wait that would never end raises at once.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Final

from ...errors import IllegalState

ELF_CHAIN: Final[ContextVar[tuple[str, ...]]] = ContextVar("toolcast_elves", default=("the program",))
"""The ids of the current elf and of those that started it, the program first."""

_waits: Final[list[tuple[str, str]]] = []  # (waiting elf, elf it waits for): never a cycle
_waits_lock = Lock()

END_FIRST: Final = "end your own task first, with what you know"


@contextmanager
def waiting_for(id: str) -> Generator[None]:
    """Register the current elf as waiting for the elf `id`; raise `IllegalState` if that waits for it."""
    who = ELF_CHAIN.get()[-1]
    with _waits_lock:
        if _is_waiting_for(id, who):
            target = "itself" if id == who else f"{id}, which waits for it"
            raise IllegalState(f"{who} may not wait for {target}; {END_FIRST}")
        _waits.append((who, id))
    try:
        yield
    finally:
        with _waits_lock:
            _waits.remove((who, id))


def _is_waiting_for(one: str, other: str) -> bool:
    """Return True if `one` is `other`, or waits for it, directly or through others."""
    return one == other or any(_is_waiting_for(target, other) for who, target in _waits if who == one)
