"""The LLM class of Gemini: in the Gemini API, and on Vertex AI."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from typing_extensions import Unpack

from ...async_support import sync_driver
from ...providers.base import ProviderAdapter, RequestInput
from ...values.cached_content import CachedContent
from ...values.credentials import API_KEY_VARIABLES, Secret, read_variable
from ...values.option_types import require_text
from ...values.output_mode import OutputMode
from ...values.tool_spec import ToolChoice
from ..client import client_of
from ..http_llm import LLMOptions, take_options
from ..request import ChatRequest, Messages, Tools
from .google_cloud import GoogleCloudLLM, vertex_url

if TYPE_CHECKING:
    from ..credentials.google_credentials import GoogleCredentials


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

        request_input, backend = self._cache_input(messages, tools, tool_choice), client_of(self).sync_backend()
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
        return await create_cache(self, request_input, client_of(self).async_backend(), ttl=ttl, name=name)

    def describe_cache(self, cache: CachedContent | str) -> CachedContent:
        """Return a cache, or the cache of this name, with its tokens and the time when it expires.

        Raises:
            LLMError: It has expired, or the request failed.
        """
        from .google_caches import describe_cache

        return sync_driver.run(describe_cache(self, cache, client_of(self).sync_backend()))

    async def adescribe_cache(self, cache: CachedContent | str) -> CachedContent:
        """Return a cache, or the cache of this name; see `describe_cache`."""
        from .google_caches import describe_cache

        return await describe_cache(self, cache, client_of(self).async_backend())

    def renew_cache(self, cache: CachedContent | str, *, ttl: float = 3600.0) -> CachedContent:
        """Let a cache expire in `ttl` seconds from now, and return it."""
        from .google_caches import renew_cache

        return sync_driver.run(renew_cache(self, cache, client_of(self).sync_backend(), ttl=ttl))

    async def arenew_cache(self, cache: CachedContent | str, *, ttl: float = 3600.0) -> CachedContent:
        """Let a cache expire in `ttl` seconds from now, and return it."""
        from .google_caches import renew_cache

        return await renew_cache(self, cache, client_of(self).async_backend(), ttl=ttl)

    def delete_cache(self, cache: CachedContent | str) -> None:
        """Delete a cache. Raise `LLMError` if it does not exist any more."""
        from .google_caches import delete_cache

        sync_driver.run(delete_cache(self, cache, client_of(self).sync_backend()))

    async def adelete_cache(self, cache: CachedContent | str) -> None:
        """Delete a cache. Raise `LLMError` if it does not exist any more."""
        from .google_caches import delete_cache

        await delete_cache(self, cache, client_of(self).async_backend())

    def _cache_input(self, messages: Messages, tools: Tools, tool_choice: ToolChoice) -> RequestInput:
        request = client_of(self).build_request(messages, tools, tool_choice, None, parallel=True)
        # A schema for the text of responses is no part of a cache: its tools are tools.
        return request.conversation(self.model, "tool_call")

    def best_mode(self, request: ChatRequest) -> OutputMode:
        cached = request.settings.cached_content is not None
        # Tools cannot stand beside a cache, and a schema can.
        return "json_schema" if cached and request.forces and request.is_typed else super().best_mode(request)

    def _mode_beside_server_tools(self, request: ChatRequest) -> OutputMode:
        from ...providers.google.adapter import has_levels
        from ...providers.model_features import model_family

        # Models before Gemini 3 have a search alone: without other tools, and without a schema.
        if not has_levels(model_family("google", self.model, own=self._is_own)):
            return "prompted"
        return "json_schema" if request.is_typed else "tool_call"

    def _make_adapter(self) -> ProviderAdapter:
        from ...providers.google.adapter import GoogleAdapter

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
        from ...providers.http_adapter import join_url

        given = self._given_url or read_variable(("GOOGLE_VERTEX_BASE_URL",))
        if given and "/publishers/" in given:
            return given
        location, version = self._location or "global", (self.api_version or "v1beta1").strip("/")
        root = join_url(given, f"/{version}") if given else vertex_url(location, version)
        express = self._vertex_key is not None and not self.project and not self.location
        place = "" if express else f"/projects/{quote(self._find_project(), safe=':')}/locations/{location}"
        return join_url(root, f"{place}/publishers/google")
