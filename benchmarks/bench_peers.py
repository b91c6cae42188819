"""The comparison with other libraries: `nox -s bench-peers`, which makes an environment for each of them.

Runs the script of each peer in its own environment, one at a time, and collects its results: streaming, start-up,
memory, one call, and rounds of agents. A run of everything takes about 30 minutes. It is printed; with `--write` it is
kept in results/peers.json, and the tables in docs/explanation/performance.md (and, by plots.py, the images) are made
from that file, with `--render-only` without measuring. Some peers or documents can be chosen (`nox -s bench-peers --
instructor --documents album`); toolcast is measured in every run, since ratios are taken within one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from typing import Any

from comparison import report
from page import processor, write
from peers.common import DOCUMENTS, LIST, PATIENCE, ROUNDS, SIZES

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "peers.json"
ENVIRONMENTS = HERE.parent / ".nox" / "peers"
SCRIPTS = {
    path.stem.replace("_", "-"): path
    for path in sorted((HERE / "peers").glob("*.py"))
    if path.stem not in ("common", "calling", "rounds")
}
LONGEST = 15 * 60  # seconds of wall clock for one peer
FRESH = 4 * PATIENCE  # seconds: what takes longer is not run once more for the memory of its snapshots


def main() -> None:
    """Measure, print, keep, write; or only write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("peers", nargs="*", metavar="PEER", help=f"some of {', '.join(SCRIPTS)}; without: all")
    options.add_argument(
        "--documents",
        nargs="+",
        help=f"some of {', '.join(DOCUMENTS)}",
        choices=DOCUMENTS,
        metavar="NAME",
        default=list(DOCUMENTS),
    )
    options.add_argument("--sizes", nargs="+", type=int, choices=SIZES, default=list(SIZES))
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument(
        "--write", action="store_true", help="keep the figures, and write them into docs/explanation/performance.md"
    )
    options.add_argument("--render-only", action="store_true", help="make the page's tables from the last figures")
    wanted = options.parse_args()
    if unknown := set(wanted.peers) - set(SCRIPTS):
        options.error(f"no such peer: {', '.join(sorted(unknown))}")
    if wanted.render_only:
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
    else:
        results = collect(sorted({"toolcast", *wanted.peers} if wanted.peers else SCRIPTS), wanted)
    figures = "\n\n".join(report(results))
    print(figures)
    if wanted.render_only or wanted.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(dumped(results), encoding="utf-8")
        write(figures, "bench-peers")
    if results["failures"]:
        sys.exit(f"did not come to their end: {', '.join(results['failures'])}")


def collect(names: Sequence[str], wanted: argparse.Namespace) -> dict[str, Any]:
    """Return the results of all these peers, toolcast first."""
    results: dict[str, Any] = {
        "taken": {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "system": platform.system(),
            "processor": processor(),
            "cores": os.cpu_count(),
        },
        "versions": {},
        "imports": {},
        "starts": {},
        "cells": [],
        "kept": [],
        "calls": [],
        "agents": [],
        "failures": {},
    }
    asked = ["--documents", *wanted.documents, "--sizes", *map(str, wanted.sizes), "--rounds", str(wanted.rounds)]
    for name in sorted(names, key=lambda name: name != "toolcast"):
        for result in run(name, *asked):
            add(results, name, result)
        if LIST in wanted.documents and min(SIZES) in wanted.sizes:
            for way in keepers(results, name):
                for result in run(name, "--keep", way):
                    add(results, name, result)
    return results


def add(results: dict[str, Any], name: str, result: dict[str, Any]) -> None:
    """Put one line of a peer where it belongs."""
    for kind, found in result.items():
        print(f"{name}: {kind} {short(found)}", file=sys.stderr, flush=True)
        if isinstance(results[kind], dict):
            results[kind][name] = found
        else:
            results[kind].append({"peer": name, **found})


def short(found: Any) -> str:
    """The same for the eye: without curves."""
    return str({key: value for key, value in found.items() if key != "curve"} if isinstance(found, dict) else found)


def keepers(results: dict[str, Any], name: str) -> list[str]:
    """The ways of the peer whose snapshots are kept in a run of their own: objects, in a reasonable time."""
    return [
        cell["way"]
        for cell in results["cells"]
        if (cell["peer"], cell["document"], cell["size"]) == (name, LIST, min(SIZES))
        and cell["gives"] in ("typed", "dicts")
        and cell.get("seconds")
        and min(cell["seconds"]) < FRESH
    ]


def run(name: str, *options: str, python: str = "") -> Iterator[dict[str, Any]]:
    """Yield the results of a peer's script; its messages go to a file beside its environment.

    It is run by the interpreter of that environment, or by another `python`.
    """
    command = [python or python_of(name), "-P", "-m", f"peers.{SCRIPTS[name].stem}", *options]
    variables = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONHASHSEED": "0"}
    log = ENVIRONMENTS / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("w", encoding="utf-8") as output,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, text=True, env=variables) as process,
    ):
        limit = Timer(LONGEST, process.kill)
        limit.start()
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:
            process.kill()
            raise
        finally:
            limit.cancel()
    if process.returncode:
        *_, reason = ["no message", *log.read_text(encoding="utf-8").split("\n")[:-1]]
        yield {"failures": f"ended with {process.returncode}: {reason}"}


def python_of(name: str) -> str:
    """The interpreter that has the peer: its own environment's, or this one for a script that names no packages."""
    if "# /// script" not in SCRIPTS[name].read_text(encoding="utf-8"):
        return sys.executable
    folder = "Scripts" if os.name == "nt" else "bin"
    return str(ENVIRONMENTS / name / folder / "python")


def dumped(results: dict[str, Any]) -> str:
    """The results as JSON, one cell a line."""
    parts = []
    for kind, found in results.items():
        if isinstance(found, list):
            lines = ",\n".join(f"    {json.dumps(entry)}" for entry in found)
            parts.append(f'  "{kind}": [\n{lines}\n  ]' if found else f'  "{kind}": []')
        else:
            parts.append(f'  "{kind}": {json.dumps(found)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
