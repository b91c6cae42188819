"""The argument forms of programs that a wildcard of an allow rule covers. They are data: forms.toml, beside this file.

Strategy: the words that a rule spells are literal. Every other word of a command needs a row of the file, for its
program and subcommand, that lists it. Without a row, or for a word that the row does not list, a person is asked, so
that an incomplete file leads to a question and never to a program without an approval.

The fields of a row:

* `flags`: options without a value. `--name[=]` may have one behind `=`, `-#` is a number such as `-20`, `-` is the
  input, which is an operand, and `--` ends the options. Options match as a whole, never abbreviated; short ones also in
  one word, unless `bundles` is false.
* `values`: options with a value, within the word or in the next one.
* `texts`: options of `values` whose value is any text, also one in double quotes that is only known at run time.
* `never`: options that are not covered, with the reason that a person is shown.
* `operands`, `first`: what other words match as a whole, and what the first of them matches; `most`: their number;
  `value`: what the values of options match, of all or by their names, where that is not `operands`; `files` is a plain
  pattern of files, such as `*.py`.
  Where a row has subcommands, an operand is one of them; a program whose subcommands alone have rows has none.
* `names`: other programs or subcommands with the same form; `like`: a row above whose options are options here, too.
* `after`: behind so many operands there is another command. `spelled`: the rule has to spell its program. `input`: it
  gets words from the input.
* `script`: the first operand is a script file, which the rule has to spell; what follows are the script's arguments.
  `asked`: those names of an interpreter that have `--version` and `--help`, which others may take for a script.
  `code`: options whose value is code. `shell`: the code is a shell command. `reads`: other programs that run what they
  read where their words do not fit.
* `patterns`: its operands may be patterns of files, as those of git are, and are plain ones then.
* `globs`: no option writes or runs anything, so that `*` needs no folder in front. Where it matches a file whose name
  begins with `-`, which may make the program read another file, permissions.py asks.
* `filter`: what it reads from a pipe or a here-document is data. Others are not covered with input, which an editor, a
  shell or a question may take for commands.
* `alike`: it changes what its operands name, so that the last operand of a rule is a pattern for others behind it, and
  for values. Elsewhere it is one if it has wildcards.
* `moves`: it brings files to other places, so that words of other commands in the line may become other files.
* `makes`: it makes files and folders whose names the project chooses.
* `inside`: its operands are in the working folder, unless the rule names another, as those of others may have a
  configuration that runs or is written, or are not the project's.
* `expands`: it may give its words to a shell in double quotes. So names of files that a shell adds are not covered.
  `files`: it runs a file or folder of the program's name, or of the module's.
* `environment`: it is a tool of the project, and may be installed in the working folder, as in `.venv/bin`.
* `data`: all words are data, also those that are only known at run time.
* `changes`: it changes files or runs what its operands name, so that "always allow" means the command as it is, and a
  rule with an option covers no other one: `prettier --check` not `--write`.

A word that begins with `-` has to be a listed option wherever it is, also as the value of another. A value has to match
`operands`, be literal, and have no letters behind a short option in the same word. So nothing that is taken for a value
hides an option. A format of git that asks for a signature (`%G?`) runs gpg. Of what a shell expands, only files by one
`*` are covered, in a folder that is named (`src/*.py`), or of a program with `globs` (`ls *.py`).

Deny rules use the same rows, the other way round: words that fit are data, and any other word may be a command.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from .lexer import Word

_ANY_OPERAND: Final = r"(?!@|.*::|(?!https?:|ssh:|git:|file:)[\w+.-]*://).*"
"""`@x` may name a file of options; `ext::x` and `x://` name programs that git runs."""
_SCRIPTS: Final = (".sh", ".bash", ".zsh", ".py", ".rb", ".pl", ".js", ".ts", ".mjs", ".php")
_LISTS: Final = ("flags", "values", "texts", "asked")
ASKING: Final = ("--version", "--help")

_TAIL: Final = r"(?:[._-][\w.-]*)?"  # of a name behind `*`, so that it begins no later than its extension
_FOLDERS: Final = r"(?:(?:[\w.][\w.-]*|\*\*)/)*"
_PLAIN_FILES: Final = rf"!.*|[^*?\[{{\\]*|{_FOLDERS}(?:(?:\w[\w.-]*)?\*{_TAIL}|\*\*|\w[\w.-]*)"
_files = re.compile(rf"(?:\w[\w.-]*/)+(?:\w[\w.-]*)?\*{_TAIL}", re.ASCII).fullmatch
_some_files = re.compile(rf"(?:--(?:in|ex)clude=)?(?:\w[\w.-]*/)*(?:\w[\w.-]*)?\*{_TAIL}", re.ASCII).fullmatch
_pattern_files = re.compile(_PLAIN_FILES, re.ASCII | re.DOTALL).fullmatch
# Its `*` matches `/` too: what is behind one may be a name of its own.
_git_files = re.compile(rf"[^*?\[]*|{_FOLDERS}(?:\w[\w.-]*\*?|\*{_TAIL}|\*\*)", re.ASCII | re.DOTALL).fullmatch
_joined = re.compile(r"(?:[^\w@=-]|\d|\\.)*", re.DOTALL).fullmatch
_expanded = re.compile(r"[$`\\]").search
_shell_text = re.compile(r"[$`\\&;|<>\"'\x00-\x1f]").search
_number = re.compile(r"-[0-9]+[kMG]?").fullmatch
_signature = re.compile(r"%[+ -]?G|%\(\*?signature|\A-?(?:v:|version:)?\*?signature").search
_outside = re.compile(r"[/~]|(?:.*/)?\.\.(?:/|\Z)", re.DOTALL).match
_upwards = re.compile(r"\.\./(?:.*/)?(?:dev|proc)/").match


class Form(NamedTuple):
    """One row of forms.toml. `key` is its first name; a `subcommand` is needed where the row has no operands."""

    key: str
    flags: frozenset[str]
    values: frozenset[str]
    texts: frozenset[str]
    asked: frozenset[str]
    never: Mapping[str, str]
    operands: str
    valued: Mapping[str, str]
    first: str
    most: int | None
    after: int | None
    code: str
    traits: frozenset[str]
    subcommand: bool

    def has(self, trait: str) -> bool:
        """Return whether a field such as `script` is true."""
        return trait in self.traits

    def option(self, text: str, check: Callable[[str, str], str]) -> tuple[str, str]:
        """Return why the option is not covered, if it is not, and its name if its value is the next word.

        `check` returns why the value of an option is not covered, if it is not.
        """
        name, equals, value = text.partition("=")
        if text in self.flags or f"{name}[=]" in self.flags:
            return "", ""
        if equals and name in self.values and (name.startswith("--") or not self.has("bundles")):
            return check(name, value), ""
        if text in self.values:
            return "", text
        if "-#" in self.flags and _number(text):
            return "", ""
        if not text.startswith("--") and text != "-" and self.has("bundles"):
            for at, letter in enumerate(text[1:], 2):
                short, rest = f"-{letter}", text[at:]
                if short in self.values and (rest or short not in self.flags):
                    problem = f"write it as two words, '{short} {rest}'" if not _joined(rest) else check(short, rest)
                    return problem, "" if rest else short
                if short not in self.flags:
                    return self._reason(short, text), ""
            return "", ""
        return self._reason(name, text), ""

    def operand(self, text: str, count: int, anywhere: bool = False) -> str:
        """Return why a word that is the operand of this number is not covered, if it is not.

        `anywhere`: the rule names another folder than the working folder.
        """
        if self.subcommand:
            return f"toolcast knows no argument forms of {f'{self.key} {text}'!r}"
        if self.most is not None and count > self.most:
            return f"{self.key!r} is covered with at most {self.most} operands"
        if self.has("naming") and _shell_text(text):
            return "other programs may run such a name as shell text"
        if self.has("inside") and not anywhere and _outside(text):
            return "it is outside of the working folder"
        is_git = self.key.startswith("git ")
        if count and ((is_git and (":(" in text or not _git_files(text))) or self._is_open(text)):
            return "it may be other files than it names"
        if self.has("inside") and "{" in text:
            return "it may be several files, also outside of the working folder"
        return "" if self.fits(text, count) else f"it is no plain operand of {self.key!r}"

    def fits(self, text: str, count: int) -> bool:
        """Return whether the operand of this number matches the pattern of the row, and is not one too many."""
        pattern = self.first if self.first and count == 1 else self.operands
        return (self.most is None or count <= self.most) and bool(re.fullmatch(pattern, text, re.DOTALL))

    def _is_open(self, text: str) -> bool:
        return self.has("patterns") and not _pattern_files(text)

    def value(self, name: str, text: str) -> str:
        """Return why a word that is the value of an option is not covered, if it is not."""
        if self.key.startswith("git ") and _signature(text):
            return "it runs gpg"
        if pattern := self.valued.get(name, self.valued.get("")):
            return "" if re.fullmatch(pattern, text, re.DOTALL) else f"it is no plain value of {name!r}"
        return "" if self.subcommand else self.operand(text, 0)

    def _reason(self, name: str, text: str) -> str:
        found = (why for names, why in self.never.items() if {name, text} & {*names.split()})
        return next(found, f"the option is not in toolcast's list of options for {self.key!r}")


class Reading(NamedTuple):
    """The comparison of a command with its form, the last of which is `form`.

    Without a `problem` it fits, and another command begins at `at`, if there is a word of that number; with one, that
    word does not fit.
    """

    at: int
    problem: str = ""
    form: Form | None = None


@cache
def forms() -> Mapping[str, Form]:
    """Return the rows of forms.toml, by the names of programs and subcommands."""
    data = _data()
    found: dict[str, Form] = {}
    keys = {name for key, row in data.items() for name in (key, *row.get("names", ()))}
    heads = dict.fromkeys(name.rsplit(" ", count)[0] for name in sorted(keys) for count in (2, 1) if " " in name)
    data = {head: dict[str, Any]() for head in heads if head not in keys} | data
    for key, row in data.items():
        like = found.get(row.get("like", ""))
        listed = {name: frozenset(row.get(name, "").split()) for name in _LISTS}
        traits = {name for name, value in ({"bundles": True} | row).items() if value is True}
        form = Form(
            key,
            listed["flags"] | (like.flags if like else frozenset()),
            listed["values"] | (like.values if like else frozenset()),
            listed["texts"],
            listed["asked"],
            {**(like.never if like else {}), **row.get("never", {})},
            row.get("operands", like.operands if like else _ANY_OPERAND),
            _by_option(row["value"]) if "value" in row else like.valued if like else {},
            row.get("first", ""),
            row.get("most"),
            row.get("after"),
            row.get("code", "(?!)"),
            frozenset(traits),
            {"operands", "most"}.isdisjoint(row) and any(each.startswith(f"{key} ") for each in keys),
        )
        found |= dict.fromkeys((key, *row.get("names", ())), form)
    return found


def _by_option(value: str | Mapping[str, str]) -> Mapping[str, str]:
    """Return what the values of options match, by the names of the options; `""` is for all others."""
    given = {"": value} if isinstance(value, str) else value
    return {
        name: _PLAIN_FILES if pattern == "files" else pattern
        for names, pattern in given.items()
        for name in names.split() or [""]
    }


@cache
def deny_table() -> Mapping[str, Any]:
    """Return the names that deny rules use, beside the rows."""
    return cast("Mapping[str, Any]", _file()["deny"])


def _data() -> dict[str, Any]:
    return {key: row for key, row in _file().items() if key != "deny"}


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("forms.toml").read_text("utf-8"))


def program(word: Word) -> str:
    """Return the name of the program that a command with this first word runs, without its folder."""
    return word.text.rpartition("/")[2]


def is_device(text: str) -> bool:
    """Return whether the path may lead to what a program reads: `/dev/stdin`, `../../proc/self/fd/0`."""
    path = posixpath.normpath(text)
    return path.startswith(("/dev/", "/proc/", "//dev/", "//proc/")) or bool(_upwards(path))


def read(words: Sequence[Word], start: int = 0, wanted: Sequence[str] | None = None) -> Reading:
    """Compare the command that begins at `start` with the form of its program.

    `wanted` are the words of a rule, which spell that program. None is for deny rules: there, a word that is only known
    at run time counts as an operand, and any script or program as spelled.
    """
    name, spelled = program(words[start]), spelled_words(words, wanted or ())
    if "/" in words[start].text and name.endswith(_SCRIPTS):
        return Reading(len(words))
    form = forms().get(name)
    if form is None:
        at = next((at for at in range(start + 1, len(words)) if at not in spelled), start)
        return Reading(at, f"toolcast knows no argument forms of {name!r}")
    # zsh takes `source --help` for a script in this folder, and expect `expect --help`.
    has_options = not form.has("script") or name in form.asked
    if form.has("data") or (has_options and len(words) == start + 2 and words[-1].text in ASKING):
        return Reading(len(words), form=form)
    if form.has("expands") and wanted is not None:
        for at in range(start, len(words)):
            if at not in spelled and (_expanded(words[at].text) or not words[at].literal):
                return Reading(at, f"some versions of {name!r} give it to a shell", form)
    return _Reader(words, form, wanted, spelled).read(start + 1)


def spelled_words(words: Sequence[Word], wanted: Sequence[str]) -> set[int]:
    """Return which words a rule of the `wanted` words spells."""
    return {at for at, (word, want) in enumerate(zip(words, wanted, strict=False)) if want == escaped(word.text)}


def matches(text: str, pattern: str) -> bool:
    """Return whether a literal word matches a pattern of one word.

    With at most as many `..` as the pattern has, and with `:` only if it has one: `:` begins what may mean all other
    files to git (`:!x`), and the target of a push (`feature/x:main`). `src/` is the folder and not one of its files,
    `src/*`. Options and absolute paths are matched by their like alone.
    """
    if text[:1] in ("-", "/", "~") and pattern[:1] not in (text[:1], "["):
        return False
    is_upwards = text.split("/").count("..") > pattern.split("/").count("..")
    is_other = (":" in text and ":" not in pattern) or (text.startswith(":") and not pattern.startswith(":"))
    is_folder = text.endswith("/") and "/" in pattern and not pattern.endswith("/")
    return fnmatchcase(text, pattern) and not (is_upwards or is_other or is_folder)


def escaped(text: str) -> str:
    """Return the pattern of a literal text."""
    return re.sub(r"([*?\[])", r"[\1]", text)


class _Reader:
    """The reading of the words behind a program: its `form`, how many operands there were, and what comes next.

    `options`: there was no `--`. `value`: the option whose value is the next word. `alike`: the operands that come next
    have to match it.
    """

    __slots__ = ("alike", "form", "lenient", "operands", "options", "spelled", "value", "wanted", "words")

    def __init__(self, words: Sequence[Word], form: Form, wanted: Sequence[str] | None, spelled: set[int]) -> None:
        self.words = words
        self.form = form
        self.lenient = wanted is None
        self.wanted: Sequence[str] = wanted or ()
        self.spelled = spelled
        self.alike = "*"
        self.operands = 0
        self.options = True
        self.value = ""

    def read(self, start: int) -> Reading:
        lost = ""
        for at in range(start, len(self.words)):
            word, is_spelled = self.words[at], at in self.spelled
            if lost:  # it may have a value or none, so nothing is known of the words behind it
                if not is_spelled:
                    return Reading(at, f"it follows {lost!r}, whose meaning is not known", self.form)
                continue
            if not self._enter(word):
                count = self.operands
                end = None if self.value or self._is_option(word) else self._end(at, word)
                if end is not None:
                    return Reading(end, form=self.form)
                if (problem := self._problem(word)) and not is_spelled:
                    return Reading(at, problem, self.form)
                lost = word.text if problem and self._begins_other(word, self.operands > count == 0) else ""
        if not lost and self.form.after is not None and not self.lenient:
            return Reading(
                len(self.words), f"{self.form.key!r} may run what it reads, as it names no program", self.form
            )
        if lost or self.form.has("script"):
            return Reading(len(self.words), f"{self.form.key!r} may run what it reads", self.form)
        return Reading(len(self.words), form=self.form)

    def _enter(self, word: Word) -> bool:
        """Go on with the form of a subcommand, if the word is one."""
        is_first = self.options and not (self.operands or self.value)
        found = forms().get(f"{self.form.key} {word.text}") if word.literal and is_first else None
        self.form = found or self.form
        return found is not None

    def _begins_other(self, word: Word, is_first: bool) -> bool:
        """Return whether a word that does not fit may give those behind it another meaning.

        So may an option, a subcommand, and a first operand of another kind, such as a script of awk. One of several
        operands that are alike may not.
        """
        is_other = is_first and not (self.form.has("alike") or self.form.fits(word.text, 1))
        return self.form.subcommand or is_other or word.text.startswith("-")

    def _is_option(self, word: Word) -> bool:
        is_input = word.text == "-" and "-" in self.form.flags
        begins = ("-", "+") if self.form.has("shell") else "-"
        return self.options and word.text.startswith(begins) and not is_input and (word.literal or not self.lenient)

    def _end(self, at: int, word: Word) -> int | None:
        """Count an operand. Return where the form ends with it: at a program, or behind the words of a script."""
        self.operands += 1
        if at < len(self.wanted) and (at not in self.spelled or self.form.has("alike")):
            self.alike = self.wanted[at]
        form, is_spelled = self.form, self.lenient or at in self.spelled
        if form.has("script") and word.literal and is_spelled and not is_device(word.text):
            return len(self.words)
        is_program = form.after is not None and self.operands > form.after
        return at if is_program and (self.lenient or not form.has("input")) and self._may_run(is_spelled) else None

    def _may_run(self, is_spelled: bool) -> bool:
        return is_spelled or not self.form.has("spelled")

    def _value_problem(self, name: str, text: str) -> str:
        if self.form.has("alike") and not (self.lenient or matches(text, self.alike)):
            return f"it does not match {self.alike!r}"
        return self.form.value(name, text)

    def _problem(self, word: Word) -> str:
        """Return why a word is not covered, if it is not."""
        form, text, problem = self.form, word.text, ""
        value, self.value = self.value, ""
        if value in form.texts and (word.literal or word.single):
            return ""
        expanded = not (word.literal or self.lenient)
        if expanded and (value or not (_some_files if form.has("globs") else _files)(text)):
            return "it is only known at run time"
        if value:
            is_number = "-#" in form.flags and _number(text)
            if text.startswith("-") and not (is_number or (text == "-" and text in form.flags)):
                return "it is the value of an option, and looks like another"
            return self._value_problem(value, text) if word.literal else ""
        if self._is_option(word):
            self.options = not (text == "--" and text in form.flags)
            problem, self.value = form.option(text, self._value_problem)
        elif expanded and (form.first or form.most is not None or form.has("expands")):
            return "it may be several words"
        elif not (self.lenient or self.alike == "*" or matches(text, self.alike)):
            return f"it does not match {self.alike!r}"
        elif form.has("script") or (form.after is not None and self.operands > form.after):
            return f"it is what {form.key!r} runs, which the rule has to name"
        elif word.literal or not self.lenient:
            anywhere = bool(_outside(self.alike)) or (self.lenient and form.has("alike"))
            problem = form.operand(text, self.operands, anywhere)
        return problem
