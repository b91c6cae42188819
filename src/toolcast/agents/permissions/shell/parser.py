"""The simple commands that a shell would run for a text: for `a && b $(c)` those are `a`, `c` and `b`.

Strategy: one reading from left to right, as a POSIX shell or bash does it, with one function per construct. It follows
lists, pipes, subshells, groups, `if`, `while`, `until` and `for`, every kind of substitution, here-documents, and the
texts that `sh -c` and `eval` are given. What it finds are simple commands: words without their quotes, assignments in
front of them, redirections. A word is `known` where the shell makes nothing else of it.

Nothing is guessed. What two shells read differently, what only shows when it runs, and what is not understood here
(`case`, functions, `[[`, `$'..'`, most of `${..}`) raises `UnparsedCommand`. Where more is taken here than a shell
takes, the shell refuses the whole text. Control characters are refused: they hide what a person would see.

No character is read twice, but in texts that are read again on their own; those nest at most `MAX_DEPTH` deep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from .launchers import EVALUATORS, SHELLS, WRAPPERS, all_launches, assigned_line, option_c, program
from .lexer import MAX_DEPTH, UnparsedCommand, Word, WordReading

LONGEST: Final = 16_384
"""Signs that a command may have to be read."""

_NEXT = {
    "if": ("then",),
    "then": ("elif", "else", "fi"),
    "elif": ("then",),
    "else": ("fi",),
    "while": ("do",),
    "until": ("do",),
    "for": ("do",),
    "do": ("done",),
    "{": ("}",),
}
"""Which words may go on with a compound command, or end it."""
_OPENERS = frozenset(("if", "while", "until", "{"))
_CLOSERS = frozenset(("fi", "done", "}"))

_hidden = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]").search
_blanks = re.compile(r"(?:[ \t]+(?:\\\n)*)+").match
_comment = re.compile(r"#[^\n]*").match
_operator = re.compile(r"&&|\|\||\|&|;;|[;|()\n]|&(?!>)").match
_reserved = re.compile(
    r"(?:if|then|elif|else|fi|while|until|do|done|for|in|case|esac|select|function|coproc|\[\[|\]\]|[{}!])"
    r"(?=[\s;&|()<>]|\Z)"
).match
_loop = re.compile(r"for[ \t]+([A-Za-z_][A-Za-z0-9_]*)(?:[ \t]+in(?=[ \t;\n]))?").match
_assignment = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=").match
_redirection = re.compile(r"[0-9]*(<<<|<<-?|<>|[<>]&|>>|>\||[<>])(?!\()|(&>>?)").match
_option_of_env = re.compile(r"-[A-Za-z0]*S|--s").match


class Redirection(NamedTuple):
    """Where input comes from, or output goes to. `operator` is without the number in front: `>` for `2>`."""

    operator: str
    target: Word


class SimpleCommand(NamedTuple):
    """One program being run: its words, `NAME=value` in front of them, and its redirections.

    There are no words where variables are set and nothing else, or where a whole group is redirected. `given`: the
    command line stands in a word of another command, such as `rm x` in `git -c core.pager='rm x'`.
    """

    words: tuple[Word, ...] = ()
    assignments: tuple[Word, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    given: bool = False


def commands(text: str) -> list[SimpleCommand]:
    """Every command that a shell may run for `text`, one within another first. Raises `UnparsedCommand`."""
    if len(text) > LONGEST:
        raise UnparsedCommand(f"it is longer than {LONGEST} signs; put what it needs into files")
    if _hidden(text):
        raise UnparsedCommand("it holds control characters")
    found: list[SimpleCommand] = []
    _Reading(text, found, 0).script()
    return found


class _Document(NamedTuple):
    """A here-document, which begins on the next line."""

    end: str
    literal: bool
    indented: bool


class _Reading(WordReading):
    """A text being read, what was found in it, and the here-documents that its next line begins.

    `given`: it is a word by which another command is told what to run.
    """

    __slots__ = ("documents", "found", "given")

    def __init__(self, text: str, found: list[SimpleCommand], depth: int, given: bool = False) -> None:
        super().__init__(text, depth)
        self.found = found
        self.given = given
        self.documents: list[_Document] = []

    def script(self) -> None:
        """Read all of it."""
        _List(self).read("")

    def inner(self, text: str) -> None:
        _Reading(text, self.found, self.depth + 1, self.given).script()

    def given_line(self, line: Word) -> None:
        """Read a command line that an option or a variable has as its value.

        What cannot be read may be any command: such a line is not always one, so it does not spoil the whole text.
        """
        found: list[SimpleCommand] = []
        try:
            if not line.known:
                self.fail("a command line that only shows when it runs")
            _Reading(line.text, found, self.depth + 1, given=True).script()
        except UnparsedCommand:
            found = [SimpleCommand((Word("$()", False),), given=True)]
        self.found += found

    def nested(self) -> None:
        if self.documents:
            self.fail("commands within others behind <<")
        if self.depth == MAX_DEPTH:
            self.fail("it is nested too deeply")
        self.depth += 1
        _List(self).read(")")
        self.depth -= 1

    def skip_blanks(self) -> None:
        if blanks := _blanks(self.text, self.pos):
            self.pos = blanks.end()
        if comment := _comment(self.text, self.pos):
            if self.depth:  # shells differ in where a substitution with a comment ends
                self.fail("a comment within a substitution or group")
            self.pos = comment.end()

    # Commands

    def simple_command(self) -> None:
        """Read words, assignments and redirections up to an operator, and what they run in turn."""
        words: list[Word] = []
        assignments: list[Word] = []
        redirections: list[Redirection] = []
        ended = False  # by `&>`, which some shells take for `&` and `>`
        while self.char() and not _operator(self.text, self.pos):
            if redirection := self._redirection():
                redirections.append(redirection)
                ended = ended or redirection.operator.startswith("&")
            elif ended:
                self.fail("words behind &>")
            elif not words and _assignment(self.text, self.pos):
                assignments.append(self.word())
            else:
                words.append(self.word())
            self.skip_blanks()
        command = SimpleCommand(tuple(words), tuple(assignments), tuple(redirections), self.given)
        self.found.append(command)
        for text in dict.fromkeys(self._texts(words)):
            self.inner(text)
        self._launched(command)

    def _launched(self, command: SimpleCommand) -> None:
        """Read the command lines that the command's words and variables tell it to run."""
        words = command.words
        found = all_launches(words)
        named = [program(word).casefold() for word in words[:1]]
        lines = [launch.text for launch in found if launch.text is not None]
        assigned = (*command.assignments, *(words[1:] if named and named[0] in WRAPPERS else ()))
        lines += [line for line in map(assigned_line, assigned) if line is not None]
        for line in dict.fromkeys(lines):
            self.given_line(line)
        if not named or named[0] not in WRAPPERS:  # in those, a shell is found wherever it is
            texts = [text for launch in found if launch.words for text in self._texts([*launch.words])]
            for text in dict.fromkeys(texts):
                self.inner(text)

    def redirections(self) -> None:
        """Read those of a whole group."""
        found: list[Redirection] = []
        self.skip_blanks()
        while redirection := self._redirection():
            found.append(redirection)
            self.skip_blanks()
        if found:
            self.found.append(SimpleCommand(redirections=tuple(found), given=self.given))

    def loop(self) -> None:
        """Read `for NAME in WORDS`, which assigns each of the words."""
        head = _loop(self.text, self.pos)
        if head is None:
            self.fail("a loop that is not understood")
        self.pos = head.end()
        self.skip_blanks()
        values: list[Word] = []
        while self.char() and not _operator(self.text, self.pos):
            values.append(self.word())
            self.skip_blanks()
        assigned = tuple(Word(f"{head[1]}={value.text}", value.known) for value in values)
        self.found.append(SimpleCommand(assignments=assigned, given=self.given))

    def _redirection(self) -> Redirection | None:
        found = _redirection(self.text, self.pos)
        if found is None:
            return None
        operator = found[1] or found[2]
        self.pos = found.end()
        if blanks := _blanks(self.text, self.pos):
            self.pos = blanks.end()
        start = self.pos
        target = self.word()
        if operator in ("<<", "<<-"):
            if not target.known:
                self.fail("a here-document whose end is not known")
            literal = self.text[start : self.pos] != target.text
            self.documents.append(_Document(target.text, literal, operator == "<<-"))
            self.before_document = True
        return Redirection(operator, target)

    def _texts(self, words: list[Word]) -> Iterator[str]:
        """The texts that a command runs as commands: of `sh -c TEXT`, `eval TEXT` and the like."""
        names = [program(word).casefold() for word in words]
        places = range(len(words)) if names[:1] and names[0] in WRAPPERS else range(min(1, len(words)))
        if "env" in names[: len(places)] and any(_option_of_env(w.text) for w in words[names.index("env") + 1 :]):
            self.fail("a text that env takes apart")
        evaluator = next((place for place in places if names[place] in EVALUATORS), None)
        if evaluator is not None:
            yield " ".join(self._certain(words[evaluator + 1 :]))
            return
        shells = (place for place, name in enumerate(names) if name in SHELLS or not (place or words[0].known))
        shell = next(shells, len(words))
        option = next((place for place in range(shell, len(words)) if option_c(words[place].text)), len(words))
        for text in self._certain(words[option + 1 : option + 2]):
            if text.startswith(("-", "+")):
                self.fail("options behind -c")
            yield text

    def _certain(self, words: Iterable[Word]) -> Iterator[str]:
        for word in words:
            if not word.known:
                self.fail("a text for another shell that only shows when it runs (single quotes keep it as it is)")
            yield word.text

    # Here-documents

    def read_documents(self) -> None:
        """Read the here-documents that begin on this line."""
        documents, self.documents, self.before_document = self.documents, [], False
        for document in documents:
            body = self._body(document)
            if not document.literal:
                _Reading(body, self.found, self.depth, self.given).expanded("")

    def _body(self, document: _Document) -> str:
        begin = here = self.pos
        line = None
        while line != document.end:
            if line is not None and line.lstrip().startswith(document.end):  # some shells let `EOF)` end it
                self.fail("a line that looks like the end of a here-document")
            if self.pos == len(self.text):
                self.fail("a here-document without its end")
            here = self.pos
            self.pos = self.text.find("\n", here) + 1 or len(self.text)
            line = self.text[here : self.pos].removesuffix("\n")
            line = line.lstrip("\t") if document.indented else line
        return self.text[begin:here]


class _List:
    """Commands and what joins them. `open`: the compound commands that have not ended.

    `after` tells what may come: a command is `needed` (behind `&&`), or `free` to come, or has just `ended`.
    """

    __slots__ = ("after", "open", "reading")

    def __init__(self, reading: _Reading) -> None:
        self.reading = reading
        self.open: list[str] = []
        self.after = "free"

    def read(self, end: str) -> None:
        """Read up to the `end`, `)` or that of the text."""
        reading = self.reading
        while True:
            reading.skip_blanks()
            operator = _operator(reading.text, reading.pos)
            if operator is None and reading.char():
                self._command()
            elif (found := operator[0] if operator else "") in ("", ")"):
                break
            else:
                self._join(found)
        if found != end or self.open or self.after == "needed" or reading.documents:
            reading.fail("it ends too early, or too late")
        reading.pos += len(end)

    def _join(self, operator: str) -> None:
        reading = self.reading
        if operator == "(":
            self._expect("free", "needed")
            reading.pos += 1
            if reading.char() == "(":
                reading.fail("arithmetic")
            reading.nested()
            self._end()
            return
        reading.pos += len(operator)
        if operator == "\n":
            reading.read_documents()
            self.after = "free" if self.after == "ended" else self.after
            return
        self._expect(*(() if operator == ";;" else ("ended",)))
        self.after = "free" if operator in (";", "&") else "needed"

    def _command(self) -> None:
        self._expect("free", "needed")
        reading = self.reading
        word = _reserved(reading.text, reading.pos)
        if word is None:
            reading.simple_command()
            self.after = "ended"
        elif word[0] == "for":
            reading.loop()
            self.open.append("for")
            self.after = "ended"
        else:
            self._compound(word[0])

    def _compound(self, word: str) -> None:
        reading = self.reading
        if word in _OPENERS:
            self.open.append(word)
        elif word != "!":
            if not self.open or word not in _NEXT[self.open[-1]]:
                reading.fail("a word that may not stand here")
            self._expect("free")
            self.open[-1] = word
        reading.pos += len(word)
        self.after = "needed"
        if word in _CLOSERS:
            self.open.pop()
            self._end()

    def _end(self) -> None:
        self.reading.redirections()
        self.after = "ended"

    def _expect(self, *allowed: str) -> None:
        if self.after not in allowed:
            self.reading.fail("a command that is not whole, or too much behind one")
