"""The interface of a provider's batch API: many requests as one batch, its status, and its results. No I/O.

A codec makes the HTTP requests, with the credentials and the URL of its adapter, and reads their responses; the driver
(batch/remote/) sends them. An adapter returns its codec from `HTTPAdapter.batches`. The requests of a batch are those
that the adapter makes for chat, unstreamed; the body of a result is a whole response, for the adapter's decoder.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, Protocol, TypeAlias, cast

from ..errors import LLMError, MalformedEvent, StreamTruncated
from ..lazy.lazy_dataclasses import dataclass
from ..values.http_request import HTTPRequest, HTTPResponse
from .file_codec import Exchange
from .sse import JSONLines

BatchState: TypeAlias = Literal["running", "ended", "failed"]
"""The state of a batch: in work; ended with results, perhaps not for all requests; refused as a whole."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of one batch: the number of requests and the bytes of all lines, and the bytes of one line."""

    requests: int
    bytes: int
    line_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one request of a batch: a response body, or an error.

    Attributes:
        id: The id of the request in the batch.
        body: The body of the response, as a whole response of the provider has it.
        error: The error of the request.
        unprocessed: The batch expired or was cancelled before this request was processed; it was not charged.
        cancelled: It was cancelled, so that the request is not submitted again.
    """

    id: str
    body: bytes | None = None
    error: LLMError | None = None
    unprocessed: bool = False
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The status of one batch.

    Attributes:
        id: The provider's id of the batch.
        state: The state.
        raw: The provider's own word for it.
        tag: The tag that the batch was submitted with; None if it has none, or the provider cannot store one.
        created: When it was created, in seconds since 1970.
        total: The number of its requests, where known.
        done: The number of those that succeeded, where known.
        failed: The number of those that failed, where known.
        input_file: The id of the uploaded file with the requests.
        files: The ids or URLs of the files with results.
        results: The results themselves, where the provider returns them with the status.
        error: The provider's reason for a failed batch, with a next step.
        cancelled: It was cancelled, so that its requests without a result are not submitted again.
    """

    id: str
    state: BatchState
    raw: str = ""
    tag: str | None = None
    created: float | None = None
    total: int | None = None
    done: int | None = None
    failed: int | None = None
    input_file: str | None = None
    files: tuple[str, ...] = ()
    results: tuple[BatchResult, ...] = ()
    error: LLMError | None = None
    cancelled: bool = False


class ResultDecoder(Protocol):
    """A decoder of one download of results: bytes, cut anywhere, to results."""

    def feed(self, data: bytes) -> list[BatchResult]:
        """Return the results that `data` completes."""
        ...

    def close(self) -> list[BatchResult]:
        """Return the last results. Raise `StreamTruncated` if the download ends inside of one."""
        ...


class BatchCodec(ABC):
    """The codec of one provider's batch API.

    Attributes:
        provider: The name of the provider.
        limits: The limits of one batch.
        price_factor: The price of a request in a batch as a part of its usual price.
        lists_tags: True if the status of a batch has the tag that it was submitted with. If not, a batch is recognized
            by the ids of its results, which begin with the tag.
        newest_first: True if the pages of the list are known to begin with the newest batch.
    """

    provider: str
    limits: BatchLimits
    price_factor: Decimal = Decimal("0.5")
    lists_tags: bool = True
    newest_first: bool = True

    @abstractmethod
    def encode(self, id: str, request: HTTPRequest) -> bytes:
        """Return one request of a batch, as one line without a line end.

        Args:
            id: The id of the request: at most 64 letters, digits, `-` and `_`, unique in the batch.
            request: The request that the adapter makes for it.
        """

    def upload(self, tag: str, lines: Sequence[bytes]) -> Exchange[str | None]:
        """Upload the requests of a batch; return the id of the file, or None where `submit` sends them itself."""
        return None
        yield  # a generator without requests

    @abstractmethod
    def submit(self, tag: str, lines: Sequence[bytes], file: str | None) -> HTTPRequest:
        """Return the request that creates the batch. It must not be sent twice."""

    @abstractmethod
    def status(self, id: str) -> HTTPRequest:
        """Return the request for the status of the batch `id`."""

    @abstractmethod
    def read_status(self, response: HTTPResponse) -> BatchStatus:
        """Return the status in the response to `submit` or `status`."""

    @abstractmethod
    def list_page(self, cursor: str | None) -> HTTPRequest:
        """Return the request for a page of the provider's batches. `cursor` is None for the first."""

    @abstractmethod
    def read_page(self, response: HTTPResponse, cursor: str | None) -> tuple[list[BatchStatus], str | None]:
        """Return the batches of the page at `cursor`, and the cursor of the next page; None if there are no more."""

    @abstractmethod
    def cancel(self, id: str) -> HTTPRequest:
        """Return the request that cancels the batch `id`. Its response has no status that all providers return."""

    @abstractmethod
    def downloads(self, status: BatchStatus) -> Sequence[HTTPRequest]:
        """Return the requests for the results of an ended batch, each read by its own `result_decoder`."""

    @abstractmethod
    def result_decoder(self) -> ResultDecoder:
        """Return a decoder of one download."""

    @abstractmethod
    def delete_files(self, status: BatchStatus) -> Sequence[HTTPRequest]:
        """Return the requests that delete what the provider stores of an ended batch. A 404 is as good as a success."""

    @abstractmethod
    def delete_file(self, file: str) -> HTTPRequest | None:
        """Return the request that deletes an uploaded file that belongs to no batch; None if there are no files."""


class JSONLResults:
    """A decoder of results that are one JSON object per line. `read` returns the result of one object.

    A line that cannot be read is a result without an id, with the error.
    """

    def __init__(self, read: Callable[[Mapping[str, Any]], BatchResult]) -> None:
        self._lines = JSONLines()
        self._read = read

    def feed(self, data: bytes) -> list[BatchResult]:
        """Return the results of the lines that `data` completes."""
        return [self._result(line) for line in self._lines.feed(data)]

    def close(self) -> list[BatchResult]:
        """Return the result of a last line without a line end. Raise `StreamTruncated` if it is a part of one."""
        return [self._result(line, last=True) for line in self._lines.close()]

    def _result(self, line: bytes, *, last: bool = False) -> BatchResult:
        try:
            return self._read(as_object(line))
        except MalformedEvent as error:
            if last:
                raise StreamTruncated("the batch's results broke off inside a line. Fetch them again.") from None
            return BatchResult("", error=error)


def as_object(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object in `body`. Raise `MalformedEvent` if it is anything else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        # The body may contain what the model wrote, or the key: its length is enough to recognize it.
        raise MalformedEvent(
            f"the service returned {len(body)} bytes that are no JSON object. Check that base_url is right."
        )
    return cast("Mapping[str, Any]", found)


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, or else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def objects_in(found: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects in the list in the field `name`; none if it is no list."""
    value = found.get(name)
    return [as_mapping(each) for each in cast("list[object]", value)] if isinstance(value, list) else []


def text_field(found: Mapping[str, Any], name: str) -> str:
    """Return the text in the field `name`. Raise `MalformedEvent` without one."""
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedEvent(
            f"the service returned an object without a text {name!r}; it has: {', '.join(sorted(found))[:200]}. "
            "Check that base_url is right."
        )
    return value


def optional_text(found: Mapping[str, Any], name: str) -> str | None:
    """Return the text in the field `name`, or None."""
    value = found.get(name)
    return value if isinstance(value, str) and value else None


def optional_count(found: Mapping[str, Any], name: str) -> int | None:
    """Return the count in the field `name`, or None."""
    value = found.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def unix_time(moment: str | None) -> float | None:
    """Return a time in RFC 3339 in seconds since 1970; None for anything else."""
    try:
        return datetime.fromisoformat(moment).timestamp() if moment is not None else None
    except ValueError:
        return None
