"""One run of an elf: what it was told once, and the one result of that, however it ends.

A run ends well, with an error, cancelled, or out of time. One that does not stop when it should, because a tool of it
hangs, is given up: it has its result then, and what comes later is discarded.

Who waits for a run is known as long as it does, and by the context variables, which tasks, threads and tools all
inherit, it is known which elf that is. So an elf that would wait for ever, for itself or for one that waits for it, is
told so at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from threading import TIMEOUT_MAX, Lock, RLock, Timer, get_ident
from time import perf_counter
from typing import Any, Final, Literal, TypeAlias

from ...async_support.broadcast import Broadcast
from ...async_support.waiters import Waiters
from ...errors import IllegalState, TurnCancelled
from ...events import AgentEvent
from ...messages import Message
from ...turn import Turn
from ...usage import Usage
from ..engine.turn_loop import TurnFlow

GRACE: Final = 1.0
"""Seconds that a run has to stop, before it is given up."""

CHAIN: Final[ContextVar[tuple[str, ...]]] = ContextVar("toolcast_elves", default=("the program",))
"""Who works here: the program, the elf that it started, the elf which that one started, and so on."""

_waits: Final[list[tuple[str, str]]] = []  # who waits, and for whom: never in a circle
_waits_lock = Lock()

_INSTEAD: Final = "end your own task first, with what you know"

Outcome: TypeAlias = Literal["completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class ElfResult:
    """What came of a run: `output` is its last text, or the typed result. `duration` is in seconds.

    `status` is `completed`, `failed` or `cancelled`; where it is not the first, `error` says why.
    """

    id: str
    status: Outcome
    messages: tuple[Message, ...]
    usage: Usage
    output: Any
    error: BaseException | None
    duration: float


@dataclass(frozen=True, slots=True)
class ElfEvent:
    """What an elf does, as the turn that waits for it is told: the `data` of a `ToolProgress`."""

    id: str
    event: AgentEvent


class ElfRun:
    """A run of the elf `id`. `ended` is called once, just before everybody can see that there is a `result`.

    Without a `flow` it is that of an elf which is cancelled before it is told anything.
    """

    def __init__(self, id: str, flow: TurnFlow | None, typed: bool, ended: Callable[[Outcome], object]) -> None:
        self.result: ElfResult | None = None
        self.channel: Broadcast[AgentEvent] = Broadcast()
        self.thread: int = 0  # where it works, as far as that is known
        self._id = id
        self._flow = flow
        self._typed = typed
        self._ended = ended
        self._began = perf_counter()
        self._waiters = Waiters()
        self._lock = RLock()
        self._stopped: Exception | None = None  # why it is to end before it is done
        self._alarm: Timer | None = None

    async def work(self, timeout: float | None, tell: Callable[[AgentEvent], object] | None) -> None:
        """Do it, within `timeout` seconds; `tell` hears of every event."""
        assert self._flow is not None
        self.thread = get_ident()
        try:
            self._limit(timeout)
            while events := await self._flow.next_events():
                for event in events:
                    self.channel.put(event)
                    if tell is not None and self.result is None:
                        tell(event)
        except BaseException as error:
            self.abandon(error)
            raise
        self.end(self._flow.error)

    def abandon(self, error: BaseException) -> None:
        """Have it end here, where it could not begin, or nobody goes on with it."""
        assert self._flow is not None
        self._flow.abandon()
        self.end(error)

    def stop(self, error: Exception) -> None:
        """Have it end because of `error`, from any thread, and give it up if it does not."""
        with self._lock:
            if self.result is not None or self._stopped is not None:
                return
            self._stopped = error
            if self._flow is None:
                self.end(error)
                return
            self._ring(GRACE, partial(self.end, error))
        self._flow.cancellation.cancel()

    def end(self, error: BaseException | None) -> None:
        """Give it its result, if it has none yet."""
        with self._lock:
            if self.result is not None:
                return
            if error is not None:
                error = self._stopped or _told_of(error, self._id)
            turn: Turn[Any] = Turn() if self._flow is None else self._flow.turn
            output = turn.output if self._typed else turn.text
            seconds = perf_counter() - self._began
            result = ElfResult(self._id, _outcome(error), turn.messages, turn.usage, output, error, seconds)
            self._ended(result.status)
            self.result = result
            if self._alarm is not None:
                self._alarm.cancel()
        self.channel.close()
        self._waiters.wake()

    def wait(self, timeout: float | None = None) -> ElfResult:
        """The result, once there is one; this thread waits. `TimeoutError` after so many seconds."""
        with self.expected():
            if self.result is None and self.thread == get_ident():
                raise RuntimeError(f"{self._id} works in the thread that would wait for it; use `await` instead")
            self._waiters.block(self._is_over, timeout)
        if self.result is None:
            raise TimeoutError(f"{self._id} is still running after {timeout} seconds; cancel() ends it")
        return self.result

    async def awaited(self) -> ElfResult:
        """The result, once there is one; this task waits."""
        with self.expected():
            await self._waiters.suspend(self._is_over)
        assert self.result is not None
        return self.result

    @contextmanager
    def expected(self) -> Generator[None]:
        """While this holds, who works here waits for the result. Raises `IllegalState` where it would never come."""
        if self.result is not None:
            yield
            return
        *above, who = CHAIN.get()
        if self._id in above:
            raise IllegalState(f"{who} may not wait for {self._id}, which it works for; {_INSTEAD}")
        with waiting_for(self._id):
            yield

    def _is_over(self) -> bool:
        return self.result is not None

    def _limit(self, timeout: float | None) -> None:
        with self._lock:
            if timeout is not None and self._stopped is None:
                late = TimeoutError(f"{self._id} was not done after {timeout:g} seconds; give it more timeout=")
                self._ring(timeout, partial(self.stop, late))

    def _ring(self, seconds: float, call: Callable[[], object]) -> None:
        """Have `call` made after so many seconds, and no other any more."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = Timer(min(seconds, TIMEOUT_MAX), call)
        self._alarm.daemon = True
        self._alarm.start()


@contextmanager
def waiting_for(id: str) -> Generator[None]:
    """While this holds, who works here waits for the elf `id`. Raises `IllegalState` where that waits for it."""
    who = CHAIN.get()[-1]
    with _waits_lock:
        if _waits_for(id, who):
            whom = "itself" if id == who else f"{id}, which waits for it"
            raise IllegalState(f"{who} may not wait for {whom}; {_INSTEAD}")
        _waits.append((who, id))
    try:
        yield
    finally:
        with _waits_lock:
            _waits.remove((who, id))


def _waits_for(one: str, other: str) -> bool:
    """Whether `one` is `other`, or waits for it, by way of however many."""
    return one == other or any(_waits_for(whom, other) for who, whom in _waits if who == one)


def _told_of(error: BaseException, id: str) -> BaseException:
    """`error`, or in words what it means, where it is how an event loop cancels."""
    if isinstance(error, (Exception, SystemExit, KeyboardInterrupt)):
        return error
    cancelled = TurnCancelled(f"{id} was cancelled: the task or the event loop in which it worked has ended")
    cancelled.__cause__ = error
    return cancelled


def _outcome(error: BaseException | None) -> Outcome:
    if error is None:
        return "completed"
    failed = isinstance(error, (Exception, SystemExit)) and not isinstance(error, TurnCancelled)
    return "failed" if failed else "cancelled"
