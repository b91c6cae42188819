"""`OpenConversation`: the session that is open, and all that can be done to it between two turns.

What the model is given (which model, which tools, what it is told first) is a frozen `Kit`. Another model or mode is
another kit: the engine made of it gets the history, and takes the old one's place in the session. Nothing that is left
behind is lost: a conversation that is forgotten stays in the store, under its id.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

from ...agents.engine.engine import Engine
from ...agents.sessions.session import Session
from ...errors import ToolcastError
from ...llms.base import FunctionCallingLLM
from ...llms.provider_llms import LlamaCpp
from ...messages import Message
from ...settings import Settings
from ...states import Observer
from ...stores.store import Store
from ...tools.callable_tool import CallableTool
from .modes import DEFAULT, MODES, Mode

_A_DAY: Final = 86_400.0
"""Seconds that a tool may take. With a limit, it runs in a thread that Ctrl-C leaves behind, and need not wait for."""
_KIND: Final = "toolcast conversation"
_CALM: Final = 0.1
"""The temperature at which the embedded model, small as it is, keeps to the matter."""


@dataclass(frozen=True, slots=True)
class Kit:
    """What an engine is made of: `builtin` tools, of which the mode picks, and the user's `own`.

    `wanted` is the mode that somebody has asked for. `system` is what the user has the model told first, `root` the
    working directory. `can_ask`: a person is there. `toolless` is an LLM that has refused tools.
    """

    llm: FunctionCallingLLM
    wanted: Mode | None = None
    builtin: tuple[CallableTool, ...] = ()
    own: tuple[CallableTool, ...] = ()
    system: str = ""
    root: str = "."
    can_ask: bool = True
    observer: Observer | None = None
    toolless: FunctionCallingLLM | None = None

    @property
    def mode(self) -> Mode:
        """The mode."""
        return self.wanted or MODES[DEFAULT]

    @property
    def is_bare(self) -> bool:
        """Whether the model gets no built-in tools and is told nothing of its surroundings.

        The embedded model is too small for that: it only gets confused. It is spared unless a mode was asked for.
        """
        return self.wanted is None and isinstance(self.llm, LlamaCpp)

    @property
    def tools(self) -> tuple[CallableTool, ...]:
        """The tools that the model is offered."""
        if self.llm is self.toolless:
            return ()
        return self.mode.offered(() if self.is_bare else self.builtin, self.own)

    @property
    def instructions(self) -> str:
        """What the model is told first."""
        return "\n".join(filter(None, (*(() if self.is_bare else self._surroundings()), self.system)))

    def _surroundings(self) -> tuple[str, ...]:
        today = datetime.now().astimezone()
        return (
            f"Today is {today:%A}, {today.day} {today:%B %Y}. The operating system is {platform.system()}. "
            f"The working directory is {self.root}.",
            self.mode.line if self.builtin and self.llm is not self.toolless else "",
        )

    def engine(self, history: Iterable[Message] = ()) -> Engine:
        """An engine with this history."""
        return Engine(
            self.llm,
            self.tools,
            permissions=self.mode.permissions(self.root, self.own, can_ask=self.can_ask),
            settings=Settings(temperature=_CALM) if isinstance(self.llm, LlamaCpp) else None,
            instructions=self.instructions,
            history=tuple(history),
            tool_timeout=_A_DAY,
            observer=self.observer,
        )


class OpenConversation:
    """A conversation in `store`: the one of that `id`, which is gone on with or begun, or a new one."""

    def __init__(self, kit: Kit, store: Store, id: str | None = None) -> None:
        self.kit: Kit = kit
        self._store = store
        self._unsaid: Message | None = None
        self.session: Session = self._opened(id) if id else self._begun()

    @property
    def engine(self) -> Engine:
        """The session's engine."""
        return self.session.engine

    @property
    def last_question(self) -> Message | None:
        """What was asked last, even if nothing came of it."""
        start = self._start_of_turn()
        return self._unsaid or (None if start is None else self.engine.history[start])

    @property
    def last_exchange(self) -> tuple[Message, ...]:
        """The last question, and all that followed."""
        return tuple(self.engine.history[self._start_of_turn() :])

    def settle(self, said: Message) -> None:
        """Remember what was said to a turn that is over, where it failed so early that the history has it no more."""
        self._unsaid = None if any(message is said for message in self.engine.history) else said

    def rollback(self) -> Message | None:
        """The last question, which is out of the history now with all that followed."""
        question, start = self.last_question, self._start_of_turn()
        if self._unsaid is None and start is not None:
            state = self.engine.conversation.state()
            nothing: dict[str, Any] = {"started": frozenset(), "answers": (), "injected": (), "end": "end_turn"}
            self.engine.restore(replace(state, history=state.history[:start], turns=max(state.turns - 1, 0), **nothing))
        self._unsaid = None
        return question

    def use(self, kit: Kit) -> None:
        """Go on with another kit. The history stays, and so does what was allowed for the session."""
        engine, session = kit.engine(), self.session
        engine.restore(self.engine.conversation.state())
        engine.attach(session)
        self.engine.detach(session)
        session.engine, self.kit = engine, kit

    def begin(self, history: Iterable[Message] = ()) -> None:
        """Have a new session with this history. The old one stays in the store."""
        old, self.session = self.session, self._begun(history)
        self._unsaid = None
        self._leave(old)

    def save(self, path: Path) -> None:
        """Write what was said to a file. One that is there already must be a conversation too."""
        if path.exists():
            self._read(path)
        said = [message.to_dict() for message in self.engine.history]
        text = json.dumps({"kind": _KIND, "messages": said}, indent=2, ensure_ascii=False)
        try:
            path.write_text(f"{text}\n", encoding="utf-8", errors="replace")
        except OSError as error:
            raise ToolcastError(f"{path} cannot be written: {error.strerror}; choose another place") from error

    def load(self, path: Path) -> None:
        """Go on with what `save` wrote, as a new session."""
        self.begin(self._read(path))

    def close(self) -> None:
        """Close the session."""
        self._leave(self.session)

    def _leave(self, session: Session) -> None:
        """Close a session. One in which nothing was said is not kept."""
        is_empty = not session.engine.history
        session.close()
        if is_empty:
            self._store.delete(session.id)

    def _begun(self, history: Iterable[Message] = ()) -> Session:
        id = f"chat-{datetime.now():%Y%m%d-%H%M%S}-{uuid4().hex[:4]}"
        return Session(self.kit.engine(history), id=id, store=self._store)

    def _opened(self, id: str) -> Session:
        engine = self.kit.engine()
        try:
            return Session.resume(id, engine, self._store)
        except LookupError:
            return Session(engine, id=id, store=self._store)

    def _start_of_turn(self) -> int | None:
        """Where in the history the last turn begins."""
        roles = [message.role for message in self.engine.history]
        return len(roles) - 1 - roles[::-1].index("user") if "user" in roles else None

    def _read(self, path: Path) -> tuple[Message, ...]:
        """The messages of a file that `save` wrote. Raises `ToolcastError` for any other."""
        try:
            data: object = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, Mapping) or cast("Mapping[str, Any]", data).get("kind") != _KIND:
                raise ValueError("it was not written by /save")
            return tuple([Message.from_dict(message) for message in cast("Mapping[str, Any]", data)["messages"]])
        except OSError as error:
            raise ToolcastError(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ToolcastError(f"{path} is no conversation: {' '.join(str(error).split())[:200]}") from error
