"""Mistral's batch API: a file of requests, a job of one model, and files of results.

Source: https://docs.mistral.ai/capabilities/batch and https://docs.mistral.ai/api/endpoint/batch. The limits are those
of https://docs.mistral.ai/resources/known-limitations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ...errors import LLMError, MalformedEvent
from ...http_request import HTTPRequest, HTTPResponse
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
    optional_count,
    optional_text,
    text_field,
)
from ..chat_completions.files import OpenAIFiles
from ..file_codec import BytesContent, Exchange
from ..http_adapter import HTTPAdapter, path_segment

TAG: Final = "toolcast"
"""The key of the tag in the metadata of a job."""

_JOBS: Final = "/batch/jobs"
_PAGE: Final = 100
_STATES: Final[Mapping[str, BatchState]] = {
    "SUCCESS": "ended",
    "TIMEOUT_EXCEEDED": "ended",
    "CANCELLED": "ended",
    "FAILED": "failed",
}


class MistralBatches(BatchCodec):
    """The codec of Mistral's batch jobs."""

    # A file may have 512 MB: smaller batches need less memory here.
    limits: BatchLimits = BatchLimits(100_000, 200_000_000)

    def __init__(self, adapter: HTTPAdapter) -> None:
        self.provider: str = adapter.provider
        self._adapter = adapter
        self._files = OpenAIFiles(adapter, purpose="batch")

    def encode(self, id: str, request: HTTPRequest) -> bytes:
        """Return one request of a batch, as one line without a line end."""
        return b'{"custom_id":%b,"body":%b}' % (json.dumps(id).encode(), request.body)

    def upload(self, tag: str, lines: Sequence[bytes]) -> Exchange[str | None]:
        """Upload the requests of a batch; return the id of the file."""
        # Without a name here, the content is released once the body of the request has it.
        file = yield from self._files.upload(
            f"{tag}.jsonl", "application/jsonl", BytesContent(b"\n".join((*lines, b"")))
        )
        return file.id

    def submit(self, tag: str, lines: Sequence[bytes], file: str | None) -> HTTPRequest:
        """Return the request that creates the job of the uploaded file."""
        body = {
            "input_files": [file],
            "endpoint": "/v1/chat/completions",
            "model": json.loads(lines[0])["body"]["model"],
            "metadata": {TAG: tag},
            "timeout_hours": 24,
        }
        return self._adapter.service_request("POST", _JOBS, body=json.dumps(body, ensure_ascii=False).encode())

    def status(self, id: str) -> HTTPRequest:
        """Return the request for the status of the job `id`."""
        return self._adapter.service_request("GET", f"{_JOBS}/{path_segment(id)}")

    def read_status(self, response: HTTPResponse) -> BatchStatus:
        """Return the status in the response to `submit` or `status`."""
        return self._status(as_object(response.body))

    def list_page(self, cursor: str | None) -> HTTPRequest:
        """Return the request for a page of the jobs, the newest first. `cursor` is its number."""
        query = {"page": cursor or "0", "page_size": str(_PAGE), "order_by": "-created"}
        return self._adapter.service_request("GET", _JOBS, query=query)

    def read_page(self, response: HTTPResponse, cursor: str | None) -> tuple[list[BatchStatus], str | None]:
        """Return the jobs of the page `cursor`, and the number of the next one."""
        jobs = [self._status(each) for each in objects_in(as_object(response.body), "data")]
        return jobs, str(int(cursor or 0) + 1) if len(jobs) == _PAGE else None

    def cancel(self, id: str) -> HTTPRequest:
        """Return the request that cancels the job `id`."""
        return self._adapter.service_request("POST", f"{_JOBS}/{path_segment(id)}/cancel")

    def downloads(self, status: BatchStatus) -> Sequence[HTTPRequest]:
        """Return the requests for the files with the results and with the errors of an ended job."""
        return [self._files.fetch(file) for file in status.files]

    def result_decoder(self) -> JSONLResults:
        """Return a decoder of one file of results."""
        return JSONLResults(self._result)

    def delete_files(self, status: BatchStatus) -> Sequence[HTTPRequest]:
        """Return the requests that delete the file of the requests and the files of the results."""
        return [self._files.delete(file) for file in (status.input_file, *status.files) if file is not None]

    def delete_file(self, file: str) -> HTTPRequest:
        """Return the request that deletes a file."""
        return self._files.delete(file)

    def _status(self, job: Mapping[str, Any]) -> BatchStatus:
        raw = text_field(job, "status")
        inputs: object = job.get("input_files")
        first = cast("list[object]", inputs)[:1] if isinstance(inputs, list) else []
        files = tuple([file for name in ("output_file", "error_file") if (file := optional_text(job, name))])
        # Results of a failed job are those of its requests, of which all may have failed.
        state: BatchState = "ended" if files and raw == "FAILED" else _STATES.get(raw, "running")
        return BatchStatus(
            text_field(job, "id"),
            state,
            raw,
            optional_text(as_mapping(job.get("metadata")), TAG),
            optional_count(job, "created_at"),
            optional_count(job, "total_requests"),
            optional_count(job, "succeeded_requests"),
            optional_count(job, "failed_requests"),
            next((file for file in first if isinstance(file, str)), None),
            files,
            error=self._refusal(job) if state == "failed" else None,
            cancelled=raw == "CANCELLED",
        )

    def _refusal(self, job: Mapping[str, Any]) -> LLMError:
        """Return the error of a job that failed as a whole."""
        texts = [str(each["message"]) for each in objects_in(job, "errors") if each.get("message")]
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
