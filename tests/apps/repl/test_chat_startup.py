"""From the command line to a REPL: models, screens, stores, the first lines."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.process import Process
from toolcast import LlamaCpp
from toolcast.apps import command_parser as arguments
from toolcast.apps.cli import main
from toolcast.apps.repl import chat_startup
from toolcast.apps.repl.chat_startup import ReplOptions, Terminal, logger, logging_to, open_repl
from toolcast.apps.repl.modes import MODES
from toolcast.apps.repl.prompt_input import ReplCompleter
from toolcast.apps.repl.repl import Repl
from toolcast.apps.repl.rich_screen import RichScreen
from toolcast.apps.repl.screen import PlainScreen
from toolcast.errors import AuthFailed, ToolcastError
from toolcast.stores import MemoryStore, SQLiteStore
from toolcast.testing import ScriptedLLM

PLAIN = ReplOptions()


class Person(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OLLAMA_HOST", "OLLAMA_MODEL", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(LlamaCpp, "load", lambda llm, progress: progress(1_000_000, 2_000_000))


@contextmanager
def at_terminal(home: Path, options: ReplOptions = PLAIN, **variables: str) -> Iterator[tuple[Repl, io.StringIO]]:
    """Run a REPL at a terminal without input, and return all that it shows."""
    shown = Person()
    environ = {"TOOLCAST_HOME": str(home), "TERM": "xterm", **variables}
    with open_repl(options, Terminal(Person(), shown, shown, environ)) as repl:
        yield repl, shown


def in_pipe(home: Path, options: ReplOptions, typed: str = "") -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a REPL in a pipe."""
    streams = io.StringIO(typed), io.StringIO(), io.StringIO()
    with open_repl(options, Terminal(*streams, {"TOOLCAST_HOME": str(home)})) as repl:
        return repl.run(), streams[1].getvalue(), streams[2].getvalue()


@pytest.mark.parametrize(
    ("variables", "screen"),
    [
        ({}, RichScreen),
        ({"NO_COLOR": "1"}, RichScreen),
        ({"NO_COLOR": ""}, RichScreen),
        ({"TERM": "dumb"}, PlainScreen),
    ],
)
def test_the_screen(variables: dict[str, str], screen: type, tmp_path: Path) -> None:
    with at_terminal(tmp_path, ReplOptions(), **variables) as (repl, _):
        assert type(repl.screen) is screen


def test_without_the_extra_the_screen_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_startup, "find_spec", lambda name: None)
    with at_terminal(tmp_path) as (repl, shown):
        assert isinstance(repl.screen, PlainScreen)
        assert "pip install 'toolcast[cli]'" in shown.getvalue()


def test_the_greeting(tmp_path: Path) -> None:
    with at_terminal(tmp_path, TERM="dumb") as (repl, shown):
        fetched, text = shown.getvalue().split("\r")[1].split("MB")
        model, small, keys = text.splitlines()
        assert fetched == " 50 % of 2.0 "
        assert model.endswith(": smollm2 of llama.cpp, mode build.")
        assert "too small for the built-in tools" in small
        assert "/help" in keys
        assert repl.conversation.engine.tools == ()
        assert repl.conversation.setup.instructions == ""


def test_the_embedded_model_gets_tools_where_a_mode_is_wanted(tmp_path: Path) -> None:
    with at_terminal(tmp_path, ReplOptions(mode="plan"), TERM="dumb") as (repl, shown):
        assert "too small" not in shown.getvalue()
        names = {tool.name for tool in repl.conversation.engine.tools}
        assert names == {"read_file", "list_files", "search_files", "ask_user"}


def test_what_the_model_is_reported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with at_terminal(tmp_path, ReplOptions("m-1", mode="verify", system="Be brief.")) as (repl, _):
        facts, line, system = repl.conversation.setup.instructions.splitlines()
        assert "Today is " in facts
        assert f"The working directory is {tmp_path}." in facts
        assert line == repl.conversation.setup.mode.instruction
        assert system == "Be brief."


def test_sessions_are_kept(tmp_path: Path) -> None:
    with at_terminal(tmp_path / "home", ReplOptions(session="ada")) as (repl, _):
        assert repl.session.id == "ada"
        assert (tmp_path / "home" / "sessions.db").is_file()


@contextmanager
def answering(*answers: Any) -> Iterator[None]:
    """Whatever model is named, it answers this."""
    llm = ScriptedLLM(*answers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_startup, "choose_chat_llm", lambda *named: llm)
        yield


def left(home: Path, *ids: str) -> None:
    """Save sessions that have messages."""
    for id in ids:
        with answering(f"Hello from {id}. " + "word " * 500):
            in_pipe(home, ReplOptions("m-1", session=id), f"I am at {id}.")


def test_a_session_is_gone_on_with_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    left(tmp_path, "holiday-plans", "work")
    with at_terminal(tmp_path, ReplOptions("m-1", session="holi"), TERM="dumb") as (repl, shown):
        assert repl.session.id == "holiday-plans"
        text = shown.getvalue()
    assert "Resuming session holiday-plans: 2 messages, 1 question, mode build." in text
    assert "> I am at holiday-plans." in text
    assert text.rstrip().endswith("word word")
    assert "\n... " in text  # of a long answer the end
    assert len(text) < 2500


def test_a_session_that_is_new_is_reported_of(tmp_path: Path) -> None:
    left(tmp_path, "holiday-plans")
    with at_terminal(tmp_path, ReplOptions("m-1", session="work"), TERM="dumb") as (repl, shown):
        assert repl.session.id == "work"
        assert "New session: work." in shown.getvalue()


def test_a_beginning_that_is_not_clear_is_an_error(tmp_path: Path) -> None:
    left(tmp_path, "plan-1", "plan-2", "plan-10")
    text = r"no session has the id 'plan', and 3 sessions begin with it; pass a full id: plan-1, plan-2, plan-10"
    with pytest.raises(ToolcastError, match=text), at_terminal(tmp_path, ReplOptions("m-1", session="plan")):
        raise AssertionError
    with at_terminal(tmp_path, ReplOptions("m-1", session="plan-1"), TERM="dumb") as (repl, _):
        assert repl.session.id == "plan-1"


def test_with_no_one_there_to_see_it_no_id_is_completed(tmp_path: Path) -> None:
    left(tmp_path, "day10")
    with pytest.raises(ToolcastError, match="'day1', and a session begins with it; pass a full id: day10"):
        in_pipe(tmp_path, ReplOptions("m-1", session="day1"), "Hi")


def test_a_session_in_which_nothing_was_sent_is_not_kept(tmp_path: Path) -> None:
    with answering(AuthFailed("no key"), "Hello."):
        assert in_pipe(tmp_path, ReplOptions("m-1", session="ada"), "Hi")[0] == 1
        with SQLiteStore(tmp_path / "sessions.db") as store:
            assert store.ids() == []
        assert in_pipe(tmp_path, ReplOptions("m-1", session="bob"), "Hi")[0] == 0
    with SQLiteStore(tmp_path / "sessions.db") as store:
        assert store.ids() == ["bob"]


def test_where_they_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with at_terminal(tmp_path / "file", TERM="dumb") as (_, shown):
        assert "MBThis conversation will not be saved: " in shown.getvalue()
    with pytest.raises(ToolcastError, match="failed"), at_terminal(tmp_path / "file", ReplOptions(session="ada")):
        raise AssertionError


def test_the_store_is_closed_in_the_end(tmp_path: Path) -> None:
    with at_terminal(tmp_path) as (repl, _):
        store: Any = repl.conversation._store  # used by nothing else
        assert isinstance(store, SQLiteStore)
    with pytest.raises(ToolcastError, match="closed"):
        store.ids()
    assert not isinstance(store, MemoryStore)


def test_another_model_has_the_same_host(tmp_path: Path) -> None:
    options = ReplOptions("m-1", host="ollama.example", token="sk-1")
    with at_terminal(tmp_path, options) as (repl, _):
        first: Any = repl.conversation.setup.llm
        assert first.base_url.startswith("https://ollama.example")
        for name in ("m-2", "ollama:m-2", "m:latest"):
            other: Any = repl.model(name)
            assert (type(other), other.base_url) == (type(first), first.base_url)
            assert other.secret().reveal() == "sk-1"


def test_another_provider_hears_nothing_of_host_and_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-2")
    with at_terminal(tmp_path, ReplOptions("m-1", host="ollama.example", token="sk-1")) as (repl, _):
        other: Any = repl.model("openai:m-1")
        assert (other.metadata.provider, other.base_url) == ("openai", None)
        assert other.secret("OPENAI_API_KEY").reveal() == "sk-2"
        assert isinstance(repl.model("local:smollm2"), LlamaCpp)


def test_words_that_complete_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        "toolcast.apps.repl.prompt_input.ReplCompleter", lambda *given: made.append(given) or ReplCompleter(*given)
    )
    with at_terminal(tmp_path):
        ((summaries, arguments),) = made
    assert summaries["/mode"]
    assert arguments("/mode") == ("plan", "build", "verify", "auto")
    assert "openai:" in arguments("/model")
    assert arguments("/save") is None
    assert list(arguments("/help")) == list(arguments("/nothing")) == []


def test_the_log_is_silent_without_debug(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = logger.level, logger.propagate, list(logger.handlers)
    with at_terminal(tmp_path, TERM="dumb") as (_, shown):
        logger.warning("a stray line")
        assert "stray" not in shown.getvalue()
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    assert capfd.readouterr().err == ""


def test_after_the_debug_log_the_logger_is_as_before() -> None:
    level = logger.level
    with logging_to(io.StringIO()):
        assert logger.isEnabledFor(logging.DEBUG)
    assert logger.level == level and not logger.isEnabledFor(logging.DEBUG)


def test_debug_logs_requests_and_tracebacks(tmp_path: Path) -> None:
    options = ReplOptions("m-1", host="127.0.0.1:9", token="sk-1", debug=True)
    code, out, err = in_pipe(tmp_path, options, "Hi")
    assert (code, out) == (1, "")
    assert "DEBUG: request to ollama m-1: 1 messages, about 5 tokens, 6 tools\n" in err
    assert "DEBUG: repl: terminated\n" in err
    assert "ConnectFailed" in err
    assert "sk-1" not in err


def test_lines(tmp_path: Path) -> None:
    code, out, err = in_pipe(tmp_path, ReplOptions(lines=True), "/tools\n/mode plan\n/tools\n")
    assert (code, out) == (0, "")
    assert err.count("No tools are offered.") == 1
    assert "  read_file " in err


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[ReplOptions] = []
    monkeypatch.setattr(
        chat_startup, "open_repl", lambda options, terminal: seen.append(options) or open_repl(options, terminal)
    )
    process.stdin("/cost\n")
    monkeypatch.setenv("TOOLCAST_HOME", str(tmp_path))
    words = [
        "--model",
        "m",
        "--host",
        "h",
        "--token",
        "t",
        "--mode",
        "auto",
        "--system",
        "s",
        "--session",
        "i",
        "--lines",
    ]
    assert main(["chat", *words]) == 0
    assert seen == [ReplOptions("m", "h", "t", None, "auto", "s", "i", debug=False, lines=True)]
    assert capsys.readouterr().err == "0 tokens in, 0 out. Their price is unknown.\n"


def test_an_id_that_is_none_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["chat", "--session", "a/b"])
    assert done.value.code == 2
    assert "'a/b' is no id of a session" in capsys.readouterr().err


def test_the_modes_of_the_command_line_are_those_there_are() -> None:
    assert list(chat_startup.MODES) == list(arguments._MODES)  # written there once more, as that is loaded first


def test_a_mistyped_generated_id_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(ToolcastError, match=r"'chat-2027': `toolcast chat --resume` and `toolcast logs` list them"),
        at_terminal(tmp_path, ReplOptions("m-1", session="chat-2027")),
    ):
        raise AssertionError


def test_continue_resumes_the_last_session_in_its_mode(tmp_path: Path) -> None:
    left(tmp_path, "first", "second")
    with at_terminal(tmp_path, ReplOptions("m-1", session="first"), TERM="dumb") as (repl, _):
        repl.conversation.use(replace(repl.conversation.setup, wanted=MODES["plan"]))
        repl.conversation.touch()
        repl.conversation.close()
    with at_terminal(tmp_path, ReplOptions("m-1", continues=True), TERM="dumb") as (repl, shown):
        assert repl.session.id == "first"
        assert repl.conversation.setup.mode.name == "plan"
        assert "Resuming session first: 2 messages, 1 question, mode plan." in shown.getvalue()
        repl.conversation.close()
    with at_terminal(tmp_path, ReplOptions("m-1", continues=True, mode="auto"), TERM="dumb") as (repl, _):
        assert repl.conversation.setup.mode.name == "auto"


def test_continue_without_a_session_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(ToolcastError, match="no session to continue yet"),
        at_terminal(tmp_path, ReplOptions("m-1", continues=True)),
    ):
        raise AssertionError


def test_resume_lets_the_user_choose_and_needs_a_terminal(tmp_path: Path) -> None:
    left(tmp_path, "first", "second")
    with (
        pytest.raises(ToolcastError, match="--resume needs a terminal"),
        at_terminal(tmp_path, ReplOptions("m-1", resume=True, prompt="Hi")),
    ):
        raise AssertionError
    with at_terminal(tmp_path, ReplOptions("m-1", resume=True), TERM="dumb") as (repl, shown):
        assert "1  I am at second." in shown.getvalue()
        assert repl.session.id not in ("first", "second")  # nothing was typed
