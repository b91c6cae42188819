"""Events are values: equal, hashed, copied and taken apart like any frozen dataclass."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from toolcast.events import TextDelta, ToolCallDelta

DELTAS = [
    pytest.param(TextDelta("a"), TextDelta(text="a"), TextDelta("b"), "TextDelta(text='a')", id="TextDelta"),
    pytest.param(
        ToolCallDelta("1", "{"),
        ToolCallDelta(arguments="{", id="1"),
        ToolCallDelta("2", "{"),
        "ToolCallDelta(id='1', arguments='{')",
        id="ToolCallDelta",
    ),
]


@pytest.mark.parametrize(("event", "same", "other", "shown"), DELTAS)
def test_a_delta_is_a_value(event: Any, same: Any, other: Any, shown: str) -> None:
    """Though its `__init__` is made by hand."""
    assert event == same != other
    assert hash(event) == hash(same)
    assert len({event, same, other}) == 2
    assert repr(event) == shown
    for twin in (copy.copy(event), copy.deepcopy(event), dataclasses.replace(event)):
        assert (twin, type(twin)) == (event, type(event))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(event, protocol)) == event


@pytest.mark.parametrize(("event", "same", "other", "shown"), DELTAS)
def test_a_delta_cannot_be_changed(event: Any, same: Any, other: Any, shown: str) -> None:
    for name in dataclasses.asdict(event):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(event, name, "x")
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(event, name)
    assert not hasattr(event, "__dict__")
    assert repr(event) == shown


def test_a_delta_is_taken_apart_like_any_dataclass() -> None:
    assert dataclasses.replace(ToolCallDelta("1", "{"), arguments="}") == ToolCallDelta("1", "}")
    assert dataclasses.asdict(ToolCallDelta("1", "{")) == {"id": "1", "arguments": "{"}
    match ToolCallDelta("1", "{"):
        case ToolCallDelta(id, arguments):
            assert (id, arguments) == ("1", "{")
    match TextDelta("a"):
        case TextDelta(text):
            assert text == "a"
    made: Any
    for made, wrongly in ((TextDelta, {}), (ToolCallDelta, {"id": "1"}), (ToolCallDelta, {"id": "1", "name": "x"})):
        with pytest.raises(TypeError):
            made(**wrongly)
