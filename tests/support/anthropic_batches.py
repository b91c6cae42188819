"""A double of Anthropic's Message Batches, written from https://platform.claude.com/docs/en/api/messages/batches."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any, ClassVar

from support.batch_double import BatchDouble, HeldBatch, json_lines
from support.loopback import Piece
from support.service_double import Received, Refused, as_json

REQUESTS, BYTES = 100_000, 256 * 1024 * 1024
DAY = 24 * 60 * 60
KEY = "sk-ant-double"
VERSIONS = ("2023-06-01", "2026-10-21")  # the second is that of the official client


def error(type: str, message: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"}


def moment(seconds: int | None) -> str | None:
    """Return a time in RFC 3339."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class AnthropicBatches(BatchDouble):
    """The server."""

    routes: ClassVar = (
        (r"POST /v1/messages/batches", "create"),
        (r"GET /v1/messages/batches", "list"),
        (r"GET /v1/messages/batches/([^/]+)", "retrieve"),
        (r"GET /v1/messages/batches/([^/]+)/results", "results"),
        (r"POST /v1/messages/batches/([^/]+)/cancel", "cancel"),
        (r"DELETE /v1/messages/batches/([^/]+)", "delete"),
    )
    results_base: str | None = None
    """The origin of `results_url`, if it is another one."""

    def authorize(self, request: Received) -> None:
        headers = request.headers
        if KEY not in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")):
            raise Refused(401, error("authentication_error", "invalid x-api-key"))
        if headers.get("anthropic-version") not in VERSIONS:
            raise Refused(400, error("invalid_request_error", "anthropic-version: header is required"))

    def not_found(self, request: Received) -> Refused:
        return Refused(404, error("not_found_error", f"Not found: {request.path}"))

    def create(self, request: Received) -> tuple[Piece, ...]:
        if len(request.body) > BYTES:
            raise Refused(413, error("request_too_large", "Request exceeds the maximum size"))
        body = request.json
        if set(body) != {"requests"} or not 1 <= len(body["requests"]) <= REQUESTS:
            raise Refused(400, error("invalid_request_error", "requests: expected 1 to 100000 of them"))
        for at, each in enumerate(body["requests"]):
            if set(each) != {"custom_id", "params"}:
                raise Refused(400, error("invalid_request_error", f"requests.{at}: expected custom_id and params"))
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each["custom_id"]):
                message = f"requests.{at}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
                raise Refused(400, error("invalid_request_error", message))
        ids = Counter(each["custom_id"] for each in body["requests"])
        if len(ids) < len(body["requests"]):
            raise Refused(400, error("invalid_request_error", f"custom_id must be unique: {ids.most_common(1)[0][0]}"))
        requests = {each["custom_id"]: each["params"] for each in body["requests"]}
        return as_json(self.document(self.hold(f"msgbatch_{self.number():04}", requests)))

    def retrieve(self, request: Received, id: str) -> tuple[Piece, ...]:
        return as_json(self.document(self.looked_at(self.find(request, id))))

    def list(self, request: Received) -> tuple[Piece, ...]:
        newest = sorted(self.held.values(), key=lambda batch: batch.created, reverse=True)
        limit = int(request.query.get("limit", 20))
        if not 1 <= limit <= 1000:
            raise Refused(400, error("invalid_request_error", "limit: expected 1 to 1000"))
        ids = [batch.id for batch in newest]
        after = ids.index(request.query["after_id"]) + 1 if "after_id" in request.query else 0
        shown = newest[after : after + limit]
        return as_json(
            {
                "data": [self.document(batch) for batch in shown],
                "has_more": after + limit < len(newest),
                "first_id": shown[0].id if shown else None,
                "last_id": shown[-1].id if shown else None,
            }
        )

    def cancel(self, request: Received, id: str) -> tuple[Piece, ...]:
        batch = self.find(request, id)
        if batch.ended is not None:
            raise Refused(400, error("invalid_request_error", "the batch has ended"))
        batch.status = "canceling"
        batch.fields["cancel_initiated"] = self.now
        return as_json(self.document(batch))

    def delete(self, request: Received, id: str) -> tuple[Piece, ...]:
        if self.find(request, id).ended is None:
            raise Refused(400, error("invalid_request_error", "the batch is in progress: cancel it first"))
        del self.held[id]
        return as_json({"id": id, "type": "message_batch_deleted"})

    def results(self, request: Received, id: str) -> tuple[Piece, ...]:
        batch = self.find(request, id)
        if batch.ended is None:
            raise self.not_found(request)
        lines = [{"custom_id": each, "result": self.result(batch, each)} for each in self.result_ids(batch)]
        return self.download(json_lines(lines), "application/x-jsonl")

    def result(self, batch: HeldBatch, id: str) -> dict[str, Any]:
        """Return the result of one request. The service checks `params` only while it processes the batch."""
        outcome, params = batch.outcomes.get(id, "succeeded"), batch.requests.get(id, {"messages": []})
        if outcome == "succeeded" and (wrong := wrong_params(params)) and id in batch.requests:
            return {"type": "errored", "error": error("invalid_request_error", wrong)}
        if outcome == "errored":
            return {"type": "errored", "error": error("api_error", "Internal server error")}
        return {"type": outcome, "message": self.answer(params)} if outcome == "succeeded" else {"type": outcome}

    def find(self, request: Received, id: str) -> HeldBatch:
        """Return a batch, or raise `Refused`."""
        if id not in self.held:
            raise self.not_found(request)
        return self.held[id]

    def document(self, batch: HeldBatch) -> dict[str, Any]:
        """Return the batch as the service describes it."""
        base, ended = self.results_base or self.base, batch.ended is not None
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "canceling" if batch.status == "canceling" else "in_progress",
            "request_counts": {
                "processing": 0 if ended else len(batch.requests),
                **{each: batch.count(each) for each in ("succeeded", "errored", "canceled", "expired")},
            },
            "ended_at": moment(batch.ended),
            "created_at": moment(batch.created),
            "expires_at": moment(batch.created + DAY),
            "archived_at": None,
            "cancel_initiated_at": moment(batch.fields.get("cancel_initiated")),
            "results_url": f"{base}/v1/messages/batches/{batch.id}/results" if ended else None,
        }

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        reply = self.reply(last_text(body["messages"]))
        content, stop = [{"type": "text", "text": reply if isinstance(reply, str) else json.dumps(reply)}], "end_turn"
        if body.get("tools") and not isinstance(reply, str):
            call = {"type": "tool_use", "id": f"toolu_{self.number()}", "name": body["tools"][0]["name"]}
            content, stop = [{**call, "input": reply}], "tool_use"
        return {
            "id": f"msg_{self.number()}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "claude"),
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": 20, "output_tokens": 10, "service_tier": "batch"},
        }


def wrong_params(params: dict[str, Any]) -> str | None:
    """Return the complaint about the parameters of one request, None if they are right."""
    for name in ("model", "max_tokens", "messages"):
        if not params.get(name):
            return f"{name}: Field required"
    return "stream: not supported in batches" if params.get("stream") else None


def last_text(messages: Any) -> str:
    """Return the text of the last message."""
    content = messages[-1]["content"] if messages else ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
