"""Sessions with many calls at once over `network="aiohttp"`."""

from __future__ import annotations

import pytest

from support.chunks import album_body, album_stream
from support.loopback import CLOSE, HOLD, Loopback
from user.session import KEY, OPENING, answered, begin, finish, play, press_ctrl_c, spoken

pytest.importorskip("aiohttp", reason="needs toolcast[aiohttp]: NOT TESTED")

OVER_AIOHTTP = OPENING.replace("max_retries=0", 'max_retries=0, network="aiohttp"') + "import asyncio\n"
CALL = "print(asyncio.run(make_album.acall(topic='the sea')).title)"
STREAM = """
async def main():
    async for album in make_album.astream(topic="the sea"):
        print("have", album.title)

asyncio.run(main())
"""


def test_many_at_once() -> None:
    with Loopback() as server:
        for _ in range(20):
            server.answer(answered(album_body()))
        screen = play(
            """
            async def main():
                albums = await asyncio.gather(*(make_album.acall(topic=str(n)) for n in range(20)))
                print(len({album.title for album in albums}), len(albums))

            asyncio.run(main())
            """,
            server,
            opening=OVER_AIOHTTP,
        )
        assert screen.went_well() == ["1 20"]
        server.wait_open(0)


def test_a_stream() -> None:
    with Loopback() as server:
        server.answer(*spoken(*album_stream()))
        assert play(STREAM, server, opening=OVER_AIOHTTP).went_well()[-1] == "have Sea of Glass"
        server.wait_open(0)


def test_a_wrong_key() -> None:
    with Loopback() as server:
        server.answer(answered(b'{"error": {"message": "Incorrect API key provided: %s"}}' % KEY.encode(), 401))
        words = play(CALL, server, opening=OVER_AIOHTTP).failed_with("AuthFailed")
        assert KEY not in words


def test_the_connection_is_cut() -> None:
    with Loopback() as server:
        server.answer(*spoken(*album_stream()[:9], CLOSE))
        screen = play(STREAM, server, opening=OVER_AIOHTTP)
        assert screen.lines[-1].startswith("have Sea")
        screen.failed_with("StreamInterrupted")


def test_ctrl_c() -> None:
    with Loopback() as server:
        server.answer(*spoken(*album_stream()[:9], HOLD))
        python = begin(STREAM, server, opening=OVER_AIOHTTP)
        press_ctrl_c(python, after="have Sea of Gla")
        assert finish(python).last == "KeyboardInterrupt"
        server.wait_open(0)


def test_without_await() -> None:
    with Loopback() as server:
        words = play("make_album(topic='the sea')", server, opening=OVER_AIOHTTP).failed_with("BadRequest")
        assert "use an async method" in words
        assert server.accepted == 0
