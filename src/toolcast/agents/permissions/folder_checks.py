"""Checks of the folders in which commands run: links, repositories, files in place of programs and of options.

A rule is about words, and words name files. So an allow rule that covers a command line is followed by this look at the
folders in which the line runs, which returns why a person is asked after all. Behind a command that moves files or
brings others, such as `mv` or `git checkout`, the look is too early: what the words of the others name is not known.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from .protected_paths import LONGEST, leads_out, protected_name, resolved_path, word_texts
from .shell.forms import escaped, forms, program, read
from .shell.lexer import Word
from .shell.parser import SimpleCommand
from .shell.patterns import words_of

_WITH_REMOTES: Final = frozenset(("fetch", "pull", "push", "ls-remote", "remote"))
"""Subcommands of git whose first operand may be a remote; of `remote`, that of its own subcommand."""
_GOING: Final = frozenset(("cd", "pushd"))
"""Programs that go into the folder behind them."""
_WITH_FOLDER: Final = frozenset(("git", "env", "sudo"))
"""Programs that go into the folder behind an option, and run another program."""
_MOST_FOLDERS: Final = 20
"""The maximum number of folders into which one command line goes."""

_deep = re.compile(r"-[A-Za-z]*[rRa]|--(?:rec|arch)").match  # of cp


def folders_of(listed: Sequence[SimpleCommand], start: str) -> list[str]:
    """Return the folder `start`, and those into which commands go: each as seen from there, and from the one before.

    Raises `ValueError` for too many.
    """
    found = {start: None}
    for command in listed:
        texts = [word.text for word in command.words]
        goes, has_option = not _GOING.isdisjoint(texts), not _WITH_FOLDER.isdisjoint(map(program, command.words))
        for before, text in pairwise((*texts, "~") if texts[-1:] == ["cd"] else texts):
            if (has_option and before in ("-C", "--chdir")) or (goes and not text.startswith("-")):
                path = os.path.expanduser(text[:LONGEST])
                found |= dict.fromkeys(resolved_path(path, each) for each in (start, [*found][-1]))
        if len(found) > _MOST_FOLDERS:
            raise ValueError("it goes through too many folders")
    return [*found]


def reason_to_ask(
    listed: Sequence[SimpleCommand], patterns: Sequence[str], folders: Sequence[str], protected: Sequence[str]
) -> str:
    """Return why commands that rules of these patterns cover need an approval in one of the folders, if they do."""
    rules, movers, listed = [words_of(pattern) for pattern in patterns], _Movers(listed), [*dict.fromkeys(listed)]
    if reason := _moved(listed, movers, rules):
        return reason
    for folder in folders:
        here = listed if os.path.isdir(folder) else ()  # noqa: PTH112  # a text is wanted
        if way := _leading_out(here, rules, folder, protected):
            return f"{way!r:.200} leads out of the working folder, or to a protected path, by a link"
        if name := next(filter(None, (_file_run(each, folder) for each in here if each.words)), ""):
            return f"{name!r:.200} is a file or folder here, which would run in place of the program"
        if reason := _repository_met(listed, movers, folder) or _option_met(here, folder):
            return reason
    return ""


def words_named(words: Sequence[Word], root: str) -> Iterator[Word]:
    """Yield words, and what `cp a/x folder` names by two of them: `folder/x`, and `folder/a/x`."""
    yield from (words := tuple(dict.fromkeys(words)))  # each once, as they are combined
    for folder in words:
        if os.path.isdir(os.path.join(root, folder.text)):  # noqa: PTH112, PTH118  # a text is wanted
            for word in (each for each in words if each is not folder):
                for name in {word.text, word.text.rstrip("/").rpartition("/")[2]}:
                    yield Word(f"{folder.text}/{name}", word.literal)


class _Movers:
    """The commands of a line that move files or bring others, by their programs, and subcommands of git."""

    def __init__(self, listed: Sequence[SimpleCommand]) -> None:
        named = ((each, _moves(each.words)) for each in listed if each.words)
        self._first = [*islice(((each, name) for each, name in named if name), 2)]

    def beside(self, command: SimpleCommand) -> str:
        """Return the name of one beside `command`. The order does not count, as loops and `&` change it."""
        return next((name for each, name in self._first if each is not command), "")


def _moves(words: Sequence[Word]) -> str:
    """Return the word of a command that makes it one that moves files, if there is one."""
    programs = [*map(program, words)]
    names = (*programs, *(f"git {word.text}" for word in (words if "git" in programs else ())))
    if name := next((each for each in names if each in forms() and forms()[each].has("moves")), ""):
        return name
    # A program without a form may do anything.
    return "" if programs[0] in forms() or programs[0] in _GOING else programs[0]


def _moved(listed: Sequence[SimpleCommand], movers: _Movers, rules: Sequence[Sequence[str]]) -> str:
    """Return why a word may be another file than the folder shows, once another command of the line has run."""
    for command in listed:
        if not (mover := movers.beside(command)) or command.given or not command.words:
            continue
        form = read(command.words).form
        programs = {*map(program, command.words)}
        if runner := next(
            (key for key, each in forms().items() if each.has("files") and {*key.split()} <= programs), ""
        ):
            return f"a file or folder may run in place of the program behind {runner!r}, once {mover!r} has run"
        if "git" in programs or (form and (form.has("data") or (form.has("changes") and not form.has("alike")))):
            continue  # it names no files, or runs what the folder has in any case
        spelled = _spelled(command, rules)
        for word in command.words:
            is_open = not word.literal or mover not in ("cp", "mv")
            if is_open and not word.text.startswith("-") and escaped(word.text) not in spelled:
                return f"{word.text!r:.200} may be another file once {mover!r} has run"
    return ""


def _spelled(command: SimpleCommand, rules: Sequence[Sequence[str]]) -> set[str]:
    """Return the words of the rules for this command. A rule for one that reads does not apply to one that writes."""
    names = [escaped(word.text) for word in command.words]
    return {word for words in rules if words[0] in names for word in words}


def _file_run(command: SimpleCommand, root: str) -> str:
    """Return the program that a command such as `uv run` has behind it, if a file or folder of this name is run."""
    words, at = command.words, 0
    while not (reading := read(words, at)).problem and at < reading.at < len(words):
        at = reading.at
        if reading.form and reading.form.has("files") and _is_file(words[at].text, root):
            return words[at].text
    return _file_behind(words[at:], root) if reading.problem else ""


def _file_behind(words: Sequence[Word], root: str) -> str:
    """Return the word that `_file_run` does, behind options that no row has, each of which may have a value."""
    runners = [tuple(name.split()) for name, form in forms().items() if form.has("files")]
    heads, is_next = set[str](), False
    for before, text in pairwise(word.text for word in words):
        heads.add(program(Word(before)))
        if is_next and not text.startswith("-"):
            if _is_file(text, root):
                return text
            is_next = before.startswith("-") and "=" not in before
        is_next = is_next or any(head in heads and text == verb for head, verb in runners)
    return ""


def _repository_met(listed: Sequence[SimpleCommand], movers: _Movers, place: str) -> str:
    """Return why git may run programs that other files than those in `.git` name, if it may.

    Without a `.git` it takes a folder with HEAD and refs for its repository, or one above it, and where no remote has
    a name, a file or folder of this name for the remote.
    """
    for command in listed:
        programs = [*map(program, command.words)]
        if (at := next((at for at, name in enumerate(programs) if name in ("git", "go")), None)) is None:
            continue
        mover, config = movers.beside(command), ""
        for folder in (Path(place), *Path(place).parents):
            has = {name for name in ("HEAD", "refs", "commondir", ".git", ".hg") if os.path.lexists(folder / name)}
            if "HEAD" in has and has & {"refs", "commondir"}:
                return f"{str(folder)!r:.200} is a repository without '.git', whose configuration git would follow"
            if ".hg" in has and programs[at] == "go":
                return f"{str(folder)!r:.200} is a repository of Mercurial, whose configuration go would follow"
            if ".git" in has:
                with suppress(OSError):  # a file, in another working tree
                    config = (folder / ".git" / "config").read_text("utf-8", "replace")
                break
            if mover and programs[at] == "git":
                return f"{str(folder)!r:.200} may be a repository without '.git' once {mover!r} has run"
        for name in _remotes([word.text for word in command.words[at:]]):
            may_be = mover or _is_file(name, place) or _is_file(f"{name}.git", place)
            if may_be and not re.search(rf'^\[remote "{re.escape(name)}"\]\s+url = \S', config, re.MULTILINE):
                return f"{name!r:.200} may be a file or folder here, which git may take for the remote"
    return ""


def _remotes(texts: Sequence[str], key: str = "git") -> Iterator[str]:
    """Yield the words of a git command that may name a remote: its first operand, and values in front of it."""
    form = forms().get(key)
    for before, at in zip(texts, range(1, len(texts)), strict=False):
        text = texts[at].removeprefix("--repo=")
        if text.startswith("-"):
            continue
        if key == "git remote" or (key == "git" and text in _WITH_REMOTES):
            yield from _remotes(texts[at:], f"{key} {text}")
        elif key != "git" and not text.startswith((".", "/")):  # such as `../x.git`, which can only be a path
            yield text
        if not before.startswith("-") or (form and before in form.flags):
            return


def _option_met(listed: Sequence[SimpleCommand], root: str) -> str:
    """Return why a wildcard may be an option, if a file that it matches has the name of one, or may get it."""
    lines = [[word.text for word in each.words] for each in listed]
    made = [text.rpartition("/")[2] for texts in lines for text in texts if "/-" in text or "--" in texts[:-1]]
    starting = (word.text for each in listed for word in each.words if word.text.startswith("*") and not word.literal)
    for text in starting:
        found = glob.iglob(f"-{text}", root_dir=root)  # noqa: PTH207  # a text is wanted
        if name := next(iter((*found, *(each for each in made if each != "--" and fnmatchcase(each, f"-{text}")))), ""):
            return f"{name!r:.200} may be a file here, which the wildcard makes an option"
    return ""


def _is_file(name: str, root: str) -> bool:
    return os.path.exists(os.path.join(root, name))  # noqa: PTH110, PTH118  # a text is wanted


def _leading_out(
    listed: Sequence[SimpleCommand], rules: Sequence[Sequence[str]], root: str, protected: Sequence[str]
) -> str:
    """Return a word that no rule spells and that is a path in the folder `root`, from which a link leads out of it.

    A recursive copy also goes through the links in folders, out of it or to protected paths; a move takes them along.
    """
    for command in listed:
        spelled, programs = _spelled(command, rules), {*map(program, command.words)}
        copies = "mv" in programs or ("cp" in programs and any(_deep(word.text) for word in command.words))
        for word in words_named(command.words[1:], root):
            texts = () if escaped(word.text) in spelled else word_texts(word.text)
            if copies and texts and _has_links(word.text, root, protected):
                return word.text
            if found := next((text for text in texts if leads_out(text, root)), ""):
                return found
    return ""


def _has_links(folder: str, root: str, protected: Sequence[str]) -> bool:
    """Return whether it is a folder with links that lead out of `root`, or to protected paths."""
    below = f"{folder.rstrip('/')}/**/*"
    is_folder = os.path.isdir(os.path.join(root, folder))  # noqa: PTH112, PTH118  # a text is wanted
    return is_folder and (leads_out(below, root) or protected_name(below, protected, root) is not None)
