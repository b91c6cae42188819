"""`CachedContent`: the beginning of prompts that Google stores, made by `Google.create_cache`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from ..lazy.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CachedContent:
    """The beginning of prompts that Google stores until it expires, for requests to one model.

    `Settings(cached_content=cache)` sends requests that begin with it. What they have in common with it is left out of
    them: system messages and tools, which must be the same, or not there at all, and the first messages, if they are
    those of the cache.

    Attributes:
        name: The name that Google gave it, for example `cachedContents/abc`.
        model: The model of the requests.
        expires: When Google deletes it, in seconds since 1970; None if unknown.
        tokens: The number of its tokens; None if unknown.
        display_name: The name that it was made with.
        fields: The names and digests of what it contains besides messages.
        parts: The digests of the parts of its messages.
    """

    name: str
    model: str
    expires: float | None = None
    tokens: int | None = None
    display_name: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    parts: tuple[str, ...] = ()


def digest(value: Any) -> str:
    """Return a hash of JSON-compatible data."""
    data = json.dumps(value, sort_keys=True, ensure_ascii=False).encode(errors="surrogatepass")
    return blake2b(data, digest_size=16).hexdigest()


def part_digests(contents: Iterable[Any]) -> tuple[str, ...]:
    """Return the digests of the parts of `contents`, with the role of each."""
    return tuple([digest([content["role"], part]) for content in contents for part in content["parts"]])
