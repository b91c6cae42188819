"""The output and input of the REPL: the `Screen` protocol, and `PlainScreen` over three text streams.

A screen does not depend on turns: a method per kind of output receives it chunk by chunk, and `read` returns input.
It is used from one thread only. A plain screen writes answers, and nothing else, to stdout; thinking, tool calls,
notes, errors and the prompt go to stderr, without escape codes. Text from models and tools passes through `visible`,
so that it cannot overwrite other text on the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol, TextIO

from ...lazy.lazy_dataclasses import dataclass
from ...text.terminal_text import exposed, visible
from ..approval_preview import CallSketch, DiffPreview
from .activity import TurnActivity
from .choices import Answer, Choice, choose_by_line
from .picker import Actions, Find, PickedRow, pick_from_lines
from .preview_text import plain_lines, preview_lines
from .text_editor import edit_in_editor, editor_command
from .tool_call_summary import ShownCall, all_calls_lines


@dataclass(frozen=True, slots=True)
class ConversationStatus:
    """The status of a conversation between two turns. None is unknown.

    Attributes:
        model: The name of the model.
        mode: The mode of the REPL.
        context_percent: The used part of the model's context window.
        context_window: Its size in tokens.
        tokens: The tokens of all requests so far.
        cost: Their price in dollars.
        is_least_cost: True if the price of some requests is unknown.
    """

    model: str
    mode: str
    context_percent: float | None = None
    context_window: int | None = None
    tokens: int = 0
    cost: Decimal | None = None
    is_least_cost: bool = False


class Screen(Protocol):
    """The interface between the loop and a terminal. Chunks arrive in the order in which the model produced them."""

    @property
    def is_interactive(self) -> bool:
        """True if a person can answer questions."""
        ...

    def read(self, prompt: str, text: str = "") -> str | None:
        """Return one input, which may have several lines, or None at the end of input.

        `text` is the initial value that can be edited.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        ...

    def pick(self, title: str, find: Find, actions: Actions, last: PickedRow | None = None) -> PickedRow | None:
        """Let the user choose a row of a list, and an action on it; None if none is chosen.

        `find` returns the rows for the words of a search, and `actions` has further actions by their key. After an
        action on the row `last` the list begins where it was.
        """
        ...

    def thinking(self, text: str) -> None:
        """Show a chunk of the model's thinking."""
        ...

    def content(self, text: str) -> None:
        """Show a chunk of the answer, which is Markdown."""
        ...

    def call_begins(self, id: str, name: str) -> None:
        """Show the begin of a tool call. Repeated for the same id, it discards the arguments so far."""
        ...

    def call_arguments(self, id: str, text: str) -> None:
        """Show a chunk of the JSON text of a call's arguments."""
        ...

    def call_complete(self, id: str, name: str, arguments: str) -> None:
        """Show a complete call; these arguments replace earlier chunks."""
        ...

    def call_progress(self, id: str, name: str, text: str) -> None:
        """Show a chunk of a running tool's output with its line ends, such as the output of a command."""
        ...

    def call_result(self, id: str, name: str, content: str, is_error: bool, change: DiffPreview | None = None) -> None:
        """Show the call's result as the model reads it, and the `change` of a file that it made.

        A change that the person approved has been shown.
        """
        ...

    def error(self, message: str, hint: str = "") -> None:
        """Show an error; `hint` is the next step."""
        ...

    def note(self, text: str) -> None:
        """Show a message of the REPL itself: the banner, the output of a command."""
        ...

    def preview(self, tool: str, preview: CallSketch, *, number: int | None = None, whole: bool = False) -> None:
        """Show what a call of `tool` would do: its beginning, or the `whole` of it."""
        ...

    def choose(self, question: str, choices: Sequence[Choice]) -> Answer | None:
        """Ask until one of `choices` is given, and return the answer; None at the end of input.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        ...

    def edit(self, text: str, suffix: str) -> str | None:
        """Let the user edit `text`, of a file with this `suffix`, and return it; None at the end of input.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
            ToolcastError: The editor failed.
        """
        ...

    def call_decided(self, id: str, name: str, arguments: str, line: str, is_allowed: bool) -> None:
        """Show in one `line` what was decided on a call with these arguments; `call_complete` may follow."""
        ...

    def show_activity(self, activity: TurnActivity | None) -> None:
        """Show the activity of the turn that begins; None hides it when the turn has ended."""
        ...

    def refresh(self) -> None:
        """Show the activity as it is now, because time has passed.

        Raises:
            KeyboardInterrupt: The person pressed a key that stops the turn.
        """
        ...

    def hold_typed(self) -> None:
        """Do not send what was typed meanwhile: it is there at the next prompt."""
        ...

    def show_status(self, status: ConversationStatus) -> None:
        """Show the status of the conversation beside the next prompt."""
        ...

    def show_details(self) -> None:
        """Show the tool calls of the last answer in full."""
        ...

    def flush_updates(self) -> None:
        """Show all chunks that were delayed, because no more are waiting.

        Raises:
            KeyboardInterrupt: The person pressed a key that stops the turn.
        """
        ...

    def end_answer(self) -> None:
        """End the answer or a part of it, so that the next output begins on a new line. It may be called repeatedly."""
        ...


LONGEST_RESULT = 300
"""Characters of a tool's result that a plain screen shows."""


class PlainScreen:
    """A screen over three text streams. Without a terminal all of `stdin` is one input, or with `by_line` each line."""

    def __init__(self, stdin: TextIO, stdout: TextIO, stderr: TextIO, *, by_line: bool = False) -> None:
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        self._by_line = by_line or self.is_interactive
        self._on_terminal = stdout.isatty()
        self._stdout_mid_line = False  # whether stdout stands in the middle of a line
        self._stderr_mid_line = False  # whether stderr does
        self._denied: set[str] = set()  # calls whose result says no more than the line about the decision
        self._allowed: set[str] = set()  # calls that the person approved, without a result yet
        self._calls: dict[str, ShownCall] = {}  # of the last answer

    @property
    def is_interactive(self) -> bool:
        """True if a person can answer questions."""
        return self._stdin.isatty()

    def read(self, prompt: str, text: str = "") -> str | None:
        """Return one input, or `text` for an empty line."""
        self.end_answer()
        if self.is_interactive:
            self._write_stderr(f"{visible(text)}\n{prompt}" if text else prompt)
            self._stderr_mid_line = False  # the person ends the line
        line = self._stdin.readline() if self._by_line else self._stdin.read()
        return line.rstrip("\n") or text if line else None

    def pick(self, title: str, find: Find, actions: Actions, last: PickedRow | None = None) -> PickedRow | None:
        """Show the rows as lines, and read the number of one."""
        return pick_from_lines(self, title, find, actions)

    def thinking(self, text: str) -> None:
        """Show a chunk of the model's thinking."""
        self._write_stderr(visible(text))

    def content(self, text: str) -> None:
        """Write a chunk of the answer, unchanged into a pipe, escaped on a terminal."""
        if self._stderr_mid_line:
            self._write_stderr("\n")
        if text:
            self._stdout.write(visible(text) if self._on_terminal else text)
            self._stdout.flush()
            self._stdout_mid_line = not text.endswith("\n")

    def call_begins(self, id: str, name: str) -> None:
        """Do nothing: written lines cannot be changed, so a call is shown when it is complete."""

    def call_arguments(self, id: str, text: str) -> None:
        """Do nothing: see `call_begins`."""

    def call_complete(self, id: str, name: str, arguments: str) -> None:
        """Show the call on one line, unless the decision on it was one."""
        if id in self._allowed:
            self._calls[id] = self._calls.pop(id)  # the last one
        if id in self._allowed | self._denied:
            return
        self._calls[id] = call = ShownCall(name, arguments)
        self._line(f"> {call.command or exposed(f'{name} {arguments}')}")

    def call_progress(self, id: str, name: str, text: str) -> None:
        """Show the tool's output as it arrives."""
        self._write_stderr(visible(text))

    def call_result(self, id: str, name: str, content: str, is_error: bool, change: DiffPreview | None = None) -> None:
        """Show the change, and the beginning of the result on one line."""
        call = self._calls.setdefault(id, ShownCall(name))
        call.result, call.change = content, change
        if id in self._denied:
            self._denied.remove(id)
            return
        if change is not None and id not in self._allowed:
            self._line(plain_lines(preview_lines(name, change)))
        self._allowed.discard(id)
        shown = " ".join(content.split())
        cut = f"{shown[:LONGEST_RESULT]} ..." if len(shown) > LONGEST_RESULT else shown
        self._line(f"{'!' if is_error else '<'} {exposed(name)}: {cut}")

    def error(self, message: str, hint: str = "") -> None:
        """Show the error and the next step on one line."""
        self._line(f"error: {message}{f' ({hint})' if hint else ''}")

    def note(self, text: str) -> None:
        """Show a message of the REPL itself."""
        self._line(text)

    def preview(self, tool: str, preview: CallSketch, *, number: int | None = None, whole: bool = False) -> None:
        """Show what a call would do, without colours."""
        self._line(plain_lines(preview_lines(tool, preview, number=number, whole=whole)))

    def choose(self, question: str, choices: Sequence[Choice]) -> Answer | None:
        """Ask for a line until it is one of the choices."""
        return choose_by_line(self.read, question, choices)

    def edit(self, text: str, suffix: str) -> str | None:
        """Open an editor, or read lines up to one with only a dot."""
        if command := editor_command(os.environ):
            return edit_in_editor(command, text, suffix)
        self._line(f"{text}\n\nThe text in its place, and then a line with only a dot:")
        lines: list[str] = []
        while (line := self.read("| ")) != ".":
            if line is None:
                return None
            lines.append(line)
        return "\n".join(lines) + "\n" * text.endswith("\n")

    def call_decided(self, id: str, name: str, arguments: str, line: str, is_allowed: bool) -> None:
        """Show the line, with the sign of a call or of a denial."""
        self._line(f"{'>' if is_allowed else '✗'} {line}")
        self._calls[id] = ShownCall(name, arguments)
        self._allowed.discard(id)
        (self._allowed if is_allowed else self._denied).add(id)

    def show_activity(self, activity: TurnActivity | None) -> None:
        """Forget the calls of the last answer. The activity is not shown: written lines cannot be changed."""
        if activity is not None:
            self._calls.clear()

    def refresh(self) -> None:
        """Do nothing: see `show_activity`."""

    def hold_typed(self) -> None:
        """Do nothing: at Ctrl-C the terminal itself drops the lines that were typed ahead."""

    def show_status(self, status: ConversationStatus) -> None:
        """Do nothing: /context and /cost show more of it."""

    def show_details(self) -> None:
        """Show the calls of the last answer in full."""
        self._line(plain_lines(all_calls_lines(self._calls.values())))

    def flush_updates(self) -> None:
        """Do nothing: each chunk is shown as it arrives."""

    def end_answer(self) -> None:
        """End open lines."""
        if self._stdout_mid_line:
            self.content("\n")
        if self._stderr_mid_line:
            self._write_stderr("\n")

    def _line(self, text: str) -> None:
        """Write a line of its own to stderr."""
        if self._stderr_mid_line:
            self._write_stderr("\n")
        self._write_stderr(f"{visible(text)}\n")

    def _write_stderr(self, text: str) -> None:
        """Write to stderr, after a line break on stdout if both are the same terminal."""
        if self._on_terminal and self._stdout_mid_line:
            self.content("\n")
        if text:
            self._stderr.write(text)
            self._stderr.flush()
            self._stderr_mid_line = not text.endswith("\n")
