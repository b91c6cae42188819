"""The files that a turn has changed, when the turn is undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.scripted_screen import ScriptedScreen
from toolcast.apps.repl.file_changes import ChangeJournal, called_commands, called_paths
from toolcast.apps.repl.modes import MODES
from toolcast.apps.repl.open_session import ChatSetup, OpenConversation
from toolcast.apps.repl.repl import Repl
from toolcast.messages import Message, ToolCallPart, ToolResultPart, assistant, user
from toolcast.stores import MemoryStore
from toolcast.testing import ScriptedLLM
from toolcast.text.json_text import json_text
from toolcast.toolbox.file_access import FileChange, file_tools
from toolcast.toolbox.shell_command import command_tool


def write(path: str, content: str, id: str = "c1") -> ToolCallPart:
    return ToolCallPart(id, "write_file", json_text({"path": path, "content": content}))


def edit(path: str, old: str, new: str, id: str = "c1") -> ToolCallPart:
    return ToolCallPart(id, "edit_file", json_text({"path": path, "old": old, "new": new}))


def run(folder: Path, llm: ScriptedLLM, *typed: str | Callable[[], str | None] | None) -> ScriptedScreen:
    """The screen of a REPL in this folder that needs no approvals, after all of this was typed."""
    screen, journal = ScriptedScreen(*typed), ChangeJournal(folder)
    setup = ChatSetup(llm, MODES["auto"], file_tools(folder, on_change=journal.add), root=str(folder), journal=journal)
    assert Repl(OpenConversation(setup, MemoryStore()), screen).run() == 0
    return screen


@pytest.mark.parametrize("command", ["/undo", "/retry"])
def test_files_are_restored_by_one_key(tmp_path: Path, command: str) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    calls = [edit("a.txt", "two", "three"), write("new/b.txt", "text", "c2"), edit("a.txt", "three", "four", "c3")]
    screen = run(tmp_path, ScriptedLLM([calls[0], calls[1]], calls[2], "Done.", "Again."), "fix", command, "y")
    assert (tmp_path / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert not (tmp_path / "new" / "b.txt").exists()
    assert "Restored: a.txt, new/b.txt" in screen.notes
    assert "keep" not in screen.notes
    assert any("restore a.txt, new/b.txt" in prompt for prompt, _ in screen.prompts)


@pytest.mark.parametrize("answer", ["n", None])
def test_files_that_are_kept_are_named(tmp_path: Path, answer: str | None) -> None:
    screen = run(tmp_path, ScriptedLLM(write("a.txt", "text"), "Done."), "fix", "/undo", answer)
    assert (tmp_path / "a.txt").read_text() == "text"
    assert "a.txt keeps its changes.\nRemoved: fix" in screen.notes


def test_a_file_that_has_changed_since_is_left_alone(tmp_path: Path) -> None:
    def change() -> str:
        (tmp_path / "a.txt").write_text("mine")
        (tmp_path / "b.txt").unlink()
        return "/undo"

    calls = [write("a.txt", "text"), write("b.txt", "text", "c2")]
    screen = run(tmp_path, ScriptedLLM(calls, "Done."), "fix", change)
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert "a.txt, b.txt keep their changes.\nRemoved: fix" in screen.notes


def test_each_turn_has_its_own_changes(tmp_path: Path) -> None:
    llm = ScriptedLLM(write("a.txt", "1"), "One.", write("a.txt", "2", "c2"), "Two.")
    run(tmp_path, llm, "first", "second", "/undo", "y", lambda: (tmp_path / "a.txt").read_text() + "?", "/undo")
    assert llm.requests[-1].messages[-1].text == "1?"


@pytest.mark.parametrize("command", ["/undo", "/retry"])
def test_commands_that_ran_are_named(tmp_path: Path, command: str) -> None:
    screen = ScriptedScreen("fix", "y", command)
    llm = ScriptedLLM(ToolCallPart("c1", "run_command", '{"command": "echo one;\\n echo two"}'), "Done.", "Again.")
    setup = ChatSetup(llm, MODES["auto"], [command_tool(tmp_path)], root=str(tmp_path))
    assert Repl(OpenConversation(setup, MemoryStore()), screen).run() == 0
    assert "What this command did stays: echo one; echo two" in screen.notes


def test_an_undo_that_is_stopped_changes_nothing(tmp_path: Path) -> None:
    def stop() -> str:
        raise KeyboardInterrupt

    llm = ScriptedLLM(write("a.txt", "text"), "Done.", "Fine.")
    screen = run(tmp_path, llm, "fix", "/undo", stop, "and now?")
    assert (tmp_path / "a.txt").read_text() == "text"
    assert "Removed" not in screen.notes
    assert len(llm.requests[-1].messages) == 6


def test_a_change_in_between_cannot_be_restored(tmp_path: Path) -> None:
    journal, question = ChangeJournal(tmp_path), user("fix")
    journal.begin_turn(question)
    for change in (FileChange("a.txt", b"1", b"2"), FileChange("a.txt", b"mine", b"3")):
        journal.add(change)
    (tmp_path / "a.txt").write_bytes(b"3")
    (change,) = journal.changes(question)
    assert change == FileChange("a.txt", None, b"3")
    assert not journal.can_restore(change)
    assert journal.changes(user("fix")) == []


def test_a_resumed_session_knows_the_names() -> None:
    calls = (write("a.txt", ""), edit("b.txt", "1", "2", "c2"), ToolCallPart("c3", "write_file", "{"))
    failed = Message("tool", (ToolResultPart("c2", "no such file", "edit_file", is_error=True),))
    assert list(called_paths([user("fix"), Message("assistant", calls), failed, assistant("Done.")])) == ["a.txt"]


def test_a_denied_command_did_nothing_and_one_that_took_too_long_did_something() -> None:
    calls = [ToolCallPart(f"c{n}", "run_command", f'{{"command": "rm {n}"}}') for n in range(2)]
    results = (
        ToolResultPart("c0", "the user denied it", "run_command", is_error=True),
        ToolResultPart("c1", "[stopped: it took longer than 1 seconds]", "run_command", is_error=True),
    )
    called = Message("assistant", (*calls, ToolCallPart("c2", "run_command", "{}")))
    assert list(called_commands([user("fix"), called, Message("tool", results)])) == ["rm 1"]
