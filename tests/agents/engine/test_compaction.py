"""compaction.py: what is cut out of a history, and the summary that takes its place."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, strategies as st

from support.histories import sound
from toolcast.agents.engine.compaction import Compaction, NoSummary, compact, summary_prompt, token_state
from toolcast.agents.engine.history import find_problems
from toolcast.async_support import sync_driver
from toolcast.errors import ContextTooLong, RateLimited
from toolcast.events import Finish, TextDelta, UsageReport
from toolcast.messages import (
    ImagePart,
    Message,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.testing import ScriptedLLM
from toolcast.values.usage import Usage

LONG = "word" * 88 + "end"  # 100 tokens with those around it
SYSTEM = system("Be brief.")
OLD = [message for number in ("one ", "two ", "six ") for message in (user(number + LONG), assistant(LONG))]
NEW = user("And now?")
HISTORY = (SYSTEM, *OLD, NEW)

Shorten = Callable[..., Any]


def _sync(*given: Any, **options: Any) -> Any:
    return sync_driver.run(compact(*given, concurrent=False, **options))


def _async(backend: str) -> Shorten:
    async def main(given: Sequence[Any], options: dict[str, Any]) -> Any:
        return await compact(*given, concurrent=True, **options)

    return lambda *given, **options: anyio.run(main, given, options, backend=backend)


@pytest.fixture(params=[_sync, _async("asyncio"), _async("trio")], ids=["sync", "asyncio", "trio"])
def shorten(request: pytest.FixtureRequest) -> Shorten:
    made: Shorten = request.param
    return made


def summary(text: str) -> Message:
    return user(f"Summary of the conversation so far:\n{text}")


NOTED = assistant("I will go on from this summary.")


# -- what is cut out


def test_the_end_is_kept() -> None:
    assert Compaction(keep=210).cut(HISTORY) == (tuple(OLD[:4]), (SYSTEM, *OLD[4:], NEW))
    assert Compaction(keep=200).cut(HISTORY) == (tuple(OLD), (SYSTEM, NEW))


@pytest.mark.parametrize("first", [SYSTEM, system(LONG * 9)], ids=["short", "long"])
def test_at_most_half_is_kept(first: Message) -> None:
    assert Compaction(keep=1_000_000).cut((first, *OLD, NEW)) == (tuple(OLD[:4]), (first, *OLD[4:], NEW))


def test_there_may_be_nothing_to_cut_out() -> None:
    assert Compaction(keep=0).cut([SYSTEM, user(LONG)]) is None
    assert Compaction(keep=0).cut([]) is None


@pytest.mark.fault(131)
@given(sound(), st.integers(0, 2000))
def test_both_parts_are_sound_and_all_of_it(history: tuple[Message, ...], keep: int) -> None:
    cut = Compaction(keep=keep).cut(history)
    if cut is None:
        return
    assert cut.removed
    assert len(cut.removed) + len(cut.kept) == len(history)
    assert (
        find_problems(cut.removed)
        == find_problems(cut.kept)
        == find_problems(cut.with_summary("So far so good."))
        == []
    )
    assert all(message.role != "system" for message in cut.removed)
    assert cut.kept[-1] is history[-1]


@given(sound(), st.integers(0, 2000))
def test_what_is_shortened_again_and_again_has_one_summary(history: tuple[Message, ...], keep: int) -> None:
    for number in range(3):
        cut = Compaction(keep=keep).cut(history)
        if cut is None:
            return
        history = (*cut.with_summary(f"number {number}"), user("and so on"))
        assert sum("Summary of" in message.text for message in history) == 1


def test_a_summary_is_sent_by_the_user_after_the_system_messages() -> None:
    cut = Compaction(keep=0).cut(HISTORY)
    assert cut is not None
    assert cut.with_summary("It went well.") == (SYSTEM, summary("It went well."), NOTED, NEW)


def test_where_the_model_goes_on_it_need_not_take_note() -> None:
    calls = [assistant(ToolCallPart(f"c{n}", "look")) for n in range(2)]
    results = [tool_result(f"c{n}", LONG) for n in range(2)]
    cut = Compaction(keep=0).cut([calls[0], results[0], calls[1], results[1]])
    assert cut is not None
    assert cut.with_summary("Looked.") == (summary("Looked."), calls[1], results[1])


def test_a_summary_of_nothing_is_left_out() -> None:
    cut = Compaction(keep=0).cut(HISTORY)
    assert cut is not None
    assert cut.with_summary(" \n") == (SYSTEM, NEW)


@pytest.mark.parametrize("wrong", [{"keep": -1}, {"keep": 10, "at": 10}, {"at": 0}])
def test_a_compaction_that_makes_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        Compaction(**wrong)


# -- who makes the summary


def test_without_a_summariser_it_is_left_out(shorten: Shorten) -> None:
    assert shorten(HISTORY, Compaction(keep=0)) == (SYSTEM, NEW)
    assert shorten((NEW,), Compaction(keep=0)) is None


def test_a_function_makes_it(shorten: Shorten) -> None:
    received: list[Any] = []

    def summarise(messages: tuple[Message, ...]) -> str:
        received.append(messages)
        return f"{len(messages)} messages"

    assert shorten(HISTORY, Compaction(0, summarise)) == (SYSTEM, summary("6 messages"), NOTED, NEW)
    assert received == [tuple(OLD)]


def test_an_async_function_makes_it(shorten: Shorten) -> None:
    async def summarise(messages: tuple[Message, ...]) -> str:
        await anyio.lowlevel.checkpoint()
        return f"{len(messages)} messages"

    assert shorten(HISTORY, Compaction(0, summarise)) == (SYSTEM, summary("6 messages"), NOTED, NEW)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_sync_function_does_not_block_the_loop(backend: str) -> None:
    threads: list[int] = []

    def summarise(messages: tuple[Message, ...]) -> str:
        threads.append(threading.get_ident())
        return "done"

    _async(backend)(HISTORY, Compaction(0, summarise))
    assert threads != [threading.get_ident()]
    _sync(HISTORY, Compaction(0, summarise))
    assert threads[1] == threading.get_ident()


def test_an_llm_makes_it_and_is_paid(shorten: Shorten) -> None:
    paid: list[Usage] = []
    answer = [TextDelta("All is well."), UsageReport(Usage(40, 4)), Finish("end_turn")]
    llm = ScriptedLLM(answer)
    shorter = shorten(HISTORY, Compaction(0, llm), on_usage=paid.append)
    assert shorter == (SYSTEM, summary("All is well."), NOTED, NEW)
    assert paid == [Usage(40, 4)]
    (asked,) = llm.requests
    assert asked.messages == summary_prompt(OLD)
    assert asked.tools == ()


def test_no_one_has_to_hear_what_it_cost(shorten: Shorten) -> None:
    assert shorten(HISTORY, Compaction(0, ScriptedLLM("Fine."))) == (SYSTEM, summary("Fine."), NOTED, NEW)


def test_what_is_too_long_for_a_summary_is_left_out(shorten: Shorten, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="toolcast"):
        assert shorten(HISTORY, Compaction(0, ScriptedLLM(ContextTooLong("too long")))) == (SYSTEM, NEW)
    assert caplog.messages == ["6 messages are too long to be summarised, and are left out without"]


REFUSED = [TextDelta("I will not."), UsageReport(Usage(2, 1)), Finish("refusal")]
NO_SUMMARIES: list[Any] = [
    " ",
    REFUSED,
    [TextDelta("They talked about"), Finish("max_tokens")],
    [TextDelta("They"), Finish("content_filter")],
    [TextDelta("They"), Finish("error")],
]


@pytest.mark.parametrize("bad", NO_SUMMARIES)
def test_a_model_is_asked_again_for_a_whole_summary(shorten: Shorten, bad: Any) -> None:
    llm = ScriptedLLM(bad, "They talked.")
    assert shorten(HISTORY, Compaction(0, llm)) == (SYSTEM, summary("They talked."), NOTED, NEW)
    assert [request.messages for request in llm.requests] == [summary_prompt(OLD)] * 2


@pytest.mark.parametrize("bad", NO_SUMMARIES)
def test_no_part_of_a_summary_takes_the_place_of_messages(
    shorten: Shorten, bad: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NoSummary, match="no whole summary"):
        shorten(HISTORY, Compaction(0, ScriptedLLM(bad, bad)))
    assert caplog.messages == []


def test_each_request_for_a_summary_is_paid(shorten: Shorten) -> None:
    paid: list[Usage] = []
    with pytest.raises(NoSummary, match="'refusal', twice"):
        shorten(HISTORY, Compaction(0, ScriptedLLM(REFUSED, REFUSED)), on_usage=paid.append)
    assert paid == [Usage(2, 1)] * 2


@pytest.mark.parametrize("text", ["\n", None, 7, ["They talked."]])
def test_a_function_that_returns_no_text(shorten: Shorten, text: Any) -> None:
    with pytest.raises(NoSummary, match=re.escape(f"that is not blank, got {text!r}")):
        shorten(HISTORY, Compaction(0, lambda messages: text))


def test_other_failures_of_the_summariser_are_raised(shorten: Shorten) -> None:
    with pytest.raises(RateLimited):
        shorten(HISTORY, Compaction(0, ScriptedLLM(RateLimited("slow down", retryable=False))))

    def summarise(messages: tuple[Message, ...]) -> str:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        shorten(HISTORY, Compaction(0, summarise))


def test_what_a_model_is_reported_to_summarise() -> None:
    picture = ImagePart(url="https://example.org/rain.png")
    task, message = summary_prompt(
        [
            user("Look.", picture),
            assistant(ThinkingPart("Hm."), "I will.", ToolCallPart("c1", "look", '{"at": "sky"}')),
            Message("tool", (ToolResultPart("c1", "a" * 3000, "look"), ToolResultPart("c2", "no", is_error=True))),
        ]
    )
    assert task.role == "system"
    assert "summary" in task.text
    assert message.text.startswith("<conversation>\nuser: Look.\n\nuser: [image]\n\nassistant: I will.\n\n")
    assert 'assistant calls look: {"at": "sky"}' in message.text
    assert f"look answers: {'a' * 1000} [... 1000 characters ...] {'a' * 1000}\n\ntool failed: no\n" in message.text
    assert "Hm." not in message.text


# -- how full a window is


@pytest.mark.parametrize(
    "used, limit, state",
    [
        (179_999, 200_000, "ok"),
        (180_000, 200_000, "warning"),
        (186_999, 200_000, "warning"),
        (187_000, 200_000, "critical"),
        (300_000, 200_000, "critical"),
        (6_399, 8_000, "ok"),
        (6_400, 8_000, "warning"),
        (6_960, 8_000, "critical"),
        (10**9, None, "ok"),
    ],
)
def test_token_states(used: int, limit: int | None, state: str) -> None:
    assert token_state(used, limit) == state


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_fuller_window_is_no_better(used: int, limit: int) -> None:
    order = ["ok", "warning", "critical"]
    states = [order.index(token_state(used + more, limit)) for more in (0, 1, 1000)]
    assert states == sorted(states)
    assert token_state(limit, limit) == "critical"
    assert token_state(0, limit) == "ok"
