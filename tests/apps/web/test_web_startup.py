"""`toolcast web` as a process, and how it begins and ends."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support import warm_python
from support.loopback import whole
from support.ollama_server import DONE, OllamaServer, delta
from support.process import Process
from toolcast import LlamaCpp, Ollama, ToolcastError
from toolcast.agents.engine.session_state import fold, read_details
from toolcast.apps.model_facts import ServedModels
from toolcast.apps.web import web_startup
from toolcast.apps.web.web_startup import WebOptions, listen, model_name, page_token, page_url, serve
from toolcast.errors import ConnectFailed
from toolcast.stores.memory_store import MemoryStore
from toolcast.stores.sqlite_store import SQLiteStore

COMMAND = [sys.executable, "-c", "from toolcast.apps.cli import main; raise SystemExit(main())", "web"]
QUIET = ["--model", "ollama:any", "--port", "0", "--no-browser"]


@contextmanager
def started(*options: str, folder: Path, host: str = "127.0.0.1:9") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and the address that it prints."""
    with warm_python.Popen(
        [*COMMAND, *QUIET, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "OLLAMA_HOST": host, "TOOLCAST_HOME": str(folder / "home")},
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_streams_open(number: signal.Signals, tmp_path: Path) -> None:
    with started(folder=tmp_path) as (process, url):
        base, _, token = url.partition("/?")
        headers = {"Authorization": f"Bearer {token.removeprefix('token=')}"}
        id = httpx.post(f"{base}/chats", json={}, headers=headers).json()["id"]
        with httpx.stream("GET", f"{base}/chats/{id}/events?{token}", timeout=30) as stream:
            lines = stream.iter_lines()
            assert any("load_failed" in line for line in lines)  # no Ollama answers
            process.send_signal(number)
            assert [line for line in lines if line.startswith("event:")] == []
        assert process.wait(30) == 128 + number
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_killed_server_loses_nothing_that_it_has_shown(tmp_path: Path) -> None:
    with OllamaServer() as server:
        server.answer(whole(b'{"models": [{"name": "m-1"}]}', 200, "content-type: application/json"))
        server.replies("Good day.")
        with started("--model", "ollama:m-1", folder=tmp_path, host=server.host) as (process, url):
            base, _, token = url.partition("/?")
            headers = {"Authorization": f"Bearer {token.removeprefix('token=')}"}
            id = httpx.post(f"{base}/chats", json={}, headers=headers).json()["id"]
            with httpx.stream("GET", f"{base}/chats/{id}/events?{token}", timeout=30) as stream:
                lines = stream.iter_lines()
                message = {"type": "QUEUE_MESSAGE", "message": "Hello."}
                assert httpx.post(f"{base}/chats/{id}/dispatch", json=message, headers=headers).status_code == 200
                assert any("STREAM_COMPLETE" in line for line in lines)
                process.kill()
    with SQLiteStore(tmp_path / "home" / "sessions.db") as store:
        assert [message.text for message in fold(store.read(id)).history] == ["Hello.", "Good day."]
    with started(folder=tmp_path) as (process, url):
        base, _, token = url.partition("/?")
        headers = {"Authorization": f"Bearer {token.removeprefix('token=')}"}
        (row,) = httpx.get(f"{base}/chats", headers=headers).json()["chats"]
        assert (row["id"], row["title"], row["messages"], row["model"]) == (id, "Hello.", 2, "ollama:m-1")
        page = httpx.get(f"{base}/chats/{id}/export?format=html", headers=headers)
        assert ("Good day." in page.text, "attachment" in page.headers["content-disposition"]) == (True, True)


def test_a_store_that_cannot_be_used_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sessions.db").write_text("this is no database, and it is longer than the header of one is")
    with web_startup._open_store(tmp_path) as store:
        assert isinstance(store, MemoryStore)
    assert "chats will not be saved" in capsys.readouterr().err


def test_the_browser_is_reported_the_address_and_old_signal_handlers_come_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def opened(url: str) -> bool:
        urls.append(url)
        os.kill(os.getpid(), signal.SIGTERM)
        return True

    urls, message = list[str](), list[str]()
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLCAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened)
    assert asyncio.run(serve(WebOptions(model="ollama:any", port=0), message.append)) == 128 + signal.SIGTERM
    assert urls == message
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_tools_of_a_file_are_offered(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def weather(city: str) -> str:\n    return city\n")
    setup = WebOptions(model="ollama:any", tools=str(tmp_path / "mine.py")).chat_setup
    names = {tool.name for tool in setup.tools}
    assert {"weather", "read_file", "write_file"} <= names
    assert "ask_user" not in names  # the page has no place for questions


def test_a_page_that_others_can_reach_is_warned_of(tmp_path: Path) -> None:
    with started("--host", "0.0.0.0", folder=tmp_path) as (process, url):
        assert url.startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        _, warned = process.communicate(timeout=30)
    assert "other machines can connect to 0.0.0.0" in warned


@pytest.mark.parametrize(
    ("platform", "variables", "no_browser", "opens"),
    [
        ("linux", {}, False, False),
        ("linux", {"DISPLAY": ":0"}, False, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, False, True),
        ("linux", {"DISPLAY": ":0"}, True, False),
        ("darwin", {}, False, True),
    ],
)
def test_a_browser_is_opened_where_there_is_a_screen(
    platform: str,
    variables: dict[str, str],
    no_browser: bool,
    opens: bool,
    monkeypatch: pytest.MonkeyPatch,
    process: Process,
) -> None:
    process.platform(platform)
    monkeypatch.setattr(os, "environ", variables)
    assert WebOptions(no_browser=no_browser).opens_browser is opens


@pytest.mark.parametrize(
    ("host", "is_open"),
    [("127.0.0.1", False), ("localhost", False), ("::1", False), ("0.0.0.0", True), ("::", True), ("box", True)],
)
def test_who_can_reach_it(host: str, is_open: bool) -> None:
    assert WebOptions(host=host).is_open is is_open


@pytest.mark.parametrize(
    ("host", "begins"),
    [
        ("127.0.0.1", "http://127.0.0.1:1/"),
        ("::1", "http://[::1]:1/"),
        ("::", "http://[::1]:1/"),
        ("box", "http://box:1/"),
    ],
)
def test_the_address_is_one_that_a_browser_takes(host: str, begins: str) -> None:
    assert page_url(host, 1, "t-_") == f"{begins}?token=t-_"


def test_a_port_that_is_taken_is_one_line() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(ToolcastError, match="--port 0 selects a free port"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_names_that_lead_to_the_same_model() -> None:
    assert model_name(LlamaCpp("smollm2")) == "local:smollm2"
    assert model_name(Ollama("qwen3:4b")) == "ollama:qwen3:4b"


def test_a_name_without_a_provider_was_taken_for_one_of_ollama(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:1")
    taken = "'nonsense' names no provider, and was taken for a model of Ollama: no connection to 127.0.0.1:1"
    with pytest.raises(ToolcastError, match=taken):
        web_startup._check_model(ServedModels(), "nonsense")
    with pytest.raises(ConnectFailed):
        web_startup._check_model(ServedModels(), "ollama:nonsense")


def test_the_token_of_a_port_stays_the_same_in_a_file_of_its_owner(tmp_path: Path) -> None:
    home = tmp_path / "home"
    token = page_token(home, 8765)
    (path,) = home.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert page_token(home, 8765) == token
    assert page_token(home, 8766) != token
    assert page_token(home, 0) != page_token(home, 0)
    assert len(list(home.iterdir())) == 2
    path.chmod(0o644)  # others may have read it
    other = page_token(home, 8765)
    assert other != token
    path.write_text("short")
    assert page_token(home, 8765) not in (token, other, "short")


def test_a_token_that_cannot_be_stored_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert len(page_token(tmp_path / "file", 8765)) == 32
    assert "the address will be another one at the next start" in capsys.readouterr().err


def test_a_killed_server_keeps_the_answer_that_was_in_progress(tmp_path: Path) -> None:
    with OllamaServer() as server:
        server.answer(whole(b'{"models": [{"name": "m-1"}]}', 200, "content-type: application/json"))
        held = threading.Event()
        server.streams(delta(content="Once upon a time"), held, DONE)
        with started("--model", "ollama:m-1", folder=tmp_path, host=server.host) as (process, url):
            base, _, token = url.partition("/?")
            headers = {"Authorization": f"Bearer {token.removeprefix('token=')}"}
            id = httpx.post(f"{base}/chats", json={}, headers=headers).json()["id"]
            message = {"type": "QUEUE_MESSAGE", "message": "Tell."}
            assert httpx.post(f"{base}/chats/{id}/dispatch", json=message, headers=headers).status_code == 200
            with SQLiteStore(tmp_path / "home" / "sessions.db") as store:
                while "partial" not in read_details(store.read(id)):
                    time.sleep(0.05)
            process.kill()
            held.set()
    with started(folder=tmp_path) as (process, url):
        base, _, token = url.partition("/?")
        with httpx.stream("GET", f"{base}/chats/{id}/events?{token}", timeout=30) as stream:
            (snapshot,) = itertools.islice((line for line in stream.iter_lines() if line.startswith("data: ")), 1)
        context = json.loads(snapshot.removeprefix("data: "))["context"]
        assert [message["parts"][0]["text"] for message in context["messages"]] == ["Tell.", "Once upon a time"]
        assert context["interrupted"] == [1]
