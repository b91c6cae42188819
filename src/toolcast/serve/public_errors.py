"""Errors as a client may see them. The text of a service, of a tool or of an exception is only logged, with an id."""

from __future__ import annotations

import logging
from secrets import token_hex
from typing import Final

from ..errors import (
    BudgetExceeded,
    CallError,
    ContentBlocked,
    ContextTooLong,
    IllegalState,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    Refused,
    SessionLocked,
    Timeout,
    TurnCancelled,
    TurnFailed,
    TurnStopped,
)
from .protocol import PublicError, RequestError
from .user_limits import RequestRefused

logger: Final = logging.getLogger("toolcast")

CANCELLED: Final = "cancelled"
"""The code of a run that was stopped."""

_EXPECTED: Final[tuple[tuple[type[Exception], PublicError], ...]] = (
    (TurnCancelled, PublicError(499, CANCELLED, "the run was stopped")),
    (IllegalState, PublicError(409, "busy", "the thread has a run in progress: follow it, or stop it")),
    (SessionLocked, PublicError(409, "busy", "the thread is open in another process")),
    (BudgetExceeded, PublicError(402, "budget_exceeded", "a budget is used up: the run was stopped")),
    (TurnStopped, PublicError(500, "limit_reached", "the run reached a limit of the agent: it was stopped")),
)
"""Errors in the normal course of things: they are not logged."""

_LOGGED: Final[tuple[tuple[type[Exception], int, str, str], ...]] = (
    (TurnFailed, 500, "tool_failed", "a tool ended the run"),
    (ContextTooLong, 413, "context_too_long", "the conversation is too long for the model"),
    (ContentBlocked, 422, "content_blocked", "the model's service blocked the request or its response"),
    (Refused, 422, "refused", "the model refused to respond"),
    (Timeout, 504, "model_timeout", "the model did not respond in time"),
    (RateLimited, 503, "model_busy", "the model's service is busy: try again later"),
    (QuotaExceeded, 503, "model_busy", "the model's service is not available at the moment"),
    (Overloaded, 503, "model_busy", "the model's service is busy: try again later"),
    (CallError, 502, "model_error", "the request to the model failed"),
)


def public_error(error: BaseException) -> PublicError:
    """Return an error as a client may see it. One that is not expected is logged with the id in its message."""
    if isinstance(error, RequestRefused):
        return error.error
    if isinstance(error, RequestError):
        return PublicError(400, "invalid_request", str(error))
    for expected, shown in _EXPECTED:
        if isinstance(error, expected):
            return shown
    status, code, message = next(
        ((status, code, message) for kind, status, code, message in _LOGGED if isinstance(error, kind)),
        (500, "internal_error", "an internal error occurred"),
    )
    id = token_hex(4)
    logger.error("error %s of a served run: %s", id, type(error).__name__, exc_info=error)
    return PublicError(status, code, f"{message} (error {id})")
