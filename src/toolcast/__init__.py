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
    from .calls import Result as Result
    from .configs import Configs as Configs
    from .errors import (
        Attempt as Attempt,
        AuthFailed as AuthFailed,
        BadRequest as BadRequest,
        CallError as CallError,
        ConnectFailed as ConnectFailed,
        ContentBlocked as ContentBlocked,
        ContextTooLong as ContextTooLong,
        LimitExceeded as LimitExceeded,
        LLMError as LLMError,
        MalformedEvent as MalformedEvent,
        MissingLLMError as MissingLLMError,
        MissingOutputError as MissingOutputError,
        NoToolCallError as NoToolCallError,
        NotFound as NotFound,
        OutputTruncated as OutputTruncated,
        OutputTypeError as OutputTypeError,
        Overloaded as Overloaded,
        PromptError as PromptError,
        QuotaExceeded as QuotaExceeded,
        RateLimited as RateLimited,
        Refused as Refused,
        ServerError as ServerError,
        StreamBusy as StreamBusy,
        StreamClosed as StreamClosed,
        StreamInterrupted as StreamInterrupted,
        StreamTruncated as StreamTruncated,
        Timeout as Timeout,
        ToolcastError as ToolcastError,
        TryAgain as TryAgain,
        UnknownToolError as UnknownToolError,
        UnsupportedLLMError as UnsupportedLLMError,
        ValidationError as ValidationError,
    )
    from .events import (
        Accumulator as Accumulator,
        ChatResponse as ChatResponse,
        Event as Event,
        Finish as Finish,
        RawEvent as RawEvent,
        Restarted as Restarted,
        StopReason as StopReason,
        TextDelta as TextDelta,
        ThinkingDelta as ThinkingDelta,
        ToolCallDelta as ToolCallDelta,
        ToolCallDone as ToolCallDone,
        ToolCallReset as ToolCallReset,
        ToolCallStart as ToolCallStart,
        UsageReport as UsageReport,
    )
    from .llms import (
        AgentChatResponse as AgentChatResponse,
        FunctionCallingLLM as FunctionCallingLLM,
        LLMMetadata as LLMMetadata,
    )
    from .messages import (
        AudioPart as AudioPart,
        DocumentPart as DocumentPart,
        ImagePart as ImagePart,
        Message as Message,
        TextPart as TextPart,
        ThinkingPart as ThinkingPart,
        ToolCallPart as ToolCallPart,
        ToolResultPart as ToolResultPart,
        assistant as assistant,
        system as system,
        tool_result as tool_result,
        user as user,
    )
    from .objects import StreamingObjectProcessor as StreamingObjectProcessor
    from .orchestrator import Preview as Preview, ToolOrchestratingLLM as ToolOrchestratingLLM
    from .parsing.partials import Done as Done, NotNull as NotNull, is_partial as is_partial
    from .prompts import ChatPromptTemplate as ChatPromptTemplate, PromptTemplate as PromptTemplate
    from .ready_made import (
        LlamaCpp as LlamaCpp,
        Ollama as Ollama,
        OpenAI as OpenAI,
        OpenAICompatible as OpenAICompatible,
        llm as llm,
    )
    from .runtime.network import HttpxNetwork as HttpxNetwork, Network as Network
    from .settings import Settings as Settings, Timeouts as Timeouts
    from .streams import (
        AsyncEventStream as AsyncEventStream,
        AsyncObjectStream as AsyncObjectStream,
        EventStream as EventStream,
        ObjectStream as ObjectStream,
    )
    from .tools import CallableTool as CallableTool, ToolOutput as ToolOutput
    from .usage import Usage as Usage

_ROOMS = {
    "calls": "Result",
    "configs": "Configs",
    "errors": "Attempt AuthFailed BadRequest CallError ConnectFailed ContentBlocked ContextTooLong LLMError "
    "LimitExceeded MalformedEvent MissingLLMError MissingOutputError NoToolCallError NotFound OutputTruncated "
    "OutputTypeError Overloaded PromptError QuotaExceeded RateLimited Refused ServerError StreamBusy StreamClosed "
    "StreamInterrupted StreamTruncated Timeout ToolcastError TryAgain UnknownToolError UnsupportedLLMError "
    "ValidationError",
    "events": "Accumulator ChatResponse Event Finish RawEvent Restarted StopReason TextDelta ThinkingDelta "
    "ToolCallDelta ToolCallDone ToolCallReset ToolCallStart UsageReport",
    "llms": "AgentChatResponse FunctionCallingLLM LLMMetadata",
    "messages": "AudioPart DocumentPart ImagePart Message TextPart ThinkingPart ToolCallPart ToolResultPart "
    "assistant system tool_result user",
    "objects": "StreamingObjectProcessor",
    "orchestrator": "Preview ToolOrchestratingLLM",
    "parsing.partials": "Done NotNull is_partial",
    "prompts": "ChatPromptTemplate PromptTemplate",
    "ready_made": "LlamaCpp Ollama OpenAI OpenAICompatible llm",
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
