"""Applications: the command line, the terminal REPL, the web UI, the experiment commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cli import main as main
    from .web import make_app as make_app
else:
    from ..lazy.lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
