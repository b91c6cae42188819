"""`toolcast web`: a page in the browser that shows one chat, over server-sent events.

    from toolcast.apps.web import make_app

`make_app(machine, token=...)` is an ASGI application around an `AsyncChatMachine`. Needs `pip install 'toolcast[web]'`.
"""

from .web_server import make_app

__all__ = ["make_app"]
