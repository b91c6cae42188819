"""turn_limits.py: what stops a turn that would go on and on."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from support.engines import EngineAPI, call, check, results
from support.loopback import HOLD, Loopback, head
from toolcast import OpenAICompatible
from toolcast.agents.engine.engine import Engine
from toolcast.errors import BudgetExceeded, RepeatedCall, RoundsExceeded, Timeout, TurnStopped
from toolcast.messages import user
from toolcast.testing import ScriptedLLM, VirtualClock
from toolcast.tools.callable_tool import CallableTool
from toolcast.values.budgets import Budget
from toolcast.values.settings import Settings, Timeouts
from toolcast.values.usage import Prices, Usage

LOOK = call("c", "look")


def look() -> str:
    """Look."""
    return "nothing"


def stopped(engine_api: EngineAPI, engine: Engine, kind: type[TurnStopped], **options: Any) -> TurnStopped:
    text = engine_api.stream(engine, "Go.", **options)
    assert type(text.error) is kind
    assert text.events[-1].error is text.error
    turn = text.error.turn
    assert turn is not None and turn.end == "stopped" and turn.messages == engine.history[1:]
    assert engine.trace[-2:] == ("error", "idle")
    check(engine)
    return text.error


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_max_rounds_counts_requests(engine_api: EngineAPI, rounds: int) -> None:
    engine = Engine(llm := ScriptedLLM(*[LOOK] * 9), [look], max_rounds=rounds)
    error = stopped(engine_api, engine, RoundsExceeded)
    assert error.turn is not None and error.turn.rounds == len(llm.requests) == rounds


@pytest.mark.fault(124)
@pytest.mark.parametrize(
    "budget, limit, requests",
    [
        (Budget(tokens=15), "tokens", 1),
        (Budget(tokens=16), "tokens", 2),
        (Budget(tokens=31), "tokens", 3),
        (Budget(usd=0.001, prices=Prices(input=10, output=100)), "usd", 2),
        (Budget(seconds=10), "seconds", 4),
    ],
)
@pytest.mark.parametrize("of_the_turn", [True, False])
def test_a_budget_is_checked_before_each_request(
    engine_api: EngineAPI, budget: Budget, limit: str, requests: int, of_the_turn: bool
) -> None:
    clock = VirtualClock()

    def work() -> str:
        """Work."""
        clock.advance(3)
        return "ok"

    engine = Engine(llm := ScriptedLLM(*[call("c", "work")] * 9), [work], budget=None if of_the_turn else budget)
    llm.clock = clock
    error = stopped(engine_api, engine, BudgetExceeded, **({"budget": budget} if of_the_turn else {}))
    assert isinstance(error, BudgetExceeded) and error.limit == limit
    assert len(llm.requests) == requests
    assert limit in str(error) and "Budget(" in str(error)


def test_only_work_counts_as_time(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM("a", "b"), budget=Budget(seconds=5))
    llm.clock = clock = VirtualClock()
    engine_api.submit(engine, "1")
    clock.advance(1_000)
    assert engine_api.submit(engine, "2").text == "b"


@pytest.mark.fault(124)
@pytest.mark.parametrize("of_the_turn", [True, False])
def test_calls_beyond_the_budget_are_not_run(engine_api: EngineAPI, of_the_turn: bool) -> None:
    ran: list[int] = []

    def work() -> str:
        """Work."""
        ran.append(1)
        return "ok"

    calls = [[call("a", "work")], [call("b", "work"), call("c", "work")], [call("d", "work")]]
    budget = Budget(tool_calls=2)
    engine = Engine(llm := ScriptedLLM(*calls), [work], budget=None if of_the_turn else budget)
    error = stopped(engine_api, engine, BudgetExceeded, **({"budget": budget} if of_the_turn else {}))
    assert isinstance(error, BudgetExceeded) and error.limit == "tool_calls"
    assert len(llm.requests) == 2 and len(ran) == 1
    assert [one.is_error for one in results(engine.history)] == [False, True, True]


def test_the_budget_of_a_turn_is_for_that_turn_alone(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM("a", "b"))
    engine_api.submit(engine, "1", budget=Budget(tokens=1))
    assert engine_api.submit(engine, "2", budget=Budget(tokens=1)).text == "b"


def test_what_is_spent_within_the_budget_of_a_turn_counts_in_that_of_the_engine(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM("a", "b"), budget=Budget(tokens=15))
    engine_api.submit(engine, "1", budget=Budget(tokens=1_000))
    with pytest.raises(BudgetExceeded):
        engine_api.submit(engine, "2", budget=Budget(tokens=1_000))
    assert engine.conversation.spending.usage == Usage(10, 5)
    assert len(engine.history) == 2


@pytest.mark.fault(123)
@pytest.mark.parametrize("limit", [1, 3])
def test_the_same_call_may_come_so_often_in_a_row(engine_api: EngineAPI, limit: int) -> None:
    engine = Engine(llm := ScriptedLLM(*[LOOK] * 9), [look], max_repeats=limit)
    stopped(engine_api, engine, RepeatedCall)
    assert len(llm.requests) == limit + 1
    assert [one.is_error for one in results(engine.history)] == [False] * limit + [True]


def test_the_same_call_several_times_in_one_answer_counts(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM([call("a", "look"), call("b", "look"), call("c", "look")]), [look], max_repeats=2)
    stopped(engine_api, engine, RepeatedCall)


def test_another_call_in_between_begins_the_count_again(engine_api: EngineAPI) -> None:
    def see(what: str) -> str:
        """See."""
        return what

    calls = [call("c", "see", f'{{"what": "{what}"}}') for what in "aabaab"]
    engine = Engine(ScriptedLLM(*calls, "ok"), [see], max_repeats=2)
    assert engine_api.submit(engine, "Go.").text == "ok"


def test_each_turn_counts_anew(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(LOOK, "a", LOOK, "b"), [look], max_repeats=1, max_rounds=2)
    engine_api.submit(engine, "1")
    assert engine_api.submit(engine, "2").text == "b"


def test_a_turn_that_is_stopped_at_once_takes_back_what_was_sent(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM("a", "never sent"), budget=Budget(tokens=1))
    engine_api.submit(engine, "1")
    history = engine.history
    with pytest.raises(BudgetExceeded):
        engine_api.submit(engine, "2")
    assert engine.history == history
    assert llm.requests[0].messages == (user("1"),)


# The time of a budget ends waits.

SHORT = Budget(seconds=0.2)  # in which a tool has begun, on a busy machine too


class Place(BaseModel):
    """A place."""

    name: str


@pytest.fixture
def over() -> Generator[threading.Event]:
    """What the sync tools of a test wait for, until it has ended."""
    event = threading.Event()
    yield event
    event.set()


async def wait() -> str:
    """Wait."""
    await anyio.sleep_forever()
    return "never"


def waiting(kind: str, over: threading.Event) -> CallableTool:
    def hang() -> str:
        """Hang."""
        over.wait()
        return "late"

    return CallableTool.from_function(wait if kind == "async" else hang, name="wait")


@pytest.mark.fault(124)
@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("of_the_turn", [True, False])
@pytest.mark.parametrize("tool_timeout", [None, 60.0])
def test_the_time_of_a_budget_ends_a_tool(
    engine_api: EngineAPI, kind: str, over: threading.Event, of_the_turn: bool, tool_timeout: float | None
) -> None:
    llm = ScriptedLLM([call("a", "wait"), call("b", "look")], "never sent")
    budget = None if of_the_turn else SHORT
    engine = Engine(llm, [waiting(kind, over), look], budget=budget, tool_timeout=tool_timeout)
    error = stopped(engine_api, engine, BudgetExceeded, **({"budget": SHORT} if of_the_turn else {}))
    assert isinstance(error, BudgetExceeded) and error.limit == "seconds"
    assert len(llm.requests) == 1
    ended, not_run = results(engine.history)
    assert ended.content.startswith("wait was ended: the time of the budget is used up; it may have had its effect")
    assert "not run" in not_run.content


def test_a_shorter_time_limit_of_the_tool_comes_first(engine_api: EngineAPI) -> None:
    tool = CallableTool.from_function(wait).with_(timeout=0.05)
    engine = Engine(ScriptedLLM(call("a", "wait"), "done"), [tool], budget=Budget(seconds=60))
    assert engine_api.submit(engine, "Go.").text == "done"
    assert results(engine.history)[0].content.startswith("wait took longer than 0.05 seconds")


def test_the_time_of_who_started_an_engine_ends_its_tools_too(engine_api: EngineAPI) -> None:
    inner = Engine(ScriptedLLM(call("a", "wait"), "never sent"), [wait])
    llm = ScriptedLLM(call("b", "ask", '{"prompt": "Go."}'), "never sent")
    engine = Engine(llm, [inner.as_tool("ask", "Ask.")], budget=SHORT)
    error = stopped(engine_api, engine, BudgetExceeded)
    assert isinstance(error, BudgetExceeded) and error.limit == "seconds"


def test_a_result_that_was_given_is_kept_where_the_time_ended_a_tool(engine_api: EngineAPI) -> None:
    llm = ScriptedLLM([call("a", "wait"), call("b", "Place", '{"name": "Oslo"}')])
    turn = engine_api.submit(Engine(llm, [wait], budget=SHORT), "Go.", output_cls=Place)
    assert turn.output == Place(name="Oslo")


def test_no_tool_begins_after_the_time(engine_api: EngineAPI) -> None:
    clock = VirtualClock()
    began: list[int] = []

    def work(n: int) -> int:
        """Work."""
        began.append(n)
        clock.advance(20)
        return n

    llm = ScriptedLLM([call("a", "work", '{"n": 1}'), call("b", "work", '{"n": 2}')])
    llm.clock = clock
    stopped(engine_api, Engine(llm, [work], budget=Budget(seconds=10)), BudgetExceeded)
    assert began == [1]


@pytest.mark.parametrize("budget", [0.2, None])
def test_the_time_of_a_budget_ends_the_wait_for_the_model(engine_api: EngineAPI, budget: float | None) -> None:
    with Loopback() as server:
        server.answer(head(200, "content-type: text/event-stream", "transfer-encoding: chunked"), HOLD)
        settings = Settings(timeout=Timeouts(total=0.2)) if budget is None else None
        llm = OpenAICompatible("m", base_url=f"{server.url}/v1", api_key="k", settings=settings, max_retries=0)
        with llm:
            text = engine_api.stream(Engine(llm, budget=budget and Budget(seconds=budget)), "Go.")
    if budget is None:
        assert isinstance(text.error, Timeout)
        return
    assert isinstance(text.error, BudgetExceeded)
    assert text.error.limit == "seconds"
    assert isinstance(text.error.__cause__, Timeout)
