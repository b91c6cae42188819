"""The person's own editor (`$VISUAL`, `$EDITOR`) on a text: `edit_in_editor`.

The text is in a temporary file that only its owner can read, with a suffix by which editors choose their highlighting.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

from ...errors import ToolcastError


def editor_command(environ: Mapping[str, str]) -> str | None:
    """Return the command of the editor that the environment names, if any."""
    return environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip() or None


def edit_in_editor(command: str, text: str, suffix: str) -> str:
    """Return the text as the editor has saved it, without a line break that it has added at the end.

    Args:
        command: The command of the editor; the file is its last argument.
        text: The text to edit.
        suffix: The suffix of the file.

    Raises:
        ToolcastError: The editor cannot be started or fails, or what it saved is not UTF-8.
    """
    fd, name = mkstemp(suffix=suffix, prefix="toolcast-")  # its mode is 0600
    file = Path(name)
    try:
        with os.fdopen(fd, "wb") as opened:
            opened.write(text.encode("utf-8", "surrogatepass"))
        if code := _run([*shlex.split(command), name]):
            raise ToolcastError(f"the editor {command} ended with exit code {code}; the text is unchanged")
        saved = file.read_bytes().decode("utf-8", "surrogatepass")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ToolcastError(f"cannot edit with {command}: {reason}; set VISUAL or EDITOR to an editor") from error
    finally:
        with suppress(FileNotFoundError):  # deleted in the editor
            file.unlink()
    added = "\n" if saved.endswith("\n") and not text.endswith("\n") else ""
    return saved.removesuffix(added)


def _run(command: list[str]) -> int:
    """Run the editor in this terminal, and return its exit code. Ctrl-C belongs to the editor."""
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
