"""The LLM classes of Claude: at Anthropic, and on Vertex AI."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from typing_extensions import Unpack

from ...errors import UnsupportedLLMError
from ...providers.base import ProviderAdapter
from ...values.capabilities import Capabilities, LLMMetadata
from ...values.credentials import API_KEY_VARIABLES, read_variable
from ...values.output_mode import OutputMode
from ..http_llm import LLMOptions, ServiceLLM, take_options
from ..request import ChatRequest
from .google_cloud import GoogleCloudLLM, vertex_url

if TYPE_CHECKING:
    from ...providers.anthropic.adapter import AnthropicAdapter
    from ..credentials.google_credentials import GoogleCredentials


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

    def best_mode(self, request: ChatRequest) -> OutputMode:
        mode = super().best_mode(request)
        # Not beside a search, either: a schema excludes citations, which a search always has.
        if mode != "json_schema" or request.server_tools:
            return "tool_call" if mode == "json_schema" else mode
        if cast("AnthropicAdapter", self.adapter).can_hold(request.conversation(self.model, mode)):
            return mode
        return "tool_call"  # this cannot be forced, but a missing call is asked for again

    def _make_adapter(self) -> ProviderAdapter:
        from ...providers.anthropic.adapter import AnthropicAdapter

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
        from ...providers.anthropic.vertex import AnthropicVertexAdapter

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
