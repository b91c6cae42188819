"""`AnthropicVertex`: models of Anthropic on Vertex AI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import Unpack

from ..credentials import read_variable
from ..errors import UnsupportedLLMError
from ..providers.base import ProviderAdapter
from .google_cloud import GoogleCloudLLM, vertex_url
from .http_llm import LLMOptions, take_options
from .provider_llms import Anthropic

if TYPE_CHECKING:
    from .google_credentials import GoogleCredentials


class AnthropicVertex(GoogleCloudLLM, Anthropic):
    """A model of Anthropic on Vertex AI, with credentials of Google Cloud.

    Without `credentials`, `auth` and `api_key` (an access token) the Application Default Credentials are used, which
    needs `pip install 'toolcast[google]'`. Reads CLOUD_ML_REGION or GOOGLE_CLOUD_LOCATION, ANTHROPIC_VERTEX_PROJECT_ID
    or GOOGLE_CLOUD_PROJECT, and ANTHROPIC_VERTEX_BASE_URL.

    Args:
        model: Vertex AI's name of the model, such as `"claude-sonnet-4-5@20250929"`.
        region: The region, `"us"` or `"eu"`, or `"global"`; the default is that of the environment.
        project: The project; the default is that of the environment, or else of the credentials.
        credentials: Credentials of google-auth. Not in pickles.
        options: The options of every provider.
    """

    provider = "anthropic-vertex"

    def __init__(
        self,
        model: str,
        *,
        region: str | None = None,
        project: str | None = None,
        credentials: GoogleCredentials | None = None,
        **options: Unpack[LLMOptions],
    ) -> None:
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
