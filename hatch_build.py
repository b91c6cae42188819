"""The build hook that compiles a part of the library with mypyc. It runs only where it is switched on.

    HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 python -m hatchling build -t wheel

The modules are listed in pyproject.toml (`[tool.hatch.build.targets.wheel.hooks.custom]`). Their Python files remain in
the wheel beside the extension modules: tracebacks name their files and lines. Python prefers the extension modules.

The Python build is the reference. Measure first: a module that does not show in a profile of a stream stays
interpreted, and so does one with coroutines, which lose the context of exceptions. What a compiled module must observe:

* It contains no public class. A compiled class can be subclassed only in compiled modules (use composition elsewhere),
  its methods cannot be replaced, and its instances have no `__dict__` and no weak references.
* Annotations are checked when the program runs. What comes from JSON is `Any` or `object` until its type is checked;
  `bytes` excludes `bytearray`: what an HTTP library returns is `Bytes` of `providers/sse.py`, until `to_bytes`.
* It has no dataclass of `lazy_dataclasses.py`: an `__init__` that is made later does not reach a compiled class.
* It sets `error.__cause__` instead of `raise error from cause`, whose `from` mypyc ignores.
* A subclass declares no attribute of its base again. A table of methods follows its class. A lone surrogate is
  `chr(0xD800)`.
* The end of a slice of `bytes` must not precede its start: mypyc raises `SystemError` where Python returns `b""`.
* A test that counts or replaces functions of such a module is marked `pure_only`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SETUP = """
from mypyc.build import mypycify
from setuptools import setup

setup(name="toolcast", packages=[], ext_modules=mypycify({arguments!r}, group_name="toolcast", debug_level="0"))
"""


class CustomBuildHook(BuildHookInterface[Any]):
    """The hook, which adds the extension modules to the wheel and gives the wheel the tag of its platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # A folder of its own: beside the source, extension modules would replace it in an editable installation.
        self.folder = TemporaryDirectory(prefix="toolcast-compiled-")
        built = self._compile(Path(self.folder.name), self.config["modules"])
        build_data["force_include"] |= {str(path): path.relative_to(built).as_posix() for path in built.rglob("*.*")}
        build_data["infer_tag"] = True
        build_data["pure_python"] = False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.folder.cleanup()

    def _compile(self, folder: Path, modules: list[str]) -> Path:
        """Compile these modules in a copy of the source, and return the folder of the extension modules."""
        shutil.copytree(Path(self.root, "src"), folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.pyc"))
        # Empty, because mypy follows its imports of every public name, which would take most of the time.
        Path(folder, "toolcast", "__init__.py").write_text("", encoding="utf-8")
        paths = [f"{module.replace('.', '/')}.py" for module in modules]
        # `nox -s types` checks the types strictly; here they are needed for the C code alone.
        arguments = ["--ignore-missing-imports", *paths]
        Path(folder, "setup.py").write_text(SETUP.format(arguments=arguments), encoding="utf-8")
        command = [sys.executable, "setup.py", "build_ext", "--build-lib", "built"]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise RuntimeError(f"mypyc could not compile the modules:\n{done.stdout.decode(errors='replace')[-5000:]}")
        return folder / "built"
