"""`choose_display`: the display for the option `progress` of a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final, TextIO

from ...live_display import in_notebook
from .displays import CallbackDisplay, LineDisplay, LogDisplay, ProgressCallback, ProgressDisplay, StreamDisplay

_LONG: Final = 1.5  # seconds after which a job is long enough to be shown unasked


def choose_display(
    progress: bool | ProgressCallback | None,
    *,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ProgressDisplay | None:
    """Return the display for the option `progress`, or None if nothing shall be shown.

    Args:
        progress: None shows the progress of a job that takes longer than about a second, in a notebook or in a
            terminal, and elsewhere logs it; True shows it from the start, and elsewhere writes lines; False shows
            nothing; a function is called with snapshots.
        stream: The stream of the terminal or of the lines. Default: stderr.
        environ: The environment variables.
    """
    if progress is False:
        return None
    stream = sys.stderr if stream is None else stream
    if callable(progress):
        return CallbackDisplay(progress, LogDisplay())
    delay = 0.0 if progress else _LONG
    if in_notebook():
        from .notebook import NotebookDisplay

        return NotebookDisplay(delay)
    if stream is None:  # a program without a console has none
        return LogDisplay()
    if not stream.isatty() or environ.get("TERM", "dumb") == "dumb":
        return StreamDisplay(stream) if progress else LogDisplay()
    try:
        from .rich_display import RichDisplay
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        return LineDisplay(stream, delay)
    return RichDisplay(stream, delay)
