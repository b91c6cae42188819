"""The tools of a Python file: `toolcast chat --tools file.py`.

    tools = [weather, search]      what this list holds: functions, types, tools; or else
    def weather(city: str): ...    every function that is defined in the file, and
    search = CallableTool(...)     every tool that is made in it; but nothing whose name begins with `_`

The file is run once, as a module of its own. Its folder goes behind all others that modules are looked for in, so that
it can import what lies beside it. Whatever it does wrong is one line, with the line of the file where it happened.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ...errors import ToolcastError
from ...tools.callable_tool import CallableTool, as_tools


def tools_of(path: str | Path) -> tuple[CallableTool, ...]:
    """The tools of the Python file at `path`. Raises `ToolcastError` where there are none, or it cannot be run."""
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise ToolcastError(f"there is no file {path}: --tools takes a Python file with functions")
    try:
        tools = as_tools(_listed(_run(file)))
    except (Exception, SystemExit) as error:  # the user's file of tools: what it raises is told with its line
        # The file is the user's own code, and may do anything.
        raise ToolcastError(f"{path}{_line_of(error, file)}: {type(error).__name__}: {_words(error)}") from error
    if not tools:
        raise ToolcastError(f"there are no tools in {path}: define a function, or a list `tools = [...]`")
    return tools


def _run(file: Path) -> ModuleType:
    name = f"toolcast_tools_{file.stem}"
    spec = spec_from_file_location(name, file, submodule_search_locations=None)
    if spec is None or spec.loader is None:
        raise ImportError("the name of a Python file ends in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations are looked up there
    sys.path.append(str(file.parent))
    spec.loader.exec_module(module)
    return module


def _listed(module: ModuleType) -> list[Any]:
    named = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    if isinstance(named.get("tools"), (list, tuple)):
        return list(cast("list[Any]", named["tools"]))
    return [value for value in named.values() if isinstance(value, CallableTool) or _is_defined_in(module, value)]


def _is_defined_in(module: ModuleType, value: object) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__


def _line_of(error: BaseException, file: Path) -> str:
    """The line of the file that the error came from, where it came from one."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f":{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f":{lines[-1]}" if lines else ""


def _words(error: BaseException) -> str:
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return " ".join(said.split())[:300] or "it gave no reason"
