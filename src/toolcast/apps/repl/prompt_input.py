"""What a person types, on a terminal: `Prompt`, by prompt_toolkit.

Enter sends. Alt-Enter, Ctrl-J and a backslash at the end begin a new line, and what is pasted stays one input. Tab
completes commands, their arguments and the names of files (after `@`, and where a command takes one); Ctrl-X Ctrl-E
opens an editor, Ctrl-R searches the history, Ctrl-O unfolds the tool calls of the last answer.

The history is a file that only its owner can read. An input that begins with a blank is not kept.
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
_ROOM: Final = 15
"""The columns that a prompt leaves to the input; in a narrow terminal half of them."""


class History(FileHistory):
    """The inputs of all sessions, in a file of mode 0600. Where it cannot be written, they are kept until the end."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def append_string(self, string: str) -> None:
        """Keep an input, unless it begins with a blank or is the last one again."""
        if not string[:1].isspace() and string != next(iter(self.get_strings()[-1:]), None):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Write it to the file."""
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            super().store_string(string.encode("utf-8", "replace").decode("utf-8"))

    def load_history_strings(self) -> Iterable[str]:
        """The inputs, the latest first."""
        try:
            yield from super().load_history_strings()
        except OSError:
            return


class ReplCompleter(Completer):
    """Completes `commands`, which are told with their summaries, their `arguments`, and the names of files.

    `arguments(command)` are the words it takes, or None where it takes a file.
    """

    def __init__(self, commands: Mapping[str, str], arguments: Callable[[str], Iterable[str] | None]) -> None:
        self._commands = commands
        self._arguments = arguments
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What may stand at the cursor."""
        before = document.text_before_cursor
        if _COMMAND.fullmatch(before):
            return _beginning(before, self._commands)
        if found := _ARGUMENT.fullmatch(before):
            return self._begun(found[1], found[2], complete_event)
        found = _AT_FILE.fullmatch(before)
        if not found and complete_event.completion_requested:
            found = _LAST_WORD.fullmatch(before)
        return self._files(found[1], complete_event) if found else ()

    def _begun(self, command: str, argument: str, event: CompleteEvent) -> Iterable[Completion]:
        """What the beginning of an argument may become."""
        words = self._arguments(command)
        return self._files(argument, event) if words is None else _beginning(argument, dict.fromkeys(words, ""))

    def _files(self, begun: str, event: CompleteEvent) -> Iterable[Completion]:
        return self._paths.get_completions(Document(begun), event)


def _beginning(begun: str, words: Mapping[str, str]) -> Iterable[Completion]:
    return [
        Completion(word, start_position=-len(begun), display_meta=summary)
        for word, summary in words.items()
        if word.startswith(begun)
    ]


class Prompt:
    """Reads inputs from a terminal. Only those at the prompt `main` are completed and kept in the history."""

    main: str = "> "

    def __init__(
        self,
        history: Path | None = None,
        words: Completer | None = None,
        *,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._history = History(history) if history else InMemoryHistory()
        self._words = words
        self._input: Input | None = input
        self._output: Output = output or _output()

    def read(self, prompt: str, text: str = "", *, unfold: Callable[[], object] = lambda: None) -> str | None:
        """Read one input. Return None for Ctrl-D, raise `KeyboardInterrupt` for Ctrl-C; Ctrl-O calls `unfold`."""
        is_main, keys = prompt == self.main, _Keys(unfold)
        session: PromptSession[str] = PromptSession(
            lambda: FormattedText([("bold", _wrapped(prompt, self._output.get_size().columns))]),
            multiline=True,
            history=self._history if is_main else InMemoryHistory(),
            completer=self._words if is_main else None,
            complete_while_typing=Condition(_is_name_begun),
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
        """Return what stands before every further row of the input, below a prompt of `width` columns."""
        # prompt_toolkit draws nothing at all where this takes the whole width of the terminal.
        return " " * width if 2 * width < self._output.get_size().columns else ""


def _wrapped(prompt: str, columns: int) -> str:
    """Return the prompt on so many lines that the last one leaves room for the input."""
    *above, last = wrap(prompt, max(columns - _ROOM, columns // 2, 1), drop_whitespace=False)
    return "\n".join((*map(str.strip, above), last.lstrip()))


def _output() -> Output:
    """The terminal, which is not asked where its cursor is: an answer that comes late would be taken for typed."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def _is_name_begun() -> bool:
    before = get_app().current_buffer.document.text_before_cursor
    return bool(_COMMAND.fullmatch(before) or _AT_FILE.fullmatch(before))


class _Keys:
    """What some keys do that prompt_toolkit does not know, or takes for others."""

    def __init__(self, unfold: Callable[[], object]) -> None:
        self._unfold = unfold
        self._in_one_go = False  # whether the text has changed by what came together with this key

    def bindings(self) -> KeyBindings:
        """The keys."""
        keys, at_text = KeyBindings(), ~is_searching
        keys.add("enter", filter=at_text)(self._enter)
        keys.add("escape", "enter", filter=at_text)(self._new_line)
        keys.add("c-j", filter=at_text)(self._line_feed)
        keys.add("c-o")(self._show_calls)
        return keys

    def typed(self, buffer: Buffer) -> None:
        """The text has changed."""
        self._in_one_go = True
        get_running_loop().call_soon(self._pause)

    def _pause(self) -> None:
        """All that had come is worked off."""
        self._in_one_go = False

    def _enter(self, event: KeyPressEvent) -> None:
        """Take the completion that is chosen, begin a new line after a backslash, or send."""
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
        """Ctrl-J. Programs that type end their lines with it, in one go: then it sends."""
        if self._in_one_go or not event.current_buffer.text:
            self._enter(event)
        else:
            self._new_line(event)

    def _show_calls(self, event: KeyPressEvent) -> None:
        run_in_terminal(self._unfold)
