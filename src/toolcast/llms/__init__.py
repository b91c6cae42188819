"""LLMs: the base class, provider classes, HTTP exchange, fallback, concurrency limits, event streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..accumulator import Accumulator as Accumulator
    from ..cached_content import CachedContent as CachedContent
    from ..capabilities import Capabilities as Capabilities, LLMMetadata as LLMMetadata
    from ..providers.llama_cpp.grammar import SchemaLimits as SchemaLimits
    from ..transport.aiohttp_network import AiohttpNetwork as AiohttpNetwork
    from ..transport.httpx_network import HttpxNetwork as HttpxNetwork
    from ..transport.network import Network as Network
    from ..usage import UsageDetails as UsageDetails
    from .base import AgentChatResponse as AgentChatResponse
    from .embeddings.embed import Embeddings as Embeddings
    from .embeddings.embedder import Embedder as Embedder
    from .event_streams import AsyncEventStream as AsyncEventStream, EventStream as EventStream
    from .local.server import ServerOptions as ServerOptions
    from .request import ChatRequest as ChatRequest
    from .token_counts import TokenCount as TokenCount
    from .wrappers.cached import CachedLLM as CachedLLM
    from .wrappers.caches import Cache as Cache, MemoryCache as MemoryCache, SQLiteCache as SQLiteCache
    from .wrappers.recording import RecordingLLM as RecordingLLM
    from .wrappers.redacted import RedactedLLM as RedactedLLM
    from .wrappers.wrapper import Next as Next, WrapperLLM as WrapperLLM
else:
    from ..lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
