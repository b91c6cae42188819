"""`GoogleCloudLLM`: the base class of LLMs that may be on Vertex AI, with the project, the location and the tokens."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from typing_extensions import Unpack

from ...errors import BadRequest, UnsupportedLLMError
from ...providers.base import ProviderAdapter, RequestInput
from ...transport.network import IOBackend
from ...values.credentials import Secret, read_variable
from ...values.option_types import require_text
from ..client import client_of
from ..http_llm import AUTH_HEADERS, LLMOptions, ServiceLLM, take_options

if TYPE_CHECKING:
    from ..credentials.google_credentials import GoogleCredentials, GoogleTokens
    from ..http.http_attempt import Authentication


class GoogleCloudLLM(ServiceLLM):
    """An LLM that may be on Vertex AI.

    The other arguments are the options of every provider.

    Args:
        model: The name of the model.
        project: The project of Google Cloud.
        location: The location, such as `"europe-west1"` or `"global"`.
        credentials: Credentials of google-auth. Not in pickles.
    """

    def __init__(
        self,
        model: str,
        *,
        project: str | None = None,
        location: str | None = None,
        credentials: GoogleCredentials | None = None,
        **options: Unpack[LLMOptions],
    ) -> None:
        super().__init__(model, **take_options(options))
        require_text("project", project)
        require_text("location", location)
        self.project: str | None = project
        self.location: str | None = location
        self._credentials = credentials
        self._found_project: str | None = None
        self._finds: GoogleTokens | None = None

    @property
    def _project_variables(self) -> tuple[str, ...]:
        """The environment variables of the project."""
        return ("GOOGLE_CLOUD_PROJECT",)

    @property
    def _on_vertex(self) -> bool:
        """True if the LLM is on Vertex AI."""
        return True

    @property
    def _vertex_key(self) -> Secret | None:
        """The key with which requests need no token of google-auth."""
        return self._key

    @cached_property
    def _gets_tokens(self) -> bool:
        """True if google-auth has to find a token. The environment is read once, as for the adapter."""
        if not self._on_vertex or self._auth is not None or self._vertex_key is not None:
            return False
        return not any(name.lower() in AUTH_HEADERS for name in self._headers)

    @property
    def authentication(self) -> Authentication | None:
        """The tokens that google-auth finds, or the credentials of `auth`."""
        return self._tokens if self._gets_tokens else super().authentication

    async def prepare(
        self, conversation: RequestInput, backend: IOBackend, limit: float | None = None
    ) -> ProviderAdapter:
        """Return the adapter. The project of the credentials is looked up if there is no other."""
        if self._made is None and self._gets_tokens and self._looks_up_project:
            self._found_project = await self._tokens.project(backend, limit)
        return await super().prepare(conversation, backend, limit)

    @property
    def _auth_identity(self) -> str:
        return f"google {id(self._credentials)}" if self._gets_tokens else super()._auth_identity

    @property
    def _tokens(self) -> GoogleTokens:
        if self._finds is None:
            from ..credentials.google_credentials import GoogleTokens

            finds = GoogleTokens(lambda: self.__toolcast__.network, self._credentials)
            self._finds = self._finds or finds  # one for all threads: it knows the tokens that it has given
        return self._finds

    @property
    def _known_project(self) -> str | None:
        return self.project or read_variable(self._project_variables) or self._found_project

    @property
    def _looks_up_project(self) -> bool:
        """True if only the credentials have the project."""
        return self._known_project is None

    def _find_project(self) -> str:
        """Return the project. Raise `UnsupportedLLMError` without one."""
        if self._known_project is None and self._gets_tokens:
            # A preview, outside of a call: `prepare` has not looked it up.
            from ...async_support import sync_driver

            self._found_project = sync_driver.run(self._tokens.project(client_of(self).sync_backend()))
        if (found := self._known_project) is None:
            variables = " or ".join(self._project_variables)
            raise UnsupportedLLMError(
                f"{type(self).__name__}({self.model!r}) needs a project of Google Cloud: pass project=, or set "
                f"{variables}. Nothing was sent."
            )
        return found

    def _secret_parts(self) -> list[str]:
        lost = super()._secret_parts()
        return lost if self._credentials is None else [*lost, "credentials="]

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__(), "_credentials": None, "_finds": None}
        state.pop("_gets_tokens", None)
        return state

    def __copy__(self) -> Self:
        copied = super().__copy__()
        copied._credentials = self._credentials
        return copied


def vertex_url(location: str, version: str) -> str:
    """Return the URL of Vertex AI for a location: a region, a multi-region (`us`, `eu`) or `global`.

    Source: `AnthropicVertex` and `Client` of the SDKs of Anthropic and Google, as of November 2026.
    """
    if not re.fullmatch(r"[a-z0-9-]+", location):
        raise BadRequest(
            f"{location!r} is no location of Google Cloud; expected for example 'europe-west1' or 'global'"
        )
    host = {"global": "aiplatform", "us": "aiplatform.us.rep", "eu": "aiplatform.eu.rep"}.get(location)
    return f"https://{host or f'{location}-aiplatform'}.googleapis.com/{version}"
