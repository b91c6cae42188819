"""`Bedrock`: models of Amazon Bedrock, with a Bedrock API key, or with requests that are signed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, cast

from typing_extensions import Unpack

from ...errors import UnsupportedLLMError
from ...providers.base import ProviderAdapter, RequestInput
from ...transport.network import IOBackend
from ...values.credentials import API_KEY_VARIABLES, Secret, read_variable
from ...values.http_request import HTTPRequest
from ...values.option_types import require_text
from ...values.output_mode import OutputMode
from ..http_llm import LLMOptions, ServiceLLM, take_options
from ..request import ChatRequest

if TYPE_CHECKING:
    from ...providers.bedrock.adapter import BedrockAdapter
    from ..credentials.aws_credentials import AWSSession, AWSSigner
    from ..http.http_attempt import Authentication


class Bedrock(ServiceLLM):
    """A model of Amazon Bedrock, through the Converse API.

    `model` is the id of a model or of an inference profile, or an ARN. With a Bedrock API key (`api_key`, or
    AWS_BEARER_TOKEN_BEDROCK) it needs no further package; without one, requests are signed with the credentials that
    boto3 would use, which needs `pip install 'toolcast[bedrock]'`. A `profile` or `session` that is passed is used even
    if the variable is set. The variables of AWS are read: AWS_REGION or AWS_DEFAULT_REGION, AWS_PROFILE,
    AWS_ENDPOINT_URL_BEDROCK_RUNTIME or AWS_ENDPOINT_URL, and those of the credentials.

    The other arguments are the options of every provider.

    Args:
        model: The id or ARN.
        region: The region; the default is that of the environment, or else of the profile.
        profile: A profile of the AWS configuration files.
        session: A session of boto3 or botocore with its own credentials. Not in pickles.
    """

    provider = "bedrock"

    def __init__(
        self,
        model: str,
        *,
        region: str | None = None,
        profile: str | None = None,
        session: AWSSession | None = None,
        **options: Unpack[LLMOptions],
    ) -> None:
        super().__init__(model, **take_options(options))
        require_text("region", region)
        require_text("profile", profile)
        self.region: str | None = region
        self.profile: str | None = profile
        self._session = session
        self._found_region: str | None = None
        self._signs: AWSSigner | None = None

    @property
    def authentication(self) -> Authentication | None:
        """The signatures, or the credentials of `auth`."""
        return _Signatures(lambda: self._signer) if self._signs_requests else super().authentication

    async def prepare(
        self, conversation: RequestInput, backend: IOBackend, limit: float | None = None
    ) -> ProviderAdapter:
        """Return the adapter. The region of a profile is read from its file, in a worker thread under an event loop."""
        if backend.concurrent and not self._known_region and (self._signs_requests or not self.base_url):
            from anyio import to_thread

            await to_thread.run_sync(self._find_region, abandon_on_cancel=True)
        return await super().prepare(conversation, backend, limit)

    def best_mode(self, request: ChatRequest) -> OutputMode:
        mode = super().best_mode(request)
        if mode != "json_schema":
            return mode
        if cast("BedrockAdapter", self.adapter).can_hold(request.conversation(self.model, mode)):
            return mode
        return "tool_call" if self.metadata.capabilities.tools is not False else "prompted"

    @property
    def _signs_requests(self) -> bool:
        return self._auth is None and self._api_key is None

    @property
    def _api_key(self) -> Secret | None:
        """The Bedrock API key, with which nothing is signed."""
        if self._key is None and (self.profile is not None or self._session is not None):
            return None
        return self.secret(*API_KEY_VARIABLES["bedrock"])

    @property
    def _auth_identity(self) -> str:
        if self._signs_requests:
            return f"aws {self.profile or os.environ.get('AWS_PROFILE', '')} {id(self._session)}"
        return super()._auth_identity

    @property
    def _known_region(self) -> str | None:
        """The region, if no file needs to be read for it."""
        environ = ("AWS_REGION", "AWS_DEFAULT_REGION") if self._session is None else ()
        return self.region or self._found_region or read_variable(environ)

    def _find_region(self) -> str:
        """Return the region. Raise `UnsupportedLLMError` without one."""
        found = self._known_region or self._configured_region()
        if not found:
            raise UnsupportedLLMError(
                f"Bedrock({self.model!r}) needs a region: pass region=, set AWS_REGION, or set a region in the profile"
            )
        self._found_region = found
        return found

    def _configured_region(self) -> str | None:
        from ..credentials.aws_credentials import configured_region

        return configured_region(self.profile, self._session)

    @property
    def _signer(self) -> AWSSigner:
        if self._signs is None:
            from ..credentials.aws_credentials import AWSSigner

            self._signs = AWSSigner("bedrock", self._find_region(), profile=self.profile, session=self._session)
        return self._signs

    def _make_adapter(self) -> ProviderAdapter:
        from ...providers.bedrock.adapter import BedrockAdapter, runtime_url

        url = self._given_url or runtime_url(self._find_region(), os.environ)
        return BedrockAdapter(api_key=self._api_key, base_url=url, headers=self._headers)

    def _secret_parts(self) -> list[str]:
        lost = super()._secret_parts()
        return lost if self._session is None else [*lost, "session="]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_session": None, "_signs": None}

    def __copy__(self) -> Self:
        copied = super().__copy__()
        copied._session, copied._signs = self._session, self._signs
        return copied


class _Signatures:
    """The signatures of requests, by a signer that is made for the first of them."""

    def __init__(self, signer: Callable[[], AWSSigner]) -> None:
        self._signer = signer

    async def authorize(self, request: HTTPRequest, backend: IOBackend, limit: float | None = None) -> HTTPRequest:
        """Return `request` with its signature."""
        try:
            return await self._signer().sign(request, backend, limit)
        except Exception as error:  # any: the frames of its traceback contain credentials
            error.__traceback__ = None
            raise

    def renew(self, request: HTTPRequest) -> bool:
        """Return False: each request is signed anew."""
        return False
