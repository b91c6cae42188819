"""Wrappers of an LLM: an override of `respond` type-checks as it is documented, and so does a cache of one's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import assert_type

from toolcast import FunctionCallingLLM, user
from toolcast.events import ChatResponse, Event
from toolcast.llms import (
    CachedLLM,
    ChatRequest,
    MemoryCache,
    Next,
    RecordingLLM,
    RedactedLLM,
    SQLiteCache,
    WrapperLLM,
)


class Timed(WrapperLLM):
    async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        assert_type(await call_next.run_sync(lambda: 3), int)
        await call_next.sleep(1)
        assert_type(self.llm, FunctionCallingLLM)
        async for event in call_next(replace(request, messages=(*request.messages, user("Please.")))):
            assert_type(event, Event)
            yield event


class Same(WrapperLLM):
    def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        return assert_type(call_next(request), AsyncIterator[Event])


class Wrong(WrapperLLM):
    # A coroutine is no iterator.
    async def respond(self, request: ChatRequest, call_next: Next) -> None:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return nothing."""


class Shelf:
    def get(self, key: str) -> bytes | None:
        return None

    def set(self, key: str, value: bytes) -> None:
        """Forget it."""


def wrapped(llm: FunctionCallingLLM) -> None:
    for cache in (None, MemoryCache(), SQLiteCache("answers.db"), Shelf()):
        assert_type(CachedLLM(llm, cache, ttl=60, namespace="tenant").chat("hello"), ChatResponse)
    CachedLLM(llm, {})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    RedactedLLM(RecordingLLM(Timed("openai:gpt"), "calls.jsonl"), str.upper)
    RedactedLLM(llm, len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
