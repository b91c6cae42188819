"""Cached content of the Gemini API and of Vertex AI: creation, description, renewal, deletion, and its use. No I/O.

Sources, as of November 2026: ai.google.dev/api/caching, ai.google.dev/gemini-api/docs/caching,
docs.cloud.google.com/vertex-ai/generative-ai/docs/context-cache/context-cache-overview.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ...errors import BadRequest, MalformedEvent
from ...messages import user
from ...values.cached_content import CachedContent, digest, part_digests
from ...values.http_request import HTTPRequest, HTTPResponse
from ...values.settings import NOTHING_SET
from ..base import RequestInput
from ..batch_codec import as_mapping, as_object, optional_count, optional_text, text_field, unix_time
from ..content_parts import count_system_messages, drop_foreign_data
from ..http_adapter import HTTPAdapter, json_body

_NAME: Final = re.compile(r"(projects/[^/?#\s]+/locations/[^/?#\s]+/)?cachedContents/[^/?#\s]+")
FIELDS: Final = ("systemInstruction", "tools", "toolConfig")
"""The fields of a request that may be in a cache, and may not stand beside one."""

_WHAT: Final = {"systemInstruction": "system messages", "tools": "tools", "toolConfig": "tool choice"}


class GoogleCaches:
    """The codec of cached content at one endpoint."""

    def __init__(self, adapter: HTTPAdapter, encoder: Any) -> None:
        self._adapter = adapter
        self._encoder = encoder
        path = urlsplit(adapter.service_root).path
        if "/publishers/" in path and "/projects/" not in path:
            raise BadRequest("cached content needs a project of Vertex AI: pass project= and location=")

    def create(self, request_input: RequestInput, ttl: float, name: str | None) -> tuple[HTTPRequest, CachedContent]:
        """Return the request that stores messages and tools, and the cache without what the service returns."""
        messages = drop_foreign_data(request_input.messages, request_input.model, "google", self._adapter)
        if not messages:
            raise BadRequest("messages: expected at least one message to cache, got none")
        encoder = self._encoder(request_input.options, NOTHING_SET)
        instructions_alone = count_system_messages(messages) == len(messages)
        found = encoder.fields | encoder.encode_messages([*messages, user(".")] if instructions_alone else messages)
        kept: dict[str, Any] = {} if instructions_alone else {"contents": found["contents"]}
        kept |= {field: found[field] for field in FIELDS if field in found}
        body = {"model": self._model(request_input.model), **kept, "ttl": _seconds(ttl)}
        fields = tuple([(field, digest(kept[field])) for field in FIELDS if field in kept])
        cache = CachedContent("", request_input.model, fields=fields, parts=part_digests(kept.get("contents", ())))
        named = {} if name is None else {"displayName": name}
        return self._request("POST", "cachedContents", json_body({**body, **named})), cache

    def describe(self, cache: CachedContent | str) -> HTTPRequest:
        """Return the request for the description of a cache."""
        return self._request("GET", _name(cache))

    def renew(self, cache: CachedContent | str, ttl: float) -> HTTPRequest:
        """Return the request that lets a cache expire in `ttl` seconds."""
        return self._request("PATCH", _name(cache), json_body({"ttl": _seconds(ttl)}))

    def delete(self, cache: CachedContent | str) -> HTTPRequest:
        """Return the request that deletes a cache."""
        return self._request("DELETE", _name(cache))

    def read(self, response: HTTPResponse, cache: CachedContent | str) -> CachedContent:
        """Return `cache` with what the service returned."""
        found = as_object(response.body)
        name = text_field(found, "name")
        if _NAME.fullmatch(name) is None:
            raise MalformedEvent(
                f"the service returned the name {name!r:.100}; expected cachedContents/ID. "
                "Check that base_url is right."
            )
        if isinstance(cache, str):
            cache = CachedContent(name, (optional_text(found, "model") or "").rpartition("/")[2])
        return replace(
            cache,
            name=name,
            expires=unix_time(optional_text(found, "expireTime")),
            tokens=optional_count(as_mapping(found.get("usageMetadata")), "totalTokenCount"),
            display_name=optional_text(found, "displayName"),
        )

    def _model(self, model: str) -> str:
        path = urlsplit(self._adapter.service_root).path
        if "/projects/" not in path or model.startswith("projects/"):
            return model if "/" in model else f"models/{model}"
        return path[path.index("/projects/") + 1 :].rstrip("/") + f"/models/{model}"

    def _request(self, method: str, name: str, body: bytes = b"") -> HTTPRequest:
        root, mark, query = self._adapter.service_root.partition("?")
        # The collection is in the location; the name of a cache has the project and the location itself.
        end = r"/projects/.*|/publishers/.*" if name.startswith("projects/") else r"/publishers/.*"
        url = f"{re.sub(f'({end})$', '', root.rstrip('/'))}/{quote(name, safe='/:')}"
        return self._adapter.linked_request(method, f"{url}{mark}{query}", body=body)


def check_fields(cache: CachedContent | str, fields: dict[str, Any], model: str) -> None:
    """Remove the tools that are in `cache` from the fields of a request.

    Raises:
        BadRequest: The request has tools that are not in the cache, or is for another model.
    """
    if isinstance(cache, CachedContent) and cache.model != model:
        raise BadRequest(f"cached_content={cache.name!r} is for {cache.model}, got a request to {model}")
    for field in FIELDS:
        if field in fields:
            _check(cache, field, fields[field])
            del fields[field]


def without_cached(cache: CachedContent | str, encoded: dict[str, Any]) -> dict[str, Any]:
    """Return the messages of a request without those in `cache`.

    Raises:
        BadRequest: The request has other system messages than the cache, or nothing but what is in it.
    """
    contents: Sequence[Mapping[str, Any]] = encoded["contents"]
    if "systemInstruction" in encoded:
        _check(cache, "systemInstruction", encoded["systemInstruction"])
    parts = cache.parts if isinstance(cache, CachedContent) else ()
    left = len(parts) if part_digests(contents)[: len(parts)] == parts else 0
    kept: list[dict[str, Any]] = []
    for content in contents:
        own = content["parts"]
        if own[left:]:
            kept.append({**content, "parts": own[left:]})
        left = max(left - len(own), 0)
    if not kept:
        raise BadRequest(f"all messages are in cached_content={_name(cache)!r}: add a message after them")
    return {"contents": kept, "cachedContent": _name(cache)}


def _check(cache: CachedContent | str, field: str, value: Any) -> None:
    given = dict(cache.fields) if isinstance(cache, CachedContent) else {}
    if given.get(field) != digest(value):
        has = "others" if field in given else "none"
        raise BadRequest(
            f"{_WHAT[field]} cannot be sent beside cached_content={_name(cache)!r}, which has {has}: leave them out, "
            "or make a cache that has them. Typed output without tools is mode='json_schema'"
        )


def _name(cache: CachedContent | str) -> str:
    name = cache if isinstance(cache, str) else cache.name
    if _NAME.fullmatch(name) is None:
        raise BadRequest(f"cached_content={name!r:.100}: expected a name such as 'cachedContents/abc'")
    return name


def _seconds(ttl: float) -> str:
    return f"{ttl:.9f}".rstrip("0").rstrip(".") + "s"
