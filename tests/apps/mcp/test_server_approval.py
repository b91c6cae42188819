"""The approval of a project's servers: what is shown, and what is stored."""

from __future__ import annotations

import io
import os
import sys
import termios
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolcast.apps.mcp import server_approval as module
from toolcast.apps.mcp.mcp_files import MCPFile, ServerEntry
from toolcast.apps.mcp.server_approval import ApprovalFile, ApprovalTerminal, approval_lines

SERVERS = (
    ServerEntry("files", "npx", ("-y", "server \u202e"), {"KEY": "${K}"}, "sub"),
    ServerEntry("tracker", url="https://x.example/mcp", headers={"Authorization": "Bearer t"}),
    ServerEntry("off", "rm", disabled=True),
    ServerEntry("wrong", problem="expected either command or url"),
)


class Person(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def file(path: Path, digest: str = "1") -> MCPFile:
    return MCPFile(path / ".mcp.json", digest, SERVERS, is_project=True)


def test_the_question_shows_exactly_what_runs() -> None:
    assert list(approval_lines(file(Path("/w")))) == [
        "/w/.mcp.json names MCP servers.",
        "They run as you, outside the permissions of the chat:",
        r"  files    npx -y 'server \u202e'",
        "             folder sub",
        "             env KEY=${K}",
        "  tracker  https://x.example/mcp",
        "             header Authorization=***",
    ]


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y\n", True),
        ("YES\n", True),
        ("n\n", None),
        ("", None),
        ("v\n", False),
        ("d\n\nyep\ny\n", True),  # what is no answer is ignored
    ],
)
def test_the_answers(typed: str, answer: bool | None, tmp_path: Path) -> None:
    shown = Person()
    terminal = ApprovalTerminal(Person(typed), shown)
    assert terminal.can_ask
    assert terminal.ask(file(tmp_path)) is answer
    question, _, outcome = shown.getvalue().rpartition("Start them, now and until the file changes? ")
    assert question
    assert outcome.startswith("[y]es, [n]o, ne[v]er: yes\n" if answer else "[y]es, [n]o, ne[v]er: n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo terminals")
@pytest.mark.parametrize(
    ("pressed", "answer"),
    [(["y"], True), (["d", "\x1b[A", " ", "qV"], False), (["\x1b"], None), (["\x04"], None)],
)
def test_on_a_terminal_one_key_answers(
    pressed: list[str], answer: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyboard, terminal = os.openpty()
    keys = iter(pressed)

    def read(descriptor: int, size: int) -> bytes:
        os.write(keyboard, next(keys).encode())  # and no Enter
        return os.read(descriptor, size)

    monkeypatch.setattr(module, "os", SimpleNamespace(read=read))
    with Path(f"/dev/fd/{terminal}").open(encoding="utf-8") as stdin:
        before = termios.tcgetattr(stdin)
        assert ApprovalTerminal(stdin, Person()).ask(file(tmp_path)) is answer
        assert termios.tcgetattr(stdin) == before
    os.close(terminal)
    os.close(keyboard)
    assert list(keys) == []


def test_an_answer_is_for_one_content_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "data" / "approved.json"
    approvals = ApprovalFile(path)
    assert approvals.answer(file(tmp_path)) is None
    approvals.store(file(tmp_path), True)
    assert ApprovalFile(path).answer(file(tmp_path)) is True
    assert approvals.answer(file(tmp_path, "2")) is None
    assert approvals.answer(file(tmp_path / "other")) is None
    approvals.store(file(tmp_path, "2"), False)
    assert approvals.answer(file(tmp_path, "2")) is False
    assert approvals.answer(file(tmp_path)) is None
    assert approvals.forget(tmp_path / ".mcp.json")
    assert not approvals.forget(tmp_path / ".mcp.json")
    assert approvals.answer(file(tmp_path, "2")) is None


@pytest.mark.parametrize("row", ["1", '{"sha256": "1"}', '{"sha256": 1, "approved": true}', '{"approved": true}'])
def test_what_is_damaged_is_no_answer(row: str, tmp_path: Path) -> None:
    path = tmp_path / "approved.json"
    for content in ("{", "[]", f'{{"{tmp_path / ".mcp.json"}": {row}}}'):
        path.write_text(content)
        assert ApprovalFile(path).answer(file(tmp_path)) is None


def test_a_message_is_wrapped_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    shown, file = Person(), io.StringIO()
    for stream in (shown, file):
        ApprovalTerminal(Person(), stream).note("MCP server docs did not start: see https://py.sdk/well-known\x1b")
    assert shown.getvalue() == "MCP server docs did not\n  start: see\n  https://py.sdk/well-known\\x1b\n"
    assert file.getvalue().count("\n") == 1
