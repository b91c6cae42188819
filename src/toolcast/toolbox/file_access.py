"""Tools that read, write and edit files below a folder; with those of file_search.py they are `file_tools`.

A file is read as numbered lines, so that a model can refer to a line, find the line of a search result, and continue
where it stopped. An edit contains the text to replace, exactly and without numbers, as models copy text reliably; a
text that occurs twice is ambiguous, and refused. A file is replaced atomically.

`Permissions` use the options of these tools: reading is `read_only`; writing and editing is neither that nor
`destructive`, so that the mode `accept_edits` allows it with `file_tools=FILE_TOOLS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from difflib import SequenceMatcher, get_close_matches
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from ..errors import TryAgain
from ..lazy.lazy_dataclasses import dataclass
from ..tools.callable_tool import CallableTool
from .file_search import FileFinder
from .file_text import FileText, lines_of, text_in
from .sandbox_paths import LARGEST, SandboxPath, SandboxRoot

FILE_TOOLS: Final = ("read_file", "write_file", "edit_file", "list_files", "search_files")
"""The names of `file_tools`, for `Permissions(file_tools=FILE_TOOLS)`."""

READ_LIMIT: Final = 50_000
"""The approximate number of characters that one call reads: it ends with the line that exceeds it."""

_LONGEST_LINE = 2_000
_NOTES = 500  # characters beside what was read
_MOST_PLACES = 10
_MOST_NEAR = 3
_LIKELY = 20
_LOOKED_AT = 5_000  # lines of a file
_COMPARED = 150  # characters of a line: from 200 on difflib leaves out what is frequent
_number = re.compile(r"^\s*\d+\t")

Path = Annotated[str, Field(description="the file, relative to the working folder")]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a file by a tool.

    Attributes:
        path: The file, relative to the root of the tools.
        before: Its content before; None if the file `is_new`, or was too large.
        after: Its content after the change.
        is_new: True if the file did not exist.
    """

    path: str
    before: bytes | None
    after: bytes
    is_new: bool = False


OnChange: TypeAlias = Callable[[FileChange], object]


class Files:
    """The files below a folder. Each method is a tool."""

    def __init__(self, root: SandboxRoot, on_change: OnChange | None = None) -> None:
        self._root = root
        self._on_change = on_change

    def read_file(
        self, path: Path, start_line: Annotated[int, Field(ge=1)] = 1, lines: Annotated[int, Field(ge=1)] = 1000
    ) -> str:
        """Read a text file: its lines, each after its number and a tab.

        Args:
            path: the file, relative to the working folder
            start_line: the first line to read, from 1
            lines: how many lines to read, at most
        """
        with self._root.at(path) as place:
            text, path = text_in(place.data(), place.path), place.path
        found = text.lines
        if not found:
            return f"[{path} is empty]"
        if start_line > len(found):
            raise TryAgain(f"{path} has {len(found)} lines, so there is no line {start_line}")
        shown = _numbered(found[: start_line - 1 + lines], start_line)
        return "\n".join([*shown, *_notes(text, start_line - 1 + len(shown), len(found))])

    def write_file(self, path: Path, content: str) -> str:
        """Write a whole text file. Missing folders are created; an existing file is overwritten.

        Args:
            path: the file, relative to the working folder
            content: all of the new text
        """
        if path.endswith("/"):
            raise TryAgain(f"{path[:200]!r} names a folder; folders are made with the first file written in them")
        with self._root.at(path, make_folders=True) as place:
            self._put(place, _encoded(content))
        done = "created" if place.status is None else "overwrote"
        return f"{done} {place.path}, {_counted(len(lines_of(content)), 'line')}"

    def edit_file(self, path: Path, old: str, new: str, all: bool = False) -> str:
        """Replace a text in a file. The old text must occur exactly once.

        Args:
            path: the file, relative to the working folder
            old: the text to replace, exactly as in the file, with its blanks, and without line numbers
            new: the text to put there
            all: replace it wherever it occurs
        """
        with self._root.at(path) as place:
            edited, done = edit_text(text_in(place.data(), place.path), place.path, old, new, all)
            self._put(place, edited.data(place.path))
        return f"edited {place.path}: {done}"

    def _put(self, place: SandboxPath, data: bytes) -> None:
        """Create or replace a file, and report the change."""
        if self._on_change is None:
            place.put(data)
            return
        before = None
        if place.status is not None:
            with suppress(TryAgain):  # it is too large; or no file, which `put` reports
                before = place.data()
        place.put(data)
        self._on_change(FileChange(place.path, before, data, is_new=place.status is None))


def edit_text(text: FileText, path: str, old: str, new: str, all: bool = False) -> tuple[FileText, str]:
    """Return the text of the file `path` with `new` in place of `old`, and a description of what was replaced.

    Raises:
        TryAgain: `old` does not occur, or it occurs several times without `all`.
    """
    wanted = _wanted(old, new)
    count = sum(1 for _ in wanted.finditer(text.text))
    at = _lines(text, wanted)
    if not count:
        raise TryAgain(f"the old text does not occur in {path}{_near(text, old)}")
    if count > 1 and not all:
        raise TryAgain(
            f"the old text occurs {count:,} times in {path}, in {at}; "
            "give more of the text around the one that is meant, or all=true for each of them"
        )
    if len(text.text) + count * (len(new) - len(old)) > LARGEST:
        raise TryAgain(f"{path} would grow beyond {LARGEST:,} bytes; change less of it at once")
    edited = text._replace(text=wanted.sub(partial(_as_in, text, new), text.text))
    return edited, f"replaced {_counted(count, 'occurrence')}, in {at}"


def file_tools(root: str | os.PathLike[str] = ".", *, on_change: OnChange | None = None) -> tuple[CallableTool, ...]:
    """Return the tools read_file, write_file, edit_file, list_files and search_files.

    Args:
        root: The folder that their paths cannot leave. Pass it to `Permissions(root=...)` as well, if it is not the
            working directory.
        on_change: Called with a `FileChange` after each change of a file, in the thread of the call.

    Raises:
        ValueError: If `root` is no folder.
    """
    place = SandboxRoot(root)
    files, search = Files(place, on_change), FileFinder(place)
    functions = (files.read_file, files.write_file, files.edit_file, search.list_files, search.search_files)
    made = [CallableTool.from_function(each).with_(path_parameters={"path"}) for each in functions]
    read, write, edit, listing, searching = made
    return (
        read.with_(read_only=True, idempotent=True, output_limit=READ_LIMIT + _LONGEST_LINE + _NOTES),
        write.with_(idempotent=True),
        edit,
        listing.with_(read_only=True, idempotent=True),
        searching.with_(read_only=True, idempotent=True),
    )


def _numbered(lines: list[str], first: int) -> list[str]:
    """Return the lines from `first` on, with their numbers, up to the limit."""
    shown: list[str] = []
    left = READ_LIMIT
    for number, line in enumerate(lines[first - 1 :], first):
        if left <= 0:
            break
        surplus = len(line) - _LONGEST_LINE
        rest = f"... [{surplus} characters of this line left out]" if surplus > 0 else ""
        shown.append(f"{number}\t{line[:_LONGEST_LINE]}{rest}")
        left -= len(shown[-1]) + 1
    return shown


def _notes(text: FileText, last: int, count: int) -> list[str]:
    """Return the notes on a file that was read up to line `last` of `count`."""
    more = f"[{count} lines in all; read on with start_line={last + 1}]"
    foreign = f"[its encoding is {text.encoding}]" if text.encoding != "utf-8" else ""
    return [note for note in (foreign, more if last < count else "") if note]


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise TryAgain(
            "the content contains half of a surrogate pair, which cannot be encoded; write it without"
        ) from None


def _wanted(old: str, new: str) -> re.Pattern[str]:
    """Compile a pattern for the old text, with any line endings. Raises `TryAgain` if nothing would change."""
    if not old:
        raise TryAgain("the old text is empty; give the text to replace, or write the file with write_file")
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if old == new:
        raise TryAgain("the old text and the new one are the same, so nothing would change")
    return re.compile(r"\r?\n".join(map(re.escape, old.split("\n"))))


def _as_in(text: FileText, new: str, found: re.Match[str]) -> str:
    """Return the new text with the line endings of the match, or else those of the file."""
    newline = "\r\n" if "\r\n" in found[0] else "\n" if "\n" in found[0] else text.newline
    return new.replace("\r\n", "\n").replace("\n", newline)


def _lines(text: FileText, wanted: re.Pattern[str]) -> str:
    """Return the numbers of the first matching lines, as text."""
    begins = (found.start() for found in wanted.finditer(text.text))
    numbers = dict.fromkeys(text.text.count("\n", 0, begin) + 1 for begin in islice(begins, _MOST_PLACES + 1))
    shown = ", ".join(map(str, [*numbers][:_MOST_PLACES]))
    more = ", ..." if len(numbers) > _MOST_PLACES else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"


def _near(text: FileText, old: str) -> str:
    """Return the lines most similar to the first missing line of `old`, as text."""
    lines = text.lines
    numbers = {line.strip()[:_COMPARED]: number for number, line in enumerate(lines[:_LOOKED_AT], 1)}
    given = [line for line in (_number.sub("", line).strip()[:_COMPARED] for line in lines_of(old)) if line]
    missing = next((line for line in given if line not in numbers), "".join(given[:1]))
    compared = SequenceMatcher(b=missing)

    def likeness(line: str) -> float:
        compared.set_seq1(line)
        return compared.quick_ratio()

    likely = nlargest(_LIKELY, filter(None, numbers), likeness)  # an exact comparison of every line would take minutes
    close = get_close_matches(missing, likely, _MOST_NEAR)
    if not close:
        return "; read the file first"
    near = "".join(f"\n{numbers[each]}\t{lines[numbers[each] - 1][:_LONGEST_LINE]}" for each in close)
    return f"; give it exactly, without line numbers. Close to it are:{near}"


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
