"""`TokenCount`, and the requests for it: the tokens of a request as the provider counts them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from ..errors import LLMError
from ..http_request import HTTPRequest
from ..lazy_dataclasses import dataclass
from ..providers.file_codec import Exchange
from ..retries import RetryPolicy
from ..settings import Timeouts
from ..transport.network import IOBackend
from ..transport.transport_errors import scrub_exception
from .request import ChatRequest
from .service_requests import run_exchange
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


class CountingLLM(Protocol):
    """The properties of an LLM that counts tokens by requests."""

    @property
    def retry_policy(self) -> RetryPolicy: ...

    async def authorize(self, request: HTTPRequest, backend: IOBackend) -> HTTPRequest:
        """Return `request` with the headers of its authentication."""
        ...

    def renew(self, request: HTTPRequest) -> bool:
        """Return True if `request`, which was refused with status 401, may be sent again with other credentials."""
        ...


class ErrorReader(Protocol):
    """The part of an adapter that reads errors."""

    @property
    def provider(self) -> str: ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """Return the exception for a response with a status of 300 or more."""
        ...


class ServiceTarget:
    """The service of an LLM, as the target of requests beside chat."""

    def __init__(self, llm: CountingLLM, adapter: ErrorReader, timeouts: Timeouts) -> None:
        self.timeouts: Timeouts = timeouts
        self.retry_policy: RetryPolicy = llm.retry_policy
        self._llm, self._adapter = llm, adapter

    async def authorize(self, request: HTTPRequest, backend: IOBackend) -> HTTPRequest:
        """Return `request` with the headers of its authentication."""
        return await self._llm.authorize(request, backend)

    def renew(self, request: HTTPRequest) -> bool:
        """Return True if `request`, which was refused with status 401, may be sent again with other credentials."""
        return self._llm.renew(request)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """Return the exception for a response with a status of 300 or more."""
        return self._adapter.error(status, headers, body)


def check_method(method: str) -> None:
    """Raise `ValueError` for an unknown method."""
    if method not in ("provider", "estimate"):
        raise ValueError(f"method={method!r:.50}: expected 'provider' or 'estimate'")


def estimated_count(request: ChatRequest) -> TokenCount:
    """Return an estimate of the input tokens of `request`."""
    tools = () if request.tool_choice == "none" else [tool.spec for tool in request.tools]
    return TokenCount(estimate_input_tokens(request.messages, tools), estimated=True)


async def provider_count(
    llm: CountingLLM,
    adapter: ErrorReader,
    exchange: Exchange[int],
    *,
    model: str,
    timeouts: Timeouts,
    backend: IOBackend,
) -> TokenCount:
    """Return the tokens that the requests of `exchange` count. Raise `LLMError` if one fails."""
    before = sys.exception()
    try:
        target = ServiceTarget(llm, adapter, timeouts)
        tokens = await run_exchange(target, exchange, backend, repeatable=True, total=timeouts.total)
    except LLMError as error:
        scrub_exception(error, None, before)
        error.provider, error.model = error.provider or adapter.provider, error.model or model
        raise
    return TokenCount(tokens, estimated=False)
