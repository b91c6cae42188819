"""Checks of the folders in which commands run: links, repositories, files in place of programs and of options.

A rule is about words, and words name files. So an allow rule that covers a command line is followed by this look at the
folders in which the line runs, which returns why a person is asked after all. It is a look before the line: where one
command moves files or brings others, as `mv` and `git checkout` do, the others may use no words for files, and a line
goes into another folder at its beginning alone.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from .protected_paths import LONGEST, has_links, leads_out, links_below, protected_name, resolved_path, word_texts
from .shell.forms import Form, Reading, forms, matches, program, read, spelled_words
from .shell.lexer import Word
from .shell.parser import SimpleCommand
from .shell.patterns import words_of

_WITH_REMOTES: Final = frozenset(("fetch", "pull", "push", "ls-remote", "remote"))
"""Subcommands of git whose first operand may be a remote; of `remote`, that of its own subcommand."""
_GOING: Final = frozenset(("cd", "pushd"))
"""Programs that go into the folder behind them."""
_WITH_FOLDER: Final = frozenset(("git", "env", "sudo", "uv", "poetry"))
"""Programs that go into the folder behind an option, and run another program."""
_FOLDER_OPTIONS: Final = frozenset(("-C", "--chdir", "--directory"))
_COPYING: Final = frozenset(("cp", "mv"))
_PAIRING: Final = _COPYING | {"diff"}
"""Programs that look for what one operand names in the folder of another."""
_MOST_FOLDERS: Final = 20
"""The maximum number of folders into which one command line goes."""
_MOST_PAIRS: Final = 1_000
"""The maximum number of paths that the words of one command name by two of them."""
_MOST_MATCHES: Final = 1_000
"""The maximum number of paths that are looked at for one wildcard."""
_OTHER_VERSIONING: Final = frozenset((".hg", ".bzr", "_FOSSIL_", ".fslckout"))
"""Files and folders by which go finds another program than git."""

_following: Final = {
    **dict.fromkeys(("mv", "diff"), re.compile(r"").match),
    "cp": re.compile(r"-[^-]*[rRaL]|--(?:rec|arch|deref)").match,
    "rg": re.compile(r"-[^-]*L|--follow").match,
    **dict.fromkeys(("grep", "egrep", "fgrep"), re.compile(r"-[^-]*R|--deref").match),
}
"""Options with which a program goes through the links below a folder, or takes them to another place."""


def folders_of(listed: Sequence[SimpleCommand], start: str) -> list[str]:
    """Return the folder `start`, and those into which commands go: each as seen from there, and from the one before.

    Raises `ValueError` for too many.
    """
    found = {start: None}
    for command in listed:
        texts = [word.text for word in command.words]
        goes, has_option = _goes(command), not _WITH_FOLDER.isdisjoint(map(program, command.words))
        texts = [piece for text in texts for piece in _option_pieces(text, has_option)]
        for before, text in pairwise((*texts, "~") if texts[-1:] == ["cd"] else texts):
            if (has_option and before in _FOLDER_OPTIONS) or (goes and not text.startswith("-")):
                path = os.path.expanduser(text[:LONGEST])
                found |= dict.fromkeys(resolved_path(path, each) for each in (start, [*found][-1]))
        if len(found) > _MOST_FOLDERS:
            raise ValueError("it goes through too many folders")
    return [*found]


def _option_pieces(text: str, has_option: bool) -> Sequence[str]:
    """Return `--directory=x` as two words."""
    name, equals, value = text.partition("=")
    return (name, value) if has_option and equals and name in _FOLDER_OPTIONS else (text,)


def reason_to_ask(
    texts: Sequence[str],
    listed: Sequence[SimpleCommand],
    patterns: Sequence[str],
    folders: Sequence[str],
    protected: Sequence[str],
) -> str:
    """Return why the commands of `texts`, which rules of these patterns cover, need an approval after all, if they do.

    `folders` are those in which they may run, the first of which is the working folder.
    """
    rules, changes = [words_of(pattern) for pattern in patterns], _Changes(listed, folders)
    if reason := "" if ["*"] in rules else _gone(texts, listed, folders) or _changed(listed, changes, rules):
        return reason
    listed = [*dict.fromkeys(listed)]
    if name := next(filter(None, (_shadowed(each, folders[0]) for each in listed)), ""):
        return f"{name!r:.200} is in the working folder, and would run in place of another program of that name"
    copies = [each.words for each in listed if not _COPYING.isdisjoint(map(program, each.words))]
    copies = [words for words in copies if len(words) - 1 not in _spelled(words, rules)]  # to where no rule says
    if len(listed) > 1 and (name := next(filter(None, (_made(words, folders[0]) for words in copies)), "")):
        return f"{name!r:.200} may be a folder of programs, one of which the line may run"
    for folder in folders:
        here = listed if _is_folder(folder, "") else ()
        if way := _leading_out(here, rules, folder, folders[0], protected):
            return f"{way!r:.200} leads out of the working folder, or to a protected path, by a link"
        if name := next(filter(None, (_replaced(words, folder) for words in copies)), ""):
            return f"{name!r:.200} is a program or a folder here, which would have other contents"
        if name := next(filter(None, (_file_run(each, folder) for each in here if each.words)), ""):
            return f"{name!r:.200} is a file or folder here, which would run in place of the program"
        if reason := _repository_met(listed, changes, folder) or _option_met(here, folder):
            return reason
    return ""


def words_named(words: Sequence[Word], root: str) -> Iterator[Word]:
    """Yield words, and what `cp a/x folder` names by two of them: `folder/x`, and `folder/a/x`."""
    yield from (words := tuple(dict.fromkeys(words)))  # each once, as they are combined
    yield from _pairs(words, root) or ()


def _pairs(words: Sequence[Word], root: str) -> list[Word] | None:
    """Return what words name by two of them; None where they, or the paths of a wildcard, are too many to look at."""
    matches = [(word, _matches(word, root)) for word in words]
    named = [Word(path, word.literal) for word, paths in matches for path in paths]
    folders = [each for each in named if _is_folder(each.text, root)]
    if len(folders) * len(named) > _MOST_PAIRS or any(len(paths) == _MOST_MATCHES for _, paths in matches):
        return None
    return [
        Word(f"{folder.text}/{name}", word.literal)
        for folder in folders
        for word in named
        if word is not folder
        for name in {word.text, word.text.rstrip("/").rpartition("/")[2]}
    ]


def _matches(word: Word, root: str) -> list[str]:
    """Return the word, or the paths that a shell makes of it, up to a number."""
    if word.literal or not any(char in word.text for char in "*?["):
        return [word.text]
    return [*islice(glob.iglob(word.text, root_dir=root), _MOST_MATCHES)]  # noqa: PTH207  # a text is wanted


def _goes(command: SimpleCommand) -> bool:
    """Return whether a shell goes into a folder: also by `command cd x` and `time cd x`."""
    words = command.words
    starts = [at for at, _ in _read_all(words)]
    behind = [at + 1 for at in starts if words[at].text in ("builtin", "command") and at + 1 < len(words)]
    return any(program(words[at]) in _GOING for at in (*starts, *behind))


def _gone(texts: Sequence[str], listed: Sequence[SimpleCommand], folders: Sequence[str]) -> str:
    """Return why a line that goes into another folder is asked about, if it is.

    It may do so once, at its beginning, into one of the working folder. Elsewhere, as in a loop, the folder in which
    the others run is not known. A shell reads `x/..` in a way of its own.
    """
    going = [each for each in listed if _goes(each)]
    if not going:
        return ""
    named = next((word.text for word in going[0].words[1:] if not word.text.startswith("-")), "..")
    leads = [folder for folder in folders if not _is_inside(folder, folders[0])]
    by_link = not os.path.isabs(named) and os.path.normpath(os.path.join(folders[0], named)) not in folders  # noqa: PTH117, PTH118  # a text is wanted
    begins = [text.lstrip().startswith((*_GOING,)) for text in texts]  # of no text, where the command is a list
    if len(going) > 1 or listed[0] is not going[0] or len(begins) > 1 or False in begins:
        return "a line is covered only if it goes into another folder once, at its beginning"
    return (
        "it goes out of the working folder, or through a link" if leads or by_link or ".." in named.split("/") else ""
    )


def _is_inside(path: str, folder: str) -> bool:
    return f"{path}{os.sep}".startswith(folder.rstrip(os.sep) + os.sep)


def _read_all(words: Sequence[Word]) -> Iterator[tuple[int, Reading]]:
    """Yield where each program of a command begins, as `timeout 9 cat x` has two, and its reading."""
    at = 0
    while at < len(words):
        yield at, (reading := read(words, at))
        if reading.problem or reading.at <= at:
            return
        at = reading.at


class _Changes:
    """The programs in a line that change files, as the look at the folders is before them.

    `moves`: one brings files or links that may lead anywhere; `copies`: it moves what has no links; `makes`: it makes
    or deletes.

    Args:
        listed: The commands of the line.
        folders: Where they may run.
    """

    def __init__(self, listed: Sequence[SimpleCommand], folders: Sequence[str]) -> None:
        self._found: dict[str, list[tuple[SimpleCommand, str]]] = {"moves": [], "copies": [], "makes": []}
        for command in listed:
            if (change := _change(command.words, folders)) and len(self._found[change[1]]) < 2:  # one beside each
                self._found[change[1]].append((command, change[0]))

    def beside(self, command: SimpleCommand, *kinds: str) -> str:
        """Return the name of one of these kinds that is not in `command`.

        The order does not count, as loops and `&` change it.
        """
        return next((name for kind in kinds for each, name in self._found[kind] if each is not command), "")


def _change(words: Sequence[Word], folders: Sequence[str]) -> tuple[str, str] | None:
    """Return a program of the command that changes files, and how; None without one.

    One whose form is not known may do anything.
    """
    for at, (end, problem, form) in _read_all(words):
        name = program(words[at])
        if name in _GOING:
            return None
        if form is None:
            return name, "moves"
        name = " ".join([name, *(word.text for word in words[at + 1 : at + len(form.key.split())])])
        is_plain = form.has("changes") and form.has("alike") and not form.key.startswith("git ") and not problem
        if is_plain or _moves_by_git(form, words[at:end]):
            # A link is moved, or one that leads through it is another then.
            given = words[at + 1 :]
            is_open = any(not word.literal or has_links(word.text, folder) for word in given for folder in folders)
            return name, "moves" if is_open else "makes" if is_plain and form.key != "cp" else "copies"
        # `git push origin main` has an operand that a rule has to spell, and no option that may do anything else.
        is_git = form.key.startswith("git ") and not form.subcommand
        is_operand = is_git and end < len(words) and not words[end].text.startswith("-")
        if form.has("moves") or (problem and not is_operand and len(words) > 1):
            return name, "moves"
        if form.has("makes"):
            return name, "makes"
    return None


def _moves_by_git(form: Form, words: Sequence[Word]) -> bool:
    return form.key == "git add" and any(word.text in ("mv", "rm") for word in words)


def _changed(listed: Sequence[SimpleCommand], changes: _Changes, rules: Sequence[Sequence[str]]) -> str:
    """Return why a word may be another file than the folder shows, once another command of the line has run."""
    for command in listed:
        moves, copies = changes.beside(command, "moves"), changes.beside(command, "copies")
        if command.given or not (mover := moves or copies):
            continue
        spelled = _spelled(command.words, rules)
        for at, (end, _, form) in _read_all(command.words):
            if form and form.has("files"):
                return f"a file or folder may run in place of the program behind {form.key!r}, once {mover!r} has run"
            if form and (form.after is not None or _is_apart(form, command.words[at:end])):
                continue
            for place in range(at + (len(form.key.split()) if form else 1), len(command.words)):
                word = command.words[place]
                is_open = moves or not word.literal
                if is_open and place not in spelled and not (form and _names_no_file(form, word)):
                    return f"{word.text!r:.200} may be another file once {mover!r} has run"
    return ""


def _is_apart(form: Form, words: Sequence[Word]) -> bool:
    """Return whether it reads and writes none of the files that its words name, or runs what the folder has anyway."""
    is_git = form.key.startswith("git ") and not _moves_by_git(form, words)
    return is_git or form.has("data") or (form.has("changes") and not form.has("alike"))


def _names_no_file(form: Form, word: Word) -> bool:
    """Return whether the word is an option without a value."""
    is_option = word.literal and word.text.startswith("-") and word.text != "-"
    return is_option and form.option(word.text, _refuse_value) == ("", "")


def _refuse_value(name: str, value: str) -> str:
    return f"{name} has the value {value!r}"


def _spelled(words: Sequence[Word], rules: Sequence[Sequence[str]]) -> set[int]:
    """Return the places of the words that rules spell which match the command, or a program in it."""
    found = set[int]()
    for start, _ in _read_all(words):
        for wanted in rules:
            pairs = [*zip(words[start:], wanted, strict=False)]
            if len(pairs) == len(wanted) and all(word.literal and matches(word.text, want) for word, want in pairs):
                found |= {start + place for place in spelled_words(words[start:], wanted)}
    return found


def _file_run(command: SimpleCommand, root: str) -> str:
    """Return the program that a command such as `uv run` has behind it, if a file or folder of this name is run."""
    words = command.words
    for start, (at, problem, form) in _read_all(words):
        if problem:
            return _file_behind(words[start:], root)
        if form and form.has("files") and at < len(words) and _is_file(words[at].text, root):
            return words[at].text
    return ""


def _shadowed(command: SimpleCommand, root: str) -> str:
    """Return the file of the working folder that a program's name finds in a folder of PATH, before another one.

    Tools of the project, such as pytest, and interpreters are in its environment, `.venv/bin`.
    """
    for start, (_, _, form) in _read_all(command.words):
        name = command.words[start].text
        is_tool = form is None or form.has("script") or form.has("environment")
        found = None if is_tool or "/" in name else shutil.which(name)
        if found and _is_inside(resolved_path(os.path.dirname(found)), resolved_path(root)):  # noqa: PTH120  # a text is wanted
            return found
    return ""


def _made(words: Sequence[Word], root: str) -> str:
    """Return the word by which a program may be copied or moved to a folder of PATH in the working folder."""
    paths = map(resolved_path, os.environ.get("PATH", "").split(os.pathsep))
    folders = [path for path in paths if _is_inside(path, resolved_path(root))]
    for word in words[1:] if folders else ():
        reals = [resolved_path(path, root) for path in _matches(word, root)]
        if any(_is_inside(real, each) or _is_inside(each, real) for real in reals for each in folders):
            return word.text
    return ""


def _replaced(words: Sequence[Word], root: str) -> str:
    """Return the program or folder that `cp` or `mv` replaces: a rule for another command may run it."""
    inner = [path.text for path in _pairs(words[1:], root) or ()]
    paths = [os.path.join(root, text) for text in (*inner, words[-1].text)]  # noqa: PTH118  # a text is wanted
    found = (path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK))  # noqa: PTH113  # likewise
    return next(found, next((text for text in inner if _is_folder(text, root)), ""))


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


def _repository_met(listed: Sequence[SimpleCommand], changes: _Changes, place: str) -> str:
    """Return why git may run programs that other files than those in `.git` name, if it may.

    Without a `.git` it takes a folder with HEAD and refs for its repository, or one above it, and where no remote has
    a name, a file or folder of this name for the remote.
    """
    for command in listed:
        programs = [*map(program, command.words)]
        if (at := next((at for at, name in enumerate(programs) if name in ("git", "go")), None)) is None:
            continue
        change, config = changes.beside(command, "moves", "copies", "makes"), ""
        for folder in (Path(place), *Path(place).parents):
            has = {
                name
                for name in ("HEAD", "refs", "commondir", ".git", *_OTHER_VERSIONING)
                if os.path.lexists(folder / name)
            }
            if "HEAD" in has and has & {"refs", "commondir"}:
                return f"{str(folder)!r:.200} is a repository without '.git', whose configuration git would follow"
            if programs[at] == "go" and (other := next(iter(has & _OTHER_VERSIONING), "")):
                return f"{str(folder / other)!r:.200} makes go run another program than git"
            if ".git" in has and _is_repository(folder / ".git"):
                if _is_elsewhere(folder, place):
                    return f"the repository of {str(folder)!r:.200} is not protected, as its name is not '.git'"
                with suppress(OSError):  # a file, in another working tree
                    config = (folder / ".git" / "config").read_text("utf-8", "replace")
                break
            if change:
                return f"{str(folder)!r:.200} may be a repository without '.git' once {change!r} has run"
        for name in _remotes([word.text for word in command.words[at:]]):
            may_be = change or _is_file(name, place) or _is_file(f"{name}.git", place)
            if may_be and not re.search(rf'^\[remote "{re.escape(name)}"\]\s+url = \S', config, re.MULTILINE):
                return f"{name!r:.200} may be a file or folder here, which git may take for the remote"
    return ""


def _is_elsewhere(folder: Path, place: str) -> bool:
    """Return whether `.git` is a file or link to a repository in the folder by another name than `.git`."""
    git, named = folder / ".git", ".git"
    try:
        if git.is_file():
            named = git.read_text("utf-8", "replace").removeprefix("gitdir:").strip()
        found = resolved_path(named or ".git", str(folder))
    except (OSError, ValueError):
        return True
    return ".git" not in Path(found).parts and (_is_inside(found, place) or _is_inside(found, str(folder)))


def _is_repository(git: Path) -> bool:
    """Return whether a `.git` is one to git, which else looks in the folder above."""
    return not git.is_dir() or (git / "HEAD").exists()


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


def _is_folder(name: str, root: str) -> bool:
    return os.path.isdir(os.path.join(root, name))  # noqa: PTH112, PTH118  # a text is wanted


def _is_file(name: str, root: str) -> bool:
    return os.path.exists(os.path.join(root, name))  # noqa: PTH110, PTH118  # a text is wanted


def _leading_out(
    listed: Sequence[SimpleCommand], rules: Sequence[Sequence[str]], folder: str, root: str, protected: Sequence[str]
) -> str:
    """Return a word that no rule spells and that is a path in the folder `root`, from which a link leads out of it.

    Some programs also go through the links below a folder, out of it or to protected paths; a move takes them along.
    """
    base = resolved_path(root if _is_inside(folder, root) else folder)
    for command in listed:
        words = command.words
        spelled = {words[place].text for place in _spelled(words, rules)}
        programs = [*map(program, words)]
        options = [_following[name] for name in programs if name in _following]
        follows = any(option(word.text) for option in options for word in words)
        operands = [*dict.fromkeys(words[1:])]
        if (pairs := _pairs(operands, folder)) is None and not _PAIRING.isdisjoint(programs):
            return " ".join(word.text for word in words)
        named: list[Word] = [*operands, *(pairs or ())]
        if follows and _searches(words) and not any(_is_folder(each.text, folder) for each in named):
            named.append(Word("."))  # which it searches if it names no other
        for word in named:
            texts = () if word.text in spelled else word_texts(word.text)
            paths = _matches(word, folder) if follows and texts else ()
            if len(paths) == _MOST_MATCHES:  # those that are left may be folders with links
                return word.text
            for path in paths:
                if _has_ways_out(path, folder, base, protected, "mv" not in programs):
                    return word.text
            if found := next((text for text in texts if leads_out(text, folder, base)), ""):
                return found
    return ""


def _searches(words: Sequence[Word]) -> bool:
    return not {"rg", "grep", "egrep", "fgrep"}.isdisjoint(map(program, words))


def _has_ways_out(folder: str, root: str, base: str, protected: Sequence[str], follows: bool) -> bool:
    """Return whether it is a folder with links that lead out of `base`, or to protected paths.

    `follows`: also with links to folders, as those have links of their own.
    """
    if not _is_folder(folder, root):
        return False
    return any(
        not _is_inside(real, base) or protected_name(real, protected) or (follows and _is_folder(real, "/"))
        for real in links_below(os.path.join(root, folder))  # noqa: PTH118  # a text is wanted
    )
