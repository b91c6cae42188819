"""The layer law: values < machines < shells < engine < faces, and nothing imports upward.

Every module has its layer in LAYERS. What stands under `if TYPE_CHECKING` is exempt; an import in a
function is not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest

from shape.source import MODULES, NAMES, Module, where

# From the bottom up. A new file gets its line here; `room.*` stands for every module of a room.
LAYERS = {
    "values": [
        "errors",
        "metadata",
        "json_text",
        "option_types",
        "closing",
        "settings",
        "configs",
        "message_dicts",
        "messages",
        "pieces",
        "events",
        "accumulator",
        "usage",
        "states",
        "approvals",
        "cancellation",
        "tool_context",
        "agents.turns",
    ],
    "machines": [
        "docstrings",
        "foreign_options",
        "list_types",
        "prompts",
        "schemas",
        "signatures",
        "tool_options",
        "terminal_text",
        "accounts",
        "tool_texts",
        "retries",
        "parsing.*",
        "providers.*",
        "agents.permissions",
        "agents.rules",
        "agents.safe_paths",
        "agents.seen_values",
        "agents.command_patterns",
        "agents.launchers",
        "agents.shell_commands",
        "agents.shell_words",
        "agents.session_log",
        "agents.histories",
        "agents.chat_actions",
        "agents.chat_context",
        "agents.chat_events",
        "agents.chat_guards",
        "agents.chat_transitions",
        "agents.search_words",
        "agents.tool_index",
        "experiments.json_safe",
        "experiments.log_events",
        "experiments.plain_messages",
        "experiments.run_state",
        "experiments.report.summary",
        "experiments.pei.ratings",
    ],
    "shells": [
        "runtime.aiohttp_connections",
        "runtime.aiohttp_failures",
        "runtime.aiohttp_network",
        "runtime.aiohttp_replies",
        "runtime.alarms",
        "runtime.bodies",
        "runtime.cancelled_groups",
        "runtime.connections",
        "runtime.crossing",
        "runtime.lanes",
        "runtime.lines",
        "runtime.replies",
        "runtime.failures",
        "runtime.network",
        "runtime.networks",
        "runtime.shielding",
        "runtime.without_loop",
        "runtime.waiting",
        "runtime.channels",
        "runtime.side_jobs",
        "runtime.interruptions",
        "runtime.local_model",
        "runtime.weights",
        "flows",
        "streams",
        "stores.*",
    ],
    "engine": [
        "tools",
        "runtime.tool_runner",
        "exchange",
        "sources",
        "concurrency",
        "fallback",
        "guided_llama",
        "asking",
        "llms",
        "model_choice",
        "ready_made",
        "service_llm",
        "modes",
        "objects",
        "answers",
        "calls",
        "object_flow",
        "views",
        "agents.callbacks",
        "agents.compaction",
        "agents.tool_search",
        "agents.engine",
        "agents.limits",
        "agents.rounds",
        "agents.setup",
        "agents.tool_phase",
        "agents.transcripts",
        "agents.turn_flow",
        "agents.turn_streams",
        "agents.typed_output",
        "agents.mcp",
        "agents.mcp_links",
        "agents.mcp_tools",
        "toolbox.*",
    ],
    "faces": [
        "orchestrator",
        "agents.saved_sessions",
        "agents.session_turns",
        "agents.sessions",
        "agents.elves",
        "agents.elf_runs",
        "agents.elf_tools",
        "agents.chat",
        "agents.chat_effects",
        "experiments.*",
        "apps.*",
        "__main__",
        "testing.*",
    ],
}
ORDER = list(LAYERS)

# Outside packages that only some modules may touch.
DOORS = {
    "httpx": {"runtime.network"},
    "httpx2": {"runtime.network", "agents.mcp_links"},
    "aiohttp": {"runtime.aiohttp_connections", "runtime.aiohttp_failures", "runtime.aiohttp_replies"},
    "xllamacpp": {"runtime.local_model"},
    "mcp": {"agents.mcp_links"},
}


def layer_of(name: str) -> str | None:
    """The layer a module is listed in, or None."""
    room = f"{name}.__init__" if f"{name}." in {f"{other.rpartition('.')[0]}." for other in NAMES} else name
    for layer, patterns in LAYERS.items():
        if any(fnmatchcase(name, pattern) or fnmatchcase(room, pattern) for pattern in patterns):
            return layer
    return None


def imports(module: Module) -> Iterator[tuple[str, int]]:
    """Absolute names of everything a module imports when it runs, with the line."""
    for node in running_code(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node)
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and is_import_call(node):
            yield node.args[0].value, node.lineno  # type: ignore[attr-defined]  # is_import_call has looked


def running_code(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below but those only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from (other, *running_code(other))
            continue
        yield child
        yield from running_code(child)


def absolute(module: Module, node: ast.ImportFrom) -> str:
    """The module an `import from` names, in full."""
    if not node.level:
        return node.module or ""
    package = ["toolcast", *filter(None, module.name.split("."))]
    upward = node.level - 1 if module.is_package else node.level
    return ".".join([*package[: len(package) - upward], *filter(None, [node.module])])


def is_import_call(node: ast.Call) -> bool:
    """Whether this is `import_module("a.name")`."""
    return (
        ast.unparse(node.func).endswith("import_module") and bool(node.args) and isinstance(node.args[0], ast.Constant)
    )


def own_module(name: str) -> str | None:
    """The module of ours that an imported name belongs to: itself, or the one that holds it."""
    if name != "toolcast" and not name.startswith("toolcast."):
        return None
    below = name.removeprefix("toolcast").removeprefix(".")
    return below if below in NAMES else below.rpartition(".")[0]


def test_every_module_has_a_layer() -> None:
    homeless = [module.name for module in MODULES if not module.is_empty and not layer_of(module.name)]
    homeless = [name for name in homeless if name]  # the package itself stands above all
    assert not homeless, f"add to LAYERS in {__file__}: {homeless}"


@pytest.mark.parametrize("module", [m for m in MODULES if m.name], ids=lambda module: module.name)
def test_nothing_imports_upward(module: Module) -> None:
    here = layer_of(module.name)
    for name, line in imports(module):
        target = own_module(name)
        if target is None or here is None:
            continue
        there = layer_of(target)
        assert target, f"{where(module, line)}: imports the package itself, which stands above every room"
        assert there, f"{where(module, line)}: {target} has no layer"
        assert ORDER.index(there) <= ORDER.index(here), (
            f"{where(module, line)}: {module.name} ({here}) imports {target} ({there})"
        )


def test_nobody_imports_what_people_run() -> None:
    found = [
        where(module, line)
        for module in MODULES
        if not module.name.startswith("apps") and module.name != "__main__"
        for name, line in imports(module)
        if (own_module(name) or "").startswith("apps")
    ]
    assert not found


@pytest.mark.parametrize("package", DOORS)
def test_one_door(package: str) -> None:
    found = [
        where(module, line)
        for module in MODULES
        if module.name not in DOORS[package]
        for name, line in imports(module)
        if name.split(".")[0] == package
    ]
    assert not found, f"only {DOORS[package]} may import {package}"
