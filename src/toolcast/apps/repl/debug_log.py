"""The log of `toolcast chat --debug` on stderr: requests and their sizes, states, tracebacks; no message texts."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TextIO

from ...agents.engine.engine import Engine
from ...agents.engine.history import estimate_tokens

logger: Final = logging.getLogger("toolcast")

_PER_EVENT_STATES: Final = frozenset(("streaming_response", "routing", "thinking", "tool_execution", "content_output"))
"""States of the loop that occur with every event: too many for a log."""


@contextmanager
def logging_to(stream: TextIO | None) -> Generator[None]:
    """Send the library's log to `stream`, or with None discard it, because a log line would disturb the screen."""
    handler = logging.NullHandler() if stream is None else logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    if stream is not None:
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before[1]
        logger.setLevel(before[0])  # the attribute alone would leave what the logger has cached


def log_turn(engine: Engine, state: str) -> None:
    """Log a state of a turn, and the size of the request that starts with it."""
    logger.debug("turn: %s", state)
    if state == "streaming":
        known, history = engine.llm.metadata, engine.history
        logger.debug(
            "request to %s %s: %d messages, about %d tokens, %d tools",
            *(known.provider, known.model_name, len(history), estimate_tokens(history), len(engine.tools)),
        )


def log_loop(id: str, state: str) -> None:
    """Log a state of the loop."""
    if state not in _PER_EVENT_STATES:
        logger.debug("repl: %s", state)


def log_failure(error: BaseException) -> None:
    """Log the traceback of an error."""
    logger.debug("%s", "".join(traceback.format_exception(error)).rstrip())
