"""The memory store, besides the tests of all stores in test_store.py."""

from __future__ import annotations

from toolcast.stores.memory_store import MemoryStore


def test_two_stores_share_nothing() -> None:
    one, other = MemoryStore(), MemoryStore()
    one.append("a", [{"n": 1}])
    with one.claim("a"), other.claim("a"):
        assert other.read("a") == []
