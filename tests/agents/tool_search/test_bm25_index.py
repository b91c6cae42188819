"""tool_index.py: BM25 over the names, descriptions and schemas of tools, and its results for the labelled tools."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.labelled_tools import QUESTIONS, SEEN, TOOLS, UNSEEN, Labelled, tool
from toolcast.agents.tool_search.bm25_index import ScoredTool, ToolIndex
from toolcast.providers.base import ToolSpec
from toolcast.text.stemming.stems import stems

INDEX = ToolIndex(TOOLS)


def spec(name: str, description: str = "", /, **properties: Any) -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": properties})


def names(found: Sequence[ScoredTool]) -> list[str]:
    return [each.name for each in found]


def best(text: str, *specs: ToolSpec) -> list[str]:
    return names(ToolIndex(specs).best(text))


# -- what is found


def test_the_tool_whose_words_are_sent() -> None:
    weather, mail = spec("get_weather", "Temperature at a place"), spec("sendEmail", "Send a message")
    assert best("Which weather is it in Oslo?", weather, mail) == ["get_weather"]
    assert best("emails", weather, mail) == ["sendEmail"]
    assert best("Who are you?", weather, mail) == []
    assert best("", weather, mail) == []
    assert best("weather") == []


def test_the_name_counts_more_than_the_description_and_that_more_than_parameters() -> None:
    specs = [
        spec("first", "sees whales", whales={}),
        spec("whale_watch", "sees whales", a={}),
        spec("third", "sees dolphins", whales={}),
    ]
    assert best("whales", *specs) == ["whale_watch", "first", "third"]


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    assert best("copy the invoice", *[spec(f"copy_{n}") for n in "abcd"], spec("invoice_a"))[0] == "invoice_a"


def test_a_long_description_counts_less_than_a_short_one() -> None:
    long = spec("first", "Finds whales, and much besides that has to do with oceans, harbours, ships and lighthouses")
    assert best("whales", long, spec("second", "Finds whales")) == ["second", "first"]


def test_parameters_are_looked_into() -> None:
    nested = spec(
        "tool_a",
        stops={"type": "array", "items": {"properties": {"harbour": {"description": "where whales are"}}}},
        unit={"anyOf": [{"enum": ["furlong", 3, None]}, {"type": "null"}]},
        description={"type": "string", "description": "words about dolphins"},
        odd={"description": ["not", "a", "text"], "enum": "not a list", "properties": ["neither"]},
    )
    for message in ("harbour", "whales", "furlongs", "dolphin"):
        assert best(message, spec("tool_b"), nested) == ["tool_a"]


def test_a_long_enum_does_not_dominate_the_score() -> None:
    assert best("furlong", spec("tool_a", unit={"enum": ["furlong", *map(str, range(10))]})) == []


def test_a_schema_may_be_nested_deeper_than_calls_can_be() -> None:
    schema: dict[str, Any] = {"description": "whales"}
    for _ in range(50_000):
        schema = {"items": schema}
    assert best("whales", ToolSpec("tool_a", "", schema)) == ["tool_a"]
    while "items" in schema:  # freed step by step
        schema = schema.pop("items")


def test_what_was_not_sent_but_may_be_meant() -> None:
    taxi, whale = spec("order_taxi"), spec("whale_watch")
    assert best("get me a cab", taxi, whale) == ["order_taxi"]
    assert best("cab taxi", spec("cab"), spec("taxi")) == ["cab", "taxi"]
    assert best("taxi", spec("cab"), taxi) == ["order_taxi", "cab"]


@pytest.mark.parametrize("slip", ["whether", "weathre", "waether", "wheather", "weathr"])
def test_a_slip_of_the_finger(slip: str) -> None:
    assert best(f"{slip}s in oslo", spec("find_lighthouses"), spec("lighthouse")) == []
    assert best(slip, spec("sea_weather"), spec("lighthouse")) == (["sea_weather"] if slip != "whether" else [])


def test_short_words_are_not_guessed() -> None:
    assert best("wale", spec("whal")) == []
    assert best("bar", spec("car_wash")) == []


def test_several_texts_have_weights() -> None:
    index = ToolIndex([spec("whales"), spec("dolphins")])
    assert names(index.best([("whales", 0.5), ("dolphins", 1.0)])) == ["dolphins", "whales"]
    assert names(index.best([("whales", 1.0), ("dolphins", 0.5)])) == ["whales", "dolphins"]


def test_a_word_that_is_sent_often_counts_once() -> None:
    index = ToolIndex([spec("whales"), spec("dolphins")])
    once, often = index.best("whales dolphins"), index.best([("whales", 0.1), ("dolphins " * 50 + "whales", 1.0)])
    assert once == often


# -- for every text


SPECS = st.lists(
    st.builds(
        spec,
        st.text(max_size=20) | st.sampled_from([each.name for each in TOOLS]),
        st.text(max_size=60) | st.sampled_from([each.description for each in TOOLS]),
    ),
    max_size=8,
)
TEXTS = st.text() | st.sampled_from([question.text for question in QUESTIONS])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["properties", "description", "enum", "items", "x"]), inner, max_size=3)
    ),
)


@given(SPECS, TEXTS, st.integers(0, 10))
def test_at_most_so_many_the_best_first_and_of_equals_the_first(specs: list[ToolSpec], text: str, limit: int) -> None:
    found = ToolIndex(specs).best(text, limit)
    assert len(found) <= limit
    assert found == sorted(found, key=lambda each: (-each.score, each.place))
    assert all(each.score > 0 and each.name == specs[each.place].name for each in found)
    assert len({each.place for each in found}) == len(found)
    assert found == ToolIndex(specs).best(text, len(specs))[:limit]


@given(SPECS, TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_the_tools_changes_no_score(specs: list[ToolSpec], text: str, chance: random.Random) -> None:
    shuffled = chance.sample(specs, len(specs))
    scores = [
        sorted((each.score, order[each.place].name) for each in ToolIndex(order).best(text, 10))
        for order in (specs, shuffled)
    ]
    assert scores[0] == scores[1]


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4), TEXTS)
def test_any_schema_will_do(schema: dict[str, Any], text: str) -> None:
    index = ToolIndex([ToolSpec("whale_watch", "", schema), tool("lighthouse")])
    assert "whale_watch" in names(index.best(f"whale {text}"))


@given(TEXTS)
def test_what_is_found_has_a_word_in_common_or_one_that_may_be_meant(text: str) -> None:
    assert bool(INDEX.best(text)) <= bool(stems(text))


def test_an_index_can_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(INDEX))
    assert again.best(QUESTIONS[1].text) == INDEX.best(QUESTIONS[1].text)


# -- recall


def recall(questions: Sequence[Labelled], limit: int) -> float:
    """The mean part of the right tools that is among the first `limit`."""
    return sum(each.recall(names(INDEX.best(each.text, limit))) for each in questions) / len(questions)


def test_the_labels_are_of_tools_that_are_there() -> None:
    known = {each.name for each in TOOLS}
    assert len(known) == len(TOOLS) >= 200
    assert len(QUESTIONS) >= 100
    assert [each.text for each in QUESTIONS if not each.right or not each.right <= known] == []
    assert sum(len(each.right) > 1 for each in QUESTIONS) >= 8
    # Most tools are right for some question, so that none of them can be left out at no cost.
    assert len(frozenset().union(*(each.right for each in QUESTIONS))) > len(TOOLS) / 2


@pytest.mark.parametrize(
    ("questions", "limit", "at_least"),
    [(QUESTIONS, 5, 0.80), (SEEN, 5, 0.86), (UNSEEN, 5, 0.73), (QUESTIONS, 3, 0.72), (QUESTIONS, 10, 0.84)],
    ids=["all at 5", "seen at 5", "unseen at 5", "all at 3", "all at 10"],
)
def test_recall(questions: Sequence[Labelled], limit: int, at_least: float) -> None:
    assert recall(questions, limit) >= at_least


def test_a_tool_is_found_by_its_name() -> None:
    for each in TOOLS:
        assert names(INDEX.best(f"Use {each.name} now"))[0] == each.name


def test_the_page_has_the_measured_figures() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "tool-search.md").read_text(encoding="utf-8")
    for limit in (1, 3, 5, 10, 20):
        figures = " | ".join(f"{recall(questions, limit):.2f}" for questions in (QUESTIONS, SEEN, UNSEEN))
        assert f"\n| {limit} | {figures} |\n" in page
    assert f"{len(QUESTIONS)} questions" in page and f"of {len(TOOLS)} tools" in page
