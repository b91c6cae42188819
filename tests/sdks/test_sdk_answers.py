"""toolcast beside the official SDKs: both are sent the same answer, written by hand, and both must read it right."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from loopback import Loopback, whole
from sdks import ours
from sdks.answers import ANSWERS
from sdks.official import SDKS

pytestmark = pytest.mark.networked


def address(server: Loopback, protocol: str) -> str:
    """Where the SDK of a protocol is told that its service is."""
    return f"http://{urlsplit(server.url).netloc}" + ("/v1" if protocol in ("openai", "responses", "mistral") else "")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ANSWERS)
def test_both_read_it_alike(name: str, stream: bool) -> None:
    written = ANSWERS[name]
    body = whole(written.body(stream=stream), 200, f"content-type: {written.kind if stream else 'application/json'}")
    with Loopback() as server:
        server.answer(body)
        server.answer(body)
        url = address(server, written.at)
        theirs, mine = SDKS[written.at].ask(url, stream=stream), ours.ask(written.at, url, stream=stream)
    assert theirs == mine == written.said
