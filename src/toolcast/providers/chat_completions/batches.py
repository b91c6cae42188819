"""The batch API of OpenAI and of the services that have the same one: a file of requests, and files of results.

Source: https://platform.openai.com/docs/api-reference/batch and https://console.groq.com/docs/api-reference#batches.
The differences between services are in the `BatchSpec` of their row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Final

from ...errors import BadRequest, LLMError, RateLimited
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
from ..http_adapter import HTTPAdapter
from .file_batches import TAG, FileBatches
from .files import OpenAIFiles
from .services import BatchSpec

_STATES: Final[Mapping[str, BatchState]] = {
    "completed": "ended",
    "expired": "ended",
    "cancelled": "ended",
    "failed": "failed",
}
_UNPROCESSED: Final = frozenset(("batch_expired", "batch_cancelled"))


class OpenAIBatches(FileBatches):
    """The codec of OpenAI's batch API.

    Args:
        adapter: The adapter of the service.
        spec: The differences of the service.
        endpoint: The endpoint of the requests, as a batch names it: `/v1/chat/completions` or `/v1/responses`.
    """

    path: ClassVar[str] = "/batches"

    def __init__(self, adapter: HTTPAdapter, spec: BatchSpec, endpoint: str) -> None:
        super().__init__(adapter, OpenAIFiles(adapter, limit=spec.bytes, purpose="batch"))
        self.limits: BatchLimits = BatchLimits(spec.requests, spec.bytes, spec.line_bytes)
        self.price_factor: Decimal = Decimal(spec.price_factor)
        self._spec = spec
        self._endpoint = endpoint

    def encode(self, id: str, request: HTTPRequest) -> bytes:
        """Return one request of a batch, as one line without a line end.

        Raises:
            BadRequest: The request would run in the background, so that the batch would have no response to it; or it
                is one for another endpoint.
        """
        if request.url.partition("?")[0].rpartition("/")[2] != self._endpoint.rpartition("/")[2]:
            raise BadRequest(
                f"all requests of a batch go to {self._endpoint}, and this one has what only chat completions take: "
                "leave it out, or give the LLM of the job api='chat'"
            )
        # The text alone may be a part of another field.
        if b'"background":true' in request.body and json.loads(request.body).get("background"):
            raise BadRequest("background=True has no place in a batch: leave it out")
        head = json.dumps({"custom_id": id, "method": "POST", "url": self._endpoint})
        return b'%b,"body":%b}' % (head[:-1].encode(), request.body)

    def submit(self, tag: str, lines: Sequence[bytes], file: str | None) -> HTTPRequest:
        """Return the request that creates the batch of the uploaded file."""
        body = {
            "input_file_id": file,
            "endpoint": self._endpoint,
            "completion_window": self._spec.window,
            "metadata": {TAG: tag},
        }
        return self._adapter.service_request("POST", self.path, body=json.dumps(body).encode())

    def list_page(self, cursor: str | None) -> HTTPRequest:
        """Return the request for a page of the batches, the newest first."""
        query = {"limit": "100"} | ({} if cursor is None else {"after": cursor})
        return self._adapter.service_request("GET", self.path, query=query)

    def read_page(self, response: HTTPResponse, cursor: str | None) -> tuple[list[BatchStatus], str | None]:
        """Return the batches of the page `cursor`, and the id of the last one if there are more."""
        page = as_object(response.body)
        batches = [self._status(each) for each in objects_in(page, "data")]
        return batches, batches[-1].id if batches and page.get("has_more") is True else None

    def _status(self, batch: Mapping[str, Any]) -> BatchStatus:
        raw = text_field(batch, "status")
        counts = as_mapping(batch.get("request_counts"))
        return BatchStatus(
            text_field(batch, "id"),
            _STATES.get(raw, "running"),
            raw,
            optional_text(as_mapping(batch.get("metadata")), TAG),
            optional_count(batch, "created_at"),
            optional_count(counts, "total"),
            optional_count(counts, "completed"),
            optional_count(counts, "failed"),
            optional_text(batch, "input_file_id"),
            tuple([file for name in ("output_file_id", "error_file_id") if (file := optional_text(batch, name))]),
            error=self._refusal(batch) if raw == "failed" else None,
            cancelled=raw == "cancelled",
        )

    def _refusal(self, batch: Mapping[str, Any]) -> LLMError:
        """Return the error of a batch that was not begun."""
        problems = objects_in(as_mapping(batch.get("errors")), "data")
        texts = [self._described(problem) for problem in problems[:3]]
        codes = {str(problem.get("code")) for problem in problems}
        summary = "; ".join(texts) or "no reason given"
        if codes & {"token_limit_exceeded", "request_limit_exceeded"}:
            return RateLimited(f"the service refused the batch: {summary}. Wait until other batches have ended.")
        return BadRequest(f"the service refused the batch: {summary}. Check the model's name and the settings.")

    def _described(self, problem: Mapping[str, Any]) -> str:
        line = f" (line {problem['line']})" if problem.get("line") is not None else ""
        text = " ".join([str(problem[name]) for name in ("code", "message") if problem.get(name)])
        return self._adapter.mask(f"{text:.500}{line}")

    def _result(self, line: Mapping[str, Any]) -> BatchResult:
        id = text_field(line, "custom_id")
        response, error = as_mapping(line.get("response")), as_mapping(line.get("error"))
        status = optional_count(response, "status_code")
        body = json.dumps(response.get("body"), ensure_ascii=False).encode()
        if status is not None and status >= 300:
            failure = self._adapter.error(status, {}, body)
            failure.request_id = optional_text(response, "request_id")
            return BatchResult(id, error=failure)
        if status is not None and not error:
            return BatchResult(id, body)
        failure = self._adapter.reported_error({"error": error or {"message": "neither a response nor an error"}})
        code = error.get("code")
        return BatchResult(id, error=failure, unprocessed=code in _UNPROCESSED, cancelled=code == "batch_cancelled")
