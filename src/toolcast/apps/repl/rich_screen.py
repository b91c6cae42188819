"""The REPL on a terminal with escape codes: `RichScreen`.

Output is shown in sections, separated by blank lines: thinking (dim), answer, tool calls, notes, errors. Thinking and
answers are Markdown: complete blocks are written once (live_markdown.py), the open block is redrawn (live_rows.py) as
far as it fits the screen, and written in full when it is complete. Tool calls are summarized (tool_call_summary.py);
Ctrl-O at the prompt shows those of the last answer in full.

Text from models and tools passes through `visible` first: none of it reaches the terminal as an escape code.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from textwrap import indent
from typing import TYPE_CHECKING, Final, TextIO

from rich.text import Text

from ...terminal_text import exposed, visible
from .live_markdown import Block, LiveMarkdown
from .live_rows import LiveRow, LiveRows
from .rich_rows import RichRows
from .tool_call_summary import ShownCall

if TYPE_CHECKING:
    from .prompt_input import Prompt
    from .terminal_input import TerminalEcho

_MARKDOWN: Final = {"thinking": "dim italic", "content": "none"}
"""The sections of Markdown, and their styles."""
_ANSWER: Final = (*_MARKDOWN, "calls")
_GAP: Final = LiveRow("", 0)
_TABLE_LINE: Final = re.compile(r"[ |:]*-[ |:-]*")


class RichScreen:
    """A `Screen` on the terminal `stdout`. `prompt` and `echo` belong to the same terminal."""

    is_interactive: bool = True

    def __init__(
        self, prompt: Prompt, echo: TerminalEcho, stdout: TextIO, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._prompt = prompt
        self._echo = echo
        self._stdout = stdout
        self._layout = RichRows(stdout)
        self._live = LiveRows()
        self._throttle = _RedrawThrottle(clock)
        self._section = ""  # the open one
        self._last_section = ""  # the one last written, open or not
        self._markdown = LiveMarkdown()
        self._ready: list[LiveRow] = []  # to be written with the next update
        self._incomplete: dict[str, ShownCall] = {}  # calls whose arguments arrive
        self._running: dict[str, ShownCall] = {}  # calls whose tools report progress
        self._calls: dict[str, ShownCall] = {}  # complete calls since the last input
        self._last_call = ""  # the call whose line was written last

    def read(self, prompt: str, text: str = "") -> str | None:
        """Return one input, or None for Ctrl-D.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        self.end_answer()
        self._draw([_GAP])
        self._last_section = "prompt"
        line = self._prompt.read(visible(prompt), text, show_calls=self._show_all_calls)
        if prompt == self._prompt.main:
            self._calls.clear()
        return line

    def thinking(self, text: str) -> None:
        """Show a chunk of the model's thinking."""
        self._add("thinking", text)

    def content(self, text: str) -> None:
        """Show a chunk of the answer."""
        self._add("content", text)

    def call_begins(self, id: str, name: str) -> None:
        """Show a call whose arguments will arrive in chunks."""
        self._enter_section("calls")
        self._incomplete[id] = ShownCall(name)
        self._draw()

    def call_arguments(self, id: str, text: str) -> None:
        """Show a chunk of the arguments."""
        if call := self._incomplete.get(id):
            call.add_arguments(text)
            self._throttle(self._draw)

    def call_complete(self, id: str, name: str, arguments: str) -> None:
        """Show the summary of the complete call."""
        self._enter_section("calls")
        self._incomplete.pop(id, None)
        call = self._calls[id] = ShownCall(name, arguments)
        self._last_call = id
        self._draw(self._layout.of(Text(visible(f"● {call.summary}")), "magenta"))

    def call_progress(self, id: str, name: str, text: str) -> None:
        """Show the end of the running tool's output, until the result is there."""
        self._enter_section("calls")
        self._running.setdefault(id, ShownCall(name)).add_output(text)
        self._throttle(self._draw)

    def call_result(self, id: str, name: str, content: str, is_error: bool) -> None:
        """Show the beginning of the result, below the call."""
        self._enter_section("calls")
        self._running.pop(id, None)
        call = self._calls.setdefault(id, ShownCall(name))
        call.result = content
        first, *lines = call.result_summary
        named = first if id == self._last_call else f"{exposed(call.name)}: {first}"
        self._last_call = ""
        shown = "\n".join((f"  ⎿ {named}", *(f"    {line}" for line in lines)))
        self._draw(self._cut(shown, "red" if is_error else "dim"))

    def error(self, message: str, hint: str = "") -> None:
        """Show the error in red, and the next step."""
        self._enter_section("error")
        self._draw(self._layout.of(Text(f"✗ {visible(message)}"), "bold red"))
        if hint:
            self._draw(self._layout.of(Text(f"  → {visible(hint)}")))

    def note(self, text: str) -> None:
        """Show a message of the REPL itself."""
        self._enter_section("note")
        self._draw(self._layout.of(Text(visible(text)), "cyan"))

    def flush_updates(self) -> None:
        """Show all chunks that were delayed."""
        self._draw()

    def end_answer(self) -> None:
        """End the open section."""
        self._enter_section("")
        self._echo.restore()

    def _add(self, section: str, text: str) -> None:
        """Add a chunk of Markdown."""
        self._enter_section(section)
        self._ready += self._layout.of_blocks(self._markdown.feed(visible(text)), _MARKDOWN[section])
        self._throttle(self._draw)

    def _enter_section(self, section: str) -> None:
        """End the open section and begin this one, unless it is the same."""
        if section == self._section:
            return
        if style := _MARKDOWN.get(self._section):
            self._ready += self._layout.of_blocks(self._markdown.close(), style)
        self._incomplete.clear()
        self._ready += self._running_output()
        self._running.clear()
        self._section = section
        if section in _ANSWER:
            self._echo.disable()
        # Markdown has its own gap. A result arrives after the answer, and follows its call.
        goes_on = section in ("", *_MARKDOWN, self._last_section)
        self._last_section = section or self._last_section
        self._draw([] if goes_on else [_GAP])

    def _draw(self, rows: Iterable[LiveRow] = ()) -> None:
        """Write all finished rows, `rows` after them, and the tail below."""
        finished, self._ready = [*self._ready, *rows], []
        written = self._live.draw(finished, self._tail(), self._layout.columns)
        if written:
            self._stdout.write(written)
            self._stdout.flush()

    def _tail(self) -> list[LiveRow]:
        """Return the rows that may still change: as many from their end as fit the screen."""
        height = max(1, self._layout.height - 1)
        if style := _MARKDOWN.get(self._section):
            blocks = [_end_of(block, height, self._layout.columns) for block in self._markdown.tail]
            return self._layout.of_blocks(blocks, style)[-height:]
        rows = [row for call in self._incomplete.values() for row in self._cut(f"● {call.partial_summary}", "magenta")]
        rows += self._running_output()
        return rows[-height:]

    def _running_output(self) -> list[LiveRow]:
        """Return the output of the running tools. It stays on screen if a result does not follow."""
        outputs = [indent(call.output.strip("\n"), "    ") for call in self._running.values()]
        return [row for text in outputs for row in self._cut(text, "dim")]

    def _cut(self, text: str, style: str) -> list[LiveRow]:
        """Return a row for each line, cut off at the right margin."""
        return self._layout.of(Text(visible(text), no_wrap=True, overflow="ellipsis"), style)

    def _show_all_calls(self) -> None:
        """Show all calls of the last answer in full."""
        full = "\n\n".join(call.full_text for call in self._calls.values())
        self._draw(self._layout.of(Text(visible(full) or "The last answer called no tools."), "dim"))


class _RedrawThrottle:
    """A limit on drawing to a fifth of the time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = float("-inf")

    def __call__(self, draw: Callable[[], object]) -> None:
        """Draw, unless the last drawing was too recent."""
        start = self._clock()
        if start >= self._next:
            draw()
            end = self._clock()
            self._next = end + 4 * (end - start)


def _end_of(block: Block, height: int, columns: int) -> Block:
    """Return the end of a block that can fit the screen, and of a table also its head."""
    lines = block.text.split("\n")
    head = lines[:2] if len(lines) > height and _TABLE_LINE.fullmatch(lines[1]) else []
    most = height * columns
    # Cut at multiples of `most`, so that the start stays the same for most chunks: else all rows would differ.
    last = [line[max(0, len(line) // most - 1) * most :] for line in lines[-height:]]
    return replace(block, text="\n".join((*head, *last)))
