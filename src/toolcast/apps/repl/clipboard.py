"""The clipboard: texts to it, and images from it, by the program that the system has for it.

macOS has pbcopy, pngpaste and osascript, Wayland wl-clipboard, X11 xclip or xsel. Where there is none, or in a session
over SSH, a text goes to the terminal as an OSC 52 sequence, which most terminals put into the clipboard of the machine
in front of the person.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TextIO

from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ..file_mentions import image_type

_LONGEST_OSC_52: Final = 75_000
"""Bytes of a text that terminals take: xterm and tmux have limits of about 100 kB after encoding."""
_TIMEOUT: Final = 5.0
_NULL: Final = subprocess.DEVNULL


@dataclass(frozen=True, slots=True)
class ClipboardTool:
    """A program that uses the clipboard, if the environment variable `variable` is set."""

    command: tuple[str, ...]
    variable: str = ""


_WRITERS: Final = (
    ClipboardTool(("pbcopy",)),
    ClipboardTool(("wl-copy",), "WAYLAND_DISPLAY"),
    ClipboardTool(("xclip", "-selection", "clipboard"), "DISPLAY"),
    ClipboardTool(("xsel", "--clipboard", "--input"), "DISPLAY"),
    ClipboardTool(("clip.exe",), "WSL_DISTRO_NAME"),
)
_IMAGE_READERS: Final = (
    ClipboardTool(("pngpaste", "-")),
    ClipboardTool(("wl-paste", "--no-newline", "--type", "image/png"), "WAYLAND_DISPLAY"),
    ClipboardTool(("xclip", "-selection", "clipboard", "-target", "image/png", "-out"), "DISPLAY"),
)
_OSASCRIPT: Final = ClipboardTool(("osascript", "-e", "get the clipboard as «class PNGf»"))
_PNG_OF_APPLE: Final = re.compile(rb"data PNGf((?:[0-9A-Fa-f]{2})+)")


class Clipboard:
    """The clipboard of a person at a terminal.

    Args:
        environ: The environment variables.
        terminal: The stream to write OSC 52 to; None if it is no terminal that understands it.
    """

    def __init__(self, environ: Mapping[str, str], terminal: TextIO | None = None) -> None:
        self._environ = environ
        self._terminal = terminal
        self._folder: TemporaryDirectory[str] | None = None
        self._count = 0

    def copy(self, text: str) -> str:
        """Put the text into the clipboard, and return what has done it.

        Raises:
            ToolcastError: There is no way to the clipboard.
        """
        ways = [self._by_tool, self._by_terminal]
        if self._environ.get("SSH_CONNECTION"):
            ways.reverse()
        for way in ways:
            if done := way(text):
                return done
        raise ToolcastError(
            "no clipboard was found: install wl-clipboard, xclip or xsel, or write to a file with /export FILE"
        )

    def read_image(self) -> bytes | None:
        """Return the image in the clipboard; None if it has none, or no program can read it."""
        for command in self._commands(_IMAGE_READERS):
            if image_type(data := _output_of(command)):
                return data
        for command in self._commands((_OSASCRIPT,)):
            if found := _PNG_OF_APPLE.search(_output_of(command)):
                return bytes.fromhex(found[1].decode())
        return None

    def save_image(self) -> Path:
        """Write the image in the clipboard to a file that is deleted at the end of the process.

        Raises:
            ToolcastError: There is no image, or no program that reads it.
        """
        data = self.read_image()
        if data is None and self._commands((*_IMAGE_READERS, _OSASCRIPT)):
            raise ToolcastError("the clipboard has no image")
        if data is None:
            raise ToolcastError(
                "no program reads images from the clipboard: install wl-clipboard (Wayland), xclip (X11) or pngpaste "
                "(macOS), or mention a file: @pic.png"
            )
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="toolcast-pasted-")
        self._count += 1
        path = Path(self._folder.name, f"pasted-{self._count}.png")
        path.write_bytes(data)
        return path

    def close(self) -> None:
        """Delete the files of pasted images."""
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def _path(self) -> str | None:
        return self._environ.get("PATH")

    def _by_tool(self, text: str) -> str:
        """Return the name of the program that has taken the text, or an empty one."""
        for command in self._commands(_WRITERS):
            if _fed(command, text.encode("utf-8", "replace")):
                return Path(command[0]).name
        return ""

    def _by_terminal(self, text: str) -> str:
        """Return the name of the terminal if it gets the text, which is not acknowledged; an empty one otherwise."""
        data = text.encode("utf-8", "replace")
        if self._terminal is None or len(data) > _LONGEST_OSC_52:
            return ""
        self._terminal.write(f"\x1b]52;c;{b64encode(data).decode()}\x07")
        self._terminal.flush()
        return "the terminal"

    def _commands(self, tools: Sequence[ClipboardTool]) -> list[tuple[str, ...]]:
        """Return the commands of the programs that are installed and have their display."""
        found: list[tuple[str, ...]] = []
        for tool in tools:
            program = shutil.which(tool.command[0], path=self._path)
            if program and (not tool.variable or self._environ.get(tool.variable)):
                found.append((program, *tool.command[1:]))
        return found


def _fed(command: Sequence[str], data: bytes) -> bool:
    """Return True if the command has taken `data` on its standard input."""
    try:
        # Programs of X11 stay in the background, where they would keep a pipe for their output open.
        subprocess.run(command, input=data, stdout=_NULL, stderr=_NULL, timeout=_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _output_of(command: Sequence[str]) -> bytes:
    """Return the output of the command; nothing if it fails."""
    try:
        return subprocess.run(
            command, stdin=_NULL, stdout=subprocess.PIPE, stderr=_NULL, timeout=_TIMEOUT, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return b""
