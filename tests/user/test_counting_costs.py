"""Sessions of a user who wants to know what calls cost, and to store and send what came back."""

from __future__ import annotations

import json

import pytest

from support.albums import SEA
from support.chunks import album_body, album_stream, text_body
from support.loopback import Loopback
from user.session import answered, play, spoken


def priced_body(model: str = "gpt-4o", body: bytes = album_body()) -> bytes:
    answer = json.loads(body)
    usage = {
        "prompt_tokens": 1_000_000,
        "completion_tokens": 100_000,
        "prompt_tokens_details": {"cached_tokens": 400_000},
        "completion_tokens_details": {"reasoning_tokens": 50_000},
    }
    return json.dumps({**answer, "model": model, "usage": usage}).encode()


def test_what_a_call_costs() -> None:
    with Loopback() as server:
        for _ in range(3):
            server.answer(answered(priced_body()))
        server.answer(answered(priced_body("my-own")))
        screen = play(
            """
            import asyncio
            from decimal import Decimal
            from toolcast import Prices

            gpt = OpenAI("gpt-4o", base_url=sys.argv[1], api_key="k")
            result = make_album.with_(llm=gpt).run(topic="the sea")
            usage = result.usage
            print(usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.reasoning_tokens)
            print(type(result.cost).__name__, 1 < result.cost < 10)
            again = asyncio.run(make_album.with_(llm=gpt).arun(topic="the sea"))
            print(again.cost == result.cost, (again.usage + usage).cost == 2 * result.cost)

            prices = Prices(input=1, output=10, cache_read="0.5")
            own = OpenAI("gpt-4o", base_url=sys.argv[1], api_key="k", prices=prices)
            print(make_album.with_(llm=own).run(topic="the sea").cost == Decimal("1.8"))
            other = OpenAI("my-own", base_url=sys.argv[1], api_key="k")
            unknown = make_album.with_(llm=other).run(topic="the sea")
            total = unknown.usage + usage
            print(unknown.cost, total.cost, total.known_cost == result.cost)
            """,
            server,
        )
        assert screen.went_well() == [
            "1000000 400000 100000 50000",
            "Decimal True",
            "True True",
            "True",
            "None None True",
        ]


def test_a_budget_in_money_without_typing_prices_in() -> None:
    with Loopback() as server:
        for _ in range(2):
            server.answer(answered(priced_body(body=text_body("Hello."))))
        screen = play(
            """
            import asyncio
            from toolcast import Agent, Budget
            from toolcast.errors import BudgetExceeded, UnsupportedLLMError

            gpt = OpenAI("gpt-4o", base_url=sys.argv[1], api_key="k")
            agent = Agent(gpt, budget=Budget(usd=1))
            chat = agent.engine()
            print(chat.submit("Hello").cost > 1)
            try:
                chat.submit("And again")
            except BudgetExceeded as error:
                print(error.limit)
            print(asyncio.run(agent.arun("Hello")).cost > 1)
            try:
                Agent(llm, budget=Budget(usd=1)).run("Hello")
            except UnsupportedLLMError as error:
                print(error)
            """,
            server,
        )
        *lines, last = screen.went_well()
        assert lines == ["True", "usd", "True"]
        assert "needs the prices of openai m-1, which are not listed" in last
        assert len(server.requests) == 2


def test_without_the_price_list_the_error_names_the_install() -> None:
    with Loopback() as server:
        screen = play(
            """
            sys.modules["genai_prices"] = None
            from toolcast import Agent, Budget
            Agent(OpenAI("gpt-4o", base_url=sys.argv[1], api_key="k"), budget=Budget(usd=1)).run("Hello")
            """,
            server,
        )
        assert "pip install 'toolcast[prices]'" in screen.failed_with("UnsupportedLLMError")
        assert server.requests == []


def test_results_are_stored_and_read_again() -> None:
    with Loopback() as server:
        server.answer(answered(album_body()))
        server.answer(answered(album_body()))
        screen = play(
            """
            import asyncio, json
            from toolcast import Result

            result = make_album.run(topic="the sea")
            print(result.response.response_id, result.response.raw["choices"][0]["finish_reason"])
            stored = result.to_json()
            print("choices" in stored, "choices" in result.to_json(raw=True))
            print(Result.from_dict(json.loads(stored), Album) == result)
            other = asyncio.run(make_album.arun(topic="the sea"))
            print(other == result, other.to_dict()["output"] == result.to_dict()["output"])
            print(result._repr_html_()[:4], "Sea of Glass" in result._repr_html_())
            print(repr(make_album))
            """,
            server,
        )
        assert screen.went_well() == [
            "c1 tool_calls",
            "False True",
            "True",
            "True True",
            "<div True",
            "ToolOrchestratingLLM(Album, prompt='Create an album about {topic}', "
            f"llm=OpenAI('m-1', base_url='http://127.0.0.1:{server.port}/v1'))",
        ]


@pytest.mark.parametrize("way", ["make_album()", "asyncio.run(make_album.acall())"], ids=["sync", "async"])
def test_a_notebook_shows_the_field_and_the_fault(way: str) -> None:
    with Loopback() as server:
        for _ in range(2):
            server.answer(answered(album_body('{"title": "Sea", "artist": "Low", "songs": [{"title": "Foam"}]}')))
        screen = play(
            f"""
            import asyncio
            make_album = make_album.with_(prompt="Create an album")
            try:
                {way}
            except ValueError as error:
                (text,) = error._render_traceback_()
                print(len(text.splitlines()) <= 10, "songs.0.seconds: Field required" in text)
                print("songs.0.seconds" in error._repr_html_(), "<script" in error._repr_html_())
            """,
            server,
        )
        assert screen.went_well() == ["True True", "True False"]


@pytest.mark.parametrize("way", ["run", "arun"])
def test_a_turn_is_stored_and_read_again(way: str) -> None:
    with Loopback() as server:
        server.answer(answered(text_body("Hello.")))
        screen = play(
            f"""
            import asyncio, inspect, json
            from toolcast import Agent, Turn, Usage

            turn = Agent(llm).{way}("Hi")
            turn = asyncio.run(turn) if inspect.iscoroutine(turn) else turn
            again = Turn.from_dict(json.loads(turn.to_json()))
            print(again == turn, again.text, again.usage.total_tokens)
            print(again._repr_html_() == turn._repr_html_(), Usage.from_dict(turn.usage.to_dict()) == turn.usage)
            """,
            server,
        )
        first, second = screen.went_well()
        assert first.startswith("True Hello. ")
        assert second == "True True"


APPLY = """
import asyncio, json

def apply(document, change):
    change = json.loads(json.dumps({"kind": change.kind, "path": change.path, "value": change.value}))
    kind, path, value = change["kind"], change["path"], change["value"]
    if not path:
        return value
    *steps, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    inside = document
    for step in steps:
        inside = inside[step]
    if kind == "text":
        inside[last] += value
    elif last == len(inside):
        inside.append(value)
    else:
        inside[last] = value
    return document
"""


def test_a_page_follows_a_stream() -> None:
    with Loopback() as server:
        for _ in range(3):
            server.answer(*spoken(*album_stream()))
        screen = play(
            APPLY
            + """
document = None
for change in make_album.stream(topic="the sea").changes():
    document = apply(document, change)
print(json.dumps(document))

async def follow():
    document = None
    async for change in make_album.astream(topic="the sea").changes():
        document = apply(document, change)
    print(json.dumps(document))

asyncio.run(follow())
operations = list(make_album.stream(topic="the sea").changes("json-patch"))
print(json.dumps(operations[0]), all(set(one) == {"op", "path", "value"} for one in operations))
""",
            server,
        )
        sync, asynchronous, patch = screen.went_well()
        assert json.loads(sync) == json.loads(asynchronous) == SEA.model_dump(mode="json")
        assert patch == '{"op": "replace", "path": "", "value": {}} True'


def test_the_events_of_a_stream_are_kept_on_request() -> None:
    with Loopback() as server:
        for _ in range(2):
            server.answer(*spoken(*album_stream()))
        screen = play(
            """
            import asyncio

            keeping = OpenAI("m-1", base_url=sys.argv[1], api_key="k", keep_raw=True)
            stream = make_album.with_(llm=keeping).stream(topic="the sea")
            stream.final()
            print(len(stream.response.raw), stream.response.raw[-1]["usage"]["prompt_tokens"])

            async def follow():
                stream = make_album.with_(llm=keeping).astream(topic="the sea")
                await stream.final()
                print(len(stream.response.raw))

            asyncio.run(follow())
            """,
            server,
        )
        first, second = screen.went_well()
        count = len([event for event in album_stream() if b"[DONE]" not in event])
        assert first == f"{count} 7"
        assert second == str(count)
