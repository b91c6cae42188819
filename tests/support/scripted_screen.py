"""A `Screen` without a terminal: what is typed is given in advance, and all that shows is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, TypeAlias

from toolcast.apps.approval_preview import CallSketch, DiffPreview
from toolcast.apps.repl.activity import TurnActivity
from toolcast.apps.repl.choices import Answer, Choice, choose_by_line
from toolcast.apps.repl.picker import Actions, Find, PickedRow, pick_from_lines
from toolcast.apps.repl.preview_text import plain_lines, preview_lines
from toolcast.apps.repl.screen import ConversationStatus

Typed: TypeAlias = "str | BaseException | Callable[[], str | None] | None"


class ScriptedScreen:
    """Reads `typed` one by one, and then the end of input. An exception is raised, a function called for the input.

    `shown` is every call of a method but `read`, in order; `prompts` what was read with. `ctrl_c_at` names methods
    that are interrupted when they are called next, in this order; so does `fails_at` for those that raise `failure`.
    """

    def __init__(self, *typed: Typed, interactive: bool = True) -> None:
        self.shown: list[tuple[Any, ...]] = []
        self.prompts: list[tuple[str, str]] = []
        self.ctrl_c_at: list[str] = []
        self.fails_at: list[str] = []
        self.failure: Exception | None = None
        self.caught_up = Event()  # set when all that came is to be shown
        self.refreshed = Event()  # set when time has passed without an event
        self.activities: list[TurnActivity | None] = []
        self.statuses: list[ConversationStatus] = []
        self.changes: list[tuple[str, str]] = []  # of files, by calls with these ids
        self._typed = list(typed)
        self._interactive = interactive

    @property
    def is_interactive(self) -> bool:
        return self._interactive

    def read(self, prompt: str, text: str = "") -> str | None:
        self.prompts.append((prompt, text))
        typed = self._typed.pop(0) if self._typed else None
        if isinstance(typed, BaseException):
            raise typed
        return typed() if callable(typed) else typed

    def pick(self, title: str, find: Find, actions: Actions, last: PickedRow | None = None) -> PickedRow | None:
        return pick_from_lines(self, title, find, actions)

    def thinking(self, text: str) -> None:
        self._show("thinking", text)

    def content(self, text: str) -> None:
        self._show("content", text)

    def call_begins(self, id: str, name: str) -> None:
        self._show("call_begins", id, name)

    def call_arguments(self, id: str, text: str) -> None:
        self._show("call_arguments", id, text)

    def call_complete(self, id: str, name: str, arguments: str) -> None:
        self._show("call_complete", id, name, arguments)

    def call_progress(self, id: str, name: str, text: str) -> None:
        self._show("call_progress", id, name, text)

    def call_result(self, id: str, name: str, content: str, is_error: bool, change: DiffPreview | None = None) -> None:
        if change is not None:
            self.changes.append((id, plain_lines(preview_lines(name, change))))
        self._show("call_result", id, name, content, is_error)

    def error(self, message: str, hint: str = "") -> None:
        self._show("error", message, hint)

    def note(self, text: str) -> None:
        self._show("note", text)

    def preview(self, tool: str, preview: CallSketch, *, number: int | None = None, whole: bool = False) -> None:
        self._show("preview", plain_lines(preview_lines(tool, preview, number=number, whole=whole)))

    def choose(self, question: str, choices: Sequence[Choice]) -> Answer | None:
        return choose_by_line(self.read, question, choices)

    def edit(self, text: str, suffix: str) -> str | None:
        return self.read(f"edit {suffix}: ", text)

    def call_decided(self, id: str, name: str, arguments: str, line: str, is_allowed: bool) -> None:
        self._show("call_decided", id, name, arguments, line, is_allowed)

    def show_activity(self, activity: TurnActivity | None) -> None:
        self.activities.append(activity)

    def refresh(self) -> None:
        self.refreshed.set()

    def show_status(self, status: ConversationStatus) -> None:
        self.statuses.append(status)

    def hold_typed(self) -> None:
        self._show("hold_typed")

    def show_details(self) -> None:
        self._show("show_details")

    def flush_updates(self) -> None:
        self.caught_up.set()

    def end_answer(self) -> None:
        self._show("end_answer")

    def _show(self, kind: str, *what: Any) -> None:
        self.shown.append((kind, *what))
        if self.ctrl_c_at[:1] == [kind]:
            del self.ctrl_c_at[0]
            raise KeyboardInterrupt
        if self.fails_at[:1] == [kind]:
            del self.fails_at[0]
            raise self.failure or ValueError(f"{kind} cannot be shown")

    # What a test looks at.

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        """What was shown by one method."""
        return [what[1:] for what in self.shown if what[0] == kind]

    @property
    def answer(self) -> str:
        """All pieces of the answers, together."""
        return "".join(text for (text,) in self.of("content"))

    @property
    def thought(self) -> str:
        """All pieces of what was thought, together."""
        return "".join(text for (text,) in self.of("thinking"))

    @property
    def notes(self) -> str:
        """All notes, one a line."""
        return "\n".join(text for (text,) in self.of("note"))

    @property
    def errors(self) -> list[str]:
        """The messages of all errors."""
        return [message for message, _ in self.of("error")]

    @property
    def order(self) -> list[str]:
        """Which methods were called, each once for calls in a row."""
        kinds = [what[0] for what in self.shown]
        return [kind for kind, before in zip(kinds, [None, *kinds], strict=False) if kind != before]
