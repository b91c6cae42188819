"""The base of all adapters: the cache by options, and JSON members."""

from __future__ import annotations

from typing import Any

import pytest

from toolcast.errors import BadRequest
from toolcast.messages import user
from toolcast.providers.base import RequestInput, RequestOptions
from toolcast.providers.http_adapter import cache_by_options, json_member
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec

F = ToolSpec("f", "Does f.", {"type": "object"})


class Counted:
    """Makes a new object each time it is asked, and remembers what for."""

    def __init__(self) -> None:
        self.asked: list[tuple[RequestOptions, Settings]] = []
        self.of = cache_by_options(self.make)

    def make(self, terms: RequestOptions, settings: Settings) -> object:
        self.asked.append((terms, settings))
        return object()


def request_input(text: str = "Hi", **about: Any) -> RequestInput:
    return RequestInput(
        **{"model": "m", "messages": (user(text),), "tools": (F,), "tool_choice": NamedTool("f"), **about}
    )


@pytest.mark.parametrize(
    ("input_", "settings"),
    [
        pytest.param(request_input("other words"), Settings(), id="words"),
        pytest.param(request_input(), Settings(timeout=3), id="timeout"),
        pytest.param(request_input(), Settings(extra={"x": 1}), id="extra"),
        pytest.param(
            request_input(tools=(ToolSpec("f", "Does f.", {"type": "object"}),)), Settings(), id="an equal tool"
        ),
    ],
)
def test_equal_options_share_one_result(input_: RequestInput, settings: Settings) -> None:
    counted = Counted()
    first = counted.of(request_input(), Settings())
    assert counted.of(input_, settings) is first
    assert counted.asked == [(request_input().options, Settings())]


@pytest.mark.parametrize(
    ("input_", "settings"),
    [
        pytest.param(request_input(model="n"), Settings(), id="model"),
        pytest.param(request_input(stream=False), Settings(), id="stream"),
        pytest.param(request_input(parallel=True), Settings(), id="parallel"),
        pytest.param(request_input(tool_choice="auto"), Settings(), id="choice"),
        pytest.param(request_input(tools=()), Settings(), id="no tools"),
        pytest.param(request_input(tools=(ToolSpec("f", "Does f.", {}),)), Settings(), id="another schema"),
        pytest.param(request_input(), Settings(temperature=0.5), id="settings"),
    ],
)
def test_other_options_have_a_result_of_their_own(input_: RequestInput, settings: Settings) -> None:
    counted = Counted()
    first = counted.of(request_input(), Settings())
    assert counted.of(input_, settings) is not first
    assert len(counted.asked) == 2


def test_to_think_is_not_a_budget_of_one_token() -> None:
    counted = Counted()
    made = [counted.of(request_input(), Settings(thinking=thinking)) for thinking in (True, 1)]
    assert made[0] is not made[1]
    assert [settings.thinking for _, settings in counted.asked] == [True, 1]


@pytest.mark.parametrize("nothing", [0, -1, "none"])
def test_to_think_of_nothing_is_not_to_think(nothing: int | str) -> None:
    counted = Counted()
    assert counted.of(request_input(), Settings(thinking=nothing)) is counted.of(
        request_input(), Settings(thinking=False)
    )


def test_a_choice_that_can_be_changed_is_not_remembered() -> None:
    counted = Counted()
    choice = {"type": "any"}
    first = counted.of(request_input(tool_choice=choice), Settings())
    assert counted.of(request_input(tool_choice=choice), Settings()) is not first


def test_tools_are_compared_by_all_fields() -> None:
    same, other = ToolSpec("f", "Does f.", {"type": "object"}), ToolSpec("f", "Does f.", {"type": "array"})
    assert {F, same} == {F}
    assert {F, other} == {F, other} and len({F, other}) == 2


def test_a_member_of_an_object() -> None:
    assert json_member("é", {"a": [1, None]}) == '"é":{"a":[1,null]}'


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}])
def test_values_without_json_are_refused(value: object) -> None:
    with pytest.raises(BadRequest, match="cannot be encoded as JSON"):
        json_member("x", value)
