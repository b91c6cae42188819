"""Files of Mistral's API, which messages refer to by signed URLs.

Source: https://docs.mistral.ai/api/endpoint/files and https://docs.mistral.ai/capabilities/document_ai/document_qna.
"""

from __future__ import annotations

from typing import Final

from ...values.http_request import HTTPRequest, HTTPResponse
from ..batch_codec import as_object, text_field
from ..chat_completions.files import OpenAIFiles
from ..http_adapter import HTTPAdapter, path_segment

_HOURS: Final = 24  # the default of the service, which allows up to a week


class MistralFiles(OpenAIFiles):
    """The codec of files. The unit of their lifetime is not documented, so that it cannot be chosen.

    Args:
        adapter: The adapter of the service.
    """

    lifetimes: tuple[int, int] | None = None
    link_lifetime = _HOURS * 3600

    def __init__(self, adapter: HTTPAdapter) -> None:
        super().__init__(adapter, purpose="ocr")

    def link(self, id: str) -> HTTPRequest:
        """Return the request for a signed URL of the file `id`, which is valid for a day."""
        return self._adapter.service_request("GET", f"/files/{path_segment(id)}/url", query={"expiry": str(_HOURS)})

    def read_link(self, response: HTTPResponse) -> str:
        """Return the signed URL in the response to `link`."""
        return text_field(as_object(response.body), "url")
