"""`RichScreen`: the REPL on a terminal that knows colours and can be written over.

What comes is shown in sections, one below the other with a blank line between: what the model thinks (dim), its answer,
its tool calls, notes, errors. Thinking and answers are Markdown: blocks that are finished are written once
(live_markdown.py), what is still open is drawn over (live_rows.py) as far as it fits the screen, and the whole of it
when it is finished. Calls are folded (folding.py); Ctrl-O at the prompt unfolds those of the last answer.

All that a model or a tool has written goes through `visible` first: nothing of it reaches the terminal as a command.
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
    from .terminal_input import Keyboard

_MARKDOWN: Final = {"thinking": "dim italic", "content": "none"}
"""The sections of Markdown, and their styles."""
_ANSWER: Final = (*_MARKDOWN, "calls")
_GAP: Final = LiveRow("", 0)
_TABLE_LINE: Final = re.compile(r"[ |:]*-[ |:-]*")


class RichScreen:
    """A `Screen` on the terminal that `stdout` is. `prompt` and `keyboard` are of the same terminal."""

    is_interactive: bool = True

    def __init__(
        self, prompt: Prompt, keyboard: Keyboard, stdout: TextIO, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._prompt = prompt
        self._keyboard = keyboard
        self._stdout = stdout
        self._rich = RichRows(stdout)
        self._live = LiveRows()
        self._pace = _Pace(clock)
        self._section = ""  # that is open
        self._above = ""  # the one that stands last, open or not
        self._markdown = LiveMarkdown()
        self._ready: list[LiveRow] = []  # to be written with what is drawn next
        self._growing: dict[str, ShownCall] = {}  # calls whose arguments arrive
        self._running: dict[str, ShownCall] = {}  # calls whose tools say something
        self._calls: dict[str, ShownCall] = {}  # those that are whole, since the last question
        self._last_call = ""  # whose line stands last

    def read(self, prompt: str, text: str = "") -> str | None:
        """One input. Raises `KeyboardInterrupt` for Ctrl-C; None for Ctrl-D."""
        self.end_answer()
        self._draw([_GAP])
        self._above = "prompt"
        said = self._prompt.read(visible(prompt), text, unfold=self._unfold)
        if prompt == self._prompt.main:
            self._calls.clear()
        return said

    def thinking(self, text: str) -> None:
        """A piece of what the model thinks."""
        self._add("thinking", text)

    def content(self, text: str) -> None:
        """A piece of the answer."""
        self._add("content", text)

    def call_begins(self, id: str, name: str) -> None:
        """A call, whose arguments will grow."""
        self._turn_to("calls")
        self._growing[id] = ShownCall(name)
        self._draw()

    def call_arguments(self, id: str, text: str) -> None:
        """A piece of the arguments."""
        if call := self._growing.get(id):
            call.grow(text)
            self._pace(self._draw)

    def call_complete(self, id: str, name: str, arguments: str) -> None:
        """The call, folded."""
        self._turn_to("calls")
        self._growing.pop(id, None)
        call = self._calls[id] = ShownCall(name, arguments)
        self._last_call = id
        self._draw(self._rich.of(Text(visible(f"● {call.folded}")), "magenta"))

    def call_progress(self, id: str, name: str, text: str) -> None:
        """A piece of what the running tool says: the end of it is shown, until the result is there."""
        self._turn_to("calls")
        self._running.setdefault(id, ShownCall(name)).say(text)
        self._pace(self._draw)

    def call_result(self, id: str, name: str, content: str, is_error: bool) -> None:
        """The beginning of the result, below the call."""
        self._turn_to("calls")
        self._running.pop(id, None)
        call = self._calls.setdefault(id, ShownCall(name))
        call.result = content
        first, *lines = call.folded_result
        named = first if id == self._last_call else f"{exposed(call.name)}: {first}"
        self._last_call = ""
        shown = "\n".join((f"  ⎿ {named}", *(f"    {line}" for line in lines)))
        self._draw(self._cut(shown, "red" if is_error else "dim"))

    def error(self, message: str, hint: str = "") -> None:
        """The error in red, and what to do now."""
        self._turn_to("error")
        self._draw(self._rich.of(Text(f"✗ {visible(message)}"), "bold red"))
        if hint:
            self._draw(self._rich.of(Text(f"  → {visible(hint)}")))

    def note(self, text: str) -> None:
        """What the REPL itself has to say."""
        self._turn_to("note")
        self._draw(self._rich.of(Text(visible(text)), "cyan"))

    def catch_up(self) -> None:
        """Show all that has come."""
        self._draw()

    def end_answer(self) -> None:
        """Finish what is open."""
        self._turn_to("")
        self._keyboard.listen()

    def _add(self, section: str, text: str) -> None:
        """A piece of Markdown."""
        self._turn_to(section)
        self._ready += self._rich.of_blocks(self._markdown.feed(visible(text)), _MARKDOWN[section])
        self._pace(self._draw)

    def _turn_to(self, section: str) -> None:
        """Finish the section that is open, and begin this one, unless it is the same."""
        if section == self._section:
            return
        if style := _MARKDOWN.get(self._section):
            self._ready += self._rich.of_blocks(self._markdown.close(), style)
        self._growing.clear()
        self._ready += self._unfinished()
        self._running.clear()
        self._section = section
        if section in _ANSWER:
            self._keyboard.silence()
        # Markdown brings its own gap. A result comes when the answer is over, and stands below its call.
        goes_on = section in ("", *_MARKDOWN, self._above)
        self._above = section or self._above
        self._draw([] if goes_on else [_GAP])

    def _draw(self, rows: Iterable[LiveRow] = ()) -> None:
        """Write all that is finished, these rows last, and below it what may still change."""
        finished, self._ready = [*self._ready, *rows], []
        written = self._live.draw(finished, self._tail(), self._rich.columns)
        if written:
            self._stdout.write(written)
            self._stdout.flush()

    def _tail(self) -> list[LiveRow]:
        """What may still change: as much of its end as fits the screen."""
        height = max(1, self._rich.height - 1)
        if style := _MARKDOWN.get(self._section):
            blocks = [_end_of(block, height, self._rich.columns) for block in self._markdown.tail]
            return self._rich.of_blocks(blocks, style)[-height:]
        rows = [row for call in self._growing.values() for row in self._cut(f"● {call.growing}", "magenta")]
        rows += self._unfinished()
        return rows[-height:]

    def _unfinished(self) -> list[LiveRow]:
        """What the running tools have said. It stays where no result comes any more."""
        said = [indent(call.saying.strip("\n"), "    ") for call in self._running.values()]
        return [row for text in said for row in self._cut(text, "dim")]

    def _cut(self, text: str, style: str) -> list[LiveRow]:
        """A row for each line, which ends at the right margin."""
        return self._rich.of(Text(visible(text), no_wrap=True, overflow="ellipsis"), style)

    def _unfold(self) -> None:
        """Show all calls of the last answer, whole."""
        whole = "\n\n".join(call.whole for call in self._calls.values())
        self._draw(self._rich.of(Text(visible(whole) or "The last answer called no tools."), "dim"))


class _Pace:
    """Has things drawn, but not more often than takes a fifth of the time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = float("-inf")

    def __call__(self, draw: Callable[[], object]) -> None:
        """Draw, if enough time has gone by."""
        start = self._clock()
        if start >= self._next:
            draw()
            end = self._clock()
            self._next = end + 4 * (end - start)


def _end_of(block: Block, height: int, columns: int) -> Block:
    """All of the end of a block that can be on the screen, and not much more; of a table also its head."""
    lines = block.text.split("\n")
    head = lines[:2] if len(lines) > height and _TABLE_LINE.fullmatch(lines[1]) else []
    most = height * columns
    # It begins where it began with the piece before, most of the time: else all rows would differ each time.
    last = [line[max(0, len(line) // most - 1) * most :] for line in lines[-height:]]
    return replace(block, text="\n".join((*head, *last)))
