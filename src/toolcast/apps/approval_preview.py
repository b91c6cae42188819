"""Previews of tool calls for the person who approves them: `preview_call`.

A call of the file tools is a diff of the file as it is now and as it would be, a command is its text, and any other
call is one line with its arguments. A file that cannot be read (binary, too large, protected, outside the working
directory) is described in a sentence, and the diff has only the text of the call.

The text of a preview has no invisible characters: see `exposed`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from os.path import normpath
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from ..agents.permissions.permissions import Permissions, ToolTraits, no_rule_text
from ..agents.permissions.protected_paths import protected_name
from ..errors import TryAgain
from ..lazy.lazy_dataclasses import dataclass
from ..text.terminal_text import exposed
from ..toolbox.file_access import edit_text
from ..toolbox.file_text import FileText, text_in
from ..toolbox.sandbox_paths import SandboxPath, SandboxRoot
from ..values.approvals import PermissionRequest
from .argument_text import (
    COMMAND_NAMES,
    DIRECTORY_NAMES,
    editable_text,
    exposed_line,
    full_arguments,
    is_summary_complete,
    parse_arguments,
    summarize_call,
)
from .diff_rows import DiffRow, diff_texts

LARGEST_FILE: Final = 2_000_000
"""Bytes of a file that is compared."""
BUILT_IN: Final = frozenset(("write_file", "edit_file", "run_command"))
"""The tools of the toolbox that have a preview of their own."""

IN_SESSION: Final = ", in this session"
"""The end of each text of `describe_always`."""

Change: TypeAlias = Literal["create", "edit", "overwrite"]


@dataclass(frozen=True, slots=True)
class DiffPreview:
    """The change of a file. `omitted` changed lines have no row; `note` is a sentence about what the rows lack."""

    path: str
    change: Change
    added: int
    removed: int
    rows: tuple[DiffRow, ...]
    note: str | None = None
    omitted: int = 0

    @property
    def summary(self) -> str:
        """The change on one line, without its rows."""
        return f"{self.path} +{self.added:,} −{self.removed:,}"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        counts = {"added": self.added, "removed": self.removed}
        rows = [row.to_dict() for row in self.rows]
        return {"kind": "diff", "path": self.path, "change": self.change, **counts, "rows": rows, "note": self.note}


@dataclass(frozen=True, slots=True)
class CommandPreview:
    """A shell command, and the directory in which it runs if that is certain."""

    command: str
    directory: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        return {"kind": "command", "command": self.command, "directory": self.directory}


@dataclass(frozen=True, slots=True)
class CallPreview:
    """Any other call: on one line, and its arguments, which `details` has as text."""

    summary: str
    arguments: Mapping[str, Any]
    details: str
    is_complete: bool

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        plain = {"summary": self.summary, "arguments": dict(self.arguments), "is_complete": self.is_complete}
        return {"kind": "call", **plain}


CallSketch: TypeAlias = DiffPreview | CommandPreview | CallPreview


def preview_call(
    request: PermissionRequest, root: str | None = None, *, built_in: Collection[str] = BUILT_IN
) -> CallSketch:
    """Return the preview of a call.

    Args:
        request: The request for its approval.
        root: The working directory of the file tools and of commands; None: files are not read.
        built_in: Names of tools that are those of the toolbox.
    """
    given = parse_arguments(request.arguments)
    if given is None:
        return _any_call(request, {})
    if request.tool in built_in and root is not None:
        if request.tool == "write_file" and _are_texts(given, "path", "content"):
            return _write(root, given["path"], given["content"])
        every = given.get("all", False)
        if request.tool == "edit_file" and isinstance(every, bool):
            texts = {name: value for name, value in given.items() if name != "all"}
            if _are_texts(texts, "path", "old", "new"):
                return _edit(root, given["path"], given["old"], given["new"], every)
        if request.tool == "run_command" and _are_texts(given, "command"):
            return CommandPreview(exposed(given["command"]), exposed(root))
    return _command(given) or _any_call(request, given)


def why_asked(request: PermissionRequest) -> str:
    """Return the reason to ask, as a sentence; empty if it is the usual one, that no rule is about the tool."""
    usual = request.reason == no_rule_text(request.tool)
    return "" if usual else request.reason[:1].upper() + request.reason[1:]


def describe_always(permissions: Permissions, tool: ToolTraits, request: PermissionRequest) -> str:
    """Return what approving the call for the session will allow, as the end of a sentence."""
    rule = permissions.rule_for_session(tool, parse_arguments(request.arguments) or {})
    pattern = next((condition for condition in rule.where.values() if isinstance(condition, str)), None)
    if pattern is not None:
        return f"every {exposed_line(pattern)} with the options that toolcast lists for it{IN_SESSION}"
    if rule.where:
        return f"exactly this command again{IN_SESSION}"
    return f"every call of {exposed_line(request.tool)}{IN_SESSION}"


def describe_edit(request: PermissionRequest) -> dict[str, str] | None:
    """Return the argument that an edit opens and its text, as JSON-compatible data; None for all arguments."""
    argument, text, _ = editable_text(request.arguments)
    return None if argument is None else {"argument": argument, "text": text}


def _are_texts(given: Mapping[str, Any], *names: str) -> bool:
    """Return True if these are the names of the arguments, and all of them are texts."""
    return set(given) == set(names) and all(isinstance(value, str) for value in given.values())


def _any_call(request: PermissionRequest, given: Mapping[str, Any]) -> CallPreview:
    return CallPreview(
        summarize_call(request.tool, request.arguments),
        given,
        full_arguments(request.arguments),
        is_summary_complete(request.tool, request.arguments),
    )


def _command(given: Mapping[str, Any]) -> CommandPreview | None:
    """Return the preview of a call whose arguments are a command, and perhaps its directory."""
    command = next((name for name in COMMAND_NAMES if name in given), None)
    directory = next((name for name in DIRECTORY_NAMES if name in given), None)
    names = [name for name in (command, directory) if name is not None]
    if command is None or not _are_texts(given, *names):
        return None
    return CommandPreview(exposed(given[command]), None if directory is None else exposed(given[directory]))


def _write(root: str, path: str, content: str) -> DiffPreview:
    """Return the preview of writing a file."""
    exists, old, problem = _read(root, path)
    change: Change = "overwrite" if exists else "create"
    notes = [problem]
    if old is not None and (old.encoding, old.mark) != ("utf-8", b""):
        notes.append(f"Its encoding is {old.encoding}{' with a byte order mark' * bool(old.mark)}, and becomes utf-8.")
    return _diff(path, change, "" if old is None else old.text, content, notes, is_whole=True)


def _edit(root: str, path: str, old: str, new: str, every: bool) -> DiffPreview:
    """Return the preview of an edit."""
    exists, text, problem = _read(root, path)
    if text is not None:
        try:
            edited, _ = edit_text(text, path, old, new, every)
            return _diff(path, "edit", text.text, edited.text, [problem], is_whole=True)
        except TryAgain as error:
            problem = f"{problem} The edit will fail: {exposed(str(error).partition(';')[0])}."
    elif not exists and not problem:
        problem = "The edit will fail: the file does not exist."
    return _diff(path, "edit", old, new, [problem], is_whole=False)


def _diff(path: str, change: Change, old: str, new: str, notes: list[str], *, is_whole: bool) -> DiffPreview:
    """Return the diff of a file, or of a passage of unknown place, whose lines have no numbers."""
    before, after = old, new
    if _has_windows_lines(old) and _has_windows_lines(new):
        before, after = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    diff = diff_texts(before, after)
    if is_whole and new and not new.endswith("\n") and (not old or old.endswith("\n")):
        notes.append("The file will not end in a line break.")
    if is_whole and old and not old.endswith("\n") and new.endswith("\n"):
        notes.append("The last line gets its line break.")
    if diff.omitted:
        notes.append(f"{diff.omitted:,} more changed lines are not shown; an edit opens the whole text.")
    if old == new:
        notes.append("Nothing will change.")
    note = " ".join(note.strip() for note in notes if note) or None
    rows = diff.rows if is_whole else tuple([replace(row, old=None, new=None) for row in diff.rows])
    return DiffPreview(exposed_line(path), change, diff.added, diff.removed, rows, note, diff.omitted)


def _has_windows_lines(text: str) -> bool:
    """Return True if the text is empty, or all of its lines end in CR LF."""
    return text.count("\r\n") == text.count("\n") == text.count("\r")


def _read(root: str, path: str) -> tuple[bool, FileText | None, str]:
    """Return whether a file exists, its text if it can be compared, and a sentence if it cannot."""
    try:
        if name := protected_name(path, root=root):
            return False, None, f"The path is protected ({exposed(name)}): the file is not read."
        with SandboxRoot(root).at(path) as place:
            exists, text, problem = _read_place(place)
            # The resolved path is relative to the root; an absolute one is not compared.
            if not Path(path).is_absolute() and place.path != normpath(path).replace("\\", "/"):
                problem = f"The path leads to {exposed(place.path)}. {problem}".rstrip()
            return exists, text, problem
    except (TryAgain, ValueError) as error:
        problem = exposed(str(error).partition(";")[0])
        is_missing = isinstance(error, TryAgain) and problem.startswith("there is no ")
        return False, None, "" if is_missing else f"The file is not shown: {problem}."


def _read_place(place: SandboxPath) -> tuple[bool, FileText | None, str]:
    if place.status is None:
        return False, None, ""
    if place.status.st_size > LARGEST_FILE:
        return True, None, f"The file has {place.status.st_size:,} bytes, too many to compare: its lines are not shown."
    try:
        return True, text_in(place.data(), place.path), ""
    except TryAgain as error:
        return True, None, f"The file is not shown: {exposed(str(error).partition(';')[0])}."
