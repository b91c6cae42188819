"""`LlamaCpp`: an LLM inside this process, without a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypedDict, cast

from typing_extensions import Unpack

from ...providers.base import ProviderAdapter, RequestInput
from ...transport.network import IOBackend
from ...transport.network_choice import NetworkChoice
from ...values.capabilities import Capabilities, LLMMetadata, Progress
from ...values.credentials import Secret
from ...values.http_request import HTTPRequest
from ...values.output_mode import OutputMode
from ...values.prices import Prices
from ...values.settings import Settings, Timeouts
from ..http_llm import ServiceLLM
from ..request import ChatRequest

if TYPE_CHECKING:
    from ...providers.llama_cpp.adapter import LlamaCppAdapter
    from ...providers.llama_cpp.grammar import SchemaLimits
    from .llama_server import LocalServer, ServerOptions


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

    def best_mode(self, request: ChatRequest) -> OutputMode:
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
        from .llama_server import running
        from .pulled import pulled_path
        from .weights import WEIGHTS, pull

        if self.model in WEIGHTS:
            path = pull(self.model, progress=progress)
        else:
            path = pulled_path(self.model) or Path(self.model)
        return running(path, self._server_options)

    def _make_adapter(self) -> ProviderAdapter:
        return self._build_adapter("http://127.0.0.1/v1", None)

    def _build_adapter(self, base_url: str, key: Secret | None) -> LlamaCppAdapter:
        from ...providers.llama_cpp.adapter import LlamaCppAdapter

        return LlamaCppAdapter(base_url=base_url, api_key=key, limits=self._limits, native_tools=self._native_tools)


_LONGEST: Final = 1024 * 1024  # bytes of a short response


async def fetched(request: HTTPRequest, backend: IOBackend) -> bytes:
    """Return the body of a short response of a local server."""
    from ..http.http_attempt import TimeLimits, connected, read_content

    limits = TimeLimits(Timeouts(first_token=60), backend.now)
    limits.begin()
    body = await connected(request, backend, limits)
    try:
        return await read_content(body, limits, _LONGEST)
    finally:
        await body.close()
