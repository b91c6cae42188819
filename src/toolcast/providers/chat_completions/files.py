"""Files of OpenAI and of the services with the same endpoints, uploaded as a form.

Source: https://platform.openai.com/docs/api-reference/files, https://docs.mistral.ai/api/endpoint/files and
https://docs.x.ai/developers/rest-api-reference/files/upload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...values.http_request import HTTPRequest, HTTPResponse
from ..batch_codec import as_object, optional_count, optional_text, text_field
from ..file_codec import Exchange, FileCodec, FileState, StoredFile, UploadContent, encode_form
from ..http_adapter import HTTPAdapter, path_segment

_STATES: Final[Mapping[str, FileState]] = {"error": "failed"}


class OpenAIFiles(FileCodec):
    """The codec of files.

    Args:
        adapter: The adapter of the service.
        limit: The size limit of one file in bytes.
        purpose: The default purpose of a file.
    """

    lifetimes: tuple[int, int] | None = (3_600, 2_592_000)

    def __init__(self, adapter: HTTPAdapter, *, limit: int = 512 * 1024 * 1024, purpose: str = "batch") -> None:
        self.provider: str = adapter.provider
        self.limit: int = limit
        self.purpose: str = purpose
        self._adapter = adapter

    def upload(
        self,
        name: str,
        media_type: str,
        content: UploadContent,
        purpose: str | None = None,
        lifetime: int | None = None,
    ) -> Exchange[StoredFile]:
        """Upload a file."""
        fields = {"purpose": purpose or self.purpose}
        if lifetime is not None:
            fields |= {"expires_after[anchor]": "created_at", "expires_after[seconds]": str(lifetime)}
        body, form = encode_form(fields, "file", name, content.read(0, content.size), media_type)
        del content  # which may be hundreds of megabytes
        response = yield self._adapter.service_request("POST", "/files", body=body, headers={"content-type": form})
        return self.read(response)

    def describe(self, id: str) -> HTTPRequest:
        """Return the request for the description of the file `id`."""
        return self._adapter.service_request("GET", f"/files/{path_segment(id)}")

    def read(self, response: HTTPResponse) -> StoredFile:
        """Return the file in the response to `describe`."""
        file: Mapping[str, Any] = as_object(response.body)
        return StoredFile(
            text_field(file, "id"),
            optional_text(file, "filename"),
            optional_count(file, "bytes"),
            optional_text(file, "mimetype"),
            optional_count(file, "created_at"),
            optional_count(file, "expires_at"),
            _STATES.get(str(file.get("status")), "ready"),
        )

    def fetch(self, id: str) -> HTTPRequest:
        """Return the request for the content of the file `id`."""
        path = f"/files/{path_segment(id)}/content"
        return self._adapter.service_request("GET", path, headers={"accept": "*/*"})

    def delete(self, id: str) -> HTTPRequest:
        """Return the request that deletes the file `id`."""
        return self._adapter.service_request("DELETE", f"/files/{path_segment(id)}")
