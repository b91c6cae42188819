"""The cost of what LLMs report: own prices, the service's own figure, the price list; and budgets that need prices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.process import Process
from support.sync_and_async import API
from toolcast import Budget, Engine, FallbackLLM, OpenAI, OpenAICompatible, Prices, ToolOrchestratingLLM, Usage
from toolcast.agents import Compaction
from toolcast.errors import BudgetExceeded, UnsupportedLLMError
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM
from toolcast.values import prices

JSON = {"content-type": "application/json"}


def body(*, model: str = "gpt-4o-2024-08-06", **usage: Any) -> Recorded:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    used = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000, **usage}
    answer = {"id": "chatcmpl-1", "model": model, "choices": [choice], "usage": used}
    return Recorded([json.dumps(answer).encode()], headers=JSON)


def test_a_listed_model_has_a_cost(api: API) -> None:
    response = api.chat(OpenAI("gpt-4o", api="chat", api_key="k", network=ReplayNetwork(body())), "Hello")
    assert response.usage.cost is not None
    assert response.usage.cost > 0


def test_an_unknown_model_has_none(api: API) -> None:
    llm = OpenAI("my-model", api="chat", api_key="k", network=ReplayNetwork(body(model="my-model")))
    response = api.chat(llm, "Hello")
    assert response.usage.cost is None
    assert response.usage.known_cost == 0


def test_own_prices_go_first(api: API) -> None:
    llm = OpenAI("gpt-4o", api="chat", api_key="k", network=ReplayNetwork(body(cost=7)), prices=Prices(1, 10))
    assert api.chat(llm, "Hello").usage.cost == 2


def test_a_cost_that_the_service_reports_goes_before_the_list(api: API) -> None:
    llm = OpenAICompatible("openai/gpt-4o", service="openrouter", api_key="k", network=ReplayNetwork(body(cost=0.5)))
    assert str(api.chat(llm, "Hello").usage.cost) == "0.5"


@pytest.mark.parametrize("cost", [None, True, "1", -1, float("inf")])
def test_a_cost_that_is_no_amount_is_ignored(cost: Any) -> None:
    llm = OpenAICompatible("m", base_url="http://h/v1", network=ReplayNetwork(body(cost=cost)))
    assert llm.chat("Hello").usage.cost is None


def test_a_custom_llm_has_prices(api: API) -> None:
    result = api.run(ToolOrchestratingLLM(int, "x", ScriptedLLM({"value": 1}, prices=Prices(1_000_000, 0))))
    assert result.usage.cost == result.cost == 10


def test_every_attempt_counts(api: API) -> None:
    llm = ScriptedLLM({"value": "no"}, {"value": 1}, prices=Prices(1_000_000, 0))
    assert api.run(ToolOrchestratingLLM(int, "x", llm, max_attempts=2)).cost == 20


def test_prices_must_be_prices() -> None:
    with pytest.raises(TypeError, match="prices"):
        OpenAI("gpt-4o", api="chat", prices=3)  # type: ignore[arg-type]  # the error is the subject


# Budgets.


def test_a_budget_in_dollars_needs_no_prices_for_a_listed_model() -> None:
    llm = OpenAI("gpt-4o", api="chat", api_key="k", network=ReplayNetwork(body(), body()))
    engine = Engine(llm, budget=Budget(usd=1))
    turn = engine.submit("Hello")
    assert turn.cost is not None
    assert turn.cost > 1
    with pytest.raises(BudgetExceeded, match="the budget of 1 usd is used up") as caught:
        engine.submit("Again")
    assert caught.value.limit == "usd"


@pytest.fixture
def without_list(process: Process) -> Iterator[None]:
    process.without("genai_prices")
    prices._calculator.cache_clear()
    yield
    prices._calculator.cache_clear()


def test_without_the_list_a_budget_in_dollars_names_the_install(without_list: None) -> None:
    network = ReplayNetwork()
    engine = Engine(OpenAI("gpt-4o", api="chat", api_key="k", network=network), budget=Budget(usd=1))
    with pytest.raises(
        UnsupportedLLMError, match=r"needs the prices of openai gpt-4o: pip install 'toolcast\[prices\]'"
    ):
        engine.submit("Hello")
    assert network.requests == []
    assert engine.history == ()


def test_a_budget_in_dollars_with_an_unknown_model_is_an_error() -> None:
    llm = ScriptedLLM("Hi")
    with pytest.raises(UnsupportedLLMError, match="needs the prices of scripted scripted, which are not listed"):
        Engine(llm).submit("Hello", budget=Budget(usd=1))
    assert llm.requests == []
    assert Engine(ScriptedLLM("Hi", prices=Prices(1, 1)), budget=Budget(usd=1)).submit("Hello").text == "Hi"


def test_the_llm_of_summaries_needs_prices() -> None:
    priced = ScriptedLLM("Hi", prices=Prices(1, 1))
    compaction = Compaction(summarise=ScriptedLLM("A summary.", model="other"))
    with pytest.raises(UnsupportedLLMError, match="needs the prices of scripted other"):
        Engine(priced, compaction=compaction, budget=Budget(usd=1)).submit("Hello")
    assert priced.requests == []
    assert Engine(priced, compaction=compaction, budget=Budget(tokens=100)).submit("Hello").text == "Hi"


def test_every_llm_of_a_fallback_needs_prices() -> None:
    priced = ScriptedLLM("Hi", prices=Prices(1, 1))
    with pytest.raises(UnsupportedLLMError, match="needs the prices of scripted other"):
        Engine(FallbackLLM([priced, ScriptedLLM("Hi", model="other")]), budget=Budget(usd=1)).submit("Hello")
    turn = Engine(FallbackLLM([priced, priced]), budget=Budget(usd=1)).submit("Hello")
    assert turn.usage == Usage(10, 5)
    assert str(turn.cost) == "0.000015"
