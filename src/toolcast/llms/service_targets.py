"""The service of an LLM as the target of requests beside chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeGuard

from ..errors import LLMError, UnsupportedLLMError
from ..http_request import HTTPRequest
from ..messages import FileRef
from ..providers.base import ProviderAdapter, RequestInput
from ..providers.http_adapter import HTTPAdapter
from ..retries import RetryPolicy
from ..settings import Settings, Timeouts
from ..transport.network import IOBackend


class TargetLLM(Protocol):
    """The properties of an LLM behind HTTP (`has_service`) that requests beside chat need."""

    model: str
    uploads: dict[tuple[str, ...], FileRef]

    @property
    def retry_policy(self) -> RetryPolicy: ...
    def merge_settings(self, settings: Settings | None) -> Settings:
        """Return `settings` over the LLM's."""
        ...

    async def prepare(self, conversation: RequestInput, backend: IOBackend) -> ProviderAdapter:
        """Return the adapter. Raise `AuthFailed` if the service needs a key and there is none."""
        ...

    async def authorize(self, request: HTTPRequest, backend: IOBackend) -> HTTPRequest:
        """Return `request` with the headers of its authentication."""
        ...

    def renew(self, request: HTTPRequest) -> bool:
        """Return True if `request`, which was refused with status 401, may be sent again with other credentials."""
        ...


class LLMTarget:
    """The service of an LLM, as the target of requests beside chat.

    Attributes:
        adapter: The LLM's adapter, which makes the requests (`service_request`, `linked_request`).
    """

    def __init__(self, llm: TargetLLM, adapter: HTTPAdapter) -> None:
        self.adapter: HTTPAdapter = adapter
        self.retry_policy: RetryPolicy = llm.retry_policy
        self.timeouts: Timeouts = llm.merge_settings(None).timeouts
        self._llm = llm

    async def authorize(self, request: HTTPRequest, backend: IOBackend) -> HTTPRequest:
        """Return `request` with the headers of the LLM's `auth`, unless it goes to another origin."""
        return await self._llm.authorize(request, backend) if self.adapter.is_own(request) else request

    def renew(self, request: HTTPRequest) -> bool:
        """Return True if `request`, which was refused with status 401, may be sent again with other credentials."""
        return self._llm.renew(request)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """Return the exception for a response with a status of 300 or more."""
        return self.adapter.error(status, headers, body)


def has_service(llm: object) -> TypeGuard[TargetLLM]:
    """Return True for an LLM of one service behind HTTP. The embedded model is none: `prepare` would start it."""
    return bool(getattr(llm, "has_service", False))


async def llm_target(llm: object, backend: IOBackend) -> LLMTarget:
    """Return the service of `llm` as the target of requests.

    Raises:
        UnsupportedLLMError: It is no LLM behind HTTP.
        AuthFailed: The service needs a key, and there is none.
    """
    if has_service(llm):
        adapter = await llm.prepare(RequestInput(llm.model, ()), backend)
        if isinstance(adapter, HTTPAdapter):
            return LLMTarget(llm, adapter)
    raise UnsupportedLLMError(
        f"{type(llm).__name__} is no LLM of one service, so it has no files, batches and embeddings. "
        "Pass the provider's own LLM."
    )
