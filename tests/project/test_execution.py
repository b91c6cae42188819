"""Nothing executes what a model or a service wrote, and no cache grows without a limit.

Each place that executes code or starts a process stands in a table of this file, with whose code it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from project.source import MODULES, Module, project_files, walk, where
from toolcast.llms.local.weights import WEIGHTS

# (module, function) -> whose code it is.
EXECUTES = {
    ("values.option_suggestions", "home_of"): "the public packages, for an error",
    (
        "lazy.lazy_exports",
        "lazy_exports.get_attribute",
    ): "the modules of its caller, by the names in its imports",
    ("lazy.lazy_exports", "lazy_exports.modules"): "the calling package once more, to note its imports",
    ("serve.routes", "chosen_protocols"): "the modules of the package, by the names in its table",
    ("apps.command_parser", "CommandParser.load_module"): "the library's own modules, by a name in its table",
    ("llms.named_llms", "llm"): "the modules of the package, by the names in its table",
    ("llms.embeddings.offline", "_quietly_imported"): "packages by the names in the library",
    ("experiments.grids.grid_workers", "_Worker.__init__"): "a child of this program, with a job of its own",
    ("experiments.grids.grid_workers", "_run_job"): "the job that the parent wrote to the pipe",
    ("apps.output_type_argument", "_import_type"): "the module that the user names as MODULE:CLASS",
    ("apps.repl.clipboard", "_fed"): "the clipboard's program, from a table, with arguments of the library's",
    ("apps.repl.clipboard", "_output_of"): "the clipboard's program, from a table, with arguments of the library's",
    ("apps.repl.text_editor", "_run"): "the editor that the user names in VISUAL or EDITOR",
    ("apps.repl.tool_files", "_run"): "the file that the user names with --tools",
    ("apps.repl.repl", "Repl._run_shell"): "the command that the person at the terminal typed",
    ("toolbox.shell_command", "Shell._started"): "the tool for commands, which asks for approval",
    (
        "lazy.lazy_dataclasses",
        "_compiled_init",
    ): "names of fields in the source of a class, as the standard library does",
    ("apps.pull_command", "_tried"): "this program, with a model file whose header was read",
    ("transport.httpx_network", "_HTTPXClients._imported"): "httpx or its fork, by their two names",
    ("llms.local.weights", "_run"): "pip or uv, with arguments of the library's",
}

# Caches without a limit: what there can be of keys.
UNBOUNDED = {
    ("transport.httpx_connections", "_body_of"): "the HTTP libraries that are imported: httpx and its fork",
    ("providers.event_fast_path", "_finder"): "the keys that the decoders look for",
}

_BUILTINS = {"eval", "exec", "compile", "__import__"}
_CALLS = {
    *("pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "os.system", "os.popen", "os.execv", "os.execve"),
    *("subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_output", "yaml.load"),
}


def executing(module: Module) -> Iterator[tuple[str, str]]:
    """Yield each function that executes code with the place and the call."""
    for name, node in walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        by_name = called == "import_module" and not isinstance(node.args[0], ast.Constant)
        if called in _BUILTINS | _CALLS or called.endswith(".exec_module") or by_name:
            yield name, f"{where(module, node.lineno)}: {called}"


@pytest.mark.fault(136, 138, 148)
def test_nothing_executes_what_others_wrote() -> None:
    found = {(module.name, name): place for module in MODULES for name, place in executing(module)}
    assert {key: place for key, place in found.items() if key not in EXECUTES} == {}
    assert EXECUTES.keys() <= found.keys()


@pytest.mark.fault(135, 136)
def test_no_template_language_is_used() -> None:
    """A prompt is taken apart by the library itself: `str.format` and template engines reach attributes.

    The report of experiments is made by jinja2, from the files of its package and no other text.
    """
    engines = {"jinja2", "mako", "string.Template", "chevron"}
    found = set[tuple[str, str]]()
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names}
                names |= {node.module or ""} if isinstance(node, ast.ImportFrom) else set()
                found |= {(module.name, name) for name in names & (engines | {"Template"})}
            elif isinstance(node, ast.Attribute) and node.attr == "from_string":
                found.add((module.name, node.attr))
    assert found == {("experiments.report.html", "jinja2")}


@pytest.mark.fault(145)
def test_every_cache_has_a_limit() -> None:
    unlimited = []
    for module in MODULES:
        for name, node in module.functions:
            for decorator in node.decorator_list:
                text = ast.unparse(decorator)
                if text == "cache" and node.args.args and (module.name, name) not in UNBOUNDED:
                    unlimited.append(where(module, node.lineno))
        for call in ast.walk(module.tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("lru_cache", "functools.lru_cache"):
                given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "maxsize")]
                if not given or ast.unparse(given[0]) == "None":
                    unlimited.append(where(module, call.lineno))
    assert unlimited == []


@pytest.mark.fault(149)
def test_the_hashes_of_the_weights_stand_in_one_place() -> None:
    hashes = [found for weights in WEIGHTS.values() for found in (weights.sha256, weights.wheel_sha256)]
    texts = {path: path.read_bytes() for path in project_files()}
    for found in hashes:
        places = [path for path, text in texts.items() if found.encode() in text]
        assert [path.name for path in places] == ["weights.py"]
