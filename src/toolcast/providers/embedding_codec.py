"""The interface of a provider's embeddings: the request for a batch of texts, and the vectors of its response. No I/O.

A codec makes the HTTP requests, with the credentials and the URL of its adapter, and reads their responses;
llms/embeddings/embed.py sends them. An adapter returns its codec from `HTTPAdapter.embeddings`. A response that has
not exactly one vector of finite numbers for each text is an error, as a vector in the wrong place would go unnoticed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from ..errors import BadRequest, MalformedEvent
from ..lazy.lazy_dataclasses import dataclass
from ..values.http_request import HTTPRequest, HTTPResponse
from .batch_codec import as_mapping, as_object

InputType: TypeAlias = Literal["document", "query", "similarity", "classification", "clustering"]
"""What the vectors are for: texts that are searched, or the text that searches them; ..."""

_LIST: Any = list  # typed as Any, so that isinstance does not narrow Any to an unknown type
_NUMBERS: Final = frozenset((float, int))


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """The options of a request for embeddings.

    Attributes:
        model: The model.
        dimensions: The length of the vectors; None: the model's own.
        input_type: What the vectors are for; None: the provider's default.
        truncate: Cut a text that is too long for the model, where the provider can.
        extra: Further fields of the request, in the provider's own words.
    """

    model: str
    dimensions: int | None = None
    input_type: InputType | None = None
    truncate: bool = False
    extra: Mapping[str, Any] | None = None


class EmbeddedBatch(NamedTuple):
    """The vectors of one response, with the tokens of its texts and the model where the provider reports them."""

    vectors: list[Any]
    input_tokens: int | None = None
    model: str | None = None


class EmbeddingCodec(ABC):
    """The codec of one provider's embeddings.

    Attributes:
        provider: The name of the provider.
        texts: The most texts of one request.
        tokens: The most tokens of one request, as they are estimated: the provider's limit with a margin. A longer text
            is sent alone.
    """

    provider: str
    texts: int
    tokens: int

    @abstractmethod
    def request(self, texts: Sequence[str], options: EmbeddingOptions) -> HTTPRequest:
        """Return the request for the vectors of `texts`. Raise `BadRequest` for options that the provider has not."""

    def read(self, response: HTTPResponse, count: int, options: EmbeddingOptions) -> EmbeddedBatch:
        """Return the vectors in the response to a request for those of `count` texts.

        Raises:
            MalformedEvent: There are not as many, or one is not a vector of finite numbers of the length that the
                options demand, if they do.
        """
        batch = self._read(as_object(response.body))
        if len(batch.vectors) != count:
            raise MalformedEvent(
                f"the service returned {len(batch.vectors)} embeddings for {count} texts. Send fewer texts at once, "
                "or check that the model makes embeddings."
            )
        for place, vector in enumerate(batch.vectors):
            check_vector(vector, place, options.dimensions)
        return batch

    @abstractmethod
    def _read(self, found: Mapping[str, Any]) -> EmbeddedBatch:
        """Return the vectors in a response, which are checked by `read`."""

    def refuse(self, option: str, value: object, instead: str) -> BadRequest:
        """Return the error for an option that the provider does not have."""
        return BadRequest(
            f"{option}={value!r}: {self.provider} has no such option for embeddings. {instead} Nothing was sent.",
            provider=self.provider,
        )


def check_input_type(input_type: object) -> None:
    """Raise `ValueError` for an unknown type of input."""
    if input_type is not None and input_type not in get_args(InputType):
        known = ", ".join(map(repr, get_args(InputType)))
        raise ValueError(f"input_type={input_type!r:.50}: expected one of {known}, or None")


def check_vector(vector: object, place: int, dimensions: int | None) -> None:
    """Raise `MalformedEvent` unless `vector` is a list of finite numbers, as many as `dimensions` if that is not None.

    Message and traceback contain nothing of the response.
    """
    numbers = cast("list[float]", vector)
    if not isinstance(vector, list) or not numbers or not _NUMBERS.issuperset(map(type, numbers)):
        raise MalformedEvent(
            f"the embedding of text {place} is no list of numbers. Check that the model makes embeddings."
        )
    try:
        finite = all(map(isfinite, numbers))
    except OverflowError:  # an integer of hundreds of digits
        finite = False
    if not finite:
        raise MalformedEvent(
            f"the embedding of text {place} has numbers that are not finite. Check the text: some servers return NaN "
            "for one that is empty or too long."
        )
    if dimensions is not None and len(numbers) != dimensions:
        raise MalformedEvent(
            f"the embedding of text {place} has {len(numbers)} numbers, not the {dimensions} that were asked for: the "
            "model does not support other lengths than its own. Leave out dimensions=."
        )


def vectors_in(found: Mapping[str, Any], *names: str) -> list[Any]:
    """Return the list at the path `names`. Raise `MalformedEvent` without one."""
    value: Any = found
    for name in names:
        value = as_mapping(value).get(name)
    if not isinstance(value, _LIST):
        raise MalformedEvent(
            f"the response has no embeddings: there is no list {'.'.join(names)!r}, but: "
            f"{', '.join(sorted(found))[:200] or 'nothing'}. Check the model and base_url."
        )
    vectors: list[Any] = value
    return vectors
