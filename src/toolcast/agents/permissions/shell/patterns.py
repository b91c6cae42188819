"""Patterns of permission rules for one simple command: "git" is every `git ...`, "npm run *" every `npm run ...`.

A pattern is the first words of a command, each with or without wildcards. It `covers` commands that certainly match:
every word is literal, no variable is assigned, no redirection writes a file. It `forbids` commands that may match: by
another path, with options in between, behind `sudo` or `xargs`, or with a word that is only known when the command
runs. A shell that reads its commands from its input may run any.

A pattern is about programs and their arguments, not about the effect that a program has.
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
_UNREAD = frozenset(("alias", "hash", "at", "batch", "crontab"))  # they run commands later, or under other names
_SOURCES = frozenset((".", "source"))
_wildcard = re.compile(r"[*?\[]").search
_no_option = re.compile(r"(?!)").fullmatch
_harmless_option = re.compile(r"-[abefhkmnpuvxBCEHPT]+").fullmatch
_code_word = re.compile(r"[^\s'\"()\[\]{},;|&<>=`!:+@]+").findall


def covers(pattern: str, command: SimpleCommand) -> bool:
    """Return whether `command` certainly matches `pattern`, and so do the commands that it runs in turn."""
    return covered((pattern,), command)


def covered(patterns: Sequence[str], command: SimpleCommand) -> bool:
    """Return whether one of `patterns` certainly matches `command`, and all of them the commands it runs in turn.

    A pattern covers a program that another one runs only if it contains the word that names it: "git" does not
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
    return all(word.literal and fnmatchcase(word.text, want) for word, want in zip(words, wanted, strict=False))


def _spells(wanted: Sequence[str], launch: Launch) -> bool:
    """Return whether a pattern has, without wildcards, the words that name the programs run, also through others."""
    places = [launch.at, *(launch.at + inner.at for inner in all_launches(launch.words))]
    return max(places) < len(wanted) and not any(_wildcard(wanted[place]) for place in places)


def forbids(pattern: str, command: SimpleCommand) -> bool:
    """Return whether `command` may match `pattern`, or may run a command that does."""
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
    if any(_may_match(wanted, words) for words in (command.words, *(launch.words for launch in found)) if words):
        return True
    written = (tuple(map(Word, _code_word(launch.code))) for launch in found if launch.code)
    return any(_occur_in(wanted, words) for words in written)


def _may_match(wanted: Sequence[str], words: tuple[Word, ...]) -> bool:
    """Return whether a command of these words may itself match."""
    name = program(words[0]).casefold()
    if name in WRAPPERS and _occur_in(wanted, words[1:]):
        return True
    if name.startswith("git-") and _may_match(wanted, as_git(words)):
        return True
    if not _program_may_be(words[0], wanted[0]):
        return False
    return _is_several(words[0]) or _follow(wanted[1:], words[1:])


def _runs_unread(words: Sequence[Word]) -> bool:
    """Return whether it may run commands it does not contain: a shell that reads its input, an alias for others."""
    names = [program(word).casefold() for word in words]
    if not names or names[0] in _UNREAD:
        return bool(names)
    if names[0] in SHELL_BEHIND and names_no_program(names[1:], operands_of(names[0])):
        return True
    wraps = names[0] in WRAPPERS
    if wraps and names[-1] in WRAPPERS - {"xargs"} and {"xargs", "parallel"} & {*names}:  # its input names the program
        return True
    for place, name in enumerate(names if wraps else names[:1]):
        sources = name in _SOURCES and (not place or names[place - 1] in ("builtin", "command"))
        if sources or name in SHELLS:
            return _reads_input(name, words[place + 1 :])
    return False


def _reads_input(shell: str, words: Sequence[Word]) -> bool:
    """Return whether a shell with these words reads commands from elsewhere than a file or the text of `-c`."""
    option = next((place for place, word in enumerate(words) if option_c(word.text)), None)
    if shell not in _SOURCES and option is not None:
        return not all(word.literal for word in words[option + 1 : option + 2]) or option + 1 == len(words)
    harmless = _no_option if shell in FOREIGN_SHELLS else _harmless_option
    operand = next((word for word in words if not harmless(word.text)), None)
    is_file = (
        operand is not None and operand.literal and not (operand.text.startswith(("-", "+")) or is_device(operand.text))
    )
    return not is_file or shell in USERS_SHELLS


def _words_of(pattern: str) -> list[str]:
    """Return the words of a pattern. A last `*` is dropped, as anything may follow a pattern."""
    words = pattern.split()
    while len(words) > 1 and words[-1] == "*":
        words.pop()
    return words


def _writes_nothing(redirection: Redirection) -> bool:
    """Return whether it opens no file: `2>&1`, `>/dev/null`, or text within the command."""
    operator, target = redirection
    if operator in _DESCRIPTORS:
        return target.literal and (target.text.isdecimal() or target.text == "-")
    return operator in _TEXTS or target == Word("/dev/null")


def _leaves_folder(text: str, want: str) -> bool:
    """Return whether a wildcard for a program would match folders: `py*` does not match `py/../evil`."""
    return want != "*" and (text.count("/") != want.count("/") or text.count("..") != want.count(".."))


def _occur_in(wanted: Sequence[str], words: Sequence[Word]) -> bool:
    """Return whether the wanted words may occur among `words`, in this order."""
    left = iter(words)
    may_be = _program_may_be
    for want in wanted:
        found = next((word for word in left if may_be(word, want)), None)
        if found is None or _is_several(found):
            return found is not None
        may_be = _may_be
    return True


def _follow(wanted: Sequence[str], words: Sequence[Word]) -> bool:
    """Return whether the wanted words may come next, options and one value of each aside; options may be anywhere."""
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
    """Return `_may_be` for a program, in any folder and in any case."""
    name = Word(program(word).casefold(), word.literal)
    return _may_be(name, want.rpartition("/")[2].casefold())


def _is_several(word: Word) -> bool:
    """Return whether a shell may make several words of this one."""
    return not word.literal and "$" in word.text


def _may_be(word: Word, want: str) -> bool:
    """Return whether a shell may expand the word to `want`. A variable may be anything, also several words."""
    text = word.text
    if word.literal:
        return fnmatchcase(text, want)
    return "$" in text or "{" in text or any(char in want for char in "*?[") or fnmatchcase(want, text)
