"""A double of Mistral's batch jobs and files, written from https://docs.mistral.ai/api/endpoint/batch."""

from __future__ import annotations

import json
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, ClassVar

from support.batch_double import BatchDouble, HeldBatch, json_lines
from support.loopback import Piece
from support.service_double import Received, Refused, as_json

KEY = "mistral-double"
STATES = {
    "running": "RUNNING",
    "canceling": "CANCELLATION_REQUESTED",
    "completed": "SUCCESS",
    "canceled": "CANCELLED",
    "expired": "TIMEOUT_EXCEEDED",
    "failed": "FAILED",
}


def refused(status: int, message: str) -> Refused:
    """Return the error with this message."""
    return Refused(status, {"object": "error", "message": message, "type": "invalid_request_error", "code": "1000"})


def form_of(request: Received) -> dict[str, tuple[str, bytes]]:
    """Return the fields of a form: the name of the file and the content of each."""
    head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
    form = BytesParser(policy=HTTP).parsebytes(head + request.body)
    found = {}
    for part in form.iter_parts():  # type: ignore[attr-defined]  # the policy makes an EmailMessage
        name = part.get_param("name", header="content-disposition")
        found[name] = part.get_filename() or "", part.get_payload(decode=True)
    return found


class MistralBatches(BatchDouble):
    """The server."""

    routes: ClassVar = (
        (r"POST /v1/files", "upload"),
        (r"GET /v1/files/([^/]+)", "describe"),
        (r"GET /v1/files/([^/]+)/content", "content"),
        (r"DELETE /v1/files/([^/]+)", "delete_file"),
        (r"POST /v1/batch/jobs", "create"),
        (r"GET /v1/batch/jobs", "list"),
        (r"GET /v1/batch/jobs/([^/]+)", "retrieve"),
        (r"POST /v1/batch/jobs/([^/]+)/cancel", "cancel"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.named: dict[str, dict[str, Any]] = {}

    def authorize(self, request: Received) -> None:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            raise Refused(401, {"detail": "Unauthorized"})

    def not_found(self, request: Received) -> Refused:
        return Refused(404, {"detail": f"Not found: {request.path}"})

    # -- files

    def upload(self, request: Received) -> tuple[Piece, ...]:
        form = form_of(request)
        name, content = form["file"]
        purpose = form["purpose"][1].decode()
        if purpose not in ("batch", "ocr", "fine-tune"):
            raise refused(422, f"unknown purpose {purpose!r}")
        return as_json(self.store(name, content, purpose, "upload"))

    def store(self, name: str, content: bytes, purpose: str, source: str) -> dict[str, Any]:
        """Store a file and return its description."""
        id = f"file-{self.number():04}"
        self.files[id] = content
        self.named[id] = {
            "id": id,
            "object": "file",
            "bytes": len(content),
            "created_at": self.now,
            "filename": name,
            "purpose": purpose,
            "sample_type": "batch_request" if source == "upload" else "batch_result",
            "source": source,
            "num_lines": content.count(b"\n"),
            "mimetype": "application/jsonl",
            "signature": None,
        }
        return self.named[id]

    def describe(self, request: Received, id: str) -> tuple[Piece, ...]:
        if id not in self.files:
            raise self.not_found(request)
        return as_json({**self.named[id], "deleted": False})

    def content(self, request: Received, id: str) -> tuple[Piece, ...]:
        if id not in self.files:
            raise self.not_found(request)
        return self.download(self.files[id], "application/octet-stream")

    def delete_file(self, request: Received, id: str) -> tuple[Piece, ...]:
        if self.files.pop(id, None) is None:
            raise self.not_found(request)
        return as_json({"id": id, "object": "file", "deleted": True})

    # -- jobs

    def create(self, request: Received) -> tuple[Piece, ...]:
        job = request.json
        if unknown := set(job) - {"input_files", "endpoint", "model", "metadata", "timeout_hours"}:
            raise refused(422, f"unexpected fields: {unknown}")
        [file] = job["input_files"]
        if file not in self.files or self.named[file]["purpose"] != "batch":
            raise refused(422, f"no file {file} for batches")
        if job["endpoint"] != "/v1/chat/completions" or not job.get("model"):
            raise refused(422, "expected the endpoint of chat completions, and a model")
        lines = [json.loads(line) for line in self.files[file].splitlines()]
        requests = {line["custom_id"]: line["body"] for line in lines}
        if len(requests) < len(lines):
            raise refused(422, "custom_id has to be unique")
        return as_json(self.document(self.hold(f"job-{self.number():04}", requests, **job)))

    def retrieve(self, request: Received, id: str) -> tuple[Piece, ...]:
        return as_json(self.document(self.looked_at(self.find(request, id))))

    def list(self, request: Received) -> tuple[Piece, ...]:
        jobs = sorted(self.held.values(), key=lambda batch: batch.created)
        if request.query.get("order_by", "-created") == "-created":
            jobs.reverse()
        size = int(request.query.get("page_size", 100))
        start = size * int(request.query.get("page", 0))
        data = [self.document(job) for job in jobs[start : start + size]]
        return as_json({"data": data, "object": "list", "total": len(jobs)})

    def cancel(self, request: Received, id: str) -> tuple[Piece, ...]:
        batch = self.find(request, id)
        if batch.ended is None:
            batch.status = "canceling"
        return as_json(self.document(batch))

    def find(self, request: Received, id: str) -> HeldBatch:
        """Return a job, or raise `Refused`."""
        if id not in self.held:
            raise self.not_found(request)
        return self.held[id]

    def document(self, batch: HeldBatch) -> dict[str, Any]:
        """Return the job as the service describes it. Requests that failed are in a file of their own."""
        if batch.ended is not None and not batch.files and batch.status != "failed":
            for name, lines in self.results(batch).items():
                if lines:
                    batch.files[name] = self.store(f"{name}.jsonl", json_lines(lines), "batch", "mistral")["id"]
        return {
            "id": batch.id,
            "object": "batch",
            "input_files": batch.fields["input_files"],
            "metadata": batch.fields.get("metadata"),
            "endpoint": batch.fields["endpoint"],
            "model": batch.fields["model"],
            "agent_id": None,
            "output_file": batch.files.get("output"),
            "error_file": batch.files.get("error"),
            "errors": [{"message": "the file is no batch", "count": 1}] if batch.status == "failed" else [],
            "outputs": None,
            "status": STATES[batch.status],
            "created_at": batch.created,
            "total_requests": len(batch.requests),
            "completed_requests": batch.count("succeeded") + batch.count("errored"),
            "succeeded_requests": batch.count("succeeded"),
            "failed_requests": batch.count("errored"),
            "started_at": batch.created,
            "completed_at": batch.ended,
        }

    def results(self, batch: HeldBatch) -> dict[str, list[dict[str, Any]]]:
        """Return the lines of the files. Requests that were not processed have none."""
        output, errors = [], []
        for id in self.result_ids(batch):
            outcome = batch.outcomes.get(id, "succeeded")
            line = {"id": f"batch-{self.number()}", "custom_id": id}
            if outcome == "succeeded":
                body = self.answer(batch.requests.get(id, {"messages": []}))
                output.append({**line, "response": {"status_code": 200, "body": body}, "error": None})
            elif outcome == "errored":
                body = {"object": "error", "message": "Invalid request", "type": "invalid_request_error", "code": "1"}
                errors.append({**line, "response": {"status_code": 400, "body": body}, "error": body})
        return {"output": output, "error": errors}

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        content = body["messages"][-1]["content"] if body["messages"] else ""
        reply = self.reply(content if isinstance(content, str) else "".join(part["text"] for part in content))
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply if isinstance(reply, str) else json.dumps(reply),
        }
        stop = "stop"
        if body.get("tools") and not isinstance(reply, str):
            function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps(reply)}
            message["tool_calls"] = [
                {"id": f"{self.number():09}", "type": "function", "function": function, "index": 0}
            ]
            message["content"], stop = "", "tool_calls"
        return {
            "id": f"cmpl-{self.number()}",
            "object": "chat.completion",
            "created": self.now,
            "model": body.get("model", "mistral"),
            "choices": [{"index": 0, "message": message, "finish_reason": stop}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
        }
