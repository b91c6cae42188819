"""Built-in tools: files, shell command, web page, question to the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .fetch import fetch_tool as fetch_tool
    from .file_access import FILE_TOOLS as FILE_TOOLS, file_tools as file_tools
    from .questions import question_tool as question_tool
    from .shell_command import command_tool as command_tool
else:
    from ..lazy.lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
