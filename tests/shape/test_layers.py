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
        "turn",
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
        "agents.permissions.permissions",
        "agents.permissions.rules",
        "agents.permissions.protected_paths",
        "agents.permissions.argument_values",
        "agents.permissions.shell.patterns",
        "agents.permissions.shell.launchers",
        "agents.permissions.shell.parser",
        "agents.permissions.shell.lexer",
        "agents.engine.session_state",
        "agents.engine.history",
        "chat.actions",
        "chat.context",
        "chat.events",
        "chat.guards",
        "chat.transitions",
        "agents.tool_search.stemming",
        "agents.tool_search.bm25_index",
        "experiments.json_safe",
        "experiments.log_events",
        "experiments.message_serialization",
        "experiments.run_state",
        "experiments.report.summary",
        "experiments.pei.ratings",
    ],
    "shells": [
        "transport.aiohttp_connections",
        "transport.aiohttp_errors",
        "transport.aiohttp_network",
        "transport.aiohttp_responses",
        "async_support.deadlines",
        "transport.content_decoding",
        "async_support.exception_groups",
        "transport.httpx_connections",
        "async_support.thread_bridge",
        "transport.connection_pool",
        "transport.cancel_handle",
        "transport.httpx_responses",
        "transport.transport_errors",
        "transport.network",
        "transport.networks",
        "async_support.shielding",
        "async_support.sync_driver",
        "async_support.waiters",
        "async_support.broadcast",
        "async_support.background_jobs",
        "async_support.interruptible",
        "llms.local.server",
        "llms.local.weights",
        "flows",
        "llms.event_streams",
        "stores.*",
    ],
    "engine": [
        "tools.callable_tool",
        "tools.execution",
        "llms.http_exchange",
        "sources",
        "concurrency",
        "fallback",
        "guided_llama",
        "asking",
        "llms.base",
        "model_choice",
        "ready_made",
        "service_llm",
        "modes",
        "objects",
        "answers",
        "calls",
        "object_flow",
        "views",
        "async_support.callbacks",
        "agents.engine.compaction",
        "agents.tool_search.search",
        "agents.engine.engine",
        "agents.engine.limits",
        "agents.engine.model_request",
        "agents.engine.config",
        "agents.engine.tool_phase",
        "agents.engine.conversation",
        "agents.engine.turn_loop",
        "agents.engine.turn_streams",
        "agents.engine.typed_output",
        "agents.mcp.server",
        "agents.mcp.connection",
        "agents.mcp.tools",
        "toolbox.*",
    ],
    "faces": [
        "orchestrator",
        "agents.sessions.persistence",
        "agents.sessions.turn",
        "agents.sessions.session",
        "agents.subagents.elves",
        "agents.subagents.run",
        "agents.subagents.tools",
        "chat.machine",
        "chat.effects",
        "experiments.*",
        "apps.*",
        "__main__",
        "testing.*",
    ],
}
ORDER = list(LAYERS)

# Outside packages that only some modules may touch.
DOORS = {
    "httpx": {"transport.network"},
    "httpx2": {"transport.network", "agents.mcp.connection"},
    "aiohttp": {"transport.aiohttp_connections", "transport.aiohttp_errors", "transport.aiohttp_responses"},
    "xllamacpp": {"llms.local.server"},
    "mcp": {"agents.mcp.connection"},
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
