"""`toolcast web` as a process, and how it begins and ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.process import Process
from toolcast import LlamaCpp, Ollama, ToolcastError
from toolcast.apps.web.startup import WebOptions, listen, model_name, page_url, serve

COMMAND = [sys.executable, "-c", "from toolcast.apps.cli import main; raise SystemExit(main())", "web"]
QUIET = ["--model", "ollama:any", "--port", "0", "--no-browser"]


@contextmanager
def started(*options: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and the address that it prints."""
    with subprocess.Popen(
        [*COMMAND, *QUIET, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "OLLAMA_HOST": "127.0.0.1:9"},
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
        with httpx.stream("GET", f"{base}/events?{token}", timeout=30) as stream:
            lines = stream.iter_lines()
            assert any("ready" in line for line in lines)
            process.send_signal(number)
            assert [line for line in lines if line.startswith("event:")] == []
        assert process.wait(30) == 128 + number
        assert process.stderr is not None
        assert process.stderr.read() == ""


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
