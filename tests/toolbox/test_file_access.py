"""file_access.py: reading, writing and editing files, and what Permissions make of the tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.engines import EngineAPI, call, results
from toolcast.agents.engine.engine import Engine
from toolcast.agents.permissions.permissions import Mode, Permissions
from toolcast.errors import TryAgain, ValidationError
from toolcast.testing import ScriptedLLM
from toolcast.toolbox import file_access
from toolcast.toolbox.file_access import FILE_TOOLS, FileChange, file_tools
from toolcast.toolbox.sandbox_paths import LARGEST
from toolcast.tools.callable_tool import ToolOutput


class Tools:
    """The tools on a folder, by their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tools = {tool.name: tool for tool in file_tools(folder)}

    def __call__(self, name: str, **arguments: Any) -> str:
        return self.output(name, **arguments).content

    def output(self, name: str, **arguments: Any) -> ToolOutput:
        return self._tools[name].call(json.dumps(arguments))

    def refuses(self, name: str, **arguments: Any) -> str:
        with pytest.raises(TryAgain) as raised:
            self(name, **arguments)
        return str(raised.value)


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path)


def write(tools: Tools, path: str, data: bytes) -> None:
    (tools.folder / path).write_bytes(data)


def names(folder: str | Path) -> list[str]:
    return sorted(entry.name for entry in Path(folder).iterdir())


# Reading.


def test_lines_have_their_numbers(tools: Tools) -> None:
    write(tools, "a.txt", b"one\r\n\r\n\tthree\n")
    assert tools("read_file", path="a.txt") == "1\tone\n2\t\n3\t\tthree"


def test_a_part_of_a_file(tools: Tools) -> None:
    write(tools, "a.txt", b"one\ntwo\nthree\nfour")
    assert tools("read_file", path="a.txt", lines=2) == "1\tone\n2\ttwo\n[4 lines in all; read on with start_line=3]"
    assert tools("read_file", path="a.txt", start_line=3, lines=2) == "3\tthree\n4\tfour"
    assert tools.refuses("read_file", path="a.txt", start_line=5) == "a.txt has 4 lines, so there is no line 5"
    with pytest.raises(ValidationError, match="start_line"):
        tools("read_file", path="a.txt", start_line=0)


def test_a_long_file_is_read_in_parts(tools: Tools) -> None:
    """The last line may go beyond the limit of 50,000 characters."""
    line = "12345678" * 125
    write(tools, "a.txt", f"{line}\n".encode() * 70)
    *first, note = tools("read_file", path="a.txt").splitlines()
    assert first == [f"{number}\t{line}" for number in range(1, 51)]
    assert note == "[70 lines in all; read on with start_line=51]"
    assert tools("read_file", path="a.txt", start_line=69) == f"69\t{line}\n70\t{line}"


def test_a_long_line_is_cut(tools: Tools) -> None:
    write(tools, "a.txt", b"x" * 2_001)
    assert tools("read_file", path="a.txt") == f"1\t{'x' * 2000}... [1 characters of this line left out]"


def test_the_most_that_is_read_at_once_is_not_cut_again(tools: Tools) -> None:
    write(tools, "a.txt", (b"x" * 5_000 + b"\n") * 1_000)
    assert tools("read_file", path="a.txt").endswith("; read on with start_line=26]")


def test_an_empty_file(tools: Tools) -> None:
    write(tools, "a.txt", b"")
    assert tools("read_file", path="a.txt") == "[a.txt is empty]"


def test_other_encodings_are_reported(tools: Tools) -> None:
    write(tools, "a.txt", b"caf\xe9\nbar")
    assert tools("read_file", path="a.txt", lines=1) == (
        "1\tcafé\n[its encoding is latin-1]\n[2 lines in all; read on with start_line=2]"
    )
    write(tools, "a.png", b"\x89PNG\0")
    assert tools.refuses("read_file", path="a.png") == "a.png is no text but a binary file, of 5 bytes"


# Writing.


def test_a_file_is_created_and_overwritten(tools: Tools) -> None:
    assert tools("write_file", path="new/a.txt", content="one\r\ntwo") == "created new/a.txt, 2 lines"
    assert (tools.folder / "new" / "a.txt").read_bytes() == b"one\r\ntwo"
    assert tools("write_file", path="new/a.txt", content="é\n") == "overwrote new/a.txt, 1 line"
    assert (tools.folder / "new" / "a.txt").read_bytes() == b"\xc3\xa9\n"
    assert tools("write_file", path="new/a.txt", content="") == "overwrote new/a.txt, 0 lines"


def test_what_is_no_text_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(TryAgain, match="half of a surrogate pair"):
        file_access.Files(file_access.SandboxRoot(tmp_path)).write_file("a.txt", "\ud800")
    assert not names(tmp_path)


# Editing.


def edited(tools: Tools, data: bytes, **arguments: Any) -> tuple[bytes, str]:
    write(tools, "a.txt", data)
    message = tools("edit_file", path="a.txt", **arguments)
    return (tools.folder / "a.txt").read_bytes(), message


@pytest.mark.parametrize(
    ("data", "old", "new", "becomes"),
    [
        (b"one\ntwo\n", "two", "2", b"one\n2\n"),
        (b"one\ntwo\n", "one\ntwo", "", b"\n"),
        (b"one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", b"1\r\n2\r\nthree\r\n"),
        (b"one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", b"1\r\n2\r\n"),
        (b"one\r\ntwo\r\n", "two", "2\n3", b"one\r\n2\r\n3\r\n"),
        (b"one\ntwo\n", "one\r\ntwo", "1\r\n2", b"1\n2\n"),
        (b"\xef\xbb\xbfone\r\n", "one", "1", b"\xef\xbb\xbf1\r\n"),
        (b"caf\xe9 one", "one", "\xe8", b"caf\xe9 \xe8"),
        ("one".encode("utf-16"), "one", "1", b"\xff\xfe1\0"),
    ],
)
def test_an_edit_changes_that_text_alone(tools: Tools, data: bytes, old: str, new: str, becomes: bytes) -> None:
    assert edited(tools, data, old=old, new=new)[0] == becomes


def test_an_edit_tells_the_lines(tools: Tools) -> None:
    assert edited(tools, b"a\nb\nc", old="b", new="x") == (
        b"a\nx\nc",
        "edited a.txt: replaced 1 occurrence, in line 2",
    )
    assert edited(tools, b"a\nb\na\nb\na", old="a\nb", new="x", all=True) == (
        b"x\nx\na",
        "edited a.txt: replaced 2 occurrences, in lines 1, 3",
    )
    _, message = edited(tools, b"a\n" * 12, old="a", new="x", all=True)
    assert message == "edited a.txt: replaced 12 occurrences, in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..."


def test_a_text_that_occurs_twice_is_refused(tools: Tools) -> None:
    write(tools, "a.txt", b"a\nb\na")
    assert tools.refuses("edit_file", path="a.txt", old="a", new="x") == (
        "the old text occurs 2 times in a.txt, in lines 1, 3; "
        "give more of the text around the one that is meant, or all=true for each of them"
    )
    assert (tools.folder / "a.txt").read_bytes() == b"a\nb\na"


def test_a_text_that_does_not_occur_is_reported_with_what_is_close(tools: Tools) -> None:
    write(tools, "a.txt", b"def one():\n    return 1\n\ndef two():\n    return 2\n")
    text = tools.refuses("edit_file", path="a.txt", old="2\treturn 1", new="x")
    assert text == (
        "the old text does not occur in a.txt; give it exactly, without line numbers. Close to it are:"
        "\n2\t    return 1\n5\t    return 2"
    )
    text = tools.refuses("edit_file", path="a.txt", old="\nclass Completely:\n", new="x")
    assert text == "the old text does not occur in a.txt; read the file first"
    text = tools.refuses("edit_file", path="a.txt", old="\n\n\n", new="x")
    assert text.endswith("; read the file first")


def test_edits_that_mean_nothing(tools: Tools) -> None:
    write(tools, "a.txt", b"a")
    assert "the old text is empty" in tools.refuses("edit_file", path="a.txt", old="", new="x")
    assert "nothing would change" in tools.refuses("edit_file", path="a.txt", old="a", new="a")
    write(tools, "b.txt", b"\xe9")
    assert "which has no '€'" in tools.refuses("edit_file", path="b.txt", old="é", new="€")
    assert (tools.folder / "b.txt").read_bytes() == b"\xe9"


# The tools.


def test_what_the_tools_say_of_themselves(tmp_path: Path) -> None:
    tools = file_tools(tmp_path)
    assert tuple(tool.name for tool in tools) == FILE_TOOLS
    assert [tool.name for tool in tools if tool.read_only] == ["read_file", "list_files", "search_files"]
    assert [tool.name for tool in tools if tool.idempotent] == [name for name in FILE_TOOLS if name != "edit_file"]
    assert not any(tool.destructive for tool in tools)
    assert [tool.runs_in_parallel for tool in tools] == [tool.read_only for tool in tools]
    for tool in tools:
        assert "path" in tool.path_parameters
        properties = tool.parameters["properties"]
        assert all(each.get("description") for each in properties.values()), tool.name


CALLS = [
    call("1", "read_file", '{"path": "a.txt"}'),
    call("2", "search_files", '{"pattern": "on."}'),
    call("3", "edit_file", '{"path": "a.txt", "old": "one", "new": "two"}'),
    call("4", "write_file", '{"path": "b.txt", "content": "new"}'),
    call("5", "read_file", '{"path": "../a.txt"}'),
    call("6", "write_file", '{"path": ".env", "content": "new"}'),
]


@pytest.mark.parametrize(
    ("mode", "ran"),
    [
        ("plan", ["1", "2"]),
        ("auto", ["1", "2"]),
        ("accept_edits", ["1", "2", "3", "4"]),
        ("default", []),
        ("bypass", ["1", "2", "3", "4"]),
        ("deny", []),
    ],
)
def test_what_runs_in_each_mode(engine_api: EngineAPI, tmp_path: Path, mode: Mode, ran: list[str]) -> None:
    (tmp_path / "a.txt").write_text("one")
    asked: list[str] = []

    def ask(request: Any) -> bool:
        asked.append(request.call_id)
        return False

    permissions = Permissions(mode, approve=ask, file_tools=FILE_TOOLS, root=str(tmp_path))
    engine = Engine(ScriptedLLM(CALLS, "Done."), file_tools(tmp_path), permissions=permissions)
    given = {part.call_id: part for part in results(engine_api.submit(engine, "Go").messages)}
    assert [id for id, part in given.items() if not part.is_error] == ran
    assert "denied" in given["6"].content and "6" not in asked
    if "1" in ran:
        assert given["1"].content == "1\tone" and given["2"].content == "a.txt:1: one"
        assert given["5"].content.startswith("'../a.txt' leads out of the working folder")
    assert (tmp_path / "a.txt").read_text() == ("two" if "3" in ran else "one")
    assert (tmp_path / "b.txt").exists() == ("4" in ran) and not (tmp_path / ".env").exists()


def test_what_is_asked_about_runs_when_it_is_allowed(engine_api: EngineAPI, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    permissions = Permissions("auto", approve="later", root=str(tmp_path))
    engine = Engine(ScriptedLLM(CALLS[2:4], "Done."), file_tools(tmp_path), permissions=permissions)
    turn = engine_api.submit(engine, "Go")
    assert [request.tool for request in turn.pending] == ["edit_file", "write_file"]
    assert (tmp_path / "a.txt").read_text() == "one"
    edit, new = turn.pending
    engine_api.submit(engine, answers=[edit.allow(), new.deny("not now")])
    assert (tmp_path / "a.txt").read_text() == "two" and not (tmp_path / "b.txt").exists()


def test_changes_are_reported(tmp_path: Path) -> None:
    changes: list[FileChange] = []
    _, write, edit, *_ = file_tools(tmp_path, on_change=changes.append)
    (tmp_path / "large").write_bytes(b"x" * (LARGEST + 1))
    for arguments in ({"path": "a", "content": "1"}, {"path": "a", "content": "2"}, {"path": "large", "content": ""}):
        assert not write.call(json.dumps(arguments)).is_error
    assert not edit.call(json.dumps({"path": "a", "old": "2", "new": "3"})).is_error
    with pytest.raises(TryAgain):
        write.call(json.dumps({"path": ".", "content": ""}))
    assert changes == [
        FileChange("a", None, b"1", is_new=True),
        FileChange("a", b"1", b"2"),
        FileChange("large", None, b""),
        FileChange("a", b"2", b"3"),
    ]
