"""toolcast: structured, tool-orchestrated LLM calls.

    prompt ──> messages ──> provider request ──> transport ──> bytes ──> SSE events
                                                                             │
       validated object <── partial objects <── incremental JSON <── provider decoder
              │                                                              │
              └── structured                     engine (tools, permissions) ┘

The packages, from the top layer down; each imports only from the ones below it:

    apps            command line, REPL, web UI, experiment commands
    experiments     ContReAct experiments: config, cycles, memory, similarity, PEI, reports, grids
    serve           an ASGI app for the front ends of others: AG-UI, Vercel AI SDK, OpenAI's protocol
    testing         ScriptedLLM, AutoLLM, record, replay; pytest_plugin uses them
    chat            the chat state machine
    toolbox         built-in tools: files, shell command, web page, question to the user
    agents          sessions, sub-agents, MCP, tool search, the engine's turn loop, permissions
    structured      ToolOrchestratingLLM: call, stream, partial objects, validation and retry
    llms            LLM classes, requests with retries, fallback, concurrency limit, embeddings, local models
    stores, tools   session logs; CallableTool. Beside them prompts: templates
    transport       HTTP connections behind the Network protocol
    async_support   async code without an event loop, shielding, threads, background jobs
    providers       request encoding and response decoding, without I/O
    parsing         incremental and lenient JSON, partial Pydantic objects
    stemming        words and their stems

Modules at the top level contain the values and pure functions that all packages share: errors, messages, events,
settings.

A model, a prompt and a Pydantic model give typed objects, complete or partial:

    make_album = ToolOrchestratingLLM(output_cls=Album, prompt="Create an album about {topic}", llm=LlamaCpp())
    album = make_album(topic="the sea")

A model and tools give an agent, whose tool calls need permission:

    turn = Agent(LlamaCpp(), [add]).run("What is 2 + 40?")

Every name here is imported on first use (PEP 562), so that importing toolcast takes milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import experiments as experiments, serve as serve, testing as testing, toolbox as toolbox
    from .accumulator import (
        Accumulator as Accumulator,
    )
    from .agents.agent import (
        Agent as Agent,
    )
    from .agents.engine.compaction import (
        Compaction as Compaction,
    )
    from .agents.engine.engine import (
        Engine as Engine,
    )
    from .agents.engine.turn_streams import (
        AsyncTurnStream as AsyncTurnStream,
        TurnStream as TurnStream,
    )
    from .agents.mcp.server import (
        MCPServer as MCPServer,
    )
    from .agents.permissions.permissions import (
        Permissions as Permissions,
    )
    from .agents.permissions.rules import (
        AtLeast as AtLeast,
        AtMost as AtMost,
        OneOf as OneOf,
        Rule as Rule,
        Under as Under,
    )
    from .agents.sessions.session import (
        Session as Session,
        SessionStatus as SessionStatus,
    )
    from .agents.subagents.elves import (
        BackgroundElf as BackgroundElf,
        ElfConfig as ElfConfig,
        ElfManager as ElfManager,
        SyncElf as SyncElf,
    )
    from .agents.subagents.run import (
        ElfEvent as ElfEvent,
        ElfResult as ElfResult,
    )
    from .agents.tool_search.search import (
        LexicalSearch as LexicalSearch,
        LLMSearch as LLMSearch,
        ToolSearch as ToolSearch,
    )
    from .answer_details import (
        SafetyRating as SafetyRating,
        TokenLogprob as TokenLogprob,
    )
    from .approvals import (
        ApprovalDecision as ApprovalDecision,
        PermissionRequest as PermissionRequest,
    )
    from .cached_content import (
        CachedContent as CachedContent,
    )
    from .capabilities import Capabilities as Capabilities, LLMMetadata as LLMMetadata
    from .chat.context import (
        ChatContext as ChatContext,
        ChatError as ChatError,
    )
    from .chat.machine import (
        AsyncChatMachine as AsyncChatMachine,
        ChatChange as ChatChange,
        ChatMachine as ChatMachine,
    )
    from .chat.machine_config import chat_machine_config as chat_machine_config
    from .chat.machine_types import chat_machine_types as chat_machine_types
    from .citations import (
        Citation as Citation,
        Grounding as Grounding,
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
        SessionLocked as SessionLocked,
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
        AudioOutput as AudioOutput,
        ChatResponse as ChatResponse,
        ErrorEvent as ErrorEvent,
        Event as Event,
        Failover as Failover,
        Finish as Finish,
        GroundingReport as GroundingReport,
        ImageOutput as ImageOutput,
        LogprobsDelta as LogprobsDelta,
        OutputDelta as OutputDelta,
        RawEvent as RawEvent,
        Restarted as Restarted,
        Routing as Routing,
        SafetyReport as SafetyReport,
        ServerToolUse as ServerToolUse,
        StopReason as StopReason,
        TextCitation as TextCitation,
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
    from .hook_protocol import (
        CallInfo as CallInfo,
        Hooks as Hooks,
        RequestInfo as RequestInfo,
        hooks as hooks,
    )
    from .llms.base import (
        AgentChatResponse as AgentChatResponse,
        FunctionCallingLLM as FunctionCallingLLM,
    )
    from .llms.bedrock import (
        Bedrock as Bedrock,
    )
    from .llms.defaults import (
        Configs as Configs,
    )
    from .llms.embeddings.embed import (
        Embeddings as Embeddings,
        aembed as aembed,
        embed as embed,
    )
    from .llms.embeddings.embedder import Embedder as Embedder
    from .llms.event_streams import (
        AsyncEventStream as AsyncEventStream,
        EventStream as EventStream,
    )
    from .llms.fallback import (
        FallbackLLM as FallbackLLM,
    )
    from .llms.provider_llms import (
        LATER as LATER,
        Anthropic as Anthropic,
        AnthropicVertex as AnthropicVertex,
        Cohere as Cohere,
        Google as Google,
        LlamaCpp as LlamaCpp,
        Mistral as Mistral,
        Ollama as Ollama,
        OpenAI as OpenAI,
        OpenAICompatible as OpenAICompatible,
        OpenAIResponses as OpenAIResponses,
        llm as llm,
    )
    from .llms.request import (
        ChatRequest as ChatRequest,
    )
    from .llms.token_counts import TokenCount as TokenCount
    from .llms.wrappers.cached import (
        CachedLLM as CachedLLM,
    )
    from .llms.wrappers.caches import (
        Cache as Cache,
        MemoryCache as MemoryCache,
        SQLiteCache as SQLiteCache,
    )
    from .llms.wrappers.recording import (
        RecordingLLM as RecordingLLM,
    )
    from .llms.wrappers.redacted import (
        RedactedLLM as RedactedLLM,
    )
    from .llms.wrappers.wrapper import (
        Next as Next,
        WrapperLLM as WrapperLLM,
    )
    from .messages import (
        AudioPart as AudioPart,
        CachePoint as CachePoint,
        DocumentPart as DocumentPart,
        FileRef as FileRef,
        ImagePart as ImagePart,
        Message as Message,
        ServerToolPart as ServerToolPart,
        TextPart as TextPart,
        ThinkingPart as ThinkingPart,
        ToolCallPart as ToolCallPart,
        ToolResultPart as ToolResultPart,
        VideoPart as VideoPart,
        assistant as assistant,
        system as system,
        tool_result as tool_result,
        user as user,
    )
    from .observability.instrumentation import (
        instrument as instrument,
    )
    from .parsing.partial_value import (
        Done as Done,
        NotNull as NotNull,
        PathChange as PathChange,
        is_partial as is_partial,
    )
    from .prices import (
        Prices as Prices,
    )
    from .prompts import (
        ChatPromptTemplate as ChatPromptTemplate,
        PromptTemplate as PromptTemplate,
    )
    from .server_tools import (
        CodeExecution as CodeExecution,
        FileSearch as FileSearch,
        ImageGeneration as ImageGeneration,
        RemoteMCP as RemoteMCP,
        ServerTool as ServerTool,
        URLContext as URLContext,
        WebSearch as WebSearch,
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
        SessionLease as SessionLease,
        Store as Store,
    )
    from .structured.call import (
        Result as Result,
    )
    from .structured.object_streams import (
        AsyncObjectStream as AsyncObjectStream,
        ObjectStream as ObjectStream,
    )
    from .structured.orchestrator import (
        Preview as Preview,
        ToolOrchestratingLLM as ToolOrchestratingLLM,
    )
    from .structured.partial_objects import (
        StreamingObjectProcessor as StreamingObjectProcessor,
    )
    from .toolbox.fetch import (
        fetch_tool as fetch_tool,
    )
    from .toolbox.files import (
        file_tools as file_tools,
    )
    from .toolbox.questions import (
        question_tool as question_tool,
    )
    from .toolbox.shell_command import (
        command_tool as command_tool,
    )
    from .tools.callable_tool import (
        CallableTool as CallableTool,
        ToolOutput as ToolOutput,
        tool as tool,
        tools_of as tools_of,
    )
    from .tools.context import (
        ToolContext as ToolContext,
    )
    from .transport.aiohttp_network import (
        AiohttpNetwork as AiohttpNetwork,
    )
    from .transport.httpx_network import (
        HttpxNetwork as HttpxNetwork,
    )
    from .transport.network import (
        Network as Network,
    )
    from .turn import (
        Turn as Turn,
    )
    from .usage import (
        Budget as Budget,
        Usage as Usage,
        UsageDetails as UsageDetails,
    )

_EXPORTS = {
    "accumulator": "Accumulator",
    "chat.machine": "AsyncChatMachine ChatChange ChatMachine",
    "chat.context": "ChatContext ChatError",
    "chat.machine_config": "chat_machine_config",
    "chat.machine_types": "chat_machine_types",
    "agents.agent": "Agent",
    "agents.engine.compaction": "Compaction",
    "agents.subagents.run": "ElfEvent ElfResult",
    "agents.subagents.elves": "BackgroundElf ElfConfig ElfManager SyncElf",
    "agents.engine.engine": "Engine",
    "agents.mcp.server": "MCPServer",
    "agents.permissions.permissions": "Permissions",
    "agents.permissions.rules": "AtLeast AtMost OneOf Rule Under",
    "agents.sessions.session": "Session SessionStatus",
    "agents.tool_search.search": "LLMSearch LexicalSearch ToolSearch",
    "agents.engine.turn_streams": "AsyncTurnStream TurnStream",
    "turn": "Turn",
    "approvals": "ApprovalDecision PermissionRequest",
    "structured.call": "Result",
    "llms.defaults": "Configs",
    "errors": "Attempt AuthFailed BadRequest BudgetExceeded CallError ConnectFailed ContentBlocked "
    "ContextTooLong EmptyResponse FailTurn IllegalState LLMError LimitExceeded MCPError MCPToolError MalformedEvent "
    "MissingLLMError MissingOutputError NoToolCallError NotFound OutputTruncated OutputTypeError Overloaded "
    "PermissionDenied PromptError QuotaExceeded RateLimited Refused RepeatedCall RoundsExceeded ServerError "
    "SessionLocked StreamBusy StreamClosed StreamInterrupted StreamTruncated Timeout ToolTimeout ToolcastError "
    "TryAgain TurnCancelled TurnFailed TurnStopped UnknownToolError UnsupportedLLMError ValidationError WouldSuspend",
    "citations": "Citation Grounding",
    "answer_details": "SafetyRating TokenLogprob",
    "events": "AgentEvent AudioOutput ChatResponse ErrorEvent Event Failover Finish GroundingReport ImageOutput "
    "LogprobsDelta OutputDelta RawEvent Restarted Routing SafetyReport ServerToolUse StopReason TextCitation TextDelta "
    "ThinkingDelta ToolCallDelta ToolCallDone ToolCallReset ToolCallStart ToolProgress ToolResult ToolStarted "
    "UsageReport",
    "experiments.config": "ExperimentConfig",
    "experiments.cycles": "CycleOrchestrator",
    "experiments.event_log": "JsonlLogger",
    "experiments.runner": "ExperimentRunner",
    "experiments.similarity": "SimilarityMonitor",
    "llms.fallback": "FallbackLLM",
    "llms.request": "ChatRequest",
    "llms.token_counts": "TokenCount",
    "llms.wrappers.cached": "CachedLLM",
    "llms.wrappers.caches": "Cache MemoryCache SQLiteCache",
    "llms.wrappers.recording": "RecordingLLM",
    "llms.wrappers.redacted": "RedactedLLM",
    "llms.wrappers.wrapper": "Next WrapperLLM",
    "llms.base": "AgentChatResponse FunctionCallingLLM",
    "messages": "AudioPart CachePoint DocumentPart FileRef ImagePart Message ServerToolPart TextPart ThinkingPart "
    "ToolCallPart ToolResultPart VideoPart assistant system tool_result user",
    "cached_content": "CachedContent",
    "capabilities": "Capabilities LLMMetadata",
    "structured.partial_objects": "StreamingObjectProcessor",
    "structured.orchestrator": "Preview ToolOrchestratingLLM",
    "parsing.partial_value": "Done NotNull PathChange is_partial",
    "prompts": "ChatPromptTemplate PromptTemplate",
    "llms.bedrock": "Bedrock",
    "llms.provider_llms": (
        "Anthropic AnthropicVertex Cohere Google LATER LlamaCpp Mistral Ollama OpenAI OpenAICompatible OpenAIResponses "
        "llm"
    ),
    "transport.aiohttp_network": "AiohttpNetwork",
    "transport.httpx_network": "HttpxNetwork",
    "transport.network": "Network",
    "hook_protocol": "CallInfo Hooks RequestInfo hooks",
    "observability.instrumentation": "instrument",
    "server_tools": "CodeExecution FileSearch ImageGeneration RemoteMCP ServerTool URLContext WebSearch",
    "settings": "Settings Timeouts",
    "stores.jsonl": "JSONLStore",
    "stores.memory": "MemoryStore",
    "stores.sqlite": "SQLiteStore",
    "stores.store": "SessionLease Store",
    "llms.embeddings.embed": "Embeddings aembed embed",
    "llms.embeddings.embedder": "Embedder",
    "llms.event_streams": "AsyncEventStream EventStream",
    "structured.object_streams": "AsyncObjectStream ObjectStream",
    "tools.context": "ToolContext",
    "toolbox.shell_command": "command_tool",
    "toolbox.fetch": "fetch_tool",
    "toolbox.files": "file_tools",
    "toolbox.questions": "question_tool",
    "tools.callable_tool": "CallableTool ToolOutput tool tools_of",
    "prices": "Prices",
    "usage": "Budget Usage UsageDetails",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

# The packages with public names of their own: `toolcast.testing` works without an import of it.
_PACKAGES = frozenset(("batch", "experiments", "serve", "testing", "toolbox"))

__version__ = "0.1.0"
__compiled__: bool
"""True in a wheel for one platform, whose hot modules are compiled; False in the wheel for all of them."""
# Written out, because type checkers read no other form. A test compares it with `_EXPORTS`.
__all__ = [
    "LATER",
    "Accumulator",
    "Agent",
    "AgentChatResponse",
    "AgentEvent",
    "AiohttpNetwork",
    "Anthropic",
    "AnthropicVertex",
    "ApprovalDecision",
    "AsyncChatMachine",
    "AsyncEventStream",
    "AsyncObjectStream",
    "AsyncTurnStream",
    "AtLeast",
    "AtMost",
    "Attempt",
    "AudioOutput",
    "AudioPart",
    "AuthFailed",
    "BackgroundElf",
    "BadRequest",
    "Bedrock",
    "Budget",
    "BudgetExceeded",
    "Cache",
    "CachePoint",
    "CachedContent",
    "CachedLLM",
    "CallError",
    "CallInfo",
    "CallableTool",
    "Capabilities",
    "ChatChange",
    "ChatContext",
    "ChatError",
    "ChatMachine",
    "ChatPromptTemplate",
    "ChatRequest",
    "ChatResponse",
    "Citation",
    "CodeExecution",
    "Cohere",
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
    "Embedder",
    "Embeddings",
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
    "FileRef",
    "FileSearch",
    "Finish",
    "FunctionCallingLLM",
    "Google",
    "Grounding",
    "GroundingReport",
    "Hooks",
    "HttpxNetwork",
    "IllegalState",
    "ImageGeneration",
    "ImageOutput",
    "ImagePart",
    "JSONLStore",
    "JsonlLogger",
    "LLMError",
    "LLMMetadata",
    "LLMSearch",
    "LexicalSearch",
    "LimitExceeded",
    "LlamaCpp",
    "LogprobsDelta",
    "MCPError",
    "MCPServer",
    "MCPToolError",
    "MalformedEvent",
    "MemoryCache",
    "MemoryStore",
    "Message",
    "MissingLLMError",
    "MissingOutputError",
    "Mistral",
    "Network",
    "Next",
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
    "RecordingLLM",
    "RedactedLLM",
    "Refused",
    "RemoteMCP",
    "RepeatedCall",
    "RequestInfo",
    "Restarted",
    "Result",
    "RoundsExceeded",
    "Routing",
    "Rule",
    "SQLiteCache",
    "SQLiteStore",
    "SafetyRating",
    "SafetyReport",
    "ServerError",
    "ServerTool",
    "ServerToolPart",
    "ServerToolUse",
    "Session",
    "SessionLease",
    "SessionLocked",
    "SessionStatus",
    "Settings",
    "SimilarityMonitor",
    "StopReason",
    "Store",
    "StreamBusy",
    "StreamClosed",
    "StreamInterrupted",
    "StreamTruncated",
    "StreamingObjectProcessor",
    "SyncElf",
    "TextCitation",
    "TextDelta",
    "TextPart",
    "ThinkingDelta",
    "ThinkingPart",
    "Timeout",
    "Timeouts",
    "TokenCount",
    "TokenLogprob",
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
    "URLContext",
    "Under",
    "UnknownToolError",
    "UnsupportedLLMError",
    "Usage",
    "UsageDetails",
    "UsageReport",
    "ValidationError",
    "VideoPart",
    "WebSearch",
    "WouldSuspend",
    "WrapperLLM",
    "__compiled__",
    "__version__",
    "aembed",
    "assistant",
    "chat_machine_config",
    "chat_machine_types",
    "command_tool",
    "embed",
    "fetch_tool",
    "file_tools",
    "hooks",
    "instrument",
    "is_partial",
    "llm",
    "question_tool",
    "system",
    "tool",
    "tool_result",
    "tools_of",
    "user",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"toolcast.{name}")
    module = _MODULE_OF.get(name)
    if module is not None:
        value = getattr(import_module(f"toolcast.{module}"), name)
    elif name == "__compiled__":  # one module tells for all; this one imports nothing else
        value = not str(import_module("toolcast.text_buffer").__file__).endswith(".py")
    else:
        raise import_module("toolcast.option_suggestions").missing_name(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
