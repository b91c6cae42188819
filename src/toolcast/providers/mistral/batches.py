"""Mistral's batch API: a file of requests, a job of one model, and files of results.

Source: https://docs.mistral.ai/capabilities/batch and https://docs.mistral.ai/api/endpoint/batch. The limits are those
of https://docs.mistral.ai/resources/known-limitations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from ...errors import LLMError, MalformedEvent
from ...values.http_request import HTTPRequest, HTTPResponse
from ..batch_codec import (
    BatchLimits,
    BatchResult,
    BatchState,
    BatchStatus,
    as_mapping,
    as_object,
    objects_in,
    optional_count,
    optional_text,
    text_field,
)
from ..chat_completions.file_batches import TAG, FileBatches
from ..chat_completions.files import OpenAIFiles
from ..http_adapter import HTTPAdapter

_PAGE: Final = 100
_STATES: Final[Mapping[str, BatchState]] = {
    "SUCCESS": "ended",
    "TIMEOUT_EXCEEDED": "ended",
    "CANCELLED": "ended",
    "FAILED": "failed",
}


class MistralBatches(FileBatches):
    """The codec of Mistral's batch jobs."""

    # A file may have 512 MB: smaller batches need less memory here.
    limits: BatchLimits = BatchLimits(100_000, 200_000_000)

    path: ClassVar[str] = "/batch/jobs"

    def __init__(self, adapter: HTTPAdapter) -> None:
        super().__init__(adapter, OpenAIFiles(adapter, purpose="batch"))

    def encode(self, id: str, request: HTTPRequest) -> bytes:
        """Return one request of a batch, as one line without a line end."""
        return b'{"custom_id":%b,"body":%b}' % (json.dumps(id).encode(), request.body)

    def submit(self, tag: str, lines: Sequence[bytes], file: str | None) -> HTTPRequest:
        """Return the request that creates the job of the uploaded file."""
        body = {
            "input_files": [file],
            "endpoint": "/v1/chat/completions",
            "model": json.loads(lines[0])["body"]["model"],
            "metadata": {TAG: tag},
            "timeout_hours": 24,
        }
        return self._adapter.service_request("POST", self.path, body=json.dumps(body, ensure_ascii=False).encode())

    def list_page(self, cursor: str | None) -> HTTPRequest:
        """Return the request for a page of the jobs, the newest first. `cursor` is its number."""
        query = {"page": cursor or "0", "page_size": str(_PAGE), "order_by": "-created"}
        return self._adapter.service_request("GET", self.path, query=query)

    def read_page(self, response: HTTPResponse, cursor: str | None) -> tuple[list[BatchStatus], str | None]:
        """Return the jobs of the page `cursor`, and the number of the next one."""
        jobs = [self._status(each) for each in objects_in(as_object(response.body), "data")]
        return jobs, str(int(cursor or 0) + 1) if len(jobs) == _PAGE else None

    def _status(self, batch: Mapping[str, Any]) -> BatchStatus:
        raw = text_field(batch, "status")
        inputs: object = batch.get("input_files")
        first = cast("list[object]", inputs)[:1] if isinstance(inputs, list) else []
        files = tuple([file for name in ("output_file", "error_file") if (file := optional_text(batch, name))])
        # Results of a failed job are those of its requests, of which all may have failed.
        state: BatchState = "ended" if files and raw == "FAILED" else _STATES.get(raw, "running")
        return BatchStatus(
            text_field(batch, "id"),
            state,
            raw,
            optional_text(as_mapping(batch.get("metadata")), TAG),
            optional_count(batch, "created_at"),
            optional_count(batch, "total_requests"),
            optional_count(batch, "succeeded_requests"),
            optional_count(batch, "failed_requests"),
            next((file for file in first if isinstance(file, str)), None),
            files,
            error=self._refusal(batch) if state == "failed" else None,
            cancelled=raw == "CANCELLED",
        )

    def _refusal(self, batch: Mapping[str, Any]) -> LLMError:
        """Return the error of a job that failed as a whole."""
        texts = [str(each["message"]) for each in objects_in(batch, "errors") if each.get("message")]
        message = f"the service refused the batch: {'; '.join(texts[:3]) or 'no reason given'}"
        return self._adapter.error(400, {}, json.dumps({"message": message}).encode())

    def _result(self, line: Mapping[str, Any]) -> BatchResult:
        id = text_field(line, "custom_id")
        response, error = as_mapping(line.get("response")), line.get("error")
        status = optional_count(response, "status_code")
        body = json.dumps(response.get("body"), ensure_ascii=False).encode()
        if error is None and status is not None and status < 300:
            return BatchResult(id, body)
        if status is not None and status >= 300:
            return BatchResult(id, error=self._adapter.error(status, {}, body))
        if error is None:
            return BatchResult(id, error=MalformedEvent("the line of this request has neither a response nor an error"))
        shown: object = {"error": error} if as_mapping(error) else {"message": str(error)}
        return BatchResult(id, error=self._adapter.error(500, {}, json.dumps(shown).encode()))
