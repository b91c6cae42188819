"""`RecordingLLM`: a file with every request and its response, as lines of JSON."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Final

from ...events import Event
from ...stores.store import wrap_os_errors
from ...text.json_text import json_text
from ...values.accumulator import Accumulator
from ...values.hooks import Hooks
from ..client import LLMClient, client_of
from ..function_calling_llm import FunctionCallingLLM
from ..request import ChatRequest
from .wrapper_llm import Next, UnchangedClient, WrapperLLM

logger: Final = logging.getLogger("toolcast")

_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


class RecordingLLM(WrapperLLM):
    """An LLM whose requests and responses are appended to a file, each pair as one line of JSON.

    A line has the `time`, the `seconds`, `provider` and `model`, the `request` and the `response`, as far as it has
    arrived; a failed request has its `error`, and a stream that was closed early `closed`. There are no credentials in
    it, but everything that the messages and answers contain. A new file can be read by its owner alone. Wrapped by a
    `FallbackLLM` or a `CachedLLM` it records the requests that reach it.

    Args:
        llm: The LLM that is recorded, or its name.
        path: The file. Its folder must exist.
        hooks: Hooks of its calls.
        max_concurrency: The number of responses at once; None is no limit.

    Raises:
        ToolcastError: The file cannot be written.
    """

    __toolcast_client__: ClassVar[type[LLMClient[Any]]] = UnchangedClient

    def __init__(
        self,
        llm: FunctionCallingLLM | str,
        path: str | os.PathLike[str],
        *,
        hooks: Sequence[Hooks] | Hooks | None = None,
        max_concurrency: int | None = None,
    ) -> None:
        super().__init__(llm, hooks=hooks, max_concurrency=max_concurrency)
        self.path: Path = Path(path).resolve()
        self._lock = Lock()
        with wrap_os_errors(self.path):
            self._append(b"")  # a file that cannot be written is an error here, and not in a call

    async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        """Yield the events of the wrapped LLM, and write them down at their end."""
        backend, folded = call_next.backend, Accumulator()
        began, line = backend.now(), {"time": datetime.fromtimestamp(backend.time(), UTC).isoformat()}
        end: dict[str, Any] = {}
        origin = client_of(self).origin
        try:
            async for event in call_next(request):
                folded.apply(event)
                yield event
        except GeneratorExit:
            end = {"closed": True}
            raise
        except BaseException as error:
            end = {"error": {"type": type(error).__name__, "message": str(error)}}
            raise
        finally:
            response = folded.response(request_id=call_next.request_id, **origin)
            self._write(
                {
                    **line,
                    "seconds": round(backend.now() - began, 6),
                    **origin,
                    "request": {**request.to_dict(), "stream": request.stream},
                    "response": response.to_dict() if folded.has_content or folded.finish else None,
                    **end,
                }
            )

    def cache_data(self, request: ChatRequest) -> list[Any]:
        """Return the data that a cached answer is found by: those of the wrapped LLM, which gets the same request."""
        return client_of(self.llm).cache_data(request)

    def _write(self, line: dict[str, Any]) -> None:
        try:
            self._append(f"{json_text(line, fallback=repr)}\n".encode())
        except (OSError, ValueError) as error:
            logger.error("a request was not recorded in %s: %s", self.path, error)

    def _append(self, data: bytes) -> None:
        # One write at the end of the file, so that the lines of several processes do not mix.
        with self._lock:
            fd = os.open(self.path, _FLAGS, 0o600)
            try:
                os.write(fd, data)
            finally:
                os.close(fd)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._lock = Lock()
