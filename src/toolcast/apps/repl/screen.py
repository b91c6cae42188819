"""The output and input of the REPL: the `Screen` protocol, and `PlainScreen` over three text streams.

A screen does not depend on turns: a method per kind of output receives it chunk by chunk, and `read` returns input.
It is used from one thread only. A plain screen writes answers, and nothing else, to stdout; thinking, tool calls,
notes, errors and the prompt go to stderr, without escape codes. Text from models and tools passes through `visible`,
so that it cannot overwrite other text on the terminal.
"""

from __future__ import annotations

from typing import Protocol, TextIO

from ...terminal_text import exposed, visible


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

    def call_result(self, id: str, name: str, content: str, is_error: bool) -> None:
        """Show the call's result as the model reads it."""
        ...

    def error(self, message: str, hint: str = "") -> None:
        """Show an error; `hint` is the next step."""
        ...

    def note(self, text: str) -> None:
        """Show a message of the REPL itself: the banner, the output of a command."""
        ...

    def flush_updates(self) -> None:
        """Show all chunks that were delayed, because no more are waiting."""
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
        """Show the call on one line."""
        self._line(exposed(f"> {name} {arguments}"))

    def call_progress(self, id: str, name: str, text: str) -> None:
        """Show the tool's output as it arrives."""
        self._write_stderr(visible(text))

    def call_result(self, id: str, name: str, content: str, is_error: bool) -> None:
        """Show the beginning of the result on one line."""
        shown = " ".join(content.split())
        cut = f"{shown[:LONGEST_RESULT]} ..." if len(shown) > LONGEST_RESULT else shown
        self._line(f"{'!' if is_error else '<'} {exposed(name)}: {cut}")

    def error(self, message: str, hint: str = "") -> None:
        """Show the error and the next step on one line."""
        self._line(f"error: {message}{f' ({hint})' if hint else ''}")

    def note(self, text: str) -> None:
        """Show a message of the REPL itself."""
        self._line(text)

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
