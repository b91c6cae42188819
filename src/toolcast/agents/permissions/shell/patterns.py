"""Patterns over one simple command: "git" is every `git ...`, "npm run *" every `npm run ...`.

A pattern is words, each with wildcards if need be, and says how a command begins. It is read in two ways. What it
`covers` is sure to be that command: every word is known, nothing is assigned, no file is written by a redirection.
What it `forbids` is what may be that command: under another path, with options in between, behind `sudo` or `xargs`,
or with a word that only shows when it runs. A shell that is fed its commands may run any.

A pattern speaks of programs and how they are called, and not of what a program does with its words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from .launchers import (
    FOREIGN_SHELLS,
    REMOTE,
    SHELL_BEHIND,
    SHELLS,
    USERS_SHELLS,
    WRAPPERS,
    Launch,
    all_launches,
    as_git,
    is_device,
    launches,
    names_no_program,
    operands_of,
    option_c,
    program,
)
from .lexer import Word
from .parser import Redirection, SimpleCommand

_DESCRIPTORS = frozenset((">&", "<&"))
_TEXTS = frozenset(("<<", "<<-", "<<<"))
_UNREAD = frozenset(("alias", "hash", "at", "batch", "crontab"))  # what they are told runs later, under other names
_SOURCES = frozenset((".", "source"))
_wildcard = re.compile(r"[*?\[]").search
_no_option = re.compile(r"(?!)").fullmatch
_harmless_option = re.compile(r"-[abefhkmnpuvxBCEHPT]+").fullmatch
_code_word = re.compile(r"[^\s'\"()\[\]{},;|&<>=`!:+@]+").findall


def covers(pattern: str, command: SimpleCommand) -> bool:
    """Return whether `command` is sure to be one that `pattern` means, and so is what it runs in turn."""
    return covered((pattern,), command)


def covered(patterns: Sequence[str], command: SimpleCommand) -> bool:
    """Return whether one of `patterns` is sure to mean `command`, and they all together what it runs in turn.

    A pattern covers a program that another one runs only if it spells out the word that names it: "git" does not
    cover `git -c core.pager=x log`, "timeout 60 pytest" covers `timeout 60 pytest -x`.
    """
    begun = [wanted for wanted in map(_words_of, patterns) if _begins(wanted, command)]
    if not begun or ["*"] in begun:
        return bool(begun)
    left = [
        launch
        for launch in launches(command.words)
        if not (launch.sure and launch.words and covered(patterns, SimpleCommand(launch.words)))
    ]
    return any(all(_spells(wanted, launch) for launch in left) for wanted in begun)


def _begins(wanted: Sequence[str], command: SimpleCommand) -> bool:
    words = command.words
    if not wanted or len(words) < len(wanted) or command.assignments:
        return False
    if not all(map(_writes_nothing, command.redirections)) or _leaves_folder(words[0].text, wanted[0]):
        return False
    return all(word.known and fnmatchcase(word.text, want) for word, want in zip(words, wanted, strict=False))


def _spells(wanted: Sequence[str], launch: Launch) -> bool:
    """Return whether a pattern has, without wildcards, the words that say what is run, through others as well."""
    places = [launch.at, *(launch.at + inner.at for inner in all_launches(launch.words))]
    return max(places) < len(wanted) and not any(_wildcard(wanted[place]) for place in places)


def forbids(pattern: str, command: SimpleCommand) -> bool:
    """Return whether `command` may be one that `pattern` means, or may run such a one."""
    wanted = _words_of(pattern)
    if wanted == ["*"]:
        return True
    if not wanted or not command.words:
        return False
    found = all_launches(command.words)
    gets_host = command.given and program(command.words[0]) in REMOTE  # as in `rsync -e ssh`
    if not gets_host and _runs_unread(command.words):
        return True
    if any(_runs_unread(launch.words) for launch in found):
        return True
    if any(_hits(wanted, words) for words in (command.words, *(launch.words for launch in found)) if words):
        return True
    written = (tuple(map(Word, _code_word(launch.code))) for launch in found if launch.code)
    return any(_stand_in(wanted, words) for words in written)


def _hits(wanted: Sequence[str], words: tuple[Word, ...]) -> bool:
    """Return whether a command of these words may be wanted itself."""
    name = program(words[0]).casefold()
    if name in WRAPPERS and _stand_in(wanted, words[1:]):
        return True
    if name.startswith("git-") and _hits(wanted, as_git(words)):
        return True
    if not _program_may_be(words[0], wanted[0]):
        return False
    return _is_several(words[0]) or _follow(wanted[1:], words[1:])


def _runs_unread(words: Sequence[Word]) -> bool:
    """Whether it may run what does not stand in it: a shell that is fed its commands, a name given to others."""
    names = [program(word).casefold() for word in words]
    if not names or names[0] in _UNREAD:
        return bool(names)
    if names[0] in SHELL_BEHIND and names_no_program(names[1:], operands_of(names[0])):
        return True
    wraps = names[0] in WRAPPERS
    if wraps and names[-1] in WRAPPERS - {"xargs"} and {"xargs", "parallel"} & {*names}:  # input says what it runs
        return True
    for place, name in enumerate(names if wraps else names[:1]):
        sources = name in _SOURCES and (not place or names[place - 1] in ("builtin", "command"))
        if sources or name in SHELLS:
            return _is_fed(name, words[place + 1 :])
    return False


def _is_fed(shell: str, words: Sequence[Word]) -> bool:
    """Whether a shell with these words reads commands from elsewhere than a file or the text behind `-c`."""
    option = next((place for place, word in enumerate(words) if option_c(word.text)), None)
    if shell not in _SOURCES and option is not None:
        return not all(word.known for word in words[option + 1 : option + 2]) or option + 1 == len(words)
    harmless = _no_option if shell in FOREIGN_SHELLS else _harmless_option
    operand = next((word for word in words if not harmless(word.text)), None)
    is_file = (
        operand is not None and operand.known and not (operand.text.startswith(("-", "+")) or is_device(operand.text))
    )
    return not is_file or shell in USERS_SHELLS


def _words_of(pattern: str) -> list[str]:
    """The words of a pattern. A last `*` says no more than the others do, as anything may follow."""
    words = pattern.split()
    while len(words) > 1 and words[-1] == "*":
        words.pop()
    return words


def _writes_nothing(redirection: Redirection) -> bool:
    """Whether it opens no file: `2>&1`, `>/dev/null`, or text that stands in the command."""
    operator, target = redirection
    if operator in _DESCRIPTORS:
        return target.known and (target.text.isdecimal() or target.text == "-")
    return operator in _TEXTS or target == Word("/dev/null")


def _leaves_folder(text: str, want: str) -> bool:
    """Whether a wildcard for a program would stand for folders: `py*` does not mean `py/../evil`."""
    return want != "*" and (text.count("/") != want.count("/") or text.count("..") != want.count(".."))


def _stand_in(wanted: Sequence[str], words: Sequence[Word]) -> bool:
    """Whether the wanted words may stand among `words`, in this order."""
    left = iter(words)
    may_be = _program_may_be
    for want in wanted:
        found = next((word for word in left if may_be(word, want)), None)
        if found is None or _is_several(found):
            return found is not None
        may_be = _may_be
    return True


def _follow(wanted: Sequence[str], words: Sequence[Word]) -> bool:
    """Whether the wanted words may come next, but for options and a value of each. Options may come anywhere."""
    left = iter(words)
    for want in wanted:
        after_option = want.startswith("-")
        for word in left:
            if _may_be(word, want):
                if _is_several(word):
                    return True
                break
            is_option = word.text.startswith("-")
            if not (is_option or after_option):
                return False
            after_option = is_option or want.startswith("-")
        else:
            return False
    return True


def _program_may_be(word: Word, want: str) -> bool:
    """`_may_be` for a program, in whatever folder, and however its name is written."""
    name = Word(program(word).casefold(), word.known)
    return _may_be(name, want.rpartition("/")[2].casefold())


def _is_several(word: Word) -> bool:
    """Return whether a shell may make several words of this one."""
    return not word.known and "$" in word.text


def _may_be(word: Word, want: str) -> bool:
    """Whether a shell may make `want` of the word. A variable may be anything, also several words."""
    text = word.text
    if word.known:
        return fnmatchcase(text, want)
    return "$" in text or "{" in text or any(sign in want for sign in "*?[") or fnmatchcase(want, text)
