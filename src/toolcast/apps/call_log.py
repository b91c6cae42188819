"""The log of `toolcast get`: each call is a session of one turn in the store of the chats, so `toolcast logs` shows it.

The log is complete: the prompt with the text, each answer, and tokens with their cost. A store that cannot be written
is a warning, not an error: the result has been printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from ..agents.engine.session_state import SessionState, difference, opened_record
from ..errors import ToolcastError
from ..events import ChatResponse
from ..messages import Message
from ..values.hooks import CallInfo, Hooks, RequestInfo, hooks
from ..values.usage import NO_USAGE, Usage
from .config_file import data_dir, sessions_file
from .output import command_line_text

GET_MODE: Final = "get"
"""The detail `mode` of such a session."""
_LONGEST_TITLE: Final = 80
_LONGEST_ERROR: Final = 500


def clean_title(title: str) -> str:
    """Return the title of a session on one line, shortened."""
    line = " ".join(title.split())
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1].rstrip()}…"


class CallRecorder(Hooks):
    """The messages, usage and end of one structured call.

    Attributes:
        model: The model as `provider:model`; empty before the first request.
        messages: The messages of the last request, and its response if one has come.
        usage: The sum over all requests.
        end_reason: The stop reason of the response, `error` or `cancelled`; None without a response.
        problem: The message of the error; empty without one.
        seconds: How long the call took.
    """

    def __init__(self) -> None:
        self.model: str = ""
        self.messages: tuple[Message, ...] = ()
        self.usage: Usage = NO_USAGE
        self.end_reason: str | None = None
        self.problem: str = ""
        self.seconds: float = 0.0

    def request(self, call: CallInfo, request: RequestInfo) -> None:
        """Record the messages of a request."""
        self.model = f"{call.provider}:{call.model}"
        self.messages = request.messages

    def response(self, call: CallInfo, response: ChatResponse, seconds: float) -> None:
        """Record a response."""
        self.messages = (*self.messages, response.message)
        self.end_reason = response.stop_reason

    def error(self, call: CallInfo, error: BaseException) -> None:
        """Record that the call failed."""
        self.end_reason = "error" if isinstance(error, Exception) else "cancelled"
        self.problem = command_line_text(error)[:_LONGEST_ERROR]

    def end(self, call: CallInfo, usage: Usage, seconds: float) -> None:
        """Record the usage of the call."""
        self.usage, self.seconds = usage, seconds


@contextmanager
def logged_call(title: str, *, enabled: bool = True) -> Generator[None]:
    """Log the structured call inside the block under `title`, which is shortened, however it ends.

    A call that sends no request is not logged.
    """
    if not enabled:
        yield
        return
    recorder, begun = CallRecorder(), time.time()
    try:
        with hooks(recorder):
            yield
    finally:
        if recorder.messages:
            _write(recorder, title, begun)


def _write(recorder: CallRecorder, title: str, begun: float) -> None:
    from ..stores.sqlite_store import SQLiteStore  # nothing else of `get` needs SQLite

    id = f"get-{datetime.fromtimestamp(begun):%Y%m%d-%H%M%S}-{uuid4().hex[:4]}"
    details = {
        "title": clean_title(title),
        "directory": str(Path.cwd()),
        "model": recorder.model,
        "mode": GET_MODE,
        "updated": time.time(),
        "seconds": round(recorder.seconds, 3),
        **({"error": recorder.problem} if recorder.problem else {}),
    }
    state = SessionState(id, begun, history=recorder.messages, usage=recorder.usage, turns=1, end=recorder.end_reason)
    records = [opened_record(id, begun, details), *difference(SessionState(id, begun), state)]
    try:
        with SQLiteStore(sessions_file(data_dir())) as store:
            store.append(id, records)
    except ToolcastError as error:
        with suppress(OSError):
            print(f"toolcast: this call was not logged: {command_line_text(error)}", file=sys.stderr)
