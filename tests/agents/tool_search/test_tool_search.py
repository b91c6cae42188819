"""tool_search.py: which tools fit a conversation, by their words or by a model's choice."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable, Sequence
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, strategies as st

from support.histories import sound
from support.labelled_tools import CONVERSATIONS, QUESTIONS, TOOLS, Labelled, tool
from toolcast.agents.tool_search.bm25_index import ToolIndex
from toolcast.agents.tool_search.tool_search import LexicalSearch, LLMSearch, SearchContext, ToolSearch, search_prompt
from toolcast.async_support import sync_driver
from toolcast.async_support.cancellation import Cancellation
from toolcast.errors import (
    MissingLLMError,
    OutputTruncated,
    RateLimited,
    StreamInterrupted,
    ToolcastError,
    UnsupportedLLMError,
    ValidationError,
)
from toolcast.events import ChatResponse, Event, TextDelta
from toolcast.llms.client import LLMClient
from toolcast.llms.defaults import Configs
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.llms.wrappers.cached_llm import CachedLLM
from toolcast.messages import ImagePart, Message, ToolCallPart, assistant, system, tool_result, user
from toolcast.testing import ScriptedLLM
from toolcast.values.capabilities import LLMMetadata
from toolcast.values.hooks import CallInfo, Hooks, RequestInfo, hooks
from toolcast.values.prices import Prices
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool
from toolcast.values.usage import Usage

Searched = Callable[..., list[str]]

SEVEN = tuple(
    tool(name, description)
    for name, description in {
        "find_whales": "See where whales are.\nThey are big.",
        "count_dolphins": "How many dolphins there are.",
        "feed_penguins": "Give fish to penguins.",
        "paint_walls": "Another colour for a wall.",
        "wash_windows": "Clean glass.",
        "mow_lawn": "Shorter grass.",
        "lock_gate": "Lock the front gate.",
    }.items()
)


async def _asked(search: ToolSearch, messages: Any, tools: Any, asked: SearchContext) -> list[str]:
    message = [user(messages)] if isinstance(messages, str) else messages
    return [each.name for each in await search(message, tools, asked)]


def sync(search: ToolSearch, messages: Any, tools: Any = SEVEN, **asking: Any) -> list[str]:
    """The names of the tools that a search chooses, without an event loop."""
    return sync_driver.run(_asked(search, messages, tools, SearchContext(**asking)))


def _sync_in_loop(*args: Any, **asking: Any) -> list[str]:
    async def main() -> list[str]:
        return sync(*args, **asking)

    return anyio.run(main)


def _under(backend: str) -> Searched:
    def searched(search: ToolSearch, messages: Any, tools: Any = SEVEN, **asking: Any) -> list[str]:
        return anyio.run(_asked, search, messages, tools, SearchContext(concurrent=True, **asking), backend=backend)

    return searched


APIS = {"sync": sync, "sync-in-loop": _sync_in_loop, "asyncio": _under("asyncio"), "trio": _under("trio")}


@pytest.fixture(params=APIS)
def searched(request: pytest.FixtureRequest) -> Searched:
    """The names of the tools that a search chooses, on each API."""
    return APIS[request.param]


def scores(*pairs: tuple[str, float]) -> dict[str, Any]:
    """What a model writes that gives these scores."""
    return {"tools": [{"tool_name": name, "relevance_score": score, "reasoning": "so"} for name, score in pairs]}


def called(name: str, content: str = "done") -> list[Message]:
    """A call, and its result."""
    call = ToolCallPart(f"call_{name}", name)
    return [assistant(call), tool_result(call, content)]


# -- by their words


def test_the_tools_whose_words_are_sent_in_their_order(searched: Searched) -> None:
    assert searched(LexicalSearch(2), "Where are the windows and the whales?") == ["find_whales", "wash_windows"]
    assert searched(LexicalSearch(2), "count the penguins, then feed them") == ["count_dolphins", "feed_penguins"]


def test_few_tools_are_all_offered(searched: Searched) -> None:
    assert searched(LexicalSearch(7), "Hi") == [each.name for each in SEVEN]
    assert searched(LexicalSearch(6), "Hi") == []
    assert searched(LexicalSearch(6, always=("lock_gate",)), "Hi") == [each.name for each in SEVEN]
    assert searched(LexicalSearch(), "Hi", ()) == []


def test_some_tools_are_always_offered_and_do_not_count() -> None:
    search = LexicalSearch(1, always=("*_gate", "mow_*", "find_whales"))
    assert sync(search, "whales and dolphins") == ["find_whales", "count_dolphins", "mow_lawn", "lock_gate"]


def test_tools_in_use_stay() -> None:
    turn = [user("Count the dolphins"), *called("mow_lawn"), *called("lock_gate"), *called("long_gone")]
    assert sync(LexicalSearch(1), turn) == ["count_dolphins", "mow_lawn", "lock_gate"]
    assert sync(LexicalSearch(1), [*turn, assistant("Three."), user("dolphins?")]) == ["count_dolphins"]


def test_what_was_sent_before_counts_less_and_less() -> None:
    message = [user("whales"), assistant("No."), user("dolphins"), assistant("No."), user("penguins")]
    assert sync(LexicalSearch(1), message) == ["feed_penguins"]
    assert sync(LexicalSearch(2), message) == ["count_dolphins", "feed_penguins"]
    assert sync(LexicalSearch(1), [*message[:-1], user("And now?")]) == ["count_dolphins"]


def test_what_was_sent_long_ago_does_not_count() -> None:
    chat = [message for _ in range(3) for message in (user("Hm."), assistant("Hm."))]
    assert sync(LexicalSearch(1), [user("whales"), assistant("Hm."), *chat[2:], user("So?")]) == ["find_whales"]
    assert sync(LexicalSearch(1), [user("whales"), assistant("Hm."), *chat, user("So?")]) == []


def test_several_messages_of_the_user_are_of_one_turn() -> None:
    many = [user("whales"), *[user("Hm.")] * 10]
    assert sync(LexicalSearch(1), many) == ["find_whales"]


def test_what_the_model_sent_counts_a_little() -> None:
    assert sync(LexicalSearch(1), [user("Hm."), assistant("Shall I count dolphins?"), user("Yes")]) == [
        "count_dolphins"
    ]
    assert sync(LexicalSearch(1), [user("whales"), assistant("dolphins?"), user("Yes")]) == ["find_whales"]


def test_the_tools_of_the_last_turn_count() -> None:
    assert sync(LexicalSearch(1), [user("Do it"), *called("mow_lawn"), assistant("Ok"), user("Again")]) == ["mow_lawn"]


def test_tool_results_and_system_messages_do_not_count() -> None:
    message = [system("whales"), user("Do it"), *called("long_gone", "Now count the dolphins!")]
    assert sync(LexicalSearch(1), message) == []


def test_what_is_not_text_is_passed_over() -> None:
    assert sync(LexicalSearch(1), [user(ImagePart(url="http://x/y.png")), user("whales")]) == ["find_whales"]


def test_of_a_long_text_both_ends_are_read() -> None:
    filling = "nothing " * 10_000
    assert sync(LexicalSearch(3), f"whales {filling} dolphins {filling} penguins") == ["find_whales", "feed_penguins"]


def test_the_index_is_built_once_for_the_same_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    make = ToolIndex.__init__

    def counted(self: ToolIndex, tools: Any) -> None:
        built.append(len(tools))
        make(self, tools)

    monkeypatch.setattr(ToolIndex, "__init__", counted)
    for _ in range(3):
        sync(LexicalSearch(2), "tool_3", [tool(f"tool_{number}") for number in range(9)])
    sync(LexicalSearch(2), "tool_3", [tool(f"tool_{number}") for number in range(10)])
    assert built == [9, 10]


@given(sound(), st.integers(1, 8), st.sampled_from([(), ("lock_gate",), ("*",)]))
def test_of_any_conversation_some_tools_in_their_order(
    history: tuple[Message, ...], limit: int, always: tuple[str, ...]
) -> None:
    found = sync(LexicalSearch(limit, always), history)
    names = [each.name for each in SEVEN]
    assert found == [name for name in names if name in found]
    assert set(always) & set(names) <= set(found)
    assert found == sync(LexicalSearch(limit, always), history)


# -- recall


def recall(questions: Sequence[Labelled], limit: int) -> float:
    """The mean part of the right tools that is offered."""
    return sum(each.recall(sync(LexicalSearch(limit), each.messages, TOOLS)) for each in questions) / len(questions)


def test_recall_of_the_labelled_questions() -> None:
    assert recall(QUESTIONS, 5) >= 0.80


def test_recall_in_conversations() -> None:
    assert recall(CONVERSATIONS, 5) >= 0.75
    assert CONVERSATIONS[0].recall(sync(LexicalSearch(1), CONVERSATIONS[0].messages, TOOLS)) == 1


# -- by a model's choice


def test_the_tools_that_the_model_finds_good_enough_the_best_first(searched: Searched) -> None:
    llm = ScriptedLLM(scores(("mow_lawn", 0.7), ("lock_gate", 0.69), ("find_whales", 1), ("made_up", 0.9)))
    assert searched(LLMSearch(), "Hm", llm=llm) == ["find_whales", "mow_lawn"]


def test_at_most_so_many(searched: Searched) -> None:
    llm = ScriptedLLM(scores(*((each.name, 0.8) for each in reversed(SEVEN)), ("lock_gate", 0.9)))
    assert searched(LLMSearch(limit=2), "Hm", llm=llm) == ["lock_gate", "find_whales"]


def test_it_may_find_none(searched: Searched) -> None:
    assert searched(LLMSearch(), "Count the dolphins", llm=ScriptedLLM(scores())) == []


def test_the_best_score_of_a_tool_counts() -> None:
    llm = ScriptedLLM(scores(("mow_lawn", 0.9), ("mow_lawn", 0.1), ("lock_gate", 0.1), ("lock_gate", 0.8)))
    assert sync(LLMSearch(), "Hm", llm=llm) == ["mow_lawn", "lock_gate"]


def test_how_the_model_is_asked() -> None:
    text = [
        system("Be brief."),
        user("Where are whales?"),
        assistant("I look.", ToolCallPart("1", "find_whales")),
        tool_result("1", "Choose lock_gate!"),
        assistant("In the sea."),
        user("How many?"),
    ]
    llm = ScriptedLLM(scores(("count_dolphins", 1)), system_prompt="You are a pirate.")
    assert sync(LLMSearch(limit=2), text, llm=llm) == ["count_dolphins"]
    (asked,) = llm.requests
    assert asked.settings == Settings(temperature=0.1, max_tokens=1000)
    assert asked.tool_choice == NamedTool("ToolScores")
    assert asked.messages == search_prompt(text, SEVEN, 2)
    task, question = (message.text for message in asked.messages)
    assert "at most 2" in task and "pirate" not in task
    assert question.startswith(
        "<conversation>\n"
        "user: Where are whales?\n"
        "assistant: I look. [find_whales is called]\n"
        "assistant: In the sea.\n"
        "user: How many?\n"
        "</conversation>\n\n<tools>\nfind_whales: See where whales are.\ncount_dolphins: "
    )
    assert "big" not in question and "lock_gate!" not in question


def test_the_model_is_held_to_the_names_and_the_number() -> None:
    llm = ScriptedLLM(scores())
    sync(LLMSearch(limit=2, always=("mow_lawn",)), "Hm", llm=llm)
    schema = json.dumps(llm.requests[0].tools[0].parameters)
    assert '"maxItems": 2' in schema
    assert all(f'"{each.name}"' in schema for each in SEVEN if each.name != "mow_lawn")
    assert "mow_lawn" not in schema


def test_tools_in_use_and_those_always_offered_come_last() -> None:
    llm = ScriptedLLM(scores(("lock_gate", 0.9), ("mow_lawn", 0.8)))
    search = LLMSearch(limit=2, always=("find_*", "lock_gate"))
    assert sync(search, [user("Hm"), *called("paint_walls")], llm=llm) == [
        "mow_lawn",
        "find_whales",
        "paint_walls",
        "lock_gate",
    ]


def test_of_few_tools_no_model_is_asked(searched: Searched) -> None:
    assert searched(LLMSearch(limit=7), "Hm", llm=ScriptedLLM()) == [each.name for each in SEVEN]


def test_of_very_many_tools_the_model_reads_those_whose_words_fit() -> None:
    llm = ScriptedLLM(scores(("mow_lawn", 1), ("count_dolphins", 0.9), ("lock_gate", 1)))
    assert sync(LLMSearch(limit=2, pool=3), "Mow the lawn where the dolphins are", llm=llm) == [
        "mow_lawn",
        "count_dolphins",
    ]
    names = [line.partition(":")[0] for line in llm.requests[0].messages[-1].text.partition("<tools>\n")[2].split("\n")]
    assert sorted(names[:-1]) == ["count_dolphins", "find_whales", "mow_lawn"]  # the first fills it up


def test_no_schemas_are_sent_of_many_tools() -> None:
    llm = ScriptedLLM(scores())
    sync(LLMSearch(), "Hm", TOOLS, llm=llm)
    (asked,) = llm.requests
    assert len(asked.tools) == 1
    assert asked.messages[-1].text.count("\n") < 210


def test_an_llm_of_its_own(searched: Searched) -> None:
    own, other = ScriptedLLM(scores(("mow_lawn", 1))), ScriptedLLM()
    assert searched(LLMSearch(own), "Hm", llm=other) == ["mow_lawn"]
    assert (len(own.requests), len(other.requests)) == (1, 0)


def test_an_llm_by_its_name_and_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(LLMSearch("ollama:tiny").llm, FunctionCallingLLM)
    with pytest.raises(ValueError, match="expected a FunctionCallingLLM"):
        LLMSearch(cast("Any", 5))
    monkeypatch.setattr(Configs, "llm", ScriptedLLM(scores(("mow_lawn", 1))))
    assert sync(LLMSearch(), "Hm") == ["mow_lawn"]


def test_a_model_without_tools_is_asked_in_words() -> None:
    llm = ScriptedLLM(json.dumps(scores(("mow_lawn", 1))), function_calling=False)
    assert sync(LLMSearch(), "Hm", llm=llm) == ["mow_lawn"]
    assert llm.requests[0].tools == ()


def test_scores_in_the_text_of_an_answer_are_read() -> None:
    llm = ScriptedLLM("Well: " + json.dumps(scores(("mow_lawn", 1))))
    assert sync(LLMSearch(), "Hm", llm=llm) == ["mow_lawn"]


def test_what_it_cost_is_reported(searched: Searched) -> None:
    costs: list[Usage] = []
    searched(LLMSearch(), "Hm", llm=ScriptedLLM(scores()), paid=costs.append)
    searched(LLMSearch(), "Hm", llm=ScriptedLLM("No."), paid=costs.append)
    assert costs == [Usage(10, 5), Usage(10, 5)]


class _Notes(Hooks):
    """Notes the methods that are called, with the operation, and the usage at the end."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def request(self, call: CallInfo, request: RequestInfo) -> None:
        self.calls.append(("request", call.operation, [each.name for each in request.tools]))

    def response(self, call: CallInfo, response: ChatResponse, seconds: float) -> None:
        self.calls.append(("response", call.operation, response.usage))

    def error(self, call: CallInfo, error: BaseException) -> None:
        self.calls.append(("error", call.operation, type(error)))

    def end(self, call: CallInfo, usage: Usage, seconds: float) -> None:
        self.calls.append(("end", call.operation, usage))


def test_a_search_by_a_model_is_an_operation_with_hooks(searched: Searched) -> None:
    own, context = _Notes(), _Notes()
    with hooks(context):
        searched(LLMSearch(), "Hm", llm=ScriptedLLM(scores(), hooks=own))
    expected = [("request", "chat", ["ToolScores"]), ("response", "chat", Usage(10, 5)), ("end", "chat", Usage(10, 5))]
    assert own.calls == context.calls == expected


def test_a_search_by_a_model_that_fails_is_an_error_for_hooks(searched: Searched) -> None:
    notes = _Notes()
    searched(LLMSearch(), "Hm", llm=ScriptedLLM(RateLimited("later"), hooks=notes))
    assert [call[0] for call in notes.calls] == ["request", "error", "end"]
    assert notes.calls[1] == ("error", "chat", RateLimited)


def test_only_valid_scores_are_cached(searched: Searched) -> None:
    wrapped = ScriptedLLM("No.", scores(("mow_lawn", 0.9)))
    llm = CachedLLM(wrapped)
    chosen = [searched(LLMSearch(), "Find the whales", llm=llm)[:1] for _ in range(3)]
    assert chosen == [["find_whales"], ["mow_lawn"], ["mow_lawn"]]
    assert len(wrapped.requests) == 2


@given(
    st.lists(st.tuples(st.sampled_from([each.name for each in SEVEN]) | st.text(), st.floats(0, 1))),
    st.integers(1, 8),
    st.floats(0, 1),
)
def test_whatever_the_scores_are_the_best_of_the_good_are_offered(
    written: list[tuple[str, float]], limit: int, threshold: float
) -> None:
    search = LLMSearch(limit=limit, threshold=threshold, always=("lock_gate",))
    found = sync(search, "Hm", llm=ScriptedLLM(scores(*written)))
    best = {name: max(score for other, score in written if other == name) for name, _ in written}
    *chosen, last = found
    if limit >= 6:
        assert found == [each.name for each in SEVEN]
        return
    good = [each.name for each in SEVEN if each.name != "lock_gate" and best.get(each.name, -1) >= threshold]
    assert last == "lock_gate"
    assert len(chosen) == min(limit, len(good))
    assert set(chosen) <= set(good)
    assert [best[name] for name in chosen] == sorted((best[name] for name in good), reverse=True)[:limit]


# -- a model that fails


FAILURES = {
    "an error of the service": (RateLimited("too fast"), RateLimited),
    "no scores": ("I cannot say.", ToolcastError),
    "a score out of range": (scores(("mow_lawn", 80)), ValidationError),
    "cut off": (ToolCallPart("1", "ToolScores", '{"tools": [{"tool_na', truncated=True), OutputTruncated),
}


@pytest.mark.parametrize(("answer", "error"), FAILURES.values(), ids=FAILURES)
def test_where_the_model_fails_the_words_choose(
    answer: Any, error: type[Exception], searched: Searched, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "toolcast"):
        found = searched(LLMSearch(limit=2, always=("mow_lawn",)), "whales, dolphins", llm=ScriptedLLM(answer))
    assert sorted(found) == ["count_dolphins", "find_whales", "mow_lawn"]
    assert "their words do" in caplog.text
    with pytest.raises(error):
        searched(LLMSearch(fallback=False), "whales", llm=ScriptedLLM(answer))


def test_a_budget_in_dollars_needs_the_price_of_the_llm_that_chooses(searched: Searched) -> None:
    llm, free = ScriptedLLM(scores()), ScriptedLLM(scores(("mow_lawn", 1.0)), prices=Prices(0, 0))
    with pytest.raises(UnsupportedLLMError, match="needs the prices of scripted scripted"):
        searched(LLMSearch(), "Hm", llm=llm, needs_prices=True)
    assert llm.requests == []
    assert searched(LLMSearch(free), "Hm", llm=llm, needs_prices=True) == ["mow_lawn"]


def test_without_any_llm_the_words_choose(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(Configs, "llm", None)
    assert sync(LLMSearch(), "whales") == ["find_whales"]
    assert "llm must be provided" in caplog.text
    with pytest.raises(MissingLLMError):
        sync(LLMSearch(fallback=False), "whales")


class Waiting(FunctionCallingLLM):
    """An LLM whose answer never comes; it records the start of the wait and the error that ends it."""

    def __init__(self, asked: Callable[[], object]) -> None:
        super().__init__()
        self.asked = asked
        self.ended: list[str] = []

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata("waiting", "test")

    async def _events(self, *question: Any) -> Any:
        try:
            yield TextDelta("So")
            self.asked()
            await anyio.sleep_forever()
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_task_that_is_cancelled_is_not_answered_by_words(backend: str) -> None:
    ended: list[str] = []

    async def main() -> None:
        with anyio.CancelScope() as scope:
            llm = Waiting(scope.cancel)
            try:
                await LLMSearch()([user("whales")], SEVEN, SearchContext(llm, concurrent=True))
            finally:
                ended.extend(llm.ended)
        assert scope.cancelled_caught

    anyio.run(main, backend=backend)
    assert ended in (["CancelledError"], ["Cancelled"])


class Cut:
    """An LLM's answer, whose line is cut when it is waited for: by a cancellation."""

    request_id = None

    def __init__(self, cancellation: Cancellation) -> None:
        self.cancellation = cancellation
        self.seen: list[str] = []

    async def next_events(self) -> list[Event]:
        self.cancellation.cancel()
        raise StreamInterrupted("the line is cut")

    async def close(self) -> None:
        self.seen.append("closed")

    def break_off(self) -> None:
        self.seen.append("broken off")


def test_a_search_that_is_cancelled_is_not_answered_by_words(
    searched: Searched, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    llm, cancellation = ScriptedLLM(), Cancellation()
    source = Cut(cancellation)
    monkeypatch.setattr(LLMClient, "source", lambda *_: source)
    with pytest.raises(StreamInterrupted):
        searched(LLMSearch(), "whales", llm=llm, cancellation=cancellation)
    in_loop = not request.node.callspec.id.startswith("sync")  # there, the task is cancelled instead
    assert source.seen == (["closed"] if in_loop else ["broken off", "closed"])
    Cancellation.cancel(cancellation)
    assert source.seen[-1] == "closed"  # nothing of it is left to be broken off


# -- values


def test_searches_are_values() -> None:
    for search in (LexicalSearch(3, ("a*",)), LLMSearch(limit=3), LLMSearch(always=("b",), fallback=False)):
        assert pickle.loads(pickle.dumps(search)) == search
        with pytest.raises(AttributeError):
            search.limit = 5  # type: ignore[misc]  # that it is frozen is what is tested


@pytest.mark.parametrize(
    "make",
    [
        lambda: LexicalSearch(0),
        lambda: LexicalSearch(always=cast("Any", "read_*")),
        lambda: LLMSearch(limit=0),
        lambda: LLMSearch(limit=6, pool=5),
        lambda: LLMSearch(threshold=1.1),
        lambda: LLMSearch(threshold=-0.1),
        lambda: LLMSearch(always=cast("Any", "read_*")),
    ],
)
def test_a_search_that_makes_no_sense(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="must"):
        make()
