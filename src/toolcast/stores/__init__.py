"""Stores of sessions: JSONL files, SQLite, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .jsonl_store import JSONLStore as JSONLStore
    from .memory_store import MemoryStore as MemoryStore
    from .sqlite_store import SQLiteStore as SQLiteStore
    from .store import SessionLease as SessionLease, Store as Store
else:
    from ..lazy.lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
