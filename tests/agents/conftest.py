"""The fixtures `engine_api`, `subagent_api` and `session_api`: each API in turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from support.engines import ENGINE_APIS, EngineAPI
from support.sessions import NAMES, SESSION_APIS, BlockingTool, SessionAPI
from support.subagents import PATIENCE, Gate, SubagentAPI


@pytest.fixture(params=ENGINE_APIS, ids=lambda engine_api: engine_api.name)
def engine_api(request: pytest.FixtureRequest) -> EngineAPI:
    """Return each API of the engine in turn."""
    chosen: EngineAPI = request.param
    return chosen


@pytest.fixture(params=["sync", "asyncio", "trio"])
def subagent_api(request: pytest.FixtureRequest) -> Iterator[SubagentAPI]:
    """Yield each API of elves in turn; then check that no thread of an elf, a tool or a timer is left."""
    yield SubagentAPI(request.param)
    for thread in threading.enumerate():
        if thread.name.startswith(("elf-", "tool ")) or isinstance(thread, threading.Timer):
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Yield a gate, which is opened at the end."""
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture(params=SESSION_APIS, ids=NAMES)
def session_api(request: pytest.FixtureRequest) -> Iterator[SessionAPI]:
    """Yield each API of sessions in turn; then check that no turn goes on."""
    with request.param().running() as api:
        yield api
    for thread in threading.enumerate():
        if thread.name.startswith(("session ", "tool ")):
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def blocking_tool() -> Iterator[BlockingTool]:
    """Yield a tool that blocks until the end of the test."""
    made = BlockingTool()
    yield made
    made.release()
