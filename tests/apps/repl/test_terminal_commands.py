"""Commands in a real terminal: lists to choose from, mentioned files, the clipboard, help at any width."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driven_repl import CTRL_C, ENTER, TAB, driven
from support.loopback import HOLD, whole
from support.ollama_server import MODEL, OllamaServer, delta

UP, DOWN, CTRL_R, CTRL_V, CTRL_X, ESCAPE = "\x1b[A", "\x1b[B", "\x12", "\x16", "\x18", "\x1b"
PNG = b"\x89PNG\r\n\x1a\nrest"


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def models(server: OllamaServer, *names: str) -> None:
    """Answer the next request for the installed models."""
    server.answer(whole(json.dumps({"models": [{"name": name} for name in names]}).encode()))


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_help_fits_the_terminal(columns: int, server: OllamaServer, work: Path) -> None:
    with driven(
        work.parent / "home", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL, columns=columns, rows=150
    ) as terminal:
        terminal.submit("/help")
        shown = [line.strip() for line in terminal.lines]
        assert "Commands" in shown
        assert "When a tool call needs approval" in shown
        assert any(line.startswith("/sessions [WORDS]") for line in shown)
        assert any(line.startswith("Ctrl-X Ctrl-E") for line in shown)


@pytest.mark.slow
def test_sessions_are_searched_renamed_deleted_and_resumed(server: OllamaServer, work: Path) -> None:
    home = work.parent / "home"
    for topic in ("apples", "bread", "cake"):
        server.replies(f"All about {topic}.")
        with driven(home, OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as terminal:
            terminal.submit(f"Tell me of {topic}")
            terminal.submit("/mode plan")
            terminal.type("exit" + ENTER)
            assert terminal.ends() == 0
    with driven(home, "--resume", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as terminal:
        terminal.until("search:", "› 1 Tell me of cake", "3 Tell me of apples", "Esc cancel")
        terminal.type(f"{DOWN}{CTRL_R}")
        terminal.until("title> Tell me of bread")
        terminal.type(f" and rolls{ENTER}")
        terminal.until("Renamed: Tell me of bread and rolls", "› 2 Tell me of bread and rolls")
        terminal.type(f"cake{CTRL_X}")
        terminal.until("Delete 'Tell me of cake' and its messages?", "Esc no")
        terminal.type(ESCAPE)
        terminal.until("search: cake", "› 1 Tell me of cake")
        terminal.type(CTRL_X)
        terminal.until("Esc no")
        terminal.type("y")
        terminal.until("Deleted: Tell me of cake", "2 Tell me of apples")
        terminal.type("about apples")
        terminal.until("search: about apples", "› 1 Tell me of apples")
        terminal.type(ENTER)
        terminal.until(
            "Resuming session", "2 messages, 1 question, mode plan", "> Tell me of apples", "All about apples."
        )
        before = terminal.at_prompt()
        terminal.type(f"/sessions{ENTER}")
        terminal.until("search:", "Esc cancel", lines=before)
        terminal.type(ESCAPE)
        terminal.at_prompt(before)
    with driven(home, "-c", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as terminal:
        terminal.until("> Tell me of ")
        terminal.at_prompt()


def test_a_file_is_completed_and_sent(server: OllamaServer, work: Path) -> None:
    (work / "shopping-list.txt").write_text("milk and eggs", encoding="utf-8")
    (work / ".env").write_text("KEY=1", encoding="utf-8")
    server.replies("Milk.")
    with driven(work.parent / "home", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as terminal:
        terminal.at_prompt()
        terminal.type("Read @shop")
        terminal.until("shopping-list.txt")
        terminal.type(TAB)
        terminal.until("@shopping-list.txt")
        terminal.type(" " + ENTER)
        terminal.until("@shopping-list.txt: 13 bytes, about 3 tokens", "Milk.")
        assert rb"milk and eggs\n</file>" in server.requests[0].body
        terminal.submit("Read @.env")
        terminal.until("✗ @.env is protected (.env): its content is not sent to a model")
    assert len(server.requests) == 1


def test_a_model_is_chosen_and_a_name_is_checked(server: OllamaServer, work: Path) -> None:
    with driven(work.parent / "home", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as terminal:
        terminal.at_prompt()
        models(server, "qwen3:8b", MODEL, "gemma3:latest")
        terminal.type("/model" + ENTER)
        terminal.until("search:", "ollama:qwen3:8b", f"ollama:{MODEL}", "in use")
        models(server, "qwen3:8b")
        terminal.type("qwen")
        terminal.until("› 1 ollama:qwen3:8b")
        terminal.type(ENTER)
        terminal.until("The model is qwen3:8b (ollama).")
        models(server, "qwen3:8b")
        terminal.submit("/model qwen4:9b")
        terminal.until("✗ ollama has no model 'qwen4:9b'", "ollama pull qwen4:9b")


def test_a_code_block_goes_to_the_clipboard_of_the_terminal(server: OllamaServer, work: Path) -> None:
    server.replies("```py\nx = 1\n```")
    home, none = work.parent / "home", work.parent / "none"
    with driven(
        home, OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL, DISPLAY="", WAYLAND_DISPLAY="", PATH=str(none)
    ) as terminal:
        terminal.submit("code")
        terminal.submit("/copy 1")
        terminal.until("Copied code block 1 (5 characters) by the terminal.")
        assert f"\x1b]52;c;{b64encode(b'x = 1').decode()}\x07" in terminal.raw


def test_an_image_is_pasted_from_the_clipboard(server: OllamaServer, work: Path) -> None:
    tools = work.parent / "tools"
    tools.mkdir()
    (tools / "image").write_bytes(PNG)
    (tools / "pngpaste").write_text(f"#!/bin/sh\nexec /bin/cat {tools}/image\n", encoding="utf-8")
    (tools / "pngpaste").chmod(0o755)
    server.replies("A picture.")
    with driven(work.parent / "home", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL, PATH=str(tools)) as terminal:
        terminal.at_prompt()
        terminal.type(f"See {CTRL_V}")
        terminal.until("pasted-1.png")
        terminal.type(ENTER)
        terminal.until("image/png, 12 bytes", "A picture.")
    assert b64encode(PNG) in server.requests[0].body


def test_without_a_program_for_the_clipboard_it_is_named(server: OllamaServer, work: Path) -> None:
    with driven(work.parent / "home", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL, PATH=str(work)) as terminal:
        terminal.at_prompt()
        terminal.type(f"See {CTRL_V}")
        terminal.until("install wl-clipboard", "> See")


def test_what_is_typed_during_an_answer_is_there_after_ctrl_c(server: OllamaServer, work: Path) -> None:
    server.breaks_off(delta(content="Once upon a time"), HOLD)
    with driven(work.parent / "home", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as terminal:
        terminal.at_prompt()
        terminal.type("a story" + ENTER)
        terminal.until("Once upon a time")
        terminal.type("the next question")
        terminal.type(CTRL_C)
        terminal.until("(cancelled)", "> the next question")


def test_a_message_is_edited_and_sent_again(server: OllamaServer, work: Path) -> None:
    server.replies("One.")
    server.replies("Two.")
    with driven(work.parent / "home", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as terminal:
        terminal.submit("count to one")
        terminal.type("/edit" + ENTER)
        terminal.until("edit> count to one")
        terminal.type("\x7f\x7f\x7ftwo" + ENTER)
        terminal.until("Two.")
        terminal.submit("/export")
        terminal.until("Exported 2 messages to count-to-two.md.")
    assert "## Assistant\n\nTwo." in (work / "count-to-two.md").read_text(encoding="utf-8")
