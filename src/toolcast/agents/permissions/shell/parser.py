"""A parser of shell commands, for permissions: the simple commands of a text, `a`, `c` and `b` for `a && b $(c)`.

Strategy: one pass from left to right, as a POSIX shell or bash does it, with one function per construct. It follows
lists, pipes, subshells, groups, `if`, `while`, `until` and `for`, every kind of substitution, here-documents, the texts
of `sh -c` and `eval`, and other words that may be command lines. The results are simple commands: words without their
quotes, assignments in front of them, redirections. A word is `literal` where the shell does not expand it.

Nothing is guessed. Text that two shells parse differently, text that is only known at run time, and unsupported syntax
(`case`, functions, `[[`, `$'..'`, most of `${..}`) raises `UnparsedCommand`. Where more is accepted here than by a
shell, the shell rejects the whole text. Control characters are rejected, as they hide text from the person who approves
it.

No character is read twice, except in nested texts, which nest at most `MAX_DEPTH` deep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, NoReturn

from .forms import deny_table, forms, program, read
from .lexer import MAX_DEPTH, Lexer, UnparsedCommand, Word

LONGEST: Final = 16_384
"""The maximum length of a command, in characters."""

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
"""The reserved words that may continue a compound command, or end it."""
TEXTS = frozenset(("<<", "<<-", "<<<"))
_OPENERS = frozenset(("if", "while", "until", "{"))
_CLOSERS = frozenset(("fi", "done", "}"))

_hidden = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]").search
_blanks = re.compile(r"(?:[ \t]+(?:\\\n)*)+").match
_comment = re.compile(r"#[^\n]*").match
_behind = re.compile(r"(?<![^\s;&|()])#[^\n]*")
_operator = re.compile(r"&&|\|\||\|&|;;|[;|()\n]|&(?!>)").match
_reserved = re.compile(
    r"(?:if|then|elif|else|fi|while|until|do|done|for|in|case|esac|select|function|coproc|\[\[|\]\]|[{}!])"
    r"(?=[\s;&|()<>]|\Z)"
).match
_loop = re.compile(r"for[ \t]+([A-Za-z_][A-Za-z0-9_]*)(?:[ \t]+in(?=[ \t;\n]))?").match
_assignment = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=").match
_redirection = re.compile(r"[0-9]*(<<<|<<-?|<>|[<>]&|>>|>\||[<>])(?!\()|(&>>?)").match


_DESCRIPTOR_DIGITS = 1  # dash takes longer numbers for words, and bash those from 2 ** 31 on
_bundle = re.compile(r"-([A-Za-z0-9]+)").match
# The words that `env -S` splits, and those behind it, in words joined by NUL. Options in front may have a value.
_splits = re.compile(
    r"(?:\A[^\0*?\[]*[*?\[][^\0]*|(?<![^\0/])(?i:env))\0(?:-(?:[^\0]*[uCPatr0]\0(?!-))?[^\0]*\0)*?"
    r"(?:-[^-\0uCPa]*?S|--s[a-z-]*(?![^=\0])=?)(.*)",
    re.DOTALL,
).search
_escape = re.compile(r"(?<!\\)\\c[^\0]*|\0|\\[_fnrtv]").sub  # `\c` ends the text
# A script of sed that runs what it reads, or is what it reads, in words between NULs. And what ends the parts of `s`.
_executing = re.compile(
    r"(?:\0-\w*e|[^\w\s-])[\sgpIiMm\d]*e[gpIiMm\d]*[ \t]*[\n;}\0]|\0(?:-\w*f|--f\w*)[=\0]?(?:-|/(?:dev|proc)/[^\0]*)\0"
).search
_delimiters = re.compile(r"(?<![A-Za-z])s(.)", re.DOTALL).findall
_SED: Final = frozenset(("sed", "gsed"))
_may_be_line = re.compile(r"[\s;&|<>()$`]").search


class Redirection(NamedTuple):
    """A redirection of input or output. `operator` is without the number in front: `>` for `2>`."""

    operator: str
    target: Word


class SimpleCommand(NamedTuple):
    """One program being run: its words, `NAME=value` in front of them, and its redirections.

    There are no words where only variables are set, or where a whole group is redirected. `given`: the command line is
    a word of another command, such as `rm x` in `git -c core.pager='rm x'`, which may run it. `fed`: its input may be
    that of a pipe or a here-document, as in each substitution. `guessed`: the word may also be other text, such as SQL.
    """

    words: tuple[Word, ...] = ()
    assignments: tuple[Word, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    given: bool = False
    fed: bool = False
    guessed: bool = False


def commands(text: str, whole: bool = False) -> list[SimpleCommand]:
    """Return every command that a shell may run for `text`, inner ones first. Raises `UnparsedCommand`.

    `whole`: it may have no comment, which would hide words of other arguments at its end, or which the shell may run.
    """
    if len(text) > LONGEST:
        raise UnparsedCommand(f"it is longer than {LONGEST} characters; put long data into files")
    if _hidden(text):
        raise UnparsedCommand("it contains control characters")
    found: list[SimpleCommand] = []
    _Parser(text, found, int(whole)).script()
    if any(map(_takes_commands, found)):
        texts = (each.target for command in found for each in command.redirections if each.operator == "<<<")
        executing = [command for command in found if _executes(command)]
        first = Word("$()", False) if any(command.fed for command in executing) else Word("ed")
        spelled = (word.text for command in executing for word in command.words)
        parts = (Word(text.translate(dict.fromkeys(map(ord, _delimiters(text)), " "))) for text in spelled)
        words = (first, *(word for command in found for word in command.words), *texts, *parts)
        found.append(SimpleCommand(words, given=True, guessed=True))
    return found


def _takes_commands(command: SimpleCommand) -> bool:
    """Return whether it may run what it reads, as `ed` does, or what it makes, as `sed s/a/b/e` does."""
    names = {program(word).casefold() for word in command.words} - _SED if command.fed else set[str]()
    is_fed = not names.isdisjoint(deny_table()["commanded"].split()) and not is_data(command.words)
    return is_fed or _executes(command)


def _executes(command: SimpleCommand) -> bool:
    is_sed = any(program(word).casefold() in _SED for word in command.words)
    texts = (word.text for word in command.words)
    return is_sed and bool(_executing("\0".join(("", *texts, "")))) and not is_data(command.words)


def is_data(words: Sequence[Word]) -> bool:
    """Return whether the words fit the forms of their programs, so that none of them is a command line."""
    start, depth = 0, 0
    while start < len(words) and depth < MAX_DEPTH:
        reading = read(words, start)
        if reading.problem:
            return False
        start, depth = reading.at, depth + 1
    return start == len(words)


def _scripts(words: Sequence[Word], fail: Callable[[str], NoReturn]) -> Iterator[str]:
    """Yield the texts that a shell among the words, or `eval`, certainly parses as commands."""
    if words and program(words[0]) in deny_table()["evaluating"].split():
        yield " ".join(_literal(word, fail) for word in words[1:])
    if found := _splits("\0".join(word.text for word in words)):
        yield _escape(" ", f"env {found[1]}")
    for place, word in enumerate(words):
        form = forms().get(program(word).casefold())
        if (form and form.has("shell")) or not (place or word.literal):
            is_code = re.compile(form.code if form else forms()["sh"].code).fullmatch
            at = next((at for at in range(place + 1, len(words)) if is_code(words[at].text)), len(words))
            for text in words[at + 1 : at + 2]:
                if text.text.startswith(("-", "+")):
                    fail("options after -c")
                yield _literal(text, fail)
            return


def _literal(word: Word, fail: Callable[[str], NoReturn]) -> str:
    if not word.literal:
        fail("a text for another shell that is only known at run time (single quotes make it literal)")
    return word.text


class _Document(NamedTuple):
    """A here-document, which begins on the next line."""

    end: str
    literal: bool
    indented: bool


class _Parser(Lexer):
    """A parser of one text, the commands found in it, and the here-documents that begin on its next line.

    `given`: the text is a word of another command, which may run it. `fed`: there was a pipe before.
    """

    __slots__ = ("documents", "fed", "found", "given", "seen")

    def __init__(
        self, text: str, found: list[SimpleCommand], depth: int, given: bool = False, fed: bool = False
    ) -> None:
        super().__init__(text, depth)
        self.found = found
        self.given = given
        self.fed = fed
        self.seen: set[str] = set()
        self.documents: list[_Document] = []

    def script(self) -> None:
        """Parse the whole text."""
        _List(self).read("")

    def inner(self, text: str) -> None:
        _Parser(text, self.found, self.depth + 1, self.given, True).script()

    def arithmetic(self, text: str) -> None:
        """Add an expression that has names: it evaluates their values, which may be `a[$(command)]`."""
        self.found.append(SimpleCommand((Word("(("), Word(text, False)), given=self.given))

    def given_line(self, text: str) -> None:
        """Parse a text that may be a command line. One that cannot be parsed is a word that may have commands in it."""
        found: list[SimpleCommand] = []
        self.seen.add(text)
        try:
            self._parser(text, found).script()
        except UnparsedCommand:
            found = [SimpleCommand((Word(text),), given=True)]
            if (plain := _behind.sub("", text)) != text:
                self.given_line(plain)
        self.found += (each._replace(guessed=True) for each in found)

    def _parser(self, text: str, found: list[SimpleCommand]) -> _Parser:
        parser = _Parser(text, found, self.depth + 1, True, self.fed)
        parser.seen = self.seen
        return parser

    def nested(self, fed: bool = True) -> None:
        if self.documents:
            self.fail("nested commands after <<")
        if self.depth == MAX_DEPTH:
            self.fail("it is nested too deeply")
        outer, self.fed = self.fed, fed
        self.depth += 1
        _List(self).read(")")
        self.depth -= 1
        self.fed = outer

    def skip_blanks(self) -> None:
        if blanks := _blanks(self.text, self.pos):
            self.pos = blanks.end()
        if comment := _comment(self.text, self.pos):
            if self.depth:  # shells disagree on where a substitution with a comment ends
                self.fail(
                    "a comment in a substitution or group, in front of other arguments, or in a shell without them"
                )
            self.pos = comment.end()

    # Commands

    def simple_command(self) -> None:
        """Read words, assignments and redirections up to an operator, and what they run in turn."""
        words: list[Word] = []
        assignments: list[Word] = []
        redirections: list[Redirection] = []
        ended = False  # by `&>`, which some shells parse as `&` and `>`
        while self.char() and not _operator(self.text, self.pos):
            if redirection := self._redirection():
                redirections.append(redirection)
                ended = ended or redirection.operator.startswith("&")
            elif ended:
                self.fail("words after &>")
            elif not words and _assignment(self.text, self.pos):
                assignments.append(self.word())
            else:
                words.append(word := self.word())
                if word.text.startswith("{") and word.text.endswith("}") and self.char() in ("<", ">"):
                    self.fail("a redirection to a variable")
            self.skip_blanks()
        fed = self.fed or any(each.operator.startswith("<") for each in redirections)
        self.found.append(SimpleCommand(tuple(words), tuple(assignments), tuple(redirections), self.given, fed))
        self._texts(words, assignments)

    def _texts(self, words: Sequence[Word], assignments: Sequence[Word]) -> None:
        """Parse the words that are command lines, or may be: `sh -c TEXT` has to be one, `git -c x.pager=TEXT` may."""
        data = is_data(words)
        texts = [] if data else [*_scripts(words, self.fail)]
        self.seen |= {*texts}
        for text in dict.fromkeys(texts):
            self._parser(text, self.found).script()
        for word in (*assignments, *(() if data else words)):
            # Of short options in one word, the first of its letter may have the rest as its value: `-vcI'git push'`.
            bundle = _bundle(word.text)
            attached = (word.text.partition(letter)[2] for letter in dict.fromkeys(bundle[1] if bundle else ""))
            for text in (word.text, word.text.partition("=")[2], *attached):
                if word.literal and text not in self.seen and _may_be_line(text):
                    self.given_line(text)

    def redirections(self) -> None:
        """Parse the redirections of a whole group."""
        found: list[Redirection] = []
        self.skip_blanks()
        while redirection := self._redirection():
            found.append(redirection)
            self.skip_blanks()
        if any(each.operator.startswith("<") for each in found):
            self.found[:] = (each._replace(fed=True) for each in self.found)
        if found:
            self.found.append(SimpleCommand(redirections=tuple(found), given=self.given))

    def loop(self) -> None:
        """Parse `for NAME in WORDS`, which assigns each of the words."""
        head = _loop(self.text, self.pos)
        if head is None:
            self.fail("an unsupported form of loop")
        self.pos = head.end()
        self.skip_blanks()
        values: list[Word] = []
        while self.char() and not _operator(self.text, self.pos):
            values.append(self.word())
            self.skip_blanks()
        assigned = tuple(Word(f"{head[1]}={value.text}", value.literal) for value in values)
        self.found.append(SimpleCommand(assignments=assigned, given=self.given))

    def _redirection(self) -> Redirection | None:
        found = _redirection(self.text, self.pos)
        if found is None:
            return None
        operator = found[1] or found[2]
        if len(found[0]) - len(operator) > _DESCRIPTOR_DIGITS:
            self.fail("a number before a redirection that the shell may take for a word")
        self.pos = found.end()
        if blanks := _blanks(self.text, self.pos):
            self.pos = blanks.end()
        start = self.pos
        target = self.word()
        if operator == ">&" and self.text[start : self.pos] != target.text:
            operator = ">"  # to busybox `>&'-'` is a file
        if operator in ("<<", "<<-"):
            if not target.literal:
                self.fail("a here-document whose delimiter is not literal")
            literal = self.text[start : self.pos] != target.text
            self.documents.append(_Document(target.text, literal, operator == "<<-"))
            self.before_document = True
        return Redirection(operator, target)

    # Here-documents

    def read_documents(self) -> None:
        """Parse the here-documents that begin on this line."""
        documents, self.documents, self.before_document = self.documents, [], False
        for document in documents:
            body = self._body(document)
            taking = {*deny_table()["taking"].split()}  # its words may be files that the line then uses
            if any(_takes_commands(each) or taking & {*map(program, each.words)} for each in self.found):
                words = (Word(":"), *map(Word, dict.fromkeys(body.split())))
                self.found.append(SimpleCommand(words, given=True, guessed=True))
            if not document.literal:
                _Parser(body, self.found, self.depth, self.given, self.fed).expanded("")

    def _body(self, document: _Document) -> str:
        begin = here = self.pos
        line = None
        while line != document.end:
            if line is not None and line.lstrip().startswith(document.end):  # some shells let `EOF)` end it
                self.fail("a line that looks like the end of a here-document")
            if self.pos == len(self.text):
                self.fail("a here-document without its delimiter")
            here = self.pos
            self.pos = self.text.find("\n", here) + 1 or len(self.text)
            line = self.text[here : self.pos].removesuffix("\n")
            line = line.lstrip("\t") if document.indented else line
        return self.text[begin:here]


class _List:
    """A list of commands and their operators.

    `open`: the compound commands that have not ended. `fed`: whether they are fed, the list itself first. `after`
    is the state: a command is `needed` (after `&&`), or `free` to come, or has just `ended`.
    """

    __slots__ = ("after", "fed", "open", "parser")

    def __init__(self, parser: _Parser) -> None:
        self.parser = parser
        self.open: list[str] = []
        self.fed = [parser.fed]
        self.after = "free"

    def read(self, end: str) -> None:
        """Parse up to `end`: `)`, or `""` for the end of the text."""
        parser = self.parser
        while True:
            parser.skip_blanks()
            operator = _operator(parser.text, parser.pos)
            if operator is None and parser.char():
                self._command()
            elif (found := operator[0] if operator else "") in ("", ")"):
                break
            else:
                self._join(found)
        if found != end or self.open or self.after == "needed" or parser.documents:
            parser.fail("an unexpected end, or text after the end")
        parser.pos += len(end)

    def _join(self, operator: str) -> None:
        parser = self.parser
        if operator == "(":
            self._expect("free", "needed")
            parser.pos += 1
            if parser.char() == "(":
                parser.fail("arithmetic")
            parser.nested(parser.fed)
            self._end()
            return
        parser.pos += len(operator)
        if operator == "\n":
            parser.read_documents()
            if self.after == "ended":
                self._begin_pipeline()
                self.after = "free"
            return
        self._expect(*(() if operator == ";;" else ("ended",)))
        self.after = "free" if operator in (";", "&") else "needed"
        if operator in ("|", "|&"):
            parser.fed = True
        else:
            self._begin_pipeline()

    def _begin_pipeline(self) -> None:
        self.parser.fed = self.fed[-1]

    def _command(self) -> None:
        self._expect("free", "needed")
        parser = self.parser
        word = _reserved(parser.text, parser.pos)
        if word is None:
            parser.simple_command()
            self.after = "ended"
        elif word[0] == "for":
            parser.loop()
            self._open("for")
            self.after = "ended"
        else:
            self._compound(word[0])

    def _compound(self, word: str) -> None:
        parser = self.parser
        if word in _OPENERS:
            self._open(word)
        elif word != "!":
            if not self.open or word not in _NEXT[self.open[-1]]:
                parser.fail("a reserved word in the wrong place")
            self._expect("free")
            self.open[-1] = word
        parser.pos += len(word)
        self.after = "needed"
        if word in _CLOSERS:
            self.open.pop()
            self.fed.pop()
            self._end()

    def _open(self, word: str) -> None:
        self.open.append(word)
        self.fed.append(self.parser.fed)

    def _end(self) -> None:
        self.parser.redirections()
        self.after = "ended"

    def _expect(self, *allowed: str) -> None:
        if self.after not in allowed:
            self.parser.fail("an incomplete command, or text after a complete one")
