"""Anthropic's Messages protocol on Vertex AI: the model is in the URL, the version of the protocol in the body.

There are no batches and no files. Source: platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai, and
`AnthropicVertex` of Anthropic's SDK, as of November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final
from urllib.parse import quote

from ...values.credentials import GOOGLE_VARIABLES, Secret, SecretURL
from ...values.settings import Settings
from ..base import RequestInput, RequestOptions
from ..batch_codec import BatchCodec
from ..file_codec import Exchange, FileCodec
from ..http_adapter import Endpoint, join_url
from .adapter import AnthropicAdapter, AnthropicRequestEncoder

VERSION: Final = "vertex-2023-10-16"


class AnthropicVertexAdapter(AnthropicAdapter):
    """An adapter for the models of Anthropic in one project and location of Vertex AI.

    Args:
        base_url: The URL of Vertex AI, up to its version (`/v1`).
        project: The project of Google Cloud.
        location: The location.
        token: An access token, sent as `Authorization: Bearer`; without one, requests are to be authorized.
        headers: Additional headers of every request, such as `anthropic-beta`; they override the adapter's own.
    """

    fixed_headers: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        *,
        base_url: str,
        project: str,
        location: str,
        token: Secret | None = None,
        headers: Mapping[str, str | Secret] | None = None,
    ) -> None:
        path = f"/projects/{quote(project, safe=':')}/locations/{quote(location, safe='')}/publishers/anthropic/models"
        url = SecretURL(join_url(base_url, path))
        super().__init__(endpoint=Endpoint("anthropic-vertex", url, token, headers or {}, key_env=GOOGLE_VARIABLES))

    @property
    def service_root(self) -> str:
        """The URL that the names of models follow, with any credentials."""
        return self._endpoint.url.reveal()

    def url(self, request_input: RequestInput) -> SecretURL:
        """Return the URL of the model."""
        root, mark, query = self.service_root.partition("?")
        method = "streamRawPredict" if request_input.stream else "rawPredict"
        return SecretURL(f"{root}/{quote(request_input.model, safe='@')}:{method}{mark}{query}")

    def batches(self) -> BatchCodec | None:
        """Return None: Vertex AI has another batch API."""
        return None

    def files(self) -> FileCodec | None:
        """Return None: Vertex AI does not store files for Claude."""
        return None

    @property
    def takes_files(self) -> bool:
        """False."""
        return False

    def count_tokens(self, request_input: RequestInput, settings: Settings) -> Exchange[int]:
        """Return the request that counts the input tokens of a request."""
        from ..token_counters import count_adapted, count_by_anthropic_on_vertex

        def count() -> Exchange[int]:
            return count_by_anthropic_on_vertex(self.request(request_input, settings), self.post, request_input.model)

        return count_adapted(count, lambda refusal: self.adapt_to(refusal, request_input, settings))

    def _encoder(self, options: RequestOptions, settings: Settings) -> AnthropicRequestEncoder:
        return _VertexRequestEncoder(options, settings)


class _VertexRequestEncoder(AnthropicRequestEncoder):
    """The part of a request on Vertex AI that does not depend on its messages."""

    protocol: ClassVar[str] = "anthropic-vertex"

    def __init__(self, options: RequestOptions, settings: Settings) -> None:
        super().__init__(options, settings)
        del self.fields["model"]
        self.fields["anthropic_version"] = VERSION
        if self.fields.pop("service_tier", None) is not None:
            self.notes.append("service_tier")
