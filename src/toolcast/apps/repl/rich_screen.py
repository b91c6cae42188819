"""The REPL on a terminal with escape codes: `RichScreen`.

Output is shown in sections, separated by blank lines: thinking (dim), answer, tool calls, notes, errors. Thinking and
answers are Markdown: complete blocks are written once (live_markdown.py), the open block is redrawn (live_rows.py) as
far as it fits the screen, and written in full when it is complete. Tool calls are summarized (tool_call_summary.py);
Ctrl-O at the prompt shows those of the last answer in full.

While a turn runs, the last row shows its activity (activity.py), and the rows above it the sub-agents at work.

Text from models and tools passes through `visible` first: none of it reaches the terminal as an escape code.

Texts of one row about a turn and its conversation, which fit the width of the terminal by leaving parts out.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from textwrap import indent
from typing import TYPE_CHECKING, Final, TextIO

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ...text.terminal_text import exposed, visible
from ..approval_preview import CallSketch, DiffPreview
from .activity import TurnActivity
from .choices import Answer, Choice
from .live_markdown import Block, LiveMarkdown
from .live_rows import LiveRow, LiveRows
from .picker import Actions, Find, PickedRow
from .preview_text import PreviewLine, preview_lines
from .printed_text import PrintedText
from .rich_rows import RichRows, rich_preview
from .screen import ConversationStatus
from .text_editor import edit_in_editor, editor_command
from .tool_call_summary import ShownCall, all_calls_lines

if TYPE_CHECKING:
    from .prompt_input import Prompt
    from .terminal_input import TerminalEcho


STOP_HINT: Final = "Ctrl-C to stop"
FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The signs of the spinner, one after the other."""
_MARKS: Final = {"completed": "✓", "failed": "✗"}
_SEPARATOR: Final = " · "
_WIDE: Final = 60
"""Columns of a terminal that has space for the size of the context window."""
_SHORTEST: Final = 14
"""Columns to which the first part is shortened before another is left out."""


def status_text(status: ConversationStatus, columns: int) -> str:
    """Return the status of a conversation in at most `columns` columns."""
    context = tokens = cost = ""
    if status.context_percent is not None and status.context_window is not None:
        size = f" of {short_count(status.context_window)}" if columns >= _WIDE else ""
        context = f"{status.context_percent:.0f} %{size} context"
    if status.tokens:
        tokens = f"{short_count(status.tokens)} tokens"
    if status.cost:
        cost = f"{'≥ ' if status.is_least_cost else ''}${status.cost:.{2 if status.cost >= 1 else 4}f}"
    return fit_parts([exposed(status.model), f"mode {status.mode}", context, cost, tokens], columns)


def short_count(count: int) -> str:
    """Return a number with at most four digits and its unit: 950, 12.3k, 200k, 1M."""
    for factor, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= factor:
            scaled = f"{count / factor:.{1 if count < 100 * factor else 0}f}"
            return f"{scaled.removesuffix('.0')}{unit}"
    return str(count)


def duration(seconds: int) -> str:
    """Return a number of seconds as a text: 5 s, 2 min 05 s, 1 h 02 min."""
    minutes, seconds = divmod(seconds, 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


def fit_parts(parts: Sequence[str], columns: int) -> str:
    """Return the parts that are not empty, in at most `columns` columns.

    The first part is shortened down to 14 columns; then the last parts are left out, one by one.
    """
    first, *others = filter(None, parts)
    least = min(cell_len(first), _SHORTEST)
    while others and least + sum(len(_SEPARATOR) + cell_len(part) for part in others) > columns:
        others.pop()
    rest = "".join(f"{_SEPARATOR}{part}" for part in others)
    return f"{shorten_cells(first, max(columns - cell_len(rest), 1))}{rest}"


def shorten_cells(text: str, columns: int) -> str:
    """Return the text, or its beginning and an ellipsis, in at most `columns` columns."""
    return text if cell_len(text) <= columns else f"{set_cell_size(text, columns - 1).rstrip()}…"


def activity_text(activity: TurnActivity, columns: int) -> str:
    """Return the label of an activity, its duration, its tokens and the hint in at most `columns` columns."""
    tokens = f"{short_count(activity.tokens)} tokens" if activity.tokens else ""
    parts = [_one_line(activity.label), duration(activity.seconds), tokens, STOP_HINT]
    fitting = fit_parts(parts, columns)
    return fitting if fitting.endswith(STOP_HINT) else fit_parts([*parts[:2], STOP_HINT], columns)


def agent_text(id: str, agent: TurnActivity, frame: str, columns: int) -> str:
    """Return the sign, id and task of a sub-agent, its label, duration and tokens in at most `columns` columns."""
    indent = "  " * (agent.depth + 1)
    name = _one_line(f"{id} {agent.task}")
    head = f"{indent}{_MARKS.get(agent.outcome, frame)} {shorten_cells(name, max(columns * 2 // 5, 8))}"
    tokens = f"{short_count(agent.tokens)} tokens" if agent.tokens else ""
    label = agent.outcome or shorten_cells(_one_line(agent.label), max(columns // 3, 8))
    return fit_parts([head, label, duration(agent.seconds), tokens], columns)


def _one_line(text: str) -> str:
    return exposed(" ".join(text.split()))


_MARKDOWN: Final = {"thinking": "dim italic", "content": "none"}
"""The sections of Markdown, and their styles."""
_ANSWER: Final = (*_MARKDOWN, "calls")
_GAP: Final = LiveRow("", 0)
_FRAMES_PER_SECOND: Final = 10
_POLL_SECONDS: Final = 0.05
"""The time between two looks for pressed keys."""
_MOST_QUEUED: Final = 3
"""Lines of what was typed during an answer that are shown."""
_LEAST_HEIGHT: Final = 6
"""Rows of a terminal that has space for the activity."""
_AGENT_STYLES: Final = {"completed": "green", "failed": "red"}
_NAMED: Final = re.compile(r"(?:  |\* )( *[\d,]+|\S+(?: \S+)*)(?=  |$)")
"""A line of a list in a note: a name, and its summary in a column of its own or below."""
_TABLE_LINE: Final = re.compile(r"[ |:]*-[ |:-]*")


class RichScreen:
    """A `Screen` on the terminal `stdout`. `prompt` and `echo` belong to the same terminal.

    While a turn runs, what is `printed` is shown above the rows that may still change.
    """

    is_interactive: bool = True

    def __init__(
        self,
        prompt: Prompt,
        echo: TerminalEcho,
        stdout: TextIO,
        printed: PrintedText | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._prompt = prompt
        self._echo = echo
        self._stdout = stdout
        self._printed = PrintedText() if printed is None else printed
        self._layout = RichRows(stdout)
        self._live = LiveRows()
        self._clock = clock
        self._throttle = _RedrawThrottle(clock)
        self._next_poll = float("-inf")
        self._is_after_gap = False  # True if the last finished row is blank
        self._activity: TurnActivity | None = None
        self._status: ConversationStatus | None = None
        self._section = ""  # the open one
        self._last_section = ""  # the one last written, open or not
        self._markdown = LiveMarkdown()
        self._ready: list[LiveRow] = []  # to be written with the next update
        self._incomplete: dict[str, ShownCall] = {}  # calls whose arguments arrive
        self._open: dict[str, ShownCall] = {}  # complete calls whose rows are not written yet
        self._running: dict[str, ShownCall] = {}  # calls whose tools report progress
        self._calls: dict[str, ShownCall] = {}  # complete calls since the last input
        self._last_call = ""  # the call whose line was written last
        self._allowed: set[str] = set()  # calls that the person approved, without a result yet
        self._denied: set[str] = set()  # calls whose result says no more than the line about the decision

    def read(self, prompt: str, text: str = "") -> str | None:
        """Return one input, or None for Ctrl-D.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        with self._at_prompt():
            self._draw([_GAP])
            self._last_section = "prompt"
            self._is_after_gap = False
            status = self._status_text if prompt == self._prompt.main else None
            return self._prompt.read(visible(prompt), text, show_calls=self.show_details, status=status)

    @contextmanager
    def _at_prompt(self) -> Generator[None]:
        """Return a context manager in which the terminal belongs to a prompt, without the activity."""
        activity, self._activity = self._activity, None
        self.end_answer()
        self._draw()
        try:
            yield
        finally:
            self._activity = activity
            if activity is not None:
                self._echo.disable()

    def pick(self, title: str, find: Find, actions: Actions, last: PickedRow | None = None) -> PickedRow | None:
        """Let the user choose a row of a list below the cursor."""
        self.end_answer()
        self._draw([_GAP])
        self._last_section = "prompt"
        return self._prompt.pick(title, find, actions, last)

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
        """Show the summary of the complete call until its result is there, which is written below it."""
        if id in self._denied:
            return
        self._enter_section("calls")
        self._incomplete.pop(id, None)
        decided = self._calls.pop(id, None) if id in self._allowed else None
        self._open[id] = self._calls[id] = decided or ShownCall(name, arguments)  # the last one
        self._draw()

    def call_progress(self, id: str, name: str, text: str) -> None:
        """Show the end of the running tool's output, until the result is there."""
        self._enter_section("calls")
        self._running.setdefault(id, ShownCall(name)).add_output(text)
        self._throttle(self._draw)

    def call_result(self, id: str, name: str, content: str, is_error: bool, change: DiffPreview | None = None) -> None:
        """Show the call, the change that it made, and below it the beginning of the result."""
        self._enter_section("calls")
        self._show_printed()
        self._running.pop(id, None)
        call = self._calls.setdefault(id, ShownCall(name))
        call.result, call.is_error, call.change = content, is_error, change
        if id in self._denied:
            self._denied.remove(id)
            return
        rows = self._call_rows(call) if self._open.pop(id, None) else []
        first, *lines = call.result_summary
        named = first if rows or id == self._last_call else f"{exposed(call.name)}: {first}"
        if change is not None and id not in self._allowed:
            rows += self._preview_rows(preview_lines(name, change)[1:])
        self._last_call = ""
        self._allowed.discard(id)
        rows += self._result_rows(
            call, f"  ⎿ {'✗ ' if call.has_failed else ''}", named, "red" if call.has_failed else "dim"
        )
        for line in lines:
            rows += self._result_rows(call, "    ", line, "red" if is_error else "dim")
        self._draw(rows)

    def error(self, message: str, hint: str = "") -> None:
        """Show the error in red, and the next step."""
        self._enter_section("error")
        self._draw(self._layout.hanging("✗ ", visible(message), "bold red"))
        if hint:
            self._draw(self._layout.hanging("  → ", visible(hint)))

    def note(self, text: str) -> None:
        """Show a message of the REPL itself."""
        self._enter_section("note")
        rows: list[LiveRow] = []
        for line in _note_text(visible(text)).split("\n", allow_blank=True):
            indent = len(line.plain) - len(line.plain.lstrip(" "))
            rows += self._layout.hanging(" " * indent, line[indent:])
        self._draw(rows)

    def preview(self, tool: str, preview: CallSketch, *, number: int | None = None, whole: bool = False) -> None:
        """Show what a call would do, in colours."""
        self._last_section = ""  # each preview is a section
        self._enter_section("preview")
        self._draw(self._preview_rows(preview_lines(tool, preview, number=number, whole=whole)))
        self._section = ""

    def choose(self, question: str, choices: Sequence[Choice]) -> Answer | None:
        """Ask for one key."""
        with self._at_prompt():
            return self._prompt.choose(visible(question), choices)

    def edit(self, text: str, suffix: str) -> str | None:
        """Open an editor, or without one a prompt with the text."""
        if command := editor_command(os.environ):
            with self._at_prompt():
                return edit_in_editor(command, text, suffix)
        self.note("Enter saves, Alt-Enter begins a new line, Ctrl-C leaves the text as it is. EDITOR names an editor.")
        return self.read("edit: ", text)

    def call_decided(self, id: str, name: str, arguments: str, line: str, is_allowed: bool) -> None:
        """Remember the call for Ctrl-O, and show the line: of a denied call now, of another one when it runs."""
        self._enter_section("calls")
        self._calls[id] = ShownCall(name, arguments, label=line)
        self._allowed.discard(id)
        (self._allowed if is_allowed else self._denied).add(id)
        if not is_allowed:
            self._draw(self._layout.hanging("✗ ", visible(line), "red"))

    def show_activity(self, activity: TurnActivity | None) -> None:
        """Show the activity in the last row until the turn has ended, and forget the calls of the last one."""
        self._activity = activity
        self._printed.is_collecting = activity is not None
        if activity is None:
            self._enter_section("")
            self._show_printed(is_end=True)
            self._draw()
            self._prompt.poll()
            self._echo.restore()
        else:
            for calls in (self._calls, self._allowed, self._denied):
                calls.clear()
            self._echo.disable()
            self._draw()

    def refresh(self) -> None:
        """Show the activity as it is now, what was printed, and the lines that were typed meanwhile.

        Raises:
            KeyboardInterrupt: Esc was pressed.
        """
        self._poll()
        self._show_printed()
        self._draw()

    def hold_typed(self) -> None:
        """Do not send the lines that were typed during the turn: they are there at the next prompt, as one text."""
        self._prompt.hold_early()

    def show_status(self, status: ConversationStatus) -> None:
        """Show the status below the next prompt."""
        self._status = status

    def show_details(self) -> None:
        """Show all calls of the last answer in full."""
        self._draw(self._preview_rows(all_calls_lines(self._calls.values())))

    def flush_updates(self) -> None:
        """Show all chunks that were delayed, and what was printed.

        Raises:
            KeyboardInterrupt: Esc was pressed.
        """
        self._poll()
        self._show_printed()
        self._draw()

    def _poll(self) -> None:
        """Read the keys that were pressed during an answer, but not too often. Raise `KeyboardInterrupt` for Esc."""
        now = self._clock()
        if self._activity is not None and now >= self._next_poll:
            self._next_poll = now + _POLL_SECONDS
            if self._prompt.poll():
                raise KeyboardInterrupt

    def end_answer(self) -> None:
        """End the open section."""
        self._enter_section("")
        if self._activity is None:
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
        self._ready += self._running_rows()
        self._last_call = next(reversed(self._open), self._last_call)
        self._open.clear()
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
        finished, self._ready = self._ready, []
        if finished:
            self._is_after_gap = finished[-1] == _GAP
        rows = list(rows)
        if rows and not (rows == [_GAP] and self._is_after_gap):
            finished += rows
            self._is_after_gap = rows[-1] == _GAP
        written = self._live.draw(finished, self._tail(), self._layout.columns)
        if written:
            self._stdout.write(written)
            self._stdout.flush()

    def _tail(self) -> list[LiveRow]:
        """Return the rows that may still change: as many from their end as fit the screen."""
        below = self._activity_rows()
        height = max(1, self._layout.height - 1 - len(below))
        rows = self._open_rows(height)[-height:]
        return below[1:] if not rows and self._is_after_gap and below[:1] == [_GAP] else rows + below

    def _open_rows(self, height: int) -> list[LiveRow]:
        """Return the rows of the open section that may still change, of which `height` are shown."""
        if style := _MARKDOWN.get(self._section):
            blocks = [_end_of(block, height, self._layout.columns) for block in self._markdown.tail]
            return self._layout.of_blocks(blocks, style)
        rows = [row for call in self._incomplete.values() for row in self._cut(f"● {call.partial_summary}", "magenta")]
        return rows + self._running_rows()

    def _activity_rows(self) -> list[LiveRow]:
        """Return a row for each sub-agent, a gap, and the row of the activity, if they fit the screen."""
        activity, columns, height = self._activity, self._layout.columns, self._layout.height
        if activity is None or height < _LEAST_HEIGHT:
            return []
        frame = FRAMES[int(self._clock() * _FRAMES_PER_SECOND) % len(FRAMES)]
        agents = [
            row
            for id, agent in activity.agents
            for row in self._cut(agent_text(id, agent, frame, columns), _AGENT_STYLES.get(agent.outcome, "dim"))
        ]
        text = Text.assemble((frame, "cyan"), " ", (visible(activity_text(activity, columns - 2)), "dim"))
        *queued, typing = self._prompt.early_lines
        inputs = [*queued, *([f"{typing}▏"] if typing else [])]
        margin = " " * len(self._prompt.main)
        lines = "\n".join(self._prompt.main + input.replace("\n", f"\n{margin}") for input in inputs).split("\n")
        hidden = len(lines) - _MOST_QUEUED
        shown = [*([f"{margin}… {hidden} more above"] if hidden > 0 else []), *lines[-_MOST_QUEUED:]]
        typed = [row for line in shown for row in self._cut(line, "dim")] if inputs else []
        return [*agents[-(height // 2) :], *([_GAP, *typed] if typed else []), _GAP, *self._layout.of(text)]

    def _show_printed(self, *, is_end: bool = False) -> None:
        """Write what was printed, below the calls that run. It waits until a paragraph or a list has ended."""
        if self._section in _MARKDOWN or not (lines := self._printed.take_lines(is_end=is_end)):
            return
        self._enter_section("calls")
        rows = self._written_calls()
        for line in lines:
            rows += self._layout.hanging("    ", visible(line))
        self._draw(rows)

    def _written_calls(self) -> list[LiveRow]:
        """Return the rows of the calls that run, which are written and not drawn again."""
        rows = [row for call in self._open.values() for row in self._call_rows(call)]
        self._last_call = next(reversed(self._open), self._last_call)
        self._open.clear()
        return rows

    def _running_rows(self) -> list[LiveRow]:
        """Return the calls without a result, each with its output. They stay on screen if a result does not follow."""
        rows: list[LiveRow] = []
        for id in {**self._open, **self._running}:
            if call := self._open.get(id):
                rows += self._call_rows(call)
            if (running := self._running.get(id)) and (output := running.output.strip("\n")):
                rows += self._cut(indent(output, "    "), "dim")
        return rows

    def _call_rows(self, call: ShownCall) -> list[LiveRow]:
        if call.label:
            return self._layout.hanging("● ", visible(call.label), "magenta")
        return self._cut(f"● {call.title}", "magenta")

    def _result_rows(self, call: ShownCall, lead: str, line: str, style: str) -> list[LiveRow]:
        """Return a line of a result: wrapped if nothing of it may be missing, else cut off at the right margin."""
        if call.wraps:
            return self._layout.hanging(lead, visible(line), style)
        return self._cut(f"{lead}{line}", style)

    def _preview_rows(self, lines: Iterable[PreviewLine]) -> list[LiveRow]:
        return [row for text in rich_preview(lines, self._layout.columns) for row in self._layout.of(text)]

    def _cut(self, text: str, style: str) -> list[LiveRow]:
        """Return a row for each line, cut off at the right margin."""
        return self._layout.of(Text(visible(text), no_wrap=True, overflow="ellipsis"), style)

    def _status_text(self, columns: int) -> str:
        return visible(status_text(self._status, columns)) if self._status else ""


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


def _note_text(text: str) -> Text:
    """Return a note in cyan; of a list only the names, with its headings bold."""
    lines = text.split("\n")
    if not any(map(_NAMED.match, lines)):
        return Text(text, "cyan")
    shown: list[Text] = []
    for line, following in zip(lines, (*lines[1:], ""), strict=True):
        shown.append(Text(line, "bold" if line[:1] not in " *" and following[:1] in ("*", " ") else "none"))
        if found := _NAMED.match(line):
            shown[-1].stylize("cyan", found.start(1), found.end(1))
    return Text("\n").join(shown)


def _end_of(block: Block, height: int, columns: int) -> Block:
    """Return the end of a block that can fit the screen, and of a table also its head."""
    lines = block.text.split("\n")
    head = lines[:2] if len(lines) > height and _TABLE_LINE.fullmatch(lines[1]) else []
    most = height * columns
    # Cut at multiples of `most`, so that the start stays the same for most chunks: else all rows would differ.
    last = [line[max(0, len(line) // most - 1) * most :] for line in lines[-height:]]
    return replace(block, text="\n".join((*head, *last)))
