"""The short tracebacks of toolcast's errors in IPython and Jupyter.

IPython asks an exception for its lines by the method `_render_traceback_`. Frames of toolcast, of other packages and of
the standard library are left out: the caller's own frames show where the call was made, and a line names the command
that shows all frames. Tracebacks of plain Python are not changed. IPython is not imported: where it asks, it is loaded.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from pathlib import Path
from traceback import FrameSummary, extract_tb
from typing import Any, Final

from .live_display import ipython_shell
from .terminal_text import visible

_MOST_FRAMES: Final = 4
_LONGEST: Final = 2000  # characters of a message


def render(error: BaseException, head: Sequence[str], hints: Sequence[str]) -> list[str]:
    """Return the lines that IPython prints for an error.

    If another mode than its default was chosen (`%xmode`, `%tb Plain`), they are IPython's own, with all frames.

    Args:
        error: The error.
        head: The lines of its message.
        hints: Lines for the end, such as a next step.
    """
    shell = ipython_shell()
    if shell is not None and shell.InteractiveTB.mode != "Context":
        lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        return lines
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(frame)]
    last = list(hints)
    if hidden := len(frames) - min(len(own), _MOST_FRAMES):
        last.append(f"{hidden} more frames: {'%tb Plain' if shell is not None else 'traceback.print_exception(error)'}")
    message = [*head, *getattr(error, "__notes__", ())]
    parts = [message, _frame_lines(own, shell), _cause_lines(error, shell), last]
    text = "\n\n".join(["\n".join([_cut(visible(line)) for line in part]) for part in parts if part])
    return [_coloured(text, type(error).__name__, shell)]


def _cause_lines(error: BaseException, shell: Any) -> list[str]:
    """Return the exception of the caller's code that an error was raised from, such as that of a tool."""
    cause = error.__cause__
    own = [frame for frame in extract_tb(cause.__traceback__) if _is_own(frame)] if cause is not None else []
    return [f"caused by {type(cause).__name__}: {cause}", *_frame_lines(own[-1:], shell)] if own else []


def _frame_lines(frames: Sequence[FrameSummary], shell: Any) -> list[str]:
    """Return the place and the code of frames: the outermost one and the last ones."""
    chosen = frames if len(frames) <= _MOST_FRAMES else [frames[0], *frames[1 - _MOST_FRAMES :]]
    lines: list[str] = []
    for frame in chosen:
        name = "" if frame.name == "<module>" else f", in {frame.name}"
        lines += [f"{_place(frame, shell)}, line {frame.lineno}{name}", f"    {frame.line}"]
    return lines


def _place(frame: FrameSummary, shell: Any) -> str:
    """Return the name of a notebook's cell, as IPython shows it, or of a file."""
    format_name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = None if format_name is None else format_name(frame.filename)
    return frame.filename if named is None else " ".join(named)


def _is_own(frame: FrameSummary) -> bool:
    """Return whether a frame is the caller's: not of toolcast, of an installed package or of the standard library."""
    path = Path(frame.filename)
    if frame.filename.startswith("<frozen") or {"site-packages", "dist-packages"} & {*path.parts}:
        return False
    return not any(path.is_relative_to(folder) for folder in _libraries())


def _libraries() -> list[str | Path]:
    return [Path(__file__).parents[1], sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]


def _coloured(text: str, name: str, shell: Any) -> str:
    """Return the text with the name of the error's class in red, unless the shell uses no colours."""
    if shell is None or str(shell.colors).lower() == "nocolor" or not text.startswith(name):
        return text
    return f"\x1b[31m{name}\x1b[0m{text[len(name) :]}"


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
