"""Patterns of permission rules for one simple command: "git" is every `git ...`, "npm run *" every `npm run ...`.

A pattern is the first words of a command, each with or without wildcards; quotes join a word with spaces, and `[*]` is
a literal `*`. Anything may follow it, as if it ended in a wildcard.

An allow rule fails closed. The words that its pattern spells are literal. What a wildcard matches, also the implied one
at the end, is covered only if it fits the argument forms of the program (forms.toml), which run, write and configure
nothing that the rule's reader would not expect. So an unknown program, subcommand or option leads to a question.
`uncovered` returns the reason, with the word that was not covered. A command is never covered if it assigns variables,
redirects to or from a file, or has its program's words from somewhere else.

A deny rule matches what may be the command: by another path or name of the act, with options in between, behind `sudo`
or `xargs`, among the words of a program without a fitting form, or as a word that is only known when the command runs.
A shell that reads its commands from its input may run any.

A pattern is about programs and their arguments, not about the effect that a program has.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from .forms import ASKING, Form, deny_table, escaped, forms, is_device, matches, program, read, spelled_words
from .lexer import MAX_DEPTH, Word
from .parser import TEXTS, Redirection, SimpleCommand, is_data

_ADDED = Word("$()", False)  # a word that `xargs` takes from its input
_variable = re.compile(r"\$(?:\{[^{}]*\}|\(\)|\w+|[@*#?$!-])|\{[^{}]*\}")
_code_word = re.compile(r"[^\s'\"()\[\]{},;|&<>=`!:+@]+").findall
_bracket = re.compile(r"\[.*\]")
_shell_for = re.compile(r"-[A-Za-z]*[si][A-Za-z]*|--shell|--login").fullmatch
_TAKING_INPUT = frozenset(("filter", "data"))
_Words = tuple[Word, ...]


class Uncovered(NamedTuple):
    """The word of a command that no pattern covers, and why. `pattern` matches the first words of the command."""

    pattern: str
    word: str
    why: str


def covers(pattern: str, command: SimpleCommand) -> bool:
    """Return whether `command` certainly matches `pattern`, in every word."""
    return uncovered((pattern,), command) is None


def uncovered(patterns: Sequence[str], command: SimpleCommand) -> Uncovered | None:
    """Return why none of `patterns` covers the command; None if one does.

    A program that another one runs needs a pattern as well: "timeout" and "pytest" cover `timeout 60 pytest -x`
    together, "timeout 60 pytest" covers it alone.
    """
    closest = Uncovered("", "", "no rule is about this command")
    most = -1
    for pattern in patterns:
        wanted = words_of(pattern)
        words = command.words
        found = len(words) >= len(wanted) > 0
        pairs = zip(words, wanted, strict=False)
        if not found or not all(w.literal and (wanted == ["*"] or matches(w.text, want)) for w, want in pairs):
            continue
        open_end = ["*"] if pattern.endswith(" *") else []
        if (missing := _missing(patterns, command, wanted + open_end)) is None:
            return None
        if (spelled := len(spelled_words(words, wanted))) > most:
            most, closest = spelled, Uncovered(pattern, *missing)
    return closest


def literal_pattern(command: SimpleCommand) -> str | None:
    """Return the pattern that covers this command literally, if there is one."""
    if not all(word.literal for word in command.words):
        return None
    pattern = shlex.join(escaped(word.text) for word in command.words)
    return pattern if covers(pattern, command) else None


def form_pattern(command: SimpleCommand) -> str | None:
    """Return the pattern of the program and its subcommands, if it covers this command and changes nothing."""
    # `git --version` says nothing of other commands of git.
    has_form = command.words and command.words[-1].text not in ASKING
    form = read(command.words, 0, [escaped(command.words[0].text)]).form if has_form else None
    if form is None or form.subcommand or form.has("changes") or form.has("script"):
        return None
    words = command.words[: form.key.count(" ") + 1]
    pattern = " ".join(escaped(word.text) for word in words)
    own = forms().get(" ".join([form.key.split()[0], *(word.text for word in words[1:])]))
    return pattern if own is form and covers(pattern, command) else None


def _missing(patterns: Sequence[str], command: SimpleCommand, wanted: Sequence[str]) -> tuple[str, str] | None:
    """Return the first word that the `wanted` words do not spell and that does not fit its form, and why, if any."""
    words, start = command.words, 0
    if command.assignments:
        return command.assignments[0].text, "it assigns a variable"
    for each in command.redirections:
        if not _writes_nothing(each):
            return f"{each.operator} {each.target.text}", "it redirects to or from a file"
    if wanted == ["*"]:
        return None
    spelled = spelled_words(words, wanted)
    if 0 not in spelled and wanted[0] != words[0].text:  # `[` is not escaped
        return words[0].text, "a rule has to spell the program"
    is_bare = len(words) == 1 and (form := forms().get(program(words[0]))) is not None and form.has("script")
    if len(spelled) == len(words) and not command.fed and not is_bare:
        return None
    for _ in range(MAX_DEPTH):
        reading = read(words, start, wanted)
        if reading.problem:
            return words[reading.at].text if reading.at < len(words) else words[start].text, reading.problem
        if reading.form and (
            found := _unexpected(reading.form, words[start : reading.at], wanted[start:], command.fed)
        ):
            return found
        if reading.at == len(words):
            return None
        start = reading.at
        if start not in spelled:
            inner = uncovered(patterns, SimpleCommand(words[start:], fed=command.fed))
            return inner and (inner.word or words[start].text, inner.why)
    return words[start].text, "too many programs run one another"


def _unexpected(form: Form, words: _Words, wanted: Sequence[str], fed: bool) -> tuple[str, str] | None:
    """Return a word that does what a reader of the rule would not expect, and why, if there is one."""
    if fed and (words[-1].text in ASKING or not (form.after is not None or form.traits & _TAKING_INPUT)):
        return words[-1].text, f"toolcast does not know what {form.key!r} does with its input"
    if not form.has("changes") or not any(want.startswith("-") for want in wanted):
        return None
    spelled = spelled_words(words, wanted)
    options = (at for at, word in enumerate(words) if word.text.startswith("-") and at not in spelled)
    return next(((words[at].text, "it is another option than those of the rule") for at in options), None)


def forbids(pattern: str, command: SimpleCommand) -> bool:
    """Return whether `command` may match `pattern`, or may run a command that does."""
    wanted = words_of(pattern)
    if wanted == ["*"]:
        return True
    loads = any(_loads(word) for word in (*command.assignments, *command.words))
    return bool(wanted) and (loads or any(_forbids(each, command) for each in _acts(wanted)))


def _acts(wanted: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the wanted words, and the other names of the act that they are about."""
    yield wanted
    for act, others in deny_table()["acts"].items():
        words = act.split()
        if len(words) <= len(wanted) and all(map(fnmatchcase, words, wanted)):
            yield from ([*other.split(), *wanted[len(words) :]] for other in others)


def _forbids(wanted: Sequence[str], command: SimpleCommand) -> bool:
    words, assigned = command.words, [word for each in command.assignments for word in _code(each)]
    if not words:
        return False
    for _ in range(MAX_DEPTH):
        if _may_match(wanted, words) or _runs_unread(words, command.given):
            return True
        reading = read(words)
        if reading.form and reading.form.has("script") and _runs_script(wanted, words):
            return True
        if reading.problem or reading.at == len(words):
            break
        words = words[reading.at :]
        if reading.form and reading.form.has("input"):
            words = (*(_ADDED if "{" in word.text or word.text in "%@" else word for word in words), _ADDED)
    if is_data(words):
        return _occur_in(wanted, [words[0], *assigned])
    among = [each for word in words for each in ([word, *_code(word)] if word.literal else [word])]
    return _occur_in(wanted, [*among, *assigned])


def _runs_script(wanted: Sequence[str], words: _Words) -> bool:
    """Return whether the script that a shell or an interpreter runs may be the denied command."""
    at = next((at for at, word in enumerate(words) if at and not word.text.startswith(("-", "+"))), len(words))
    return at < len(words) and _may_match(wanted, words[at:])


def _code(word: Word) -> list[Word]:
    return [*map(Word, _code_word(word.text.replace(r"\_", " ")))]  # as `env -S` reads it


def _may_match(wanted: Sequence[str], words: _Words) -> bool:
    """Return whether a command of these words may itself match."""
    name = program(words[0]).casefold()
    if name.startswith("git-"):
        words = (Word("git"), Word(name[4:]), *words[1:])
    if not _program_may_be(words[0], wanted[0]):
        return False
    return _is_several(words[0]) or _follow(program(words[0]), wanted[1:], words[1:])


def _runs_unread(words: _Words, given: bool) -> bool:
    """Return whether it may run commands it does not contain: a shell that reads its input, an alias for others."""
    name, table = program(words[0]).casefold(), deny_table()
    if name in table["later"].split():
        return True
    operands = None if given and name == "ssh" else table["openers"].get(name)  # `rsync -e ssh` adds the host
    if operands is not None and _names_no_program([word.text for word in words[1:]], operands):
        return True
    reading = read(words)
    form = reading.form
    if not reading.problem:
        return False
    if form and (form.has("input") or (form.key == "git" and _may_be_alias(words))):
        return True
    if form and form.has("reads") and any(is_device(word.text) or word.text.endswith("-") for word in words[1:]):
        return True
    if form and form.has("script"):
        return _reads_input(form.code, words, reading.at)
    shells = (at for at, word in enumerate(words) if at and _is_shell(word))
    return any(
        (inner := read(words, at)).form and inner.problem and _reads_input(inner.form.code, words, inner.at)
        for at in shells
    )


def _may_be_alias(words: _Words) -> bool:
    """Return whether git gets options of which it may have an alias, or programs, that are not among its words."""
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in ("-c", "-C", "--config-env", "--git-dir", "--work-tree", "--namespace") else 1
    texts = [word.text for word in words[1:at]]
    unknown = any(text.startswith(("include", "--config-env", "--exec-path=")) for text in texts)
    return unknown or (at < len(words) and bool(texts) and f"git {words[at].text}" not in forms())


def _is_shell(word: Word) -> bool:
    form = forms().get(program(word))
    return form is not None and form.has("shell")


def _reads_input(code: str, words: _Words, at: int) -> bool:
    """Return whether an interpreter runs neither a file nor the literal code of the option at this place."""
    if at == len(words) or not re.fullmatch(code, words[at].text):
        return True
    name, text = words[at].text, words[at + 1 : at + 2]
    return not (all(word.literal for word in text) if text else "=" in name or " " in name)


def _names_no_program(words: Sequence[str], operands: int) -> bool:
    """Return whether words behind `sudo` and the like hold no program to run, but options and so many operands."""
    before = ""
    for word in words:
        if _shell_for(word):
            return True
        if not word.startswith("-") and not before.startswith("-"):
            break
        before = word
    return sum(not word.startswith("-") for word in words) <= operands


def _loads(word: Word) -> bool:
    """Return whether `NAME=value` names code that programs load, or a command line that is not known."""
    name, equals, value = word.text.partition("=")
    table = deny_table()
    if not equals or value == "/dev/null":
        return False
    loading = any(fnmatchcase(name, each) for each in table["loading"])
    return loading or (not word.literal and any(fnmatchcase(name, each) for each in table["commands"]))


def words_of(pattern: str) -> list[str]:
    """Return the words of a pattern. A last `*` is dropped, as anything may follow a pattern."""
    try:
        words = shlex.split(pattern) if "'" in pattern or '"' in pattern else pattern.split()
    except ValueError:  # a quote that does not end
        words = pattern.split()
    while len(words) > 1 and words[-1] == "*":
        words.pop()
    return words


def _writes_nothing(redirection: Redirection) -> bool:
    """Return whether it opens no file: `2>&1`, `>/dev/null`, or text within the command."""
    operator, target = redirection
    if operator == ">&":
        return target.literal and target.text in ("1", "2", "-")
    return operator in TEXTS or target == Word("/dev/null")


def _occur_in(wanted: Sequence[str], words: Sequence[Word]) -> bool:
    """Return whether the wanted words may occur among `words`, in this order."""
    left = iter(words)
    may_be = _program_may_be
    for want in wanted:
        found = next((word for word in left if (word.literal or _is_open(word, want)) and may_be(word, want)), None)
        if found is None or _is_several(found):
            return found is not None
        may_be = _may_be
    return True


def _is_open(word: Word, want: str) -> bool:
    """Return whether a word that is only known at run time may be `want` as a whole: `$X` may, `$X:/w` may not."""
    return fnmatchcase(want.rpartition("/")[2], _open_name(word)) or bool(re.search(r"[*?\[]", want))


def _open_name(word: Word) -> str:
    """Return a pattern of the last part of a path that is only known at run time. A variable may have slashes, too."""
    text = word.text
    while (less := _variable.sub("\0", text)) != text:
        text = less
    before, variable, rest = _bracket.sub("*", text).rpartition("\0")
    if variable and "/" not in rest and "=" not in before:
        return f"*{rest}"
    return text.replace("\0", "*").rpartition("/")[2]


def _follow(name: str, wanted: Sequence[str], words: Sequence[Word]) -> bool:
    """Return whether the wanted words may follow a program: options anywhere, and subcommands in their place.

    In front of a subcommand there may be options, with one value each; in front of an operand anything.
    """
    form = forms().get(name)
    for each in (each for want in wanted if want.startswith("-") for each in _options(want, form)):
        if not any(_may_be_option(word, twin) for word in words for twin in _twins(each)):
            return False
    left, in_place = iter(words), form is None or form.subcommand
    for want in (want for want in wanted if not want.startswith("-")):
        after_option = False
        for word in left:
            if _may_be(word, want):
                if _is_several(word):
                    return True
                break
            is_option = word.text.startswith("-")
            if in_place and not (is_option or after_option):
                return False
            after_option = is_option
        else:
            return False
        if form is not None:
            name = f"{name} {want}"
            form = forms().get(name)
            in_place = form is not None and form.subcommand
    return True


def _options(want: str, form: Form | None) -> Iterator[str]:
    """Yield the option that is wanted, or the short ones that are in one word."""
    is_bundle = re.fullmatch(r"-[A-Za-z]{2,}", want) and (form is None or form.has("bundles"))
    yield from (f"-{letter}" for letter in want[1:]) if is_bundle else (want,)


def _twins(option: str) -> list[str]:
    """Return the option, and others that do the same."""
    return next((group.split() for group in deny_table()["twins"] if option in group.split()), [option])


def _may_be_option(word: Word, want: str) -> bool:
    """Return whether a word may be the option, with its value, abbreviated, or among other short ones."""
    text = word.text
    if _may_be(word, want) or text.startswith(f"{want}="):
        return True
    if want.startswith("--"):
        return len(text) > len("--") and want.startswith(text.partition("=")[0]) and text.startswith("--")
    wild = "" if word.literal else r"*?\["
    return len(want) == len("-x") and bool(re.match(rf"-[A-Za-z]*[{re.escape(want[1])}{wild}]", text))


def _program_may_be(word: Word, want: str) -> bool:
    """Return `_may_be` for a program, in any folder and in any case."""
    name, wanted = Word(program(word).casefold(), word.literal), want.rpartition("/")[2].casefold()
    return _may_be(name, wanted) or (not word.literal and fnmatchcase(wanted, _open_name(word).casefold()))


def _is_several(word: Word) -> bool:
    """Return whether a shell may make several words of this one."""
    return not word.literal and ("$" in word.text or word.text.startswith("{"))


def _may_be(word: Word, want: str) -> bool:
    """Return whether a shell may expand the word to `want`. A variable may be anything, also several words."""
    text = word.text
    if word.literal:
        is_path = text.startswith("./") and not want.startswith("-")
        return fnmatchcase(text, want) or (is_path and fnmatchcase(text[2:], want))
    pattern = _bracket.sub("*", text)  # a shell has classes and `[^a]`, which fnmatch has not
    return "$" in text or "{" in text or any(char in want for char in "*?[") or fnmatchcase(want, pattern)
