"""live_display.py and `show` of every stream: in a notebook, on a terminal, and elsewhere."""

from __future__ import annotations

import io
import sys
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from typing import Any

import pyte
import pytest
from pydantic import SecretStr

from support.albums import SEA, Album
from support.notebooks import Notebook
from support.sync_and_async import API
from toolcast import Engine, Permissions, ToolCallPart, ToolContext, ToolOrchestratingLLM, Turn, ValidationError
from toolcast.errors import RateLimited, StreamClosed
from toolcast.events import Event, Finish, Restarted, TextDelta, ToolCallDelta, ToolCallDone, ToolCallStart
from toolcast.testing import ScriptedLLM, VirtualClock
from toolcast.text.json_text import json_text
from toolcast.text.live_display import INTERVAL, Frame, LiveDisplay, can_encode, find_surface, in_notebook, text_of

TEXT = json_text(SEA)


def timed(seconds: float, *answers: Any, pieces: int = 50) -> ScriptedLLM:
    """An LLM whose answers take `seconds` of virtual time for each of the pieces of a text, or of an album."""
    clock = VirtualClock()

    async def respond(request: Any) -> AsyncIterator[Event]:
        answer = answers[(len(llm.requests) - 1) % len(answers)]
        if answer is SEA:
            yield ToolCallStart("1", request.tools[0].name)
        text = TEXT if answer is SEA else answer
        size = len(text) // pieces + 1
        for start in range(0, len(text), size):
            clock.advance(seconds)
            part = text[start : start + size]
            yield ToolCallDelta("1", part) if answer is SEA else TextDelta(part)
        if answer is SEA:
            yield ToolCallDone("1", request.tools[0].name, TEXT)
        yield Finish("end_turn")

    llm = ScriptedLLM(lambda request: respond(request))
    llm.clock = clock
    return llm


# A notebook.


def test_a_stream_is_one_display_that_ends_with_the_object(api: API, notebook: Notebook) -> None:
    shown = api.show(ToolOrchestratingLLM(Album, "x", timed(0.01, SEA)), "stream")
    assert shown == SEA
    first, last = notebook.frames[0], notebook.frames[-1]
    assert "waiting" in first._repr_html_()
    assert repr(first) == ""
    for text in (SEA.title, SEA.songs[-1].title, "complete"):
        assert text in last._repr_html_()
    assert SEA.songs[-1].title in repr(last)
    growing = [frame.html for frame in notebook.frames[1:-1]]
    assert growing and all("growing" in html for html in growing)


@pytest.mark.parametrize("seconds", [0.001, 0.03, 0.2])
def test_there_are_at_most_ten_updates_in_a_second(seconds: float, api: API, notebook: Notebook) -> None:
    llm = timed(seconds, SEA)
    began = llm.clock.now()
    api.show(ToolOrchestratingLLM(Album, "x", llm), "stream")
    duration = llm.clock.now() - began
    # The first frame, before the request, and the last one, after the end, are drawn in any case.
    assert 2 + 5 * min(duration, seconds * 20) - 1 <= len(notebook.frames) <= 2 + 10 * duration


def test_an_update_needs_the_interval() -> None:
    clock, surface = VirtualClock(), Recorder()
    with LiveDisplay(lambda: Frame("", str(clock.now())), clock.now, surface) as display:
        for _ in range(100):
            clock.advance(1 / 16)
            display.update()
    drawn = [float(text) - 1000 for text in surface.texts]
    assert INTERVAL <= 1 / 8
    assert drawn == [*[at / 8 for at in range(51)], 6.25]


class Recorder:
    """A surface that records the texts of frames."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def draw(self, frame: Frame) -> None:
        self.texts.append(frame.text)

    end = draw


def test_a_stream_that_was_read_shows_its_object(notebook: Notebook) -> None:
    stream = ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA)).stream()
    next(stream)
    stream.final()
    assert stream.show() == SEA
    assert SEA.title in notebook.frames[-1].html


def test_an_error_leaves_the_last_object_and_is_raised(api: API, notebook: Notebook) -> None:
    broken = {"title": "Sea of Glass", "songs": [{"title": 1, "seconds": "x"}]}
    with pytest.raises(ValidationError):
        api.show(ToolOrchestratingLLM(Album, "x", ScriptedLLM(broken)), "stream")
    assert "Sea of Glass" in notebook.frames[-1].html
    assert "failed" in notebook.frames[-1].html


def test_a_closed_stream_shows_that_it_is_closed(notebook: Notebook) -> None:
    stream = ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA)).stream()
    assert "ObjectStream initiating_stream" in repr(stream)
    next(stream)
    stream.close()
    assert "closed" in stream._repr_html_()
    with pytest.raises(StreamClosed):
        stream.show()


def test_a_text_as_output(api: API, notebook: Notebook) -> None:
    shown = api.show(ToolOrchestratingLLM(str | int, "x", ScriptedLLM({"value": "a\ud800b"})), "stream")
    assert shown == "a\ufffdb"
    assert repr(notebook.frames[-1]) == "a\ufffdb"


class Vault(Album):
    key: SecretStr


def test_secrets_are_in_no_frame(api: API, notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {**SEA.model_dump(), "key": "hunter2"}
    monkeypatch.setattr("toolcast.text.live_display.INTERVAL", 0)
    api.show(ToolOrchestratingLLM(Vault, "x", ScriptedLLM(data)), "stream")
    assert len(notebook.frames) > 20
    assert not any("hunter2"[:4] in frame.html + frame.text for frame in notebook.frames)


def test_the_response_of_a_chat(api: API, notebook: Notebook) -> None:
    response = api.show(timed(0.05, "It rains.\n\nTake an umbrella."), "stream_chat", "x")
    assert response.text == "It rains.\n\nTake an umbrella."
    assert 10 < len(notebook.frames) < 30
    assert "It rains.\n\nTake an umbrella." in notebook.frames[-1].html
    assert notebook.frames[-1].text == response.text


def test_the_calls_of_a_response(api: API, notebook: Notebook) -> None:
    call = ToolCallPart("1", "mail", '{"to": "hunter2"}')
    stream = timed_calls(call)

    def mail(to: str) -> None:
        """Mail."""

    response = api.show(stream, "stream_chat", "x", tools=[mail])
    assert response.message.tool_calls == (call,)
    assert notebook.frames[-1].text == "mail: called"
    assert "hunter2" not in notebook.frames[-1].html


def timed_calls(*calls: ToolCallPart) -> ScriptedLLM:
    return ScriptedLLM(list(calls))


def test_the_error_of_a_response_is_raised(api: API, notebook: Notebook) -> None:
    llm = ScriptedLLM([TextDelta("It ra"), RateLimited("no")])
    with pytest.raises(RateLimited):
        api.show(llm, "stream_chat", "x")
    assert "It ra" in notebook.frames[-1].html


def test_a_closed_response(notebook: Notebook) -> None:
    stream = ScriptedLLM("It rains.").stream_chat("x")
    stream.next()
    stream.close()
    assert repr(stream).startswith("<EventStream closed")
    with pytest.raises(StreamClosed, match="before its end"):
        stream.show()


# Turns.


def weather(city: str) -> str:
    """Return the weather."""
    return f"Rain in {city}."


def test_a_turn_shows_its_steps(api: API, notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcast.text.live_display.INTERVAL", 0)
    calls = [ToolCallPart(str(at), "weather", f'{{"city": "{city}"}}') for at, city in enumerate(("Oslo", "Bergen"))]
    engine = Engine(ScriptedLLM(calls, "It rains."), [weather])
    turn = api.show(engine, "stream", "x")
    assert isinstance(turn, Turn)
    assert turn.text == "It rains."
    assert notebook.frames[-1].text == "weather: Rain in Oslo.\nweather: Rain in Bergen.\nIt rains."
    texts = [frame.text for frame in notebook.frames]
    assert "weather: the model writes the arguments" in texts
    assert any("weather: runs" in text for text in texts)
    assert "Rain in Oslo." in turn._repr_html_()


def test_text_before_a_call_and_after_it_are_two_steps(notebook: Notebook) -> None:
    first = [TextDelta("I "), TextDelta("look."), *call_events("weather", '{"city": "Oslo"}')]
    Engine(ScriptedLLM(first, "Rain."), [weather]).stream("x").show()
    assert notebook.frames[-1].text == "I look.\nweather: Rain in Oslo.\nRain."


def call_events(name: str, arguments: str) -> list[Event]:
    return [ToolCallStart("1", name), ToolCallDone("1", name, arguments), Finish("tool_use")]


def test_progress_and_errors_of_tools(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcast.text.live_display.INTERVAL", 0)

    def dig(depth: int, context: ToolContext[None]) -> None:
        """Dig."""
        context.emit("half")
        raise ValueError("a stone")

    engine = Engine(ScriptedLLM(ToolCallPart("1", "dig", '{"depth": 2}'), "No."), [dig])
    turn = engine.stream("x").show()
    assert any("dig: runs: half" in frame.text for frame in notebook.frames)
    assert "dig: error: ValueError: a stone" in notebook.frames[-1].text
    assert "error" in turn._repr_html_()


def test_the_output_of_a_turn(api: API, notebook: Notebook) -> None:
    turn = api.show(Engine(ScriptedLLM(SEA)), "stream", "x", output_cls=Album)
    assert turn.output == SEA
    assert SEA.songs[-1].title in notebook.frames[-1].html
    assert SEA.songs[-1].title in notebook.frames[-1].text


def test_a_hidden_output_has_no_text(notebook: Notebook) -> None:
    data = {**SEA.model_dump(), "key": "hunter2"}
    answer = [TextDelta("hunter2"), *call_events("Vault", json_text(data))]
    turn = Engine(ScriptedLLM(answer)).stream("x", output_cls=Vault).show()
    assert turn.hidden_tools
    assert "hunter2" not in notebook.frames[-1].html + notebook.frames[-1].text + turn._repr_html_()


def test_a_turn_that_failed(api: API, notebook: Notebook) -> None:
    with pytest.raises(RateLimited):
        api.show(Engine(ScriptedLLM(RateLimited("no more"))), "stream", "x")
    assert "RateLimited: scripted scripted: no more" in notebook.frames[-1].text


def test_what_a_request_wrote_before_it_was_repeated_is_dropped(notebook: Notebook) -> None:
    answer = [TextDelta("It is"), Restarted(2, "lost"), TextDelta("It rains."), Finish("end_turn")]
    Engine(ScriptedLLM(answer)).stream("x").show()
    assert notebook.frames[-1].text == "It rains."


def test_a_call_that_waits_for_an_approval(api: API, notebook: Notebook) -> None:
    llm = ScriptedLLM(ToolCallPart("1", "weather", '{"city": "Oslo"}'))
    turn = api.show(Engine(llm, [weather], permissions=Permissions(approve="later")), "stream", "x")
    assert turn.end == "approval"
    assert notebook.frames[-1].text == "weather: waits for approval"
    assert "waiting for approval" in turn._repr_html_()


def test_the_repr_of_a_turn_stream() -> None:
    stream = Engine(ScriptedLLM("It rains.")).stream("x")
    assert repr(stream) == "<TurnStream idle, 0 tokens in, 0 out>"
    assert "Turn" in stream._repr_html_()
    assert stream.result().text == "It rains."


# Elsewhere.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "5")
    monkeypatch.setenv("COLUMNS", "40")
    return made


def screen_of(written: str) -> Any:
    screen = pyte.Screen(40, 30)
    screen.set_mode(pyte.modes.LNM)
    pyte.Stream(screen).feed(written)
    return screen


def test_a_terminal_draws_the_lines_again(api: API, terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        response = api.show(timed(0.2, "one\ntwo\nthree \x1b[2Jfour", pieces=20), "stream_chat", "x")
    assert response.text
    lines = [line.rstrip() for line in screen_of(terminal.getvalue()).display]
    assert [line for line in lines if line] == ["one", "two", r"three \x1b[2Jfour"]


def test_a_terminal_shows_the_last_lines_while_they_grow(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        surface = find_surface()
    assert surface is not None
    surface.draw(Frame("", "\n".join(map(str, range(10)))))
    surface.draw(Frame("", "\n".join([*map(str, range(20)), "x" * 100])))
    lines = [line.rstrip() for line in screen_of(terminal.getvalue()).display]
    assert lines[:4] == ["17", "18", "19", "x" * 40]
    surface.end(Frame("", "done"))
    lines = [line.rstrip() for line in screen_of(terminal.getvalue()).display]
    assert [line for line in lines if line] == ["done"]


@pytest.mark.parametrize("shell", [None, object()])
def test_a_terminals_ipython_is_no_notebook(shell: Any, terminal: Terminal, notebook: Notebook) -> None:
    notebook.shell = shell
    assert not in_notebook()
    with redirect_stdout(terminal):
        assert find_surface() is not None


def test_elsewhere_the_end_is_printed(api: API, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert api.show(ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA)), "stream") == SEA
    printed = capsys.readouterr().out
    assert printed.count(SEA.title) == 1
    with pytest.raises(RateLimited):
        api.show(ScriptedLLM([TextDelta("It"), RateLimited("no")]), "stream_chat", "x")
    assert capsys.readouterr().out == ""


def test_a_dumb_terminal_gets_no_escape_sequences(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with redirect_stdout(terminal):
        ScriptedLLM("It rains.").stream_chat("x").show()
    assert terminal.getvalue() == "It rains.\n"


@pytest.mark.parametrize(("value", "text"), [("a", "a"), ({"a": "ü"}, '{\n  "a": "ü"\n}'), ([], "[]")])
def test_data_as_text(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_encodings() -> None:
    assert can_encode("utf-8", "·")
    assert not can_encode(None, "·")
    assert not can_encode("no-such-encoding", "a")
