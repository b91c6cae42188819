"""The words of a shell command: text, quotes, and what a shell puts other things for.

Strategy: `WordReading` reads one construct at a time from where it is. What a shell reads as commands again, it hands
to its subclass (shell_commands.py). Nothing is guessed: what two shells read differently, what only shows when it
runs, and what is not understood raises `UnparsedCommand`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, NoReturn

MAX_DEPTH: Final = 10
"""How deep commands may stand within others."""

_SUBSTITUTION: Final = "$()"  # stands in a word for what a substitution gives

_plain = re.compile(r"(?:[^\s'\"\\$`<>()|&;*?\[{]|\{\}|\[(?=[ \t]))+").match
_unquoted = {'"': re.compile(r'[^"\\$`]+').match, "": re.compile(r"[^\\$`]+").match}
_variable = re.compile(
    r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]"
    r"|\{#?[A-Za-z_][A-Za-z0-9_]*\}|\{[A-Za-z_][A-Za-z0-9_]*(?:##?|%%?)[A-Za-z0-9_.*?/+-]*\})"
).match
_arithmetic = re.compile(r"\$\(\([A-Za-z0-9_ +*/%<>!&|^~?:,-]*\)\)").match


class UnparsedCommand(ValueError):
    """The text is no command that can be read with certainty."""


class Word(NamedTuple):
    """A word of a command, without its quotes. `known`: the shell takes it as it stands here.

    In one that is not known, variables, wildcards, braces and `~` stand as they were written, and `$()` for
    every other substitution.
    """

    text: str
    known: bool = True


class WordReading(ABC):
    """A text being read: how far, and how deep in others it stands. `before_document`: a `<<` was on this line."""

    __slots__ = ("before_document", "depth", "pos", "text")

    def __init__(self, text: str, depth: int) -> None:
        self.text: str = text
        self.depth: int = depth
        self.pos: int = 0
        self.before_document: bool = False
        if depth > MAX_DEPTH:
            self.fail("it is nested too deeply")

    @abstractmethod
    def inner(self, text: str) -> None:
        """Read the commands of a text that stands in this one."""

    @abstractmethod
    def nested(self) -> None:
        """Read commands up to the `)` that ends them."""

    def fail(self, why: str) -> NoReturn:
        """Raise `UnparsedCommand`, which says where."""
        raise UnparsedCommand(f"{why}, at {self.text[self.pos : self.pos + 20]!r}")

    def char(self) -> str:
        """The next character; none at the end."""
        return self.text[self.pos : self.pos + 1]

    def word(self) -> Word:
        """Read a word: text, quotes, and what the shell puts other things for."""
        start = self.pos
        pieces: list[Word] = []
        while char := self.char():
            if plain := _plain(self.text, self.pos):
                self.pos = plain.end()
                pieces.append(Word(plain[0], pieces != [] or plain[0][0] != "~"))
            elif char in _PIECES:
                pieces.append(_PIECES[char](self))
            elif char in "<>" and self.text.startswith("(", self.pos + 1):
                self.pos += 2
                self.nested()
                pieces.append(Word(_SUBSTITUTION, False))
            else:
                break
        if self.pos == start or char == "(" or (char not in " \t\n" and char.isspace()):
            self.fail("something that is not understood")
        if self.before_document and "\n" in self.text[start : self.pos]:
            self.fail("a word of several lines behind <<")
        return _joined(pieces)

    def single_quoted(self) -> Word:
        end = self.text.find("'", self.pos + 1)
        if end < 0:
            self.fail("a quote that does not end")
        quoted = self.text[self.pos + 1 : end]
        self.pos = end + 1
        return Word(quoted)

    def double_quoted(self) -> Word:
        self.pos += 1
        return self.expanded('"')

    def expanded(self, stop: str) -> Word:
        """Read text with variables and substitutions in it up to the quote `stop`, or to the end."""
        pieces: list[Word] = []
        while (char := self.char()) != stop:
            if run := _unquoted[stop](self.text, self.pos):
                self.pos = run.end()
                pieces.append(Word(run[0]))
            elif char == "\\":
                escaped = self.escaped()
                pieces.append(escaped if escaped.text in ("$", "`", "\\", stop) else Word(f"\\{escaped.text}"))
            elif char == "":
                self.fail("a quote that does not end")
            else:
                pieces.append(self.backticks() if char == "`" else self.dollar(quoted=True))
        self.pos += len(stop)
        return _joined(pieces)

    def escaped(self) -> Word:
        char = self.text[self.pos + 1 : self.pos + 2]
        if char in ("", "\n"):
            self.fail("a backslash at the end of a line, within a word")
        self.pos += 2
        return Word(char)

    def dollar(self, quoted: bool = False) -> Word:
        """Read a variable, an arithmetic expression or a substitution; otherwise it is a mere `$`."""
        if variable := _variable(self.text, self.pos):
            self.pos = variable.end()
            return Word(variable[0], False)
        if arithmetic := _arithmetic(self.text, self.pos):
            self.pos = arithmetic.end()
            return Word(_SUBSTITUTION, False)
        following = self.text[self.pos + 1 : self.pos + 3]
        if following == "((" or following[:1] in ("{", "[", "\\") or (following[:1] in ("'", '"') and not quoted):
            self.fail("an expansion that is not understood")
        self.pos += 1
        if following[:1] != "(":
            return Word("$")
        self.pos += 1
        self.nested()
        return Word(_SUBSTITUTION, False)

    def backticks(self) -> Word:
        end = self.text.find("`", self.pos + 1)
        text = self.text[self.pos + 1 : end]
        if end < 0 or "\\" in text:
            self.fail("backticks that are not understood")
        self.inner(text)
        self.pos = end + 1
        return Word(_SUBSTITUTION, False)

    def wildcard(self) -> Word:
        self.pos += 1
        return Word(self.text[self.pos - 1], False)


_PIECES: Mapping[str, Callable[[WordReading], Word]] = {
    "'": WordReading.single_quoted,
    '"': WordReading.double_quoted,
    "\\": WordReading.escaped,
    "$": WordReading.dollar,
    "`": WordReading.backticks,
} | dict.fromkeys("*?[{", WordReading.wildcard)


def _joined(pieces: list[Word]) -> Word:
    return Word("".join(piece.text for piece in pieces), all(piece.known for piece in pieces))
