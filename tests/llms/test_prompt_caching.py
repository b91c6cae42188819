"""Prompt caches over real HTTP: what a conversation reads and writes, counted by a double with the documented rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.caching_service import LEAST, CachingService, PromptCache
from support.service_double import Refused
from support.sync_and_async import API
from toolcast import Anthropic, CallableTool, Engine, Settings, assistant, system, user
from toolcast.agents.engine.session_state import SessionState, difference, fold, opened_record
from toolcast.errors import BadRequest
from toolcast.messages import CachePoint

RULES = "Answer as the handbook of the shop says. " * 200
LONG = "x" * 4 * LEAST
FIVE: Any = {"type": "ephemeral"}
HOUR: Any = {"type": "ephemeral", "ttl": "1h"}


def stock(item: str) -> str:
    """Return how many of an item are in stock."""
    return f"There are 7 of {item}."


@pytest.fixture
def service() -> Iterator[CachingService]:
    with CachingService() as double:
        yield double


def claude(service: CachingService, **options: Any) -> Anthropic:
    return Anthropic("claude-sonnet-4-5", api_key="sk-ant-0123456789", base_url=service.base, max_retries=0, **options)


def submit(api: API, engine: Engine[Any], message: str) -> Any:
    return api.method(engine, "submit", message)


# -- the double has the documented rules


def text(words: str, control: Any = None) -> dict[str, Any]:
    return {"type": "text", "text": words, **({"cache_control": control} if control else {})}


def request(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": list(blocks)}], **fields}


def test_the_prefix_has_to_match_exactly() -> None:
    cache = PromptCache()
    first = cache.count(request(text(LONG, FIVE), text("a")))
    assert (first.read, first.written) == (0, first.total - len('{"text": "a", "type": "text"}') // 4)
    assert cache.count(request(text(LONG, FIVE), text("b"))).read == first.written
    assert cache.count(request(text(f"{LONG}!", FIVE), text("a"))).read == 0
    assert cache.count(request(text(LONG, FIVE), tools=[{"name": "a"}])).read == 0
    assert cache.count(request(text(LONG, FIVE), tool_choice={"type": "any"})).read == 0


def test_a_short_prompt_is_not_cached() -> None:
    cache = PromptCache()
    for _ in range(2):
        found = cache.count(request(text("short", FIVE)))
        assert (found.read, found.written) == (0, 0)


def test_an_earlier_prompt_is_found_20_blocks_back() -> None:
    cache = PromptCache()
    written = cache.count(request(text(LONG, FIVE))).written
    near = [text(str(at)) for at in range(18)]
    assert cache.count(request(text(LONG), *near, text("end", FIVE))).read == written
    cache = PromptCache()
    cache.count(request(text(LONG, FIVE)))
    far = [text(str(at)) for at in range(19)]
    assert cache.count(request(text(LONG), *far, text("end", FIVE))).read == 0


def test_the_ttl_is_that_of_the_last_use() -> None:
    cache = PromptCache()
    cache.count(request(text(LONG, FIVE), text(LONG, FIVE)))
    for now, hit in ((299.0, True), (598.0, True), (899.0, False)):
        cache.now = now
        assert (cache.count(request(text(LONG, FIVE))).read > 0) is hit
    cache = PromptCache()
    found = cache.count(request(text(LONG, HOUR), text(LONG, FIVE)))
    assert (found.written_1h > 0, found.written_5m > 0) == (True, True)
    cache.now = 3_599.0
    assert cache.count(request(text(LONG, HOUR), text(LONG, FIVE))).read == found.written_1h


@pytest.mark.parametrize(
    "blocks",
    [
        [text(str(at), FIVE) for at in range(5)],
        [text("a", FIVE), text("b", HOUR)],
        [text("", FIVE)],
        [{"type": "thinking", "thinking": "hm", "cache_control": FIVE}],
        [text("a", {"type": "ephemeral", "ttl": "2h"})],
    ],
    ids=["five marks", "an hour later", "empty", "a thought", "another ttl"],
)
def test_marks_against_the_rules_are_refused(blocks: Any) -> None:
    with pytest.raises(Refused):
        PromptCache().count(request(*blocks))


# -- a conversation


def converse(api: API, service: CachingService, engine: Engine[Any], turns: int) -> None:
    """Ask in so many turns; in every fourth the model looks into the stock before it answers."""
    for turn in range(turns):
        if turn % 4 == 1:
            found = {"type": "tool_use", "id": f"toolu_{turn}", "name": "stock", "input": {"item": f"item {turn}"}}
            service.reply(text("I look."), found)
        service.reply(text(f"This is the answer to question {turn}."))
        submit(api, engine, f"Question {turn}: what about item {turn}?")


def test_a_conversation_of_20_turns(service: CachingService, api: API) -> None:
    engine = Engine(claude(service), [stock], instructions=RULES, cache="auto")
    converse(api, service, engine, 20)
    first, *others = service.counts
    assert len(service.counts) == 25
    assert (first.read, first.written) == (0, first.total)
    total = first.total
    for counts in others:
        # All of the request before is read, and only what is new is written.
        assert (counts.read, counts.written) == (total, counts.total - total)
        assert counts.marks <= 4
        total = counts.total
    usage = engine.usage
    assert usage.input_tokens == sum(counts.total for counts in service.counts)
    assert usage.cache_read_tokens == sum(counts.read for counts in service.counts)
    assert usage.cache_creation_tokens == sum(counts.written for counts in service.counts) == total
    assert usage.cache_read_tokens / usage.input_tokens > 0.94


def test_the_same_conversation_without_marks(service: CachingService, api: API) -> None:
    engine = Engine(claude(service), [stock], instructions=RULES)
    converse(api, service, engine, 20)
    assert (engine.usage.cache_read_tokens, engine.usage.cache_creation_tokens) == (0, 0)
    assert all(counts.marks == 0 for counts in service.counts)


def test_a_turn_with_more_calls_than_the_lookback(service: CachingService, api: API) -> None:
    engine = Engine(claude(service), [stock], instructions=RULES, cache="auto")
    service.reply(text(LONG))
    submit(api, engine, "What do we sell?")
    calls = [{"type": "tool_use", "id": f"t{at}", "name": "stock", "input": {"item": str(at)}} for at in range(25)]
    service.reply(*calls)
    service.reply(text("All are there."))
    submit(api, engine, "Which of the 25 items are there?")
    opening, before, after = service.counts
    assert before.total - opening.total > LEAST  # a cache of the tools and the instructions alone has less
    assert after.read == before.total
    assert after.total - after.read - after.written == 0


def test_instructions_that_change_leave_the_tools_cached(service: CachingService, api: API) -> None:
    described = CallableTool.from_function(stock, description=f"Return how many of an item are in stock. {LONG}")
    times = iter(range(9))
    engine = Engine(claude(service), [described], instructions=lambda _: f"The time is {next(times)}.", cache="auto")
    for _ in range(2):
        service.reply(text("Yes."))
        submit(api, engine, "Is it there?")
    assert service.counts[1].read > LEAST
    assert service.counts[1].read < service.counts[0].total


def test_a_restored_conversation_reads_the_cache(service: CachingService, api: API) -> None:
    engine = Engine(claude(service), [stock], instructions=RULES, cache="auto")
    converse(api, service, engine, 2)
    state = SessionState("s", history=engine.history)
    stored = fold([opened_record("s", 0.0), *difference(SessionState("s"), state)])
    again = Engine(claude(service), [stock], instructions=RULES, cache="auto", history=stored.history)
    service.reply(text("Yes."))
    submit(api, again, "Is that all?")
    assert service.counts[-1].read == service.counts[-2].total


def test_a_fork_reads_the_tools_and_the_instructions(service: CachingService, api: API) -> None:
    engine = Engine(claude(service), [stock], instructions=RULES, cache="auto")
    converse(api, service, engine, 1)
    service.reply(text("Yes."))
    submit(api, engine.fork(), "Something else?")
    assert service.counts[1].read > LEAST


def test_points_on_tools_and_instructions(service: CachingService, api: API) -> None:
    engine = Engine(
        claude(service), [stock, CachePoint("1h")], instructions=[RULES, CachePoint("1h"), "Be short.", CachePoint()]
    )
    service.reply(text("Yes."))
    submit(api, engine, "Is it there?")
    (body,) = service.bodies
    assert [tool.get("cache_control") for tool in body["tools"]] == [HOUR]
    assert [block.get("cache_control") for block in body["system"]] == [HOUR, FIVE]
    service.reply(text("Yes."))
    submit(api, engine.fork(), "And that?")
    assert service.counts[1].read == service.counts[0].written
    assert engine.fork().config.cache_points == engine.config.cache_points
    assert engine.fork(tools=[stock]).config.cache_points == ()


def test_points_in_messages(service: CachingService, api: API) -> None:
    llm = claude(service)
    document = user(LONG, CachePoint("1h"), "What is it about?")
    service.reply(text("About x."))
    api.chat(llm, [system("Be short."), document])
    service.reply(text("Seven."))
    response = api.chat(llm, [system("Be short."), document, assistant("About x."), user("How many?")])
    first, second = service.counts
    assert first.written_1h == second.read > LEAST
    assert response.usage.cache_read_tokens == second.read


def test_too_many_points_are_not_sent(service: CachingService, api: API) -> None:
    with pytest.raises(BadRequest, match="at most 4 CachePoints"):
        api.chat(claude(service), [user(*[part for at in range(5) for part in (str(at), CachePoint())])])
    assert service.log == []


def test_settings_of_the_llm(service: CachingService, api: API) -> None:
    llm = claude(service, settings=Settings(cache="auto"))
    for engine, cached in (
        (Engine(llm, instructions=RULES), True),
        (Engine(llm, instructions=RULES, cache="off"), False),
    ):
        service.reply(text("Yes."))
        submit(api, engine, "Is it there?")
        assert (service.counts[-1].marks > 0) is cached
    assert Engine(llm, settings=Settings(temperature=0.5), cache="auto").config.settings == Settings(
        temperature=0.5, cache="auto"
    )
