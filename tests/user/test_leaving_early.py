"""Sessions that end early: Ctrl-C, `break`, an error of their own, a fork, a pickle."""

from __future__ import annotations

import sys

import pytest

from support.albums import SHORT
from support.chunks import album_body, album_stream
from support.loopback import HOLD, Loopback
from user.session import KEY, answered, begin, finish, play, press_ctrl_c, spoken, type_in

SIGINT_DEATH = -2  # how a shell sees a Python that does not handle SIGINT


def endless(server: Loopback) -> None:
    """The next answer begins and never ends."""
    server.answer(*spoken(*album_stream()[:9], HOLD))


def test_ctrl_c_during_a_stream() -> None:
    with Loopback() as server:
        endless(server)
        python = begin(
            """
            for album in make_album(topic="the sea", stream=True):
                print("have", album.title)
            """,
            server,
        )
        shown = press_ctrl_c(python, after="have Sea of Gla")
        screen = finish(python)
        assert (screen.last, screen.code) == ("KeyboardInterrupt", SIGINT_DEATH)
        assert "toolcast.errors" not in screen.err
        assert shown.splitlines()[0] == "have None"
        server.wait_open(0)


def test_ctrl_c_while_nothing_comes() -> None:
    with Loopback() as server:
        server.answer(HOLD)
        python = begin("print('asking'); make_album(topic='the sea')", server)
        server.wait_requests(1)
        press_ctrl_c(python, after="asking")
        screen = finish(python)
        assert (screen.last, screen.code) == ("KeyboardInterrupt", SIGINT_DEATH)
        server.wait_open(0)


def test_ctrl_c_and_the_work_goes_on() -> None:
    with Loopback() as server:
        endless(server)
        server.answer(answered(album_body()))
        python = begin(
            """
            try:
                for album in make_album(topic="the sea", stream=True):
                    print("have", album.title)
            except KeyboardInterrupt:
                print("stopped at", album.title)
            del album
            print("again", make_album(topic="the sea").title)
            """,
            server,
        )
        press_ctrl_c(python, after="have Sea of Gla")
        screen = finish(python)
        # The interrupt may fall into the middle of a print, between a line and its end.
        *before, last = screen.went_well()
        assert "stopped at Sea of Gla" in before[-1]
        assert last == "again Sea of Glass"
        assert server.accepted == 2


def test_ctrl_c_under_asyncio() -> None:
    with Loopback() as server:
        endless(server)
        python = begin(
            """
            import asyncio
            async def main():
                async for album in await make_album.acall(topic="the sea", stream=True):
                    print("have", album.title)
            asyncio.run(main())
            """,
            server,
        )
        press_ctrl_c(python, after="have Sea of Gla")
        screen = finish(python)
        assert (screen.last, screen.code) == ("KeyboardInterrupt", SIGINT_DEATH)
        assert "toolcast.errors" not in screen.err
        server.wait_open(0)


def test_ctrl_c_under_trio() -> None:
    with Loopback() as server:
        endless(server)
        python = begin(
            """
            import trio, trio.testing
            async def report():
                await trio.testing.wait_all_tasks_blocked()
                print("waits")
            async def main():
                async with make_album.astream(topic="the sea") as albums:
                    async for album in albums:
                        print("have", album.title)
                        if album.title == "Sea of Gla":
                            trio.lowlevel.spawn_system_task(report)
            trio.run(main)
            """,
            server,
        )
        press_ctrl_c(python, after="waits")  # between reads: in one, trio would report corrupted cancel scopes
        screen = finish(python)
        assert screen.last.endswith("KeyboardInterrupt")
        assert screen.code == SIGINT_DEATH
        server.wait_open(0)


def test_enough_seen() -> None:
    """`break` with and without a block, a closed stream, one never begun: each gives its connection back."""
    with Loopback() as server:
        for _ in range(3):
            endless(server)
        server.answer(answered(album_body()))
        screen = play(
            """
            for album in make_album(topic="the sea", stream=True):
                break
            with make_album.stream(topic="the sea") as albums:
                for album in albums:
                    break
            albums = make_album.stream(topic="the sea")
            next(albums)
            albums.close()
            albums.close()
            print(albums.state)
            make_album.stream(topic="the sea")
            print(make_album(topic="the sea").title)
            """,
            server,
        )
        assert screen.went_well() == ["closed", "Sea of Glass"]
        assert server.accepted == 4
        server.wait_open(0)


def test_the_end_is_asked_for_after_leaving() -> None:
    with Loopback() as server:
        endless(server)
        screen = play(
            """
            with make_album.stream(topic="the sea") as albums:
                next(albums)
            albums.final()
            """,
            server,
        )
        assert "closed" in screen.failed_with("StreamClosed")


def test_an_error_in_the_loop_body() -> None:
    with Loopback() as server:
        endless(server)
        server.answer(*spoken(*album_stream(SHORT.model_dump_json())))
        screen = type_in(
            """
            with make_album.stream(topic="the sea") as albums:
                for album in albums:
                    print(1 / len(album.title or ""))

            list(make_album(topic="the sea", stream=True))[-1]
            """,
            server,
        )
        assert "ZeroDivisionError: division by zero" in screen.err
        assert "toolcast.errors" not in screen.err
        assert screen.lines == ["Album(title='B', artist='C', songs=[])"]
        server.wait_open(0)


@pytest.mark.fault(113)
def test_leaving_the_program_with_a_stream_open() -> None:
    with Loopback() as server:
        endless(server)
        screen = play("albums = make_album(topic='the sea', stream=True)\nprint(next(albums).title)", server)
        assert screen.went_well() == ["None"]
        server.wait_open(0)


@pytest.mark.fault(113)
def test_leaving_in_the_development_mode_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-X dev` warns of every file, socket and event loop that was not closed."""
    monkeypatch.setenv("PYTHONDEVMODE", "1")
    with Loopback() as server:
        endless(server)
        endless(server)
        endless(server)
        screen = play(
            """
            import asyncio
            from toolcast import Agent
            assert sys.flags.dev_mode
            albums = make_album.stream(topic="the sea")
            print(next(albums).title)
            turn = Agent(llm).stream("Go.")
            print(type(next(turn)).__name__)
            async def main():
                asyncio.get_running_loop().slow_callback_duration = 60  # the first import of a client takes longest
                streams.append(make_album.astream(topic="the sea"))
                print((await anext(streams[0])).title)
            streams = []
            asyncio.run(main())
            """,
            server,
        )
        first, _, last = screen.went_well()
        assert (first, last) == ("None", "None")
        server.wait_open(0)


@pytest.mark.fault(113)
def test_leaving_asyncio_with_a_stream_open() -> None:
    with Loopback() as server:
        endless(server)
        screen = play(
            """
            import asyncio
            async def main():
                albums = make_album.astream(topic="the sea")
                print((await anext(albums)).title)
                return albums
            kept = asyncio.run(main())
            """,
            server,
        )
        assert screen.went_well() == ["None"]
        server.wait_open(0)


def test_a_pickled_llm_has_no_key() -> None:
    with Loopback() as server:
        server.answer(answered(album_body()))
        screen = play(
            f"""
            import os, pickle
            data = pickle.dumps(llm)
            print(b"{KEY[3:]}" in data)
            os.environ["OPENAI_API_KEY"] = "sk-of-the-other-process"
            print(make_album.with_(llm=pickle.loads(data))(topic="the sea").title)
            """,
            server,
        )
        assert screen.went_well() == ["False", "Sea of Glass"]
        assert server.requests[0].headers["authorization"] == "Bearer sk-of-the-other-process"


@pytest.mark.fault(108)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_fork_has_its_own_connections() -> None:
    with Loopback() as server:
        for _ in range(3):
            server.answer(answered(album_body()))
        screen = play(
            """
            import os
            print("parent", make_album(topic="the sea").title)
            child = os.fork()
            if child == 0:
                print("child", make_album(topic="the sea").title)
                os._exit(7)
            print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            print("parent", make_album(topic="the sea").title)
            """,
            server,
        )
        wanted = ["parent Sea of Glass", "child Sea of Glass", "ended 7", "parent Sea of Glass"]
        assert screen.went_well() == wanted
        assert server.accepted == 2  # the parent goes on with the connection it had
