"""`toolcast logs`: the saved sessions, listed, shown and deleted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from toolcast import Engine, ImagePart, Message, Permissions, Session, SQLiteStore, TextPart, ToolCallPart
from toolcast.agents.engine.session_state import fold
from toolcast.apps import cli
from toolcast.events import Finish, ThinkingDelta, ToolCallDone, ToolCallStart
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
    assert head.split() == ["SESSION", "BEGUN", "TURNS", "TOKENS", "FIRST", "WORDS"]
    assert first.split()[0] == "first"
    assert first.split()[3:] == ["1", "30", "What", "is", "1", "and", "2?"]
    assert second.split()[0] == "second"
    assert second.endswith(" " + "x" * 59 + "…")


def test_the_table_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["logs", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["session"] for row in rows] == ["second", "first"]
    assert (rows[1]["turns"], rows[1]["tokens"], rows[1]["first_words"]) == (1, 30, "What is 1 and 2?")


@pytest.mark.parametrize("wanted", ["first", "fir"])
def test_a_conversation(wanted: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["logs", wanted]) == 0
    head, _, rest = capsys.readouterr().out.partition("\n")
    assert head.startswith("session first, begun 2")
    assert head.endswith(", turns: 1, tokens: 30")
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
    assert "\nuser:\nSee \ufffd[31mhere\ufffd\n\nuser:\n[image, by URL]\n\nthinking:\nhm\n\ncalls add:" in out
    assert "\nadd failed:\nValueError: too small\n" in out


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
from toolcast import Engine, Permissions, Session, SQLiteStore, ToolCallPart
from toolcast.testing import ScriptedLLM
def wait() -> str:
    print("waiting", flush=True)
    return sys.stdin.readline()
engine = Engine(ScriptedLLM(ToolCallPart("c1", "wait", "{}"), "Done."), [wait], permissions=Permissions("bypass"))
with Session(engine, id="theirs", store=SQLiteStore(sys.argv[1])) as session:
    session.run("Wait.")
"""
    with subprocess.Popen(
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
        assert capsys.readouterr().out.endswith("\ncalls wait:\n{}\n\n(the last turn is unfinished)\n")
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
    _, late, damaged, *others = capsys.readouterr().out.splitlines()
    assert late.split() == ["late", "?", "0", "0"]
    assert damaged.split()[:4] == ["damaged", "?", "0", "0"]
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
