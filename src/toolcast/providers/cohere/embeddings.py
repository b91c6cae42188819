"""Cohere's embeddings. Source: https://docs.cohere.com/v2/reference/embed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ...values.http_request import HTTPRequest
from ..batch_codec import as_mapping
from ..embedding_codec import EmbeddedBatch, EmbeddingCodec, EmbeddingOptions, vectors_in
from ..http_adapter import HTTPAdapter, json_body

_INPUT_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "document": "search_document",
        "query": "search_query",
        "classification": "classification",
        "clustering": "clustering",
    }
)


class CohereEmbeddings(EmbeddingCodec):
    """The codec of Cohere's `/v2/embed`. At most 96 texts of one request; `input_type` is required there."""

    texts: int = 96
    tokens: int = 100_000

    def __init__(self, adapter: HTTPAdapter, path: str = "/v2/embed") -> None:
        self.provider: str = adapter.provider
        self._adapter = adapter
        self._path = path

    def request(self, texts: Sequence[str], options: EmbeddingOptions) -> HTTPRequest:
        """Return the request for the vectors of `texts`, which are documents by default."""
        wanted = options.input_type or "document"
        if wanted not in _INPUT_TYPES:
            raise self.refuse("input_type", wanted, f"There are: {', '.join(map(repr, _INPUT_TYPES))}.")
        body: dict[str, Any] = {
            "model": options.model,
            "texts": texts,
            "input_type": _INPUT_TYPES[wanted],
            "embedding_types": ["float"],
            # Its default cuts the text.
            "truncate": "END" if options.truncate else "NONE",
        }
        if options.dimensions is not None:
            body["output_dimension"] = options.dimensions
        return self._adapter.service_request("POST", self._path, body=json_body({**body, **(options.extra or {})}))

    def _read(self, found: Mapping[str, Any]) -> EmbeddedBatch:
        billed = as_mapping(as_mapping(found.get("meta")).get("billed_units")).get("input_tokens")
        tokens = int(billed) if isinstance(billed, (int, float)) else None  # documented as a float
        return EmbeddedBatch(vectors_in(found, "embeddings", "float"), tokens)
