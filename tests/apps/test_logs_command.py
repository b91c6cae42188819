"""`toolcast logs`: the saved sessions, listed, shown and deleted."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support import warm_python
from toolcast import Engine, Message, Permissions, Session, ToolCallPart
from toolcast.agents.engine.session_state import fold
from toolcast.apps import cli, logs_command
from toolcast.apps.output import display_width
from toolcast.events import Finish, ThinkingDelta, ToolCallDone, ToolCallStart
from toolcast.messages import ImagePart, TextPart
from toolcast.stores import SQLiteStore
from toolcast.testing import ScriptedLLM


def add(a: int, b: int) -> int:
    """Add two numbers."""
    if a < 0:
        raise ValueError("too small")
    return a + b


@contextmanager
def session(home: Path, id: str, message: Any, *answers: Any) -> Iterator[None]:
    """A session of one turn, open inside."""
    engine = Engine(ScriptedLLM(*answers), [add], permissions=Permissions("bypass"))
    with SQLiteStore(home / "sessions.db") as store, Session(engine, id=id, store=store) as begun:
        begun.run(message)
        yield


def saved(home: Path, id: str, message: Any, *answers: Any) -> None:
    """A session of one turn, left behind."""
    with session(home, id, message, *answers):
        pass


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with two sessions."""
    monkeypatch.setenv("TOOLCAST_HOME", str(tmp_path))
    saved(tmp_path, "first", "What is\n 1 and 2?", ToolCallPart("c1", "add", '{"a":1,"b":2}'), "It is 3.")
    saved(tmp_path, "second", "x" * 100, "Long.")
    return tmp_path


def test_the_table(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["logs"]) == 0
    head, second, first = capsys.readouterr().out.splitlines()
    assert head.split() == ["SESSION", "BEGUN", "KIND", "END", "MODEL", "TURNS", "TOKENS", "COST", "TITLE"]
    assert first.split()[0] == "first"
    assert first.split()[3:] == ["chat", "done", "1", "30", "-", "What", "is", "1", "and", "2?"]
    assert second.split()[0] == "second"
    assert second.endswith(" " + "x" * 59 + "…")


def test_the_table_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["logs", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["session"] for row in rows] == ["second", "first"]
    assert (rows[1]["turns"], rows[1]["tokens"], rows[1]["title"]) == (1, 30, "What is 1 and 2?")
    assert rows[1]["cost"] is None


@pytest.mark.parametrize("wanted", ["first", "fir"])
def test_a_conversation(wanted: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["logs", wanted]) == 0
    head, facts, rest = capsys.readouterr().out.split("\n", 2)
    assert head == "session first"
    assert facts.startswith("begun 2")
    assert facts.endswith(", turns: 1, tokens: 30 (20 in, 10 out), cost: -")
    assert rest == (
        "\nuser:\nWhat is\n 1 and 2?\n"
        '\ncalls add:\n{"a":1,"b":2}\n'
        "\nadd returned:\n3\n"
        "\nassistant:\nIt is 3.\n"
    )  # fmt: skip


def test_what_may_stand_in_a_conversation(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = Message("user", (TextPart("See \x1b[31mhere\a"), ImagePart(url="https://example.com/a.png")))
    call = '{"a":-1,"b":2}'
    answer = [ThinkingDelta("hm"), ToolCallStart("c1", "add"), ToolCallDone("c1", "add", call), Finish("tool_use")]
    saved(home, "third", [message], answer, "No.")
    assert cli.main(["logs", "third"]) == 0
    out = capsys.readouterr().out
    assert "\nuser:\nSee \ufffd[31mhere\ufffd\n\n[image, by URL]\n\nthinking:\nhm\n\ncalls add:" in out
    assert "\nadd failed:\nValueError: too small\n" in out


@pytest.mark.parametrize(
    ("end", "word"),
    [
        ("end_turn", "done"),
        ("tool_use", "done"),
        ("error", "failed"),
        ("cancelled", "stopped"),
        ("max_tokens", "cut off"),
        ("content_filter", "refused"),
        ("approval", "waits"),
        (None, "unfinished"),
    ],
)
def test_how_the_last_turn_ended(home: Path, end: str | None, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with SQLiteStore(home / "sessions.db") as store:
        store.append("first", [{"kind": "turn", "turns": 1, "end": end}])
    assert cli.main(["logs", "--search", "What is"]) == 0
    assert f" {word} " in capsys.readouterr().out
    assert cli.main(["logs", "first"]) == 0
    assert capsys.readouterr().out.endswith(f"(the last turn: {word})\n") == (word != "done")
    assert cli.main(["logs", "--search", "What is", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["end"] == end


def test_the_records(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["logs", "first", "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with SQLiteStore(home / "sessions.db") as store:
        assert records == store.read("first")
    assert fold(records).id == "first"


def test_an_open_session_can_be_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with session(home, "open", "Hello", "Hi."):
        assert cli.main(["logs", "open"]) == 0
        assert "\nassistant:\nHi.\n" in capsys.readouterr().out
        assert cli.main(["logs", "open", "--delete"]) == 1
        assert "is open already" in capsys.readouterr().err


def test_a_session_that_another_process_has_open(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also in the middle of a turn: the process waits in a tool until we have read."""
    code = """
import sys
from toolcast import Agent, Permissions, ToolCallPart
from toolcast.stores import SQLiteStore
from toolcast.testing import ScriptedLLM
def wait() -> str:
    print("waiting", flush=True)
    return sys.stdin.readline()
agent = Agent(ScriptedLLM(ToolCallPart("c1", "wait", "{}"), "Done."), [wait], permissions=Permissions("bypass"))
with agent.session(SQLiteStore(sys.argv[1]), "theirs") as session:
    session.run("Wait.")
"""
    with warm_python.Popen(
        [sys.executable, "-c", code, str(home / "sessions.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "waiting\n"
        assert cli.main(["logs"]) == 0
        assert "theirs" in capsys.readouterr().out
        assert cli.main(["logs", "theirs"]) == 0
        assert capsys.readouterr().out.endswith("\ncalls wait:\n{}\n\n(the last turn: unfinished)\n")
        assert cli.main(["logs", "theirs", "--delete"]) == 1
        assert "is open in process" in capsys.readouterr().err
        process.stdin.write("go on\n")
        process.stdin.close()
    assert process.returncode == 0
    assert cli.main(["logs", "theirs"]) == 0
    assert "\nDone.\n" in capsys.readouterr().out


def test_a_session_is_deleted_by_its_whole_id(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["logs", "fir", "--delete"]) == 1
    assert "no session 'fir': `toolcast logs` lists them" in capsys.readouterr().err
    assert cli.main(["logs", "first", "--delete"]) == 0
    assert cli.main(["logs", "--json"]) == 0
    assert [json.loads(line)["session"] for line in capsys.readouterr().out.splitlines()] == ["second"]


def test_a_delete_without_an_id(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["logs", "--delete"]) == 2
    assert capsys.readouterr() == (
        "",
        "toolcast logs: --delete needs the full id of the session to delete; `toolcast logs` lists the ids\n",
    )


@pytest.mark.parametrize(
    ("wanted", "why"),
    [("none", "no session 'none'"), ("s", "2 sessions begin with 's'")],
)
def test_what_is_no_session(wanted: str, why: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(home, "seventh", "Hello", "Hi.")
    assert cli.main(["logs", wanted]) == 1
    assert capsys.readouterr().err == f"toolcast: {why}: `toolcast logs` lists them\n"


def test_a_damaged_session_keeps_no_other_from_being_listed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SQLiteStore(home / "sessions.db") as store:
        store.append("damaged", [{"kind": "nonsense"}])
        store.append("late", [{"kind": "opened", "version": [1, 0], "id": "late", "time": 1e300}])
    assert cli.main(["logs"]) == 0
    _, late, *others, damaged = capsys.readouterr().out.splitlines()
    assert late.split() == ["late", "?", "chat", "-", "0", "0", "-"]
    assert damaged.split()[:7] == ["damaged", "?", "chat", "-", "0", "0", "-"]
    assert "record 1 of the session is damaged" in damaged
    assert len(others) == 2
    assert cli.main(["logs", "damaged"]) == 1
    assert cli.main(["logs", "damaged", "--json"]) == 0


def test_another_home(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "else", "third", "Hello", "Hi.")
    assert cli.main(["logs", "--home", str(tmp_path / "else")]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("third")


def test_a_home_without_sessions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["logs", "--home", str(tmp_path)]) == 1
    assert "start one with `toolcast chat`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    SQLiteStore(tmp_path / "sessions.db").close()
    for line in (["logs"], ["logs", "--json"]):
        assert cli.main([*line, "--home", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""


def test_the_last_ones_and_a_search(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def ids(*words: str) -> list[str]:
        assert cli.main(["logs", "--json", *words]) == 0
        return [json.loads(line)["session"] for line in capsys.readouterr().out.splitlines()]

    assert ids("-n", "1") == ["second"]
    assert ids("--search", "IS what") == ["first"]
    assert ids("--search", "nowhere") == []
    assert cli.main(["logs", "--search", "nowhere"]) == 0
    assert capsys.readouterr() == ("", "toolcast logs: no session contains 'nowhere'\n")
    assert cli.main(["logs", "last"]) == 0
    assert capsys.readouterr().out.startswith("session second\n")


def test_many_sessions(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SQLiteStore(home / "sessions.db") as store:
        for number in range(60):
            store.append(f"s{number}", [{"kind": "opened", "version": [1, 0], "id": f"s{number}", "time": number}])
    assert cli.main(["logs"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 51
    assert err == "toolcast logs: 12 older ones are left out; --last N lists more\n"
    assert cli.main(["logs", "--last", "100"]) == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (63, "")


def details(store: SQLiteStore, id: str, **more: Any) -> None:
    store.append(id, [{"kind": "opened", "version": [1, 0], "id": id, "time": 0, "details": more}])


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_the_list_fits_a_terminal(
    width: int, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = "日本語のとても長い題名" * 10
    with SQLiteStore(home / "sessions.db") as store:
        details(store, "get-20260301-091244-ab12", title=wide, model="anthropic:claude-sonnet-4-5", mode="get")
    monkeypatch.setattr("shutil.get_terminal_size", lambda: SimpleNamespace(columns=width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert cli.main(["logs"]) == 0
    out = capsys.readouterr().out
    assert max(display_width(line) for line in out.splitlines()) <= width
    assert "日本語" in out
    assert "get-20260301-091244-ab12" in out
    assert ("TITLE" in out) == (width > 60)
    assert ("claude-sonnet-4-5" in out) == (width in (40, 60, 120, 200))


def test_cost_and_time_of_a_call(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = {"input_tokens": 1200, "output_tokens": 300, "cache_read_tokens": 0, "cache_creation_tokens": 0}
    with SQLiteStore(home / "sessions.db") as store:
        details(store, "c", title="get name: x", model="m", mode="get", seconds=1.25)
        store.append("c", [{"kind": "usage", "usage": usage | {"cost": "0.00123"}, "spent": {}}])
    assert cli.main(["logs", "--search", "name"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[3:] == [
        "get",
        "-",
        "m",
        "0",
        "1,500",
        "$0.0012",
        "get",
        "name:",
        "x",
    ]
    assert cli.main(["logs", "c"]) == 0
    _, facts, more = capsys.readouterr().out.splitlines()
    assert facts.endswith("tokens: 1,500 (1,200 in, 300 out), cost: $0.0012, 1.2 s")
    assert more == "model: m, mode: get"
    assert cli.main(["logs", "--json", "--search", "name"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"] == "0.00123"


@pytest.mark.parametrize(
    ("cost", "shown"),
    [("", "-"), ("0.0", "$0.00"), ("12.345", "$12.34"), ("0.5", "$0.50"), ("0.00000123", "$0.0000012")],
)
def test_how_a_cost_is_written(cost: str, shown: str) -> None:
    assert logs_command._format_cost(cost) == shown


def test_another_file(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "else", "third", "Hello", "Hi.")
    (tmp_path / "else" / "sessions.db").rename(tmp_path / "mine.sqlite")
    assert cli.main(["logs", "--db", str(tmp_path / "mine.sqlite")]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("third")


def test_a_file_that_is_no_store_is_an_error_and_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def error(file: Path) -> str:
        assert cli.main(["logs", "--db", str(file)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        return err

    (tmp_path / "empty.db").touch()
    (tmp_path / "notes.txt").write_text("These are notes. " * 100, encoding="utf-8")
    with sqlite3.connect(tmp_path / "birds.db") as birds:
        birds.execute("CREATE TABLE birds (name TEXT)")
    birds.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "does not exist: name the file of a SQLiteStore" in error(tmp_path / "none.db")
    assert "is empty: name the file" in error(tmp_path / "empty.db")
    assert "is a directory: name the file" in error(tmp_path)
    assert "notes.txt is no SQLite database: name the file" in error(tmp_path / "notes.txt")
    assert "is the database of another application" in error(tmp_path / "birds.db")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
