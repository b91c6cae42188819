"""The base URL that the SDK of each protocol and toolcast get."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sdks.written import Written
from support.loopback import Loopback, whole

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock


def at_llmock(llmock: LLMock, protocol: str) -> str:
    """The address at llmock."""
    return str(llmock.base_url({"responses": "openai"}.get(protocol, protocol)))


def at_loopback(server: Loopback, protocol: str) -> str:
    """The address at a server of our own."""
    return f"http://{urlsplit(server.url).netloc}" + ("/v1" if protocol in ("openai", "responses", "mistral") else "")


def streamed_twice(server: Loopback, written: Written, events: list[bytes]) -> str:
    """The address at which these events are the answer to two requests."""
    for _ in range(2):
        server.answer(whole(b"".join(events), 200, f"content-type: {written.kind}"))
    return at_loopback(server, written.at)
