"""Cached content at Google: requests beside chat, written once for sync and async calls."""

from __future__ import annotations

from ..cached_content import CachedContent
from ..errors import UnsupportedLLMError
from ..option_types import require_limit
from ..providers.base import RequestInput
from ..providers.google.adapter import GoogleAdapter
from ..providers.google.caches import GoogleCaches
from ..transport.network import IOBackend
from .service_requests import send_request
from .service_targets import LLMTarget, llm_target


async def create_cache(
    llm: object, request_input: RequestInput, backend: IOBackend, *, ttl: float, name: str | None
) -> CachedContent:
    """Store messages and tools at Google and return the cache."""
    require_limit("ttl", ttl)
    target, codec = await _service(llm, backend)
    request, cache = codec.create(request_input, ttl, name)
    return codec.read(await send_request(target, request, backend), cache)


async def describe_cache(llm: object, cache: CachedContent | str, backend: IOBackend) -> CachedContent:
    """Return `cache` as Google describes it now."""
    target, codec = await _service(llm, backend)
    return codec.read(await send_request(target, codec.describe(cache), backend), cache)


async def renew_cache(llm: object, cache: CachedContent | str, backend: IOBackend, *, ttl: float) -> CachedContent:
    """Let `cache` expire in `ttl` seconds and return it."""
    require_limit("ttl", ttl)
    target, codec = await _service(llm, backend)
    # A renewal that is repeated changes nothing more.
    return codec.read(await send_request(target, codec.renew(cache, ttl), backend, repeatable=True), cache)


async def delete_cache(llm: object, cache: CachedContent | str, backend: IOBackend) -> None:
    """Delete `cache`."""
    target, codec = await _service(llm, backend)
    await send_request(target, codec.delete(cache), backend)


async def _service(llm: object, backend: IOBackend) -> tuple[LLMTarget, GoogleCaches]:
    target = await llm_target(llm, backend)
    if not isinstance(target.adapter, GoogleAdapter):
        raise UnsupportedLLMError(f"{target.adapter.provider} has no cached content")
    return target, GoogleCaches(target.adapter, target.adapter.encoder)
