"""What an answer is, and what of it was only thought (X8)."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolcast import ToolCallPart, assistant
from toolcast.experiments.response_parsing import ResponseParser, reflecting
from toolcast.messages import ThinkingPart
from toolcast.parsing.thoughts import without_thoughts

parse = ResponseParser().parse_response


def test_calls_come_first() -> None:
    call = ToolCallPart("c1", "list")
    assert parse(assistant("I look.", call)) == ("TOOL_CALL", (call,))


@pytest.mark.parametrize(
    ("text", "reflection"),
    [
        ("Done.", "Done."),
        ("  Done.\n", "Done."),
        ("<thinking>hm</thinking>Done.", "Done."),
        ("<think>hm</think>\n\nDone.", "Done."),
        ("<THINK>hm</Think>Done.", "Done."),
        ("<think >hm</think >Done.", "Done."),
        ("Before.<think>a\nb</think> After.", "Before. After."),
        ("<think>a</think>One.<thinking>b</thinking>Two.", "One.Two."),
        ("Done.<think>never closed", "Done."),
        ("<thinking>never closed", ""),
        ("the template opened it</think>Done.", "Done."),
        ("<think>a<think>b</think>c</think>Done.", "Done."),
        ("<think>a</thinking>b</think>Done.", "Done."),
        ("I was thinking <b>hard</b>.", "I was thinking <b>hard</b>."),
        ("", ""),
    ],
)
def test_x8_thinking_is_no_part_of_the_reflection(text: str, reflection: str) -> None:
    assert parse(assistant(text)) == ("FINAL_REFLECTION", reflection)


def test_x8_native_thinking_neither() -> None:
    assert parse(assistant(ThinkingPart("hm"), "Done.")) == ("FINAL_REFLECTION", "Done.")


pieces = st.sampled_from(["<think>", "</think>", "<thinking>", "</thinking>", "<", ">", "a", "\n", " "])


@given(st.lists(pieces).map("".join))
def test_nothing_of_a_tag_is_left(text: str) -> None:
    left = without_thoughts(text)
    assert "</think>" not in left and "</thinking>" not in left
    assert left == left.strip()


@pytest.mark.parametrize(
    ("arguments", "reflection"),
    [
        ('{"reflection": "Done."}', "Done."),
        ('{"reflection": ""}', ""),
        ('{"reflection": null}', ""),
        ("{}", ""),
        ("", ""),
        ('{"reflection": ["One.", "Zwei für mich."]}', '["One.", "Zwei für mich."]'),
        ('{"text": "Done."}', '{"text": "Done."}'),
        ("Done.", "Done."),
    ],
)
def test_a_call_that_ends_the_cycle_gives_the_reflection(arguments: str, reflection: str) -> None:
    finish = ToolCallPart("c", "finish_cycle", arguments)
    received = reflecting(assistant("I am done.", finish), finish)
    assert received == assistant(ThinkingPart("I am done."), reflection)


@given(st.text(alphabet="ab <>/"))
def test_text_without_thoughts_stays(text: str) -> None:
    assert without_thoughts(text) == text.strip()
