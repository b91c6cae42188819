"""`toolcast web`: a chat in the browser, with the embedded model if no other is named."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from .command_parser import add_chat_options
from .config_file import choose_model
from .mcp.chat_servers import open_servers
from .mcp.server_approval import ApprovalTerminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast web`."""
    add_chat_options(parser)
    option = parser.add_argument
    option(
        "--host",
        metavar="HOST",
        default="127.0.0.1",
        help="the address to listen on; default: 127.0.0.1, this machine only",
    )
    option("--port", metavar="PORT", type=_port, default=8765, help="default: 8765; 0 takes any free port")
    option("--no-browser", action="store_true", help="print the address without opening a browser")


def run(arguments: argparse.Namespace) -> int:
    """Print the page's address, serve until SIGINT or SIGTERM, and return the exit code (130 or 143 after a signal)."""
    import asyncio

    try:
        from .web.web_startup import WebOptions, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        message = "toolcast web needs starlette and uvicorn: pip install 'toolcast[web]'"
        raise ImportError(message, name=error.name) from error
    arguments.model = choose_model(arguments.model)
    names = WebOptions.__dataclass_fields__
    options = WebOptions(**{name: value for name, value in vars(arguments).items() if name in names})
    if options.is_open:
        print(
            f"toolcast: other machines can connect to {options.host}: anyone who has the page's address can use the "
            "chat and its tools, and the connection is not encrypted.",
            file=sys.stderr,
        )
    setup = options.chat_setup
    with ExitStack() as closing:
        if not options.no_mcp:
            asking = ApprovalTerminal(sys.stdin, sys.stderr)
            setup = setup.with_servers(closing.enter_context(open_servers(setup.tool_names, asking)))
        return asyncio.run(serve(options, lambda url: print(url, flush=True), setup))


def _port(text: str) -> int:
    if not (text.isdecimal() and text.isascii() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)
