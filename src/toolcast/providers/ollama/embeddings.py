"""Embeddings of Ollama: `/api/embed`.

Source: https://docs.ollama.com/api/embed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...values.http_request import HTTPRequest
from ..batch_codec import optional_count, optional_text
from ..embedding_codec import EmbeddedBatch, EmbeddingCodec, EmbeddingOptions, vectors_in
from ..http_adapter import HTTPAdapter, json_body


class OllamaEmbeddings(EmbeddingCodec):
    """The codec of `/api/embed`. Ollama has no limits of its own; large batches would only hide how far it is."""

    texts: int = 64
    tokens: int = 50_000

    def __init__(self, adapter: HTTPAdapter) -> None:
        self.provider: str = adapter.provider
        self._adapter = adapter

    def request(self, texts: Sequence[str], options: EmbeddingOptions) -> HTTPRequest:
        """Return the request for the vectors of `texts`. There are no types of input."""
        # Its default cuts the text.
        body: dict[str, Any] = {"model": options.model, "input": texts, "truncate": options.truncate}
        if options.dimensions is not None:
            body["dimensions"] = options.dimensions
        return self._adapter.service_request("POST", "/api/embed", body=json_body({**body, **(options.extra or {})}))

    def _read(self, found: Mapping[str, Any]) -> EmbeddedBatch:
        vectors: list[Any] = vectors_in(found, "embeddings")
        return EmbeddedBatch(vectors, optional_count(found, "prompt_eval_count"), optional_text(found, "model"))
