"""option_types.py: an argument of a wrong type is an error where it is passed."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import toolcast
from toolcast import Engine, OpenAI, Session, Settings, Timeouts, ToolOrchestratingLLM, assistant, system, user
from toolcast.agents import Compaction
from toolcast.chat import ChatMachine
from toolcast.testing import ScriptedLLM


def words() -> str:
    return "Be brief."


def made(make: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
    return lambda **given: make(**(fixed | given))


def engine(**given: Any) -> Engine:
    return Engine(ScriptedLLM("Hi."), **given)


def call(**given: Any) -> ToolOrchestratingLLM[int]:
    return ToolOrchestratingLLM(int, "A number", ScriptedLLM(1), **given)


def chat(**given: Any) -> ChatMachine:
    return ChatMachine(**({"engine": engine()} | given))


def session(**given: Any) -> Session:
    return Session(**({"engine": engine()} | given))


def openai(**given: Any) -> OpenAI:
    return OpenAI(**({"model": "m", "api_key": "k"} | given))


WRONG: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (
        engine,
        {"instructions": 5},
        "instructions: expected str, a function of the ToolContext, a list of these, or None, got int",
    ),
    (
        engine().fork,
        {"instructions": words},
        "instructions: expected a function of the ToolContext, got one with the parameters ()",
    ),
    (engine, {"output_validators": 5}, "output_validators: expected a function or several, got int"),
    (
        engine,
        {"output_validators": [lambda output: output]},
        "output_validators: expected a function of the ToolContext and the output, "
        "got one with the parameters (output)",
    ),
    (
        engine,
        {"output_validators": ["x"]},
        "output_validators: expected a function of the ToolContext and the output, got str",
    ),
    (ScriptedLLM, {"system_prompt": words}, "system_prompt: expected str or None, got function"),
    (ScriptedLLM, {"settings": {"seed": 1}}, "settings: expected Settings or None, got dict"),
    (openai, {"system_prompt": words}, "system_prompt: expected str or None, got function"),
    (openai, {"settings": {"seed": 1}}, "settings: expected Settings or None, got dict"),
    (openai, {"model": 5}, "model: expected str, got int"),
    (openai, {"api_key": 5}, "api_key: expected str or None, got int"),
    (openai, {"base_url": 5}, "base_url: expected str or None, got int"),
    (openai, {"headers": 5}, "headers: expected a mapping of names to values, or None"),
    (openai, {"max_retries": "2"}, "max_retries: expected int, got str"),
    (openai, {"auth": "key"}, "auth: expected a function that returns headers, or None, got str"),
    (call, {"verbose": "no"}, "verbose: expected True or False, got str"),
    (call, {"allow_parallel_tool_calls": "no"}, "allow_parallel_tool_calls: expected True or False, got str"),
    (call, {"tool_choice": 5}, "tool_choice: expected str, a mapping or None, got int"),
    (call, {"settings": {"seed": 1}}, "settings: expected Settings or None, got dict"),
    (call, {"observer": 5}, "observer: expected a function of (call_id, state), or None, got int"),
    (call, {"max_attempts": "2"}, "max_attempts: expected int, got str"),
    (Settings, {"temperature": "0"}, "temperature: expected a number or None, got str"),
    (Settings, {"top_p": True}, "top_p: expected a number or None, got bool"),
    (Settings, {"seed": 1.5}, "seed: expected a whole number or None, got float"),
    (Settings, {"max_tokens": "9"}, "max_tokens: expected a whole number or None, got str"),
    (Settings, {"stop": 5}, "stop: expected str, a list of str or None, got int"),
    (Settings, {"thinking": []}, "thinking: expected True, False, an effort, a number of tokens or None, got list"),
    (Settings, {"timeout": "9"}, "timeout: expected seconds, Timeouts or None, got str"),
    (Settings, {"extra": 5}, "extra: expected a mapping or None, got int"),
    (session, {"engine": 5}, "engine: expected Engine or an Agent, got int"),
    (session, {"id": 5}, "id: expected str or None, got int"),
    (session, {"observer": 5}, "observer: expected a function of (session_id, state), or None, got int"),
    (chat, {"engine": 5}, "engine: expected Engine or an Agent, got int"),
    (chat, {"search": 5}, "search: expected a function, got int"),
    (chat, {"llms": 5}, "llms: expected a function, got int"),
    (chat, {"perform": {"generate": 5}}, "perform['generate']: expected a function, got int"),
    (chat, {"actions": {"enqueue": 5}}, "actions['enqueue']: expected a function, got int"),
    (Compaction, {"keep": "9"}, "keep: expected int, got str"),
    (Compaction, {"at": "9"}, "at: expected a whole number or None, got str"),
    (Compaction, {"summarise": 5}, "summarise: expected a function, an LLM or None, got int"),
]


@pytest.mark.parametrize(("make", "given", "message"), WRONG, ids=[message[:60] for _, _, message in WRONG])
def test_an_argument_of_a_wrong_type_is_refused_where_it_is_passed(
    make: Callable[..., Any], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError) as caught:
        make(**given)
    assert str(caught.value) == message


@pytest.mark.parametrize("make", [system, user, assistant])
def test_a_part_of_a_message_is_a_text_or_a_part(make: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="expected str or a part such as TextPart or ImagePart, got function"):
        make("a", words)


def test_numbers_of_other_libraries_are_numbers() -> None:
    assert Settings(temperature=Fraction(1, 2), timeout=Timeouts(total=3)).temperature == Fraction(1, 2)  # type: ignore[arg-type]  # any number
    with pytest.raises(TypeError, match="temperature"):
        Settings(temperature=Decimal(1))  # type: ignore[arg-type]  # no real number: JSON has no way to write it


def test_no_frame_of_the_error_has_the_key() -> None:
    with pytest.raises(TypeError) as caught:
        openai(model=5, api_key="sk-secret", base_url="https://u:secret@host", headers={"x": "secret"})
    frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack
    own = [frame for frame in frames if frame.filename.endswith("http_llm.py")]
    assert own and not any("secret" in str(frame.locals) for frame in own)


FAKE = ScriptedLLM([])
LIBRARY = Path(toolcast.__file__).parent
UNKNOWN: list[tuple[Callable[..., Any], str, str]] = [
    (
        partial(FAKE.chat, "x"),
        "temperature",
        "chat() takes no 'temperature': pass settings=Settings(temperature=...)",
    ),
    (
        partial(FAKE.stream_chat, "x"),
        "tool_choise",
        "stream_chat() takes no 'tool_choise': did you mean tool_choice=?",
    ),
    (partial(FAKE.astream_chat, "x"), "setting", "astream_chat() takes no 'setting': did you mean settings=?"),
    (partial(FAKE.chat_with_tools, [], "x"), "timeout", "chat_with_tools() takes no 'timeout': pass settings="),
    (partial(FAKE.predict_and_call, [], "x"), "parallel", "predict_and_call() takes no 'parallel'. It takes: tools"),
    (Engine, "max_round", "Engine() takes no 'max_round': did you mean max_rounds=?"),
    (call, "max_atempts", "ToolOrchestratingLLM() takes no 'max_atempts': did you mean max_attempts=?"),
    (call, "fallible", "ToolOrchestratingLLM() takes no 'fallible'. It takes: output_cls, prompt, llm"),
    (Engine, "system_prompt", "Engine() takes no 'system_prompt': pass instructions=..."),
    (Engine, "system_message", "Engine() takes no 'system_message': pass instructions=..."),
    (openai, "instructions", "OpenAI() takes no 'instructions': pass system_prompt=..."),
]


@pytest.mark.parametrize(("make", "name", "message"), UNKNOWN, ids=[message[:60] for _, _, message in UNKNOWN])
def test_an_option_that_there_is_not_is_refused_and_no_frame_has_its_value(
    make: Callable[..., Any], name: str, message: str
) -> None:
    with pytest.raises(TypeError) as caught:
        make(**{name: "sk-secret"})
    assert str(caught.value).startswith(message)
    frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(LIBRARY)]
    assert own and not any("sk-secret" in str(frame.locals) for frame in own)


@pytest.mark.parametrize("method", ["achat", "achat_with_tools", "apredict_and_call"])
async def test_an_option_that_there_is_not_is_refused_by_what_is_awaited(method: str) -> None:
    with pytest.raises(TypeError, match=rf"{method}\(\) takes no 'top'"):
        await getattr(FAKE, method)(tools=[], messages="x", top=1)
