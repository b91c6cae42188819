"""Where the commands keep what outlives them: the sessions, and what was typed at the prompt.

All of it lies in one folder, the home. Nothing is made here: a store makes its file when something is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def home(chosen: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder that was chosen, or `$TOOLCAST_HOME`, `$XDG_DATA_HOME/toolcast`, `~/.local/share/toolcast`."""
    if named := chosen or environ.get("TOOLCAST_HOME"):
        return Path(named).expanduser()
    shared = environ.get("XDG_DATA_HOME", "")
    # The XDG specification has relative paths ignored.
    folder = Path(shared) if Path(shared).is_absolute() else Path.home() / ".local" / "share"
    return folder / "toolcast"


def sessions_file(home: Path) -> Path:
    """The `SQLiteStore` that holds all sessions."""
    return home / "sessions.db"


def prompt_history_file(home: Path) -> Path:
    """What was typed at the prompt of `toolcast chat`, line by line."""
    return home / "prompt_history"
