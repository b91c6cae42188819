"""The toolbox as models, people and attackers use it: what went wrong once."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pytest

from support.loopback import HOLD, Loopback
from support.process import Process
from toolcast.errors import TryAgain
from toolcast.events import ToolProgress
from toolcast.toolbox import fetch, file_access, sandbox_paths, shell_command
from toolcast.toolbox.fetch import fetch_tool
from toolcast.toolbox.file_access import file_tools
from toolcast.toolbox.file_search import glob_fits, pattern_fits
from toolcast.toolbox.sandbox_paths import LARGEST, OpenDirectory
from toolcast.toolbox.shell_command import command_tool, environment_without_secrets
from toolcast.tools.callable_tool import ToolInvocation
from toolcast.tools.tool_context import ToolContext

PATIENCE = 30


class Folders:
    """The tools on a folder, by their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tools = {tool.name: tool for tool in file_tools(folder)}

    def __call__(self, name: str, **arguments: Any) -> str:
        return self._tools[name].call(json.dumps(arguments)).content

    def refuses(self, name: str, **arguments: Any) -> str:
        with pytest.raises(TryAgain) as raised:
            self(name, **arguments)
        return str(raised.value)


@pytest.fixture
def tools(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


# Folders that others work in, too.


def test_a_file_that_goes_away_while_its_folder_is_read_is_not_listed(
    tools: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tools.folder / "gone.tmp").touch()
    (tools.folder / "kept.txt").write_text("here\n")
    mode_of = sandbox_paths._mode_of

    def later(entry: os.DirEntry[str]) -> int | None:
        (tools.folder / "gone.tmp").unlink(missing_ok=True)
        return mode_of(entry)

    monkeypatch.setattr(sandbox_paths, "_mode_of", later)
    assert tools("list_files") == "kept.txt"
    assert tools("search_files", pattern="here") == "kept.txt:1: here"


def between(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Have something happen after a file was read, and before the new one takes its place."""
    write = OpenDirectory.write

    def later(folder: OpenDirectory, name: str, data: bytes, old: os.stat_result | None) -> None:
        change()
        write(folder, name, data, old)

    monkeypatch.setattr(OpenDirectory, "write", later)


def test_what_someone_else_writes_meanwhile_is_not_lost(tools: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tools.folder / "a.txt"
    file.write_text("one\ntwo\n")
    between(monkeypatch, lambda: file.write_text("one\ntwo\nthree\n"))
    message = tools.refuses("edit_file", path="a.txt", old="one", new="1")
    assert message == "'a.txt' cannot be used: it was changed by another process; read it again"
    assert file.read_text() == "one\ntwo\nthree\n"
    assert [entry.name for entry in tools.folder.iterdir()] == ["a.txt"]


def test_of_two_edits_at_once_the_second_sees_the_first(tools: Folders, process: Process) -> None:
    file, ready = tools.folder / "a.txt", threading.Event()
    file.write_text("one\ntwo\n")
    process.call("fsync", lambda _: ready.set())
    message: list[str] = []
    second = threading.Thread(
        target=lambda: message.append(tools.refuses("edit_file", path="a.txt", old="one", new="1")), daemon=True
    )
    with sandbox_paths._replacing:
        second.start()
        assert ready.wait(PATIENCE)
        file.write_text("one\ntwo\nthree\n")
    second.join(PATIENCE)
    assert "it was changed by another process" in message[0]
    assert file.read_text() == "one\ntwo\nthree\n"


def test_a_file_that_someone_else_creates_meanwhile_stays(tools: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    between(monkeypatch, lambda: (tools.folder / "new.txt").write_text("theirs"))
    assert "it was changed by another process" in tools.refuses("write_file", path="new.txt", content="mine")
    assert (tools.folder / "new.txt").read_text() == "theirs"


def test_a_path_may_be_a_hundred_folders_deep(tools: Folders) -> None:
    deep = "d/" * 100
    assert tools("write_file", path=f"{deep}x", content="x") == f"created {deep}x, 1 line"
    message = tools.refuses("write_file", path=f"{deep}d/x", content="x")
    assert message.endswith("leads through more than 100 folders")
    assert not (tools.folder / deep / "d").exists()


def test_a_new_text_does_not_run_with_the_rights_of_the_old_file(tools: Folders) -> None:
    file = tools.folder / "run"
    file.touch()
    file.chmod(0o4755)
    tools("write_file", path="run", content="#!/bin/sh\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


@pytest.mark.parametrize("path", ["~", "~/notes.txt", "./~/notes.txt"])
def test_no_folder_is_made_that_a_shell_takes_for_the_home(tools: Folders, path: str) -> None:
    assert "leads out of the working folder" in tools.refuses("write_file", path=path, content="x")
    assert not any(tools.folder.iterdir())


def test_a_tilde_elsewhere_is_a_sign_like_any_other(tools: Folders) -> None:
    assert tools("write_file", path="~lock/~/x~", content="x") == "created ~lock/~/x~, 1 line"


def test_the_path_of_a_folder_becomes_no_file(tools: Folders) -> None:
    message = tools.refuses("write_file", path="src/", content="")
    assert message == "'src/' names a folder; folders are made with the first file written in them"
    assert not any(tools.folder.iterdir())


def test_who_looked_in_the_wrong_place_is_reported_where_to_look(tools: Folders) -> None:
    tools("write_file", path="src/app.py", content="")
    assert tools("list_files", pattern="*.py") == "no files fit '*.py'; ** goes into the folders below"
    assert tools("list_files", pattern="**/*.rs") == "no files fit '**/*.rs'"
    assert tools.refuses("read_file", path="src") == "src is a folder, and no file; list_files shows its contents"


# Edits of files that editors and models treat differently.


@pytest.mark.parametrize(
    ("data", "old", "new", "becomes"),
    [
        # A file with both line ends: what is edited keeps its own.
        (b"a\r\nb\r\nc\r\nd\ne\n", "d\ne", "d\nf\ne", b"a\r\nb\r\nc\r\nd\nf\ne\n"),
        (b"a\nb\nc\nd\r\ne\r\n", "d\ne", "d\nf\ne", b"a\nb\nc\nd\r\nf\r\ne\r\n"),
        (b"a\nb\r\nc", "a\nb\nc", "x\ny", b"x\r\ny"),
        (b"a\r\nb\r\n", "b", "c\nd", b"a\r\nc\r\nd\r\n"),
        # What means something in a pattern means itself.
        (b"f(x) = $1.*\\1\n", "f(x) = $1.*\\1", "\\g<0>\\n", b"\\g<0>\\n\n"),
    ],
)
def test_an_edit_finds_the_text_however_its_lines_end(
    tools: Folders, data: bytes, old: str, new: str, becomes: bytes
) -> None:
    (tools.folder / "x").write_bytes(data)
    tools("edit_file", path="x", old=old, new=new)
    assert (tools.folder / "x").read_bytes() == becomes


def test_what_is_close_is_reported_of_the_line_that_is_missing(tools: Folders) -> None:
    (tools.folder / "x").write_text("def one():\n    return compute(1)\n")
    message = tools.refuses("edit_file", path="x", old="def one():\n    return compute(2)", new="pass")
    assert message.splitlines()[1:] == ["2\t    return compute(1)"]


def test_what_is_close_is_looked_for_among_the_likely_lines_alone(
    tools: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def close(word: str, likely: list[str], count: int) -> list[str]:
        compared.append(len(likely) * len(word) * max(map(len, likely)))
        return get_close_matches(word, likely, count)

    monkeypatch.setattr(file_access, "get_close_matches", close)
    lines = [f"line {number} of many " * 100 for number in range(1000)]
    (tools.folder / "x").write_text("\n".join(lines))
    message = tools.refuses("edit_file", path="x", old="line 42 of manx " * 100, new="")
    assert message.splitlines()[1].startswith("43\tline 42 of many line 42")
    assert compared == [20 * 150 * 150]


def test_an_edit_does_not_make_a_file_too_large_to_be_read(tools: Folders) -> None:
    (tools.folder / "x").write_text("a" * 20 + "b" * (LARGEST - 60))
    message = tools.refuses("edit_file", path="x", old="a", new="abcd", all=True)
    assert message == f"x would grow beyond {LARGEST:,} bytes; change less of it at once"
    assert tools("edit_file", path="x", old="a", new="abc", all=True) == "edited x: replaced 20 occurrences, in line 1"
    assert (tools.folder / "x").stat().st_size == LARGEST


# Patterns that take long, though never forever.


@pytest.mark.parametrize(
    "pattern", ["(.{0,100}){0,50}!", "([^a]?){0,5000}!", "(a{0,50}){0,50}{3}", "(a{100})*{50}", "a{9999999999999}"]
)
def test_patterns_that_count_too_far(pattern: str) -> None:
    with pytest.raises(TryAgain, match="counts too far: take smaller numbers"):
        pattern_fits(pattern)


@pytest.mark.parametrize("pattern", ["(?ix)(a{0,100}) {0,100}", r"\\(?x)(a{0,100}) {0,100}", "(?x:a)"])
def test_blanks_in_a_pattern_mean_themselves(pattern: str) -> None:
    with pytest.raises(TryAgain, match="the flag x is not supported"):
        pattern_fits(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(\d{1,3}\.){3}\d{1,3}", "to 10.20.30.40"),
        (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "01234567-89ab-cdef-0123-456789abcdef"),
        (r".{80,}", "x" * 80),
        (r"\x{2014}", "\u2014"),
        (r"a{0}b", "b"),
        (r"print\(?x", "print(x)"),
        (r"(?i)(?P<x>A)", "a"),
    ],
)
def test_patterns_that_count_as_people_do(pattern: str, text: str) -> None:
    assert pattern_fits(pattern)(text)


def test_signs_of_any_number_are_a_glob() -> None:
    assert glob_fits("\u2014\u2015*")("\u2014\u2015.txt")


# Pages.


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\nx: a", b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\na"])
def test_a_server_that_sends_a_byte_now_and_then_is_left_in_time(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch._Fetch, "_left", lambda _: 60.0)  # there is always something to read in time
    tool = fetch_tool(resolve=lambda host, port: ["127.0.0.1"], allowed=lambda address: True, timeout=0.05)
    with Loopback() as server:
        server.answer(begin, HOLD)
        with pytest.raises(TryAgain, match="could not be fetched: it took too long"):
            tool.call({"url": f"http://example.com:{server.port}/"})
        server.wait_open(0)


# Commands.


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "x") for name in ("APIKEY", "MYSQL_PWD", "DB_PASS", "NPM_AUTH", "DOCKER_AUTH_CONFIG", "SOME_JWT")),
        ("REDIS_URL", "redis://:s3cret@cache:6379/0"),
        ("HTTPS_PROXY", "http://me:s3cret@proxy:3128"),
    ],
)
def test_what_else_is_secret(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert name not in environment_without_secrets()


@pytest.mark.parametrize(
    ("name", "value"),
    [("OLDPWD", "/"), ("HTTPS_PROXY", "http://proxy:3128"), ("ORIGIN", "ssh://git@host/x"), ("KEYBOARD", "us")],
)
def test_what_is_not(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert environment_without_secrets()[name] == value


def test_who_left_the_group_is_not_received_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little_grace: None
) -> None:
    os.mkfifo(tmp_path / "gate")
    os.mkfifo(tmp_path / "out")
    text: list[ToolProgress] = []
    reading: list[Any] = []
    begin = shell_command._Command.__init__

    def begun(running: Any, *arguments: Any) -> None:
        begin(running, *arguments)
        reading.append(running._threads[0])

    monkeypatch.setattr(shell_command._Command, "__init__", begun)
    tool = command_tool(tmp_path)
    # The shell ends when the other one has left the group: then that opens the pipe.
    command = "setsid sh -c 'echo > out; cat gate; echo late' & cat out >/dev/null; echo done"
    context: ToolContext[Any] = ToolContext("1", tool.name, on_progress=text.append)
    output = tool.answer(ToolInvocation({"command": command}, tool.read({"command": command})), context)
    (tmp_path / "gate").write_bytes(b"")
    reading[0].join(PATIENCE)
    assert not reading[0].is_alive()
    assert output.content == "done\n[exit code 0]"
    assert "".join(progress.data for progress in text) == "done\n"
