"""The data directory: sessions and prompt history of the commands.

Nothing is created here: a store creates its file at the first write.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def data_dir(chosen: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return `chosen`, or `$TOOLCAST_HOME`, `$XDG_DATA_HOME/toolcast`, `~/.local/share/toolcast`, in this order."""
    if named := chosen or environ.get("TOOLCAST_HOME"):
        return Path(os.path.expanduser(named))
    shared = environ.get("XDG_DATA_HOME", "")
    # The XDG specification has relative paths ignored.
    folder = Path(shared) if Path(shared).is_absolute() else Path.home() / ".local" / "share"
    return folder / "toolcast"


def sessions_file(home: Path) -> Path:
    """Return the path of the `SQLiteStore` that has all sessions."""
    return home / "sessions.db"


def prompt_history_file(home: Path) -> Path:
    """Return the path of the prompt history of `toolcast chat`."""
    return home / "prompt_history"
