"""A REPL on a scripted screen, as the tests want it: its sessions in memory, its tools the test's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.scripted_screen import ScriptedScreen
from toolcast.apps.repl.modes import MODES
from toolcast.apps.repl.open_session import ChatSetup, OpenConversation
from toolcast.apps.repl.repl import Repl
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.stores import MemoryStore
from toolcast.stores.store import Store
from toolcast.tools.callable_tool import as_tools


def repl_on(
    screen: ScriptedScreen,
    llm: FunctionCallingLLM,
    tools: Iterable[Any] = (),
    *,
    mode: str | None = None,
    store: Store | None = None,
    session: str | None = None,
    **options: Any,
) -> Repl:
    """A REPL, not yet running."""
    wanted = MODES[mode] if mode else None
    setup = ChatSetup(llm, wanted=wanted, user_tools=as_tools(tuple(tools)), can_ask=screen.is_interactive)
    options.setdefault("models", list)
    return Repl(OpenConversation(setup, MemoryStore() if store is None else store, session), screen, **options)


def chat(*typed: Any, llm: FunctionCallingLLM, tools: Iterable[Any] = (), **options: Any) -> ScriptedScreen:
    """The screen after all of this was typed, and the REPL has ended well."""
    screen = ScriptedScreen(*typed)
    assert repl_on(screen, llm, tools, **options).run() == 0
    return screen
