"""The document of the REPL, read by its author: prompt, routing of messages, tools, errors, exit conditions.

Twenty cases of the kind "that is not what I described", each in a real terminal against a server that speaks Ollama's
protocol, or through a pipe.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driven_repl import CTRL_D, ENTER, Driven, driven
from support.loopback import HOLD
from support.ollama_server import DONE, MODEL, OllamaServer, call, delta
from user.commands import needs_a_shell, shell, variables


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


@pytest.fixture
def terminal(server: OllamaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driven]:
    """Yield `toolcast chat` at its first prompt, in a folder with one file."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "notes.txt").write_text("The ferry leaves at nine.\n")
    monkeypatch.chdir(tmp_path / "here")
    with driven(tmp_path / "home", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as running:
        running.at_prompt()
        yield running


# Idle and the exit conditions


def test_the_prompt_is_an_angle_bracket(terminal: Driven) -> None:
    assert terminal.lines[-1] == ">"


@pytest.mark.parametrize(
    "keys", [ENTER, f"exit{ENTER}", CTRL_D, f"  exit  {ENTER}"], ids=["empty", "exit", "eof", "padded"]
)
def test_every_exit_condition_terminates_with_0_and_asks_nothing(
    keys: str, server: OllamaServer, terminal: Driven
) -> None:
    terminal.type(keys)
    assert terminal.ends() == 0
    assert server.requests == []


def test_exit_inside_a_sentence_is_a_question(server: OllamaServer, terminal: Driven) -> None:
    server.replies("Press Ctrl-D.")
    terminal.submit("how do I exit?")
    assert "Press Ctrl-D." in terminal.text


def test_it_can_exit_after_an_error(server: OllamaServer, terminal: Driven) -> None:
    server.fails(500, "out of memory")
    terminal.submit("hello")
    terminal.type(f"exit{ENTER}")
    assert terminal.ends() == 0


# Processing and streaming


def test_a_question_is_one_request_with_the_whole_conversation(server: OllamaServer, terminal: Driven) -> None:
    server.replies("Blue.")
    server.replies("Because of the air.")
    terminal.submit("colour of the sky?")
    terminal.submit("why?")
    roles = [[message["role"] for message in body["messages"]] for body in server.bodies]
    assert [each[-3:] for each in roles][1] == ["user", "assistant", "user"]
    assert all(body["stream"] is True for body in server.bodies)


def test_content_is_shown_while_the_answer_is_still_streaming(server: OllamaServer, terminal: Driven) -> None:
    server.breaks_off(delta(content="The first half.\n\n"), HOLD)
    terminal.at_prompt()
    terminal.type(f"go{ENTER}")
    terminal.until("The first half.")


def test_done_true_gives_the_prompt_back_even_in_the_chunk_with_the_content(
    server: OllamaServer, terminal: Driven
) -> None:
    server.streams({**DONE, "message": {"role": "assistant", "content": "All at once."}})
    terminal.submit("go")
    assert "All at once." in terminal.text and terminal.lines[-1] == ">"


def test_an_answer_cut_before_done_is_an_error_and_the_prompt_comes_back(
    server: OllamaServer, terminal: Driven
) -> None:
    server.streams(delta(content="Half an ans"))
    terminal.submit("go")
    assert "Half an ans" in terminal.text
    assert terminal.lines[-1] == ">"
    server.replies("Whole.")
    terminal.submit("again")
    assert "Whole." in terminal.text


# Routing by type of message


def test_thinking_then_content_in_separate_looks(server: OllamaServer, terminal: Driven) -> None:
    server.streams(delta(thinking="Let me see."), delta(content="It is four."), DONE)
    terminal.submit("2 + 2?")
    assert "\x1b[2;3mLet me see." in terminal.raw
    assert not terminal.look("four.").italics


def test_a_tool_runs_and_streaming_continues_until_done(server: OllamaServer, terminal: Driven) -> None:
    server.calls(call("read_file", path="notes.txt"))
    server.replies("At nine.")
    terminal.submit("when does the ferry leave?")
    assert "At nine." in terminal.text
    results = [message for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert len(results) == 1 and "The ferry leaves at nine." in results[0]["content"]


def test_several_tool_rounds_in_one_question(server: OllamaServer, terminal: Driven) -> None:
    server.calls(call("list_files"))
    server.calls(call("read_file", path="notes.txt"))
    server.replies("At nine.")
    terminal.submit("when?")
    assert "At nine." in terminal.text and len(server.requests) == 3


def test_two_calls_in_one_chunk_both_get_a_result_in_order(server: OllamaServer, terminal: Driven) -> None:
    server.calls(call("list_files"), call("read_file", path="notes.txt"))
    server.replies("Done.")
    terminal.submit("look")
    first, second = [message for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert "notes.txt" in first["content"] and "ferry" in second["content"]


def test_a_chunk_with_thinking_content_and_a_call_routes_all_three(server: OllamaServer, terminal: Driven) -> None:
    server.streams(delta(thinking="Hm.", content="I look.", tool_calls=[call("list_files")]), DONE)
    server.replies("Done.")
    terminal.submit("look")
    assert all(text in terminal.text for text in ("Hm.", "I look.", "list_files", "Done."))


def test_a_failing_tool_is_a_result_and_the_conversation_continues(server: OllamaServer, terminal: Driven) -> None:
    server.calls(call("read_file", path="absent.txt"))
    server.replies("There is no such file.")
    terminal.submit("read it")
    assert "There is no such file." in terminal.text
    (result,) = [message for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert "absent.txt" in result["content"]


def test_an_unknown_tool_is_a_result_that_lists_the_tools(server: OllamaServer, terminal: Driven) -> None:
    server.calls(call("teleport", to="Oslo"))
    server.replies("I cannot.")
    terminal.submit("go to Oslo")
    (result,) = [message for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert "teleport" in result["content"] and "read_file" in result["content"]


# The error state


@pytest.mark.parametrize(
    "answer",
    [b"<html>busy</html>\n", b"not json\n", b"[1, 2]\n", b'{"foo": 1}\n'],
    ids=["html", "text", "array", "unknown"],
)
def test_an_invalid_response_is_shown_and_the_prompt_comes_back(
    answer: bytes, server: OllamaServer, terminal: Driven
) -> None:
    server.streams(answer)
    before = terminal.at_prompt()
    terminal.submit("hello")
    assert any("rror" in line or "answer" in line or "respon" in line for line in terminal.lines[before - 1 :])
    server.replies("Back again.")
    terminal.submit("hello?")
    assert "Back again." in terminal.text


@pytest.mark.parametrize(
    "chunk",
    [
        {"foo": 1},
        {"message": 5},
        {"message": {"tool_calls": {"function": {"name": "read_file", "arguments": {}}}}},
        {"message": {"tool_calls": '[{"function": {"name": "read_file"}}]'}},
    ],
    ids=["unknown", "message", "object", "text"],
)
def test_a_chunk_of_unknown_form_beside_a_good_one_is_an_error_that_shows_it(
    chunk: dict[str, Any], server: OllamaServer, terminal: Driven
) -> None:
    server.streams(delta(content="Hello "), json.dumps(chunk).encode() + b"\n", DONE)
    terminal.submit("hi")
    assert "unknown form" in terminal.text
    server.replies("Back again.")
    terminal.submit("hello?")
    assert "Back again." in terminal.text


def test_one_invalid_line_does_not_end_the_answer(server: OllamaServer, terminal: Driven) -> None:
    server.streams(delta(content="Hello "), b"garbage\n", delta(content="there."), DONE)
    terminal.submit("hi")
    assert all(text in terminal.text for text in ("Hello", "garbage", "there."))
    assert server.requests[0] and terminal.lines[-1] == ">"


def test_an_error_line_in_the_stream_is_shown(server: OllamaServer, terminal: Driven) -> None:
    server.streams(delta(content="Well, "), json.dumps({"error": "model runner has stopped"}).encode() + b"\n")
    terminal.submit("hi")
    assert "model runner has stopped" in terminal.text


# Pipes: what other programs see


@pytest.mark.slow
@needs_a_shell
@pytest.mark.parametrize("answer", [b'{"foo": 1}\n', b"[1, 2]\n", b""], ids=["unknown", "array", "nothing"])
def test_an_answer_without_content_is_an_error_for_a_script(
    answer: bytes, server: OllamaServer, tmp_path: Path
) -> None:
    if answer:
        server.streams(answer, DONE)
    else:
        server.streams(DONE)
    screen = shell("echo hello | toolcast chat", variables(server, tmp_path))
    assert (screen.out.strip(), screen.code) == ("", 1)
    assert screen.err.strip()


@needs_a_shell
def test_end_of_input_terminates_with_0_and_asks_nothing(server: OllamaServer, tmp_path: Path) -> None:
    screen = shell("toolcast chat </dev/null", variables(server, tmp_path))
    assert (screen.code, server.requests) == (0, [])


@needs_a_shell
def test_only_the_content_goes_to_stdout(server: OllamaServer, tmp_path: Path) -> None:
    server.streams(delta(thinking="Hm."), delta(content="Four."), DONE)
    screen = shell("echo '2 + 2?' | toolcast chat 2>/dev/null", variables(server, tmp_path))
    assert (screen.out, screen.code) == ("Four.\n", 0)
