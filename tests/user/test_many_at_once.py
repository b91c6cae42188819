"""Sessions with more than one thing going on: notebooks, threads, tasks, logging, one LLM in two loops."""

from __future__ import annotations

import threading

import pytest

from support.chunks import album_body, album_stream
from support.loopback import Loopback
from user.session import answered, play, spoken


@pytest.mark.fault(115)
def test_a_cell_of_a_notebook() -> None:
    """A notebook runs its cells inside a loop: sync calls and streams work there, and so does `await`."""
    with Loopback() as server:
        server.answer(answered(album_body()))
        server.answer(*spoken(*album_stream()))
        server.answer(answered(album_body()))
        server.answer(*spoken(*album_stream()))
        screen = play(
            """
            import asyncio
            async def cell():
                print("sync", make_album(topic="the sea").title)
                print("sync stream", [album.title for album in make_album.stream(topic="the sea")][-1])
                print("await", (await make_album.acall(topic="the sea")).title)
                print("async stream", [album.title async for album in make_album.astream(topic="the sea")][-1])
            asyncio.run(cell())
            """,
            server,
        )
        wanted = ["sync", "sync stream", "await", "async stream"]
        assert screen.went_well() == [f"{name} Sea of Glass" for name in wanted]


def test_a_forgotten_await() -> None:
    """Python raises its own error; nothing is sent."""
    with Loopback() as server:
        screen = play(
            """
            import warnings
            warnings.simplefilter("default")
            album = make_album.acall(topic="the sea")
            print(type(album).__name__)
            album.close()
            """,
            server,
        )
        assert screen.went_well() == ["coroutine"]
        assert server.accepted == 0


def test_asyncio_run_twice_with_one_llm() -> None:
    with Loopback() as server:
        for _ in range(3):
            server.answer(answered(album_body()))
        screen = play(
            """
            import asyncio
            for number in range(2):
                print(number, asyncio.run(make_album.acall(topic="the sea")).title)
            print("sync", make_album(topic="the sea").title)
            """,
            server,
        )
        assert screen.went_well() == ["0 Sea of Glass", "1 Sea of Glass", "sync Sea of Glass"]
        server.wait_open(0)


def test_two_threads_with_one_instance() -> None:
    with Loopback() as server:
        both = threading.Event()
        for _ in range(2):
            server.answer(*spoken(*album_stream()[:9], both, *album_stream()[9:]))
        threading.Thread(target=lambda: (server.wait_requests(2), both.set())).start()
        screen = play(
            """
            import threading
            seen = {}
            def work(name):
                seen[name] = list(make_album(topic=name, stream=True))
            threads = [threading.Thread(target=work, args=(name,)) for name in ("sea", "sky")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            print(sorted(seen), *{albums[-1].title for albums in seen.values()})
            print(seen["sea"] == seen["sky"], len(seen["sea"]) > 10)
            """,
            server,
        )
        assert screen.went_well() == ["['sea', 'sky'] Sea of Glass", "True True"]
        text = sorted(b"about sea" in request.body for request in server.requests)
        assert text == [False, True]


def test_a_hundred_tasks_and_one_that_fails() -> None:
    with Loopback() as server:
        server.answer(answered(b'{"error": {"message": "bad"}}', 400))
        for _ in range(20):
            server.answer(answered(album_body()))
        screen = play(
            """
            import asyncio
            async def main():
                calls = [make_album.acall(topic=str(number)) for number in range(21)]
                results = await asyncio.gather(*calls, return_exceptions=True)
                print(sorted({type(result).__name__ for result in results}), len(results))
                await llm.aclose()
            asyncio.run(main())
            """,
            server,
        )
        assert screen.went_well() == ["['Album', 'BadRequest'] 21"]


@pytest.mark.fault(111)
def test_one_failure_in_a_task_group_is_one_failure() -> None:
    with Loopback() as server:
        server.answer(answered(b'{"error": {"message": "bad"}}', 400))
        screen = play(
            """
            import asyncio
            async def main():
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(make_album.acall(topic="the sea"))
                except* ValueError as group:
                    print([str(error) for error in group.exceptions])
            asyncio.run(main())
            """,
            server,
        )
        (line,) = screen.went_well()
        assert line.startswith("['openai m-1: ")
        assert "bad" in line


def test_verbose_prints_an_account_without_any_set_up() -> None:
    with Loopback() as server:
        server.answer(answered(album_body()))
        screen = play(
            """
            from contextlib import redirect_stderr
            with redirect_stderr(sys.stdout):
                make_album.with_(verbose=True)(topic="the sea")
            """,
            server,
        )
        title, _, message, result, cost = screen.went_well()
        assert (title.split()[0], title.split()[2:]) == ("toolcast", ["Album", "with", "openai", "m-1", "(tool_call)"])
        assert "the sea" in message
        assert "Sea of Glass" in result
        assert "7 tokens in, 3 out" in cost


def test_each_call_is_a_line_of_the_log() -> None:
    with Loopback() as server:
        server.answer(answered(album_body()))
        screen = play(
            """
            import logging
            logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
            make_album(topic="the sea")
            """,
            server,
        )
        (text,) = [line for line in screen.went_well() if line.startswith("toolcast INFO ")]
        assert "Album with openai m-1: done (" in text


def test_everything_logged_at_the_lowest_level() -> None:
    """The key does not show; `finish` looks for it on every screen."""
    with Loopback() as server:
        server.answer(*spoken(*album_stream()))
        server.answer(answered(album_body()))
        screen = play(
            """
            import asyncio, logging
            logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
            print(make_album.stream(topic="the sea").final().title)
            print(asyncio.run(make_album.acall(topic="the sea")).title)
            """,
            server,
        )
        lines = screen.went_well()
        assert lines.count("Sea of Glass") == 2
        assert any("httpcore" in line for line in lines)


@pytest.mark.fault(37)
def test_a_proxy_from_the_environment_is_used() -> None:
    with Loopback() as proxy:
        proxy.answer(answered(album_body()))
        screen = play(
            """
            import os
            os.environ["HTTP_PROXY"] = sys.argv[1].removesuffix("/v1")
            far = OpenAI("m-1", base_url="http://models.example/v1", api_key="sk-x", max_retries=0)
            print(make_album.with_(llm=far)(topic="the sea").title)
            """,
            proxy,
        )
        assert screen.went_well() == ["Sea of Glass"]
        assert proxy.requests[0].line == "POST http://models.example/v1/chat/completions HTTP/1.1"
