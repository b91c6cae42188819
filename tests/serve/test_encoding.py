from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.serve.protocol import message_json, parsed


def test_a_message_is_one_line_without_spaces() -> None:
    assert message_json({"type": "text", "delta": "ä\r\n\u2028"}) == '{"type":"text","delta":"ä\\r\\n\u2028"}'


def test_lone_surrogates_are_replaced() -> None:
    assert message_json({"a": "\ud800"}) == '{"a":"\ufffd"}'


def test_numbers_that_json_does_not_have_are_null() -> None:
    value = {"a": [1.5, float("nan"), {"b": float("-inf")}], "c": 5}
    assert message_json(value) == '{"a":[1.5,null,{"b":null}],"c":5}'


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_every_message_can_be_read_and_sent(value: Any) -> None:
    text = message_json({"value": value})
    assert not {"\r", "\n"} & {*text}
    assert text.encode()
    json.loads(text, parse_constant=pytest.fail)


def test_json_text_is_parsed() -> None:
    assert parsed('{"a": 1}') == ({"a": 1}, True)
    assert parsed('{"a') == ('{"a', False)
    assert parsed("[" * 100_000) == ("[" * 100_000, False)
