"""LLMs: the base class, provider classes, HTTP exchange, fallback, concurrency limits, event streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..providers.llama_cpp.grammar import SchemaLimits as SchemaLimits
    from ..transport.aiohttp_network import AiohttpNetwork as AiohttpNetwork
    from ..transport.httpx_network import HttpxNetwork as HttpxNetwork
    from ..transport.network import Network as Network
    from ..values.accumulator import Accumulator as Accumulator
    from ..values.cached_content import CachedContent as CachedContent
    from ..values.capabilities import Capabilities as Capabilities, LLMMetadata as LLMMetadata
    from ..values.usage import UsageDetails as UsageDetails
    from .embeddings.embed import Embeddings as Embeddings
    from .embeddings.offline import Embedder as Embedder
    from .event_streams import AsyncEventStream as AsyncEventStream, EventStream as EventStream
    from .function_calling_llm import AgentChatResponse as AgentChatResponse
    from .local.llama_server import ServerOptions as ServerOptions
    from .request import ChatRequest as ChatRequest
    from .token_counts import TokenCount as TokenCount
    from .wrappers.answer_caches import Cache as Cache, MemoryCache as MemoryCache, SQLiteCache as SQLiteCache
    from .wrappers.cached_llm import CachedLLM as CachedLLM
    from .wrappers.recording_llm import RecordingLLM as RecordingLLM
    from .wrappers.redacted_llm import RedactedLLM as RedactedLLM
    from .wrappers.wrapper_llm import Next as Next, WrapperLLM as WrapperLLM
else:
    from ..lazy.lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
