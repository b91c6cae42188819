"""Anthropic's Message Batches: the requests in the body of one request, the results at a URL.

Source: https://platform.claude.com/docs/en/api/messages/batches and
https://platform.claude.com/docs/en/build-with-claude/batch-processing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...errors import BadRequest, LLMError
from ...values.http_request import HTTPRequest, HTTPResponse
from ..batch_codec import (
    BatchCodec,
    BatchLimits,
    BatchResult,
    BatchStatus,
    JSONLResults,
    as_mapping,
    as_object,
    objects_in,
    optional_count,
    optional_text,
    text_field,
    unix_time,
)
from ..http_adapter import HTTPAdapter, path_segment

_PATH: Final = "/messages/batches"
_HEAD, _TAIL = b'{"requests":[', b"]}"
_UNPROCESSED: Final = {
    "expired": "the batch expired after 24 hours, before this request was processed. Run the job again.",
    "canceled": "the batch was cancelled before this request was processed. Run the job again.",
}


class AnthropicBatches(BatchCodec):
    """The codec of Message Batches. They have no metadata: a batch is recognized by the ids of its results."""

    limits: BatchLimits = BatchLimits(100_000, 256_000_000 - len(_HEAD + _TAIL))
    lists_tags = False

    def __init__(self, adapter: HTTPAdapter) -> None:
        self.provider: str = adapter.provider
        self._adapter = adapter

    def encode(self, id: str, request: HTTPRequest) -> bytes:
        """Return one request of a batch, as one line without a line end."""
        params = json.loads(request.body)
        params.pop("stream", None)  # batches do not stream: the parameter is not supported in them
        return json.dumps({"custom_id": id, "params": params}, ensure_ascii=False, separators=(",", ":")).encode()

    def submit(self, tag: str, lines: Sequence[bytes], file: str | None) -> HTTPRequest:
        """Return the request that creates the batch, with all requests in its body."""
        return self._adapter.service_request("POST", _PATH, body=b"".join((_HEAD, b",".join(lines), _TAIL)))

    def status(self, id: str) -> HTTPRequest:
        """Return the request for the status of the batch `id`."""
        return self._adapter.service_request("GET", f"{_PATH}/{path_segment(id)}")

    def read_status(self, response: HTTPResponse) -> BatchStatus:
        """Return the status in the response to `submit` or `status`."""
        return _status(as_object(response.body))

    def list_page(self, cursor: str | None) -> HTTPRequest:
        """Return the request for a page of the batches, the newest first."""
        query = {"limit": "100"} | ({} if cursor is None else {"after_id": cursor})
        return self._adapter.service_request("GET", _PATH, query=query)

    def read_page(self, response: HTTPResponse, cursor: str | None) -> tuple[list[BatchStatus], str | None]:
        """Return the batches of a page, and the id of the last one if there are more."""
        page = as_object(response.body)
        batches = [_status(each) for each in objects_in(page, "data")]
        return batches, optional_text(page, "last_id") if page.get("has_more") is True else None

    def cancel(self, id: str) -> HTTPRequest:
        """Return the request that cancels the batch `id`."""
        return self._adapter.service_request("POST", f"{_PATH}/{path_segment(id)}/cancel")

    def downloads(self, status: BatchStatus) -> Sequence[HTTPRequest]:
        """Return the request for the results of an ended batch."""
        return [self._adapter.linked_request("GET", url, headers={"accept": "*/*"}) for url in status.files]

    def result_decoder(self) -> JSONLResults:
        """Return a decoder of the results."""
        return JSONLResults(self._result)

    def delete_files(self, status: BatchStatus) -> Sequence[HTTPRequest]:
        """Return the request that deletes an ended batch with its results."""
        return [self._adapter.service_request("DELETE", f"{_PATH}/{path_segment(status.id)}")]

    def delete_file(self, file: str) -> None:
        """Return None: batches have no files."""

    def _result(self, line: Mapping[str, Any]) -> BatchResult:
        id, result = text_field(line, "custom_id"), as_mapping(line.get("result"))
        kind = text_field(result, "type")
        if kind == "succeeded":
            return BatchResult(id, json.dumps(result.get("message"), ensure_ascii=False).encode())
        if kind in _UNPROCESSED:
            return BatchResult(id, error=LLMError(_UNPROCESSED[kind]), unprocessed=True, cancelled=kind == "canceled")
        error = as_mapping(result.get("error"))
        status = _STATUSES.get(str(as_mapping(error.get("error")).get("type")), 500)
        return BatchResult(id, error=self._adapter.error(status, {}, json.dumps(error).encode()))


# https://platform.claude.com/docs/en/api/errors
_STATUSES: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def _status(batch: Mapping[str, Any]) -> BatchStatus:
    id, raw = text_field(batch, "id"), text_field(batch, "processing_status")
    counts = as_mapping(batch.get("request_counts"))
    numbers = [optional_count(counts, name) or 0 for name in counts]
    results = optional_text(batch, "results_url")
    ended = raw == "ended"
    lost = ended and results is None
    archived = BadRequest(
        f"the results of batch {id} are no longer available: they are stored for 29 days. Run the job with a new "
        "checkpoint."
    )
    return BatchStatus(
        id,
        "failed" if lost else "ended" if ended else "running",
        raw,
        None,
        unix_time(optional_text(batch, "created_at")),
        sum(numbers) if counts else None,
        optional_count(counts, "succeeded"),
        optional_count(counts, "errored"),
        files=(results,) if results is not None else (),
        error=archived if lost else None,
    )
