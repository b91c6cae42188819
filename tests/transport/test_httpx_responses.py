"""The attributes of a response before its body is read."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import anyio
import pytest

from support.loopback import Loopback
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest

pytestmark = pytest.mark.usefixtures("library")


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server
    gc.collect()


@pytest.mark.parametrize("api", ["sync", "asyncio", "trio"])
def test_headers_are_text_whatever_they_hold(server: Loopback, api: str) -> None:
    network = HttpxNetwork()
    request = HTTPRequest("POST", server.url, {"x-api-key": Secret("sk-canary")}, b"{}")
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: 0", b"X-A: sch\xf6n", b"x-a: two", b"X-B: sch\xc3\xb6n", b"", b""]
    server.answer(b"\r\n".join(lines))

    async def aheaders() -> dict[str, str]:
        reply = await network.aopen(request, connect=5.0, read=5.0)
        await reply.aclose()
        return dict(reply.headers)

    def headers() -> dict[str, str]:
        reply = network.open(request, connect=5.0, read=5.0)
        reply.close()
        return dict(reply.headers)

    seen = headers() if api == "sync" else anyio.run(aheaders, backend=api)
    assert seen == {"content-length": "0", "x-a": "schön, two", "x-b": "schön"}
    network.close()
