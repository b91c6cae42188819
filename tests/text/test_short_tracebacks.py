"""short_tracebacks.py and `_render_traceback_`: what IPython prints for an error of toolcast."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from support.notebooks import Notebook
from support.sync_and_async import API
from toolcast import CallError, Engine, ToolCallPart, ToolcastError, ToolOrchestratingLLM, ValidationError
from toolcast.errors import PromptError, RateLimited, TurnFailed
from toolcast.testing import ScriptedLLM
from toolcast.text.short_tracebacks import render

HERE = str(Path(__file__))


class Song(BaseModel):
    title: str
    seconds: int = Field(gt=0)


class Album(BaseModel):
    songs: list[Song]


BROKEN = {"songs": [{"title": "Foam", "seconds": "two minutes"}]}


def text_of(error: Any) -> str:
    (text,) = error._render_traceback_()
    assert isinstance(text, str)
    return text


def test_one_wrong_field(api: API) -> None:
    make = ToolOrchestratingLLM(Album, "x", ScriptedLLM(BROKEN))
    with pytest.raises(ValidationError) as caught:
        api.call(make)
    lines = text_of(caught.value).splitlines()
    assert lines[:3] == [
        "ValidationError: Album by scripted scripted is invalid",
        "  songs.0.seconds: Input should be a valid integer, unable to parse string as an integer, got 'two minutes'",
        "",
    ]
    assert "    api.call(make)" in lines
    assert any(line.startswith(f"{HERE}, line ") and line.endswith("in test_one_wrong_field") for line in lines)
    assert lines[-2] == "max_attempts=2 lets the model correct itself"
    assert lines[-1].endswith(" more frames: traceback.print_exception(error)")
    assert len(lines) < 20
    assert not any("toolcast/structured" in line or "site-packages" in line for line in lines)


def test_in_a_notebook_the_cell_is_named_and_the_command_for_all_frames(notebook: Notebook) -> None:
    make = ToolOrchestratingLLM(Album, "x {y}", ScriptedLLM(BROKEN))
    with pytest.raises(PromptError) as caught:
        exec(compile("1 + 1\nmake(z=2)", "<cell>", "exec"), {"make": make})
    lines = text_of(caught.value).splitlines()
    assert lines[0].startswith("\x1b[31mPromptError\x1b[0m: no value for the variable 'y'")
    assert "Cell In[3], line 2" in lines
    assert lines[-1].endswith(" more frames: %tb Plain")
    notebook.shell.colors = "NoColor"
    assert "\x1b" not in text_of(caught.value)


@pytest.mark.parametrize("mode", ["Plain", "Verbose", "Minimal"])
def test_another_mode_is_the_shells_own(mode: str, notebook: Notebook) -> None:
    notebook.shell.InteractiveTB.mode = mode
    assert ToolcastError("x")._render_traceback_() == ["all of", ToolcastError]


def test_plain_tracebacks_are_unchanged() -> None:
    with pytest.raises(ValidationError) as caught:
        ToolOrchestratingLLM(Album, "x", ScriptedLLM(BROKEN))()
    lines = "".join(traceback.format_exception(caught.value)).splitlines()
    assert sum("structured" in line for line in lines) > 5


def test_the_frame_of_a_tool() -> None:
    def divide(a: int) -> float:
        """Divide."""
        return a / 0

    call = ToolCallPart("1", "divide", '{"a": 1}')
    engine = Engine(ScriptedLLM(call), [divide], tool_errors="raise")
    with pytest.raises(TurnFailed) as caught:
        engine.submit("x")
    text = text_of(caught.value)
    assert "caused by ZeroDivisionError: division by zero\n" in text
    assert text.count("return a / 0") == 1


def deep(number: int) -> None:
    if number:
        deep(number - 1)
    raise_error()


def raise_error() -> None:
    raise ToolcastError("deep \x1b[2J")


def test_of_many_frames_the_outermost_and_the_last_are_shown() -> None:
    with pytest.raises(ToolcastError) as caught:
        deep(20)
    lines = text_of(caught.value).splitlines()
    assert lines[0] == r"ToolcastError: deep \x1b[2J"
    assert "test_of_many_frames" in lines[2]
    assert [line.rpartition(" ")[2] for line in lines if line.startswith(HERE)][1:] == ["deep", "deep", "raise_error"]
    assert lines[-1] == "19 more frames: traceback.print_exception(error)"


def test_frames_of_the_caller_alone_need_no_command() -> None:
    with pytest.raises(ToolcastError) as caught:
        raise_error()
    assert "more frames" not in text_of(caught.value)


def test_an_error_that_was_not_raised_has_no_frames() -> None:
    assert text_of(ToolcastError("two\nlines")) == "ToolcastError: two\nlines"
    assert len(text_of(ToolcastError("x" * 10_000))) < 2100


def test_notes_and_causes() -> None:
    error = RateLimited("no", provider="openai", model="gpt-4o")
    error.add_note("the input at index 3 of the job failed")
    error.__cause__ = ValueError("never raised")
    assert text_of(error) == "RateLimited: openai gpt-4o: no\nthe input at index 3 of the job failed"


def test_many_wrong_fields_are_counted() -> None:
    songs = {"songs": [{"title": "x", "seconds": "y" * 1000}] * 9}
    with pytest.raises(ValidationError) as caught:
        ToolOrchestratingLLM(Album, "x", ScriptedLLM(songs))()
    lines = text_of(caught.value).splitlines()
    assert lines[7] == "  ... and 3 more"
    assert max(map(len, lines[:7])) < 300


def test_a_validation_error_without_fields_shows_its_message() -> None:
    assert text_of(ValidationError("odd")) == "ValidationError: odd. max_attempts=2 lets the model correct itself"


class Login(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)
    password: str = Field(min_length=40)


class Key(BaseModel):
    key: SecretStr = Field(min_length=40)


@pytest.mark.parametrize("kind", [Login, Key])
def test_what_came_is_not_shown_where_it_is_hidden(kind: type[BaseModel], notebook: Notebook) -> None:
    data = {"password": "hunter2", "key": "hunter2"}
    with pytest.raises(ValidationError) as caught:
        ToolOrchestratingLLM(kind, "x", ScriptedLLM(data))()
    assert caught.value.hides_input
    assert "at least 40" in text_of(caught.value)
    assert "hunter2" not in text_of(caught.value) + caught.value._repr_html_()


def test_lines_of_other_errors() -> None:
    error = CallError("x")
    assert render(error, ["head"], ["hint"]) == ["head\n\nhint"]
