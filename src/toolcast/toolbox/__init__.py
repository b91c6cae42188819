"""Built-in tools: files, shell command, web page, question to the user."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fetch import fetch_tool as fetch_tool
    from .files import FILE_TOOLS as FILE_TOOLS, file_tools as file_tools
    from .questions import question_tool as question_tool
    from .shell_command import command_tool as command_tool

# Loaded on first use: a program that reads files needs no HTTP.
_EXPORTS = {
    "fetch": "fetch_tool",
    "files": "FILE_TOOLS file_tools",
    "questions": "question_tool",
    "shell_command": "command_tool",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = [
    "FILE_TOOLS",
    "command_tool",
    "fetch_tool",
    "file_tools",
    "question_tool",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
