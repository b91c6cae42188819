"""A double of the Gemini API's batches and files, written from https://ai.google.dev/api/batch-api."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, ClassVar

from support.batch_double import BatchDouble, HeldBatch, json_lines
from support.loopback import Piece, whole
from support.service_double import Received, Refused, as_json

KEY = "AIza-double"
INLINE_BYTES = 20_000_000
GRANULARITY = 256 * 1024
STATES = {
    "running": "RUNNING",
    "canceling": "RUNNING",
    "completed": "SUCCEEDED",
    "canceled": "CANCELLED",
    "expired": "EXPIRED",
    "failed": "FAILED",
}
CODES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND"}


def refused(status: int, message: str) -> Refused:
    """Return the error with this message."""
    return Refused(status, {"error": {"code": status, "message": message, "status": CODES[status]}})


def moment(seconds: int) -> str:
    """Return a time in RFC 3339, with nanoseconds as the service has them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + ".123456789Z"


class GoogleBatches(BatchDouble):
    """The server. The results of a batch from a file are in a file, those of another with its status."""

    routes: ClassVar = (
        (r"POST /upload/v1beta/files", "upload"),
        (r"GET /v1beta/(files/[^/:]+)", "describe"),
        (r"GET /(?:download/)?v1beta/(files/[^/:]+):download", "content"),
        (r"DELETE /v1beta/(files/[^/:]+)", "delete_file"),
        (r"POST /v1beta/(models/[^/:]+):batchGenerateContent", "create"),
        (r"GET /v1beta/batches", "list"),
        (r"GET /v1beta/(batches/[^/:]+)", "retrieve"),
        (r"POST /v1beta/(batches/[^/:]+):cancel", "cancel"),
        (r"DELETE /v1beta/(batches/[^/:]+)", "delete"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.uploads: dict[str, tuple[dict[str, Any], int, bytearray]] = {}
        self.named: dict[str, dict[str, Any]] = {}
        self.upload_base: str | None = None
        """The origin of upload URLs, if it is another one."""
        self.oldest_first = False
        """The order of the list, which the reference does not name."""
        self.lost_parts = 0
        """The number of the next parts of uploads that are received, but whose answer is lost."""

    def authorize(self, request: Received) -> None:
        if request.headers.get("x-goog-api-key") != KEY and "upload_id" not in request.query:
            raise refused(401, "API key not valid. Please pass a valid API key.")

    def not_found(self, request: Received) -> Refused:
        return refused(404, f"Requested entity was not found: {request.path}")

    # -- files

    def upload(self, request: Received) -> tuple[Piece, ...]:
        command = request.headers.get("x-goog-upload-command", "")
        if "upload_id" not in request.query:
            return self.start_upload(request, command)
        about, size, content = self.uploads[request.query["upload_id"]]
        if command == "query":
            received = (f"x-goog-upload-size-received: {len(content)}", "x-goog-upload-status: active")
            return (whole(b"", 200, *received),)
        last = command == "upload, finalize"
        if not last and command != "upload":
            raise refused(400, f"unknown upload command {command!r}")
        if int(request.headers["x-goog-upload-offset"]) != len(content):
            raise refused(400, f"the offset has to be {len(content)}")
        if not last and len(request.body) % GRANULARITY:
            raise refused(400, "a part that is not the last has to be a multiple of 262144 bytes")
        content += request.body
        if not last:
            return self.lost() or (whole(b"", 200, "x-goog-upload-status: active"),)
        if len(content) != size:
            raise refused(400, f"expected {size} bytes, not {len(content)}")
        file = self.store(bytes(content), about.get("displayName", ""), about.get("mimeType", ""), "UPLOADED")
        return as_json({"file": file}, 200, "x-goog-upload-status: final")

    def lost(self) -> tuple[Piece, ...] | None:
        """Return the error in place of an answer, if that is next."""
        if not self.lost_parts:
            return None
        self.lost_parts -= 1
        return (whole(b"", 503),)

    def start_upload(self, request: Received, command: str) -> tuple[Piece, ...]:
        headers = request.headers
        if (headers.get("x-goog-upload-protocol"), command) != ("resumable", "start"):
            raise refused(400, "expected the start of a resumable upload")
        about = request.json.get("file", {}) if request.body else {}
        about.setdefault("mimeType", headers["x-goog-upload-header-content-type"])
        id = f"upload-{self.number()}"
        self.uploads[id] = about, int(headers["x-goog-upload-header-content-length"]), bytearray()
        url = f"{self.upload_base or self.base}/upload/v1beta/files?upload_id={id}&upload_protocol=resumable"
        return (whole(b"", 200, f"x-goog-upload-url: {url}", "x-goog-upload-status: active"),)

    def store(self, content: bytes, name: str, kind: str, source: str) -> dict[str, Any]:
        """Store a file and return its description."""
        id = f"files/{'batch-' if source == 'GENERATED' else ''}{self.number():04}"
        self.files[id] = content
        self.named[id] = {
            "name": id,
            "displayName": name,
            "mimeType": kind,
            "sizeBytes": str(len(content)),
            "createTime": moment(self.now),
            "updateTime": moment(self.now),
            "expirationTime": moment(self.now + 48 * 3600),
            "uri": f"{self.base}/v1beta/{id}",
            "state": "ACTIVE",
            "source": source,
        }
        return self.named[id]

    def describe(self, request: Received, id: str) -> tuple[Piece, ...]:
        if id not in self.files:
            raise self.not_found(request)
        return as_json(self.named[id])

    def content(self, request: Received, id: str) -> tuple[Piece, ...]:
        if id not in self.files:
            raise self.not_found(request)
        if self.named[id]["source"] != "GENERATED" or request.query.get("alt") != "media":
            raise refused(400, "only generated files can be downloaded")
        return self.download(self.files[id], "application/octet-stream")

    def delete_file(self, request: Received, id: str) -> tuple[Piece, ...]:
        if self.files.pop(id, None) is None:
            raise self.not_found(request)
        return as_json({})

    # -- batches

    def create(self, request: Received, model: str) -> tuple[Piece, ...]:
        batch = request.json["batch"]
        source = batch["inputConfig"]
        if not batch.get("displayName") or ("fileName" in source) == ("requests" in source):
            raise refused(400, "batch: expected displayName and one of inputConfig.fileName and inputConfig.requests")
        if "fileName" in source:
            if source["fileName"] not in self.files:
                raise self.not_found(request)
            lines = [json.loads(line) for line in self.files[source["fileName"]].splitlines()]
            requests = {line["key"]: line["request"] for line in lines}
        elif len(request.body) > INLINE_BYTES:
            raise refused(400, "Request payload size exceeds the limit: 20971520 bytes.")
        else:
            lines = source["requests"]["requests"]
            requests = {str(each.get("metadata", {}).get("key", at)): each["request"] for at, each in enumerate(lines)}
        if len(requests) < len(lines):
            raise refused(400, "keys have to be unique")
        fields = {"model": model, "displayName": batch["displayName"], "file": source.get("fileName")}
        held = self.hold(
            f"batches/{self.number():04}", requests, **fields, metadata=bool(lines and "metadata" in lines[0])
        )
        return as_json(self.document(held))

    def retrieve(self, request: Received, id: str) -> tuple[Piece, ...]:
        return as_json(self.document(self.looked_at(self.find(request, id))))

    def list(self, request: Received) -> tuple[Piece, ...]:
        newest = list(self.held.values())[:: 1 if self.oldest_first else -1]
        size, after = int(request.query.get("pageSize", 50)), int(request.query.get("pageToken", 0))
        found = {"operations": [self.document(batch) for batch in newest[after : after + size]]}
        more = {"nextPageToken": str(after + size)} if after + size < len(newest) else {}
        return as_json(found | more if newest else {})

    def cancel(self, request: Received, id: str) -> tuple[Piece, ...]:
        batch = self.find(request, id)
        if batch.ended is None:
            batch.status = "canceling"
        return as_json({})

    def delete(self, request: Received, id: str) -> tuple[Piece, ...]:
        self.find(request, id)
        del self.held[id]
        return as_json({})

    def find(self, request: Received, id: str) -> HeldBatch:
        """Return a batch, or raise `Refused`."""
        if id not in self.held:
            raise self.not_found(request)
        return self.held[id]

    def document(self, batch: HeldBatch) -> dict[str, Any]:
        """Return the operation as the service describes it. A batch that was cancelled or expired has no results."""
        ended, total, good = batch.ended is not None, len(batch.requests), batch.count("succeeded")
        stats = {"requestCount": total, "successfulRequestCount": good}
        stats |= {"failedRequestCount": total - good} if ended else {"pendingRequestCount": total}
        metadata = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "model": batch.fields["model"],
            "displayName": batch.fields["displayName"],
            "createTime": moment(batch.created),
            "updateTime": moment(self.now),
            "batchStats": {name: str(count) for name, count in stats.items() if count},
            "state": f"BATCH_STATE_{STATES[batch.status]}",
            "name": batch.id,
            **({"endTime": moment(batch.ended)} if batch.ended is not None else {}),
        }
        operation: dict[str, Any] = {"name": batch.id, "metadata": metadata}
        if not ended:
            return operation
        operation["done"] = True
        if batch.status == "completed":
            metadata["output"] = self.output(batch)
            kind = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatchOutput"
            operation["response"] = {"@type": kind, **metadata["output"]}
        else:
            code, text = {"canceled": (1, "cancelled"), "expired": (4, "expired"), "failed": (13, "Internal error")}[
                batch.status
            ]
            operation["error"] = {"code": code, "message": text}
        return operation

    def output(self, batch: HeldBatch) -> dict[str, Any]:
        """Return the results: in a file if the requests were in one."""
        if batch.fields["file"]:
            if "results" not in batch.files:
                lines = [{"key": id, **self.result(batch, id)} for id in self.result_ids(batch)]
                batch.files["results"] = self.store(json_lines(lines), "", "application/jsonl", "GENERATED")["name"]
            return {"responsesFile": batch.files["results"]}
        found = [
            {**self.result(batch, id), **({"metadata": {"key": id}} if batch.fields["metadata"] else {})}
            for id in self.result_ids(batch)
        ]
        return {"inlinedResponses": {"inlinedResponses": found}}

    def result(self, batch: HeldBatch, id: str) -> dict[str, Any]:
        """Return the result of one request."""
        if batch.outcomes.get(id, "succeeded") == "succeeded":
            return {"response": self.answer(batch.requests.get(id, {"contents": []}))}
        return {"error": {"code": 13, "message": "An internal error has occurred."}}

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = [part.get("text", "") for content in body["contents"][-1:] for part in content["parts"]]
        reply = self.reply("".join(texts))
        tools = body.get("tools")
        part: dict[str, Any] = {"text": reply if isinstance(reply, str) else json.dumps(reply)}
        if tools and not isinstance(reply, str):
            part = {"functionCall": {"name": tools[0]["functionDeclarations"][0]["name"], "args": reply}}
        return {
            "candidates": [{"content": {"parts": [part], "role": "model"}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 10, "totalTokenCount": 30},
            "modelVersion": "gemini-double",
            "responseId": f"response-{self.number()}",
        }
