"""Agents: the turn loop, permissions, sub-agents, sessions, MCP and tool search."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..tools.callable_tool import ToolFunction as ToolFunction
    from .engine.compaction import Compaction as Compaction
    from .engine.engine_config import AgentOptions as AgentOptions, EngineOptions as EngineOptions
    from .engine.session_state import (
        SessionState as SessionState,
        difference as difference,
        fold as fold,
        opened_record as opened_record,
    )
    from .engine.turn_request import RunOptions as RunOptions, TurnOptions as TurnOptions
    from .engine.turn_streams import AsyncTurnStream as AsyncTurnStream, TurnStream as TurnStream
    from .permissions.rules import AtLeast as AtLeast, AtMost as AtMost, OneOf as OneOf, Under as Under
    from .sessions.session import SessionStatus as SessionStatus
    from .subagents.elf_run import ElfEvent as ElfEvent, ElfResult as ElfResult
    from .subagents.elves import (
        BackgroundElf as BackgroundElf,
        ElfConfig as ElfConfig,
        ElfManager as ElfManager,
        SyncElf as SyncElf,
    )
    from .tool_search.tool_search import (
        LexicalSearch as LexicalSearch,
        LLMSearch as LLMSearch,
        SearchContext as SearchContext,
        ToolSearch as ToolSearch,
    )
else:
    from ..lazy.lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
