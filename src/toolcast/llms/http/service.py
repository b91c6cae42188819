"""`Service`: the service of an LLM, for requests beside chat: files, batches, embeddings, caches, token counts.

Written once for sync and async calls. All requests use the network, the retries, the credentials and the error classes
of the LLM. A redirect is an error: it is not followed, so that no key goes to another origin.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeGuard, TypeVar, cast

from ...errors import ConnectFailed, LimitExceeded, LLMError, UnsupportedLLMError
from ...lazy.lazy_dataclasses import dataclass
from ...messages import FileRef
from ...providers.base import ProviderAdapter, RequestInput
from ...providers.file_codec import Exchange
from ...providers.http_adapter import HTTPAdapter
from ...transport.network import Body, IOBackend
from ...transport.transport_errors import scrub_exception
from ...values.capabilities import LLMMetadata
from ...values.hooks import Hooks
from ...values.http_request import HTTPRequest, HTTPResponse
from ...values.retries import RetryPolicy, next_wait
from ...values.settings import Timeouts
from ...values.usage import Usage
from ..request_gate import RequestOrigin
from .http_attempt import Authentication, TimeLimits, authorized, connected, read_content, refusal

T = TypeVar("T")
A = TypeVar("A", bound=ProviderAdapter)

RESPONSE_LIMIT = 64 * 1024 * 1024
"""The size limit of a whole response in bytes. Larger ones are downloaded in chunks."""

_REPEATABLE: Final = frozenset(("GET", "HEAD", "PUT", "DELETE"))  # RFC 9110, 9.2.2


class HTTPLLM(Protocol):
    """An LLM behind HTTP, as its requests need it: what `ServiceLLM` has."""

    model: str
    hooks: tuple[Hooks, ...]
    retry_policy: RetryPolicy
    keep_raw: bool
    uploads: dict[tuple[str, ...], FileRef]

    @property
    def metadata(self) -> LLMMetadata: ...
    @property
    def adapter(self) -> ProviderAdapter: ...
    @property
    def timeouts(self) -> Timeouts:
        """The time limits of a request, where its call sets none."""
        ...

    @property
    def authentication(self) -> Authentication | None:
        """Credentials that change; None if the adapter has all of them."""
        ...

    @property
    def request_origin(self) -> RequestOrigin:
        """The service, the model and the credentials of the requests."""
        ...

    async def prepare(
        self, conversation: RequestInput, backend: IOBackend, limit: float | None = None
    ) -> ProviderAdapter:
        """Return the adapter, once the service is ready for requests. `limit`: the seconds that the call has left."""
        ...

    def warn_of_dropped_settings(self, request: HTTPRequest) -> None:
        """Log the settings that `request` leaves out."""
        ...


class HTTPClient(Protocol):
    """A client of an LLM behind HTTP, as its requests need it: what `ServiceClient` has."""

    @property
    def llm(self) -> HTTPLLM: ...

    def price(self, usage: Usage, model: str | None = None) -> Usage:
        """Return the usage of one request with its prices. `model` is the one that the response names."""
        ...


@dataclass(slots=True, eq=False)
class Service(Generic[A]):
    """The service of an LLM, ready for requests.

    Attributes:
        adapter: The adapter, which makes the requests and reads errors.
        backend: The network and the clock.
        timeouts: The time limits of a request.
        retry_policy: The retries of a request.
        authentication: Credentials that are not in the adapter's headers; None without them.
    """

    adapter: A
    backend: IOBackend
    timeouts: Timeouts
    retry_policy: RetryPolicy
    authentication: Authentication | None = None

    async def send(
        self,
        request: HTTPRequest,
        *,
        repeatable: bool | None = None,
        limit: int = RESPONSE_LIMIT,
        total: float | None = None,
        limits: TimeLimits | None = None,
    ) -> HTTPResponse:
        """Send `request` and return its response.

        Args:
            request: The request.
            repeatable: The request may be sent again where it is unknown if the service has processed it. Default: by
                its method (RFC 9110, 9.2.2), so that nothing is created twice.
            limit: The size limit of the response in bytes.
            total: The limit of the request with its retries in seconds. Default: none, as uploads take their time.
            limits: The time limits of a call that the request belongs to, in place of its own.

        Raises:
            LLMError: The service refused the request, or the connection failed, after the retries of the policy.
            LimitExceeded: The response is longer than `limit`.
        """

        async def receive(body: Body, _: HTTPRequest, limits: TimeLimits) -> HTTPResponse:
            try:
                content = await read_content(body, limits, limit)
            finally:
                await body.close()
            if len(content) > limit:
                raise LimitExceeded(f"the service sent more than {limit} bytes in response to {request.url}")
            return HTTPResponse(body.status, body.headers, content)

        return await self._received(request, receive, limits or self._limits(total), repeatable=repeatable)

    async def run(self, exchange: Exchange[T], *, repeatable: bool | None = None, total: float | None = None) -> T:
        """Send the requests of `exchange` and return its result. `repeatable` and `total` are those of `send`.

        Its steps read and encode whole files, so that under an event loop they run in a worker thread.

        Raises:
            LLMError: A request failed, and the exchange cannot go on after it.
        """
        found: HTTPRequest | _Result[T] = await self._step(exchange.__next__)
        while not isinstance(found, _Result):
            try:
                response = await self.send(found, repeatable=repeatable, total=total)
            except LLMError as error:
                found = await self._step(partial(exchange.throw, error))
            else:
                found = await self._step(partial(exchange.send, response))
        return found.value

    async def download(self, request: HTTPRequest, limits: TimeLimits | None = None) -> Download:
        """Send `request` and return the body of its response, once the headers have arrived.

        `limits` are those of a call that it belongs to.

        Raises:
            LLMError: The service refused the request, or the connection failed, after the retries of the policy.
        """

        async def receive(body: Body, sent: HTTPRequest, limits: TimeLimits) -> Download:
            return Download(body, sent, limits)

        return await self._received(request, receive, limits or self._limits(None), repeatable=True)

    def wait_after(self, error: LLMError, retries_used: int, deadline: float | None = None) -> float | None:
        """Return the seconds until the next attempt; None if `error` is to be raised."""
        policy, now, chance = self.retry_policy, self.backend.now(), random.random()
        return next_wait(policy, error, retries_used=retries_used, now=now, deadline=deadline, chance=chance)

    def _limits(self, total: float | None) -> TimeLimits:
        now = self.backend.now
        if total is None:
            return TimeLimits(self.timeouts, now)
        return TimeLimits(replace(self.timeouts, total=total), now, now() + total)

    async def _received(
        self,
        request: HTTPRequest,
        receive: Callable[[Body, HTTPRequest, TimeLimits], Awaitable[T]],
        limits: TimeLimits,
        *,
        repeatable: bool | None,
    ) -> T:
        """Send `request` until `receive` returns what its response is for; raise the error of the last attempt."""
        repeatable = request.method in _REPEATABLE if repeatable is None else repeatable
        before, backend, used, renewed = sys.exception(), self.backend, 0, False
        while True:
            limits.begin()
            sent = await self._authorized(request, limits)
            try:
                body = await connected(sent, backend, limits)
                if body.status < 300:
                    return await receive(body, sent, limits)
                try:
                    raise await refusal(self.adapter, body, backend, limits)
                finally:
                    await body.close()
            except LLMError as error:
                scrub_exception(error, sent, before)
                if error.status == 401 and not renewed and self.authentication and self.authentication.renew(sent):
                    renewed = True
                    continue
                if not (repeatable or _is_unprocessed(error)):
                    raise
                if (wait := self.wait_after(error, used, limits.deadline)) is None:
                    raise
                used += 1
            await backend.sleep(wait)

    async def _authorized(self, request: HTTPRequest, limits: TimeLimits) -> HTTPRequest:
        """Return `request` with its credentials, unless it goes to another origin."""
        is_own = not isinstance(self.adapter, HTTPAdapter) or self.adapter.is_own(request)
        if self.authentication is None or not is_own:
            return request
        return await authorized(self.authentication, request, self.backend, limits)

    async def _step(self, proceed: Callable[[], HTTPRequest]) -> HTTPRequest | _Result[Any]:
        if not self.backend.concurrent:
            return _proceed(proceed)
        import anyio.to_thread

        return await anyio.to_thread.run_sync(_proceed, proceed)


class Download:
    """The body of a response, which is still arriving."""

    def __init__(self, body: Body, request: HTTPRequest, limits: TimeLimits) -> None:
        self.body: Body = body
        self._request = request
        self._limits = limits

    async def read(self) -> bytes:
        """Return the next chunk, or `b""` at the end. Raise `LLMError` if the connection fails."""
        before = sys.exception()
        try:
            data = await self.body.read(self._limits.of_read())
        except (LLMError, TimeoutError) as error:
            failure = error if isinstance(error, LLMError) else self._limits.exceeded()
            scrub_exception(failure, self._request, before)
            raise failure from error.__cause__
        self._limits.first_token_by = None
        return data

    async def close(self) -> None:
        """Release the connection. Idempotent."""
        await self.body.close()


def has_service(llm: object) -> TypeGuard[HTTPLLM]:
    """Return True for an LLM of one service behind HTTP. The embedded model is none: `prepare` would start it."""
    return bool(getattr(llm, "has_service", False))


async def service_of(llm: object, backend: IOBackend) -> Service[HTTPAdapter]:
    """Return the service of `llm`.

    Raises:
        UnsupportedLLMError: It is not an LLM behind HTTP.
        AuthFailed: The service needs a key, and there is none.
    """
    if has_service(llm):
        adapter = await llm.prepare(RequestInput(llm.model, ()), backend)
        if isinstance(adapter, HTTPAdapter):
            return service_by(llm, adapter, backend)
    raise UnsupportedLLMError(
        f"{type(llm).__name__} is no LLM of one service, so it has no files, batches and embeddings. "
        "Pass the provider's own LLM."
    )


def service_by(llm: HTTPLLM, adapter: A, backend: IOBackend, timeouts: Timeouts | None = None) -> Service[A]:
    """Return the service of `llm` for requests that `adapter` makes. `timeouts`: those of the call it belongs to."""
    return Service(adapter, backend, timeouts or llm.timeouts, llm.retry_policy, llm.authentication)


def _is_unprocessed(error: LLMError) -> bool:
    """Return True if the service has certainly not processed the request: no connection, or too many requests."""
    # Not after a 503, which may come from a proxy that has lost the service's response.
    return isinstance(error, ConnectFailed) or error.status == 429


@dataclass(frozen=True, slots=True)
class _Result(Generic[T]):
    """The result of an exchange. A `StopIteration` cannot be raised through a worker thread."""

    value: T


def _proceed(proceed: Callable[[], HTTPRequest]) -> HTTPRequest | _Result[Any]:
    try:
        return proceed()
    except StopIteration as end:
        return _Result(cast("object", end.value))
