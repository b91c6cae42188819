"""`capture_calls`: the requests of a block and their responses."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

from ..events import ChatResponse
from ..lazy.lazy_dataclasses import dataclass
from ..values.hooks import CallInfo, Hooks, RequestInfo, hooks


@dataclass(slots=True)
class CapturedCall:
    """A request to a model and its outcome.

    Attributes:
        call: The operation that the request belongs to; `call.attempt` is its number there.
        request: The request: `messages`, `tools`, `settings`, and `http` without credentials.
        response: The complete response; None if there is none (yet).
        error: The error of the request, or the error that ended its operation after it. None without one.
    """

    call: CallInfo
    request: RequestInfo
    response: ChatResponse | None = None
    error: BaseException | None = None


class _Capture(Hooks):
    """Hooks that append to a list."""

    def __init__(self) -> None:
        self.calls: list[CapturedCall] = []
        self._lock = Lock()

    def request(self, call: CallInfo, request: RequestInfo) -> None:
        """Append the request."""
        with self._lock:
            self.calls.append(CapturedCall(call, request))

    def response(self, call: CallInfo, response: ChatResponse, seconds: float) -> None:
        """Set the response of the last request of the operation."""
        for captured in self._last(call):
            captured.response = response

    def retry(self, call: CallInfo, error: Exception, wait: float) -> None:
        """Set the error of the last request of the operation."""
        for captured in self._last(call):
            captured.error = error

    def error(self, call: CallInfo, error: BaseException) -> None:
        """Set the error of the last request of the operation, or of a turn's request without a response."""
        for captured in self._last(call) or self._last(call, of_turn=True):
            captured.error = error

    def _last(self, call: CallInfo, *, of_turn: bool = False) -> list[CapturedCall]:
        """Return the last request of an operation, or of those that are part of a turn and have no outcome yet."""
        with self._lock:
            if of_turn:
                found = [each for each in self.calls if each.call.parent == call.id]
                found = [each for each in found[-1:] if each.response is None and each.error is None]
            else:
                found = [each for each in self.calls if each.call.id == call.id]
            return found[-1:]


@contextmanager
def capture_calls() -> Generator[list[CapturedCall]]:
    """Capture every request to a model inside the block, of all threads and tasks, with its response or error.

    Returns:
        A context manager, which returns the list on entry. A request is in it from the moment when it is sent, so a
            failed test can look at those that were not answered.
    """
    capture = _Capture()
    with hooks.add(capture):
        yield capture.calls
