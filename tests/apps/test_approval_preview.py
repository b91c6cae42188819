"""Previews of calls: a diff shows what the tool will do, and a file that cannot be read is a sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from toolcast import PermissionRequest, Permissions, Rule
from toolcast.apps import approval_preview
from toolcast.apps.approval_preview import (
    CallPreview,
    CommandPreview,
    DiffPreview,
    describe_always,
    describe_edit,
    preview_call,
)
from toolcast.apps.repl.preview_text import preview_lines
from toolcast.errors import TryAgain
from toolcast.toolbox.file_access import file_tools
from toolcast.toolbox.shell_command import command_tool


def request(tool: str, **arguments: Any) -> PermissionRequest:
    return PermissionRequest("c1", tool, json.dumps(arguments))


def diff(root: Path, tool: str, **arguments: Any) -> DiffPreview:
    preview = preview_call(request(tool, **arguments), str(root))
    assert isinstance(preview, DiffPreview)
    return preview


def rows(preview: DiffPreview) -> list[str]:
    signs = {"same": " ", "add": "+", "remove": "-", "gap": "…"}
    return [f"{signs[row.kind]}{row.text}" for row in preview.rows]


# Files.


def test_a_new_file(tmp_path: Path) -> None:
    preview = diff(tmp_path, "write_file", path="new/a.txt", content="one\ntwo\n")
    assert rows(preview) == ["+one", "+two"]
    assert (preview.change, preview.added, preview.removed, preview.note) == ("create", 2, 0, None)
    assert preview.summary == "new/a.txt +2 −0"
    assert not (tmp_path / "new").exists()


def test_an_overwritten_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    preview = diff(tmp_path, "write_file", path="a.txt", content="one\nthree")
    assert rows(preview) == [" one", "-two", "+three"]
    assert preview.change == "overwrite"
    assert preview.note == "The file will not end in a line break."
    assert preview.to_dict() == {
        "kind": "diff", "path": "a.txt", "change": "overwrite", "added": 1, "removed": 1,
        "rows": [row.to_dict() for row in preview.rows], "note": "The file will not end in a line break.",
    }  # fmt: skip
    assert json.loads(json.dumps(preview.to_dict())) == preview.to_dict()


def test_an_edit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\ntwo\n")
    assert rows(diff(tmp_path, "edit_file", path="a.txt", old="one", new="1")) == ["-one", "+1", " two", " two"]
    every = diff(tmp_path, "edit_file", path="a.txt", old="two", new="2", all=True)
    assert rows(every) == [" one", "-two", "-two", "+2", "+2"]
    assert every.note is None


def test_a_line_break_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    preview = diff(tmp_path, "write_file", path="a.txt", content="one\n")
    assert rows(preview) == ["-one", "+one"]
    assert preview.note == "The last line gets its line break."
    assert diff(tmp_path, "write_file", path="a.txt", content="one").note == "Nothing will change."


def test_line_ends_of_windows_are_exposed_only_where_they_change(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    assert rows(diff(tmp_path, "edit_file", path="a.txt", old="two", new="2")) == [" one", "-two", "+2"]
    assert rows(diff(tmp_path, "write_file", path="a.txt", content="one\n")) == ["-one\\u000d", "-two\\u000d", "+one"]


def test_an_encoding_that_changes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é\n".encode("latin-1"))
    (tmp_path / "b.txt").write_bytes("é\n".encode("utf-8-sig"))
    preview = diff(tmp_path, "write_file", path="a.txt", content="é\n")
    assert preview.note == "Its encoding is latin-1, and becomes utf-8. Nothing will change."
    preview = diff(tmp_path, "write_file", path="b.txt", content="x\n")
    assert preview.note == "Its encoding is utf-8 with a byte order mark, and becomes utf-8."


@pytest.mark.parametrize(
    ("path", "note"),
    [
        ("binary", "The file is not shown: binary is no text but a binary file, of 3 bytes."),
        ("folder", "The file is not shown: folder is a folder, and no file."),
        ("large", "The file has 2,000,001 bytes, too many to compare: its lines are not shown."),
        ("../a.txt", "The file is not shown: '../a.txt' leads out of the working folder."),
        (".env", "The path is protected (.env): the file is not read."),
        ("link", "The path leads to plain.txt."),
        ("nul\0", "The file is not shown: 'nul\\x00' cannot be used: embedded null byte."),
        ("plain.txt/x", "The file is not shown: plain.txt is a file, and no folder."),
    ],
)
def test_a_file_that_is_not_compared(path: str, note: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"x" * 2_000_001)
    (tmp_path / ".env").write_text("SECRET=1\n")
    (tmp_path / "plain.txt").write_text("")
    (tmp_path / "link").symlink_to("plain.txt")
    preview = diff(tmp_path, "write_file", path=path, content="new\n")
    assert rows(preview) == ["+new"]
    assert preview.note == note
    assert "SECRET" not in str(preview)


def test_a_link_out_of_the_folder_shows_nothing_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").symlink_to(tmp_path / "secret")
    preview = diff(tmp_path / "work", "edit_file", path="a.txt", old="hidden", new="x")
    assert preview.note is not None and "leads out of the working folder" in preview.note


def test_an_absolute_path_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    preview = diff(tmp_path, "write_file", path=str(tmp_path / "a.txt"), content="two\n")
    assert rows(preview) == ["-one", "+two"]
    assert preview.note is None


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    preview = diff(tmp_path / "gone", "write_file", path="a.txt", content="one\n")
    assert preview.note is not None and preview.note.startswith("The file is not shown: there is no folder")


def test_an_edit_that_will_fail(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\none\n")
    for arguments, reason in (
        ({"path": "a.txt", "old": "two", "new": "2"}, "the old text does not occur in a.txt"),
        ({"path": "a.txt", "old": "one", "new": "1"}, "the old text occurs 2 times in a.txt, in lines 1, 2"),
        ({"path": "b.txt", "old": "two", "new": "2"}, "the file does not exist"),
    ):
        preview = diff(tmp_path, "edit_file", **arguments)
        assert preview.note == f"The edit will fail: {reason}."
        assert [row.kind for row in preview.rows] == ["remove", "add"]
        assert [(row.old, row.new) for row in preview.rows] == [(None, None)] * 2  # its place is not certain
        (_, first, *_) = preview_lines("edit_file", preview)
        assert first.gutter == "   - "


def test_an_edit_of_a_file_that_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\0")
    preview = diff(tmp_path, "edit_file", path="binary", old="a", new="b")
    assert preview.note == "The file is not shown: binary is no text but a binary file, of 1 bytes."


def test_a_very_long_file_is_cut_and_says_so(tmp_path: Path) -> None:
    preview = diff(tmp_path, "write_file", path="a.txt", content="x\n" * 6000)
    assert preview.added == 6000
    assert len(preview.rows) == 5000
    assert preview.note == "1,000 more changed lines are not shown; an edit opens the whole text."


def test_nothing_in_a_path_is_invisible(tmp_path: Path) -> None:
    preview = diff(tmp_path, "write_file", path="a\n\u202eb.txt", content="x\n")
    assert preview.path == "a\\n\\u202eb.txt"


LINES = st.lists(st.sampled_from(["a", "b", "", "c d"]), max_size=6).map("\n".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=LINES, old=LINES, new=LINES, every=st.booleans())
def test_the_diff_is_what_the_tool_does(text: str, old: str, new: str, every: bool, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    preview = diff(tmp_path, "edit_file", path="a.txt", old=old, new=new, all=every)
    edit = next(tool for tool in file_tools(tmp_path) if tool.name == "edit_file")
    try:
        edit.function(path="a.txt", old=old, new=new, all=every)
    except TryAgain:
        assert preview.note is not None and preview.note.startswith("The edit will fail")
        return
    after = (tmp_path / "a.txt").read_text()
    lines = after.split("\n")
    shown = [row.text for row in preview.rows if row.kind in ("same", "add")]
    assert shown == (lines if lines[-1] else lines[:-1])[-len(shown) or len(lines) :][: len(shown)] or preview.rows


# Commands and other calls.


def test_a_command_has_its_directory(tmp_path: Path) -> None:
    preview = preview_call(request("run_command", command="ls\nrm \u200bx"), str(tmp_path))
    assert preview == CommandPreview("ls\nrm \\u200bx", str(tmp_path))
    assert preview.to_dict() == {"kind": "command", "command": "ls\nrm \\u200bx", "directory": str(tmp_path)}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "ls"}, CommandPreview("ls")),
        ({"cmd": "ls", "cwd": "/tmp"}, CommandPreview("ls", "/tmp")),
    ],
)
def test_commands_of_other_tools(arguments: dict[str, Any], expected: CommandPreview) -> None:
    assert preview_call(request("shell", **arguments)) == expected


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("shell", {"command": "ls", "timeout": 5}),
        ("shell", {"command": ["ls"]}),
        ("write_file", {"path": "a", "content": "x", "mode": "0777"}),
        ("write_file", {"path": "a", "content": 5}),
        ("edit_file", {"path": "a", "old": "x", "new": "y", "all": "yes"}),
        ("edit_file", {"path": "a", "old": "x"}),
        ("run_command", {"command": "ls", "x": "y"}),
        ("fetch_url", {"url": "https://a.com"}),
    ],
)
def test_any_other_call_shows_all_of_its_arguments(tool: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    preview = preview_call(request(tool, **arguments), str(tmp_path))
    assert isinstance(preview, CallPreview)
    assert preview.is_complete
    assert preview.to_dict() == {
        "kind": "call",
        "summary": preview.summary,
        "arguments": arguments,
        "is_complete": preview.is_complete,
    }
    assert all(str(name) in preview.details for name in arguments)


def test_a_tool_that_is_not_of_the_toolbox_is_any_other_call(tmp_path: Path) -> None:
    asked = request("write_file", path="a", content="x")
    assert isinstance(preview_call(asked, str(tmp_path), built_in=()), CallPreview)
    assert isinstance(preview_call(asked), CallPreview)


def test_arguments_that_are_no_object() -> None:
    preview = preview_call(PermissionRequest("c1", "f", "{x"))
    assert preview == CallPreview("f  {x", {}, "{x", True)


# What "always" and "edit" mean.


def test_always_is_what_is_remembered(tmp_path: Path) -> None:
    permissions = Permissions(approve="later")
    write = next(tool for tool in file_tools(tmp_path) if tool.name == "write_file")
    asked = request("write_file", path="a", content="x")
    assert describe_always(permissions, write, asked) == "every call of write_file, in this session"
    run = command_tool(tmp_path)
    for command, other, meaning in (
        (
            "git status",
            "git status -s",
            "every git status with the options that toolcast lists for it, in this session",
        ),
        ("git push", "git push", "exactly this command again, in this session"),
    ):
        assert describe_always(permissions, run, request("run_command", command=command)) == meaning
        rule = Rule.from_dict(permissions.rule_for_session(run, {"command": command}).to_dict())
        assert permissions.decide(run, {"command": other}, [rule]).verdict == "allow"
        assert permissions.decide(run, {"command": "git push -f"}, [rule]).verdict == "ask"
        assert permissions.decide(run, {"command": command, "cwd": "x"}, [rule]).verdict == "ask"


def test_the_text_of_an_edit() -> None:
    assert describe_edit(request("run_command", command="ls")) == {"argument": "command", "text": "ls"}
    assert describe_edit(request("move", a="x", b="y")) is None


def test_the_size_is_checked_before_the_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("x" * 100)
    monkeypatch.setattr(approval_preview, "LARGEST_FILE", 10)
    assert "too many to compare" in str(diff(tmp_path, "write_file", path="a.txt", content="").note)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert diff(tmp_path, "write_file", path="pipe", content="").note == (
        "The file is not shown: pipe is a pipe, and no file. Nothing will change."
    )
