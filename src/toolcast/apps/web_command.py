"""`toolcast web`: a chat in the browser, with the embedded model if no other is named."""

from __future__ import annotations

import argparse
import sys

_MODES = ("plan", "build", "verify", "auto")


def arguments(parser: argparse.ArgumentParser) -> None:
    """What may stand on the command line."""
    option = parser.add_argument
    option("--model", metavar="NAME", help="provider:model, or a model of Ollama; default: OLLAMA_MODEL, or embedded")
    option("--tools", metavar="FILE", help="a Python file: the model is offered its functions")
    option("--mode", choices=_MODES, help="what the model may do; default: build")
    option("--system", metavar="TEXT", default="", help="what the model is told first")
    option("--host", metavar="HOST", default="127.0.0.1", help="where to listen; default: 127.0.0.1, this machine only")
    option("--port", metavar="PORT", type=_port, default=8765, help="default: 8765; 0 takes any free port")
    option("--no-browser", action="store_true", help="print the address, and open nothing")


def run(arguments: argparse.Namespace) -> int:
    """The exit code. The page's address is printed; 130 and 143 after Ctrl-C and SIGTERM, which end the server."""
    import asyncio

    try:
        from .web.startup import WebOptions, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        message = "toolcast web needs starlette and uvicorn: pip install 'toolcast[web]'"
        raise ImportError(message, name=error.name) from error
    names = WebOptions.__dataclass_fields__
    options = WebOptions(**{name: value for name, value in vars(arguments).items() if name in names})
    if options.is_open:
        print(
            f"toolcast: {options.host} can be reached by others: whoever has the address of the page can use the chat "
            "and its tools, and the connection is not encrypted.",
            file=sys.stderr,
        )
    return asyncio.run(serve(options, lambda url: print(url, flush=True)))


def _port(text: str) -> int:
    if not (text.isdecimal() and text.isascii() and int(text) <= 65535):
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)
