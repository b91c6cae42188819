"""Line editing on a terminal, by prompt_toolkit: `Prompt`.

Enter sends. Alt-Enter, Ctrl-J and a backslash at the end insert a line break, and pasted text stays one input. Tab
completes commands, their arguments and file names (after `@`, and as the argument of a command that takes a file);
Ctrl-X Ctrl-E opens an editor, Ctrl-R searches the history, Ctrl-V inserts the path of the image in the clipboard,
Ctrl-O shows the tool calls of the last answer in full.

The history is a file that only its owner can read. An input that begins with a space is not stored.
"""

from __future__ import annotations

import os
import re
from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import fill, wrap
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_done, is_searching
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from ...errors import ToolcastError
from ..file_mentions import is_mentionable
from .choices import Answer, Choice
from .early_keys import ENTERS, EarlyKeys, Pastes, join_lines
from .key_prompt import KeyPrompt, pending_keys
from .picker import Actions, Find, PickedRow
from .picker_list import PickerList

_COMMAND: Final = re.compile(r"/\w*")
_ARGUMENT: Final = re.compile(r"(/\w+)[ \t]+(.*)")
_AT_FILE: Final = re.compile(r"(?:.*\s)?@(\S*)", re.DOTALL)
_LAST_WORD: Final = re.compile(r"(?:.*\s)?(\S*)", re.DOTALL)
_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse dim"})
_INPUT_WIDTH: Final = 15
"""Columns that a prompt leaves to the input; in a narrow terminal half of the width."""


def _no_clipboard() -> Path:
    raise ToolcastError("there is no clipboard")


class History(FileHistory):
    """The inputs of all sessions, in a file of mode 0600, or in memory if that cannot be written."""

    def __init__(self, path: Path, pastes: Pastes | None = None) -> None:
        super().__init__(path)
        self._path = path
        self._pastes = pastes or Pastes()

    def append_string(self, string: str) -> None:
        """Store an input, unless it begins with a space or repeats the last one. Pasted texts are unfolded."""
        string = self._pastes.unfold(string)
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
        self._mentions = PathCompleter(expanduser=True, file_filter=is_mentionable)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return the completions at the cursor."""
        before = document.text_before_cursor
        if _COMMAND.fullmatch(before):
            return _matching(before, self._commands)
        if found := _ARGUMENT.fullmatch(before):
            return self._complete_argument(found[1], found[2], complete_event)
        if found := _AT_FILE.fullmatch(before):
            return self._mentions.get_completions(Document(found[1]), complete_event)
        found = _LAST_WORD.fullmatch(before) if complete_event.completion_requested else None
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
        paste_image: Callable[[], Path] | None = None,
    ) -> None:
        self._paste_image = paste_image or _no_clipboard
        self._pastes = Pastes()
        self._history = History(history, self._pastes) if history else InMemoryHistory()
        self._completer = completer
        self._input: Input | None = input
        self._output: Output = output or _output()
        self._early_keys = EarlyKeys(self._pastes)
        self._has_chosen = False  # since the last key that was read early
        self._is_held = False  # True if no early line is to be sent

    def read(
        self,
        prompt: str,
        text: str = "",
        *,
        show_calls: Callable[[], object] = lambda: None,
        status: Callable[[int], str] | None = None,
    ) -> str | None:
        """Read one input. Return None for Ctrl-D, raise `KeyboardInterrupt` for Ctrl-C; Ctrl-O calls `show_calls`.

        At the main prompt Ctrl-C clears an input first, and the history keeps it.
        `status` returns the text of the row below the input, which fits that number of columns.
        """
        is_main = prompt == self.main
        keys = _Keys(show_calls, self._paste_image, self._pastes if is_main else None)
        if is_main:
            self._restore_early_keys()
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
            bottom_toolbar=status and (lambda: status(self._output.get_size().columns)),
            style=_STYLE,
            input=self._terminal,
            output=self._output,
        )
        _show_toolbar(session)
        session.default_buffer.on_text_changed += keys.typed
        try:
            return self._pastes.unfold(session.prompt(default=text))
        except EOFError:
            return None
        finally:  # what arrived together with Enter is the next input
            self._add_early_keys(get_typeahead(self._terminal))

    def pick(self, title: str, find: Find, actions: Actions, last: PickedRow | None = None) -> PickedRow | None:
        """Let the user choose a row of a list, which begins where an action has left it."""
        return PickerList(title, find, actions, last, input=self._terminal, output=self._output).run()

    def choose(self, question: str, choices: Sequence[Choice]) -> Answer | None:
        """Return the answer to a question that one key answers; see `KeyPrompt.choose`.

        Keys that were pressed before the question appeared do not answer it: they are there at the main prompt.
        """
        self._add_early_keys(pending_keys(self._terminal))
        self._has_chosen = True
        return KeyPrompt(self._terminal, self._output).choose(question, choices)

    def hold_early(self) -> None:
        """Do not send the lines that were typed early: they are there at the next main prompt, as one text."""
        self._is_held = True

    @property
    def _terminal(self) -> Input:
        """The only input, because it remembers the beginning of a code."""
        if self._input is None:
            self._input = create_input()
        return self._input

    def _restore_early_keys(self) -> None:
        """Put the first line back that was typed early. The others stay, in their order."""
        self._add_early_keys(pending_keys(self._terminal) if self._has_chosen else get_typeahead(self._terminal))
        self._has_chosen = False
        if self._is_held:
            self._early_keys.hold()
            self._is_held = False
        store_typeahead(self._terminal, self._early_keys.take_line())

    def _add_early_keys(self, keys: list[KeyPress]) -> bool:
        """Add keys to those that were pressed early; return True if Esc was among them."""
        # Many people press Enter after the key that answers. At the prompt that would send what was typed before.
        while self._has_chosen and keys and keys[0].key in ENTERS:
            del keys[0]
        self._has_chosen = self._has_chosen and not keys
        return self._early_keys.add(join_lines(keys))

    @property
    def early_lines(self) -> Sequence[str]:
        """The lines that were typed while no prompt was open. The last one is not complete, and may be empty."""
        return self._early_keys.lines

    def poll(self) -> bool:
        """Read the keys that were pressed while no prompt was open; return True if Esc was among them.

        Call it while the terminal passes on single keys (`TerminalEcho.disable`), every 0.1 s or so.
        """
        # An Esc that nothing has followed since the last time is no beginning of a code.
        keys = self._terminal.flush_keys()
        while more := self._terminal.read_keys():
            keys += more
        return self._add_early_keys(keys)

    def _continuation(self, width: int, line: int, wrapped: int) -> str:
        """Return the text before every further row of the input, below a prompt of `width` columns."""
        # prompt_toolkit draws nothing at all where this takes the whole width of the terminal.
        return " " * width if 2 * width < self._output.get_size().columns else ""


def _show_toolbar(session: PromptSession[str]) -> None:
    """Show the row below the input, which prompt_toolkit hides while it does not know the position of the cursor."""
    toolbar = session.layout.container.get_children()[-1]
    assert isinstance(toolbar, ConditionalContainer)
    toolbar.filter = Condition(lambda: session.bottom_toolbar is not None) & ~is_done


def _wrap_prompt(prompt: str, columns: int) -> str:
    """Return the prompt, wrapped so that the last row has space for the input."""
    text = prompt.rstrip()
    rows = wrap(text, max(columns - _INPUT_WIDTH, columns // 2, 1))
    return "\n".join(rows) + prompt[len(text) :]


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

    def __init__(
        self, show_calls: Callable[[], object], paste_image: Callable[[], Path], pastes: Pastes | None
    ) -> None:
        self._pastes = pastes  # at the main prompt
        self._has_input = Condition(lambda: pastes is not None and bool(get_app().current_buffer.text))
        self._show_all_calls = show_calls
        self._paste_image = paste_image
        self._is_pasted = False  # True if text arrived together with this key

    def bindings(self) -> KeyBindings:
        """Return the key bindings."""
        keys, at_text = KeyBindings(), ~is_searching
        keys.add("enter", filter=at_text)(self._enter)
        keys.add("escape", "enter", filter=at_text)(self._new_line)
        keys.add("c-j", filter=at_text)(self._line_feed)
        keys.add("c-c", filter=at_text & self._has_input)(self._clear)
        if self._pastes is not None:
            keys.add(Keys.BracketedPaste, filter=at_text)(partial(self._paste, self._pastes))
            keys.add("backspace", filter=at_text)(partial(self._delete, self._pastes))
        keys.add("c-o")(self._show_calls)
        keys.add("c-v", filter=at_text)(self._insert_image)
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

    def _clear(self, event: KeyPressEvent) -> None:
        """Clear the input, which stays in the history."""
        event.current_buffer.append_to_history()
        event.current_buffer.reset()

    def _paste(self, pastes: Pastes, event: KeyPressEvent) -> None:
        """Insert a pasted text, or the label of a long one."""
        event.current_buffer.insert_text(pastes.fold(event.data))

    def _delete(self, pastes: Pastes, event: KeyPressEvent) -> None:
        """Delete the label before the cursor as a whole, or else one character."""
        buffer = event.current_buffer
        deleted = buffer.delete_before_cursor(len(pastes.label_before(buffer.document.text_before_cursor)) or event.arg)
        if not deleted:
            event.app.output.bell()

    def _line_feed(self, event: KeyPressEvent) -> None:
        """Insert a line break for Ctrl-J, or send if it arrives with text: programs end lines with it."""
        if self._is_pasted or not event.current_buffer.text:
            self._enter(event)
        else:
            self._new_line(event)

    def _insert_image(self, event: KeyPressEvent) -> None:
        """Insert a mention of the image in the clipboard; show why if there is none."""
        try:
            path = self._paste_image()
        except ToolcastError as error:
            columns = max(event.app.output.get_size().columns - 1, 20)
            run_in_terminal(partial(print, fill(str(error), columns)))
        else:
            event.current_buffer.insert_text(f'@"{path}" ')

    def _show_calls(self, event: KeyPressEvent) -> None:
        run_in_terminal(self._show_all_calls)
