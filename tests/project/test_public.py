"""The public API: what `import toolcast` loads, and that every public name is there, whatever came before.

Each question is asked in a fresh process, because this one has imported nearly everything.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

import toolcast
from project.source import project_files

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


ADAPTERS = {"anthropic", "google", "llama_cpp", "mistral", "ollama", "chat_completions", "openai"}
PACKAGES = {
    "Anthropic": {"anthropic"},
    "Google": {"google"},
    "Mistral": {"mistral", "chat_completions"},
    "Ollama": {"ollama"},
    "OpenAI": {"openai"},
    "OpenAIResponses": {"openai"},
}


@pytest.mark.parametrize("name", PACKAGES)
def test_an_adapter_is_imported_at_its_first_use_and_no_other(name: str) -> None:
    code = f"""
import pydantic, toolcast
Album = pydantic.create_model("Album", title=str)
llm = toolcast.{name}("m", api_key="none")
toolcast.ToolOrchestratingLLM(Album, "An album about {{topic}}", llm)
before = sorted(sys.modules)
llm.adapter
print(json.dumps([before, sorted(sys.modules)]))
"""
    before, after = (
        {name.split(".")[2] for name in found if name.startswith("toolcast.providers.") and name.endswith(".adapter")}
        | {"openai" for name in found if name == "toolcast.providers.openai.adapter"}
        for found in fresh(code)
    )
    assert before & ADAPTERS == set()
    assert after & ADAPTERS == PACKAGES[name]


def test_no_network_comes_before_the_first_call() -> None:
    code = """
import pydantic, toolcast
llm = toolcast.Anthropic("m", api_key="none")
toolcast.ToolOrchestratingLLM(pydantic.create_model("Album", title=str), "Make one.", llm)
print(json.dumps(sorted(sys.modules)))
"""
    loaded = set(fresh(code))
    assert {"httpx", "httpcore", "anyio", "asyncio", "ssl"} & loaded == set()
    # Nor what decodes and parses its response.
    assert {"toolcast.llms.http.http_exchange", "toolcast.parsing.partial_value", "jiter"} & loaded == set()


def test_all_is_what_one_sees() -> None:
    assert set(dir(toolcast)) - {name for name in dir(toolcast) if name.startswith("__")} == {
        name for name in toolcast.__all__ if not name.startswith("__")
    }


def test_every_name_resolves_alone() -> None:
    kinds = fresh(f"import toolcast\n{KINDS}")
    assert set(kinds) == set(toolcast.__all__)
    assert {name for name, kind in kinds.items() if kind == "module"} == {*PUBLIC_PACKAGES}


def test_every_name_resolves_after_every_module_was_imported() -> None:
    """A module with a public name's own name would take its place; none may."""
    code = """
import importlib, pkgutil, toolcast
for found in pkgutil.walk_packages(toolcast.__path__, "toolcast."):
    if not found.name.startswith("toolcast.apps."):
        importlib.import_module(found.name)
"""
    kinds = fresh(code + KINDS)
    assert {name for name, kind in kinds.items() if kind == "module"} == {*PUBLIC_PACKAGES}


def test_an_unknown_name_is_an_attribute_error() -> None:
    code = """
import toolcast
try: toolcast.NoSuchThing
except AttributeError as error: print(json.dumps(str(error)))
"""
    assert fresh(code) == "module 'toolcast' has no attribute 'NoSuchThing'"


PUBLIC_PACKAGES = (
    *("agents", "apps", "batch", "chat", "errors", "events", "experiments", "llms", "messages", "serve", "stores"),
    *("testing", "toolbox"),
)
OF_FILES = ("errors", "events", "messages", "testing")


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_a_public_package_is_an_attribute_and_its_names_resolve(package: str) -> None:
    code = f"""
import toolcast
names = toolcast.{package}.__all__
kinds = {{name: type(getattr(toolcast.{package}, name)).__name__ for name in names}}
print(json.dumps([names, dir(toolcast.{package}), kinds]))
"""
    names, listed, kinds = fresh(code)
    assert len(names) == len(set(names)) and set(names) <= set(listed)
    assert list(kinds) == names and "module" not in kinds.values()


@pytest.mark.parametrize("package", [package for package in PUBLIC_PACKAGES if package not in OF_FILES])
def test_the_names_of_a_package_survive_its_modules(package: str) -> None:
    code = f"""
import importlib, pkgutil, toolcast
package = toolcast.{package}
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(found.name)
modules = [name for name in package.__all__ if type(getattr(package, name)).__name__ == "module"]
print(json.dumps(modules))
"""
    assert fresh(code) == []


def test_a_name_has_one_home() -> None:
    homes = Counter(
        (name, id(getattr(package, name)))
        for package in (toolcast, *[getattr(toolcast, name) for name in PUBLIC_PACKAGES])
        for name in package.__all__
    )
    assert [name for (name, _), count in homes.items() if count > 1] == []
    assert len(toolcast.__all__) - len(PUBLIC_PACKAGES) <= 75


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from toolcast import RateLimited", "'RateLimited' from 'toolcast': use toolcast.errors.RateLimited"),
        ("from toolcast.chat import Engine", "'Engine' from 'toolcast.chat': use toolcast.Engine"),
        (
            "import toolcast; toolcast.agents.Store",
            "'toolcast.agents' has no attribute 'Store': use toolcast.stores.St",
        ),
    ],
)
def test_a_name_of_another_package_is_an_error_with_its_home(code: str, message: str) -> None:
    with pytest.raises((ImportError, AttributeError), match=re.escape(message)):
        exec(code, {})


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_an_unknown_name_of_a_package_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match="NoSuchThing"):
        getattr(toolcast, package).NoSuchThing  # noqa: B018 - the access is the test


def test_pages_and_examples_import_from_the_public_packages() -> None:
    public = "|".join([*PUBLIC_PACKAGES, "chat.events"])  # whose names are on the page of the chat
    private = re.compile(rf"^\s*(?:from|import) toolcast\.(?!(?:{public})(?: |$)).*", re.MULTILINE)
    pages = [path for path in project_files() if path.suffix == ".md" or "examples" in path.parts]
    pages = [path for path in pages if "explanation" not in path.parts]  # of what is inside
    found = [f"{path}: {match[0]}" for path in pages for match in private.finditer(path.read_text(encoding="utf-8"))]
    assert len(pages) > 30 and found == []
