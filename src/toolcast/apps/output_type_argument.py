"""The argument SCHEMA of `toolcast get` and `toolcast map`: an output type in one of three forms.

* `'name, age int, city'`, a schema in one line: see one_line_schema.py;
* `package.module:Class`, a class or another type that an output may have; its module is imported, which runs its code;
* `schema.json`, a JSON Schema: see json_schema_types.py.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic_core import from_json

from ..errors import ToolcastError
from .json_schema_types import JSONSchemaError, type_from_json_schema
from .one_line_schema import SchemaError, build_model, parse_schema

LoadType: TypeAlias = Callable[[], Any]
"""Returns the output type; imports and files are read when it is called, not while the command line is parsed."""

SCHEMA_HELP: Final = (
    "the schema: 'name, age int, born date?, tags list, size small|large, author {name, city}'; or a JSON Schema "
    "without remote references, FILE.json; or MODULE:CLASS, which imports the module and so runs its code: from the "
    "working directory or the installed packages"
)
_JSON_LIMIT: Final = 1 << 20
# A class is written with a capital letter or in a dotted module; 'name:str' is a field of a schema in one line.
_IMPORTED: Final = re.compile(r"(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+:[A-Za-z_]|[A-Za-z_]\w*:[A-Z])[\w.]*")


def schema_argument(text: str) -> LoadType:
    """Return the function that loads the type of `text`; argparse reports a `SchemaError` as a wrong argument."""
    if _IMPORTED.fullmatch(text):
        return partial(_import_type, text)
    if text.lower().endswith(".json"):
        return partial(_read_json_schema, Path(text))
    try:
        model = build_model(parse_schema(text))
    except SchemaError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return lambda: model


def _import_type(text: str) -> Any:
    """Import the module and return the class.

    Raises:
        ToolcastError: The module cannot be imported, or has no such attribute.
    """
    name, _, path = text.partition(":")
    if (folder := str(Path.cwd())) not in sys.path:  # a command that is a script begins with its own folder there
        sys.path.insert(0, folder)
    try:
        found: Any = import_module(name)
    except (Exception, SystemExit) as error:  # the user's own code, which may raise anything
        raise ToolcastError(f"{text}: importing {name} failed: {type(error).__name__}: {error}") from error
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            raise ToolcastError(f"{text}: {error}") from error
    return found


def _read_json_schema(path: Path) -> Any:
    """Return the type of the JSON Schema in a file.

    Raises:
        ToolcastError: The file is no JSON Schema that can be used.
    """
    with path.open("rb") as file:
        data = file.read(_JSON_LIMIT + 1)
    if len(data) > _JSON_LIMIT:
        raise ToolcastError(f"{path} has more than {_JSON_LIMIT:,} bytes: expected a JSON Schema")
    try:
        return type_from_json_schema(from_json(data))
    except JSONSchemaError as error:
        raise ToolcastError(f"{path}: {error}") from error
    except ValueError as error:
        raise ToolcastError(f"{path}: expected JSON: {error}") from error
