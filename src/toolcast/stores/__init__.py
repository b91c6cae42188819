"""Stores of sessions: JSONL files, SQLite, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .jsonl import JSONLStore as JSONLStore
    from .memory import MemoryStore as MemoryStore
    from .sqlite import SQLiteStore as SQLiteStore
    from .store import SessionLease as SessionLease, Store as Store
else:
    from ..lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
