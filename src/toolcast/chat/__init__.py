"""The chat state machine: events, context, transition table, guards, actions, effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .chat_context import ChatContext as ChatContext, ChatError as ChatError
    from .machine import AsyncChatMachine as AsyncChatMachine, ChatChange as ChatChange, ChatMachine as ChatMachine
    from .machine_types import chat_machine_config as chat_machine_config, chat_machine_types as chat_machine_types
else:
    from ..lazy.lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
