"""Cached content at Google: requests beside chat, written once for sync and async calls."""

from __future__ import annotations

from typing import Protocol

from ..cached_content import CachedContent
from ..option_types import require_limit
from ..providers.base import ProviderAdapter, RequestInput
from ..providers.google.adapter import GoogleAdapter
from ..providers.google.caches import GoogleCaches
from ..settings import Settings
from ..transport.network import IOBackend
from .service_requests import send_request
from .token_counts import CountingLLM, ServiceTarget


class CachingLLM(CountingLLM, Protocol):
    """The properties of an LLM whose service has cached content."""

    @property
    def model(self) -> str: ...

    async def prepare(self, conversation: RequestInput, backend: IOBackend) -> ProviderAdapter:
        """Return the adapter."""
        ...

    def merge_settings(self, settings: Settings | None) -> Settings:
        """Return `settings` over those of the LLM."""
        ...


async def create_cache(
    llm: CachingLLM, request_input: RequestInput, backend: IOBackend, *, ttl: float, name: str | None
) -> CachedContent:
    """Store messages and tools at Google and return the cache."""
    require_limit("ttl", ttl)
    target, codec = await _service(llm, backend)
    request, cache = codec.create(request_input, ttl, name)
    return codec.read(await send_request(target, request, backend), cache)


async def describe_cache(llm: CachingLLM, cache: CachedContent | str, backend: IOBackend) -> CachedContent:
    """Return `cache` as Google describes it now."""
    target, codec = await _service(llm, backend)
    return codec.read(await send_request(target, codec.describe(cache), backend), cache)


async def renew_cache(llm: CachingLLM, cache: CachedContent | str, backend: IOBackend, *, ttl: float) -> CachedContent:
    """Let `cache` expire in `ttl` seconds and return it."""
    require_limit("ttl", ttl)
    target, codec = await _service(llm, backend)
    # A renewal that is repeated changes nothing more.
    return codec.read(await send_request(target, codec.renew(cache, ttl), backend, repeatable=True), cache)


async def delete_cache(llm: CachingLLM, cache: CachedContent | str, backend: IOBackend) -> None:
    """Delete `cache`."""
    target, codec = await _service(llm, backend)
    await send_request(target, codec.delete(cache), backend)


async def _service(llm: CachingLLM, backend: IOBackend) -> tuple[ServiceTarget, GoogleCaches]:
    adapter = await llm.prepare(RequestInput(llm.model, ()), backend)
    assert isinstance(adapter, GoogleAdapter)
    return ServiceTarget(llm, adapter, llm.merge_settings(None).timeouts), GoogleCaches(adapter, adapter.encoder)
