"""Write the JavaScript libraries of the web page and of the report of experiments.

`python docs/vendor_page.py` installs them with npm and copies them. There is no build step: the files in the folders
`vendor` are those of the packages, byte for byte. `versions.json` has their versions and SHA-256 hashes,
`licenses.txt` the licences of the packages and of what is bundled in their files. With `--check` nothing is written,
and a difference from the packages is an error.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "toolcast"


class Package(NamedTuple):
    """A package of npm: its license file, and the file that is used as `name`; without one it is part of another."""

    package: str
    version: str
    license: str = "LICENSE"
    file: str = ""
    name: str = ""


PAGE = (
    Package("markdown-it", "15.0.3", "LICENSE", "dist/browser/markdown-it.esm.min.mjs", "markdown-it.js"),
    Package("dompurify", "3.4.18", "LICENSE", "dist/purify.es.mjs", "purify.js"),
    Package("@highlightjs/cdn-assets", "11.12.0", "LICENSE", "es/highlight.min.js", "highlight.js"),
    Package("katex", "0.19.1", "LICENSE", "dist/katex.min.js", "katex.js"),
    # In the file of markdown-it:
    Package("linkify-it", "6.1.0"),
    Package("mdurl", "2.1.0"),
    Package("uc.micro", "3.0.0", "LICENSE.txt"),
    Package("punycode.js", "2.3.1", "LICENSE-MIT.txt"),
    Package("entities", "8.1.0"),
)
REPORT = (
    Package("vega", "6.4.0", "LICENSE", "build/vega.min.js", "vega.js"),
    Package("vega-lite", "6.4.3", "LICENSE", "build/vega-lite.min.js", "vega-lite.js"),
    Package("vega-interpreter", "2.3.2", "LICENSE", "build/vega-interpreter.js", "vega-interpreter.js"),
    # In the file of vega:
    Package("d3-array", "3.2.5"),
    Package("d3-color", "3.1.1"),
    Package("d3-delaunay", "6.0.6"),
    Package("d3-dispatch", "3.0.2"),
    Package("d3-dsv", "3.0.2"),
    Package("d3-ease", "3.0.2"),
    Package("d3-force", "3.0.1"),
    Package("d3-format", "3.1.3"),
    Package("d3-geo", "3.1.2"),
    Package("d3-geo-projection", "4.0.0"),
    Package("d3-hierarchy", "3.1.3"),
    Package("d3-interpolate", "3.0.2"),
    Package("d3-path", "3.1.1"),
    Package("d3-quadtree", "3.0.2"),
    Package("d3-scale", "4.0.3"),
    Package("d3-scale-chromatic", "3.1.1"),
    Package("d3-shape", "3.2.1"),
    Package("d3-time", "3.1.1"),
    Package("d3-time-format", "4.1.1"),
    Package("d3-timer", "3.0.2"),
    Package("delaunator", "5.1.0"),
    Package("internmap", "2.0.3"),
    Package("robust-predicates", "3.0.3"),
    Package("topojson-client", "3.1.0"),
)
FOLDERS = {SOURCE / "apps/web/page/vendor": PAGE, SOURCE / "experiments/report/vendor": REPORT}
"""The packages of each folder."""


def install(folder: Path) -> Path:
    """Install the packages below `folder`, without running their scripts, and return the folder of the modules."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed: install Node.js 20 or later")
    names = [f"{each.package}@{each.version}" for packages in FOLDERS.values() for each in packages]
    command = [npm, "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*command, *names], check=True, cwd=folder)
    return folder / "node_modules"


def vendored(modules: Path, packages: Sequence[Package]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file of a folder, made from the installed packages."""
    versions: dict[str, dict[str, str]] = {}
    licenses: list[str] = []
    for each in packages:
        folder = modules / each.package
        heading = f"{each.package} {each.version}"
        licenses.append(f"{heading}\n{'=' * len(heading)}\n\n{(folder / each.license).read_text().strip()}\n")
        if each.file:
            content = (folder / each.file).read_bytes()
            versions[each.name] = {"package": each.package, "version": each.version, "file": each.file}
            versions[each.name]["sha256"] = hashlib.sha256(content).hexdigest()
            yield each.name, content
    yield "licenses.txt", "\n\n".join(licenses).encode()
    yield "versions.json", (json.dumps(versions, indent=2) + "\n").encode()


def differences(modules: Path) -> list[str]:
    """Return the names of the files that are not those of the installed packages."""
    return [
        name
        for folder, packages in FOLDERS.items()
        for name, content in vendored(modules, packages)
        if not (folder / name).is_file() or (folder / name).read_bytes() != content
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or compare them; return 1 if they differ."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="compare, and write nothing")
    wanted = options.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        modules = install(Path(folder))
        if wanted.check:
            found = differences(modules)
            print(f"these files differ from the packages: {', '.join(found)}" if found else "no differences")
            return 1 if found else 0
        for folder, packages in FOLDERS.items():
            folder.mkdir(exist_ok=True)
            for name, content in vendored(modules, packages):
                (folder / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
