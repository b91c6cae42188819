"""The part of a batch API that OpenAI's and Mistral's have in common: requests and results are files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from ...values.http_request import HTTPRequest, HTTPResponse
from ..batch_codec import BatchCodec, BatchResult, BatchStatus, JSONLResults, as_object
from ..file_codec import BytesContent, Exchange
from ..http_adapter import HTTPAdapter, path_segment
from .files import OpenAIFiles

TAG: Final = "toolcast"
"""The key of the tag in the metadata of a batch."""


class FileBatches(BatchCodec):
    """A codec of batches whose requests are uploaded as a file, and whose results are files too.

    Attributes:
        path: The path of the batches.

    Args:
        adapter: The adapter of the service.
        files: The codec of the service's files.
    """

    path: ClassVar[str]

    def __init__(self, adapter: HTTPAdapter, files: OpenAIFiles) -> None:
        self.provider: str = adapter.provider
        self._adapter = adapter
        self._files = files

    def upload(self, tag: str, lines: Sequence[bytes]) -> Exchange[str | None]:
        """Upload the requests of a batch; return the id of the file."""
        # Without a name here, the content is released once the body of the request has it.
        file = yield from self._files.upload(
            f"{tag}.jsonl", "application/jsonl", BytesContent(b"\n".join((*lines, b"")))
        )
        return file.id

    def status(self, id: str) -> HTTPRequest:
        """Return the request for the status of the batch `id`."""
        return self._adapter.service_request("GET", f"{self.path}/{path_segment(id)}")

    def read_status(self, response: HTTPResponse) -> BatchStatus:
        """Return the status in the response to `submit`, `status` or `cancel`."""
        return self._status(as_object(response.body))

    def cancel(self, id: str) -> HTTPRequest:
        """Return the request that cancels the batch `id`."""
        return self._adapter.service_request("POST", f"{self.path}/{path_segment(id)}/cancel")

    def downloads(self, status: BatchStatus) -> Sequence[HTTPRequest]:
        """Return the requests for the files with the results and with the errors of an ended batch."""
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

    @abstractmethod
    def _status(self, batch: Mapping[str, Any]) -> BatchStatus:
        """Return the status that the service describes."""

    @abstractmethod
    def _result(self, line: Mapping[str, Any]) -> BatchResult:
        """Return the result in one line of a file of results."""
