"""Embeddings of the Gemini API: `batchEmbedContents`, which has one vector for each of its requests.

Source: https://ai.google.dev/api/embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from ...http_request import HTTPRequest
from ..batch_codec import as_mapping, objects_in, optional_count
from ..embedding_codec import EmbeddedBatch, EmbeddingCodec, EmbeddingOptions, vectors_in
from ..http_adapter import HTTPAdapter, json_body

_TASKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "document": "RETRIEVAL_DOCUMENT",
        "query": "RETRIEVAL_QUERY",
        "similarity": "SEMANTIC_SIMILARITY",
        "classification": "CLASSIFICATION",
        "clustering": "CLUSTERING",
    }
)


class GoogleEmbeddings(EmbeddingCodec):
    """The codec of `batchEmbedContents`. At most 100 texts of one request."""

    texts: int = 100
    tokens: int = 100_000

    def __init__(self, adapter: HTTPAdapter) -> None:
        self.provider: str = adapter.provider
        self._adapter = adapter

    def request(self, texts: Sequence[str], options: EmbeddingOptions) -> HTTPRequest:
        """Return the request for the vectors of `texts`."""
        model = options.model if "/" in options.model else f"models/{options.model}"
        each: dict[str, Any] = {"model": model}
        if options.input_type is not None:
            each["taskType"] = _TASKS[options.input_type]
        if options.dimensions is not None:
            each["outputDimensionality"] = options.dimensions
        each |= options.extra or {}
        body = {"requests": [{**each, "content": {"parts": [{"text": text}]}} for text in texts]}
        path = f"/{quote(model, safe='/')}:batchEmbedContents"
        return self._adapter.service_request("POST", path, body=json_body(body))

    def _read(self, found: Mapping[str, Any]) -> EmbeddedBatch:
        vectors_in(found, "embeddings")
        vectors: list[Any] = [each.get("values") for each in objects_in(found, "embeddings")]
        return EmbeddedBatch(vectors, optional_count(as_mapping(found.get("usageMetadata")), "promptTokenCount"))
