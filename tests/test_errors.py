"""Errors as values: every class survives a copy, a pickle and a process pool, with all that it knows."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pydantic
import pytest

from toolcast import FailTurn, ToolCallPart, ToolOrchestratingLLM, TryAgain, Usage, assistant
from toolcast.errors import Attempt, CallError, LLMError, ToolcastError, ValidationError
from toolcast.events import ChatResponse
from toolcast.testing import ScriptedLLM


class Song(pydantic.BaseModel):
    title: str
    seconds: int


def classes(base: type[Exception] = ToolcastError) -> Iterator[type[Exception]]:
    yield base
    for derived in base.__subclasses__():
        if derived.__module__.startswith("toolcast"):
            yield from classes(derived)


CLASSES = sorted({*classes(), TryAgain, FailTurn}, key=lambda kind: kind.__qualname__)
COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
}


def invalid() -> pydantic.ValidationError:
    with pytest.raises(pydantic.ValidationError) as caught:
        Song.model_validate_json('{"title": 1}')
    return caught.value


def full(kind: type[Exception]) -> Exception:
    """An error with a value for each attribute that it has."""
    error = kind("no 7")
    error.__cause__ = invalid() if isinstance(error, ToolcastError) else None
    error.add_note("a note")
    call = ToolCallPart("c1", "Song", "{")
    known: dict[str, Any] = {
        "partial": Song(title="Sea", seconds=1),
        "response": ChatResponse(assistant(call), "tool_use", Usage(1, 2)),
        "attempts": (Attempt(1, LLMError("busy", status=503), Usage(1, 2), "r1"), Attempt(2, ValueError("x"))),
        "others": (ValidationError("2 errors", tool_name="Song", arguments="["),) if kind is ValidationError else (),
        "rate_limits": {"x-limit": "1"},
    }
    attributes = {"others": None, **vars(error)} if isinstance(error, CallError) else vars(error)
    for name, value in list(attributes.items()):
        if name != "__notes__":
            setattr(error, name, known.get(name, f"a {name}" if value is None or value == "" else value))
    return error


def known(error: BaseException | None) -> Any:
    """All that an error knows, in comparable form."""
    if error is None:
        return None
    attributes = {name: _comparable(value) for name, value in vars(error).items() if name != "_faults"}
    faults = error.errors() if isinstance(error, (ValidationError, pydantic.ValidationError)) else None
    return type(error), str(error), attributes, known(error.__cause__), faults


def _comparable(value: Any) -> Any:
    if isinstance(value, Attempt):
        return value.to_dict()
    if isinstance(value, tuple):
        return [known(each) if isinstance(each, BaseException) else _comparable(each) for each in value]
    return value


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__qualname__)
def test_every_error_survives_a_copy_and_a_pickle(kind: type[Exception]) -> None:
    error = full(kind)
    for name, copied in COPIES.items():
        found = copied(error)
        assert found is not error and known(found) == known(error), name


def fail(error: Exception) -> None:
    raise error


def test_every_error_survives_a_process_pool() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for error in map(full, CLASSES):
            found = pool.submit(fail, error).exception()
            assert found is not None
            found.__cause__ = error.__cause__  # the pool puts its own in its place
            assert known(found) == known(error)
            if isinstance(found, ValidationError):
                found.__cause__ = None
                assert found.error_count() == 2


@pytest.mark.parametrize("parallel", [False, True])
def test_an_error_about_a_local_type_survives_a_pickle(parallel: bool) -> None:
    class Local(ValueError):
        pass

    class Point(pydantic.BaseModel):
        x: int
        y: str

        @pydantic.field_validator("y")
        @classmethod
        def check(cls, value: str) -> str:
            raise Local(f"no {{{value}}}") if value == "b" else ValueError("bad")

    calls = [ToolCallPart("a", "Point", '{"x": "q", "y": "b"}')] * (1 + parallel)
    llm = ScriptedLLM(calls)
    with pytest.raises(ValidationError) as caught:
        ToolOrchestratingLLM(Point, "x", llm, allow_parallel_tool_calls=parallel)()
    error = caught.value
    error.partial = [Point.model_construct(x=1, y="a")] if parallel else Point.model_construct(x=1, y="a")
    for made in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert [(fault["loc"], fault["msg"]) for fault in made.errors()] == [
            (fault["loc"], fault["msg"]) for fault in error.errors()
        ]
        assert made.partial == ([{"x": 1, "y": "a"}] if parallel else {"x": 1, "y": "a"})
        assert str(made) == str(error)
    assert copy.copy(error).__cause__ is error.__cause__


def test_what_a_pickle_cannot_have_of_a_partial_result_becomes_data() -> None:
    error = CallError("no")
    error.partial = {"a": [lambda: 1], "b": ValueError("x", lambda: 1)}
    made = pickle.loads(pickle.dumps(error)).partial
    assert str(made["a"][0]).startswith("<function ")
    assert str(made["b"]).startswith("ValueError: ('x', <function ")


def test_a_cause_that_cannot_be_pickled_becomes_its_text() -> None:
    error = CallError("no")
    error.__cause__ = type("Local", (Exception,), {})("why")
    assert str(pickle.loads(pickle.dumps(error)).__cause__) == "Local: why"
