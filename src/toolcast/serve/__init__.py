"""An ASGI app for the front ends of others: agents and structured calls over AG-UI, Vercel's AI SDK, OpenAI's protocol.

    app = toolcast.serve.app(engine, authorize=user_of)

`authorize` returns the user of a request, whose sessions, limits and budget are their own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ag_ui import AGUIProtocol as AGUIProtocol
    from .factory import app as app
    from .limits import RequestLimits as RequestLimits
    from .openai import OpenAIProtocol as OpenAIProtocol
    from .options import (
        Authorize as Authorize,
        Principal as Principal,
        ServeOptions as ServeOptions,
        SessionFactory as SessionFactory,
        allow_all as allow_all,
    )
    from .protocol import (
        FrontEndProtocol as FrontEndProtocol,
        PublicError as PublicError,
        RequestError as RequestError,
        ResponseEncoder as ResponseEncoder,
        RunInput as RunInput,
    )
    from .vercel import VercelProtocol as VercelProtocol

_EXPORTS = {
    "ag_ui": "AGUIProtocol",
    "factory": "app",
    "limits": "RequestLimits",
    "options": "Authorize Principal ServeOptions SessionFactory allow_all",
    "openai": "OpenAIProtocol",
    "protocol": "FrontEndProtocol PublicError RequestError ResponseEncoder RunInput",
    "vercel": "VercelProtocol",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

# Written out, because type checkers read no other form.
__all__ = [
    "AGUIProtocol",
    "Authorize",
    "FrontEndProtocol",
    "OpenAIProtocol",
    "Principal",
    "PublicError",
    "RequestError",
    "RequestLimits",
    "ResponseEncoder",
    "RunInput",
    "ServeOptions",
    "SessionFactory",
    "VercelProtocol",
    "allow_all",
    "app",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
