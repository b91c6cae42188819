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
    values          frozen values that all packages share: usage, settings, turns, hooks, credentials. Beside them
                    errors, messages and events, which are public
    text, lazy      text for people and programs; names and dataclasses that are made on first use

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
    from . import (
        agents as agents,
        apps as apps,
        batch as batch,
        chat as chat,
        errors as errors,
        events as events,
        experiments as experiments,
        llms as llms,
        messages as messages,
        serve as serve,
        stores as stores,
        testing as testing,
        toolbox as toolbox,
    )
    from .agents.agent import Agent as Agent
    from .agents.engine.engine import Engine as Engine
    from .agents.mcp.mcp_server import MCPServer as MCPServer
    from .agents.permissions.permissions import Permissions as Permissions
    from .agents.permissions.rules import Rule as Rule
    from .agents.sessions.session import Session as Session
    from .errors import (
        CallError as CallError,
        FailTurn as FailTurn,
        LLMError as LLMError,
        ToolcastError as ToolcastError,
        TryAgain as TryAgain,
        ValidationError as ValidationError,
    )
    from .llms.defaults import Configs as Configs
    from .llms.embeddings.embed import aembed as aembed, embed as embed
    from .llms.fallback import FallbackLLM as FallbackLLM
    from .llms.function_calling_llm import FunctionCallingLLM as FunctionCallingLLM
    from .llms.local.llama_cpp import LlamaCpp as LlamaCpp
    from .llms.named_llms import LATER as LATER, llm as llm
    from .llms.vendors.anthropic_llms import Anthropic as Anthropic, AnthropicVertex as AnthropicVertex
    from .llms.vendors.bedrock_llm import Bedrock as Bedrock
    from .llms.vendors.cohere_mistral_ollama import Cohere as Cohere, Mistral as Mistral, Ollama as Ollama
    from .llms.vendors.google_llms import Google as Google
    from .llms.vendors.openai_llms import (
        OpenAI as OpenAI,
        OpenAICompatible as OpenAICompatible,
        OpenAIResponses as OpenAIResponses,
    )
    from .messages import (
        Message as Message,
        ToolCallPart as ToolCallPart,
        assistant as assistant,
        system as system,
        tool_result as tool_result,
        user as user,
    )
    from .observability.instrumentation import instrument as instrument
    from .parsing.partial_value import (
        Done as Done,
        NotNull as NotNull,
        PathChange as PathChange,
        is_partial as is_partial,
    )
    from .prompts import ChatPromptTemplate as ChatPromptTemplate, PromptTemplate as PromptTemplate
    from .structured.call import Result as Result
    from .structured.object_streams import AsyncObjectStream as AsyncObjectStream, ObjectStream as ObjectStream
    from .structured.orchestrator import Preview as Preview, ToolOrchestratingLLM as ToolOrchestratingLLM
    from .structured.partial_objects import StreamingObjectProcessor as StreamingObjectProcessor
    from .tools.callable_tool import (
        CallableTool as CallableTool,
        ToolOutput as ToolOutput,
        tool as tool,
        tools_of as tools_of,
    )
    from .tools.tool_context import ToolContext as ToolContext
    from .values.approvals import ApprovalDecision as ApprovalDecision, PermissionRequest as PermissionRequest
    from .values.budgets import Budget as Budget
    from .values.hooks import CallInfo as CallInfo, Hooks as Hooks, RequestInfo as RequestInfo, hooks as hooks
    from .values.prices import Prices as Prices
    from .values.server_tools import (
        CodeExecution as CodeExecution,
        FileSearch as FileSearch,
        ImageGeneration as ImageGeneration,
        RemoteMCP as RemoteMCP,
        ServerTool as ServerTool,
        URLContext as URLContext,
        WebSearch as WebSearch,
    )
    from .values.settings import Settings as Settings, Timeouts as Timeouts
    from .values.turn import Turn as Turn
    from .values.usage import Usage as Usage
else:
    from .lazy.lazy_exports import lazy_exports

    _public_name, __dir__ = lazy_exports(__name__)

    def __getattr__(name: str) -> Any:
        if name == "__compiled__":  # one module answers for all; this one imports nothing else
            return not str(import_module("toolcast.text.text_buffer").__file__).endswith(".py")
        return _public_name(name)


__version__ = "0.1.0"
__compiled__: bool
"""True in a wheel for one platform, whose hot modules are compiled; False in the wheel for all of them."""
