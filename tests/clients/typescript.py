"""Check and run TypeScript with the packages of package.json."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from clients.node import beside_packages, node

OPTIONS = {
    "strict": True,
    "exactOptionalPropertyTypes": True,
    "noUncheckedIndexedAccess": True,
    "module": "nodenext",
    "target": "es2022",
    "lib": ["es2022", "dom"],
    "types": [],
    "resolveJsonModule": True,
    "skipLibCheck": True,
    "outDir": "made",
}


def compile_errors(files: dict[str, str]) -> list[str]:
    """Return the errors of the compiler in these files, by name and content; at least one is TypeScript."""
    with tempfile.TemporaryDirectory() as folder:
        return _compiled(Path(folder), files)


def run_typescript(files: dict[str, str], script: str, **values: Any) -> list[Any]:
    """Compile these files without an error, run one of them, and return what it prints, as `run_node` does."""
    with tempfile.TemporaryDirectory() as folder:
        if found := _compiled(Path(folder), files):
            pytest.fail("\n".join(found), pytrace=False)
        done = node(Path(folder), f"made/{script}", text=json.dumps(values))
    if done.returncode != 0:
        pytest.fail(f"{script} ended with {done.returncode}:\n{done.stderr}\n{done.stdout}", pytrace=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _compiled(folder: Path, files: dict[str, str]) -> list[str]:
    beside_packages(folder)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS, "files": [*files]}), encoding="utf-8")
    done = node(folder, "node_modules/typescript/bin/tsc", "--pretty", "false")
    assert (done.returncode == 0) == (done.stdout == ""), done
    return done.stdout.splitlines()
