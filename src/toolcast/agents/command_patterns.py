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

from .shell_commands import SHELLS, USERS_SHELLS, WRAPPERS, Redirection, SimpleCommand, option_c, program
from .shell_words import Word

_DESCRIPTORS = frozenset((">&", "<&"))
_TEXTS = frozenset(("<<", "<<-", "<<<"))
_UNREAD = frozenset(("alias", "hash", "at", "batch", "crontab"))  # what they are told runs later, under other names
_SOURCES = frozenset((".", "source"))
_SHELL_BEHIND = {"ssh": 1, "chroot": 1, "setarch": 1} | dict.fromkeys(
    ("sudo", "doas", "unshare", "nsenter", "linux32", "linux64", "fakeroot", "systemd-run", "screen", "tmux"), 0
)
"""How many words stand behind a wrapper that runs a shell, as it is told no program."""

_harmless_option = re.compile(r"-[abefhkmnpuvxBCEHPT]+").fullmatch
_option_for_shell = re.compile(r"-[A-Za-z]*[si][A-Za-z]*|--shell|--login").fullmatch


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
    if _runs_unread(command):
        return True
    if program(command.words[0]).casefold() in WRAPPERS and _stand_in(wanted, command.words[1:]):
        return True
    return _program_may_be(command.words[0], wanted[0]) and _follow(wanted[1:], command.words[1:])


def _runs_unread(command: SimpleCommand) -> bool:
    """Whether it may run what does not stand in it: a shell that is fed its commands, a name given to others."""
    names = [program(word).casefold() for word in command.words]
    if not names or names[0] in _UNREAD:
        return bool(names)
    if names[0] in _SHELL_BEHIND and _names_no_program(names[1:], _SHELL_BEHIND[names[0]]):
        return True
    wraps = names[0] in WRAPPERS
    if wraps and names[-1] in WRAPPERS - {"xargs"} and {"xargs", "parallel"} & {*names}:  # input says what it runs
        return True
    for place, name in enumerate(names if wraps else names[:1]):
        sources = name in _SOURCES and (not place or names[place - 1] in ("builtin", "command"))
        if sources or name in SHELLS:
            return _is_fed(name, command.words[place + 1 :])
    return False


def _names_no_program(words: Sequence[str], others: int) -> bool:
    """Whether words behind `sudo` and the like hold no program to run, but options and so many others."""
    before = ""
    for word in words:
        if _option_for_shell(word):
            return True
        if not word.startswith("-") and not before.startswith("-"):
            break
        before = word
    return sum(not word.startswith("-") for word in words) <= others


def _is_fed(shell: str, words: Sequence[Word]) -> bool:
    """Whether a shell with these words reads commands from elsewhere than a file or the text behind `-c`."""
    if shell not in _SOURCES and any(option_c(word.text) for word in words):
        return False
    operand = next((word for word in words if not _harmless_option(word.text)), None)
    is_file = operand is not None and operand.known and not operand.text.startswith(("-", "+", "/dev/", "/proc/"))
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
