"""JSON on a terminal: an object that grows in place while the model writes, then indented and highlighted.

Without rich it is indented, and printed when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, TextIO

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError


def print_json(text: str, stream: TextIO) -> None:
    """Print JSON to a terminal, highlighted if rich is installed; `NO_COLOR` leaves the colours out."""
    if find_spec("rich") is None:
        print(text, file=stream, flush=True)
        return
    from rich.console import Console
    from rich.highlighter import JSONHighlighter

    Console(file=stream).print(JSONHighlighter()(text), soft_wrap=True)


def print_growing(snapshots: Iterable[Any], adapter: TypeAdapter[Any], stream: TextIO) -> None:
    """Draw each of the `snapshots` of an object over the one before, and print the last one, the object itself."""
    if find_spec("rich") is None:
        *_, last = snapshots
        print_json(_indented(adapter, last), stream)
        return
    from rich.console import Console
    from rich.highlighter import JSONHighlighter
    from rich.live import Live

    console, highlight, last = Console(file=stream), JSONHighlighter(), None
    with Live(
        console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    ) as live:
        for last in snapshots:
            try:
                text = _indented(adapter, last)
            except PydanticSerializationError:  # of a type of the user's, which serializes complete objects only
                continue
            shown = highlight("\n".join(text.split("\n")[1 - console.height :]))
            shown.no_wrap, shown.overflow = True, "ellipsis"
            live.update(shown, refresh=True)
    print_json(_indented(adapter, last), stream)


def _indented(adapter: TypeAdapter[Any], value: Any) -> str:
    return adapter.dump_json(value, by_alias=True, indent=2, warnings=False).decode()
