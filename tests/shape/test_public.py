"""The public face: what `import toolcast` loads, and that every public name is there, whatever came before.

Each question is asked in a fresh process, because this one has imported nearly everything.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import toolcast

# Prints what kind of thing each public name is.
KINDS = "print(json.dumps({n: type(getattr(toolcast, n)).__name__ for n in toolcast.__all__}))"


def fresh(code: str) -> Any:
    """What a new interpreter prints as JSON, with every warning an error."""
    command = [sys.executable, "-W", "error", "-c", f"import json, sys\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_import_is_light() -> None:
    loaded = set(fresh("import toolcast; print(json.dumps(sorted(sys.modules)))"))
    heavy = {
        "httpx",
        "httpcore",
        "rich",
        "pydantic",
        "pydantic_core",
        "anyio",
        "jiter",
        "asyncio",
        "xllamacpp",
    }
    assert loaded & heavy == set()


def test_the_heavy_things_come_with_the_first_llm() -> None:
    code = "import toolcast; toolcast.Ollama('llama3.2'); print(json.dumps(sorted(sys.modules)))"
    assert {"rich", "typer", "openai", "xllamacpp"} & set(fresh(code)) == set()


def test_all_is_sorted_and_has_no_double() -> None:
    assert list(toolcast.__all__) == sorted(set(toolcast.__all__), key=toolcast.__all__.index)
    assert toolcast.__all__


def test_all_is_what_one_sees() -> None:
    assert set(dir(toolcast)) - {name for name in dir(toolcast) if name.startswith("__")} == {
        name for name in toolcast.__all__ if not name.startswith("__")
    }


def test_every_name_resolves_alone() -> None:
    kinds = fresh(f"import toolcast\n{KINDS}")
    assert set(kinds) == set(toolcast.__all__)
    assert [name for name, kind in kinds.items() if kind == "module"] == []


def test_every_name_resolves_after_every_module_was_imported() -> None:
    """A module with a public name's own name would take its place; none may."""
    code = """
import importlib, pkgutil, toolcast
for found in pkgutil.walk_packages(toolcast.__path__, "toolcast."):
    if not found.name.startswith("toolcast.apps."):
        importlib.import_module(found.name)
"""
    assert [name for name, kind in fresh(code + KINDS).items() if kind == "module"] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    code = """
import toolcast
try: toolcast.NoSuchThing
except AttributeError as error: print(json.dumps(str(error)))
"""
    assert fresh(code) == "module 'toolcast' has no attribute 'NoSuchThing'"
