"""output_validators.py: functions that check or replace the typed output of a turn."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationInfo, field_validator

from support.engines import EngineAPI, call, check, results
from toolcast.agents.engine.engine import Engine
from toolcast.agents.permissions.permissions import Permissions
from toolcast.errors import FailTurn, TryAgain, TurnFailed, ValidationError
from toolcast.testing import ScriptedLLM
from toolcast.tools.tool_context import ToolContext


class Order(BaseModel):
    item: str
    count: int = 1


class Stock:
    def __init__(self, *items: str) -> None:
        self.items = items


def in_stock(context: ToolContext[Stock], output: Order) -> Order:
    if output.item not in context.deps.items:
        raise TryAgain(f"there is no {output.item}")
    return output.model_copy(update={"count": output.count + 1})


async def in_stock_async(context: ToolContext[Stock], output: Order) -> Order:
    return in_stock(context, output)


def in_stock_awaitable(context: ToolContext[Stock], output: Order) -> Any:
    return in_stock_async(context, output)


WAYS = pytest.mark.parametrize("validator", [in_stock, in_stock_async, in_stock_awaitable])


@WAYS
def test_an_output_is_replaced_by_what_the_validator_returns(engine_api: EngineAPI, validator: Any) -> None:
    engine = Engine[Stock](ScriptedLLM(Order(item="tea")), output_validators=[validator, validator])
    assert engine_api.submit(engine, "Tea!", output_cls=Order, deps=Stock("tea")).output == Order(item="tea", count=3)
    check(engine)


@WAYS
def test_a_rejected_output_is_sent_back(engine_api: EngineAPI, validator: Any) -> None:
    llm = ScriptedLLM(Order(item="cake"), Order(item="tea"))
    engine = Engine[Stock](llm, output_validators=validator, deps=Stock("tea"))
    assert engine_api.submit(engine, "Cake!", output_cls=Order).output == Order(item="tea", count=2)
    rejected, _ = results(engine.history)
    assert (rejected.content, rejected.is_error) == ("there is no cake", True)
    assert len(llm.requests) == 2
    check(engine)


def test_a_rejected_text_is_sent_back(engine_api: EngineAPI) -> None:
    llm = ScriptedLLM('{"item": "cake"}', '{"item": "tea"}')
    engine = Engine[Stock](llm, output_validators=in_stock, deps=Stock("tea"))
    assert engine_api.submit(engine, "Cake!", output_cls=Order).output == Order(item="tea", count=2)
    assert llm.requests[1].messages[-1].text.startswith("there is no cake\n")
    check(engine)


def test_of_several_calls_the_first_that_is_accepted_counts(engine_api: EngineAPI) -> None:
    calls = [call(item, "Order", f'{{"item": "{item}"}}') for item in ("cake", "tea", "milk")]
    engine = Engine[Stock](ScriptedLLM(calls), output_validators=in_stock, deps=Stock("tea", "milk"))
    assert engine_api.submit(engine, "Tea!", output_cls=Order).output == Order(item="tea", count=2)
    assert [part.is_error for part in results(engine.history)] == [True, False, True]
    check(engine)


def test_the_attempts_are_limited(engine_api: EngineAPI) -> None:
    llm = ScriptedLLM(*[Order(item="cake")] * 3)
    engine = Engine[Stock](llm, output_validators=in_stock, deps=Stock(), max_attempts=2)
    with pytest.raises(ValidationError, match="there is no cake") as caught:
        engine_api.submit(engine, "Cake!", output_cls=Order)
    assert len(llm.requests) == 2
    assert (caught.value.tool_name, Order.model_validate_json(caught.value.arguments)) == ("Order", Order(item="cake"))
    check(engine)


def test_the_result_of_a_function_is_validated_too(engine_api: EngineAPI) -> None:
    def order(item: str) -> Order:
        """Order."""
        return Order(item=item)

    llm = ScriptedLLM(call("a", "order", '{"item": "cake"}'), call("b", "order", '{"item": "tea"}'))
    engine = Engine[Stock](llm, output_validators=in_stock, deps=Stock("tea"))
    assert engine_api.submit(engine, "Tea!", output_cls=order).output == Order(item="tea", count=2)
    assert "there is no cake" in llm.requests[1].messages[-1].text
    check(engine)
    llm = ScriptedLLM(call("a", "order", '{"item": "cake"}'))
    engine = Engine[Stock](llm, output_validators=in_stock, deps=Stock("tea"), max_attempts=1)
    with pytest.raises(ValidationError, match="there is no cake"):
        engine_api.submit(engine, "Tea!", output_cls=order)
    check(engine)


def test_an_exception_ends_the_turn(engine_api: EngineAPI) -> None:
    def failing(context: ToolContext, output: Any) -> Any:
        raise LookupError(context.tool, context.call_id)

    def ending(context: ToolContext, output: Any) -> Any:
        raise FailTurn("enough")

    engine = Engine(ScriptedLLM(call("a", "Order", '{"item": "tea"}')), output_validators=failing)
    with pytest.raises(LookupError) as caught:
        engine_api.submit(engine, "Tea!", output_cls=Order)
    assert caught.value.args == ("Order", "a")
    check(engine)
    engine = Engine(ScriptedLLM(Order(item="tea")), output_validators=ending)
    with pytest.raises(TurnFailed, match="enough"):
        engine_api.submit(engine, "Tea!", output_cls=Order)
    check(engine)


def test_a_turn_without_a_type_is_not_validated(engine_api: EngineAPI) -> None:
    engine = Engine[Stock](ScriptedLLM("Hi."), output_validators=in_stock)
    assert engine_api.submit(engine, "Hello.").text == "Hi."


class Limited(BaseModel):
    count: int

    @field_validator("count")
    @classmethod
    def check(cls, count: int, info: ValidationInfo) -> int:
        if count > (info.context or {"most": 0})["most"]:
            raise ValueError("too many")
        return count


def take(limited: Limited) -> str:
    """Take."""
    return str(limited.count)


@pytest.mark.parametrize("per_turn", [False, True])
def test_the_validation_context_reaches_outputs_and_arguments(engine_api: EngineAPI, per_turn: bool) -> None:
    context = {"most": 5}
    llm = ScriptedLLM(call("a", "take", '{"limited": {"count": 5}}'), Limited.model_construct(count=5))
    engine = Engine(llm, [take], validation_context={"most": 1} if per_turn else context)
    options = {"validation_context": context} if per_turn else {}
    record = engine_api.stream(engine, "Take 5.", output_cls=Limited, **options)
    assert record.error is None and record.turn is not None
    assert record.turn.output == Limited.model_construct(count=5)
    assert results(engine.history)[0].content == "5"


def test_edited_arguments_and_pending_approvals_see_the_validation_context(engine_api: EngineAPI) -> None:
    llm = ScriptedLLM(call("a", "take", '{"limited": {"count": 5}}'), "Done.")
    engine = Engine(llm, [take], permissions=Permissions(approve="later"))
    turn = engine_api.submit(engine, "Take 5.", validation_context={"most": 5})
    assert turn.pending == engine.pending and len(turn.pending) == 1
    answer = turn.pending[0].edit({"limited": {"count": 4}})
    engine_api.submit(engine, answers=[answer], validation_context={"most": 5})
    assert "(The user changed" in results(engine.history)[0].content
    assert results(engine.history)[0].content.endswith("4")
