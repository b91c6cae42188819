"""Sessions of a user whose screen is slower than the model."""

from __future__ import annotations

from textwrap import dedent

import pytest

from support.chunks import album_stream
from support.loopback import Loopback
from user.session import play, spoken

DRAW = """
from time import monotonic

def draw(album):
    until = monotonic() + 0.01
    while monotonic() < until:
        pass
    print(album.title, album.songs and len(album.songs))
"""
LOOPS = {
    "sync": """
        for album in make_album.stream(topic="the sea").latest():
            draw(album)
        """,
    "asyncio": """
        import asyncio

        async def main():
            async for album in make_album.astream(topic="the sea").latest():
                draw(album)

        asyncio.run(main())
        """,
}


@pytest.mark.parametrize("api", LOOPS)
def test_the_newest_is_drawn_and_the_rest_is_passed_over(api: str) -> None:
    with Loopback() as server:
        answer = b"".join(piece for piece in spoken(*album_stream()) if isinstance(piece, bytes))
        server.answer(answer)  # all of it is there when the first piece is read
        server.answer(answer)
        plain = play("for album in make_album.stream(topic='the sea'): print(album.title)", server).went_well()
        drawn = play(DRAW + dedent(LOOPS[api]), server).went_well()
    assert drawn[-1] == "Sea of Glass 2"
    assert len(drawn) < len(plain) / 2
