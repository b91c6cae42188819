"""The LLM classes of OpenAI, and of the services that speak its protocols."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import urlsplit

from typing_extensions import Unpack

from ...errors import UnsupportedLLMError
from ...providers.base import ProviderAdapter, RequestInput
from ...values.capabilities import LLMMetadata
from ...values.credentials import Secret, read_variable
from ...values.http_request import is_at
from ...values.option_suggestions import refuse_unknown
from ...values.option_types import require_text
from ...values.output_mode import OutputMode
from ...values.settings import Settings
from ..http_llm import LLMOptions, ServiceLLM, known_metadata, take_options
from ..request import ChatRequest

if TYPE_CHECKING:
    from ...providers.chat_completions.adapter import OpenAIChatAdapter
    from ...providers.chat_completions.openai_base import OpenAIBaseAdapter
    from ...providers.chat_completions.services import API, ServiceSpec as Row

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

    def best_mode(self, request: ChatRequest) -> OutputMode:
        mode = super().best_mode(request)
        if mode != "tool_call" or self._row.api == "chat":
            return mode
        adapter, settings = cast("OpenAIBaseAdapter", self.adapter), request.settings
        limits = adapter.limits(self.model, settings.thinking)
        if "tools" not in limits or not (request.tools and request.is_typed):
            return mode
        holds = self.metadata.capabilities.json_schema is not False
        return "json_schema" if holds and adapter.needs_chat(request.messages, settings, limits) else mode

    def _mode_beside_server_tools(self, request: ChatRequest) -> OutputMode:
        if self.speaks_responses:
            # OpenAI and xAI constrain the text after a search to a schema; a function is no output, and has to be
            # called.
            can = self._row.responses_tools in ("openai", "xai") and self.metadata.capabilities.json_schema
            return "json_schema" if can and request.is_typed else "tool_call"
        from ...providers.chat_completions.openai_base import family_behind

        # The Compound systems of Groq have no tools but their own.
        family = family_behind(self._row, self.model)
        return "prompted" if family is not None and family.has("compound") else "tool_call"

    @cached_property
    def _row(self) -> Row:
        """The service's differences from OpenAI: by the name `service`, by `base_url`, or a generic one."""
        from ...providers.chat_completions.services import GENERIC, SERVICES

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
        from ...providers.chat_completions.endpoints import read_auth_header, read_headers, service_url

        row = self._row
        if not (self.base_url or read_variable(row.url_env) or self.service):
            raise UnsupportedLLMError(f"{type(self).__name__}({self.model!r}) needs base_url= or service=")
        headers = {**read_headers(row, os.environ), **self._headers}
        header, key = read_auth_header(row, self._key, {} if self._auth else os.environ)
        url = service_url(row, self._given_url, self.model, os.environ)
        return replace(row, key_header=header, base_model=self.base_model or ""), key, url, headers

    def counting_adapter(self, adapter: ProviderAdapter) -> ProviderAdapter:
        # The endpoint takes requests of the Responses API, also for tokens of chat completions.
        if self._row.counts != "responses" or self.speaks_responses:
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
    def speaks_responses(self) -> bool:
        return self.api != "chat" and self.adapter.base_url.partition("?")[0].endswith("/responses")

    def answering_adapter(self, request_input: RequestInput, settings: Settings, body: bytes) -> ProviderAdapter:
        if (kind := _KIND.search(body)) is None:
            return super().answering_adapter(request_input, settings, body)
        api: API = "responses" if kind[1] == b"response" else "chat"
        if (api == "responses") == self.speaks_responses:
            return self.adapter
        other = copy(
            self
        )  # for a response of the other protocol, such as of a batch that was submitted with another `api=`
        other.api = api
        return other.adapter

    @property
    def stores_responses(self) -> bool:
        return self.speaks_responses and "responses" in self._row.stores


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
    from ...providers.chat_completions.adapter import OpenAIChatAdapter

    return OpenAIChatAdapter(row, api_key=key, base_url=url, headers=headers)


def _responses_adapter(
    row: Row,
    key: Secret | None,
    url: str,
    headers: Mapping[str, str | Secret],
    chat: Callable[[], OpenAIChatAdapter] | None = None,
) -> ProviderAdapter:
    """Return the adapter of the Responses API of a service, for the URL of its chat completions."""
    from ...providers.openai.adapter import OpenAIResponsesAdapter

    url = url.replace("/chat/completions", "/responses", 1)
    return OpenAIResponsesAdapter(row, chat=chat, api_key=key, base_url=url, headers=headers)
