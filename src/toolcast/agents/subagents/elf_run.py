"""`ElfRun`: one run of an elf, from its message to its one result.

A run ends with an output, with an error, cancelled, or out of time. One that does not stop in time, because one of its
tools hangs, is abandoned: it gets its result then, and later events are discarded.

Detection of deadlocks between sub-agents: elves that wait for themselves, or for each other in a circle.

Waiting elves are registered, and a context variable, which tasks, threads and tools inherit, has the current elf. So a
wait that would never end raises at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from functools import partial
from threading import TIMEOUT_MAX, Lock, RLock, Timer, get_ident
from time import perf_counter
from typing import Any, Final, Literal, TypeAlias

from ...async_support.broadcast import Broadcast
from ...async_support.waiters import Waiters
from ...errors import IllegalState, TurnCancelled
from ...events import AgentEvent
from ...lazy.lazy_dataclasses import dataclass
from ...messages import Message
from ...values.turn import Turn, TurnEnd
from ...values.usage import Usage
from ..engine.turn_loop import TurnLoop

ELF_CHAIN: Final[ContextVar[tuple[str, ...]]] = ContextVar("toolcast_elves", default=("the program",))
"""The ids of the current elf and of those that started it, the program first."""

_waits: Final[list[tuple[str, str]]] = []  # (waiting elf, elf it waits for): never a cycle
_waits_lock = Lock()

END_FIRST: Final = "end your own task first, with what you know"


@contextmanager
def waiting_for(id: str) -> Generator[None]:
    """Register the current elf as waiting for the elf `id`; raise `IllegalState` if that waits for it."""
    who = ELF_CHAIN.get()[-1]
    with _waits_lock:
        if _is_waiting_for(id, who):
            target = "itself" if id == who else f"{id}, which waits for it"
            raise IllegalState(f"{who} may not wait for {target}; {END_FIRST}")
        _waits.append((who, id))
    try:
        yield
    finally:
        with _waits_lock:
            _waits.remove((who, id))


def _is_waiting_for(one: str, other: str) -> bool:
    """Return True if `one` is `other`, or waits for it, directly or through others."""
    return one == other or any(_is_waiting_for(target, other) for who, target in _waits if who == one)


GRACE: Final = 1.0
"""Seconds that a run has to stop, before it is given up."""

ElfOutcome: TypeAlias = Literal["completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class ElfResult:
    """The result of a run: `output` is its last text, or the typed result. `duration` is in seconds.

    `status` is `completed`, `failed` or `cancelled`; `error` is the reason of the last two. `end` is how the last turn
    ended, as in `Turn`: the text of a completed run may be cut off (`max_tokens`) or refused (`refusal`).
    """

    id: str
    status: ElfOutcome
    messages: tuple[Message, ...]
    usage: Usage
    output: Any
    error: BaseException | None
    duration: float
    end: TurnEnd = "end_turn"


@dataclass(frozen=True, slots=True)
class ElfEvent:
    """An event of an elf, as `ToolProgress.data` in the turn that waits for it.

    Attributes:
        id: The id of the elf.
        event: The event.
        task: The prompt of the elf's configuration.
    """

    id: str
    event: AgentEvent
    task: str = field(default="", compare=False, repr=False)


class ElfRun:
    """A run of the elf `id`. `ended` is called once, just before the `result` is visible.

    Without a `turn_loop` it is the run of an elf that was cancelled before its first message.
    """

    def __init__(self, id: str, turn_loop: TurnLoop | None, typed: bool, ended: Callable[[ElfOutcome], object]) -> None:
        self.result: ElfResult | None = None
        self.channel: Broadcast[AgentEvent] = Broadcast()
        self.thread: int = 0  # its thread, once it has begun
        self._id = id
        self._turn_loop = turn_loop
        self._typed = typed
        self._ended = ended
        self._began = perf_counter()
        self._waiters = Waiters()
        self._lock = RLock()
        self._stopped: Exception | None = None  # the reason to end early
        self._timer: Timer | None = None

    async def work(self, timeout: float | None, on_event: Callable[[AgentEvent], object] | None) -> None:
        """Run the turn, within `timeout` seconds; `on_event` is called with every event."""
        assert self._turn_loop is not None
        self.thread = get_ident()
        try:
            self._limit(timeout)
            while events := await self._turn_loop.next_events():
                for event in events:
                    self.channel.put(event)
                    if on_event is not None and self.result is None:
                        on_event(event)
        except BaseException as error:
            self.abandon(error)
            raise
        self.end(self._turn_loop.error)

    def abandon(self, error: BaseException) -> None:
        """End a run that could not begin, or that no thread continues."""
        assert self._turn_loop is not None
        self._turn_loop.abandon()
        self.end(error)

    def stop(self, error: Exception) -> None:
        """End the run with `error`, from any thread; abandon it if it does not stop in time."""
        with self._lock:
            if self.result is not None or self._stopped is not None:
                return
            self._stopped = error
            if self._turn_loop is None:
                self.end(error)
                return
            self._start_timer(GRACE, partial(self.end, error))
        self._turn_loop.cancellation.cancel()

    def end(self, error: BaseException | None) -> None:
        """Set the result, unless there is one already."""
        with self._lock:
            if self.result is not None:
                return
            if error is not None:
                if isinstance(self._stopped, TurnCancelled) and isinstance(error, TurnCancelled):
                    self._stopped.__dict__.update(error.__dict__)  # the turn and its requests
                error = self._stopped or _as_exception(error, self._id)
            turn: Turn[Any] = Turn() if self._turn_loop is None else self._turn_loop.turn
            output = turn.typed_output if self._typed else turn.text
            seconds = perf_counter() - self._began
            result = ElfResult(self._id, _outcome(error), turn.messages, turn.usage, output, error, seconds, turn.end)
            self._ended(result.status)
            self.result = result
            if self._timer is not None:
                self._timer.cancel()
        self.channel.close()
        self._waiters.wake()

    def wait(self, timeout: float | None = None) -> ElfResult:
        """Block this thread until there is a result and return it. `TimeoutError` after `timeout` seconds."""
        with self.expected():
            if self.result is None and self.thread == get_ident():
                raise RuntimeError(f"{self._id} works in the thread that would wait for it; use `await` instead")
            self._waiters.block(self._is_over, timeout)
        if self.result is None:
            raise TimeoutError(f"{self._id} is still running after {timeout} seconds; cancel() ends it")
        return self.result

    async def awaited(self) -> ElfResult:
        """Wait in this task until there is a result and return it."""
        with self.expected():
            await self._waiters.suspend(self._is_over)
        assert self.result is not None
        return self.result

    @contextmanager
    def expected(self) -> Generator[None]:
        """Register the current elf as waiting for the result; raise `IllegalState` if it would never come."""
        if self.result is not None:
            yield
            return
        *above, who = ELF_CHAIN.get()
        if self._id in above:
            raise IllegalState(f"{who} may not wait for {self._id}, which it works for; {END_FIRST}")
        with waiting_for(self._id):
            yield

    def _is_over(self) -> bool:
        return self.result is not None

    def _limit(self, timeout: float | None) -> None:
        with self._lock:
            if timeout is not None and self._stopped is None:
                late = TimeoutError(f"{self._id} was not done after {timeout:g} seconds; give it more timeout=")
                self._start_timer(timeout, partial(self.stop, late))

    def _start_timer(self, seconds: float, call: Callable[[], object]) -> None:
        """Call `call` after so many seconds, in place of an earlier timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = Timer(min(seconds, TIMEOUT_MAX), call)
        self._timer.daemon = True
        self._timer.start()


def _as_exception(error: BaseException, id: str) -> BaseException:
    """Return `error`, or a `TurnCancelled` if it is the cancellation of an event loop."""
    if isinstance(error, (Exception, SystemExit, KeyboardInterrupt)):
        return error
    cancelled = TurnCancelled(f"{id} was cancelled: the task or the event loop in which it worked has ended")
    cancelled.__cause__ = error
    return cancelled


def _outcome(error: BaseException | None) -> ElfOutcome:
    if error is None:
        return "completed"
    failed = isinstance(error, (Exception, SystemExit)) and not isinstance(error, TurnCancelled)
    return "failed" if failed else "cancelled"
