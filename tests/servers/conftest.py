"""What the suites on llmock have in common: one protocol after the other, and in the end llmock's verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from servers.llmock_protocols import Protocol, findings
from toolcast.llms.http_llm import ServiceLLM

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock


@pytest.fixture
def protocol(way: tuple[Any, Any]) -> Any:
    """The protocol of a suite's `way`."""
    return way[0]


@pytest.fixture(scope="module")
def plainly() -> Iterator[httpx.Client]:
    """Nothing but httpx."""
    with httpx.Client(headers={"authorization": "Bearer any"}) as client:
        yield client


@pytest.fixture
def low_dice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each own wait is a tenth of what it may be. Rolled dice could make the second the shorter one."""
    monkeypatch.setattr("random.random", lambda: 0.1)


@pytest.fixture
def server(low_dice: None, llmock: LLMock, plainly: httpx.Client) -> Iterator[LLMock]:
    """llmock, which at the end must report no `retry_after_ignored`, no `no_backoff`."""
    yield llmock
    assert findings(llmock, plainly) == [], llmock.verdict().render()


@pytest.fixture
def llm(protocol: Protocol, server: LLMock) -> Iterator[ServiceLLM]:
    """The ready-made LLM of the protocol, on llmock."""
    with protocol.llm(server) as made:
        yield made
