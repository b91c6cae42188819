"""`app`. Nothing here needs starlette before it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from ..agents.agent import Agent
from ..agents.engine.engine import Engine
from ..agents.sessions.session import Session
from ..structured.orchestrator import ToolOrchestratingLLM
from ..values.option_suggestions import refuse_unknown
from ..values.option_types import require_callable
from .serve_options import ServeOptions, SessionFactory

if TYPE_CHECKING:
    from starlette.applications import Starlette

_OPTIONS = tuple(ServeOptions.__annotations__)


def app(
    target: Agent[Any, Any] | Engine[Any, Any] | ToolOrchestratingLLM[Any] | SessionFactory,
    /,
    **options: Unpack[ServeOptions],
) -> Starlette:
    """Return an ASGI app that serves an agent or a structured call to front ends. It can be mounted in another app.

    Args:
        target: One of these:

            * An `Agent` or an engine. Each request is a conversation of its own: the client's texts are its history,
              and a client that disconnects cancels the run.
            * A function of the user and the id of a thread that opens its `Session`, sync or async. The session's log
              is the history; a run goes on without its client, which can resume the stream, stop the run, and decide
              about tool calls.
            * A `ToolOrchestratingLLM`. The stream has the changes of the growing object.

    Raises:
        ImportError: starlette is not installed (`pip install 'toolcast[web]'`).
        TypeError: The target is none of these, or there is no `authorize`.

    Example:
        ```python
        def user_of(request):
            return users_by_token.get(request.headers.get("authorization"))

        app = toolcast.serve.app(agent, authorize=user_of, hosts=["api.example.com"])
        ```
    """
    refuse_unknown("toolcast.serve.app", options, _OPTIONS)
    if "authorize" not in options:
        raise TypeError(
            "authorize= is missing: pass a function of the request that returns its user, "
            "or toolcast.serve.allow_all to serve every client on this machine"
        )
    require_callable("authorize", options["authorize"], "a function of the request that returns its user")
    if isinstance(target, Session):
        raise TypeError(
            "expected an Agent, a ToolOrchestratingLLM or a function that opens a session, got one Session: "
            "it belongs to one user and thread; pass a function: lambda user, thread: Session(agent, id=thread)"
        )
    if not callable(target) and not isinstance(target, (Agent, Engine)):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise TypeError(
            "expected an Agent, an Engine, a ToolOrchestratingLLM or a function of (user, thread) that opens a "
            f"session, got {type(target).__name__}"
        )
    try:
        from .routes import make_app  # starlette is an extra: it is loaded when an app is made
    except ImportError as error:
        raise ImportError(f"toolcast.serve needs starlette ({error}): pip install 'toolcast[web]'") from error
    return make_app(target, options)
