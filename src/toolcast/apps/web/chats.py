"""`Chats`: the chats of the page, any number at once, in the same store as the sessions of `toolcast chat`.

A chat is opened when it is requested, and closed when it has rested for a while and no page shows it. While it is open
here no other program can write to it; one that is open elsewhere can be read. Whatever a change adds is written before
the page is notified of it. A chat without messages is not stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeAlias
from uuid import uuid4

from anyio import to_thread

from ...agents.engine.session_state import fold, read_details
from ...async_support.closing import AsyncClosing
from ...chat.events import (
    Interrupt,
    LoadModel,
    ModelLoadProgress,
    Stop,
    StreamChunk,
    StreamComplete,
    StreamError,
    ToolCallProgress,
)
from ...chat.machine import RESTING_STATES, AsyncChatMachine, ChatChange
from ...chat.turn_hooks import TURN_STATES
from ...errors import SessionLocked, ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...stores.store import Store, check_id
from ..approval_preview import BUILT_IN
from ..call_log import clean_title
from ..model_facts import ServedModels
from ..repl.modes import Mode
from ..session_index import SessionIndex, first_words, last_used
from .chat_view import SHOWN_MESSAGES, AnswerNote, ChatView
from .feed import KEEP_ALIVE, LOG_LIMIT, Feed
from .form_files import ChatFiles
from .saved_chat import SavedChat, answer_key, answer_notes, chat_snapshot, hold_queue

IDLE: Final = 10.0
"""Seconds after which a chat that no page shows is closed, so that other programs can open it."""

PARTIAL: Final = 1.0
"""Seconds between the writes of an answer in progress."""

_NOT_SAVED_EVENTS: Final = (StreamChunk, ToolCallProgress, ModelLoadProgress)

NewMachine: TypeAlias = Callable[[], AsyncChatMachine]


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A row of the list of chats. `updated` is in ISO format; `waiting` is the number of calls to approve."""

    id: str
    title: str
    updated: str
    messages: int
    model: str
    state: str
    waiting: int

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable data."""
        return asdict(self)


class OpenChat(AsyncClosing):
    """A chat whose machine runs here. `saved` is None where it cannot be written."""

    def __init__(
        self,
        id: str,
        machine: AsyncChatMachine,
        view: ChatView,
        saved: SavedChat | None,
        options: FeedOptions,
        *,
        updated: float | None = None,
        announce: Callable[[ChatRow], object] | None = None,
        answered: Callable[[OpenChat], object] | None = None,
        notes: dict[str, AnswerNote] | None = None,
    ) -> None:
        self.id: str = id
        self.machine: AsyncChatMachine = machine
        self.saved: SavedChat | None = saved
        self.readers: int = 0
        self.updated: float = time.time() if updated is None else updated
        self._announce = announce
        self._answered = answered
        self._notes = notes or {}
        self._partial_timer: asyncio.TimerHandle | None = None
        self._announced: ChatRow | None = None
        self._unsubscribe = machine.subscribe(self._on_change)  # before the feed: what is shown has been saved
        self._find_notes(view, max(len(machine.context.messages) - 2 * SHOWN_MESSAGES, 0))
        self.feed: Feed = Feed(machine, view, limit=options.limit, keep_alive=options.keep_alive)

    @property
    def view(self) -> ChatView:
        """The chat as the page shows it."""
        return self.feed.view

    @property
    def is_empty(self) -> bool:
        """True if nothing was written in it."""
        context = self.machine.context
        return not (context.messages or context.queue or context.held)

    @property
    def is_idle(self) -> bool:
        """True if no page shows it, and it waits for nothing but a message."""
        context = self.machine.context
        rests = self.machine.state in RESTING_STATES and not context.pending and not context.queue
        return rests and not self.readers

    @property
    def row(self) -> ChatRow:
        """Its row in the list."""
        context = self.machine.context
        return ChatRow(
            self.id,
            self.view.title,
            iso_time(self.updated),
            len(context.messages),
            context.model or "",
            self.machine.state,
            len(context.pending),
        )

    def rename(self, title: str) -> None:
        """Give it a title; an empty one restores the beginning of its first message."""
        if self.saved is None:
            self.view.title = clean_title(title)
        else:
            self.saved.rename(title)
            self.view.title = self.saved.title
        self.feed.publish()
        self._announce_row()

    def _on_change(self, change: ChatChange) -> None:
        if isinstance(change.event, StreamChunk) and self.saved is not None and self._partial_timer is None:
            self._partial_timer = asyncio.get_running_loop().call_later(PARTIAL, self._save_partial, self.saved)
        if change.ignored or isinstance(change.event, _NOT_SAVED_EVENTS):
            return
        context = change.context
        if not self.view.title:
            self.view.title = first_words((*context.messages, *context.queue))
        if context.messages is not change.before.messages or context.queue is not change.before.queue:
            self.updated = time.time()
        answer = self._note_answer(change)
        if self.saved is not None:
            try:
                self.saved.save(change.state, context, updated=self.updated, answer=answer)
            except (ToolcastError, OSError) as error:
                self.view.not_saved = str(error)  # shown; the next change writes this one, too
            else:
                self.view.not_saved = None
        self._announce_row()
        if self._answered is not None and isinstance(change.event, StreamComplete):
            self._answered(self)

    def _note_answer(self, change: ChatChange) -> tuple[int, AnswerNote] | None:
        """Note the model and the time of a new answer, and return them with its index. Those of other branches stay."""
        before, after, notes = change.before.messages, change.context.messages, self.view.answered_by
        if after is before:
            return None
        same = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one is not other), None)
        kept = min(len(before), len(after)) if same is None else same
        for index in [index for index in notes if index >= kept]:
            del notes[index]
        new = [at for at in range(kept, len(after)) if after[at].role == "assistant"]
        if not new or not isinstance(change.event, (StreamComplete, StreamError, Interrupt, Stop)):
            self._find_notes(self.view, kept)
            return None
        note = notes[new[0]] = AnswerNote(change.context.model or "", time.time())
        self._notes[answer_key(new[0], after[new[0]])] = note
        return new[0], note

    def _find_notes(self, view: ChatView, first: int) -> None:
        """Show the notes of the messages from index `first` on, which may be those of another branch."""
        messages = self.machine.context.messages
        for index in range(first, len(messages)) if self._notes else ():
            if note := self._notes.get(answer_key(index, messages[index])):
                view.answered_by[index] = note

    def _save_partial(self, saved: SavedChat) -> None:
        """Write the answer in progress, if it still is."""
        self._partial_timer = None
        streamed = self.machine.context.streamed
        if len(streamed):
            with suppress(ToolcastError, OSError):  # the end of the answer is written in any case, or shows the error
                saved.save_partial(streamed.text)

    def _announce_row(self) -> None:
        """Call `announce` with the row in the list if it has changed."""
        if self._announce is not None and not self.is_empty and (row := self.row) != self._announced:
            self._announced = row
            self._announce(row)

    async def aclose(self) -> None:
        """Stop its work, and release it. A partial answer is kept."""
        if self.machine.state in TURN_STATES and not self.machine.context.queue:
            self.machine.dispatch(Stop())
        self.feed.close()
        self._unsubscribe()
        if self._partial_timer is not None:
            self._partial_timer.cancel()
        await self.machine.aclose()
        if self.saved is not None:
            self.saved.close()


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The size of the event log of a chat in bytes, and the seconds without events after which a comment is sent."""

    limit: int = LOG_LIMIT
    keep_alive: float = KEEP_ALIVE


class Chats(AsyncClosing):
    """The chats in `store`, for one server. Its methods are called in one event loop of asyncio.

    Args:
        store: The store of the sessions. It is not closed.
        new_machine: Returns the machine of a new chat.
        model: The name of the model that a new chat loads.
        modes: The modes that can be selected; the machines must have them.
        default_mode: The name of the mode of new chats.
        files: The files that people attach; None: they cannot.
        root: The working directory of the file tools, for previews of calls.
        built_in: Names of tools that are those of the toolbox, for previews of calls.
        idle: Seconds after which a chat that no page shows is closed.
        feed_options: Options of the event streams.
        served: What the servers of models list about them.
    """

    def __init__(
        self,
        store: Store,
        new_machine: NewMachine,
        *,
        model: str | None = None,
        modes: Sequence[Mode] = (),
        default_mode: str | None = None,
        files: ChatFiles | None = None,
        root: str | None = None,
        built_in: Collection[str] = BUILT_IN,
        idle: float = IDLE,
        feed_options: FeedOptions | None = None,
        served: ServedModels | None = None,
    ) -> None:
        self.modes: tuple[Mode, ...] = tuple(modes)
        self.files: ChatFiles | None = files
        self.model: str | None = model
        self._store = store
        self._new_machine = new_machine
        self._default_mode = default_mode
        self._root = root
        self._built_in = built_in
        self._idle = idle
        self._feed_options = feed_options or FeedOptions()
        self._served = served or ServedModels()
        self._index = SessionIndex(store)
        self._open: dict[str, OpenChat] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._lock = asyncio.Lock()

    @property
    def is_single(self) -> bool:
        """False: chats can be begun and deleted."""
        return False

    @property
    def open_ids(self) -> list[str]:
        """The ids of the chats that are open here."""
        return list(self._open)

    async def page(self, search: str = "", before: str = "", limit: int = 50) -> tuple[list[ChatRow], str | None]:
        """Return a page of the list of chats, the last used one first, and where the next one begins.

        Args:
            search: Words of which each is in the title or the text of the chats.
            before: The end of the page before.
            limit: The number of chats.
        """
        entries = await to_thread.run_sync(self._index.entries, search)
        rows = [
            self._open[entry.id].row
            if entry.id in self._open
            else ChatRow(
                entry.id,
                entry.title or entry.problem,
                iso_time(entry.updated),
                entry.messages,
                entry.model,
                "",
                entry.waiting,
            )
            for entry in entries
        ]
        rows.sort(key=_position, reverse=True)
        rows = [row for row in rows if not before or _position(row) < before]
        return rows[:limit], _position(rows[limit - 1]) if len(rows) > limit else None

    async def create(self) -> OpenChat:
        """Return a new chat. It is stored with its first message."""
        id = f"chat-{datetime.now():%Y%m%d-%H%M%S}-{uuid4().hex[:4]}"
        async with self._lock:
            saved = await to_thread.run_sync(SavedChat, id, self._store)
            machine = self._new_machine()
            chat = self._open[id] = self._opened(id, machine, saved)
            machine.dispatch(LoadModel(self.model))
        self._restart_timer(chat)
        return chat

    @asynccontextmanager
    async def reading(self, id: str) -> AsyncGenerator[OpenChat]:
        """Open a chat, which is not closed meanwhile. One that is open elsewhere can only be read: `view.locked`.

        Raises:
            LookupError: There is no such chat.
            ToolcastError: It is damaged.
        """
        async with self._lock:
            chat = self._open.get(id) or await self._load(id)
            chat.readers += 1
        try:
            yield chat
        finally:
            chat.readers -= 1
            if self._open.get(id) is chat:
                self._restart_timer(chat)
            else:
                await chat.aclose()

    @asynccontextmanager
    async def writing(self, id: str) -> AsyncGenerator[OpenChat]:
        """Open a chat, which is not closed meanwhile.

        Raises:
            LookupError: There is no such chat.
            SessionLocked: It is open elsewhere.
            ToolcastError: It is damaged.
        """
        async with self.reading(id) as chat:
            if chat.view.locked:
                raise SessionLocked(chat.view.locked)
            yield chat

    async def rename(self, id: str, title: str) -> None:
        """Give a chat a title; an empty one restores the beginning of its first message.

        Raises:
            LookupError: There is no such chat.
            SessionLocked: It is open elsewhere.
        """
        async with self.writing(id) as chat:
            chat.rename(title)

    async def delete(self, id: str) -> None:
        """Delete a chat and its files.

        Raises:
            LookupError: There is no such chat.
            SessionLocked: It is open elsewhere.
        """
        async with self._lock:
            if chat := self._open.pop(id, None):
                await chat.aclose()
            elif id not in await to_thread.run_sync(self._store.ids):
                raise LookupError(f"no chat {id!r:.60}")
            await to_thread.run_sync(self._index.delete, id)
            if self.files is not None:
                await to_thread.run_sync(self.files.remove_all, id)
        self._announce({"id": id, "deleted": True})

    def _announce(self, row: Mapping[str, Any]) -> None:
        """Send a changed row of the list to the pages of all chats."""
        for chat in self._open.values():
            if chat.readers:
                chat.feed.announce(row)

    def close_streams(self) -> None:
        """End the event streams of all pages."""
        for chat in self._open.values():
            chat.feed.close()

    async def aclose(self) -> None:
        """Close all chats. Work that goes on is stopped, and can be continued when they are opened again."""
        for timer in self._timers.values():
            timer.cancel()
        async with self._lock:
            for chat in [*self._open.values()]:
                await self._drop(chat)
        self._index.close()

    async def _load(self, id: str) -> OpenChat:
        """Open a chat of the store."""
        try:
            check_id(id)
        except ValueError as error:
            raise LookupError(str(error)) from None
        records = await to_thread.run_sync(self._store.read, id)
        if not records:
            raise LookupError(f"no chat {id!r:.60}: it was deleted")
        locked: str | None = None
        saved: SavedChat | None = None
        try:
            saved = await to_thread.run_sync(SavedChat, id, self._store)
        except SessionLocked as error:
            locked = str(error)
        else:
            records = await to_thread.run_sync(self._store.read, id)  # no other program writes from here on
        machine = self._new_machine()
        try:
            notes = answer_notes(records)
            before = saved.state if saved is not None else await to_thread.run_sync(fold, records)
            snapshot = await to_thread.run_sync(chat_snapshot, records, before)
            machine.restore(snapshot if saved is None else hold_queue(snapshot))
        except (ToolcastError, ValueError, TypeError, LookupError, AttributeError) as error:  # damaged, or hostile
            await machine.aclose()
            if saved is not None:
                saved.close()
            raise ToolcastError(f"the chat {id!r} cannot be read: {type(error).__name__}: {error}") from error
        details = read_details(records)
        title, updated = str(details.get("title") or ""), last_used(details, before.opened)
        chat = self._opened(id, machine, saved, title, locked, updated, notes)
        if saved is not None:
            self._open[id] = chat
            if machine.state in RESTING_STATES and machine.state != "waiting_for_tool_approval":
                machine.dispatch(LoadModel(machine.context.model or self.model))
        return chat

    def _opened(
        self,
        id: str,
        machine: AsyncChatMachine,
        saved: SavedChat | None,
        title: str = "",
        locked: str | None = None,
        updated: float | None = None,
        notes: dict[str, AnswerNote] | None = None,
    ) -> OpenChat:
        title = title or first_words((*machine.context.messages, *machine.context.queue))
        view = ChatView(
            machine,
            title=title,
            mode=self._default_mode,
            locked=locked,
            root=self._root,
            built_in=self._built_in,
            served=self._served,
        )
        return OpenChat(
            id,
            machine,
            view,
            saved,
            self._feed_options,
            updated=updated,
            announce=lambda row: self._announce(row.to_dict()),
            answered=self._on_answer,
            notes=notes,
        )

    def _restart_timer(self, chat: OpenChat) -> None:
        """Close the chat after some seconds if it is idle then."""
        if timer := self._timers.pop(chat.id, None):
            timer.cancel()
        self._timers[chat.id] = asyncio.get_running_loop().call_later(self._idle, self._on_timer, chat)

    def _on_timer(self, chat: OpenChat) -> None:
        self._start(self._close_idle(chat))

    def _on_answer(self, chat: OpenChat) -> None:
        self._start(self._ask_server(chat))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work in the background."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_server(self, chat: OpenChat) -> None:
        """Ask the server of a chat's model for its context window, which some know when the model is loaded."""
        await to_thread.run_sync(partial(self._served.ask, chat.machine.llm, again=True), abandon_on_cancel=True)
        chat.feed.publish()

    async def _close_idle(self, chat: OpenChat) -> None:
        async with self._lock:
            if self._open.get(chat.id) is not chat:
                return
            if chat.is_idle:
                await self._drop(chat)
            else:
                self._restart_timer(chat)

    async def _drop(self, chat: OpenChat) -> None:
        """Close a chat; the files of one that was not stored are removed."""
        del self._open[chat.id]
        self._timers.pop(chat.id).cancel()
        await chat.aclose()
        if self.files is not None and chat.is_empty:
            await to_thread.run_sync(self.files.remove_all, chat.id)


class OneChat:
    """The chat of an application that has its own machine: it is neither stored nor deleted here."""

    ID: Final = "chat"

    def __init__(self, machine: AsyncChatMachine, feed_options: FeedOptions) -> None:
        self.modes: tuple[Mode, ...] = ()
        self.files: ChatFiles | None = None
        self.chat: OpenChat = OpenChat(self.ID, machine, ChatView(machine), None, feed_options)

    @property
    def is_single(self) -> bool:
        """True: there is this chat only."""
        return True

    async def page(self, search: str = "", before: str = "", limit: int = 50) -> tuple[list[ChatRow], str | None]:
        """Return the only row."""
        return [self.chat.row], None

    @asynccontextmanager
    async def reading(self, id: str) -> AsyncGenerator[OpenChat]:
        """Return the chat. Raises `LookupError` for another id."""
        if id != self.ID:
            raise LookupError(f"no chat {id!r:.60}: this page has one")
        yield self.chat

    writing = reading

    def close_streams(self) -> None:
        """End the event streams of all pages."""
        self.chat.feed.close()


def iso_time(seconds: float) -> str:
    """Return a time in ISO format."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):  # a damaged log may contain any number
        return datetime.fromtimestamp(0, UTC).isoformat()


def _position(row: ChatRow) -> str:
    """Return the place of a row in the list, as text in its order."""
    return f"{row.updated}~{row.id}"
