"""The open session of the REPL, and the operations on it between two turns.

Model, tools and instructions are a frozen `ChatSetup`. Another model or mode is another setup: a new engine gets the
history and replaces the old one in the session. Nothing is deleted: a conversation that is cleared stays in the store
under its session id.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

from ...agents.engine.engine import Engine
from ...agents.sessions.session import Session
from ...errors import ToolcastError
from ...lazy_dataclasses import dataclass
from ...llms.base import FunctionCallingLLM
from ...llms.provider_llms import LlamaCpp
from ...messages import Message
from ...settings import Settings
from ...states import Observer
from ...stores.store import Store
from ...tools.callable_tool import CallableTool
from .modes import DEFAULT_MODE, MODES, Mode

_TOOL_TIMEOUT: Final = 86_400.0
"""Seconds that a tool may take. A tool with a limit runs in a thread of its own, which Ctrl-C can abandon."""
_KIND: Final = "toolcast conversation"
_EMBEDDED_TEMPERATURE: Final = 0.1
"""The temperature of the embedded model; at higher ones a model of its size loses the subject."""


@dataclass(frozen=True, slots=True)
class ChatSetup:
    """The configuration of an engine.

    Args:
        llm: The LLM.
        wanted: The mode that the user has chosen, if any.
        builtin: The built-in tools, from which the mode selects.
        user_tools: The user's own tools.
        system: The user's own instructions.
        root: The working directory.
        can_ask: True if a person can answer questions and approval requests.
        observer: Called with an id and the state at every state change of the engine.
        toolless: An LLM that has rejected requests with tools.
    """

    llm: FunctionCallingLLM
    wanted: Mode | None = None
    builtin: tuple[CallableTool, ...] = ()
    user_tools: tuple[CallableTool, ...] = ()
    system: str = ""
    root: str = "."
    can_ask: bool = True
    observer: Observer | None = None
    toolless: FunctionCallingLLM | None = None

    @property
    def mode(self) -> Mode:
        """The chosen mode, or the default one."""
        return self.wanted or MODES[DEFAULT_MODE]

    @property
    def is_bare(self) -> bool:
        """True if the model gets neither built-in tools nor a description of its environment.

        That holds for the embedded model, which is too small for them, unless the user has chosen a mode.
        """
        return self.wanted is None and isinstance(self.llm, LlamaCpp)

    @property
    def tools(self) -> tuple[CallableTool, ...]:
        """The tools that are sent with each request."""
        if self.llm is self.toolless:
            return ()
        return self.mode.select_tools(() if self.is_bare else self.builtin, self.user_tools)

    @property
    def instructions(self) -> str:
        """The system prompt."""
        return "\n".join(filter(None, (*(() if self.is_bare else self._environment_text()), self.system)))

    def _environment_text(self) -> tuple[str, ...]:
        today = datetime.now().astimezone()
        return (
            f"Today is {today:%A}, {today.day} {today:%B %Y}. The operating system is {platform.system()}. "
            f"The working directory is {self.root}.",
            self.mode.instruction if self.builtin and self.llm is not self.toolless else "",
        )

    def engine(self, history: Iterable[Message] = ()) -> Engine:
        """Return an engine with this history."""
        return Engine(
            self.llm,
            self.tools,
            permissions=self.mode.permissions(self.root, self.user_tools, can_ask=self.can_ask),
            settings=Settings(temperature=_EMBEDDED_TEMPERATURE) if isinstance(self.llm, LlamaCpp) else None,
            instructions=self.instructions,
            history=tuple(history),
            tool_timeout=_TOOL_TIMEOUT,
            observer=self.observer,
        )


class OpenConversation:
    """A conversation in `store`: the session `id`, which is resumed or created, or a new one."""

    def __init__(self, setup: ChatSetup, store: Store, id: str | None = None) -> None:
        self.setup: ChatSetup = setup
        self._store = store
        self._unanswered: Message | None = None
        self.session: Session = self._open_session(id) if id else self._new_session()

    @property
    def engine(self) -> Engine:
        """The session's engine."""
        return self.session.engine

    @property
    def last_question(self) -> Message | None:
        """The last user message, even if its turn failed."""
        start = self._last_turn_start()
        return self._unanswered or (None if start is None else self.engine.history[start])

    @property
    def last_exchange(self) -> tuple[Message, ...]:
        """The last user message and all messages after it."""
        return tuple(self.engine.history[self._last_turn_start() :])

    def remember_unanswered(self, message: Message) -> None:
        """Remember the message of a turn that failed too early for the history to contain it."""
        self._unanswered = None if any(each is message for each in self.engine.history) else message

    def rollback(self) -> Message | None:
        """Remove the last user message and all after it from the history, and return that message."""
        question, start = self.last_question, self._last_turn_start()
        if self._unanswered is None and start is not None:
            state = self.engine.conversation.state()
            no_turn: dict[str, Any] = {"started": frozenset(), "answers": (), "injected": (), "end": "end_turn"}
            self.engine.restore(replace(state, history=state.history[:start], turns=max(state.turns - 1, 0), **no_turn))
        self._unanswered = None
        return question

    def use(self, setup: ChatSetup) -> None:
        """Switch to another setup. The history and the session's permissions stay."""
        engine, session = setup.engine(), self.session
        engine.restore(self.engine.conversation.state())
        engine.attach(session)
        self.engine.detach(session)
        session.engine, self.setup = engine, setup

    def begin(self, history: Iterable[Message] = ()) -> None:
        """Start a new session with this history. The old one stays in the store."""
        old, self.session = self.session, self._new_session(history)
        self._unanswered = None
        self._close_session(old)

    def save(self, path: Path) -> None:
        """Write the conversation to a file. An existing file is overwritten only if it is a conversation, too."""
        if path.exists():
            self._read(path)
        messages = [message.to_dict() for message in self.engine.history]
        text = json.dumps({"kind": _KIND, "messages": messages}, indent=2, ensure_ascii=False)
        try:
            path.write_text(f"{text}\n", encoding="utf-8", errors="replace")
        except OSError as error:
            raise ToolcastError(f"cannot write {path}: {error.strerror}; choose another file") from error

    def load(self, path: Path) -> None:
        """Continue with a conversation that `save` has written, as a new session."""
        self.begin(self._read(path))

    def close(self) -> None:
        """Close the session."""
        self._close_session(self.session)

    def _close_session(self, session: Session) -> None:
        """Close a session, and delete it if it has no messages."""
        is_empty = not session.engine.history
        session.close()
        if is_empty:
            self._store.delete(session.id)

    def _new_session(self, history: Iterable[Message] = ()) -> Session:
        id = f"chat-{datetime.now():%Y%m%d-%H%M%S}-{uuid4().hex[:4]}"
        return Session(self.setup.engine(history), id=id, store=self._store)

    def _open_session(self, id: str) -> Session:
        engine = self.setup.engine()
        try:
            return Session.resume(id, engine, self._store)
        except LookupError:
            return Session(engine, id=id, store=self._store)

    def _last_turn_start(self) -> int | None:
        """Return the index in the history at which the last turn begins."""
        roles = [message.role for message in self.engine.history]
        return len(roles) - 1 - roles[::-1].index("user") if "user" in roles else None

    def _read(self, path: Path) -> tuple[Message, ...]:
        """Return the messages of a file that `save` has written.

        Raises:
            ToolcastError: The file cannot be read, or is not a conversation.
        """
        try:
            data: object = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, Mapping) or cast("Mapping[str, Any]", data).get("kind") != _KIND:
                raise ValueError("it was not written by /save")
            return tuple([Message.from_dict(message) for message in cast("Mapping[str, Any]", data)["messages"]])
        except OSError as error:
            raise ToolcastError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ToolcastError(f"{path} is not a saved conversation: {' '.join(str(error).split())[:200]}") from error
