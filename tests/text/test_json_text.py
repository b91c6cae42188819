"""json_text.py: values that JSON or UTF-8 cannot hold, written as text, and the places that write them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field
from pydantic_core import PydanticSerializationError

from toolcast import Engine, Result, Session, ToolCallPart, ToolOrchestratingLLM, user
from toolcast.prompts import PromptTemplate
from toolcast.stores import MemoryStore
from toolcast.testing import ScriptedLLM
from toolcast.text.json_text import json_text, replace_surrogates
from toolcast.toolbox import file_tools
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.function_schema import signature_of

HALF = "\ud800"


class Note(BaseModel):
    words: Any = Field(alias="text")


@dataclass
class Box:
    text: str


@pytest.mark.fault(67)
@pytest.mark.parametrize(
    ("text", "expected"), [("a", "a"), ("é", "é"), (f"a{HALF}b", "a\ufffdb"), ("\ud83d\ude00", "\U0001f600")]
)
def test_half_a_surrogate_pair_is_replaced(text: str, expected: str) -> None:
    assert replace_surrogates(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, None, "é"]}, {"a": [1, None, "é"]}),
        ({HALF: HALF}, {"\ufffd": "\ufffd"}),
        ([(HALF,), {HALF}, 1], [["\ufffd"], ["\ufffd"], 1]),
        ({"note": Note(text=[HALF, {HALF: 1}])}, {"note": {"text": ["\ufffd", {"\ufffd": 1}]}}),
        ([HALF, b"x"], ["\ufffd", "x"]),
    ],
)
def test_any_value_has_a_text(value: Any, expected: Any) -> None:
    assert json.loads(json_text(value, by_alias=True)) == expected


def test_what_has_no_text_is_an_error() -> None:
    with pytest.raises(PydanticSerializationError):
        json_text(object())


def echo(text: str) -> str:
    """Return the text."""
    return text


@pytest.mark.parametrize(
    "tool", [CallableTool.from_function(echo), CallableTool.from_model(Note)], ids=["function", "model"]
)
def test_a_tool_reads_and_writes_half_a_surrogate_pair(tool: CallableTool) -> None:
    assert "\ufffd" in tool.call({"text": HALF}).content
    assert tool.arguments_for({"text": HALF}) == '{"text":"\ufffd"}'


def test_a_file_tool_says_that_there_is_no_such_file(tmp_path: Path) -> None:
    read_file = next(tool for tool in file_tools(tmp_path) if tool.name == "read_file")
    with pytest.raises(Exception, match="\ufffd"):
        read_file.call({"path": HALF})


def test_a_prompt_holds_a_model_with_half_a_surrogate_pair() -> None:
    assert PromptTemplate("{note}").format(note=Note(text=HALF)) == '{"words":"\ufffd"}'


def test_a_signature_writes_half_a_surrogate_pair() -> None:
    assert signature_of(echo).dump({"text": HALF}) == '{"text":"\ufffd"}'


ARGUMENTS = [
    '{"text": "\ud800"}',
    '{"text": "\\ud800"}',
    '{"text": 1e400}',
    '{"text": NaN}',
    f'{{"text": {"9" * 5000}}}',
]


@pytest.mark.fault(67)
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=["half", "escaped", "infinite", "nan", "huge"])
@pytest.mark.parametrize("make", [lambda: CallableTool.from_function(echo), lambda: CallableTool.from_model(Note)])
def test_a_turn_takes_any_arguments_and_its_session_keeps_them(
    arguments: str, make: Callable[[], CallableTool]
) -> None:
    tool = make()
    store = MemoryStore()
    engine = Engine(ScriptedLLM(ToolCallPart("1", tool.name, arguments), "Done."), [tool])
    with Session(engine, id="a", store=store) as session:
        assert session.run(f"Go {HALF}").text == "Done."
    for record in store.read("a"):
        json.dumps(record, allow_nan=False, ensure_ascii=False).encode()


def test_an_output_has_no_half_of_a_surrogate_pair() -> None:
    llm = ScriptedLLM(ToolCallPart("1", "Note", '{"text": "\\ud800"}'))
    assert ToolOrchestratingLLM(Note, [user(HALF)], llm)().words == "\ufffd"


def test_numbers_that_json_does_not_have_are_text() -> None:
    class Limit(BaseModel):
        most: float = math.inf

    text = ToolOrchestratingLLM(Limit, "x", ScriptedLLM({})).run().to_json()
    assert json.loads(text, parse_constant=pytest.fail)["output"] == {"most": "Infinity"}
    assert Result.from_dict(json.loads(text), Limit).output == Limit()


def test_a_value_that_holds_itself_has_no_text() -> None:
    value: list[Any] = [HALF]
    value.append(value)
    with pytest.raises(ValueError, match="surrogates not allowed"):
        json_text(value)
