"""An ASGI app for the front ends of others: agents and structured calls over AG-UI, Vercel's AI SDK, OpenAI's protocol.

    app = toolcast.serve.app(engine, authorize=user_of)

`authorize` returns the user of a request, whose sessions, limits and budget are their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ag_ui import AGUIProtocol as AGUIProtocol
    from .app_factory import app as app
    from .openai import OpenAIProtocol as OpenAIProtocol
    from .protocol import (
        FrontEndProtocol as FrontEndProtocol,
        PublicError as PublicError,
        RequestError as RequestError,
        ResponseEncoder as ResponseEncoder,
        RunInput as RunInput,
    )
    from .serve_options import (
        Authorize as Authorize,
        Principal as Principal,
        ServeOptions as ServeOptions,
        SessionFactory as SessionFactory,
        allow_all as allow_all,
    )
    from .user_limits import RequestLimits as RequestLimits
    from .vercel import VercelProtocol as VercelProtocol
else:
    from ..lazy.lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
