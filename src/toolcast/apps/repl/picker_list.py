"""A list on a terminal, drawn by prompt_toolkit below the cursor: arrow keys move, typing searches, Enter chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import to_filter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.output import Output
from prompt_toolkit.utils import get_cwidth

from ...text.terminal_text import exposed
from .picker import Actions, Find, ListRow, PickedRow, rows_for

_HEIGHT: Final = 10
"""Rows that are shown at once, in a terminal of 16 lines or more."""
_OTHER_LINES: Final = 6
_DETAIL_WIDTH: Final = 60
"""Columns from which the whole details are shown."""
_STEPS: Final = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -_HEIGHT, "pagedown": _HEIGHT}
_KEYS: Final = {"c-r": "Ctrl-R", "c-x": "Ctrl-X"}


class PickerList:
    """The list, until a row is chosen."""

    def __init__(
        self,
        title: str,
        find: Find,
        actions: Actions,
        last: PickedRow | None = None,
        *,
        input: Input | None,
        output: Output,
    ) -> None:
        self._title, self._find, self._actions = title, find, actions
        self._output = output
        self._at = 0
        self._rows: Sequence[ListRow] = find("")
        self._query = Buffer(on_text_changed=self._search, multiline=False)
        if last is not None:  # the row of the last action, or the one in its place
            self._query.insert_text(last.query)
            if not self._rows:
                self._query.reset()
                self._rows = find("")
            values = [row.value for row in self._rows]
            self._at = values.index(last.value) if last.value in values else min(last.at, max(len(values) - 1, 0))
        self._application: Application[PickedRow | None] = Application(
            self._layout(),
            key_bindings=self._bindings(),
            erase_when_done=True,
            input=input,
            output=output,
        )

    def run(self) -> PickedRow | None:
        """Show the list, and return the choice, or None if there is none."""
        return self._application.run()

    def _layout(self) -> Layout:
        search = VSplit(
            [
                Window(FormattedTextControl([("bold", "search: ")]), width=8, height=1),
                Window(BufferControl(self._query), height=1),
            ]
        )
        head = Window(FormattedTextControl([("bold", self._title)]), height=1)
        body = Window(FormattedTextControl(self.lines), height=self._height, dont_extend_height=to_filter(True))
        foot = Window(FormattedTextControl(self._footer), dont_extend_height=to_filter(True), wrap_lines=True)
        return Layout(HSplit([head, search, body, foot]))

    def _height(self) -> int:
        return max(1, min(_HEIGHT, len(self._rows) or 1, self._output.get_size().rows - _OTHER_LINES))

    def lines(self) -> StyleAndTextTuples:
        """Return the rows around the selected one."""
        if not self._rows:
            return [("italic", "  nothing found")]
        height, columns = self._height(), self._output.get_size().columns
        start = min(max(self._at - height // 2, 0), len(self._rows) - height)
        digits = len(str(len(self._rows)))
        lines: StyleAndTextTuples = []
        for number in range(start, start + height):
            row = self._rows[number]
            mark = "›" if number == self._at else " "
            line = _fit(f"{mark} {number + 1:>{digits}} {exposed(row.text)}", exposed(row.detail), columns - 1)
            lines.append(("reverse" if number == self._at else "", line))
            lines.append(("", "\n"))
        return lines[:-1]

    def _footer(self) -> StyleAndTextTuples:
        keys = [f"{_KEYS[key]} {action}" for key, action in self._actions.items()]
        return [("fg:ansibrightblack", " · ".join(["↑↓ move", "Enter choose", *keys, "Esc cancel"]))]

    def _search(self, buffer: Buffer) -> None:
        self._rows, self._at = rows_for(buffer.text, self._find)

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        for key, step in _STEPS.items():
            keys.add(key)(self._mover(step))
        keys.add("enter")(self._chooser("open"))
        for key, action in self._actions.items():
            keys.add(key)(self._chooser(action))
        for key in ("escape", "c-c", "c-d"):
            keys.add(key, eager=key == "escape")(self._cancel)
        return keys

    def _mover(self, step: int) -> Callable[[KeyPressEvent], None]:
        def move(event: KeyPressEvent) -> None:
            self._at = min(max(self._at + step, 0), max(len(self._rows) - 1, 0))

        return move

    def _chooser(self, action: str) -> Callable[[KeyPressEvent], None]:
        def choose(event: KeyPressEvent) -> None:
            if self._rows:
                event.app.exit(result=PickedRow(self._rows[self._at].value, action, self._query.text, self._at))

        return choose

    def _cancel(self, event: KeyPressEvent) -> None:
        event.app.exit(result=None)


def _fit(text: str, detail: str, columns: int) -> str:
    """Return the text in `columns`, with the detail at the right margin if there is space for it."""
    if columns < _DETAIL_WIDTH:
        detail = _end_that_fits(detail, columns - min(get_cwidth(text), columns // 2) - 2)
    space = columns - get_cwidth(detail) - 2 if detail else columns
    if get_cwidth(text) > space:
        while text and get_cwidth(text) > space - 1:
            text = text[:-1]
        text += "…"
    padding = " " * (space - get_cwidth(text))
    return f"{text}{padding}  {detail}" if space < columns else f"{text}{padding}"


def _end_that_fits(detail: str, columns: int) -> str:
    """Return the last parts of a detail, such as the time, that fit in `columns`; nothing if none does."""
    parts = detail.split(", ")
    ends = (", ".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if get_cwidth(end) <= columns), "")
