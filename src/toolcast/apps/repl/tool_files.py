"""The tools of a Python file: `toolcast chat --tools file.py`.

    tools = [weather, search]      the items of this list: functions, types, tools; or without it
    def weather(city: str): ...    every function that the file defines, and
    search = CallableTool(...)     every tool that it creates, unless the name begins with `_`

The file is executed once, as a module. Its folder is appended to `sys.path`, so that it can import its neighbours. An
error in it is reported on one line, with its line number in the file.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ...errors import ToolcastError
from ...tools.callable_tool import CallableTool, as_tools


def load_tools(path: str | Path) -> tuple[CallableTool, ...]:
    """Return the tools of the Python file at `path`.

    Raises:
        ToolcastError: The file cannot be executed, or defines no tools.
    """
    file = Path(os.path.expanduser(path)).resolve()
    if not file.is_file():
        raise ToolcastError(f"no file {path}: --tools needs a Python file with functions")
    try:
        tools = as_tools(_collect_tools(_run(file)))
    except (Exception, SystemExit) as error:  # the user's own code, which may raise anything
        raise ToolcastError(f"{path}{_line_of(error, file)}: {type(error).__name__}: {_error_text(error)}") from error
    if not tools:
        raise ToolcastError(f"no tools in {path}: define a function, or a list `tools = [...]`")
    return tools


def _run(file: Path) -> ModuleType:
    name = f"toolcast_tools_{file.stem}"
    spec = spec_from_file_location(name, file, submodule_search_locations=None)
    if spec is None or spec.loader is None:
        raise ImportError("the file name must end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations are looked up there
    sys.path.append(str(file.parent))
    spec.loader.exec_module(module)
    return module


def _collect_tools(module: ModuleType) -> list[Any]:
    named = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    if isinstance(named.get("tools"), (list, tuple)):
        return list(cast("list[Any]", named["tools"]))
    return [value for value in named.values() if isinstance(value, CallableTool) or _is_defined_in(module, value)]


def _is_defined_in(module: ModuleType, value: object) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__


def _line_of(error: BaseException, file: Path) -> str:
    """Return the line of the file at which the error was raised, as `:LINE`, or an empty text."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f":{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f":{lines[-1]}" if lines else ""


def _error_text(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return " ".join(text.split())[:300] or "no message"
