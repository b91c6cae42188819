"""Calls that are sent to other processes: with what they need, and without credentials."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest
from pydantic import BaseModel

from toolcast import Anthropic, FallbackLLM, FunctionCallingLLM, OpenAI, ToolOrchestratingLLM
from toolcast.batch import JobError, row_function
from toolcast.batch.row_functions import PortableCall
from toolcast.llms import CachedLLM, MemoryCache
from toolcast.llms.client import client_of
from toolcast.testing import ScriptedLLM

KEY = "sk-0123456789abcdef"


class City(BaseModel):
    name: str


def token() -> Mapping[str, str]:
    return {"authorization": KEY}


def make_call() -> ToolOrchestratingLLM[City]:
    return ToolOrchestratingLLM(City, "Which city? {text}", OpenAI("gpt-5-mini", api_key=KEY))


def not_a_call() -> int:
    return 3


def test_a_call_whose_key_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    call = ToolOrchestratingLLM(City, "Which city? {text}", OpenAI("gpt-5-mini"))
    assert call.request(text="Oslo").headers  # the key has been read
    data = pickle.dumps(PortableCall(call))
    assert KEY.encode() not in data
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    again = pickle.loads(data).call
    assert repr(again) == repr(call)
    assert again.request(text="Oslo").body == call.request(text="Oslo").body
    assert "sk-another" in again.request(text="Oslo").headers["authorization"].reveal()


PASSED: list[tuple[FunctionCallingLLM, tuple[str, ...]]] = [
    (OpenAI("m", api_key=KEY), ("api_key=",)),
    (OpenAI("m", auth=token), ("auth=",)),
    (OpenAI("m", headers={"X-Gateway": KEY, "X-Title": "t"}), ("the header 'X-Gateway'",)),
    (OpenAI("m", base_url=f"https://user:{KEY}@example.com/v1"), ("the credentials in base_url",)),
    (
        FallbackLLM([OpenAI("m", api_key=KEY), Anthropic("m", api_key=KEY, headers={"X-Gateway": KEY})]),
        ("api_key=", "the header 'X-Gateway'"),
    ),
    (CachedLLM(OpenAI("m", api_key=KEY), MemoryCache()), ("api_key=",)),
]


@pytest.mark.parametrize(("llm", "passed"), PASSED)
def test_credentials_that_were_passed_are_refused(llm: FunctionCallingLLM, passed: tuple[str, ...]) -> None:
    assert client_of(llm).passed_credentials == passed
    call = ToolOrchestratingLLM(City, "Which city? {text}", llm)
    for portable in (PortableCall(call), row_function(call)):
        with pytest.raises(JobError) as caught:
            pickle.dumps(portable)
        assert f"not sent to other processes: {', '.join(passed)}. Leave them out and set" in str(caught.value)
        assert KEY not in str(caught.value)
    assert PortableCall(call).call is call  # in this process, nothing is wrong with it


def test_an_llm_without_credentials_has_passed_none() -> None:
    assert client_of(OpenAI("m", base_url="https://example.com", headers={"X-Title": "t"})).passed_credentials == ()
    assert client_of(ScriptedLLM([])).passed_credentials == ()


def test_a_function_makes_the_call_where_it_is_used() -> None:
    portable = PortableCall(make_call)
    assert portable.call is portable.call
    data = pickle.dumps(portable)
    assert KEY.encode() not in data
    again: PortableCall[City] = pickle.loads(data)
    assert KEY in again.call.request(text="Oslo").headers["authorization"].reveal()


def test_what_is_no_call() -> None:
    with pytest.raises(TypeError, match="call: expected a ToolOrchestratingLLM, or a function that returns one"):
        PortableCall("gpt-5")  # type: ignore[arg-type]  # the case
    with pytest.raises(TypeError, match="expected a function that returns a ToolOrchestratingLLM, got 3"):
        _ = PortableCall(not_a_call).call  # type: ignore[arg-type]  # the case
