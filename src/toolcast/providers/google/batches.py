"""The batch API of the Gemini API: requests in the body of one request, or in a file.

Source: https://ai.google.dev/api/batch-api and https://ai.google.dev/gemini-api/docs/batch-api. A batch is a
long-running operation, whose metadata has the state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from ...errors import LLMError, MalformedEvent
from ...values.http_request import HTTPRequest, HTTPResponse
from ..batch_codec import (
    BatchCodec,
    BatchLimits,
    BatchResult,
    BatchState,
    BatchStatus,
    JSONLResults,
    as_mapping,
    as_object,
    objects_in,
    optional_text,
    text_field,
    unix_time,
)
from ..file_codec import BytesContent, Exchange
from ..http_adapter import HTTPAdapter
from .files import GoogleFiles, resource_path, whole_number

INLINE_BYTES: Final = 2_000_000
"""The most bytes that are sent without a file.

The service takes 20 MB, but returns the results with every status and with every page of batches, so that more would be
transferred again and again.
"""

_STATES: Final[Mapping[str, BatchState]] = {
    "SUCCEEDED": "ended",
    "PARTIALLY_SUCCEEDED": "ended",
    "CANCELLED": "ended",
    "EXPIRED": "ended",
    "FAILED": "failed",
}


class GoogleBatches(BatchCodec):
    """The codec of the Gemini API's batches. The tag is the display name of a batch."""

    # No number of requests is documented, and files may have 2 GB: smaller batches need less memory here.
    limits: BatchLimits = BatchLimits(100_000, 200_000_000)
    newest_first = False  # the reference names no order

    def __init__(self, adapter: HTTPAdapter) -> None:
        self.provider: str = adapter.provider
        self._adapter = adapter
        self._files = GoogleFiles(adapter)

    def encode(self, id: str, request: HTTPRequest) -> bytes:
        """Return one request of a batch, as one line without a line end. It has the model that the URL has."""
        root = urlsplit(self._adapter.service_root).path.rstrip("/")
        model = unquote(urlsplit(request.target).path.removeprefix(f"{root}/").rpartition(":")[0])
        head = f'{{"key":{json.dumps(id)},"request":{{"model":{json.dumps(model)},'
        return b"%b%b}" % (head.encode(), request.body[1:])

    def upload(self, tag: str, lines: Sequence[bytes]) -> Exchange[str | None]:
        """Upload the requests of a batch, unless they are few; return the name of the file."""
        if _is_inline(lines):
            return None
        content = BytesContent(b"\n".join((*lines, b"")))
        file = yield from self._files.upload(f"{tag}.jsonl", "application/jsonl", content)
        return file.id

    def submit(self, tag: str, lines: Sequence[bytes], file: str | None) -> HTTPRequest:
        """Return the request that creates the batch."""
        model = json.loads(lines[0])["request"]["model"]
        source: dict[str, Any] = {"fileName": file} if file is not None else {"requests": {"requests": _inline(lines)}}
        body = {"batch": {"displayName": tag, "inputConfig": source}}
        encoded = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        return self._adapter.service_request("POST", f"/{quote(model, safe='/@')}:batchGenerateContent", body=encoded)

    def status(self, id: str) -> HTTPRequest:
        """Return the request for the status of the batch `id`."""
        return self._adapter.service_request("GET", resource_path("batches", id))

    def read_status(self, response: HTTPResponse) -> BatchStatus:
        """Return the status in the response to `submit` or `status`."""
        operation = as_object(response.body)
        inlined = as_mapping(_output(operation).get("inlinedResponses"))
        return self._status(operation, objects_in(inlined, "inlinedResponses"))

    def list_page(self, cursor: str | None) -> HTTPRequest:
        """Return the request for a page of the batches."""
        query = {"pageSize": "10"} | ({} if cursor is None else {"pageToken": cursor})
        return self._adapter.service_request("GET", "/batches", query=query)

    def read_page(self, response: HTTPResponse, cursor: str | None) -> tuple[list[BatchStatus], str | None]:
        """Return the batches of a page, and the token of the next page."""
        page = as_object(response.body)
        # Without their results: those of other programs' batches may have no keys.
        batches = [self._status(each, []) for each in objects_in(page, "operations")]
        return batches, optional_text(page, "nextPageToken")

    def cancel(self, id: str) -> HTTPRequest:
        """Return the request that cancels the batch `id`."""
        return self._adapter.service_request("POST", f"{resource_path('batches', id)}:cancel")

    def downloads(self, status: BatchStatus) -> Sequence[HTTPRequest]:
        """Return the request for the file with the results; none where the status has them."""
        return [self._files.fetch(file) for file in status.files]

    def result_decoder(self) -> JSONLResults:
        """Return a decoder of the file with the results."""
        return JSONLResults(lambda line: self._result(text_field(line, "key"), line))

    def delete_files(self, status: BatchStatus) -> Sequence[HTTPRequest]:
        """Return the requests that delete the file of the requests, that of the results, and the batch."""
        files = (status.input_file, *status.files)
        batch = self._adapter.service_request("DELETE", resource_path("batches", status.id))
        return [*[self._files.delete(file) for file in files if file is not None], batch]

    def delete_file(self, file: str) -> HTTPRequest:
        """Return the request that deletes an uploaded file."""
        return self._files.delete(file)

    def _status(self, operation: Mapping[str, Any], inlined: Sequence[Mapping[str, Any]]) -> BatchStatus:
        batch = as_mapping(operation.get("metadata"))
        raw = optional_text(batch, "state") or ""
        error = as_mapping(operation.get("error"))
        # BATCH_STATE_RUNNING in the reference, JOB_STATE_RUNNING in the guide.
        state = _STATES.get(raw.rpartition("STATE_")[2])
        if state is None:
            done = operation.get("done") is True
            state = "running" if not done else "failed" if error else "ended"
        stats = as_mapping(batch.get("batchStats"))
        file = optional_text(_output(operation), "responsesFile")
        return BatchStatus(
            text_field(operation, "name"),
            state,
            raw,
            optional_text(batch, "displayName"),
            unix_time(optional_text(batch, "createTime")),
            whole_number(stats.get("requestCount")),
            whole_number(stats.get("successfulRequestCount")),
            whole_number(stats.get("failedRequestCount")),
            optional_text(as_mapping(batch.get("inputConfig")), "fileName"),
            () if file is None else (file,),
            tuple([self._inlined(each) for each in inlined]),
            self._error(error) if state == "failed" else None,
            raw.endswith("CANCELLED"),
        )

    def _inlined(self, found: Mapping[str, Any]) -> BatchResult:
        return self._result(text_field(as_mapping(found.get("metadata")), "key"), found)

    def _result(self, id: str, found: Mapping[str, Any]) -> BatchResult:
        response = found.get("response")
        if isinstance(response, dict):
            return BatchResult(id, json.dumps(response, ensure_ascii=False).encode())
        return BatchResult(id, error=self._error(as_mapping(found.get("error"))))

    def _error(self, status: Mapping[str, Any]) -> LLMError:
        """Return the exception for a `google.rpc.Status`."""
        if not status:
            return MalformedEvent("the service returned neither a response nor an error. Run the job again.")
        code = whole_number(status.get("code")) or 2
        http, name = _CODES.get(code, (code if code >= 400 else 500, "UNKNOWN"))
        body = {"error": {**status, "code": http, "status": name}}
        return self._adapter.error(http, {}, json.dumps(body).encode())


# https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
_CODES: Final[Mapping[int, tuple[int, str]]] = {
    1: (499, "CANCELLED"),
    2: (500, "UNKNOWN"),
    3: (400, "INVALID_ARGUMENT"),
    4: (504, "DEADLINE_EXCEEDED"),
    5: (404, "NOT_FOUND"),
    6: (409, "ALREADY_EXISTS"),
    7: (403, "PERMISSION_DENIED"),
    8: (429, "RESOURCE_EXHAUSTED"),
    9: (400, "FAILED_PRECONDITION"),
    10: (409, "ABORTED"),
    11: (400, "OUT_OF_RANGE"),
    12: (501, "UNIMPLEMENTED"),
    13: (500, "INTERNAL"),
    14: (503, "UNAVAILABLE"),
    15: (500, "DATA_LOSS"),
    16: (401, "UNAUTHENTICATED"),
}


def _output(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the results of a batch, or where they are."""
    output = as_mapping(as_mapping(operation.get("metadata")).get("output"))
    return output or as_mapping(operation.get("response"))


def _is_inline(lines: Sequence[bytes]) -> bool:
    return sum(map(len, lines)) + 100 * len(lines) < INLINE_BYTES


def _inline(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines]
    return [{"request": each["request"], "metadata": {"key": each["key"]}} for each in found]
