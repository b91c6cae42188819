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
A shell that reads its commands from its input may run any, and so may `xargs` or an interpreter behind such a program.
Operands are compared as normalised paths, too: `build/` and `x/../build` are `build`.

A pattern is about programs and their arguments, not about the effect that a program has.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import filter as filter_names, fnmatchcase
from functools import cache, lru_cache
from typing import NamedTuple

from .forms import ASKING, Form, deny_table, escaped, forms, matches, program, read, spelled_words
from .lexer import MAX_DEPTH, Word
from .parser import TEXTS, Redirection, SimpleCommand, is_data

_ADDED = Word("$()", False)  # a word that `xargs` takes from its input
_variable = re.compile(r"\$(?:\{[^{}]*\}|\(\)|\w+|[@*#?$!-])|\{[^{}]*\}")
_code_word = re.compile(r"[^\s'\"()\[\]{},;|&<>=`!:+@]+").findall
# The readings of a text by a shell, without its quotes: an expansion may be any part of a word, or several words.
_expansions = (
    (re.compile(r"\$\{[^}]*\}|\$\w+|\$'(?:[^'\\]|\\.)*'|(?<=bin/)[*?]|(?<=bin/\w)[*?]"), "\0"),
    (re.compile(r"\$\([^()]*\)|`[^`]*`|\$\{[^}]*\}|\$\w+"), "\0"),
    (re.compile(r"\$\{\w*:?[-=+?]?|\$\w+|[:;@+\n\t][ \t]*-+|(?<=/git)-"), " "),  # also `;-rm` of make, and `git-push`
)
_quote = re.compile(r"['\"]|\\\n?")
_open = str.maketrans("*?\0", ",,*")  # other wildcards than NUL are those of another language
_unknown = re.compile(r"(?:\A|[;&|\n{])[ \t(]*(?:\0{2,}|\0[ \t]+[\w./-])").search
_executed = re.compile(r"\A(?:.*/)?[\d$]*e(.+)").findall  # by sed: `1egit push`
_names_input = re.compile(r"/(?:dev|proc)/|-\Z").search
_option = re.compile(r"\A(?:--[\w-]+|-\w+)").findall
_bracket = re.compile(r"\[.*\]")
_shell_for = re.compile(r"-[A-Za-z]*[si][A-Za-z]*|--shell|--login").fullmatch
# `find -exec {}` and `fd -x {}` run the files that they find, also behind programs that run others, or by git.
_runs_found = re.compile(
    r"\0(?:-exec|-execdir|-ok|-okdir|-x|-X|--exec|--exec-batch)\0"
    r"(?:(?:/[^\0]*/)?(?:env|timeout|nice|nohup|time|setsid|stdbuf|ionice|chrt|taskset|command|exec|sudo|doas)\0"
    r"(?:[-\d](?!-?exec|ok|[xX]\0)[^\0]*\0|[A-Za-z_]\w*=[^\0]*\0)*)*(?:git\0)?[^\0\s=]*\{[./]*\}"
).search
_NOTHING = frozenset(SimpleCommand((Word(name),)) for name in ("true", "false", ":"))
_TAKING_INPUT = frozenset(("filter", "data"))
_ANYWHERE = ("-", "+", ":")  # the beginnings of words that have no place among others
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
    if command._replace(fed=False) in _NOTHING:
        return None
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
    if not wanted or wanted == ["*"]:
        return bool(wanted)
    if any(_loads(word) for word in (*command.assignments, *command.words)):
        return True
    acts, (runs, among) = _acts(*wanted), _running(command)
    return any(_may_match(act, words) for act in acts for words in runs) or _occur_in(acts, among)


@lru_cache
def _acts(first: str, *others: str) -> Sequence[Sequence[str]]:
    """Return the wanted words, and those of other names of the act. Each short option is a word."""
    name = first.rpartition("/")[2].casefold()
    words = tuple(_one_by_one(name, others))
    names = deny_table()["npm"].split() if name == "npm" and words else ()
    found = [(name, *words), *((name, each, *words[1:]) for each in names if _is_npm(words[0], each))]
    for words in found:  # which grows
        for names, *more in ([side.split(" | ") for side in row.split(" > ")] for row in deny_table()["acts"]):
            for left in (left for act in names for left in _without(act.split(), words)):
                renamed = ((*act.removesuffix(" *").split(), *left) for side in (names, *more) for act in side)
                found += [each for each in renamed if len(each) <= len(found[0]) + 2 and each not in found]
    return found


def _is_npm(text: str, name: str) -> bool:
    """Return whether npm takes the text for the name of a command: `pu` for `publish`, `distTag` for `dist-tag`."""
    text = re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", text)
    return text == name or (bool(text) and text not in deny_table()["npm"].split() and name.startswith(text))


def _without(act: Sequence[str], words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the words that are left without those of the act, if it is there."""
    is_program = fnmatchcase(act[0], words[0])
    left = sorted(words, key=lambda word: word.startswith(_ANYWHERE)) if is_program else []
    for name in act:
        places = left if name.startswith(_ANYWHERE) else left[:1]
        same = next((word for word in places if fnmatchcase(name, word) or name in ("*", *_twins(act[0], word))), None)
        if same is None:
            return
        if name != "*":
            left.remove(same)
    yield left


def _running(command: SimpleCommand) -> tuple[Sequence[_Words], Sequence[Word]]:
    """Return the commands that may run, `$()` for one that is not known, and the words that another may have."""
    words, runs = command.words, list[_Words]()
    assigned = [word for each in command.assignments for word in _code(each)]
    for _ in range(MAX_DEPTH if words else 0):
        runs += [words, (_ADDED,)] if _runs_unread(words, command.given) else [words]
        reading = read(words)
        if reading.form and reading.form.has("script"):
            script = (at for at, word in enumerate(words) if at and not word.text.startswith(("-", "+")))
            runs += [words[at:]] if (at := next(script, 0)) else []
        if reading.problem or reading.at == len(words):
            break
        words = words[reading.at :]
        if reading.form and reading.form.has("input"):
            words = (*(each for word in words for each in _filled(word)), _ADDED)
    if is_data(words):
        return runs, [*words[:1], *assigned] if words else []
    if _reads_within(words, command):
        runs.append((_ADDED,))
    options = [each for word in words for each in deny_table()["running"].get(program(word), "").split()]
    return runs, [*(each for word in _with_values(words, options) for each in (word, *_code(word))), *assigned]


def _filled(word: Word) -> Sequence[Word]:
    """Return the word as `xargs` may fill it, behind its option: `-O{}`."""
    if "{" not in word.text and word.text not in ("%", "@"):
        return (word,)
    return (*(Word(option) for option in _option(word.text)), _ADDED)


def _reads_within(words: _Words, command: SimpleCommand) -> bool:
    """Return whether a program among the words may run what it reads: a shell, and with input others."""
    is_named = any(_names_input(word.text) for word in words)
    kinds = {"script", "input", "reads" if is_named else ""} if command.fed else {"shell"}
    others = {*deny_table()["later"].split(), *deny_table()["openers"]} if command.fed else ()
    begin = "" if command.guessed else "\0-x"  # `find -exec sh -c {}`
    if _runs_found("\0".join((begin, *(word.text for word in words)))):
        return True
    open_words = (word for word in words if not word.literal and (word is words[0] or "bin/" in word.text))
    if command.fed and any(filter_names(_interpreters(), _open_name(word).casefold()) for word in open_words):
        return True
    for at, word in enumerate(words[1:], 1):
        name = program(word).casefold()
        found = kinds & form.traits if (form := forms().get(name)) else set[str]()
        if found & {"input", "reads"} or ((found or name in others) and _runs_unread(words[at:], command.given)):
            return True
        if command.fed and _names_interpreter(word.text):
            return True
    return False


@cache
def _interpreters() -> Sequence[str]:
    return [name for name, form in forms().items() if form.traits & {"script", "input"}]


def _names_interpreter(text: str) -> bool:
    """Return whether the value of an option in the word may be an interpreter: `--filter=sh`, `exec=sh`, `-Ish`."""
    letters = dict.fromkeys(text[1:]) if text.startswith("-") else ()
    values = (*text.split("=")[1:], *(text.partition(letter)[2] for letter in letters))
    found = (forms().get(value.rpartition("/")[2].casefold()) for value in values)
    return any(form is not None and form.asked for form in found)


@lru_cache(maxsize=100)
def _code(word: Word) -> Sequence[Word]:
    """Return the words of a text that may be code, as they are and as a shell may read them."""
    texts = {word.text: None} | {_quote.sub("", each.sub(by, word.text)): None for each, by in _expansions}
    words = (each for text in texts for part in _code_word(text) for each in (part, *_executed(part)))
    found = (Word(each.translate(_open), False) if "\0" in each else Word(each) for each in words)
    unknown = [Word("$()", False)] if any(map(_unknown, texts)) else []
    return [each for each in found if each.text.strip("*") and each.text != word.text] + unknown


def _may_match(wanted: Sequence[str], words: _Words) -> bool:
    """Return whether a command of these words may itself match."""
    first, *others = words
    command = "".join(wanted[1:2]) or "*"
    if wanted[0] == "git" and _program_may_be(first, f"git-{command}"):
        return _is_several(first) or _follow("git", wanted[1:], [Word(command), *others])
    return _program_may_be(first, wanted[0]) and (_is_several(first) or _follow(program(first), wanted[1:], others))


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
    if not (reading.problem and form):
        return False
    if form.has("input") or (form.key in ("git", "git config") and _may_be_alias(words)):
        return True
    if form.has("reads"):
        return any(_names_input(word.text) for word in words[1:])
    return form.has("script") and _reads_input(form.code, words, reading.at)


def _may_be_alias(words: _Words) -> bool:
    """Return whether git gets options of which it may have an alias, or programs, that are not among its words."""
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in ("-c", "-C", "--config-env", "--git-dir", "--work-tree", "--namespace") else 1
    texts = [word.text for word in words[1:at]]
    texts += [word.text for word in words[at:]] if at < len(words) and words[at].text == "config" else []
    unknown = any(text.casefold().startswith(("include", "--config-env", "--exec-path=")) for text in texts)
    return unknown or (at < len(words) and at > 1 and f"git {words[at].text}" not in forms())


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


def _occur_in(acts: Sequence[Sequence[str]], words: Sequence[Word]) -> bool:
    """Return whether the words of an act may occur among `words`: its program, and behind it the others."""
    for name in {act[0] for act in acts}:
        places = (at for at, word in enumerate(words) if _program_may_be(word, name))
        at = next((at for at in places if words[at].literal or _is_open(words[at], name)), len(words))
        if at < len(words) and _is_several(words[at]):
            return True
        for act in (act for act in acts if act[0] == name and at < len(words)):
            opened = [each for each in words[at + 1 :] if each.literal or any(_is_open(each, want) for want in act)]
            if _follow(program(words[at]), act[1:], opened, in_place=False):
                return True
    return False


def _is_open(word: Word, want: str) -> bool:
    """Return whether a word that is only known at run time may be `want` as a whole: `$X` may, `$X:/w` may not."""
    return fnmatchcase(want.rstrip("/").rpartition("/")[2], _open_name(word)) or bool(re.search(r"[*?\[]", want))


def _open_name(word: Word) -> str:
    """Return a pattern of the last part of a path that is only known at run time. A variable may have slashes, too."""
    text = word.text.rstrip("/")
    while (less := _variable.sub("\0", text)) != text:
        text = less
    before, variable, rest = _bracket.sub("*", text).rpartition("\0")
    if variable and "/" not in rest and "=" not in before:
        return f"*{rest}"
    return text.replace("\0", "*").rpartition("/")[2]


def _follow(name: str, wanted: Sequence[str], words: Sequence[Word], in_place: bool = True) -> bool:
    """Return whether the wanted words may follow a program: options anywhere, and subcommands in their place.

    In front of a subcommand there may be options, with one value each; in front of an operand anything. Without
    `in_place`, some words may be those of another program, and subcommands are anywhere, too.
    """
    form = forms().get(name)
    words = [word._replace(text=word.text.removesuffix(".__main__")) for word in words]  # of a module of Python
    if name in deny_table()["dashless"].split() and words and words[0].text.isalnum():
        words[0] = words[0]._replace(text=f"-{words[0].text}")
    twins = [_twins(name, want) for want in wanted if want.startswith(_ANYWHERE)]
    if not all(any(_may_be_option(word, each) for word in words for each in same) for same in twins):
        return False
    left = _with_values(words, [each for same in twins for each in same])
    in_place = in_place and (form is None or form.subcommand)
    for want in (want for want in wanted if not want.startswith(_ANYWHERE)):
        after_option = False
        for word in left:
            if _may_be(word, want) or (name == "npm" and _is_npm(word.text, want)):
                if _is_several(word):
                    return True
                break
            is_option = word.text.startswith("-")
            if in_place and not (is_option or after_option):
                return False
            after_option = is_option
        else:
            return False
        name = f"{name} {want}"
        form = forms().get(name) if form else None
        in_place = in_place and form is not None and form.subcommand
    return True


def _with_values(words: Sequence[Word], options: Sequence[str]) -> Iterator[Word]:
    """Yield the words, and behind each the values of these options in it: `-XPOST`, `--request=POST`."""
    for word in words:
        yield word
        for option in options if word.text.startswith("-") else ():
            value = word.text[1:].partition("=" if option.startswith("--") else option[1:])[2]
            if value and _may_be_option(word, option):
                yield from (word._replace(text=value), word)


def _one_by_one(name: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the words, and of short options in one word each, and the value behind one: `-rf`, `-XPOST`, `tar xf`."""
    form = forms().get(name)
    for at, word in enumerate(words):
        text = f"-{word}" if at == 0 and word.isalpha() and name in deny_table()["dashless"].split() else word
        is_bundle = re.fullmatch(r"-[A-Za-z]{2,}", text) and (form is None or form.has("bundles"))
        valued = (at for at, letter in enumerate(text, 1) if form and f"-{letter}" in form.values)
        end = next(valued, len(text)) if is_bundle else 0
        yield from (f"-{letter}" for letter in text[1:end])
        yield from (text[end:],) if text[end:] else ()


@lru_cache
def _twins(name: str, option: str) -> frozenset[str]:
    """Return the option of a program, and others that do the same."""
    rows = (row for names, row in deny_table()["twins"].items() if names == "any" or name in names.split())
    return frozenset({option}.union(*(group.split() for row in rows for group in row if option in group.split())))


def _may_be_option(word: Word, want: str) -> bool:
    """Return whether a word may be the option, with its value, abbreviated, or among other short ones."""
    text = word.text
    if _may_be(word, want) or text.startswith(f"{want}="):
        return True
    if want.startswith("--"):
        return len(text) > len("--") and want.startswith(text.partition("=")[0]) and text.startswith("--")
    wild = "" if word.literal else r"*?\["
    return len(want) == len("-x") and bool(re.match(rf"-[A-Za-z0-9.]*[{re.escape(want[1])}{wild}]", text))


def _program_may_be(word: Word, want: str) -> bool:
    """Return `_may_be` for a program, in any folder and in any case."""
    name, wanted = Word(program(word).casefold(), word.literal), want.rpartition("/")[2].casefold()
    return _may_be(name, wanted) or (not word.literal and fnmatchcase(wanted, _open_name(word).casefold()))


def _is_several(word: Word) -> bool:
    """Return whether a shell may make several words of this one."""
    return not word.literal and ("$" in word.text or word.text.startswith("{"))


def _may_be(word: Word, want: str) -> bool:
    """Return whether a shell may expand the word to `want`, or to the same path. A variable may be several words."""
    is_path = "/" in f"{word.text}{want}" and not want.startswith("-")
    return _is_like(word, want) or (is_path and _is_like(word._replace(text=_plain(word.text)), _plain(want)))


def _is_like(word: Word, want: str) -> bool:
    text = word.text
    if word.literal or "$" in text or "{" in text:
        return not word.literal or fnmatchcase(text, want)
    pattern = _bracket.sub("*", text)  # a shell has classes and `[^a]`, which fnmatch has not
    begins_alike = text[:1] == want[:1] or {*text[:1], *want[:1]} & {*"*?["}
    return fnmatchcase(want, pattern) or (any(char in want for char in "*?[") and bool(begins_alike))


def _plain(path: str) -> str:
    return posixpath.normpath(re.sub("/+", "/", path))
