"""A lexer of shell commands, for permissions: words with their quotes and expansions.

Strategy: `Lexer` reads one construct at a time from its position. Texts that a shell parses as commands again are
parsed by its subclass (parser.py). Nothing is guessed: text that two shells parse differently, text that is only known
at run time, and unsupported syntax raises `UnparsedCommand`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, NoReturn

MAX_DEPTH: Final = 10
"""The maximum depth of commands within others."""

_CLOSING: Final = {"[": "]", "{": "}"}
_SUBSTITUTION: Final = "$()"  # the place of a substitution's result in a word

_plain = re.compile(r"(?:[^\s'\"\\$`<>()|&;*?\[{]|\{\}(?=[\s<>()|&;]|\Z)|\[(?=[ \t]))+").match
_home = re.compile(r"~|\w+\+?=(?:.*:)?~").match  # in an argument like an assignment, too
_range = re.compile(r"\{[^},/\s]*\.\.").match
_usual_range = re.compile(r"\{(-?\d+\.\.-?\d+|[a-z]\.\.[a-z]|[A-Z]\.\.[A-Z])(\.\.-?\d+)?\}", re.ASCII).match
_unquoted = {'"': re.compile(r'[^"\\$`]+').match, "": re.compile(r"[^\\$`]+").match}
_variable = re.compile(
    r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]"
    r"|\{#?[A-Za-z_][A-Za-z0-9_]*\}|\{[A-Za-z_][A-Za-z0-9_]*(?:##?|%%?)[A-Za-z0-9_.*?/+-]*\})"
).match
_arithmetic = re.compile(r"\$\(\([A-Za-z0-9_ +*/%<>!&|^~?:,-]*\)\)").match
_name = re.compile(r"[A-Za-z_]").search
# To zsh, `$=x`, `$~x`, `$^x`, `$+x` and `$é` are variables. It evaluates the subscript of `$x[..]` and what follows the
# modifier F (`$x:h:F..`), with the commands in it, also those in quotes. `${x}[` and `${x}:` have neither.
_zsh_variable = re.compile(r"\$(?:[=~^]|\+\w|[^\W\x00-\x7f]|#?(?:[^\W\d]\w*|\d+|[@*#?$!-])(?:\[|:([A-Za-z&])))").match
# To zsh, `=ls` is the path of ls. `===` is common, and an error there.
_zsh_path = re.compile(r"=(?![=\s<>()|&;]|\Z)").match


class UnparsedCommand(ValueError):
    """The text is no command that can be parsed with certainty."""


class Word(NamedTuple):
    """A word of a command, without its quotes. `literal`: the shell does not expand it.

    `single`: it is in double quotes, so that it stays one word whatever it is expanded to.

    In one that is not literal, variables, wildcards, braces and `~` are as they were written, and `$()` is every other
    substitution.
    """

    text: str
    literal: bool = True
    single: bool = False


class Lexer(ABC):
    """A text, the position in it, and how deeply it is nested. `before_document`: a `<<` was on this line."""

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
        """Parse the commands of a text within this one."""

    @abstractmethod
    def nested(self, fed: bool = True) -> None:
        """Parse commands up to the `)` that ends them. `fed`: their input may be that of a command around them."""

    @abstractmethod
    def arithmetic(self, text: str) -> None:
        """Note an arithmetic expression that has names."""

    def fail(self, problem: str) -> NoReturn:
        """Raise `UnparsedCommand` with the problem and its place."""
        raise UnparsedCommand(f"{problem}, at {self.text[self.pos : self.pos + 20]!r}")

    def char(self) -> str:
        """Return the next character; an empty text at the end."""
        return self.text[self.pos : self.pos + 1]

    def word(self) -> Word:
        """Read a word: text, quotes and expansions."""
        start = self.pos
        if _zsh_path(self.text, start):
            self.fail("a word that begins with =, which some shells expand (quotes make it literal)")
        parts = [Word("{}")] if self.text.startswith("{}", start) else []  # elsewhere `{},a}` is expanded
        self.pos += 2 * len(parts)
        opened = quoted = ""  # brackets and braces, and the quotes behind them
        unopened = 0  # braces that end in it, less those that begin
        while char := self.char():
            opened += char if char in "[{" else ""
            quoted += char if opened and char in "'\"\\" else ""
            if plain := _plain(self.text, self.pos):
                self.pos = plain.end()
                unopened += plain[0].count("}") - plain[0].count("{")
                parts.append(Word(plain[0], parts != [] or not _home(plain[0])))
            elif char in _CONSTRUCTS:
                unopened -= char == "{"
                parts.append(_CONSTRUCTS[char](self))
            elif char in "<>" and self.text.startswith("(", self.pos + 1):
                self.pos += 2
                self.nested()
                parts.append(Word(_SUBSTITUTION, False))
            else:
                break
        if self.pos == start or char == "(" or (char not in " \t\n" and char.isspace()):
            self.fail("unsupported syntax")
        if unopened > 0 and self.text[self.pos - 1] == "}":
            self.fail("a } at the end of a word, where some shells end a group (quotes make it literal)")
        if quoted and any(_CLOSING[each] in self.text[start : self.pos] for each in opened):
            self.fail("quotes within brackets or braces")
        if self.before_document and "\n" in self.text[start : self.pos]:
            self.fail("a word of several lines after <<")
        return _joined(parts)

    def single_quoted(self) -> Word:
        end = self.text.find("'", self.pos + 1)
        if end < 0:
            self.fail("a quote that does not end")
        quoted = self.text[self.pos + 1 : end]
        self.pos = end + 1
        return Word(quoted)

    def double_quoted(self) -> Word:
        self.pos += 1
        word = self.expanded('"')
        return word._replace(single="@" not in word.text and not word.literal)

    def expanded(self, stop: str) -> Word:
        """Read text with variables and substitutions up to the quote `stop`, or to the end."""
        parts: list[Word] = []
        while (char := self.char()) != stop:
            if run := _unquoted[stop](self.text, self.pos):
                self.pos = run.end()
                parts.append(Word(run[0]))
            elif char == "\\":
                escaped = self.escaped()
                parts.append(escaped if escaped.text in ("$", "`", "\\", stop) else Word(f"\\{escaped.text}"))
            elif char == "":
                self.fail("a quote that does not end")
            else:
                parts.append(self.backticks() if char == "`" else self.dollar(quoted=True))
        self.pos += len(stop)
        return _joined(parts)

    def escaped(self) -> Word:
        char = self.text[self.pos + 1 : self.pos + 2]
        if char in ("", "\n"):
            self.fail("a backslash at the end of a line, within a word")
        self.pos += 2
        return Word(char)

    def dollar(self, quoted: bool = False) -> Word:
        """Read a variable, an arithmetic expression or a substitution; anything else is a literal `$`."""
        found = _zsh_variable(self.text, self.pos)
        if found and (not found[1] or "F" in self.text[found.start(1) :]):
            self.fail("an expansion of some shells alone (write ${x} for $x)")
        if variable := _variable(self.text, self.pos):
            self.pos = variable.end()
            return Word(variable[0], False)
        if arithmetic := _arithmetic(self.text, self.pos):
            self.pos = arithmetic.end()
            if _name(arithmetic[0]):
                self.arithmetic(arithmetic[0][1:])
            return Word(_SUBSTITUTION, False)
        following = self.text[self.pos + 1 : self.pos + 3]
        is_quote = following[:1] in ("'", '"') and not quoted
        if following == "((" or following[:1] in ("{", "[", "\\") or is_quote:
            self.fail("an unsupported expansion")
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
            self.fail("unsupported backticks")
        self.inner(text)
        self.pos = end + 1
        return Word(_SUBSTITUTION, False)

    def wildcard(self) -> Word:
        if _range(self.text, self.pos) and not _usual_range(self.text, self.pos):
            self.fail("a range of other characters, such as quotes")
        self.pos += 1
        return Word(self.text[self.pos - 1], False)


_CONSTRUCTS: Mapping[str, Callable[[Lexer], Word]] = {
    "'": Lexer.single_quoted,
    '"': Lexer.double_quoted,
    "\\": Lexer.escaped,
    "$": Lexer.dollar,
    "`": Lexer.backticks,
} | dict.fromkeys("*?[{", Lexer.wildcard)


def _joined(parts: list[Word]) -> Word:
    literal = all(part.literal for part in parts)
    single = not literal and all(part.literal or part.single for part in parts)
    return Word("".join(part.text for part in parts), literal, single)
