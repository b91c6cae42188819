"""toolcast: structured, tool-orchestrated LLM calls.

    prompt ──> messages ──> provider request ──> network ──> bytes
                                                               │
       objects <── partials <── json_stream <── events <── provider decoder
          │                                       │
          └── orchestrator ── llms ── retries     ├── engine ── permissions, tool_runner
                                                  ├── sessions, elves, chat
                                                  └── experiments

A user hands over a model, a prompt and a Pydantic model, and gets typed objects back, whole or growing:

    make_album = ToolOrchestratingLLM(output_cls=Album, prompt="Create an album about {topic}", llm=LlamaCpp())
    album = make_album(topic="the sea")

or a model and tools, and gets an agent, with a person in charge:

    turn = Engine(LlamaCpp(), [add]).submit("What is 2 + 40?")

Every name here is loaded when it is first used, so that importing toolcast costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .accumulator import (
        Accumulator as Accumulator,
    )
    from .agents.chat import (
        AsyncChatMachine as AsyncChatMachine,
        ChatChange as ChatChange,
        ChatMachine as ChatMachine,
    )
    from .agents.chat_context import (
        ChatContext as ChatContext,
        ChatError as ChatError,
    )
    from .agents.compaction import (
        Compaction as Compaction,
    )
    from .agents.elf_runs import (
        ElfEvent as ElfEvent,
        ElfResult as ElfResult,
    )
    from .agents.elves import (
        BackgroundElf as BackgroundElf,
        ElfConfig as ElfConfig,
        ElfManager as ElfManager,
        SyncElf as SyncElf,
    )
    from .agents.engine import (
        Engine as Engine,
    )
    from .agents.mcp import (
        MCPServer as MCPServer,
    )
    from .agents.permissions import (
        Permissions as Permissions,
    )
    from .agents.rules import (
        AtLeast as AtLeast,
        AtMost as AtMost,
        OneOf as OneOf,
        Rule as Rule,
        Under as Under,
    )
    from .agents.sessions import (
        Session as Session,
        Status as Status,
    )
    from .agents.tool_search import (
        LexicalSearch as LexicalSearch,
        LLMSearch as LLMSearch,
        ToolSearch as ToolSearch,
    )
    from .agents.turn_streams import (
        AsyncTurnStream as AsyncTurnStream,
        TurnStream as TurnStream,
    )
    from .agents.turns import (
        Turn as Turn,
    )
    from .answers import (
        AgentChatResponse as AgentChatResponse,
    )
    from .approvals import (
        Answer as Answer,
        PermissionRequest as PermissionRequest,
    )
    from .calls import (
        Result as Result,
    )
    from .configs import (
        Configs as Configs,
    )
    from .errors import (
        Attempt as Attempt,
        AuthFailed as AuthFailed,
        BadRequest as BadRequest,
        BudgetExceeded as BudgetExceeded,
        CallError as CallError,
        ConnectFailed as ConnectFailed,
        ContentBlocked as ContentBlocked,
        ContextTooLong as ContextTooLong,
        EmptyResponse as EmptyResponse,
        FailTurn as FailTurn,
        IllegalState as IllegalState,
        LimitExceeded as LimitExceeded,
        LLMError as LLMError,
        MalformedEvent as MalformedEvent,
        MCPError as MCPError,
        MCPToolError as MCPToolError,
        MissingLLMError as MissingLLMError,
        MissingOutputError as MissingOutputError,
        NotFound as NotFound,
        NoToolCallError as NoToolCallError,
        OutputTruncated as OutputTruncated,
        OutputTypeError as OutputTypeError,
        Overloaded as Overloaded,
        PermissionDenied as PermissionDenied,
        PromptError as PromptError,
        QuotaExceeded as QuotaExceeded,
        RateLimited as RateLimited,
        Refused as Refused,
        RepeatedCall as RepeatedCall,
        RoundsExceeded as RoundsExceeded,
        ServerError as ServerError,
        SessionTaken as SessionTaken,
        StreamBusy as StreamBusy,
        StreamClosed as StreamClosed,
        StreamInterrupted as StreamInterrupted,
        StreamTruncated as StreamTruncated,
        Timeout as Timeout,
        ToolcastError as ToolcastError,
        ToolTimeout as ToolTimeout,
        TryAgain as TryAgain,
        TurnCancelled as TurnCancelled,
        TurnFailed as TurnFailed,
        TurnStopped as TurnStopped,
        UnknownToolError as UnknownToolError,
        UnsupportedLLMError as UnsupportedLLMError,
        ValidationError as ValidationError,
        WouldSuspend as WouldSuspend,
    )
    from .events import (
        AgentEvent as AgentEvent,
        ChatResponse as ChatResponse,
        ErrorEvent as ErrorEvent,
        Event as Event,
        Failover as Failover,
        Finish as Finish,
        OutputDelta as OutputDelta,
        RawEvent as RawEvent,
        Restarted as Restarted,
        Routing as Routing,
        StopReason as StopReason,
        TextDelta as TextDelta,
        ThinkingDelta as ThinkingDelta,
        ToolCallDelta as ToolCallDelta,
        ToolCallDone as ToolCallDone,
        ToolCallReset as ToolCallReset,
        ToolCallStart as ToolCallStart,
        ToolProgress as ToolProgress,
        ToolResult as ToolResult,
        ToolStarted as ToolStarted,
        UsageReport as UsageReport,
    )
    from .experiments.config import (
        ExperimentConfig as ExperimentConfig,
    )
    from .experiments.cycles import (
        CycleOrchestrator as CycleOrchestrator,
    )
    from .experiments.event_log import (
        JsonlLogger as JsonlLogger,
    )
    from .experiments.runner import (
        ExperimentRunner as ExperimentRunner,
    )
    from .experiments.similarity import (
        SimilarityMonitor as SimilarityMonitor,
    )
    from .fallback import (
        FallbackLLM as FallbackLLM,
    )
    from .llms import (
        FunctionCallingLLM as FunctionCallingLLM,
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
    from .metadata import (
        Capabilities as Capabilities,
        LLMMetadata as LLMMetadata,
    )
    from .objects import (
        StreamingObjectProcessor as StreamingObjectProcessor,
    )
    from .orchestrator import (
        Preview as Preview,
        ToolOrchestratingLLM as ToolOrchestratingLLM,
    )
    from .parsing.partials import (
        Done as Done,
        NotNull as NotNull,
        PathChange as PathChange,
        is_partial as is_partial,
    )
    from .prompts import (
        ChatPromptTemplate as ChatPromptTemplate,
        PromptTemplate as PromptTemplate,
    )
    from .ready_made import (
        Anthropic as Anthropic,
        Google as Google,
        LlamaCpp as LlamaCpp,
        Mistral as Mistral,
        Ollama as Ollama,
        OpenAI as OpenAI,
        OpenAICompatible as OpenAICompatible,
        OpenAIResponses as OpenAIResponses,
        llm as llm,
    )
    from .runtime.aiohttp_network import (
        AiohttpNetwork as AiohttpNetwork,
    )
    from .runtime.network import (
        HttpxNetwork as HttpxNetwork,
        Network as Network,
    )
    from .settings import (
        Settings as Settings,
        Timeouts as Timeouts,
    )
    from .stores.jsonl import (
        JSONLStore as JSONLStore,
    )
    from .stores.memory import (
        MemoryStore as MemoryStore,
    )
    from .stores.sqlite import (
        SQLiteStore as SQLiteStore,
    )
    from .stores.store import (
        Claim as Claim,
        Store as Store,
    )
    from .streams import (
        AsyncEventStream as AsyncEventStream,
        AsyncObjectStream as AsyncObjectStream,
        EventStream as EventStream,
        ObjectStream as ObjectStream,
    )
    from .tool_context import (
        ToolContext as ToolContext,
    )
    from .toolbox.commands import (
        command_tool as command_tool,
    )
    from .toolbox.fetching import (
        fetch_tool as fetch_tool,
    )
    from .toolbox.files import (
        file_tools as file_tools,
    )
    from .toolbox.questions import (
        question_tool as question_tool,
    )
    from .tools import (
        CallableTool as CallableTool,
        ToolOutput as ToolOutput,
        tools_of as tools_of,
    )
    from .usage import (
        Budget as Budget,
        Prices as Prices,
        Usage as Usage,
    )

_ROOMS = {
    "accumulator": "Accumulator",
    "agents.chat": "AsyncChatMachine ChatChange ChatMachine",
    "agents.chat_context": "ChatContext ChatError",
    "agents.compaction": "Compaction",
    "agents.elf_runs": "ElfEvent ElfResult",
    "agents.elves": "BackgroundElf ElfConfig ElfManager SyncElf",
    "agents.engine": "Engine",
    "agents.mcp": "MCPServer",
    "agents.permissions": "Permissions",
    "agents.rules": "AtLeast AtMost OneOf Rule Under",
    "agents.sessions": "Session Status",
    "agents.tool_search": "LLMSearch LexicalSearch ToolSearch",
    "agents.turn_streams": "AsyncTurnStream TurnStream",
    "agents.turns": "Turn",
    "answers": "AgentChatResponse",
    "approvals": "Answer PermissionRequest",
    "calls": "Result",
    "configs": "Configs",
    "errors": "Attempt AuthFailed BadRequest BudgetExceeded CallError ConnectFailed ContentBlocked "
    "ContextTooLong EmptyResponse FailTurn IllegalState LLMError LimitExceeded MCPError MCPToolError MalformedEvent "
    "MissingLLMError MissingOutputError NoToolCallError NotFound OutputTruncated OutputTypeError Overloaded "
    "PermissionDenied PromptError QuotaExceeded RateLimited Refused RepeatedCall RoundsExceeded ServerError "
    "SessionTaken StreamBusy StreamClosed StreamInterrupted StreamTruncated Timeout ToolTimeout ToolcastError TryAgain "
    "TurnCancelled TurnFailed TurnStopped UnknownToolError UnsupportedLLMError ValidationError WouldSuspend",
    "events": "AgentEvent ChatResponse ErrorEvent Event Failover Finish OutputDelta RawEvent "
    "Restarted Routing StopReason TextDelta ThinkingDelta ToolCallDelta ToolCallDone ToolCallReset ToolCallStart "
    "ToolProgress ToolResult ToolStarted UsageReport",
    "experiments.config": "ExperimentConfig",
    "experiments.cycles": "CycleOrchestrator",
    "experiments.event_log": "JsonlLogger",
    "experiments.runner": "ExperimentRunner",
    "experiments.similarity": "SimilarityMonitor",
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
    "stores.jsonl": "JSONLStore",
    "stores.memory": "MemoryStore",
    "stores.sqlite": "SQLiteStore",
    "stores.store": "Claim Store",
    "streams": "AsyncEventStream AsyncObjectStream EventStream ObjectStream",
    "tool_context": "ToolContext",
    "toolbox.commands": "command_tool",
    "toolbox.fetching": "fetch_tool",
    "toolbox.files": "file_tools",
    "toolbox.questions": "question_tool",
    "tools": "CallableTool ToolOutput tools_of",
    "usage": "Budget Prices Usage",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}

__version__ = "0.1.0"
# Written out, because type checkers read no other form. A test compares it with `_ROOMS`.
__all__ = [
    "Accumulator",
    "AgentChatResponse",
    "AgentEvent",
    "AiohttpNetwork",
    "Answer",
    "Anthropic",
    "AsyncChatMachine",
    "AsyncEventStream",
    "AsyncObjectStream",
    "AsyncTurnStream",
    "AtLeast",
    "AtMost",
    "Attempt",
    "AudioPart",
    "AuthFailed",
    "BackgroundElf",
    "BadRequest",
    "Budget",
    "BudgetExceeded",
    "CallError",
    "CallableTool",
    "Capabilities",
    "ChatChange",
    "ChatContext",
    "ChatError",
    "ChatMachine",
    "ChatPromptTemplate",
    "ChatResponse",
    "Claim",
    "Compaction",
    "Configs",
    "ConnectFailed",
    "ContentBlocked",
    "ContextTooLong",
    "CycleOrchestrator",
    "DocumentPart",
    "Done",
    "ElfConfig",
    "ElfEvent",
    "ElfManager",
    "ElfResult",
    "EmptyResponse",
    "Engine",
    "ErrorEvent",
    "Event",
    "EventStream",
    "ExperimentConfig",
    "ExperimentRunner",
    "FailTurn",
    "Failover",
    "FallbackLLM",
    "Finish",
    "FunctionCallingLLM",
    "Google",
    "HttpxNetwork",
    "IllegalState",
    "ImagePart",
    "JSONLStore",
    "JsonlLogger",
    "LLMError",
    "LLMMetadata",
    "LLMSearch",
    "LexicalSearch",
    "LimitExceeded",
    "LlamaCpp",
    "MCPError",
    "MCPServer",
    "MCPToolError",
    "MalformedEvent",
    "MemoryStore",
    "Message",
    "MissingLLMError",
    "MissingOutputError",
    "Mistral",
    "Network",
    "NoToolCallError",
    "NotFound",
    "NotNull",
    "ObjectStream",
    "Ollama",
    "OneOf",
    "OpenAI",
    "OpenAICompatible",
    "OpenAIResponses",
    "OutputDelta",
    "OutputTruncated",
    "OutputTypeError",
    "Overloaded",
    "PathChange",
    "PermissionDenied",
    "PermissionRequest",
    "Permissions",
    "Preview",
    "Prices",
    "PromptError",
    "PromptTemplate",
    "QuotaExceeded",
    "RateLimited",
    "RawEvent",
    "Refused",
    "RepeatedCall",
    "Restarted",
    "Result",
    "RoundsExceeded",
    "Routing",
    "Rule",
    "SQLiteStore",
    "ServerError",
    "Session",
    "SessionTaken",
    "Settings",
    "SimilarityMonitor",
    "Status",
    "StopReason",
    "Store",
    "StreamBusy",
    "StreamClosed",
    "StreamInterrupted",
    "StreamTruncated",
    "StreamingObjectProcessor",
    "SyncElf",
    "TextDelta",
    "TextPart",
    "ThinkingDelta",
    "ThinkingPart",
    "Timeout",
    "Timeouts",
    "ToolCallDelta",
    "ToolCallDone",
    "ToolCallPart",
    "ToolCallReset",
    "ToolCallStart",
    "ToolContext",
    "ToolOrchestratingLLM",
    "ToolOutput",
    "ToolProgress",
    "ToolResult",
    "ToolResultPart",
    "ToolSearch",
    "ToolStarted",
    "ToolTimeout",
    "ToolcastError",
    "TryAgain",
    "Turn",
    "TurnCancelled",
    "TurnFailed",
    "TurnStopped",
    "TurnStream",
    "Under",
    "UnknownToolError",
    "UnsupportedLLMError",
    "Usage",
    "UsageReport",
    "ValidationError",
    "WouldSuspend",
    "__version__",
    "assistant",
    "command_tool",
    "fetch_tool",
    "file_tools",
    "is_partial",
    "llm",
    "question_tool",
    "system",
    "tool_result",
    "tools_of",
    "user",
]


def __getattr__(name: str) -> Any:
    room = _HOME.get(name)
    if room is None:
        raise AttributeError(f"module 'toolcast' has no attribute {name!r}")
    value = getattr(import_module(f"toolcast.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
