"""plain_data.py and the `to_dict` methods: results as data, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from support.sync_and_async import API
from toolcast import Engine, Message, ToolCallPart, ToolOrchestratingLLM, TryAgain, Turn, Usage
from toolcast.errors import Attempt, CallError, RateLimited, ValidationError
from toolcast.events import ChatResponse
from toolcast.messages import (
    AudioPart,
    DocumentPart,
    FileRef,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    VideoPart,
)
from toolcast.structured.call import Result
from toolcast.testing import ScriptedLLM
from toolcast.values.approvals import PermissionRequest
from toolcast.values.plain_data import from_plain, to_plain

texts = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(texts, inside, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, plain, max_size=3)
urls = st.builds("https://example.com/{}".format, st.integers(0, 9))
media = [
    strategy
    for kind in (ImagePart, AudioPart, VideoPart, DocumentPart)
    for strategy in (st.builds(kind, url=urls), st.builds(kind, data=st.binary(max_size=8), media_type=texts))
]
parts = st.one_of(
    st.builds(TextPart, texts),
    *media,
    st.builds(FileRef, texts, texts, st.none() | texts, expires_at=st.none() | st.floats(0, 2**40)),
    st.builds(ThinkingPart, texts, st.none() | texts, st.none() | texts, st.none() | objects),
    st.builds(ToolCallPart, texts, texts, texts, st.booleans(), st.none() | objects),
    st.builds(ToolResultPart, texts, texts, texts, st.booleans(), st.builds(lambda image: (image,), media[0])),
)
messages = st.builds(
    Message, st.sampled_from(["system", "user", "assistant", "tool"]), st.lists(parts, max_size=4).map(tuple)
)
counts = st.integers(0, 10**6)
tokens = st.builds(Usage, counts, counts, counts, counts, counts, counts)
usages = tokens | st.builds(Usage.with_cost, tokens, st.decimals(0, 100, places=8))
responses = st.builds(
    ChatResponse,
    messages,
    st.sampled_from(["end_turn", "max_tokens", "tool_use", "other"]),
    usages,
    st.none() | texts,
    st.none() | texts,
    st.none() | texts,
    plain,
    st.lists(texts, max_size=2).map(tuple),
    st.none() | texts,
)


@given(messages)
def test_a_message(message: Message) -> None:
    assert Message.from_dict(json.loads(message.to_json())) == message


@given(responses)
def test_a_response(response: ChatResponse) -> None:
    again = ChatResponse.from_dict(json.loads(response.to_json()))
    assert again == response
    assert again.usage.cost == response.usage.cost
    assert again.raw is None
    assert ChatResponse.from_dict(json.loads(response.to_json(raw=True))).raw == response.raw


@given(
    st.builds(
        Turn[Any],
        st.lists(messages, max_size=3).map(tuple),
        usages,
        counts,
        st.sampled_from(["end_turn", "approval", "error"]),
        plain,
        st.lists(st.builds(PermissionRequest, texts, texts, texts, texts), max_size=2).map(tuple),
    )
)
def test_a_turn(turn: Turn[Any]) -> None:
    assert Turn.from_dict(json.loads(turn.to_json())) == turn


class Color(Enum):
    RED = "red"


class Day(BaseModel):
    model_config = ConfigDict(strict=True)
    at: date
    color: Color
    price: Decimal
    name: str = Field(alias="dayName")
    tags: tuple[str, ...] = ()


DAY = {"at": "2026-01-31", "color": "red", "price": "1.50", "dayName": "Saturday", "tags": ["a"]}
OUTPUTS: list[tuple[Any, Any]] = [
    (Day, DAY),
    (list[int], {"value": [1, 2]}),
    (int | str, {"value": 3}),
    (dict[str, date], {"a": "2026-01-31"}),
]


@pytest.mark.parametrize(("output_cls", "arguments"), OUTPUTS)
def test_a_result(output_cls: Any, arguments: Any, api: API) -> None:
    result = api.run(ToolOrchestratingLLM(output_cls, "x", ScriptedLLM(arguments)))
    again = Result[Any].from_dict(json.loads(result.to_json()), output_cls)
    assert again == result
    assert type(again.output) is type(result.output)
    assert "raw" not in result.to_dict()["response"]
    assert "raw" in result.to_dict(raw=True)["response"]


def test_parallel_results(api: API) -> None:
    calls = [ToolCallPart(f"c{at}", "Day", json.dumps(DAY)) for at in range(2)]
    make = ToolOrchestratingLLM(Day, "x", ScriptedLLM(calls), allow_parallel_tool_calls=True)
    result = api.run(make)
    assert Result[Any].from_dict(result.to_dict(), list[Day]) == result


def test_the_result_of_a_function_is_plain_data(api: API) -> None:
    def far(days: int) -> object:
        """Return a date."""
        return date(2026, 1, days)

    result = api.run(ToolOrchestratingLLM(far, "x", ScriptedLLM({"days": 3})))
    assert result.to_dict()["output"] == "2026-01-03"
    assert Result[Any].from_dict(result.to_dict(), far).output == "2026-01-03"


def test_attempts_keep_type_and_message_of_their_errors(api: API) -> None:
    llm = ScriptedLLM({"value": "no"}, {"value": 1})
    result = api.run(ToolOrchestratingLLM(int, "x", llm, max_attempts=2))
    again = Result[Any].from_dict(result.to_dict(), int)
    assert isinstance(again.attempts[0].error, ValidationError)
    assert str(again.attempts[0].error) == str(result.attempts[0].error)
    assert again.attempts[1] == result.attempts[1]
    assert again.to_dict() == result.to_dict()


class Strange(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (RateLimited("slow", provider="openai", model="m", request_id="r"), RateLimited, "openai m: slow [request r]"),
        (TryAgain("shorter"), TryAgain, "shorter"),
        (Strange("odd"), CallError, "Strange: odd"),
    ],
)
def test_an_attempt(error: Exception, kind: type[Exception], words: str) -> None:
    again = Attempt.from_dict(json.loads(json.dumps(Attempt(2, error, None, "r", 0.5, 0.25).to_dict())))
    assert (again.seconds, again.wait) == (0.5, 0.25)
    assert (again.number, type(again.error), again.usage, again.request_id) == (2, kind, None, "r")
    assert words in str(again.error)


@pytest.mark.parametrize(
    ("value", "data"),
    [(b"ab", "ab"), (b"\xff", "_w=="), (object, str(object)), ({1}, [1])],
)
def test_any_value_has_plain_data(value: Any, data: Any) -> None:
    assert to_plain(value) == data


def test_without_a_type_data_stays_as_it_is() -> None:
    assert from_plain({"a": 1}, None) == {"a": 1}


# Secrets.


class Vault(BaseModel):
    key: SecretStr


class Login(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)
    user: str


WORD = "hunter2-canary"
ANSWERS: list[Callable[[], Any]] = [
    lambda: {"key": WORD},
    lambda: f'I choose {{"key": "{WORD}"}}.',
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_secrets_are_masked_in_results(answer: Callable[[], Any], api: API) -> None:
    result = api.run(ToolOrchestratingLLM(Vault, "x", ScriptedLLM(answer())))
    assert result.output.key.get_secret_value() == WORD
    assert WORD not in result.to_json(raw=True)
    again = Result[Any].from_dict(result.to_dict(), Vault)
    assert again.output.key.get_secret_value() == "**********"


def test_arguments_of_types_that_hide_their_input_are_left_out(api: API) -> None:
    data = api.run(ToolOrchestratingLLM(Login, "x", ScriptedLLM({"user": "ada"}))).to_dict()
    assert data["response"]["message"]["parts"][0]["arguments"] == '"(hidden)"'
    assert data["output"] == {"user": "ada"}


def test_secrets_are_masked_in_turns() -> None:
    thought = ThinkingPart(WORD)
    call = ToolCallPart("1", "Vault", json.dumps({"key": WORD}))
    turn = Engine(ScriptedLLM([call])).submit("x", output_cls=Vault)
    assert turn.output is not None
    assert turn.output.key.get_secret_value() == WORD
    assert WORD not in turn.to_json()
    other = Turn[Any]((Message("assistant", (thought, call)),), hidden_tools=frozenset({"Vault"}))
    assert WORD not in other.to_json()
