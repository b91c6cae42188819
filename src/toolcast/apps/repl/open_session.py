"""The open session of the REPL, and the operations on it between two turns.

Model, tools and instructions are a frozen `ChatSetup`. Another model or mode is another setup: a new engine gets the
history and replaces the old one in the session. Nothing is deleted: a conversation that is cleared stays in the store
under its session id.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

from ...agents.engine.compaction import Compaction, is_summary
from ...agents.engine.engine import Engine
from ...agents.sessions.session import Session
from ...async_support import sync_driver
from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...llms.function_calling_llm import FunctionCallingLLM
from ...llms.local.llama_cpp import LlamaCpp
from ...messages import Message, ToolCallPart
from ...stores.store import Store
from ...tools.callable_tool import CallableTool
from ...values.settings import Settings
from ...values.states import Observer
from ...values.usage import Usage
from ..call_log import clean_title
from ..mcp.chat_servers import MCPServerSet
from ..model_facts import ServedModels
from ..session_index import SessionIndex, first_words, unanswered_message
from ..transcript_export import CONVERSATION_KIND
from .file_changes import ChangeJournal
from .modes import DEFAULT_MODE, MODES, Mode
from .screen import ConversationStatus

_TOOL_TIMEOUT: Final = 86_400.0
"""Seconds that a tool may take. A tool with a limit runs in a thread of its own, which Ctrl-C can abandon."""
_KEPT_TOKENS: Final = 2_000
"""Tokens at the end of the history that a compaction leaves, at most half of it."""
GENERATED_ID: Final = re.compile(r"chat-\d")
"""The beginning of the ids that are generated."""
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
        servers: The MCP servers, whose tools are among the user's.
        journal: The changes of files by the built-in tools.
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
    servers: MCPServerSet | None = None
    journal: ChangeJournal | None = None

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
    def tool_names(self) -> set[str]:
        """The names of all tools, in whichever mode they are offered."""
        return {tool.name for tool in (*self.builtin, *self.user_tools)}

    def with_servers(self, servers: MCPServerSet) -> ChatSetup:
        """Return the configuration with the tools of these MCP servers."""
        return replace(self, user_tools=(*self.user_tools, *servers.tools), servers=servers)

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
            compaction=Compaction(summarise=self.llm),
            tool_timeout=_TOOL_TIMEOUT,
            observer=self.observer,
        )


class OpenConversation:
    """A conversation in `store`: the session `id`, which is resumed or created, or a new one."""

    def __init__(self, setup: ChatSetup, store: Store, id: str | None = None) -> None:
        self.setup: ChatSetup = setup
        self._store = store
        self.unanswered: Message | None = None
        """The last message if its turn failed too early for the history to contain it."""
        self._index: SessionIndex | None = None
        self.served: ServedModels = ServedModels()
        self.session: Session = self._open_session(id) if id else self._new_session()
        self.unanswered = unanswered_message(self.session.details)
        if setup.wanted is None:
            self._restore_mode()

    @property
    def engine(self) -> Engine:
        """The session's engine."""
        return self.session.engine

    @property
    def index(self) -> SessionIndex:
        """The list of the saved sessions."""
        if self._index is None:
            self._index = SessionIndex(self._store)
        return self._index

    @property
    def status(self) -> ConversationStatus:
        """The model and mode, and the tokens of the conversation."""
        session, usage = self.session.status, self.engine.usage
        window = session.tokens_max
        if window is None and usage.total_tokens:
            window = self.served.ask(self.setup.llm, again=True).context_window
        is_free = isinstance(self.setup.llm, LlamaCpp)
        return ConversationStatus(
            session.model,
            self.setup.mode.name,
            None if window is None else 100 * session.tokens_used / window,
            window,
            usage.total_tokens,
            None if is_free else usage.known_cost,
            is_least_cost=usage.cost is None,
        )

    @property
    def last_question(self) -> Message | None:
        """The last user message, even if its turn failed."""
        start = self._last_turn_start()
        return self.unanswered or (None if start is None else self.engine.history[start])

    @property
    def last_exchange(self) -> tuple[Message, ...]:
        """The last user message and all messages after it."""
        return tuple(self.engine.history[self._last_turn_start() :])

    @property
    def last_calls(self) -> tuple[ToolCallPart, ...]:
        """The tool calls of the last answer of the model."""
        answers = (message for message in reversed(self.engine.history) if message.role == "assistant")
        return next((tuple(message.tool_calls) for message in answers), ())

    @property
    def is_interrupted(self) -> bool:
        """True if the session was left in the middle of a turn: not if the user stopped the turn, or if it failed."""
        return self.session.unfinished and self.engine.conversation.end in (None, "approval")

    def end_turn(self, reason: str) -> None:
        """End a turn that the user has stopped: calls without a result get `reason`, and the turn is not continued."""
        conversation = self.engine.conversation
        conversation.answer_open_calls(reason)
        if conversation.end == "approval":
            conversation.end = "cancelled"
        self._save()

    def _save(self) -> None:
        """Save a change between two turns: the terminal may be closed at the next prompt."""
        with suppress(ToolcastError):  # the next turn reports that the store fails
            self.session.save()

    def remember_unanswered(self, message: Message) -> None:
        """Remember the message of a turn that failed too early for the history to contain it, with the session."""
        self._set_unanswered(None if any(each is message for each in self.engine.history) else message)

    def forget_unanswered(self) -> None:
        """Forget that message: another one is sent."""
        self._set_unanswered(None)

    def _set_unanswered(self, message: Message | None) -> None:
        self.unanswered = message
        if not self.setup.can_ask:  # a program sees that it failed, and sends it again itself
            message = None
        with suppress(ToolcastError):  # the turn reports that the store fails
            self.session.describe(unanswered=None if message is None else message.to_dict())

    def rollback(self) -> Message | None:
        """Remove the last user message and all after it from the history, and return that message."""
        question, start = self.last_question, self._last_turn_start()
        if self.unanswered is None and start is not None:
            state = self.engine.conversation.state()
            no_turn: dict[str, Any] = {"started": frozenset(), "answers": (), "injected": (), "end": "end_turn"}
            self.engine.restore(replace(state, history=state.history[:start], turns=max(state.turns - 1, 0), **no_turn))
        self.forget_unanswered()
        self._save()
        return question

    def compact(self) -> bool:
        """Replace the oldest messages by a summary that the model writes; return False if there are too few."""
        conversation, title = self.engine.conversation, self.title

        def add_usage(usage: Usage) -> None:
            conversation.usage += usage

        compaction = Compaction(keep=_KEPT_TOKENS, summarise=self.setup.llm)
        if not sync_driver.run(conversation.compact(compaction, False, add_usage)):
            return False
        conversation.context_tokens = 0  # unknown until the next answer
        conversation.was_compacted = False
        self._save()
        self.rename(title)  # which may be the beginning of a message that is gone
        return True

    def take_compaction(self) -> bool:
        """Return True if a turn has compacted the history since the last call."""
        conversation = self.engine.conversation
        was_compacted, conversation.was_compacted = conversation.was_compacted, False
        return was_compacted

    def use(self, setup: ChatSetup) -> None:
        """Switch to another setup. The history and the session's permissions stay."""
        engine, session = setup.engine(), self.session
        engine.restore(self.engine.conversation.state())
        engine.attach(session)
        self.engine.detach(session)
        session.engine, self.setup = engine, setup
        session.describe(**self._details())

    def resume(self, id: str) -> None:
        """Continue with the saved session `id`, in its mode. The open one stays in the store.

        Raises:
            ToolcastError: There is no such session, it is damaged, or it is open elsewhere.
        """
        if id == self.session.id:
            return
        if id not in self._store.ids():
            raise ToolcastError(f"no session {id!r}: /sessions lists them")
        old, self.session = self.session, self._open_session(id)
        self.unanswered = unanswered_message(self.session.details)
        self._close_session(old)
        self._restore_mode()

    def touch(self) -> None:
        """Save the time of the last turn with the session, by which the list of sessions is sorted."""
        self.session.describe(updated=self.engine.llm.clock.time(), **self._details())

    def rename(self, title: str) -> None:
        """Give the open session a title."""
        self.session.describe(title=clean_title(title))

    @property
    def title(self) -> str:
        """The title of the open session, or else the beginning of its first message."""
        messages = (*self.engine.history, *filter(None, [self.unanswered]))
        return str(self.session.details.get("title") or "") or first_words(messages)

    def begin(self, history: Iterable[Message] = ()) -> None:
        """Start a new session with this history. The old one stays in the store."""
        old, self.session = self.session, self._new_session(history)
        self.unanswered = None
        self._close_session(old)

    def save(self, path: Path) -> None:
        """Write the conversation to a file. An existing file is overwritten only if it is a conversation, too."""
        if path.exists():
            self._read(path)
        messages = [message.to_dict() for message in self.engine.history]
        text = json.dumps({"kind": CONVERSATION_KIND, "messages": messages}, indent=2, ensure_ascii=False)
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
        if self._index is not None:
            self._index.close()

    def _close_session(self, session: Session) -> None:
        """Close a session, and delete it if it has no messages, not even one that failed."""
        is_empty = not session.engine.history and unanswered_message(session.details) is None
        session.close()
        if is_empty:
            self._store.delete(session.id)

    def _new_session(self, history: Iterable[Message] = ()) -> Session:
        id = f"chat-{datetime.now():%Y%m%d-%H%M%S}-{uuid4().hex[:4]}"
        session = Session(self.setup.engine(history), id=id, store=self._store)
        session.describe(directory=self.setup.root, **self._details())
        return session

    def _details(self) -> dict[str, str]:
        """Return the details of the setup that are saved with the session."""
        known, wanted = self.setup.llm.metadata, self.setup.wanted
        mode = {} if wanted is None else {"mode": wanted.name}
        return {"model": f"{known.provider}:{known.model_name}", **mode}

    def _restore_mode(self) -> None:
        """Switch to the mode that the session was left in."""
        mode = MODES.get(str(self.session.details.get("mode")))
        if mode is not None and mode is not self.setup.wanted:
            self.use(replace(self.setup, wanted=mode))

    def _open_session(self, id: str) -> Session:
        engine = self.setup.engine()
        try:
            return Session.resume(id, engine, self._store)
        except LookupError:
            session = Session(engine, id=id, store=self._store)
            session.describe(directory=self.setup.root, **self._details())
            return session

    def _last_turn_start(self) -> int | None:
        """Return the index in the history at which the last turn begins. A summary begins none."""
        history = self.engine.history
        questions = [at for at, message in enumerate(history) if message.role == "user" and not is_summary(message)]
        return questions[-1] if questions else None

    def _read(self, path: Path) -> tuple[Message, ...]:
        """Return the messages of a file that `save` has written.

        Raises:
            ToolcastError: The file cannot be read, or is not a conversation.
        """
        try:
            data: object = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, Mapping) or cast("Mapping[str, Any]", data).get("kind") != CONVERSATION_KIND:
                raise ValueError("it was not written by /save or /export")
            return tuple([Message.from_dict(message) for message in cast("Mapping[str, Any]", data)["messages"]])
        except OSError as error:
            raise ToolcastError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ToolcastError(f"{path} is not a saved conversation: {' '.join(str(error).split())[:200]}") from error
