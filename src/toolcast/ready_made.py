"""The ready-made LLMs: each a service's dialect behind the network.

A class here says only what is its service's own: where it is, which environment variables it reads, which wire
speaks to it. The wire is loaded on first use, so that nobody pays for a dialect that is not spoken.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast
from urllib.parse import urlsplit

from typing_extensions import Unpack

from .asking import Ask
from .errors import AuthFailed, UnsupportedLLMError
from .llms import FunctionCallingLLM, LLMMetadata, NetworkChoice
from .providers.wire import Conversation, HTTPRequest, Secret, Wire
from .runtime.network import Outside
from .service_llm import Options, ServiceLLM, first_set
from .settings import Settings

if TYPE_CHECKING:
    from .providers.compatible import Service as Row
    from .providers.grammar import Limits
    from .providers.llama_cpp import LlamaCppWire
    from .runtime.local_model import LocalServer, ServerOptions


class LocalOptions(TypedDict, total=False):
    """What `LlamaCpp` takes besides the model and how it runs."""

    settings: Settings | None
    system_prompt: str | None
    max_retries: int
    network: NetworkChoice | None


class OpenAICompatible(ServiceLLM):
    """A model behind any service that speaks OpenAI's chat completions.

    `service` names a row of `toolcast.providers.compatible` (`"groq"`, `"deepseek"`, ...) for the ways in which
    it differs; without it, the row whose address `base_url` is.
    """

    provider = "openai-compatible"

    def __init__(self, model: str, *, service: str | None = None, **options: Unpack[Options]) -> None:
        super().__init__(model, **options)
        self.service = service

    @property
    def metadata(self) -> LLMMetadata:
        """What is known about the model."""
        return LLMMetadata(self.model, self.wire.provider)

    async def prepare(self, conversation: Conversation, outside: Outside) -> Wire:
        """The wire; raises `AuthFailed` where the service needs a key and there is none."""
        wire, row = self.wire, self._row
        if row.needs_key and self._auth is None and self.secret(*row.key_env) is None:
            names = " or ".join(row.key_env) or "a key"
            raise AuthFailed(f"no API key for {row.name}: set {names}, or pass api_key=. Nothing was sent.")
        return wire

    @cached_property
    def _row(self) -> Row:
        """How the service differs: the row that was named, or whose address `base_url` is, or none in particular."""
        from .providers.compatible import GENERIC, SERVICES

        if self.service is not None:
            if self.service not in SERVICES:
                raise UnsupportedLLMError(
                    f"no service is called {self.service!r}; there are: {', '.join(SERVICES)}. "
                    "For any other give base_url=."
                )
            return SERVICES[self.service]
        host = urlsplit(self.base_url or "").hostname
        return next((row for row in SERVICES.values() if host and urlsplit(row.base_url).hostname == host), GENERIC)

    def _make_wire(self) -> Wire:
        from .providers.openai_chat import OpenAIChatWire

        row = self._row
        base_url = self.base_url or first_set(row.url_env) or (row.base_url if self.service else None)
        if not base_url:
            raise UnsupportedLLMError(f"{type(self).__name__}({self.model!r}) needs base_url= or service=")
        named = {header: value for header, name in row.header_env.items() if (value := os.environ.get(name))}
        return OpenAIChatWire(row, api_key=self.secret(*row.key_env), base_url=base_url, headers=named | self._headers)


class OpenAI(OpenAICompatible):
    """A model of OpenAI, through chat completions. Reads OPENAI_API_KEY and OPENAI_BASE_URL."""

    provider = "openai"

    def __init__(self, model: str, **options: Unpack[Options]) -> None:
        super().__init__(model, service="openai", **options)


class Ollama(ServiceLLM):
    """A model that Ollama runs. Reads OLLAMA_HOST and OLLAMA_API_KEY; on this machine without them."""

    provider = "ollama"

    def _make_wire(self) -> Wire:
        from .providers.ollama import OllamaWire, ollama_url

        base_url = self.base_url or ollama_url(os.environ.get("OLLAMA_HOST", ""))
        return OllamaWire(api_key=self.secret("OLLAMA_API_KEY"), base_url=base_url, headers=self._headers)

    def mode(self, ask: Ask) -> str:
        """`json_schema` where a tool is forced: Ollama ignores tool choices, but obeys a `format`."""
        forced = ask.conversation(self.model).tool_choice not in (None, "auto", "none")
        return "json_schema" if forced else "tool_call"


class LlamaCpp(ServiceLLM):
    """A model that runs inside this process, through llama.cpp: no key, no server to start, nothing leaves.

    `model` is a name that `toolcast pull` knows, or the path of a GGUF file. The first use fetches the weights where
    they are missing and starts the model (about half a second). Needs `pip install 'toolcast[local]'`.
    `server` says how the model runs, `limits` how much it may write where a schema sets no limit; `native_tools`
    leaves `tool_choice="auto"` to the model's own chat template.
    """

    provider = "llama.cpp"

    def __init__(
        self,
        model: str | Path = "smollm2",
        *,
        server: ServerOptions | None = None,
        limits: Limits | None = None,
        native_tools: bool = False,
        **options: Unpack[LocalOptions],
    ) -> None:
        super().__init__(str(model), **options)
        self._server_options = server
        self._limits = limits
        self._native_tools = native_tools

    @property
    def metadata(self) -> LLMMetadata:
        """What is known about the model."""
        context = self._server_options.context if self._server_options else 4096
        return LLMMetadata(self.model, self.provider, context_window=context)

    async def prepare(self, conversation: Conversation, outside: Outside) -> Wire:
        """The wire, once the model runs and was seen to obey the schemas of this conversation's tools."""
        from anyio import to_thread

        wire = await to_thread.run_sync(self._start) if outside.concurrent else self._start()
        probe = wire.preflight(conversation)
        if probe is not None:
            error = wire.preflight_ok(conversation, await _fetched(probe, outside))
            if error is not None:
                raise error
        return wire

    def mode(self, ask: Ask) -> str:
        """`grammar`: the model can write nothing but what fits the tools."""
        return "grammar" if ask.conversation(self.model).tools else "tool_call"

    def _start(self) -> LlamaCppWire:
        """The wire of the running server, whose address is new each time it starts."""
        server = self._server()
        server.ready()
        if self._made is None or self._served_at != server.base_url:
            self._served_at = server.base_url
            self._made = self._dialect(server.base_url, server.api_key)
        return cast("LlamaCppWire", self._made)

    def _server(self) -> LocalServer:
        from .runtime.local_model import running
        from .runtime.weights import WEIGHTS, pull

        path = pull(self.model) if self.model in WEIGHTS else Path(self.model)
        return running(path, self._server_options)

    def _make_wire(self) -> Wire:
        return self._dialect("http://127.0.0.1/v1", None)

    def _dialect(self, base_url: str, key: Secret | None) -> LlamaCppWire:
        from .providers.llama_cpp import LlamaCppWire

        return LlamaCppWire(base_url=base_url, api_key=key, limits=self._limits, native_tools=self._native_tools)


async def _fetched(request: HTTPRequest, outside: Outside) -> bytes:
    """The body of a short answer."""
    body = await outside.open(request, connect=10, read=60)
    try:
        content = bytearray()
        while data := await body.read(60):
            content += data
        return bytes(content)
    finally:
        await body.close()


def llm(name: str, **options: Unpack[Options]) -> FunctionCallingLLM:
    """The LLM called `name`: `"provider:model"`, for example `"ollama:llama3.2"`, or `"local"`.

    Providers are `openai`, `ollama`, `local` and every row of `toolcast.providers.compatible`.
    """
    provider, _, model = name.partition(":")
    if provider == "local":
        own = {option: value for option, value in options.items() if option in LocalOptions.__annotations__}
        return LlamaCpp(model or "smollm2", **cast("LocalOptions", own))
    from .providers.compatible import SERVICES

    if not model or provider not in ("openai", "ollama", *SERVICES):
        known = ", ".join(sorted({"openai", "ollama", "local", *SERVICES}))
        raise UnsupportedLLMError(f"{name!r} names no LLM; write 'provider:model' with one of: {known}")
    if provider == "openai":
        return OpenAI(model, **options)
    if provider == "ollama":
        return Ollama(model, **options)
    return OpenAICompatible(model, service=provider, **options)
