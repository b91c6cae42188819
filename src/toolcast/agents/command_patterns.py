"""Patterns over one simple command: "git" is every `git ...`, "npm run *" every `npm run ...`.

A pattern is words, each with wildcards if need be, and says how a command begins. It is read in two ways. What it
`covers` is sure to be that command: every word is known, nothing is assigned, no file is written by a redirection.
What it `forbids` is what may be that command: under another path, with options in between, behind `sudo` or `xargs`,
or with a word that only shows when it runs.

A pattern speaks of programs and how they are called, and not of what a program does with its words.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from .shell_commands import WRAPPERS, Redirection, SimpleCommand, program
from .shell_words import Word

_DESCRIPTORS = frozenset((">&", "<&"))
_TEXTS = frozenset(("<<", "<<-", "<<<"))


def covers(pattern: str, command: SimpleCommand) -> bool:
    """Whether `command` is sure to be one that `pattern` means."""
    wanted = _words_of(pattern)
    words = command.words
    if not wanted or len(words) < len(wanted) or command.assignments:
        return False
    if not all(map(_writes_nothing, command.redirections)) or _leaves_folder(words[0].text, wanted[0]):
        return False
    return all(word.known and fnmatchcase(word.text, want) for word, want in zip(words, wanted, strict=False))


def forbids(pattern: str, command: SimpleCommand) -> bool:
    """Whether `command` may be one that `pattern` means."""
    wanted = _words_of(pattern)
    if wanted == ["*"]:
        return True
    if not wanted or not command.words:
        return False
    if program(command.words[0]) in WRAPPERS and _stand_in(wanted, command.words[1:]):
        return True
    return _program_may_be(command.words[0], wanted[0]) and _follow(wanted[1:], command.words[1:])


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
    first = any(_program_may_be(word, wanted[0]) for word in left)
    return first and all(any(_may_be(word, want) for word in left) for want in wanted[1:])


def _follow(wanted: Sequence[str], words: Sequence[Word]) -> bool:
    """Whether the wanted words may come next, but for options and a value of each. Options may come anywhere."""
    left = iter(words)
    for want in wanted:
        after_option = want.startswith("-")
        for word in left:
            if _may_be(word, want):
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


def _may_be(word: Word, want: str) -> bool:
    """Whether a shell may make `want` of the word. A variable may be anything, also several words."""
    text = word.text
    if word.known:
        return fnmatchcase(text, want)
    return "$" in text or "{" in text or any(sign in want for sign in "*?[") or fnmatchcase(want, text)
