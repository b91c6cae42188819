"""Cached content at Google: requests beside chat, written once for sync and async calls."""

from __future__ import annotations

from ...providers.base import RequestInput
from ...providers.google.adapter import GoogleAdapter
from ...providers.google.cached_contents import GoogleCaches
from ...transport.network import IOBackend
from ...values.cached_content import CachedContent
from ...values.option_types import require_limit
from ..http.service import HTTPLLM, Service, service_by


async def create_cache(
    llm: HTTPLLM, request_input: RequestInput, backend: IOBackend, *, ttl: float, name: str | None
) -> CachedContent:
    """Store messages and tools at Google and return the cache."""
    require_limit("ttl", ttl)
    service, codec = await _service(llm, backend)
    request, cache = codec.create(request_input, ttl, name)
    return codec.read(await service.send(request), cache)


async def describe_cache(llm: HTTPLLM, cache: CachedContent | str, backend: IOBackend) -> CachedContent:
    """Return `cache` as Google describes it now."""
    service, codec = await _service(llm, backend)
    return codec.read(await service.send(codec.describe(cache)), cache)


async def renew_cache(llm: HTTPLLM, cache: CachedContent | str, backend: IOBackend, *, ttl: float) -> CachedContent:
    """Let `cache` expire in `ttl` seconds and return it."""
    require_limit("ttl", ttl)
    service, codec = await _service(llm, backend)
    # A renewal that is repeated changes nothing more.
    return codec.read(await service.send(codec.renew(cache, ttl), repeatable=True), cache)


async def delete_cache(llm: HTTPLLM, cache: CachedContent | str, backend: IOBackend) -> None:
    """Delete `cache`."""
    service, codec = await _service(llm, backend)
    await service.send(codec.delete(cache))


async def _service(llm: HTTPLLM, backend: IOBackend) -> tuple[Service[GoogleAdapter], GoogleCaches]:
    adapter = await llm.prepare(RequestInput(llm.model, ()), backend)
    assert isinstance(adapter, GoogleAdapter)
    return service_by(llm, adapter, backend), GoogleCaches(adapter, adapter.encoder)
