"""The values: settings, usage, configs and errors."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from typing import Any

import pydantic
import pytest

import toolcast
from support.albums import Album
from toolcast import Configs, Settings, Timeouts, Usage
from toolcast.errors import (
    Attempt,
    CallError,
    ContentBlocked,
    LLMError,
    NoToolCallError,
    Timeout,
    ToolcastError,
    ValidationError,
)
from toolcast.testing import ScriptedLLM
from toolcast.values.usage import NO_USAGE

# -- settings -------------------------------------------------------------------------------------------------


def test_settings_over_a_base_field_by_field() -> None:
    base = Settings(temperature=0.1, seed=1, stop="END")
    assert Settings(temperature=0.9).over(base) == Settings(temperature=0.9, seed=1, stop=("END",))
    assert Settings().over(base) is base
    assert Settings(seed=0).over(None) == Settings(seed=0)


def test_falsy_settings_are_set() -> None:
    assert Settings(temperature=0.0, seed=0).over(Settings(temperature=1.0, seed=5)).temperature == 0.0


def test_with_changes_a_copy() -> None:
    one = Settings(seed=1)
    assert one.with_(seed=2, stop=["a", "b"]) == Settings(seed=2, stop=("a", "b"))
    assert one.seed == 1


def test_timeouts_from_seconds() -> None:
    assert Settings(timeout=5.0).timeouts == Timeouts(total=5.0)
    assert Settings(timeout=Timeouts(idle=None)).timeouts.idle is None
    assert Settings().timeouts == Timeouts()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_a_positive_number(seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        Settings(timeout=seconds)
    with pytest.raises(ValueError, match="idle"):
        Timeouts(idle=seconds)


def test_max_tokens_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="max_tokens=0"):
        Settings(max_tokens=0)
    with pytest.raises(ValueError, match="num_ctx=0"):
        Settings(num_ctx=0)


def test_the_settings_of_services_are_checked() -> None:
    with pytest.raises(ValueError, match="logprobs=-1 must be True, False or a number of at least 0"):
        Settings(logprobs=-1)
    for name in ("previous_response_id", "conversation"):
        with pytest.raises(ValueError, match=f"{name}='' is no id"):
            Settings(**{name: ""})
    for wrong in ({"service_tier": 1}, {"logprobs": "5"}, {"keep_alive": True, "num_ctx": "1"}, {"check_context": 1}):
        with pytest.raises(TypeError, match="expected"):
            Settings(**wrong)  # type: ignore[arg-type]  # values that a user may pass


# -- usage ----------------------------------------------------------------------------------------------------


def test_usage_adds_up() -> None:
    both = Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40)
    assert both == Usage(11, 22, 33, 44)
    assert both.total_tokens == 33
    assert NO_USAGE + both == both + NO_USAGE == both


# -- configs --------------------------------------------------------------------------------------------------


def test_use_holds_inside_the_block_and_nests() -> None:
    one, two = ScriptedLLM(), ScriptedLLM()
    with Configs.use(llm=one, settings=Settings(seed=1)):
        with Configs.use(llm=two):
            assert Configs.llm is two
            assert Configs.settings == Settings(seed=1)
        assert Configs.llm is one
    assert Configs.llm is None


def test_use_is_of_this_context_and_assignment_of_the_process() -> None:
    seen: list[Any] = []
    with Configs.use(settings=Settings(seed=1)):
        thread = threading.Thread(target=lambda: seen.append(Configs.settings))
        thread.start()
        thread.join()
    assert seen == [None]
    Configs.settings = Settings(seed=2)
    try:
        thread = threading.Thread(target=lambda: seen.append(Configs.settings))
        thread.start()
        thread.join()
    finally:
        Configs.settings = None
    assert seen[1] == Settings(seed=2)


def test_tasks_do_not_see_each_others_configs() -> None:
    async def inside(seed: int) -> int | None:
        with Configs.use(settings=Settings(seed=seed)):
            await asyncio.sleep(0)
            return Configs.settings.seed if Configs.settings else None

    async def main() -> list[int | None]:
        return await asyncio.gather(*(inside(seed) for seed in range(5)))

    assert asyncio.run(main()) == list(range(5))


# -- errors ---------------------------------------------------------------------------------------------------

CALL_ERRORS = [
    error
    for name in dir(toolcast.errors)
    if isinstance(error := getattr(toolcast.errors, name), type) and issubclass(error, CallError)
]


@pytest.mark.parametrize("error", CALL_ERRORS, ids=lambda error: error.__name__)
def test_call_errors_are_value_errors_that_can_be_pickled_and_copied(error: type[CallError]) -> None:
    made = error("it broke", provider="p", model="m", request_id="r1", partial=[1])
    made.attempts = (Attempt(1, None, Usage(1, 1)),)
    for copied in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert isinstance(copied, ValueError)
        assert str(copied) == str(made) == f"p m: it broke{made.advice and f'. {made.advice}'} [request r1]"
        assert (copied.partial, copied.attempts, copied.retryable) == ([1], made.attempts, made.retryable)


@pytest.mark.parametrize("message", ["it broke", "it broke."])
def test_advice_is_a_sentence_of_its_own(message: str) -> None:
    assert str(NoToolCallError(message)) == f"it broke. {NoToolCallError.advice}"


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (toolcast.errors.MissingLLMError, AssertionError),
        (toolcast.errors.UnsupportedLLMError, ValueError),
        (toolcast.errors.PromptError, ValueError),
        (toolcast.errors.OutputTypeError, TypeError),
        (toolcast.errors.MissingOutputError, AttributeError),
        (toolcast.errors.StreamClosed, ToolcastError),
        (toolcast.errors.StreamBusy, ToolcastError),
        (toolcast.CallError, ValueError),
        (toolcast.LLMError, CallError),
        (toolcast.errors.NoToolCallError, CallError),
    ],
)
def test_the_tree(error: type[Exception], base: type[Exception]) -> None:
    assert issubclass(error, base)
    assert issubclass(error, ToolcastError)


def test_what_was_tried_is_not_advised() -> None:
    made = toolcast.errors.NoToolCallError("nothing was called")
    assert str(made).startswith("nothing was called. Ask again with max_attempts=2")
    assert made.message == "nothing was called"
    made.attempts = (Attempt(1, made), Attempt(2, made))
    assert str(made) == "nothing was called (after 2 requests in 0.0 s)"


def test_an_error_after_several_requests_names_their_number_time_and_earlier_failures() -> None:
    down = toolcast.errors.Overloaded("overloaded", status=503)
    lost, made = toolcast.errors.ConnectFailed("refused"), toolcast.errors.NoToolCallError("nothing was called")
    waits = (Attempt(1, down, wait=2.0), Attempt(2, down, seconds=1.5), Attempt(3, lost))
    made.attempts = (*waits, Attempt(4, made, seconds=0.25, wait=0.0))
    assert str(made) == (
        "nothing was called. Ask again with max_attempts=2, or try another model. "
        "(after 4 requests in 3.8 s, 2 of them answered 503, one of them failed with ConnectFailed)"
    )
    assert made.message == "nothing was called"


def test_an_error_without_a_place_is_its_message() -> None:
    assert str(CallError("it broke")) == "it broke"
    assert CallError().message == ""


def test_retryable_can_be_sent_of_one_error() -> None:
    assert LLMError().retryable is False
    assert LLMError(retryable=True).retryable is True
    assert toolcast.errors.ConnectFailed(retryable=False).retryable is False
    assert Timeout(phase="idle").phase == "idle"


def test_a_validation_error_speaks_for_pydantic() -> None:
    with pytest.raises(ValidationError) as caught:
        try:
            Album.model_validate_json('{"title": 1}')
        except pydantic.ValidationError as error:
            raise ValidationError("bad", tool_name="Album", arguments='{"title": 1}') from error
    assert caught.value.error_count() == 3
    assert caught.value.errors()[0]["loc"] == ("title",)
    assert ValidationError("bad").errors() == []
    assert ValidationError("bad").error_count() == 0


@pytest.mark.parametrize("off", [False, "none", 0, -1])
def test_all_ways_not_to_think_are_one(off: bool | str | int) -> None:
    assert Settings(thinking=off).thinking is False
    assert [Settings(thinking=on).thinking for on in (True, "low", 1)] == [True, "low", 1]


@pytest.mark.fault(143)
def test_what_a_service_named_breaks_no_line_of_an_error() -> None:
    """The name of the model and the id of the request come from the response: a log shows them in its one line."""
    hostile = "m\x1b[2J\r\nINFO forged\u202e é"
    error = ContentBlocked("no call", provider="openai", model=hostile, request_id=hostile)
    shown = "m\\x1b[2J\\r\\nINFO forged\\u202e é"
    assert str(error) == f"openai {shown}: no call [request {shown}]"
    assert (error.model, error.request_id) == (hostile, hostile)
