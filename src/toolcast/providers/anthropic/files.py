"""Files of Anthropic's API, uploaded as a form. Generally available since August 2026, without a beta header.

Source: https://platform.claude.com/docs/en/build-with-claude/files, and `client.files` of Anthropic's SDK 2.12.
"""

from __future__ import annotations

from ...values.http_request import HTTPRequest, HTTPResponse
from ..batch_codec import as_object, optional_count, optional_text, text_field, unix_time
from ..file_codec import Exchange, FileCodec, StoredFile, UploadContent, encode_form
from ..http_adapter import HTTPAdapter, path_segment


class AnthropicFiles(FileCodec):
    """The codec of files. They have no purposes.

    Args:
        adapter: The adapter of the service.
    """

    limit = 500 * 1024 * 1024
    lifetimes: tuple[int, int] | None = (3_600, 7_776_000)

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
        """Upload a file."""
        fields = {} if lifetime is None else {"expires_in_seconds": str(lifetime)}
        body, form = encode_form(fields, "file", name, content.read(0, content.size), media_type)
        del content  # which may be hundreds of megabytes
        response = yield self._adapter.service_request("POST", "/files", body=body, headers={"content-type": form})
        return self.read(response)

    def describe(self, id: str) -> HTTPRequest:
        """Return the request for the description of the file `id`."""
        return self._adapter.service_request("GET", f"/files/{path_segment(id)}")

    def read(self, response: HTTPResponse) -> StoredFile:
        """Return the file in the response to `describe`."""
        file = as_object(response.body)
        return StoredFile(
            text_field(file, "id"),
            optional_text(file, "filename"),
            optional_count(file, "size_bytes"),
            optional_text(file, "mime_type"),
            unix_time(optional_text(file, "created_at")),
            unix_time(optional_text(file, "expires_at")),
        )

    def fetch(self, id: str) -> HTTPRequest:
        """Return the request for the content of the file `id`. Only files that the service made have one."""
        path = f"/files/{path_segment(id)}/content"
        return self._adapter.service_request("GET", path, headers={"accept": "*/*"})

    def delete(self, id: str) -> HTTPRequest:
        """Return the request that deletes the file `id`."""
        return self._adapter.service_request("DELETE", f"/files/{path_segment(id)}")
