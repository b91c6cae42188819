"""`TokenCount`, and the requests for it: the tokens of a request as the provider counts them."""

from __future__ import annotations

import sys
from typing import Literal, TypeAlias

from ..errors import LLMError
from ..lazy.lazy_dataclasses import dataclass
from ..providers.base import ProviderAdapter
from ..providers.file_codec import Exchange
from ..transport.transport_errors import scrub_exception
from .http.service import Service
from .request import ChatRequest
from .token_estimates import estimate_input_tokens

CountMethod: TypeAlias = Literal["provider", "estimate"]
"""`"provider"`: ask the provider, if it has an endpoint; `"estimate"`: never send anything."""


@dataclass(frozen=True, slots=True)
class TokenCount:
    """The number of input tokens of a request.

    Attributes:
        tokens: The tokens.
        estimated: True if they were estimated here, False if the provider has counted them.
    """

    tokens: int
    estimated: bool


def check_method(method: str) -> None:
    """Raise `ValueError` for an unknown method."""
    if method not in ("provider", "estimate"):
        raise ValueError(f"method={method!r:.50}: expected 'provider' or 'estimate'")


def estimated_count(request: ChatRequest) -> TokenCount:
    """Return an estimate of the input tokens of `request`."""
    tools = () if request.tool_choice == "none" else [tool.spec for tool in request.tools]
    return TokenCount(estimate_input_tokens(request.messages, tools), estimated=True)


async def provider_count(service: Service[ProviderAdapter], exchange: Exchange[int], model: str) -> TokenCount:
    """Return the tokens that the requests of `exchange` count. Raise `LLMError` if one fails."""
    before = sys.exception()
    try:
        tokens = await service.run(exchange, repeatable=True, total=service.timeouts.total)
    except LLMError as error:
        scrub_exception(error, None, before)
        error.provider, error.model = error.provider or service.adapter.provider, error.model or model
        raise
    return TokenCount(tokens, estimated=False)
