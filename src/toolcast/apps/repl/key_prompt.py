"""A question that one key answers, without Enter: `KeyPrompt`, by prompt_toolkit.

The answers are listed one per line, with the key first, and disappear when one is given. Other keys do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import Output

from .choices import Answer, Choice

_ESCAPE_SECONDS: Final = 0.05
"""Seconds after which Escape is a key of its own, and not the beginning of a code."""


def pending_keys(input: Input) -> list[KeyPress]:
    """Return the keys that were pressed and not read, and remove them from the input."""
    keys = get_typeahead(input)
    with input.raw_mode():
        while more := input.read_keys():
            keys += more
    return [*keys, *input.flush_keys()]


class KeyPrompt:
    """Questions on the terminal of `input` and `output`."""

    def __init__(self, input: Input, output: Output) -> None:
        self._input = input
        self._output = output

    def choose(self, question: str, choices: Sequence[Choice]) -> Answer | None:
        """Return the answer to a question: a choice; None for Ctrl-D.

        Raises:
            KeyboardInterrupt: Esc or Ctrl-C was pressed.
        """
        keys = KeyBindings()
        for choice in choices:
            answer = Answer(choice.key, None if choice.takes_text else "")
            keys.add(choice.key)(_exit_with(answer))
            keys.add(choice.key.upper())(_exit_with(answer))
        keys.add("escape")(_interrupt)
        keys.add("c-d")(_exit_with(None))
        keys.add("c-c")(_interrupt)
        keys.add("c-z")(_suspend)
        keys.add(Keys.Any)(_ignore)
        keys.add(Keys.BracketedPaste)(_ignore)
        text = FormattedTextControl(lambda: self._text(question, choices), show_cursor=False)
        application: Application[Answer | None] = Application(
            Layout(Window(text, dont_extend_height=True, wrap_lines=True)),
            key_bindings=keys,
            erase_when_done=True,
            input=self._input,
            output=self._output,
        )
        application.ttimeoutlen = application.timeoutlen = _ESCAPE_SECONDS
        return application.run()

    def _text(self, question: str, choices: Sequence[Choice]) -> StyleAndTextTuples:
        """Return a blank row, the question and its answers, wrapped at the width of the terminal."""
        columns = max(self._output.get_size().columns - 1, 8)
        parts: StyleAndTextTuples = [("", "\n"), ("bold", "\n".join(wrap(question, columns)))]
        for choice in (*choices, Choice("Esc", "no, and stop")):
            rows = wrap(choice.label, max(columns - 6, 8))
            parts += [("", "\n"), ("bold cyan", f"  {choice.key:<4}"), ("", "\n      ".join(rows))]
        return parts


def _exit_with(answer: Answer | None) -> Callable[[KeyPressEvent], None]:
    def exit_application(event: KeyPressEvent) -> None:
        event.app.exit(result=answer)

    return exit_application


def _interrupt(event: KeyPressEvent) -> None:
    event.app.exit(exception=KeyboardInterrupt())


def _suspend(event: KeyPressEvent) -> None:
    event.app.suspend_to_background()


def _ignore(event: KeyPressEvent) -> None:
    pass
