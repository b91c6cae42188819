"""Tools that list files and search in them, below a folder.

Strategy: one walk, depth first and sorted by name, that ends when enough is found. It does not follow links or enter
folders of generated files (`IGNORED`) unless one is given as the path. The output ends with a note on what was left
out.

A pattern is written by a model, and may be anything. It is matched by the regex engine of pydantic-core, that of
ripgrep, whose time is linear in the text: Python's `re` would never return from `(a+)+$`. It has no look-around and no
backreferences. Its time also grows with the pattern, and `(.{0,100}){0,100}` takes 10,000 steps per character, so
repetition counts are limited (`_steps`). Globs are translated to such patterns. Time limit and cancellation are checked
after every file and every line.

Files and folders with protected names (protected_paths.py) are listed, but not opened.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import field
from time import monotonic
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field
from pydantic_core import SchemaError, SchemaValidator, core_schema

from ..errors import TryAgain
from ..lazy.lazy_dataclasses import dataclass
from ..tools.tool_context import ToolContext
from .file_text import text_in
from .sandbox_paths import SandboxPath, SandboxRoot, is_protected

IGNORED: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".terraform", ".next", ".cache"),
    )
)
"""Folders that list_files and search_files do not enter, unless one is given as the path."""

MOST_FILES: Final = 500
"""The maximum number of paths that one call lists."""

MOST_HITS: Final = 200
"""The maximum number of lines that one search returns."""

_SECONDS = 20.0  # for one search or listing
_LONGEST_LINE = 2_000  # of which is looked at: what reading shows of it
_SHOWN = 200  # of a line
_LONGEST_PATTERN = 1_000
_MOST_STEPS = 2_000  # of a pattern, with its counts written out
_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_count = re.compile(r"\\[xuU]\{\w+\}|(?P<before>.?)\{(?:\d*,)?(?P<most>\d+),?\}", re.DOTALL)
_ignores_blanks = re.compile(r"(?<!\\)(?:\\\\)*\(\?[a-zA-Z]*x")
_glob_parts = re.compile(
    r"\*\*/|\*\*|\*|\?|\{(?P<choices>[^{}]*)\}|\[(?P<without>[!^])?(?P<chars>[^\]]+)\]|.", re.DOTALL
)

Folder = Annotated[str, Field(description="the folder to begin at, relative to the working folder")]
Fits = Callable[[str], bool]


class Entry(NamedTuple):
    """An entry of a folder: its `path` from the root, its path `below` the start, its `name` and `mode`."""

    path: str
    below: str
    name: str
    mode: int

    @property
    def is_folder(self) -> bool:
        """True if it is a folder, not a link to one."""
        return stat.S_ISDIR(self.mode)

    @classmethod
    def at(cls, place: SandboxPath) -> Entry:
        """Return the entry at which a walk starts. Raises `TryAgain` if it does not exist."""
        if place.status is None:
            raise place.missing()
        name = place.path.rpartition("/")[2]
        return cls(place.path, "" if place.is_folder else name, name, place.status.st_mode)

    def inside(self, name: str, mode: int) -> Entry:
        """Return an entry of this folder."""
        path = name if self.path == "." else f"{self.path}/{name}"
        return Entry(path, f"{self.below}/{name}" if self.below else name, name, mode)


@dataclass(slots=True)
class _Report:
    """The results of a walk. `is_over`: the reason why it ended early."""

    most: int
    context: ToolContext[Any]
    until: float = field(default_factory=lambda: monotonic() + _SECONDS)
    found: list[str] = field(default_factory=list[str])
    ignored: set[str] = field(default_factory=set[str])
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    is_over: str = ""

    def add(self, line: str) -> None:
        """Add a result."""
        if len(self.found) == self.most:
            self.is_over = f"there is more than these {self.most}; narrow it down to see the rest"
        else:
            self.found.append(line)

    def skip(self, reason: str) -> None:
        """Count a file or folder that is skipped."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def goes_on(self) -> bool:
        """Return whether to continue. Raises `TurnCancelled` after a cancellation."""
        self.context.check()
        if monotonic() > self.until:
            self.is_over = self.is_over or f"stopped after {_SECONDS:g} seconds; narrow it down to see the rest"
        return not self.is_over

    def text(self, nothing: str) -> str:
        """Return the results and notes as text; `nothing` if there are none."""
        notes = [self.is_over] if self.is_over else []
        if self.ignored:
            notes.append(f"not searched: {', '.join(sorted(self.ignored))}")
        notes += [f"skipped, {why}: {count}" for why, count in self.skipped.items()]
        return "\n".join([*(self.found or [nothing]), *(f"[{note}]" for note in notes)])


class FileFinder:
    """A search for files below a folder. Each public method is a tool."""

    def __init__(self, root: SandboxRoot) -> None:
        self._root = root

    def list_files(self, context: ToolContext[Any], path: Folder = ".", pattern: str = "**/*") -> str:
        """List the files in a folder and below it. Folders that are not entered end in /, links in @.

        Args:
            context: the context of the call
            path: the folder to begin at, relative to the working folder
            pattern: a glob for the paths below the folder: * stays within one folder, ** goes into all
        """
        fits, report = glob_fits(pattern), _Report(MOST_FILES, context)
        depth = None if "**" in pattern else pattern.count("/") + 1
        for entry, is_end in self._walk(path, report, depth):
            if fits(entry.below) and (is_end or not entry.is_folder):
                report.add(entry.path + ("/" if entry.is_folder else "@" if stat.S_ISLNK(entry.mode) else ""))
        hint = "" if "**" in pattern else "; ** goes into the folders below"
        return report.text(f"no files fit {pattern!r}{hint}")

    def search_files(
        self,
        context: ToolContext[Any],
        pattern: str,
        path: Annotated[str, Field(description="a folder to search, with all below it, or one file")] = ".",
        glob: str = "*",
        ignore_case: bool = False,
    ) -> str:
        r"""Search the lines of text files for a regular expression. Matching lines are returned as `path:line: text`.

        Args:
            context: the context of the call
            path: a folder to search, with all below it, or one file
            pattern: the expression, in the syntax of ripgrep: no look-around, no backreferences, \{ for a brace
            glob: which files: `*.py` wherever they are, `src/**/*.py` below src
            ignore_case: match regardless of case
        """
        fits, is_wanted = pattern_fits(pattern, ignore_case), glob_fits(glob if "/" in glob else f"**/{glob}")
        report = _Report(MOST_HITS, context)
        for entry, _ in self._walk(path, report):
            if stat.S_ISREG(entry.mode) and is_wanted(entry.below):
                self._search(entry, fits, report)
        return report.text(f"nothing fits {pattern!r}")

    def _walk(self, path: str, report: _Report, depth: int | None = None) -> Iterator[tuple[Entry, bool]]:
        """Yield the entries below `path`, or the file itself, each with whether the walk ends there."""
        with self._root.at(path) as place:
            begin = Entry.at(place)
        waiting = self._inside(begin, report) if begin.is_folder else [begin]
        while waiting and report.goes_on():
            entry = waiting.pop()
            if not entry.is_folder or entry.below.count("/") + 1 == depth:
                yield entry, True
            elif entry.name in IGNORED or is_protected(entry.name):
                report.ignored.add(entry.name)
                yield entry, True
            else:
                inside = self._inside(entry, report)
                yield entry, not inside
                waiting += inside

    def _inside(self, folder: Entry, report: _Report) -> list[Entry]:
        """Return the entries of a folder, sorted by name in reverse."""
        try:
            with self._root.at(folder.path) as place:
                names = place.names()
        except TryAgain:
            if not folder.below:  # it is the given path
                raise
            report.skip("as they cannot be read")
            return []
        return [folder.inside(name, mode) for name, mode in reversed(names)]

    def _search(self, entry: Entry, fits: Fits, report: _Report) -> None:
        """Add the matching lines of a file."""
        if any(map(is_protected, entry.path.split("/"))):
            return report.skip("as protected")
        try:
            with self._root.at(entry.path) as place:
                lines = text_in(place.data(), place.path).lines
        except TryAgain:
            return report.skip("as no text, too large or not readable")
        for number, line in enumerate(lines, 1):
            if not report.goes_on():
                return None
            if fits(line[:_LONGEST_LINE]):
                report.add(f"{entry.path}:{number}: {line[:_SHOWN]}{'...' if len(line) > _SHOWN else ''}")
        return None


def pattern_fits(pattern: str, ignore_case: bool = False) -> Fits:
    """Compile a regular expression to a search function. Raises `TryAgain` if it is invalid."""
    if len(pattern) > _LONGEST_PATTERN:
        raise TryAgain(f"the pattern is longer than {_LONGEST_PATTERN} characters")
    if _steps(pattern) > _MOST_STEPS:
        raise TryAgain(f"the pattern {pattern[:200]!r} counts too far: take smaller numbers in its {{...}}, or * and +")
    schema = core_schema.str_schema(pattern=f"(?i){pattern}" if ignore_case else pattern)
    try:
        return SchemaValidator(schema, {"regex_engine": "rust-regex"}).isinstance_python
    except SchemaError as error:
        problem = str(error).strip().rpartition("\n")[2].strip().removeprefix("error: ").removeprefix("SchemaError: ")
        raise TryAgain(
            f"the pattern {pattern[:200]!r} is invalid: {problem}. It has the syntax of ripgrep; "
            "escape special characters with \\"
        ) from error


def _steps(pattern: str) -> int:
    """Return the maximum length of the pattern with its repetition counts expanded."""
    if _ignores_blanks.search(pattern):
        raise TryAgain("the flag x is not supported; write the pattern without blanks and comments")
    times, steps = 1, len(pattern)
    for count in _count.finditer(pattern):
        most = min(int((count["most"] or "0")[:9]), _MOST_STEPS + 1)  # nothing: it is a character by its number
        if (count["before"] or "}") in ")}*+?":  # nothing: another count is before it
            times *= max(most, 1)
        else:
            steps += most
    return times * steps


def glob_fits(glob: str) -> Fits:
    """Compile a glob for whole paths: `*`, `?`, `[a-z]`, `{a,b}` within one name, `**` across folders."""
    if len(glob) > _LONGEST_PATTERN:  # before it is translated
        raise TryAgain(f"the glob is longer than {_LONGEST_PATTERN} characters")
    try:
        fits = pattern_fits(rf"(?s)\A(?:{_translated(glob.removeprefix('./'))})\z")
    except TryAgain:
        raise TryAgain(f"the glob {glob[:200]!r} is invalid; use *, ?, [a-z], {{a,b}} and **") from None
    return lambda path: fits(path.encode(errors="replace").decode())  # a name may be no Unicode


def _translated(glob: str) -> str:
    """Return the regular expression of a glob."""
    return _glob_parts.sub(_expression_of, glob)


def _expression_of(part: re.Match[str]) -> str:
    text = part[0]
    if text in _WILDCARDS:
        return _WILDCARDS[text]
    if part["choices"] is not None:
        return f"(?:{'|'.join(map(_translated, part['choices'].split(',')))})"
    if part["chars"] is not None:
        return f"[{'^/' if part['without'] else ''}{''.join(map(_escaped, part['chars']))}]"
    return _escaped(text)


def _escaped(char: str) -> str:
    return char if char.isalnum() or char in "-/" else f"\\x{{{ord(char):x}}}"
