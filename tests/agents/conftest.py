"""Each way to run a turn of an engine, the fixture `turning`, to use elves, `ways`, and sessions, `talk`."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from support.engines import TURNINGS, Turning
from support.sessions import NAMES, TALKS, Door, Talk
from support.subagents import PATIENCE, Gate, Ways


@pytest.fixture(params=TURNINGS, ids=lambda turning: turning.name)
def turning(request: pytest.FixtureRequest) -> Turning:
    """Each way to run a turn in turn."""
    chosen: Turning = request.param
    return chosen


@pytest.fixture(params=["sync", "asyncio", "trio"])
def ways(request: pytest.FixtureRequest) -> Iterator[Ways]:
    """Each face in turn. Afterwards no elf, no tool and no alarm is left."""
    yield Ways(request.param)
    for thread in threading.enumerate():
        if thread.name.startswith(("elf-", "tool ")) or isinstance(thread, threading.Timer):
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open in the end."""
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture(params=TALKS, ids=NAMES)
def talk(request: pytest.FixtureRequest) -> Iterator[Talk]:
    """Each way to use a session in turn. Afterwards no turn goes on."""
    with request.param().running() as face:
        yield face
    for thread in threading.enumerate():
        if thread.name.startswith(("session ", "tool ")):
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def door() -> Iterator[Door]:
    """A tool that waits; it is let in at the end."""
    made = Door()
    yield made
    made.opened.set()
