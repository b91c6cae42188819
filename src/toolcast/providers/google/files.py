"""Files of the Gemini API, uploaded by the resumable protocol: a start, then the content in parts.

Source: https://ai.google.dev/api/files and https://ai.google.dev/gemini-api/docs/files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from ...errors import LLMError, MalformedEvent
from ...values.http_request import HTTPRequest, HTTPResponse
from ..batch_codec import as_mapping, as_object, optional_text, text_field, unix_time
from ..file_codec import Exchange, FileCodec, FileState, StoredFile, UploadContent
from ..http_adapter import HTTPAdapter, path_segment

CHUNK: Final = 8 * 1024 * 1024
"""The bytes of a part: a multiple of 256 KiB, as the protocol demands of all parts but the last."""

_RESUMES: Final = 3
_STATES: Final[Mapping[str, FileState]] = {"PROCESSING": "processing", "FAILED": "failed"}


class GoogleFiles(FileCodec):
    """The codec of files of the Gemini API, which are deleted by the service after 48 hours.

    Its ids are names such as `files/abc-123`, which an `https` URL of the service stands for in requests.
    """

    limit = 2 * 1024**3
    repeatable = False  # a part that has arrived is refused the second time

    def __init__(self, adapter: HTTPAdapter) -> None:
        self.provider: str = adapter.provider
        self._adapter = adapter

    def upload(
        self,
        name: str,
        media_type: str,
        content: UploadContent,
        purpose: str | None = None,
        lifetime: int | None = None,
    ) -> Exchange[StoredFile]:
        """Upload a file in parts. A part that failed is continued from where the service has received it."""
        response = yield self._start(name, media_type, content.size)
        url = response.headers.get("x-goog-upload-url", "")
        sent, resumes = 0, 0
        while True:
            data = content.read(sent, CHUNK)
            last = sent + len(data) >= content.size
            try:
                response = yield self._part(url, "upload, finalize" if last else "upload", sent, data)
                sent += len(data)
            except LLMError as error:
                if not error.retryable or resumes == _RESUMES:
                    raise
                resumes += 1
                response = yield self._part(url, "query")
                sent = _received(response, content.size)
            state = response.headers.get("x-goog-upload-status")
            if state == "final":
                return _stored(as_mapping(as_object(response.body).get("file")))
            if state != "active" or sent >= content.size:
                raise MalformedEvent(
                    f"the service answered an upload with the status {state!r} after {sent} of {content.size} bytes; "
                    "expected 'active' or 'final'. Try again."
                )

    def describe(self, id: str) -> HTTPRequest:
        """Return the request for the description of the file `id`."""
        return self._adapter.service_request("GET", resource_path("files", id))

    def read(self, response: HTTPResponse) -> StoredFile:
        """Return the file in the response to `describe`."""
        return _stored(as_object(response.body))

    def fetch(self, id: str) -> HTTPRequest:
        """Return the request for the content of the file `id`. Only files of the service's own have one."""
        path = f"{resource_path('files', id)}:download"
        return self._adapter.service_request("GET", path, query={"alt": "media"}, headers={"accept": "*/*"})

    def delete(self, id: str) -> HTTPRequest:
        """Return the request that deletes the file `id`."""
        return self._adapter.service_request("DELETE", resource_path("files", id))

    def _start(self, name: str, media_type: str, size: int) -> HTTPRequest:
        # The version of the API stands before the path: https://host/upload/v1beta/files.
        root, mark, query = self._adapter.service_root.partition("?")
        url = re.sub(r"(/v\d[^/]*)/*\Z", r"/upload\1/files", root) + mark + query
        headers = {
            "x-goog-upload-protocol": "resumable",
            "x-goog-upload-command": "start",
            "x-goog-upload-header-content-length": str(size),
            "x-goog-upload-header-content-type": media_type,
        }
        body = json.dumps({"file": {"displayName": name, "mimeType": media_type}}).encode()
        return self._adapter.linked_request("POST", url, body=body, headers=headers)

    def _part(self, url: str, command: str, offset: int | None = None, data: bytes = b"") -> HTTPRequest:
        headers = {"x-goog-upload-command": command, "content-type": "application/octet-stream"}
        if offset is not None:
            headers["x-goog-upload-offset"] = str(offset)
        return self._adapter.linked_request("POST", url, body=data, headers=headers)


def resource_path(kind: str, name: str) -> str:
    """Return the path of a resource, such as `/files/abc` for `files/abc`. Raise `MalformedEvent` for another kind."""
    start, _, id = name.partition("/")
    if start != kind or "/" in id:
        raise MalformedEvent(
            f"the service returned the name {quote(name)!r:.100}; expected {kind}/ID. Check that base_url is right."
        )
    return f"/{kind}/{path_segment(id)}"


def whole_number(value: Any) -> int | None:
    """Return an integer, which JSON of Google's services has as text if it is one of 64 bits."""
    return int(value) if isinstance(value, (int, str)) and re.fullmatch(r"\d{1,18}", str(value)) else None


def _received(response: HTTPResponse, size: int) -> int:
    """Return the number of bytes that the service has received."""
    received = whole_number(response.headers.get("x-goog-upload-size-received"))
    if response.headers.get("x-goog-upload-status") == "final":
        return size
    if received is None or received > size:
        raise MalformedEvent("the service did not return how much of the upload it has received. Try again.")
    return received


def _stored(file: Mapping[str, Any]) -> StoredFile:
    return StoredFile(
        text_field(file, "name"),
        optional_text(file, "displayName"),
        whole_number(file.get("sizeBytes")),
        optional_text(file, "mimeType"),
        unix_time(optional_text(file, "createTime")),
        unix_time(optional_text(file, "expirationTime")),
        _STATES.get(str(file.get("state")), "ready"),
        optional_text(file, "uri"),
    )
