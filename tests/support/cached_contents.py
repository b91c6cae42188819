"""A double of the cached contents of the Gemini API, as ai.google.dev/api/caching documents them.

A cache needs 1,024 tokens, expires, and belongs to a model. A request with one has no system instruction, tools and
tool configuration. A text has a token for every four characters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from support.loopback import Piece, whole
from support.service_double import Received, Refused, ServiceDouble, as_json

LEAST = 1_024


class CachedContents(ServiceDouble):
    """The service: `caches` are those that it stores, `bodies` the requests for answers, `now` the time in seconds."""

    routes: ClassVar[tuple[tuple[str, str], ...]] = (
        (r"POST /v1beta/cachedContents", "_create"),
        (r"GET /v1beta/(cachedContents/\w+)", "_get"),
        (r"PATCH /v1beta/(cachedContents/\w+)", "_patch"),
        (r"DELETE /v1beta/(cachedContents/\w+)", "_delete"),
        (r"POST /v1beta/models/([\w.-]+):(\w+)", "_generate"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.caches: dict[str, dict[str, Any]] = {}
        self.created: list[Any] = []
        self.bodies: list[Any] = []
        self.tokens_read: list[int] = []
        self.now = 1_800_000_000.0
        self.answer: dict[str, Any] = {"text": "Yes."}

    def authorize(self, request: Received) -> None:
        if request.headers.get("x-goog-api-key") != "key":
            raise _refused(403, "API key not valid")

    def _create(self, request: Received) -> tuple[Piece, ...]:
        body = request.json
        self.created.append(body)
        tokens = _tokens({name: body[name] for name in ("contents", "systemInstruction", "tools") if name in body})
        if tokens < LEAST:
            raise _refused(400, f"Cached content is too small. total_token_count={tokens}, min={LEAST}")
        name = f"cachedContents/c{len(self.caches)}"
        self.caches[name] = {**body, "expires": self._expiry(body), "tokens": tokens}
        return as_json(self._described(name))

    def _get(self, request: Received, name: str) -> tuple[Piece, ...]:
        self._find(name)
        return as_json(self._described(name))

    def _patch(self, request: Received, name: str) -> tuple[Piece, ...]:
        if set(request.json) != {"ttl"}:
            raise _refused(400, "only the expiration can be updated")
        self._find(name)["expires"] = self._expiry(request.json)
        return as_json(self._described(name))

    def _delete(self, request: Received, name: str) -> tuple[Piece, ...]:
        self._find(name)
        del self.caches[name]
        return as_json({})

    def _generate(self, request: Received, model: str, method: str) -> tuple[Piece, ...]:
        body = request.json
        self.bodies.append(body)
        cached = 0
        if name := body.get("cachedContent"):
            cache = self._find(name)
            if any(field in body for field in ("systemInstruction", "tools", "toolConfig")):
                raise _refused(
                    400, "CachedContent can not be used with GenerateContent request setting system_instruction, tools"
                )
            if cache["model"] != f"models/{model}":
                raise _refused(400, "Model used by GenerateContent request and CachedContent have to be the same.")
            cached = cache["tokens"]
            self.tokens_read.append(cached)
        answer = {
            "candidates": [{"content": {"role": "model", "parts": [self.answer]}, "finishReason": "STOP"}],
            "usageMetadata": {
                "promptTokenCount": cached + _tokens(body["contents"]),
                "candidatesTokenCount": 2,
                **({"cachedContentTokenCount": cached} if cached else {}),
            },
            "modelVersion": model,
        }
        if method == "generateContent":
            return as_json(answer)
        return (whole(b"data: %b\r\n\r\n" % json.dumps(answer).encode(), 200, "content-type: text/event-stream"),)

    def _find(self, name: str) -> dict[str, Any]:
        cache = self.caches.get(name)
        if cache is None or cache["expires"] <= self.now:
            raise _refused(403, "CachedContent not found (or permission denied)")
        return cache

    def _described(self, name: str) -> dict[str, Any]:
        cache = self.caches[name]
        return {
            "name": name,
            "model": cache["model"],
            "createTime": _time(self.now),
            "updateTime": _time(self.now),
            "expireTime": _time(cache["expires"]),
            "displayName": cache.get("displayName", ""),
            "usageMetadata": {"totalTokenCount": cache["tokens"]},
        }

    def _expiry(self, body: Mapping[str, Any]) -> float:
        return self.now + float(body["ttl"].removesuffix("s"))


def _tokens(value: Any) -> int:
    return len(json.dumps(value)) // 4


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _refused(status: int, message: str) -> Refused:
    return Refused(status, {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}})
