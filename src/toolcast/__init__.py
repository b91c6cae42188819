"""toolcast: structured, tool-orchestrated LLM calls.

    prompt ──> messages ──> provider request ──> network ──> bytes
                                                               │
       objects <── partials <── json_stream <── events <── provider decoder
          │
          └── orchestrator ── llms ── retries

A user hands over a model, a prompt and a Pydantic model, and gets typed objects back, whole or growing:

    make_album = ToolOrchestratingLLM(output_cls=Album, prompt="Create an album about {topic}", llm=LlamaCpp())
    album = make_album(topic="the sea")

Every name here is loaded when it is first used, so that importing toolcast costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answers import AgentChatResponse as AgentChatResponse
    from .calls import Result as Result
    from .configs import Configs as Configs
    from .errors import (
        Attempt as Attempt,
    )
    from .errors import (
        AuthFailed as AuthFailed,
    )
    from .errors import (
        BadRequest as BadRequest,
    )
    from .errors import (
        CallError as CallError,
    )
    from .errors import (
        ConnectFailed as ConnectFailed,
    )
    from .errors import (
        ContentBlocked as ContentBlocked,
    )
    from .errors import (
        ContextTooLong as ContextTooLong,
    )
    from .errors import (
        LimitExceeded as LimitExceeded,
    )
    from .errors import (
        LLMError as LLMError,
    )
    from .errors import (
        MalformedEvent as MalformedEvent,
    )
    from .errors import (
        MissingLLMError as MissingLLMError,
    )
    from .errors import (
        MissingOutputError as MissingOutputError,
    )
    from .errors import (
        NotFound as NotFound,
    )
    from .errors import (
        NoToolCallError as NoToolCallError,
    )
    from .errors import (
        OutputTruncated as OutputTruncated,
    )
    from .errors import (
        OutputTypeError as OutputTypeError,
    )
    from .errors import (
        Overloaded as Overloaded,
    )
    from .errors import (
        PromptError as PromptError,
    )
    from .errors import (
        QuotaExceeded as QuotaExceeded,
    )
    from .errors import (
        RateLimited as RateLimited,
    )
    from .errors import (
        Refused as Refused,
    )
    from .errors import (
        ServerError as ServerError,
    )
    from .errors import (
        StreamBusy as StreamBusy,
    )
    from .errors import (
        StreamClosed as StreamClosed,
    )
    from .errors import (
        StreamInterrupted as StreamInterrupted,
    )
    from .errors import (
        StreamTruncated as StreamTruncated,
    )
    from .errors import (
        Timeout as Timeout,
    )
    from .errors import (
        ToolcastError as ToolcastError,
    )
    from .errors import (
        TryAgain as TryAgain,
    )
    from .errors import (
        UnknownToolError as UnknownToolError,
    )
    from .errors import (
        UnsupportedLLMError as UnsupportedLLMError,
    )
    from .errors import (
        ValidationError as ValidationError,
    )
    from .events import (
        Accumulator as Accumulator,
    )
    from .events import (
        ChatResponse as ChatResponse,
    )
    from .events import (
        Event as Event,
    )
    from .events import (
        Failover as Failover,
    )
    from .events import (
        Finish as Finish,
    )
    from .events import (
        RawEvent as RawEvent,
    )
    from .events import (
        Restarted as Restarted,
    )
    from .events import (
        Routing as Routing,
    )
    from .events import (
        StopReason as StopReason,
    )
    from .events import (
        TextDelta as TextDelta,
    )
    from .events import (
        ThinkingDelta as ThinkingDelta,
    )
    from .events import (
        ToolCallDelta as ToolCallDelta,
    )
    from .events import (
        ToolCallDone as ToolCallDone,
    )
    from .events import (
        ToolCallReset as ToolCallReset,
    )
    from .events import (
        ToolCallStart as ToolCallStart,
    )
    from .events import (
        UsageReport as UsageReport,
    )
    from .fallback import FallbackLLM as FallbackLLM
    from .llms import (
        FunctionCallingLLM as FunctionCallingLLM,
    )
    from .messages import (
        AudioPart as AudioPart,
    )
    from .messages import (
        DocumentPart as DocumentPart,
    )
    from .messages import (
        ImagePart as ImagePart,
    )
    from .messages import (
        Message as Message,
    )
    from .messages import (
        TextPart as TextPart,
    )
    from .messages import (
        ThinkingPart as ThinkingPart,
    )
    from .messages import (
        ToolCallPart as ToolCallPart,
    )
    from .messages import (
        ToolResultPart as ToolResultPart,
    )
    from .messages import (
        assistant as assistant,
    )
    from .messages import (
        system as system,
    )
    from .messages import (
        tool_result as tool_result,
    )
    from .messages import (
        user as user,
    )
    from .metadata import Capabilities as Capabilities
    from .metadata import LLMMetadata as LLMMetadata
    from .objects import StreamingObjectProcessor as StreamingObjectProcessor
    from .orchestrator import Preview as Preview
    from .orchestrator import ToolOrchestratingLLM as ToolOrchestratingLLM
    from .parsing.partials import Done as Done
    from .parsing.partials import NotNull as NotNull
    from .parsing.partials import PathChange as PathChange
    from .parsing.partials import is_partial as is_partial
    from .prompts import ChatPromptTemplate as ChatPromptTemplate
    from .prompts import PromptTemplate as PromptTemplate
    from .ready_made import (
        Anthropic as Anthropic,
    )
    from .ready_made import (
        Google as Google,
    )
    from .ready_made import (
        LlamaCpp as LlamaCpp,
    )
    from .ready_made import (
        Mistral as Mistral,
    )
    from .ready_made import (
        Ollama as Ollama,
    )
    from .ready_made import (
        OpenAI as OpenAI,
    )
    from .ready_made import (
        OpenAICompatible as OpenAICompatible,
    )
    from .ready_made import (
        OpenAIResponses as OpenAIResponses,
    )
    from .ready_made import (
        llm as llm,
    )
    from .runtime.aiohttp_network import AiohttpNetwork as AiohttpNetwork
    from .runtime.network import HttpxNetwork as HttpxNetwork
    from .runtime.network import Network as Network
    from .settings import Settings as Settings
    from .settings import Timeouts as Timeouts
    from .streams import (
        AsyncEventStream as AsyncEventStream,
    )
    from .streams import (
        AsyncObjectStream as AsyncObjectStream,
    )
    from .streams import (
        EventStream as EventStream,
    )
    from .streams import (
        ObjectStream as ObjectStream,
    )
    from .tools import CallableTool as CallableTool
    from .tools import ToolOutput as ToolOutput
    from .usage import Usage as Usage

_ROOMS = {
    "answers": "AgentChatResponse",
    "calls": "Result",
    "configs": "Configs",
    "errors": "Attempt AuthFailed BadRequest CallError ConnectFailed ContentBlocked ContextTooLong LLMError "
    "LimitExceeded MalformedEvent MissingLLMError MissingOutputError NoToolCallError NotFound OutputTruncated "
    "OutputTypeError Overloaded PromptError QuotaExceeded RateLimited Refused ServerError StreamBusy StreamClosed "
    "StreamInterrupted StreamTruncated Timeout ToolcastError TryAgain UnknownToolError UnsupportedLLMError "
    "ValidationError",
    "events": "Accumulator ChatResponse Event Failover Finish RawEvent Restarted Routing StopReason TextDelta "
    "ThinkingDelta ToolCallDelta ToolCallDone ToolCallReset ToolCallStart UsageReport",
    "fallback": "FallbackLLM",
    "llms": "FunctionCallingLLM",
    "messages": "AudioPart DocumentPart ImagePart Message TextPart ThinkingPart ToolCallPart ToolResultPart "
    "assistant system tool_result user",
    "metadata": "Capabilities LLMMetadata",
    "objects": "StreamingObjectProcessor",
    "orchestrator": "Preview ToolOrchestratingLLM",
    "parsing.partials": "Done NotNull PathChange is_partial",
    "prompts": "ChatPromptTemplate PromptTemplate",
    "ready_made": "Anthropic Google LlamaCpp Mistral Ollama OpenAI OpenAICompatible OpenAIResponses llm",
    "runtime.aiohttp_network": "AiohttpNetwork",
    "runtime.network": "HttpxNetwork Network",
    "settings": "Settings Timeouts",
    "streams": "AsyncEventStream AsyncObjectStream EventStream ObjectStream",
    "tools": "CallableTool ToolOutput",
    "usage": "Usage",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = sorted([*_HOME, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll] - built from the table


def __getattr__(name: str) -> Any:
    room = _HOME.get(name)
    if room is None:
        raise AttributeError(f"module 'toolcast' has no attribute {name!r}")
    value = getattr(import_module(f"toolcast.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
