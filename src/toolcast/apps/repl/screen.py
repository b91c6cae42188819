"""Where the REPL shows and reads: the `Screen` protocol, and `PlainScreen`, which is any three text streams.

A screen knows nothing of turns: it is told piece by piece what comes, each kind by a method of its own, and asked for
input. It is only ever used from one thread. On a plain screen the answers go to stdout, and nothing else does: what
the model thinks and calls, notes, errors and the prompt go to stderr, without any codes for colour. What a model or a
tool wrote is shown as `visible` makes it, so that it cannot write over what stands on the terminal already.
"""

from __future__ import annotations

from typing import Protocol, TextIO

from ...terminal_text import exposed, visible


class Screen(Protocol):
    """What the loop shows things on, and reads from. Pieces come in the order in which the model made them."""

    @property
    def is_interactive(self) -> bool:
        """Whether a person is there, who can be asked."""
        ...

    def read(self, prompt: str, text: str = "") -> str | None:
        """One input, which may have several lines; `text` stands in it already. None at the end of all input.

        Raises `KeyboardInterrupt` for Ctrl-C.
        """
        ...

    def thinking(self, text: str) -> None:
        """A piece of what the model thinks."""
        ...

    def content(self, text: str) -> None:
        """A piece of the answer, which is Markdown."""
        ...

    def call_begins(self, id: str, name: str) -> None:
        """The model begins to call a tool. Said again of the same call, the arguments so far are void."""
        ...

    def call_arguments(self, id: str, text: str) -> None:
        """A piece of the JSON text of the call's arguments."""
        ...

    def call_complete(self, id: str, name: str, arguments: str) -> None:
        """The call is whole. These arguments have the last word."""
        ...

    def call_progress(self, id: str, name: str, text: str) -> None:
        """A piece of what the running tool says of itself, line ends included: the output of a command, for one."""
        ...

    def call_result(self, id: str, name: str, content: str, is_error: bool) -> None:
        """What the model reads as the call's result."""
        ...

    def error(self, message: str, hint: str = "") -> None:
        """Something failed; `hint` is what to do now."""
        ...

    def note(self, text: str) -> None:
        """What the REPL itself has to say: the banner, the answer to a command."""
        ...

    def catch_up(self) -> None:
        """Nothing more is there for now: what came and is not shown yet must be."""
        ...

    def end_answer(self) -> None:
        """The answer, or a part of it, is over: what comes next begins on a fresh line. Harmless when repeated."""
        ...


LONGEST_RESULT = 300
"""How many characters of a tool's result a plain screen shows."""


class PlainScreen:
    """A screen of three text streams. Where `stdin` is no terminal, all of it is one input, or `by_line` each line."""

    def __init__(self, stdin: TextIO, stdout: TextIO, stderr: TextIO, *, by_line: bool = False) -> None:
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        self._by_line = by_line or self.is_interactive
        self._on_terminal = stdout.isatty()
        self._answering = False  # whether stdout stands in the middle of a line
        self._telling = False  # whether stderr does

    @property
    def is_interactive(self) -> bool:
        """Whether a person is there, who can be asked."""
        return self._stdin.isatty()

    def read(self, prompt: str, text: str = "") -> str | None:
        """One input. An empty line leaves the `text`, where there is one."""
        self.end_answer()
        if self.is_interactive:
            self._tell(f"{visible(text)}\n{prompt}" if text else prompt)
            self._telling = False  # the person ends the line
        said = self._stdin.readline() if self._by_line else self._stdin.read()
        return said.rstrip("\n") or text if said else None

    def thinking(self, text: str) -> None:
        """A piece of what the model thinks."""
        self._tell(visible(text))

    def content(self, text: str) -> None:
        """A piece of the answer: as it is, or on a terminal as it can be shown."""
        if self._telling:
            self._tell("\n")
        if text:
            self._stdout.write(visible(text) if self._on_terminal else text)
            self._stdout.flush()
            self._answering = not text.endswith("\n")

    def call_begins(self, id: str, name: str) -> None:
        """Nothing: a line cannot be taken back, so a call is shown when it is whole."""

    def call_arguments(self, id: str, text: str) -> None:
        """Nothing: see `call_begins`."""

    def call_complete(self, id: str, name: str, arguments: str) -> None:
        """The call, on one line."""
        self._line(exposed(f"> {name} {arguments}"))

    def call_progress(self, id: str, name: str, text: str) -> None:
        """What the running tool says, as it comes."""
        self._tell(visible(text))

    def call_result(self, id: str, name: str, content: str, is_error: bool) -> None:
        """The beginning of the result, on one line."""
        shown = " ".join(content.split())
        cut = f"{shown[:LONGEST_RESULT]} ..." if len(shown) > LONGEST_RESULT else shown
        self._line(f"{'!' if is_error else '<'} {exposed(name)}: {cut}")

    def error(self, message: str, hint: str = "") -> None:
        """The error and what to do, on one line."""
        self._line(f"error: {message}{f' ({hint})' if hint else ''}")

    def note(self, text: str) -> None:
        """What the REPL itself has to say."""
        self._line(text)

    def catch_up(self) -> None:
        """Nothing: each piece is shown as it comes."""

    def end_answer(self) -> None:
        """End the lines that are open."""
        if self._answering:
            self.content("\n")
        if self._telling:
            self._tell("\n")

    def _line(self, text: str) -> None:
        """A line of its own on stderr."""
        if self._telling:
            self._tell("\n")
        self._tell(f"{visible(text)}\n")

    def _tell(self, text: str) -> None:
        """More on stderr. Stdout's line has to end for it only where both are one terminal."""
        if self._on_terminal and self._answering:
            self.content("\n")
        if text:
            self._stderr.write(text)
            self._stderr.flush()
            self._telling = not text.endswith("\n")
