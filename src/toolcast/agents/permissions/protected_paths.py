"""Protected paths, which no agent may use: keys, credentials, `.env`, the contents of `.git`.

Strategy: a path is checked as it is written and as the file system resolves it (`~`, variables, `..`, links), and
in both, each of its components is compared with a table of names. A component with wildcards is one of them if it
could match. Every form into which a tool, a shell or a file system may turn a text is checked: other cases and Unicode
forms, `%2e`, backslashes, streams (`x:y`), dots at the end, braces, control characters, `file:` addresses.

A mere `*` is not such a name, though it may match one. Where a shell expands a word, the files that it matches are
checked as well, up to `_MOST_MATCHES`. Paths that a program uses without naming them in its arguments, and files that
match a pattern of its own, cannot be checked here.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from errno import ENAMETOOLONG
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from glob import escape, iglob
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

PROTECTED: Final = (
    *(".env", ".env.*", ".git", "git~1", "credentials", "credentials.json", ".git-credentials", ".netrc", "_netrc"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "*.pem", "*.key", "*.ppk"),
    *("*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", ".pgpass", ".npmrc", ".pypirc", ".htpasswd"),
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker"),
    *(".gitconfig", ".hg", ".hgrc", ".curlrc", "_curlrc", ".jq"),  # they run programs, or name files, for others
    *[f"/proc/*/{name}" for name in ("environ", "mem", "cmdline", "maps", "map_files", "fd", "cwd", "root")],
)
"""Names of protected files and folders, in lower case. `git~1` is the short name of `.git`.

Those with `/proc/*/` are protected in the folder of a process alone: its environment, memory, arguments and files.
"""

OPEN: Final = (".env.example", ".env.sample", ".env.template")
"""Names that look protected and contain no secrets: they are made to be published."""

PATH_WORDS: Final = frozenset(
    (
        *("path", "paths", "pathname", "file", "files", "filename", "filenames", "filepath", "filepaths"),
        *("dir", "dirs", "directory", "directories", "folder", "folders", "root", "cwd", "glob", "globs"),
        *("src", "source", "sources", "dst", "dest", "destination", "target", "targets", "from", "to"),
        *("wd", "pwd", "workdir", "workingdir", "workspace", "basedir", "rootdir", "subdir", "dirname", "foldername"),
        *("infile", "outfile", "indir", "outdir", "logfile", "tmpdir", "homedir"),
    )
)
"""Last words of the names of arguments that are paths, but for a number or the word `name` behind them."""

LONGEST: Final = 16_384
"""The maximum length of a path, or of a list of paths in one text, in characters."""

_LONGEST = 4096  # no system opens a longer path
_LONGEST_NAME = 255
_MOST_STEPS = 256  # of brace expansion
_MOST_WILDCARDS = 64  # in a component with wildcards
_MOST_MATCHES = 10_000  # of a path with wildcards
_MOST_PATTERNS = 3  # components with wildcards
_DECODINGS = 3  # of one text, by one program after another
_SCALARS = frozenset((int, float, bool, type(None)))  # which no path is made of

_control = re.compile(r"[\x00-\x1f\x7f]+")
_digits = "0123456789"
_class = re.compile(r"\[[!^]?\]?(?:\[([:.=])[^][/]*\1\]|\\.|[^]\\/])*\]")
_plain_class = re.compile(r"\[(?:[a-z]-[a-z]|\d-\d|[\w.])+-?\]").fullmatch
_variable = re.compile(r"\$(?:\{[^{}]*\}|\(\)|\w+|[@*#?$!-])")
_braces = re.compile(r"\{([^{}]*)\}").search
_component = re.compile(r"[/\\:]")
_dot = re.compile(r"\[[!^]?\]?[^\]]*\]|[.?*]")
_piece = re.compile(r"[=@:,;|&?#]")
_options = re.compile(r"-([!-+.0-<>?A-~]+|-)").match  # not what begins another piece, and a second `-` alone
_scheme = re.compile(r"file:(?://[^/]*)?", re.IGNORECASE).match
_in_process = re.compile(r"/+proc/[^/]+/(.*)", re.DOTALL).match
_through_process = re.compile(r"/+(?:proc/[^/]*/|dev/fd/).*/", re.DOTALL).match
_quoted = re.compile(r"[\[\]{}()\"',\s]+")
_words = re.compile(r"[A-Z]?[^A-Z\W_]+|[A-Z]+(?![a-z])")


def protected_name(
    text: str,
    names: Iterable[str] = PROTECTED,
    root: str | None = None,
    *,
    braces: bool = True,
    expanded: bool = False,
) -> str | None:
    """Return the protected name that the path `text`, relative to `root`, contains or leads to; None if it is safe.

    A text that is too long, or expands to too many paths, counts as protected. Without `braces` they are not expanded.
    `expanded`: a shell expands its wildcards, so that it is also the files that they match.
    """
    names, of_processes = _folded(tuple(names))
    if len(text) > LONGEST or _is_too_deep(text, root):
        return text[:40]
    for component in _component.split(_linked(text, root)):
        if found := _name_of(component, names):
            return found
    for form in _forms(text):
        if form.count("[:") > _MOST_WILDCARDS:
            return form[:40]
        is_known = not _variable.search(form)
        form = _class.sub(_opened, _variable.sub(_value, form))
        alternatives = _alternatives(form) if braces else [form]
        if not alternatives:
            return form[:40]
        patterns = filter(_is_pattern, map(os.path.expanduser, alternatives) if expanded else alternatives)
        found_by_wildcards = (real for _, real in _links(patterns, root, expanded and is_known))
        resolved = [*_resolved(alternatives, root)]
        for path in (*alternatives, *resolved, *found_by_wildcards):
            for component in _component.split(path):
                if found := _name_of(component, names):
                    return found
            within = _in_process(os.path.normpath(os.path.join(root or "", path)))  # noqa: PTH118  # a text is wanted
            for component in within[1].split("/") if within else ():
                found = _name_of(component, of_processes)
                if found and (found != "fd" or path not in resolved):  # `/dev/stdin` is a link there
                    return found
    return None


def path_texts(arguments: Mapping[str, Any], parameters: Iterable[str] = ()) -> Iterator[str]:
    """Yield the texts among `arguments` that are paths: those of `parameters`, and those whose name shows it.

    Items of a list or object in a path argument are paths as well, the keys included; so are a `PathLike` and a `file:`
    URL wherever they are. An item of an object that is longer than any path is the content of a file.
    """
    if not parameters and all(type(value) in _SCALARS for value in arguments.values()):
        return
    waiting: list[tuple[object, bool]] = [(arguments.get(name), True) for name in parameters]
    waiting.append((arguments, False))
    while waiting:
        value, is_path = waiting.pop()
        if isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).items()
            waiting += ((name, is_path) for name, _ in items)
            waiting += ((item, _is_at(name, item, is_path)) for name, item in items)
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += ((item, is_path) for item in cast("Iterable[object]", value))
        elif (text := _text(value)) is None:
            continue
        elif is_path or isinstance(value, os.PathLike) or text.lstrip()[:5].casefold() == "file:":
            yield from _written_in(text.strip())


def word_texts(word: str) -> Iterator[str]:
    """Yield the texts in a word of a command that may be paths: itself, and what follows `=`, `:`, `@` or an option."""
    yield word
    for text in dict.fromkeys((word, word.rpartition("/")[2])):  # `touch ./-f.env` makes an option of other commands
        # Of short options in one word, the first of its letter may have the rest as its value: `sort -uo.env`.
        letters = _options(text)
        yield from (text[1:].partition(letter)[2] for letter in dict.fromkeys(letters[1] if letters else ""))
    if word.startswith(":("):  # `:(top)x` is x to git
        yield word.partition(")")[2]
    pieces = _piece.split(word)
    if len(pieces) > 1:
        yield from pieces


def resolved_path(text: str, root: str | None = None) -> str:
    """Return the absolute path of `text` in the file system, links followed. Raises `ValueError` if it is no path."""
    try:
        return os.path.realpath(os.path.join(root or "", text))  # noqa: PTH118  # a Path normalizes `//` and `.`
    except OSError as error:  # a link that another user alone may read: `/proc/1/root`
        raise ValueError(str(error)) from None


def leads_out(text: str, folder: str, root: str | None = None) -> bool:
    """Return whether a word of a command in `folder` may be a path in `root` from which a link leads out of `root`.

    So is one through a process (`/proc/self/cwd`), which leads elsewhere in the program that is run. Default of `root`:
    the folder.
    """
    if _is_too_deep(text, folder) or _through_process(os.path.normpath(os.path.join(folder, text))):  # noqa: PTH118  # a text is wanted
        return True
    parts = text.split("/")
    for at, part in enumerate(parts):
        before = "/".join(parts[:at])
        # `link/..` is not beside the link.
        if part == ".." and before and (_is_pattern(before) or os.path.islink(os.path.join(folder, before))):  # noqa: PTH114, PTH118  # a text is wanted
            return True
    inside = resolved_path(root or folder).rstrip(os.sep) + os.sep
    # As a pattern, and as the name that it is between quotes.
    links = _links((*_alternatives(_class.sub(_opened, text)), escape(text)), folder)
    leaving = (path for path, real in links if not f"{real}{os.sep}".startswith(inside))
    # An absolute path may come to the folder by another link.
    return any(path.startswith(inside) or any(_resolved_in(inside, Path(path).parents)) for path in leaving)


def has_links(text: str, folder: str) -> bool:
    """Return whether a path in `folder` is a link, or a folder with links in it."""
    path = os.path.join(folder, text)  # noqa: PTH118  # a text is wanted
    return os.path.islink(path) or next(links_below(path), None) is not None  # noqa: PTH114  # likewise


def links_below(folder: str) -> Iterator[str]:
    """Yield where the links below `folder` lead: `/` where they are too many, or too deep, to be found."""
    return (real for _, real in _links_below(folder, "*", ""))


def _resolved_in(inside: str, folders: Iterable[Path]) -> Iterator[bool]:
    for folder in folders:
        with suppress(OSError):  # a link that another user alone may read
            yield f"{os.path.realpath(folder)}{os.sep}".startswith(inside)


@lru_cache(maxsize=1_000)
def is_path_name(name: str) -> bool:
    """Return whether an argument of this name is a path."""
    words = [word.rstrip(_digits).casefold() for word in _words.findall(name)]
    while len(words) > 1 and words[-1] in ("", "name", "names"):
        words.pop()
    return bool(words) and words[-1] in PATH_WORDS


def _is_at(name: object, item: object, is_path: bool) -> bool:
    """Return whether an item `name` of an object is a path; `is_path`: the object is in a path argument."""
    return is_path_name(str(name)) or (is_path and not (isinstance(item, str) and len(item) > _LONGEST))


def _text(value: object) -> str | None:
    if isinstance(value, os.PathLike):
        value = cast("object", os.fspath(cast("os.PathLike[str]", value)))
    if isinstance(value, bytes):
        return os.fsdecode(value)
    return value if isinstance(value, str) else None


def _written_in(text: str) -> Iterator[str]:
    """Yield the text, and its items if it may be a list: in JSON, or separated by commas."""
    yield text
    if text[:1] in ("[", "{", '"', "'"):
        yield from _quoted.split(text)
    elif len(pieces := _piece.split(text)) > 1:
        yield from (piece.strip() for piece in pieces)


def _forms(text: str) -> list[str]:
    """Return the forms into which programs turn it: unescaped, variables expanded, `%2e` decoded, cut at controls."""
    forms = [text, *([text.replace("\\", "")] if "\\" in text else [])]
    if (filled := os.path.expandvars(text)) != text:
        forms.append(filled)
    for _ in range(_DECODINGS):
        if (decoded := unquote(text)) == text:
            break
        forms.append(text := decoded)
    return [piece for form in forms for piece in _control.split(form)]


def _plain(text: str) -> str:
    """Return the text without differences that file systems ignore: case, Unicode forms, invisible characters."""
    text = unicodedata.normalize("NFKC", text)
    if not text.isascii():
        text = "".join(char for char in text if unicodedata.category(char) not in ("Cf", "Mn"))
    return text.casefold()


def _alternatives(text: str) -> list[str]:
    """Return the expansions of the braces in `text` by a shell; none if there are too many."""
    waiting, done = [text], list[str]()
    for _ in range(_MOST_STEPS):
        if not waiting:
            break
        path = waiting.pop()
        braces = _braces(path)
        if braces is None:
            done.append(path.replace("\0", "}"))
            continue
        before, inside, after = path[: braces.start()], braces[1], path[braces.end() :]
        items = ["*"] if ".." in inside and "," not in inside else inside.split(",")
        waiting += (before + item + after for item in items)
        if "," not in inside and "}" in after:  # `{a},x}` expands to `a}` and `x`
            waiting.append(f"{before}{{\0{after}")
    return [] if waiting else done


def _opened(found: re.Match[str]) -> str:
    """Return a class of characters as `?`, but a plain one: of `[!a]` and `[[:a:]]` programs have different views."""
    return found[0] if _plain_class(found[0]) else "?"


def _value(variable: re.Match[str]) -> str:
    return os.path.expanduser("~") if variable[0] in ("$HOME", "${HOME}") else "*"


def _linked(text: str, root: str | None) -> str:
    """Return where the text leads as it is, if there is a link in it: `~`, `file:x/y`, one with a tab in it."""
    with suppress(ValueError, OSError):  # no system has names like this
        path = os.path.join(root or "", text)  # noqa: PTH118  # a text is wanted
        return os.path.realpath(path) if "/" in text or os.path.islink(path) else ""  # noqa: PTH114  # likewise
    return ""


def _is_too_deep(text: str, root: str | None) -> bool:
    """Return whether it is a path in a folder whose absolute form no system opens, so that its links are not found.

    A program that is there may open it.
    """
    if len(text) + len(root or "") < _LONGEST - _LONGEST_NAME or max(map(len, text.split("/"))) > _LONGEST_NAME:
        return False  # short enough, or no path: a part of it is longer than a name
    first, root = text.lstrip("/").partition("/")[0], root or ""
    return len(root) > _LONGEST - 2 * _LONGEST_NAME or os.path.lexists(os.path.join(root, first))  # noqa: PTH118  # a text is wanted


def _resolved(paths: Iterable[str], root: str | None) -> Iterator[str]:
    for path in paths:
        scheme = _scheme(path)
        path = path[scheme.end() :] if scheme else path
        path = os.path.expanduser(path)
        is_short = "/" not in path and os.sep not in path
        if len(path) > _LONGEST or (is_short and not os.path.islink(os.path.join(root or "", path))):  # noqa: PTH114, PTH118  # likewise
            continue
        try:
            yield resolved_path(path, root)
        except ValueError:  # no system has names like this
            continue


def _links(paths: Iterable[str], root: str | None, every: bool = False) -> Iterator[tuple[str, str]]:
    """Yield paths with a link in them, absolute, and where they lead: those that match, if there are wildcards.

    `every`: the other ones that match, too, which lead to themselves.
    """
    base = ""
    for path in paths:
        base = base or resolved_path("", root)
        parts = path.replace("[^", "[!").split("/")
        last = max((at for at, part in enumerate(parts) if _is_pattern(part)), default=-1) + 1
        with suppress(ValueError):  # no system has names like this
            if sum(map(_is_pattern, parts)) > _MOST_PATTERNS:  # it would take too long, so that it may lead anywhere
                yield f"{base}/{path}", "/"
                continue
            if "**" in parts:
                pattern = os.path.join(escape(base), "/".join(parts).replace("**/", "*")) if every else ""  # noqa: PTH118  # likewise
                yield from _links_below(os.path.join(base, *parts[: parts.index("**")]), parts[-1], pattern)  # noqa: PTH118  # likewise
                continue
            matches = iglob("/".join(parts[:last]), root_dir=base)  # noqa: PTH207  # a text is wanted
            for at, match in enumerate(matches if last else [path]) if len(path) <= _LONGEST else ():
                if at == _MOST_MATCHES:  # those that are left may lead anywhere
                    yield f"{base}/{path}", "/"
                    break
                rest = parts[last:] if last else []
                joined = os.path.join(base, match, *rest)  # noqa: PTH118  # a text is wanted
                full = os.path.normpath(joined)
                full = f"/{full.lstrip('/')}" if full.startswith("//") else full
                if every:
                    yield full, full
                try:
                    real = os.path.realpath(joined)  # `link/..` is not beside the link
                except OSError:  # a link that another user alone may read may lead anywhere
                    real = "/"
                if real != full:
                    yield full, real


def _links_below(folder: str, name: str, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the links below a folder that `**/name` may go through, or match, and where they lead.

    Yield also what else matches `pattern`, if there is one, as a shell does, without hidden files and folders.
    """
    seen, errors = 0, list[OSError]()
    for at, folders, files in os.walk(folder, onerror=errors.append):
        if pattern and "/." not in at[len(folder) :]:
            matching = (each for each in (*folders, *files) if fnmatchcase(each, name))
            found = (f"{at}/{each}" for each in matching if name.startswith(".") or not each.startswith("."))
            yield from ((each, each) for each in found if fnmatchcase(each, pattern))
        for each in (*folders, *(file for file in files if fnmatchcase(file, name))):
            if os.path.islink(full := os.path.join(at, each)):  # noqa: PTH114, PTH118  # a text is wanted
                yield full, os.path.realpath(full)
        if (seen := seen + len(folders) + len(files)) > _MOST_MATCHES:
            yield folder, "/"
            return
    if any(error.errno == ENAMETOOLONG for error in errors):
        yield folder, "/"


def _name_of(component: str, names: tuple[str, ...]) -> str | None:
    """Return the one of `names` that a component of a path is, or could be."""
    plain = _plain(component).rstrip(" .")
    if plain in OPEN:
        return None
    if _is_pattern(plain) and max(map(plain.count, "[.?*")) > _MOST_WILDCARDS:  # matching it takes too long
        return plain[:40]
    if not _is_pattern(plain) and not _any_of(names)(plain):
        return None
    for name in names:
        if fnmatchcase(plain, name):
            return name
        part = name.removesuffix(".*").removeprefix("*.")
        if any(_could_be(part, each) or each == part for each in _parts(plain, name)):
            return name
    return None


@lru_cache(maxsize=100)
def _folded(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names without regard to case: those of any component, and those in the folder of a process."""
    folded = [name.casefold() for name in names]
    within = (name.removeprefix("/proc/*/") for name in folded if name.startswith("/proc/*/"))
    return tuple(name for name in folded if "/" not in name), tuple(within)


@lru_cache(maxsize=100)
def _any_of(names: tuple[str, ...]) -> Callable[[str], object]:
    return re.compile("|".join(map(translate, names)) or r"(?!)").match


def _parts(component: str, name: str) -> Iterable[str]:
    """Return the parts of a component that may be the name without its `.*` or `*.`: those beside what may be a dot."""
    dots = (dot for dot in _dot.finditer(component) if fnmatchcase(".", dot[0].replace("[^", "[!")))
    if name.endswith(".*"):
        return (component[: dot.start()] for dot in dots)
    if name.startswith("*."):
        return (component[dot.end() :] for dot in dots)
    return (component,)


def _could_be(name: str, pattern: str) -> bool:
    """Return whether its wildcards could match `name`. A pattern of wildcards alone does not count."""
    is_specific = pattern.strip("*?") != "" and _is_pattern(pattern) and "~" not in name
    return is_specific and fnmatchcase(name, pattern.replace("[^", "[!"))


def _is_pattern(component: str) -> bool:
    return any(char in component for char in "*?[")
