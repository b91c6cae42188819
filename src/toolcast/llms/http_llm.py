"""`ServiceLLM`: the base class of the LLMs behind HTTP.

It has their options, authentication and headers, imports the provider's adapter on first use, and leaves credentials
out of pickles.
"""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypedDict, cast

from typing_extensions import TypeVar, Unpack

from ..errors import AuthFailed, BadRequest, ToolcastError
from ..providers.base import ProviderAdapter, RequestInput, ResponseDecoder
from ..providers.tool_calls.json_calls import JSONTextDecoder
from ..providers.tool_calls.prompted_calls import PromptedCalls
from ..transport.network import IOBackend, is_sent_to
from ..transport.network_choice import NetworkChoice
from ..values.capabilities import Capabilities, LLMMetadata
from ..values.credentials import Secret, SecretURL, missing_api_key, protect_headers, read_api_key
from ..values.hooks import Hooks
from ..values.http_request import HTTPRequest, is_at
from ..values.option_suggestions import refuse_unknown
from ..values.option_types import require, require_callable, require_flag
from ..values.output_mode import OutputMode, best_mode
from ..values.prices import Prices
from ..values.retries import RetryPolicy
from ..values.settings import Settings, Timeouts
from .call_state import CallState, ResponseEvents
from .client import LLMClient, client_of
from .function_calling_llm import BuiltInLLM
from .prompted_tools import to_prompted
from .request import ChatRequest
from .request_gate import RequestOrigin, key_fingerprint

if TYPE_CHECKING:
    from ..messages import FileRef
    from ..providers.file_codec import Exchange
    from .http.http_attempt import Authentication
    from .token_counts import TokenCount

S = TypeVar("S", bound="ServiceLLM", default="ServiceLLM", covariant=True)

logger: Final = logging.getLogger("toolcast")

_RUNNING_TOOLS: Final = frozenset(("tools", "mcp_servers"))
"""The fields of `Settings.extra` that may contain tools that the provider runs."""

Auth = Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""A sync or async function that is called before each request and returns authentication headers."""


AUTH_HEADERS = frozenset(("authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"))
"""The headers that count as authentication in place of an API key."""


class LLMOptions(TypedDict, total=False):
    """The keyword arguments of every provider's LLM."""

    api_key: str | None
    base_url: str | None
    settings: Settings | None
    system_prompt: str | None
    max_retries: int
    headers: Mapping[str, str] | None
    auth: Auth | None
    network: NetworkChoice | None
    max_concurrency: int | None
    capabilities: Capabilities | None
    hooks: Sequence[Hooks] | Hooks | None
    keep_raw: bool
    prices: Prices | None


def take_options(options: LLMOptions) -> LLMOptions:
    """Return a copy of a function's `**options` and empty them: no frame of a traceback may hold a key."""
    taken = options.copy()
    cast("dict[str, Any]", options).clear()
    return taken


class NoLLMOptions(TypedDict):
    """No keyword arguments: for type checkers. At run time an unknown one raises an error with the closest name."""


class ServiceClient(LLMClient[S]):
    """A client of an LLM behind HTTP."""

    @property
    def request_origin(self) -> RequestOrigin:
        """The service, the model and the credentials of its requests, for a `RequestGate`."""
        return self.llm.request_origin

    @property
    def passed_credentials(self) -> tuple[str, ...]:
        """The credentials that were passed to the constructor, as text without their values: no pickle has them."""
        return self.llm.passed_credentials()

    def mode(self, request: ChatRequest) -> OutputMode:
        """Return the output mode of `request`, by the rules of the service where it requires none."""
        return self.llm.best_mode(request) if request.mode is None else super().mode(request)

    def cache_data(self, request: ChatRequest) -> list[Any]:
        """Return the JSON-compatible data that a cached answer to `request` is found by, without credentials."""
        adapter = self.llm.adapter
        with suppress(BadRequest):  # of a request that another LLM of a fallback may take
            adapter = adapter.for_request(self._request_input(request)[0], request.settings)
        return [self.llm.metadata.provider, adapter.base_url, self.llm.model, *request.cache_data()]

    def preview(self, request: ChatRequest) -> HTTPRequest | None:
        """Return the HTTP request for `request` without sending it."""
        request_input = self._request_input(request)[0]
        return self.llm.adapter.for_request(request_input, request.settings).request(request_input, request.settings)

    def decoder(self, request: ChatRequest, body: bytes = b"") -> ResponseDecoder:
        """Return the decoder for the body of a response to `request`: for `body`, if it is there already."""
        request_input, calls = self._request_input(request)
        decoder = self.llm.answering_adapter(request_input, request.settings, body).decoder(request_input)
        if calls is None:
            return decoder
        return JSONTextDecoder(decoder, calls, accept_damaged=request.accept_damaged)

    async def count_request(self, request: ChatRequest, backend: IOBackend) -> TokenCount | None:
        """Return the input tokens of `request` as the provider counts them; None if it has no endpoint for that."""
        adapter = await self.llm.prepare(self._request_input(request)[0], backend)
        exchange = self.token_counter(request, adapter)
        if exchange is None:
            return None
        from .http.service import service_by
        from .token_counts import provider_count

        return await provider_count(
            service_by(self.llm, adapter, backend, request.settings.timeouts), exchange, self.llm.model
        )

    def token_counter(self, request: ChatRequest, adapter: ProviderAdapter | None = None) -> Exchange[int] | None:
        """Return the HTTP requests that count the input tokens of `request`; None if the provider does not count them.

        `adapter` is that of `prepare`. Default: the LLM's own.
        """
        counting = self.llm.counting_adapter(adapter or self.llm.adapter)
        return counting.count_tokens(self._request_input(request)[0], request.settings)

    def send(self, request: ChatRequest, mode: OutputMode, backend: IOBackend, call: CallState) -> ResponseEvents:
        from .http.http_exchange import HTTPExchange  # with it, what decodes responses: not before the first call

        settings, llm = request.settings, self.llm
        if (settings.previous_response_id or settings.conversation or settings.background) and llm.speaks_responses:
            from .http.stored_responses import open_stored

            return open_stored(self, request, mode, backend, call, stores=llm.stores_responses)
        extra = settings.extra
        if request.server_tools or (extra is not None and not _RUNNING_TOOLS.isdisjoint(extra)):
            from .http.paused_responses import ResumedEvents  # the service may pause such a response

            return ResumedEvents(
                request,
                lambda each: HTTPExchange(self, each.conversation(llm.model, mode), each.settings, backend, call),
            )
        return HTTPExchange(self, request.conversation(llm.model, mode), settings, backend, call)

    def _request_input(self, request: ChatRequest) -> tuple[RequestInput, PromptedCalls | None]:
        """Return the adapter's input for `request` in its output mode, and the parser of prompted calls, if any."""
        mode = self.mode(request)
        sent, calls = to_prompted(request) if mode == "prompted" else (request, None)
        return sent.conversation(self.llm.model, mode), calls


class ServiceLLM(BuiltInLLM):
    """An LLM behind HTTP.

    Args:
        model: The provider's name of the model.
        api_key: The API key; the default is read from the environment.
        base_url: The URL of the service; the default is read from the environment.
        settings: The settings of its calls.
        system_prompt: A system message in front of all messages.
        max_retries: The number of further attempts of a failed request.
        headers: Further HTTP headers.
        auth: A function that is called before each request and returns headers, for tokens that expire.
        network: A replacement of httpx. `"aiohttp"` is a faster one for the async methods under asyncio; `"auto"` is
            aiohttp for these if it is installed, and httpx for all other calls.
        max_concurrency: The number of responses at once; None is no limit.
        capabilities: Corrections of the capabilities that toolcast assumes of the model.
        hooks: Hooks of its calls.
        keep_raw: Set `ChatResponse.raw` of a streamed response to the list of its events. Default: False, as they take
            far more memory than their content. A complete response always has its body.
        prices: The prices of the model, in place of those of the price list.

    Attributes:
        uploads: The files that were uploaded with `reuse=True`, by their hash and options.
    """

    provider: ClassVar[str]
    has_service: ClassVar[bool] = True
    """True for an LLM of one service behind HTTP, which may have files, batches and embeddings."""
    __toolcast_client__: ClassVar[type[LLMClient[Any]]] = ServiceClient
    modes: ClassVar[tuple[OutputMode, ...]] = ("tool_call", "json_schema", "prompted")
    _own_host: ClassVar[str] = ""
    """The host of the vendor, where a `base_url` may name it."""
    _shown: ClassVar[tuple[str, ...]] = ("base_url",)  # in a repr
    _options: ClassVar[Sequence[str]] = tuple(LLMOptions.__annotations__)

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: Settings | None = None,
        system_prompt: str | None = None,
        max_retries: int = 2,
        headers: Mapping[str, str] | None = None,
        auth: Auth | None = None,
        network: NetworkChoice | None = None,
        max_concurrency: int | None = None,
        capabilities: Capabilities | None = None,
        hooks: Sequence[Hooks] | Hooks | None = None,
        keep_raw: bool = False,
        prices: Prices | None = None,
        **unknown: Unpack[NoLLMOptions],
    ) -> None:
        texts = {"api_key": type(api_key), "base_url": type(base_url)}
        has_headers = headers is None or isinstance(cast("object", headers), Mapping)
        self._key = Secret(str(api_key)) if api_key else None
        self._address = SecretURL(str(base_url)) if base_url else None
        self._headers = protect_headers(headers if headers and has_headers else {})
        # The code below may raise, and no frame of a traceback may contain a key.
        del api_key, base_url, headers
        if unknown:
            refuse_unknown(type(self).__name__, unknown, self._option_names())
        super().__init__(
            settings=settings,
            system_prompt=system_prompt,
            network=network,
            max_concurrency=max_concurrency,
            hooks=hooks,
            prices=prices,
        )
        for name, kind in texts.items():
            if kind is not NoneType and not issubclass(cast("type[object]", kind), str):
                raise TypeError(f"{name}: expected str or None, got {kind.__name__}")
        if not has_headers:
            raise TypeError("headers: expected a mapping of names to values, or None")
        require("model", model, str, "str")
        require("max_retries", max_retries, int, "int")
        require_flag("keep_raw", keep_raw)
        if auth is not None:
            require_callable("auth", auth, "a function that returns headers, or None")
        self.model = model
        self.retry_policy: RetryPolicy = RetryPolicy(max_retries=max_retries)
        self.keep_raw: bool = keep_raw
        self._auth = auth
        self._lost: tuple[str, ...] = ()
        self._capabilities = capabilities
        self._made: ProviderAdapter | None = None
        self.uploads: dict[tuple[str, ...], FileRef] = {}
        self._origin: RequestOrigin | None = None
        self._warned: set[str] = set()

    @property
    def base_url(self) -> str | None:
        """The base URL that was passed, with `***` in place of credentials in it."""
        return self._address.shown if self._address else None

    @property
    def _given_url(self) -> str | None:
        """The base URL that was passed, with its credentials; only for the adapter."""
        return self._address.reveal() if self._address else None

    @classmethod
    def _option_names(cls) -> list[str]:
        """Return the names of the keywords that the class takes."""
        own = inspect.signature(cls).parameters.values()
        given = (each.name for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD)
        return list(dict.fromkeys([*given, *cls._options]))

    @property
    def metadata(self) -> LLMMetadata:
        """The name, provider and capabilities of the model."""
        return known_metadata(self.model, self.provider, self._capabilities, own=self._is_own)

    @cached_property
    def _is_own(self) -> bool:
        """True if requests go to the vendor's own address."""
        return self._address is None or is_at(self._address.shown, self._own_host)

    @property
    def adapter(self) -> ProviderAdapter:
        """The provider's adapter, imported and built on first use."""
        if self._made is None:
            made = self._new_adapter()
            self._made = self._made or made  # one for all threads: it learns what the service refuses
        return self._made

    def _new_adapter(self) -> ProviderAdapter:
        if self._lost:
            what = f"a pickle contains no credentials, and these were left out: {', '.join(self._lost)}"
            raise AuthFailed(f"{what}. Create the LLM in the process that uses it. Nothing was sent.")
        try:
            return self._make_adapter()
        except (ToolcastError, ValueError) as error:
            error.__traceback__ = None  # its frames contain the URL and environment variables
            raise

    def warn_of_dropped_settings(self, request: HTTPRequest) -> None:
        """Log a warning, once per LLM, for each setting or content that the service does not take and is not sent."""
        for note in request.notes:
            if note not in self._warned:
                from ..providers.bound_thoughts import LEFT_OUT

                self._warned.add(note)
                why = " is not supported and was not sent"
                if note == LEFT_OUT:
                    why = " is bound to instructions, tools or messages that have changed and was not sent"
                elif note.endswith(("was sent)", "(refused by the service)")):
                    why = ""  # the note has it
                elif note.startswith("thinking (max_tokens="):
                    why = " was not sent"
                logger.warning("%s %s: %s%s", self.provider, self.model, note, why)

    async def prepare(
        self, conversation: RequestInput, backend: IOBackend, limit: float | None = None
    ) -> ProviderAdapter:
        """Return the adapter. Raise `AuthFailed` if the service needs a key and there is none.

        `limit`: the seconds that the call has left.
        """
        adapter = self._made or self.adapter
        if self._key is None and self._auth is None and (names := self._required_key()) is not None:
            proven = any(name.lower() in AUTH_HEADERS for name in self._headers)
            if not proven and self.secret(*names) is None and is_sent_to(adapter.base_url):
                raise missing_api_key(adapter.provider, names)
        return adapter

    @property
    def timeouts(self) -> Timeouts:
        """The time limits of a request, where its call sets none."""
        return client_of(self).merge_settings(None).timeouts

    @property
    def authentication(self) -> Authentication | None:
        """Credentials that change: those of `auth`. None if the adapter has all of them."""
        return None if self._auth is None else AuthFunction(self._auth)

    @property
    def request_origin(self) -> RequestOrigin:
        """The service, the model and the credentials of its requests, for a `RequestGate`."""
        if self._origin is None:
            # Made with the adapter, which reads the environment once, too. The tokens of an `auth` change.
            auth = self._auth_identity
            headers = [value for value in self._headers.values() if isinstance(value, Secret)]
            key = key_fingerprint(self.secret(*(self._required_key() or ())), *headers)
            self._origin = RequestOrigin(self.provider, self.model, self.adapter.base_url, key or auth)
        return self._origin

    @property
    def _auth_identity(self) -> str:
        """A text in place of the credentials of an `auth`, which change; empty without one."""
        return "" if self._auth is None else f"auth {id(self._auth)}"

    @property
    def speaks_responses(self) -> bool:
        """True if requests go to OpenAI's Responses API, but for those that it cannot carry."""
        return False

    @property
    def stores_responses(self) -> bool:
        """True if the service stores responses, so that requests can continue them."""
        return False

    def answering_adapter(self, request_input: RequestInput, settings: Settings, body: bytes) -> ProviderAdapter:
        """Return the adapter for the response to a request: for `body`, if it is there already."""
        return self.adapter.for_request(request_input, settings)

    def counting_adapter(self, adapter: ProviderAdapter) -> ProviderAdapter:
        """Return the adapter whose endpoint counts the tokens of this LLM's requests."""
        return adapter

    def best_mode(self, request: ChatRequest) -> OutputMode:
        capabilities, thinking = self.metadata.capabilities, bool(request.settings.thinking)
        if request.server_tools and request.forces:
            beside = self._mode_beside_server_tools(request)
            if beside == "prompted" or not request.forces_now:
                return beside
        return best_mode(capabilities, forced=request.forces, thinking=thinking)

    def _mode_beside_server_tools(self, request: ChatRequest) -> OutputMode:
        """Return the output mode for typed output beside tools that the provider runs.

        A required call would be the first thing that the model writes, so that it would never search. By default it is
        offered, and requested again if it is missing.
        """
        return "tool_call"

    def _required_key(self) -> tuple[str, ...] | None:
        """Return the environment variables of the API key; None if the service needs no key."""
        return None

    @abstractmethod
    def _make_adapter(self) -> ProviderAdapter:
        """Return the provider's adapter for this model and key."""

    def secret(self, *names: str) -> Secret | None:
        """Return the key that was passed, or the first of these environment variables that is set; none with `auth`."""
        if self._key or self._auth:
            return self._key
        return read_api_key(names)

    def __repr__(self) -> str:
        # A traceback may show an LLM whose constructor has failed, before its attributes are set.
        given = {"base_url": address.shown if (address := vars(self).get("_address")) else None, **vars(self)}
        shown = [f", {name}={given[name]!r}" for name in self._shown if given.get(name) is not None]
        return f"{type(self).__name__}({given.get('model')!r}{''.join(shown)})"

    def passed_credentials(self) -> tuple[str, ...]:
        passed = {"api_key=": self._key, "auth=": self._auth}
        return (*[name for name, value in passed.items() if value is not None], *self._secret_parts())

    def _secret_parts(self) -> list[str]:
        """Return the names of the headers with credentials, and of the URL if it has some."""
        lost = [f"the header {name!r}" for name, value in self._headers.items() if isinstance(value, Secret)]
        secret = self._address is not None and self._address.has_secrets
        return [*lost, "the credentials in base_url"] if secret else lost

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without connections and the key, which the other process reads from its own environment."""
        headers = {name: value for name, value in self._headers.items() if not isinstance(value, Secret)}
        lost = self._secret_parts()
        gone: dict[str, Any] = {
            **dict.fromkeys(("_key", "_made", "_origin", "_auth")),
            "__toolcast__": self.__toolcast__.named(),
            "hooks": (),
            "uploads": {},
        }
        left = {"_headers": headers, "_address": self.base_url, "_lost": tuple(dict.fromkeys([*self._lost, *lost]))}
        return {**vars(self), **left, **gone}

    def __copy__(self) -> Self:
        """Return an LLM with the same key, headers and network."""
        copied = type(self).__new__(type(self))
        own = {name: getattr(self, name) for name in ("_key", "_headers", "_address", "_auth", "_lost", "hooks")}
        connections = self.__toolcast__.limited(self.max_concurrency)
        vars(copied).update(self.__getstate__(), _warned=set(self._warned), __toolcast__=connections, **own)
        return copied

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._address = SecretURL(state["_address"]) if state["_address"] else None


class AuthFunction:
    """The credentials that a user's function returns before each request."""

    def __init__(self, auth: Auth) -> None:
        self._auth = auth

    async def authorize(self, request: HTTPRequest, backend: IOBackend, limit: float | None = None) -> HTTPRequest:
        """Return `request` with the headers that the function returns."""
        from anyio import to_thread

        alone = backend.concurrent and not inspect.iscoroutinefunction(self._auth)
        # A token is often fetched by blocking calls, which would block every other task.
        given = await to_thread.run_sync(self._auth, abandon_on_cancel=True) if alone else self._auth()
        if inspect.isawaitable(given):
            given = await given
        try:
            return replace(request, headers={**request.headers, **_check_auth_headers(given)})
        except (TypeError, BadRequest) as error:
            error.__traceback__ = None  # its frames contain the value that `auth` returned
            raise
        finally:
            del given

    def renew(self, request: HTTPRequest) -> bool:
        """Return False: the function has been called for this request."""
        return False


def _check_auth_headers(given: object) -> dict[str, Secret]:
    """Return the headers that `auth` returned, after checking them: a token may end in the line break of its file."""
    from ..providers.http_adapter import check_header

    if not isinstance(given, Mapping):
        raise TypeError(f"auth: expected a mapping of header names to values, got {type(given).__name__}")
    headers: dict[str, Secret] = {}
    for name, value in cast("Mapping[object, object]", given).items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(f"auth: expected str as the value of the header {name!r}")
        headers[name.lower()] = Secret(value)
        check_header(name, headers[name.lower()])
    return headers


@lru_cache(64)
def known_metadata(model: str, provider: str, by_user: Capabilities | None, *, own: bool) -> LLMMetadata:
    """Return the name, provider and capabilities of a model, with the user's corrections.

    `own`: its requests go to the vendor's own address.
    """
    listed = _listed_metadata(model, provider, own)
    if by_user is None:
        return listed
    known = listed.capabilities.corrected(by_user)
    return replace(listed, context_window=known.context_window, capabilities=known)


@lru_cache(256)  # each request reads it
def _listed_metadata(model: str, provider: str, own: bool) -> LLMMetadata:
    from ..providers.model_features import family_text, model_capabilities

    known = model_capabilities(provider, model, own=own)
    family = family_text(provider, model, own=own)
    return LLMMetadata(model, provider, context_window=known.context_window, capabilities=known, family=family)
