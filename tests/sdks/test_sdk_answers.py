"""toolcast beside the official SDKs: both are sent the same answer, written by hand, and both must read it right."""

from __future__ import annotations

import pytest

from sdks import ours
from sdks.addresses import at_loopback
from sdks.answers import ANSWERS
from sdks.official import SDKS
from support.loopback import Loopback, whole

pytestmark = pytest.mark.networked


@pytest.mark.gate("G15")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ANSWERS)
def test_both_read_it_alike(name: str, stream: bool) -> None:
    written = ANSWERS[name]
    body = whole(written.body(stream=stream), 200, f"content-type: {written.kind if stream else 'application/json'}")
    with Loopback() as server:
        server.answer(body)
        server.answer(body)
        url = at_loopback(server, written.at)
        theirs, mine = SDKS[written.at].ask(url, stream=stream), ours.ask(written.at, url, stream=stream)
    assert theirs == mine == written.decoded
