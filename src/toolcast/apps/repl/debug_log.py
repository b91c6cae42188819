"""What `toolcast chat --debug` writes to stderr: requests and their sizes, states, tracebacks. Never what was said."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TextIO

from ...agents.engine.engine import Engine
from ...agents.engine.history import estimate_tokens

logger: Final = logging.getLogger("toolcast")

_FLEETING: Final = frozenset(("streaming_response", "routing", "thinking", "tool_execution", "content_output"))
"""States of the loop that come with every event: too many for a log."""


@contextmanager
def logging_to(stream: TextIO | None) -> Generator[None]:
    """Inside, the library's log goes to `stream`; without one nowhere, as a stray line would spoil the screen."""
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
        logger.level, logger.propagate = before


def log_turn(engine: Engine, state: str) -> None:
    """A state of a turn, and the size of the request that it begins with."""
    logger.debug("turn: %s", state)
    if state == "streaming":
        known, history = engine.llm.metadata, engine.history
        logger.debug(
            "request to %s %s: %d messages, about %d tokens, %d tools",
            *(known.provider, known.model_name, len(history), estimate_tokens(history), len(engine.tools)),
        )


def log_loop(id: str, state: str) -> None:
    """A state of the loop."""
    if state not in _FLEETING:
        logger.debug("repl: %s", state)


def log_failure(error: BaseException) -> None:
    """Where an error came from."""
    logger.debug("%s", "".join(traceback.format_exception(error)).rstrip())
