"""The LLM classes of the providers (`OpenAI`, `Anthropic`, `Google`, ...), and `llm`, which finds one by its name.

A class has what is specific to its provider: the URL, the environment variables, and the adapter, which is imported on
first use, so that the import of toolcast stays fast.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypedDict, cast
from urllib.parse import quote, urlsplit

from typing_extensions import Unpack

from ..async_support import sync_driver
from ..cached_content import CachedContent
from ..capabilities import Capabilities, LLMMetadata, Progress
from ..credentials import API_KEY_VARIABLES, Secret, read_variable
from ..errors import MissingLLMError, UnsupportedLLMError
from ..events import Event
from ..http_request import HTTPRequest, is_at
from ..option_suggestions import PROVIDERS, refuse_unknown
from ..option_types import require_text
from ..output_mode import OutputMode
from ..prices import Prices
from ..providers.base import ProviderAdapter, RequestInput
from ..settings import Settings, Timeouts
from ..tool_spec import ToolChoice
from ..transport.network import IOBackend
from ..transport.network_choice import NetworkChoice
from .base import FunctionCallingLLM
from .defaults import Configs, replacement
from .google_cloud import GoogleCloudLLM, vertex_url
from .http_llm import LLMOptions, ServiceLLM, known_metadata, take_options
from .request import ChatRequest, Messages, Tools
from .request_state import RequestState, ResponseEvents

if TYPE_CHECKING:
    from ..providers.anthropic.adapter import AnthropicAdapter
    from ..providers.chat_completions.adapter import OpenAIChatAdapter
    from ..providers.chat_completions.openai_base import OpenAIBaseAdapter
    from ..providers.chat_completions.services import API, ServiceSpec as Row
    from ..providers.llama_cpp.adapter import LlamaCppAdapter
    from ..providers.llama_cpp.grammar import SchemaLimits
    from .google_credentials import GoogleCredentials
    from .local.server import LocalServer, ServerOptions


class LocalOptions(TypedDict, total=False):
    """The keyword arguments of `LlamaCpp` that other LLMs have too."""

    settings: Settings | None
    system_prompt: str | None
    max_retries: int
    network: NetworkChoice | None
    max_concurrency: int | None
    capabilities: Capabilities | None
    keep_raw: bool
    prices: Prices | None


_KIND = re.compile(rb'"object":\s*"(chat\.completion|response)"')  # of a complete response


class OpenAICompatible(ServiceLLM):
    """A model behind any service that speaks OpenAI's chat completions.

    `service` names a row of `toolcast.providers.chat_completions.services` (`"groq"`, `"deepseek"`, ...) for the ways
    in which it differs; without it, the row whose address `base_url` is. `api` is the protocol: `"chat"`, or
    `"responses"`, OpenAI's Responses API, which sends the model's reasoning back in later turns; the default is that of
    the service. `base_model` is the model behind the name of a deployment (`"gpt-5.4"`), whose rules apply to it.
    """

    provider = "openai-compatible"
    _shown: ClassVar[tuple[str, ...]] = ("base_url", "api", "base_model")

    def __init__(
        self,
        model: str,
        *,
        service: str | None = None,
        api: API | None = None,
        base_model: str | None = None,
        **options: Unpack[LLMOptions],
    ) -> None:
        super().__init__(model, **take_options(options))
        if api not in (None, "chat", "responses"):
            raise ValueError(f"api: expected 'chat', 'responses' or None, got {api!r:.100}")
        self.service = service
        self.api: API | None = api
        require_text("base_model", base_model)
        self.base_model: str | None = base_model or None

    @property
    def metadata(self) -> LLMMetadata:
        """The name, provider and capabilities of the model."""
        provider = self._row.name
        if self.base_model is None:
            return known_metadata(self.model, provider, self._capabilities, own=self._is_own)
        of = self._row.models_of or provider
        known = known_metadata(self.base_model, of, self._capabilities, own=self._is_own)
        return replace(known, model_name=self.model, provider=provider, base_model=self.base_model)

    @cached_property
    def _is_own(self) -> bool:
        return self._address is None or _is_at(self._row, self._address.shown)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_row", None)  # cannot be pickled, and is found again by its name
        return state

    def _required_key(self) -> tuple[str, ...] | None:
        return (*self._row.key_env, *self._row.bearer_env) if self._row.needs_key else None

    def _best_mode(self, request: ChatRequest) -> OutputMode:
        mode = super()._best_mode(request)
        if mode != "tool_call" or self._row.api == "chat":
            return mode
        adapter, settings = cast("OpenAIBaseAdapter", self.adapter), request.settings
        limits = adapter.limits(self.model, settings.thinking)
        if "tools" not in limits or not (request.tools and request.is_typed):
            return mode
        holds = self.metadata.capabilities.json_schema is not False
        return "json_schema" if holds and adapter.needs_chat(request.messages, settings, limits) else mode

    def _mode_beside_server_tools(self, request: ChatRequest) -> OutputMode:
        if self._speaks_responses:
            # OpenAI and xAI constrain the text after a search to a schema; a function is no output, and has to be
            # called.
            can = self._row.responses_tools in ("openai", "xai") and self.metadata.capabilities.json_schema
            return "json_schema" if can and request.is_typed else "tool_call"
        from ..providers.chat_completions.openai_base import family_behind

        # The Compound systems of Groq have no tools but their own.
        family = family_behind(self._row, self.model)
        return "prompted" if family is not None and family.has("compound") else "tool_call"

    @cached_property
    def _row(self) -> Row:
        """The service's differences from OpenAI: by the name `service`, by `base_url`, or a generic one."""
        from ..providers.chat_completions.services import GENERIC, SERVICES

        if self.service is not None:
            if self.service not in SERVICES:
                raise UnsupportedLLMError(
                    f"no service is called {self.service!r}; there are: {', '.join(SERVICES)}. "
                    "For any other give base_url=."
                )
            return SERVICES[self.service]
        host = urlsplit(self.base_url or "").hostname
        rows = (row for row in SERVICES.values() if "{" not in row.base_url)
        return next((row for row in rows if host and _is_at(row, self.base_url or "")), GENERIC)

    def _make_adapter(self) -> ProviderAdapter:
        return self._build_adapter(*self._endpoint())

    def _endpoint(self) -> tuple[Row, Secret | None, str, Mapping[str, str | Secret]]:
        """Return the row, the key, the URL of chat completions, and the headers."""
        from ..providers.chat_completions.endpoints import read_auth_header, read_headers, service_url

        row = self._row
        if not (self.base_url or read_variable(row.url_env) or self.service):
            raise UnsupportedLLMError(f"{type(self).__name__}({self.model!r}) needs base_url= or service=")
        headers = {**read_headers(row, os.environ), **self._headers}
        header, key = read_auth_header(row, self._key, {} if self._auth else os.environ)
        url = service_url(row, self._given_url, self.model, os.environ)
        return replace(row, key_header=header, base_model=self.base_model or ""), key, url, headers

    def _counting_adapter(self, adapter: ProviderAdapter) -> ProviderAdapter:
        # The endpoint takes requests of the Responses API, also for tokens of chat completions.
        if self._row.counts != "responses" or self._speaks_responses:
            return adapter
        return _responses_adapter(*self._endpoint())

    def _build_adapter(
        self, row: Row, key: Secret | None, url: str, headers: Mapping[str, str | Secret]
    ) -> ProviderAdapter:
        """Return the adapter of this service for the URL of its chat completions.

        A base URL that is the endpoint of a protocol chooses that protocol.
        """
        if not _is_at(row, url):
            row = replace(row, api="chat", own=False)
        given = (self.base_url or read_variable(row.url_env) or "").partition("?")[0].rstrip("/")
        named = {"completions": "chat", "responses": "responses"}.get(given.rpartition("/")[2])
        api = self.api or named
        chat = partial(_chat_adapter, row, key, url, headers)
        if (api or row.api) == "chat":
            return chat()
        return _responses_adapter(row, key, url, headers, None if api else chat)

    @property
    def _speaks_responses(self) -> bool:
        """True if requests go to the Responses API, but for those that it cannot carry."""
        return self.api != "chat" and self.adapter.base_url.partition("?")[0].endswith("/responses")

    def _answering_adapter(self, request_input: RequestInput, settings: Settings, body: bytes) -> ProviderAdapter:
        if (kind := _KIND.search(body)) is None:
            return super()._answering_adapter(request_input, settings, body)
        api: API = "responses" if kind[1] == b"response" else "chat"
        if (api == "responses") == self._speaks_responses:
            return self.adapter
        other = copy(self)  # for a response of the other protocol, such as of a batch of an earlier version
        other.api = api
        return other.adapter

    @property
    def stores_responses(self) -> bool:
        """True if the service stores responses, so that requests can continue them."""
        return self._speaks_responses and "responses" in self._row.stores

    def _send(self, request: ChatRequest, mode: OutputMode, backend: IOBackend, call: RequestState) -> ResponseEvents:
        settings = request.settings
        is_stored = settings.previous_response_id or settings.conversation or settings.background
        if not (is_stored and self._speaks_responses):
            return super()._send(request, mode, backend, call)
        from .stored_responses import open_stored

        return open_stored(self, request, mode, backend, call, stores=self.stores_responses)


class OpenAI(OpenAICompatible):
    """A model of OpenAI. Reads OPENAI_API_KEY and OPENAI_BASE_URL.

    At OpenAI's own address it speaks the Responses API, but for what only chat completions take: audio, `seed`, `stop`;
    at any other address chat completions. `api="responses"` and `api="chat"` choose one of them.
    """

    provider = "openai"

    def __init__(
        self, model: str, *, api: API | None = None, base_model: str | None = None, **options: Unpack[LLMOptions]
    ) -> None:
        if "service" in options:
            refuse_unknown(type(self).__name__, options, self._option_names())
        super().__init__(model, service="openai", api=api, base_model=base_model, **take_options(options))


class OpenAIResponses(OpenAICompatible):
    """A model of OpenAI, through the Responses API at any address: `OpenAI(..., api="responses")`.

    Reads OPENAI_API_KEY and OPENAI_BASE_URL. `service` names another service that has a Responses API: `"azure-v1"`,
    `"xai"`, `"lmstudio"`, `"llama.cpp"`, ...
    """

    provider = "openai"
    _shown: ClassVar[tuple[str, ...]] = ("base_url", "base_model")

    def __init__(
        self, model: str, *, service: str = "openai", base_model: str | None = None, **options: Unpack[LLMOptions]
    ) -> None:
        if "api" in options:
            refuse_unknown(type(self).__name__, options, self._option_names())
        super().__init__(model, service=service, api="responses", base_model=base_model, **take_options(options))


def _is_at(row: Row, url: str) -> bool:
    """Return True if the URL is one of the service itself, such as in a region, or the service has no usual one."""
    return "{" in row.base_url or is_at(url, urlsplit(row.base_url).hostname or "")


def _chat_adapter(row: Row, key: Secret | None, url: str, headers: Mapping[str, str | Secret]) -> OpenAIChatAdapter:
    from ..providers.chat_completions.adapter import OpenAIChatAdapter

    return OpenAIChatAdapter(row, api_key=key, base_url=url, headers=headers)


def _responses_adapter(
    row: Row,
    key: Secret | None,
    url: str,
    headers: Mapping[str, str | Secret],
    chat: Callable[[], OpenAIChatAdapter] | None = None,
) -> ProviderAdapter:
    """Return the adapter of the Responses API of a service, for the URL of its chat completions."""
    from ..providers.openai.responses import OpenAIResponsesAdapter

    url = url.replace("/chat/completions", "/responses", 1)
    return OpenAIResponsesAdapter(row, chat=chat, api_key=key, base_url=url, headers=headers)


class Anthropic(ServiceLLM):
    """A model of Anthropic. Reads ANTHROPIC_API_KEY, or ANTHROPIC_AUTH_TOKEN, and ANTHROPIC_BASE_URL."""

    provider = "anthropic"
    _own_host: ClassVar[str] = "anthropic.com"

    @property
    def metadata(self) -> LLMMetadata:
        """The name, provider and capabilities of the model, whose context window a beta header may enlarge."""
        found = super().metadata
        betas = [str(value) for name, value in self._headers.items() if name.lower() == "anthropic-beta"]
        if not any("context-1m" in beta for beta in betas):
            return found
        larger = found.capabilities.corrected(Capabilities(context_window=1_000_000))
        return replace(found, context_window=1_000_000, capabilities=larger)

    def _required_key(self) -> tuple[str, ...] | None:
        return API_KEY_VARIABLES["anthropic"]

    def _best_mode(self, request: ChatRequest) -> OutputMode:
        mode = super()._best_mode(request)
        # Not beside a search, either: a schema excludes citations, which a search always has.
        if mode != "json_schema" or request.server_tools:
            return "tool_call" if mode == "json_schema" else mode
        if cast("AnthropicAdapter", self.adapter).can_hold(request.conversation(self.model, mode)):
            return mode
        return "tool_call"  # this cannot be forced, but a missing call is asked for again

    def _make_adapter(self) -> ProviderAdapter:
        from ..providers.anthropic.adapter import AnthropicAdapter

        named, token = API_KEY_VARIABLES["anthropic"]
        key = self.secret(named)
        return AnthropicAdapter(
            api_key=key,
            bearer=None if key else self.secret(token),
            base_url=self._given_url or read_variable(("ANTHROPIC_BASE_URL",)),
            headers=self._headers,
        )


class AnthropicVertex(GoogleCloudLLM, Anthropic):
    """A model of Anthropic on Vertex AI, with credentials of Google Cloud.

    Without `credentials`, `auth` and `api_key` (an access token) the Application Default Credentials are used, which
    needs `pip install 'toolcast[google]'`. Reads CLOUD_ML_REGION or GOOGLE_CLOUD_LOCATION, ANTHROPIC_VERTEX_PROJECT_ID
    or GOOGLE_CLOUD_PROJECT, and ANTHROPIC_VERTEX_BASE_URL.

    The other arguments are the options of every provider.

    Args:
        model: Vertex AI's name of the model, such as `"claude-sonnet-4-5@20250929"`.
        region: The region, `"us"` or `"eu"`, or `"global"`; the default is that of the environment.
        project: The project; the default is that of the environment, or else of the credentials.
        credentials: Credentials of google-auth. Not in pickles.
    """

    provider = "anthropic-vertex"
    _own_host: ClassVar[str] = "googleapis.com"

    def __init__(
        self,
        model: str,
        *,
        region: str | None = None,
        project: str | None = None,
        credentials: GoogleCredentials | None = None,
        **options: Unpack[LLMOptions],
    ) -> None:
        if "location" in options:
            raise TypeError("AnthropicVertex() takes no 'location': pass region=...")
        super().__init__(model, project=project, location=region, credentials=credentials, **take_options(options))

    @property
    def region(self) -> str | None:
        """The region that was passed."""
        return self.location

    @property
    def _project_variables(self) -> tuple[str, ...]:
        return ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")

    def _required_key(self) -> tuple[str, ...] | None:
        return None

    def _make_adapter(self) -> ProviderAdapter:
        from ..providers.anthropic.vertex import AnthropicVertexAdapter

        location = self.location or read_variable(("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION"))
        if location is None:
            raise UnsupportedLLMError(
                f"AnthropicVertex({self.model!r}) needs a region: pass region=, such as 'europe-west1' or 'global', "
                "or set CLOUD_ML_REGION. Nothing was sent."
            )
        url = self._given_url or read_variable(("ANTHROPIC_VERTEX_BASE_URL",)) or vertex_url(location, "v1")
        return AnthropicVertexAdapter(
            base_url=url, project=self._find_project(), location=location, token=self._key, headers=self._headers
        )


class Google(GoogleCloudLLM):
    """A Gemini model of Google, through the Gemini API or on Vertex AI.

    The Gemini API reads GOOGLE_API_KEY, or else GEMINI_API_KEY, and GOOGLE_GEMINI_BASE_URL.

    On Vertex AI, without `credentials`, `auth` and a key the Application Default Credentials are used, which needs
    `pip install 'toolcast[google]'`. Reads GOOGLE_CLOUD_PROJECT, GOOGLE_CLOUD_LOCATION and GOOGLE_VERTEX_BASE_URL; and
    with neither project nor location GOOGLE_API_KEY, a key of express mode.

    The other arguments are the options of every provider.

    Args:
        model: The name of the model.
        api_version: The version in the URL; the default is `v1beta`, or `v1beta1` on Vertex AI.
        vertex: True for Vertex AI; the default is True with one of the next arguments, or if GOOGLE_GENAI_USE_VERTEXAI
            (or GOOGLE_GENAI_USE_ENTERPRISE) is set and no `base_url` is passed.
        project: The project of Google Cloud; the default is that of the environment, or else of the credentials.
        location: The location; the default is that of the environment, or else `"global"`.
        credentials: Credentials of google-auth. Not in pickles.
    """

    provider = "google"
    _own_host: ClassVar[str] = "googleapis.com"

    def __init__(
        self,
        model: str,
        *,
        api_version: str | None = None,
        vertex: bool | None = None,
        project: str | None = None,
        location: str | None = None,
        credentials: GoogleCredentials | None = None,
        **options: Unpack[LLMOptions],
    ) -> None:
        super().__init__(model, project=project, location=location, credentials=credentials, **take_options(options))
        require_text("api_version", api_version)
        self.api_version: str | None = api_version
        self.vertex: bool | None = vertex

    @property
    def _on_vertex(self) -> bool:
        if self.vertex is not None:
            return self.vertex
        if self.project or self.location or self._credentials is not None:
            return True
        flag = read_variable(("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")) or ""
        return self._address is None and flag.lower() in ("true", "1")

    @property
    def _vertex_key(self) -> Secret | None:
        # As in Google's SDK, a project or a location takes precedence over the key of the environment.
        if self._key or self._credentials is not None or self._known_project or self._location:
            return self._key
        return self.secret(*API_KEY_VARIABLES["google"])

    @property
    def _location(self) -> str | None:
        return self.location or read_variable(("GOOGLE_CLOUD_LOCATION",))

    def _required_key(self) -> tuple[str, ...] | None:
        return None if self._on_vertex else API_KEY_VARIABLES["google"]

    def create_cache(
        self,
        messages: Messages,
        tools: Tools = (),
        *,
        ttl: float = 3600.0,
        name: str | None = None,
        tool_choice: ToolChoice = None,
    ) -> CachedContent:
        """Store the beginning of prompts at Google, and return it for `Settings(cached_content=...)`.

        Storage is billed by time until the cache expires or is deleted. Google refuses what has fewer tokens than the
        model's minimum (1,024 or more).

        Args:
            messages: The messages; the system prompt of the LLM comes first.
            tools: The tools, which requests with the cache then cannot change.
            ttl: The seconds until it expires. Default: an hour.
            name: A name to find it by, `displayName`.
            tool_choice: The tool choice of requests with the cache.

        Raises:
            LLMError: Google refused the request, or the connection failed.
        """
        from .google_caches import create_cache

        request_input, backend = self._cache_input(messages, tools, tool_choice), self.sync_backend()
        return sync_driver.run(create_cache(self, request_input, backend, ttl=ttl, name=name))

    async def acreate_cache(
        self,
        messages: Messages,
        tools: Tools = (),
        *,
        ttl: float = 3600.0,
        name: str | None = None,
        tool_choice: ToolChoice = None,
    ) -> CachedContent:
        """Store the beginning of prompts at Google; see `create_cache`."""
        from .google_caches import create_cache

        request_input = self._cache_input(messages, tools, tool_choice)
        return await create_cache(self, request_input, self.async_backend(), ttl=ttl, name=name)

    def describe_cache(self, cache: CachedContent | str) -> CachedContent:
        """Return a cache, or the cache of this name, with its tokens and the time when it expires.

        Raises:
            LLMError: It has expired, or the request failed.
        """
        from .google_caches import describe_cache

        return sync_driver.run(describe_cache(self, cache, self.sync_backend()))

    async def adescribe_cache(self, cache: CachedContent | str) -> CachedContent:
        """Return a cache, or the cache of this name; see `describe_cache`."""
        from .google_caches import describe_cache

        return await describe_cache(self, cache, self.async_backend())

    def renew_cache(self, cache: CachedContent | str, *, ttl: float = 3600.0) -> CachedContent:
        """Let a cache expire in `ttl` seconds from now, and return it."""
        from .google_caches import renew_cache

        return sync_driver.run(renew_cache(self, cache, self.sync_backend(), ttl=ttl))

    async def arenew_cache(self, cache: CachedContent | str, *, ttl: float = 3600.0) -> CachedContent:
        """Let a cache expire in `ttl` seconds from now, and return it."""
        from .google_caches import renew_cache

        return await renew_cache(self, cache, self.async_backend(), ttl=ttl)

    def delete_cache(self, cache: CachedContent | str) -> None:
        """Delete a cache. Raise `LLMError` if it does not exist any more."""
        from .google_caches import delete_cache

        sync_driver.run(delete_cache(self, cache, self.sync_backend()))

    async def adelete_cache(self, cache: CachedContent | str) -> None:
        """Delete a cache. Raise `LLMError` if it does not exist any more."""
        from .google_caches import delete_cache

        await delete_cache(self, cache, self.async_backend())

    def _cache_input(self, messages: Messages, tools: Tools, tool_choice: ToolChoice) -> RequestInput:
        request = self.build_request(messages, tools, tool_choice, None, parallel=True)
        # A schema for the text of responses is no part of a cache: its tools are tools.
        return request.conversation(self.model, "tool_call")

    def _best_mode(self, request: ChatRequest) -> OutputMode:
        cached = request.settings.cached_content is not None
        # Tools cannot stand beside a cache, and a schema can.
        return "json_schema" if cached and request.forces and request.is_typed else super()._best_mode(request)

    def _mode_beside_server_tools(self, request: ChatRequest) -> OutputMode:
        from ..providers.google.adapter import has_levels
        from ..providers.model_features import model_family

        # Models before Gemini 3 have a search alone: without other tools, and without a schema.
        if not has_levels(model_family("google", self.model, own=self._is_own)):
            return "prompted"
        return "json_schema" if request.is_typed else "tool_call"

    def _make_adapter(self) -> ProviderAdapter:
        from ..providers.google.adapter import GoogleAdapter

        if self._on_vertex:
            return GoogleAdapter(api_key=self._vertex_key, base_url=self._vertex_url(), headers=self._headers)
        return GoogleAdapter(
            api_key=self.secret(*API_KEY_VARIABLES["google"]),
            base_url=self._given_url or read_variable(("GOOGLE_GEMINI_BASE_URL",)),
            headers=self._headers,
            api_version=self.api_version or "v1beta",
        )

    def _vertex_url(self) -> str:
        """Return the URL of Vertex AI up to the publisher; without a project, that of express mode."""
        from ..providers.http_adapter import join_url

        given = self._given_url or read_variable(("GOOGLE_VERTEX_BASE_URL",))
        if given and "/publishers/" in given:
            return given
        location, version = self._location or "global", (self.api_version or "v1beta1").strip("/")
        root = join_url(given, f"/{version}") if given else vertex_url(location, version)
        express = self._vertex_key is not None and not self.project and not self.location
        place = "" if express else f"/projects/{quote(self._find_project(), safe=':')}/locations/{location}"
        return join_url(root, f"{place}/publishers/google")


class Mistral(ServiceLLM):
    """A model of Mistral AI. Reads MISTRAL_API_KEY and MISTRAL_BASE_URL."""

    provider = "mistral"

    def _required_key(self) -> tuple[str, ...]:
        return API_KEY_VARIABLES["mistral"]

    def _make_adapter(self) -> ProviderAdapter:
        from ..providers.mistral.adapter import MISTRAL, MistralAdapter

        base_url = self._given_url or read_variable(MISTRAL.url_env)
        return MistralAdapter(api_key=self.secret(*self._required_key()), base_url=base_url, headers=self._headers)


class Cohere(ServiceLLM):
    """A model of Cohere, through version 2 of its Chat API. Reads CO_API_KEY, or else COHERE_API_KEY."""

    provider = "cohere"

    def _required_key(self) -> tuple[str, ...]:
        return API_KEY_VARIABLES["cohere"]

    def _make_adapter(self) -> ProviderAdapter:
        from ..providers.cohere.adapter import CohereAdapter

        return CohereAdapter(
            api_key=self.secret(*self._required_key()), base_url=self._given_url, headers=self._headers
        )


class Ollama(ServiceLLM):
    """A model that Ollama runs. Reads OLLAMA_HOST and OLLAMA_API_KEY; on this machine without them."""

    provider = "ollama"

    def _make_adapter(self) -> ProviderAdapter:
        from ..providers.ollama.adapter import OllamaAdapter, ollama_url

        base_url = self._given_url or ollama_url(os.environ.get("OLLAMA_HOST", ""))
        return OllamaAdapter(
            api_key=self.secret(*API_KEY_VARIABLES["ollama"]), base_url=base_url, headers=self._headers
        )


class LlamaCpp(ServiceLLM):
    """A local model through llama.cpp: without a key, a server to install, or data that leaves the machine.

    `model` is `smollm2`, the short name of a model of `toolcast pull`, or the path of a GGUF file. The first use
    downloads missing weights and starts the model (about half a second). Needs `pip install 'toolcast[local]'`.
    `server` has the options of the model's server, `limits` the maximum sizes where a schema has none; `native_tools`
    leaves `tool_choice="auto"` to the model's own chat template.
    """

    provider = "llama.cpp"
    has_service = False
    modes: ClassVar[tuple[OutputMode, ...]] = ("grammar", "prompted")
    _options: ClassVar[Sequence[str]] = tuple(LocalOptions.__annotations__)

    def __init__(
        self,
        model: str | Path = "smollm2",
        *,
        server: ServerOptions | None = None,
        limits: SchemaLimits | None = None,
        native_tools: bool = False,
        **options: Unpack[LocalOptions],
    ) -> None:
        super().__init__(str(model), **options)
        self._server_options = server
        self._limits = limits
        self._native_tools = native_tools
        self._served_at: str | None = None

    @property
    def metadata(self) -> LLMMetadata:
        """The name, provider and capabilities of the model."""
        context = self._server_options.context if self._server_options else 4096
        metadata = super().metadata
        # The grammar forces a call for every model.
        here = Capabilities(forced_tools=True, forced_while_thinking=True, context_window=context)
        return replace(metadata, context_window=context, capabilities=metadata.capabilities.corrected(here))

    @property
    def is_loaded(self) -> bool:
        """True once the model has been started for this object."""
        return self._served_at is not None

    def load(self, progress: Progress | None = None) -> None:
        """Download missing weights, and start the model.

        `progress(done, total)` is called with bytes during the download, and with 0 of 1 and 1 of 1 for the start,
        of which llama.cpp reports no progress.
        """
        self._server(progress)
        if progress is not None:
            progress(0, 1)
        self._start()
        if progress is not None:
            progress(1, 1)

    async def prepare(
        self, conversation: RequestInput, backend: IOBackend, limit: float | None = None
    ) -> ProviderAdapter:
        """Return the adapter, once the model runs and has passed the check that it obeys the tools' schemas."""
        from anyio import to_thread

        adapter = await to_thread.run_sync(self._start) if backend.concurrent else self._start()
        probe = adapter.preflight(conversation)
        if probe is not None:
            error = adapter.preflight_ok(conversation, await fetched(probe, backend))
            if error is not None:
                raise error
        return adapter

    def _best_mode(self, request: ChatRequest) -> OutputMode:
        return "grammar" if request.tools and request.tool_choice != "none" else "tool_call"

    def _start(self) -> LlamaCppAdapter:
        """Return the adapter of the running server, whose port changes with each start."""
        server = self._server()
        server.ready()
        if self._made is None or self._served_at != server.base_url:
            self._served_at = server.base_url
            self._made = self._build_adapter(server.base_url, server.api_key)
        return cast("LlamaCppAdapter", self._made)

    def _server(self, progress: Progress | None = None) -> LocalServer:
        from .local.pulled import pulled_path
        from .local.server import running
        from .local.weights import WEIGHTS, pull

        if self.model in WEIGHTS:
            path = pull(self.model, progress=progress)
        else:
            path = pulled_path(self.model) or Path(self.model)
        return running(path, self._server_options)

    def cache_data(self, request: ChatRequest) -> list[Any]:
        """Return the data that a cached answer is found by. The port of the server is another one in each process."""
        return FunctionCallingLLM.cache_data(self, request)

    def _make_adapter(self) -> ProviderAdapter:
        return self._build_adapter("http://127.0.0.1/v1", None)

    def _build_adapter(self, base_url: str, key: Secret | None) -> LlamaCppAdapter:
        from ..providers.llama_cpp.adapter import LlamaCppAdapter

        return LlamaCppAdapter(base_url=base_url, api_key=key, limits=self._limits, native_tools=self._native_tools)


_LONGEST: Final = 1024 * 1024  # bytes of a short response


async def fetched(request: HTTPRequest, backend: IOBackend) -> bytes:
    """Return the body of a short response of a local server."""
    from .http_attempt import connected, read_content
    from .time_limits import TimeLimits

    limits = TimeLimits(Timeouts(first_token=60), backend.now)
    limits.begin()
    body = await connected(request, backend, limits)
    try:
        return await read_content(body, limits, _LONGEST)
    finally:
        await body.close()


def as_llm(given: object) -> FunctionCallingLLM:
    """Return the LLM `given`, or the one of that name. Raise `UnsupportedLLMError` for anything else."""
    made = llm(given) if isinstance(given, str) else given
    if not isinstance(made, FunctionCallingLLM):
        raise UnsupportedLLMError(f"llm: expected a FunctionCallingLLM or a name, got {type(made).__name__}")
    if made is LATER:
        raise _later_error()
    return made


class _LaterLLM(FunctionCallingLLM):
    @property
    def metadata(self) -> LLMMetadata:
        raise _later_error()

    def check_mode(self, mode: OutputMode | None) -> None:
        """Accept any mode: the LLM that is found is checked, when it is called."""

    def _events(self, messages: Any, tools: Any, tool_choice: ToolChoice, settings: Settings) -> AsyncIterator[Event]:
        raise _later_error()

    def __repr__(self) -> str:
        return "LATER"

    def __reduce__(self) -> str:
        return "LATER"


LATER: Final[FunctionCallingLLM] = _LaterLLM()
"""The `llm=` of a definition that finds its LLM when it is called: that of `use_llm`, or else `Configs.llm`."""


def _later_error() -> UnsupportedLLMError:
    return UnsupportedLLMError(
        "llm: expected an LLM, got LATER, which is for Agent, Engine and ToolOrchestratingLLM. Pass an LLM, or its name"
    )


def found_llm(llm: FunctionCallingLLM) -> FunctionCallingLLM:
    """Return `llm`, or the one that `LATER` stands for here. Raise `MissingLLMError` if there is none."""
    return (replacement() or chosen_llm(None)) if llm is LATER else llm


def chosen_llm(given: object) -> FunctionCallingLLM:
    """Return the LLM `given` (or of that name), or else `Configs.llm`. Raise `MissingLLMError` without either.

    `LATER` is returned as it is.
    """
    if given is LATER:
        return LATER
    chosen = Configs.llm if given is None else given
    if chosen is None:
        raise MissingLLMError("llm must be provided or set in Configs.llm, for example Configs.llm = LlamaCpp()")
    return as_llm(chosen)


def _bedrock(model: str, **options: Unpack[LLMOptions]) -> FunctionCallingLLM:
    from .bedrock import Bedrock

    return Bedrock(model, **take_options(options))


_NAMED: Mapping[str, Callable[..., FunctionCallingLLM]] = {
    "openai": OpenAI,
    "openai-responses": OpenAIResponses,
    "anthropic": Anthropic,
    "anthropic-vertex": AnthropicVertex,
    "bedrock": _bedrock,
    "cohere": Cohere,
    "google": Google,
    "gemini": Google,
    "google-vertex": partial(Google, vertex=True),
    "mistral": Mistral,
    "ollama": Ollama,
}


def providers() -> list[str]:
    """Return the provider names that `llm` accepts before the colon."""
    from ..providers.chat_completions.services import SERVICES

    return sorted({*_NAMED, "local", *SERVICES})


def unknown_llm(name: str) -> UnsupportedLLMError:
    """Return the error for the unknown LLM `name`, with the closest provider, or the one that has the model."""
    from difflib import get_close_matches  # for errors alone

    from ..providers.model_features import provider_of

    provider, colon, model = name.partition(":")
    known = providers()
    near = get_close_matches(provider.lower(), known, 1) if colon else []
    if provider in known:
        advice = f"write '{provider}:MODEL'"
    elif name.lower().endswith(".gguf"):
        advice = f"write 'local:{name}' for a model file"
    elif (written := with_colon(name)) is not None:
        advice = f"write '{written}'"
    elif not colon and (owner := provider_of(name)) is not None:
        advice = f"write '{owner}:{name}'"
    elif near:
        advice = f"no provider is called {provider!r}; did you mean '{near[0]}:{model or 'MODEL'}'?"
    else:
        what = f"no provider is called {provider!r}; write" if colon else "write"
        advice = f"{what} 'provider:model' with one of: {', '.join(known)}"
    of_ollama = f" (a model of Ollama is written 'ollama:{name}')" if model or not colon else ""
    return UnsupportedLLMError(f"{name!r} names no LLM: {advice}{of_ollama}")


def with_colon(name: str) -> str | None:
    """Return a name in the spelling of another library, `openai/gpt-4o` or `google-gla:gemini`, in that of `llm`."""
    provider, _, model = name.partition(":" if name.partition(":")[0] in PROVIDERS else "/")
    provider = PROVIDERS.get(provider.lower(), provider.lower())
    return f"{provider}:{model}" if model and provider in providers() else None


class NamedLLMOptions(LLMOptions, total=False):
    """The keyword arguments of `llm`: `api` and `base_model` are for services that speak OpenAI's protocols."""

    api: API | None
    base_model: str | None


def llm(name: str, **options: Unpack[NamedLLMOptions]) -> FunctionCallingLLM:
    """Return the LLM called `name`: `"provider:model"`, for example `"anthropic:claude-sonnet-4-5"`, or `"local"`.

    Providers are `openai`, `openai-responses`, `anthropic`, `anthropic-vertex`, `bedrock`, `cohere`, `google`,
    `google-vertex`, `mistral`, `ollama`, `local`, and every row of `toolcast.providers.chat_completions.services`.
    """
    for option in ("api", "base_model"):
        if options.get(option, "") is None:  # its default, which other classes do not have
            del cast("dict[str, Any]", options)[option]
    provider, _, model = name.partition(":")
    if provider == "local":
        remote = LLMOptions.__annotations__.keys() - LocalOptions.__annotations__.keys()
        own = {option: value for option, value in take_options(options).items() if option not in remote}
        return LlamaCpp(model or "smollm2", **cast("LocalOptions", own))
    if not model or provider not in providers():
        take_options(options)
        raise unknown_llm(name)
    make = _NAMED.get(provider) or partial(OpenAICompatible, service=provider)
    return make(model, **take_options(options))
