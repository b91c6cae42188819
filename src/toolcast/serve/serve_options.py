"""The options of `toolcast.serve.app`, and `allow_all`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict

from ..agents.sessions.session import Session
from ..values.budgets import Budget
from .protocol import FrontEndProtocol
from .user_limits import BudgetOf, RequestLimits

if TYPE_CHECKING:
    from starlette.requests import Request

Principal: TypeAlias = Hashable
"""The user of a request, as `authorize` returns it: the user's id, for example."""

Authorize: TypeAlias = "Callable[[Request], Principal | Awaitable[Principal]]"
"""A function that returns the user of a request, or None for an unknown one: sync or async."""

SessionFactory: TypeAlias = Callable[[Any, str], "Session[Any] | Awaitable[Session[Any]]"]
"""A function of the user and the id of a thread that opens its session: sync or async."""

PROTOCOLS = ("ag-ui", "vercel", "openai")


class ServeOptions(TypedDict, total=False):
    """Options of `toolcast.serve.app`.

    Attributes:
        authorize: A function of the request, sync or async, that returns its user, for example the user's id. None is
            an unknown user (401), `PermissionError` one who may not do this (403).
        protocols: The protocols of front ends, by name or as `FrontEndProtocol`. Default: all three.
        hosts: The Host headers that are served beside those of the loopback interface: `["api.example.com"]`; `["*"]`
            serves all.
        deps: A function of the user that returns the dependencies of a run, sync or async.
        limits: The limits of requests.
        budget: The limit of what each user may spend as long as the app runs: a `Budget`, or a function of the user
            that returns one, or None for no limit. It is called for each run.
        max_sessions: The number of sessions that stay open; the idle one that was used longest ago is closed first.
            Default: 1000.
        keep_alive: Seconds after which a comment is sent, so that proxies keep the connection. Default: 15.
    """

    authorize: Required[Authorize]
    protocols: Sequence[str | FrontEndProtocol]
    hosts: Sequence[str]
    deps: Callable[[Any], Any] | None
    limits: RequestLimits
    budget: Budget | BudgetOf | None
    max_sessions: int
    keep_alive: float


def allow_all(request: Request) -> str:
    """Return the same user for every request. The app then serves only clients on this machine.

    That is a client with an address of the loopback interface, and a Host header that names it. Requests that a proxy
    forwarded, and those of pages from other sites, are refused.
    """
    return "anyone"
