"""Sessions of a user whose program is wrong, slow and expensive: what was sent, what came back, what did it cost."""

from __future__ import annotations

import json
import re
from textwrap import dedent

import pytest

from support.chunks import album_body
from support.loopback import Loopback
from user.session import KEY, answered, play

WRONG = '{"title": "Sea of Glass", "artist": "Low", "songs": [{"title": "Foam", "seconds": "two minutes"}]}'

PROGRAM = """
import asyncio, itertools
from toolcast import CallError, Hooks, Prices
from toolcast.llms import CachedLLM, MemoryCache

numbers = itertools.count(1)
paid = OpenAI("m-1", base_url=sys.argv[1], api_key=llm.api_key_for_test, max_retries=2, prices=Prices(10, 100))
make_album = ToolOrchestratingLLM(
    Album, "Order {number}: an album about {topic}", CachedLLM(paid, MemoryCache()), max_attempts=2
)

def run(**options):
    make, values = make_album.with_(**options), {"number": next(numbers), "topic": "the sea"}
    return asyncio.run(make.acall(**values)) if WAY == "async" else make(**values)
""".replace("llm.api_key_for_test", repr(KEY))


def ways(script: str, way: str) -> str:
    return f"WAY = {way!r}\n{PROGRAM}\n{dedent(script)}"


def failing(server: Loopback) -> None:
    """Queue the answers of an overloaded service, whose album has a wrong field."""
    server.answer(answered(b'{"error": {"message": "overloaded"}}', 503))
    for _ in range(2):
        server.answer(answered(album_body(WRONG)))


@pytest.mark.parametrize("way", ["sync", "async"])
def test_an_error_tells_what_came_back_what_it_cost_and_where_the_time_went(way: str) -> None:
    with Loopback() as server:
        failing(server)
        screen = play(
            ways(
                """
                try:
                    run()
                except CallError as error:
                    for attempt in error.attempts:
                        print(attempt.number, type(attempt.error).__name__, attempt.wait > 0)
                    print(all(attempt.seconds > 0 for attempt in error.attempts))
                    print(json_of(error.arguments)["songs"][0]["seconds"], "|", error.errors()[0]["loc"])
                    print(sum(attempt.usage.known_cost for attempt in error.attempts))
                    print("max_attempts" in str(error))
                """.replace("json_of", "__import__('json').loads"),
                way,
            ),
            server,
        )
        assert screen.went_well() == [
            "1 Overloaded True",
            "2 ValidationError False",
            "3 ValidationError False",
            "True",
            "two minutes | ('songs', 0, 'seconds')",
            "0.00074",
            "False",
        ]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_an_account_shows_all_of_it(way: str) -> None:
    with Loopback() as server:
        failing(server)
        screen = play(
            ways(
                """
                from contextlib import redirect_stderr
                with redirect_stderr(sys.stdout):
                    try:
                        run(verbose=True)
                    except CallError:
                        pass
                """,
                way,
            ),
            server,
        )
        title, tools, sent, first, second, answer, correction, third, last, total = screen.went_well()
        assert "Album with openai m-1 (tool_call)" in title
        assert tools == "  tools: Album(title, artist, songs)"
        assert sent == "  user: Order 1: an album about the sea"
        assert first.startswith("  attempt 1, ") and " s later (back-off): Overloaded: " in first
        assert second.startswith("  attempt 2, ") and "songs.0.seconds" in second
        assert answer == last == f"  assistant: Album {WRONG}"
        assert correction.startswith("  tool: The arguments were not valid: - songs.0.seconds: ")
        assert third.startswith("  attempt 3, ")
        assert "got 'two minutes'" in third
        assert total.endswith("14 tokens in, 6 out, 3 requests, about $0.000740")


@pytest.mark.parametrize("way", ["sync", "async"])
def test_why_the_cache_does_not_answer(way: str) -> None:
    with Loopback() as server:
        for _ in range(2):
            server.answer(answered(album_body()))
        screen = play(
            ways(
                """
                class Sent(Hooks):
                    def request(self, call, request):
                        sent = request.http and request.http.headers["authorization"]
                        print(call.attempt, request.messages[-1].text, "|", sent)
                    def end(self, call, usage, seconds):
                        print(usage.total_tokens, usage.cost)

                run(hooks=Sent())
                run(hooks=Sent())
                numbers = itertools.count(2)
                run(hooks=Sent())
                """,
                way,
            ),
            server,
        )
        assert screen.went_well() == [
            "1 Order 1: an album about the sea | ***",
            "10 0.00037",
            "1 Order 2: an album about the sea | ***",
            "10 0.00037",
            "1 Order 2: an album about the sea | None",
            "0 0",
        ]
        assert [json.loads(sent.body)["messages"][0]["content"][:7] for sent in server.requests] == [
            "Order 1",
            "Order 2",
        ]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_log_of_all_calls(way: str) -> None:
    with Loopback() as server:
        failing(server)
        screen = play(
            ways(
                """
                import logging
                logging.basicConfig(stream=sys.stdout)
                logging.getLogger("toolcast").setLevel(logging.DEBUG)
                try:
                    run()
                except CallError:
                    pass
                """,
                way,
            ),
            server,
        )
        lines = [re.sub(r"call-\d+", "call-N", line) for line in screen.went_well()]
        assert all(":toolcast:" in line for line in lines)
        bodies = [line.partition(" s), POST")[0] for line in lines if "response body" in line]
        assert [body[: body.index(" after")] for body in bodies] == [
            "DEBUG:toolcast:response body of call-N, attempt 1 (503",
            "DEBUG:toolcast:response body of call-N, attempt 2 (200",
            "DEBUG:toolcast:response body of call-N, attempt 3 (200",
        ]
        assert lines[2].startswith("INFO:toolcast:call-N attempt 1 with openai m-1: Overloaded (503), the next in ")
        assert "Album with openai m-1: ValidationError (" in lines[-1]
        assert lines[-1].endswith("14 tokens in, 6 out, 3 requests, about $0.000740)")
