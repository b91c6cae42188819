"""Line editing on a terminal, by prompt_toolkit: `Prompt`.

Enter sends. Alt-Enter, Ctrl-J and a backslash at the end insert a line break, and pasted text stays one input. Tab
completes commands, their arguments and file names (after `@`, and as the argument of a command that takes a file);
Ctrl-X Ctrl-E opens an editor, Ctrl-R searches the history, Ctrl-O shows the tool calls of the last answer in full.

The history is a file that only its owner can read. An input that begins with a space is not stored.
"""

from __future__ import annotations

import os
import re
from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from textwrap import wrap
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output

_COMMAND: Final = re.compile(r"/\w*")
_ARGUMENT: Final = re.compile(r"(/\w+)[ \t]+(.*)")
_AT_FILE: Final = re.compile(r"(?:.*\s)?@(\S*)", re.DOTALL)
_LAST_WORD: Final = re.compile(r"(?:.*\s)?(\S*)", re.DOTALL)
_INPUT_WIDTH: Final = 15
"""Columns that a prompt leaves to the input; in a narrow terminal half of the width."""


class History(FileHistory):
    """The inputs of all sessions, in a file of mode 0600, or in memory if that cannot be written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def append_string(self, string: str) -> None:
        """Store an input, unless it begins with a space or repeats the last one."""
        if not string[:1].isspace() and string != next(iter(self.get_strings()[-1:]), None):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Append the input to the file."""
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            super().store_string(string.encode("utf-8", "replace").decode("utf-8"))

    def load_history_strings(self) -> Iterable[str]:
        """Yield the stored inputs, the latest first."""
        try:
            yield from super().load_history_strings()
        except OSError:
            return


class ReplCompleter(Completer):
    """A completer of `commands` (with their summaries), their arguments, and file names.

    `arguments(command)` returns the values that complete its argument, or None if that is a file.
    """

    def __init__(self, commands: Mapping[str, str], arguments: Callable[[str], Iterable[str] | None]) -> None:
        self._commands = commands
        self._arguments = arguments
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return the completions at the cursor."""
        before = document.text_before_cursor
        if _COMMAND.fullmatch(before):
            return _matching(before, self._commands)
        if found := _ARGUMENT.fullmatch(before):
            return self._complete_argument(found[1], found[2], complete_event)
        found = _AT_FILE.fullmatch(before)
        if not found and complete_event.completion_requested:
            found = _LAST_WORD.fullmatch(before)
        return self._files(found[1], complete_event) if found else ()

    def _complete_argument(self, command: str, argument: str, event: CompleteEvent) -> Iterable[Completion]:
        """Return the completions of a command's argument."""
        words = self._arguments(command)
        return self._files(argument, event) if words is None else _matching(argument, dict.fromkeys(words, ""))

    def _files(self, start: str, event: CompleteEvent) -> Iterable[Completion]:
        return self._paths.get_completions(Document(start), event)


def _matching(start: str, words: Mapping[str, str]) -> Iterable[Completion]:
    return [
        Completion(word, start_position=-len(start), display_meta=summary)
        for word, summary in words.items()
        if word.startswith(start)
    ]


class Prompt:
    """A reader of inputs from a terminal. Only inputs at the prompt `main` are completed and stored in the history."""

    main: str = "> "

    def __init__(
        self,
        history: Path | None = None,
        completer: Completer | None = None,
        *,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._history = History(history) if history else InMemoryHistory()
        self._completer = completer
        self._input: Input | None = input
        self._output: Output = output or _output()

    def read(self, prompt: str, text: str = "", *, show_calls: Callable[[], object] = lambda: None) -> str | None:
        """Read one input. Return None for Ctrl-D, raise `KeyboardInterrupt` for Ctrl-C; Ctrl-O calls `show_calls`."""
        is_main, keys = prompt == self.main, _Keys(show_calls)
        session: PromptSession[str] = PromptSession(
            lambda: FormattedText([("bold", _wrap_prompt(prompt, self._output.get_size().columns))]),
            multiline=True,
            history=self._history if is_main else InMemoryHistory(),
            completer=self._completer if is_main else None,
            complete_while_typing=Condition(_at_completable_word),
            reserve_space_for_menu=5,
            prompt_continuation=self._continuation,
            key_bindings=keys.bindings(),
            enable_open_in_editor=True,
            enable_suspend=True,
            tempfile_suffix=".md",
            input=self._input,
            output=self._output,
        )
        session.default_buffer.on_text_changed += keys.typed
        try:
            return session.prompt(default=text)
        except EOFError:
            return None

    def _continuation(self, width: int, line: int, wrapped: int) -> str:
        """Return the text before every further row of the input, below a prompt of `width` columns."""
        # prompt_toolkit draws nothing at all where this takes the whole width of the terminal.
        return " " * width if 2 * width < self._output.get_size().columns else ""


def _wrap_prompt(prompt: str, columns: int) -> str:
    """Return the prompt, wrapped so that the last row has space for the input."""
    *above, last = wrap(prompt, max(columns - _INPUT_WIDTH, columns // 2, 1), drop_whitespace=False)
    return "\n".join((*map(str.strip, above), last.lstrip()))


def _output() -> Output:
    """Return the terminal, without queries of the cursor's position: a late response would be read as typed text."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def _at_completable_word() -> bool:
    before = get_app().current_buffer.document.text_before_cursor
    return bool(_COMMAND.fullmatch(before) or _AT_FILE.fullmatch(before))


class _Keys:
    """Key bindings that prompt_toolkit lacks or interprets differently."""

    def __init__(self, show_calls: Callable[[], object]) -> None:
        self._show_all_calls = show_calls
        self._is_pasted = False  # True if text arrived together with this key

    def bindings(self) -> KeyBindings:
        """Return the key bindings."""
        keys, at_text = KeyBindings(), ~is_searching
        keys.add("enter", filter=at_text)(self._enter)
        keys.add("escape", "enter", filter=at_text)(self._new_line)
        keys.add("c-j", filter=at_text)(self._line_feed)
        keys.add("c-o")(self._show_calls)
        return keys

    def typed(self, buffer: Buffer) -> None:
        """Note a change of the text, until the event loop is idle again."""
        self._is_pasted = True
        get_running_loop().call_soon(self._end_of_paste)

    def _end_of_paste(self) -> None:
        """Note that all text which arrived together has been processed."""
        self._is_pasted = False

    def _enter(self, event: KeyPressEvent) -> None:
        """Accept the selected completion, insert a line break after a backslash, or send."""
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    def _new_line(self, event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    def _line_feed(self, event: KeyPressEvent) -> None:
        """Insert a line break for Ctrl-J, or send if it arrives with text: programs end lines with it."""
        if self._is_pasted or not event.current_buffer.text:
            self._enter(event)
        else:
            self._new_line(event)

    def _show_calls(self, event: KeyPressEvent) -> None:
        run_in_terminal(self._show_all_calls)
