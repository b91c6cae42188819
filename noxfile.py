"""Every task of the project, for `nox -s NAME`; needs nothing but Python >= 3.11 and nox itself.

Sessions share environments under `.nox/`, so that a fresh clone installs little and installs it once:

* `lint`: lint, types
* `audit`: the library alone, and beside it the tools of the audit
* `tests`: tests, affected, tests-full, coverage, clients, nightly, flakes, mutation, goals, live; matrix has one for
  each Python, below `matrix/`
* `compiled`: compiled, and a part of nightly and of goals (the tests, beside a wheel whose hot modules are compiled);
  wheels has one for each Python, below `wheels/`
* `local`: networked, browser, docs, bench (with the embedded llama.cpp server and the mock servers)
* `sdks`: sdks (with the services' own clients and the mock servers)
* `vendors`: vendors (with the newest of those clients, installed anew every day)
* `site`: site
* `demo`: the demo alone, with what a user of `toolcast[local]` has
* `bench`: bench-peers and bench-batch; each peer has an environment of its own, below `peers/`, and is installed anew
  every week

An environment is filled again only when what it was made from has changed; `uv` does it where it is to be
had, pip otherwise. `nox --install-only` prepares without running.

What goes into an environment is pinned with hashes by a file in `requirements/`, which `nox -s lock` renews. Only the
benchmark's environments, vendors and the library of the audit are not: they take what a user would get today.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.default_venv_backend = "none"  # environments are shared between sessions: see Environment

ROOT = Path(__file__).parent
PYPROJECT = nox.project.load_toml("pyproject.toml")
ELSEWHERE = ("project", "typing", "docs", "sdks", "clients", "browser")  # folders of tests/ with sessions of their own
SUITE = ("tests", *(f"--ignore=tests/{folder}" for folder in ELSEWHERE))
COMPILED = tuple(
    f"tests/{name}"
    for name in ("test_builds.py", "async_support/test_closing.py", "parsing", "providers", "structured")
)
"""The tests of the modules that are compiled in wheels for one platform, and of what contains their objects."""
PARALLEL = ("-n", str((os.cpu_count() or 1) + 1))  # many tests wait for a process or a socket
WAITING = ("-n", "4")
"""For tests that wait for a browser or a server most of the time."""
APPS = "*/toolcast/apps/*"
WHOLE = (*PARALLEL, "--timeout=300")  # of a slow test, and on a busy machine
IN_STEPS = os.environ.get("TOOLCAST_IN_STEPS") == "1"
"""Whether this is a step of `.ci/run`: there `nox -s tests` runs the whole suite."""
AIMOCK = "@copilotkit/aimock@1.43.0"
CLIENTS = ROOT / "tests" / "clients"
MERMAID = "mermaid@11.17.2"  # the major version that mkdocs-material supports
LOCKS = {
    "lint": ("pyproject.toml", "--group=test", "--group=lint", "--group=types", "--group=build"),
    "tests": ("pyproject.toml", "--group=test", "--group=build"),
    "compiled": ("pyproject.toml", "--group=test", "--group=build", "--group=compile"),
    "local": (
        *("pyproject.toml", "--extra=local", "--group=networked", "--group=browser", "--group=docs", "--group=build"),
    ),
    "sdks": ("pyproject.toml", "--group=sdks", "--group=build"),
    "ray": ("pyproject.toml", "--group=ray", "--group=build"),
    "demo": ("pyproject.toml", "--extra=local", "--group=build"),
    "site": ("--group=site", "--group=build"),
    "audit": ("pyproject.toml", "--group=audit", "--group=build"),
    "ci": ("--group=ci",),
    "uv": ("--group=uv",),
    "node": ("--group=node",),
}
"""The files in `requirements/`, and of what in pyproject.toml each is made."""


class Environment:
    """A virtual environment under `.nox/`, with what is `wanted`, or with the packages of a `lock` and the project.

    It is filled when it is not there, or was filled from something else; `edition` names what else it depends on.
    Without `editable`, the project itself is not installed.
    """

    def __init__(
        self,
        session: nox.Session,
        name: str,
        *wanted: str,
        lock: str = "",
        edition: str = "",
        python: str = sys.executable,
        editable: bool = True,
    ) -> None:
        self.session = session
        self.python = python
        self.folder = ROOT / ".nox" / name
        self.bin = self.folder / ("Scripts" if os.name == "nt" else "bin")
        self.path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        if lock:
            edition = f"{edition or PYPROJECT['project']} {_lock(lock).read_text(encoding='utf-8')}"
        self._fill(*wanted, lock=lock, edition=edition, editable=editable)

    def run(self, *command: str, silent: bool = False, success_codes: Sequence[int] = (0,), **env: str) -> Any | None:
        """Run `python -m COMMAND` in the environment; with `silent`, return its output."""
        options: dict[str, Any] = {"silent": silent, "success_codes": success_codes, "external": True}
        return self.session.run(str(self.bin / "python"), "-m", *command, env=self._variables(env), **options)

    def tool(self, name: str, *arguments: str) -> None:
        """Run a command that a package of the environment installs."""
        self.session.run(str(self.bin / name), *arguments, env=self._variables({}), external=True)

    def script(self, *command: str, **env: str) -> None:
        """Run `python COMMAND` in the environment."""
        self.session.run(str(self.bin / "python"), *command, env=self._variables(env), external=True)

    def add(self, lock: str) -> None:
        """Install the packages of a lock."""
        self._install("--require-hashes", "-r", str(_lock(lock)))

    def add_compiled(self, wheels: Path) -> None:
        """Build a wheel with compiled modules in the folder `wheels`, and install it, where the source has changed."""
        stamp = self.folder / "compiled-from"
        content = hashlib.sha256(b"".join(path.read_bytes() for path in _sources())).hexdigest()
        if stamp.is_file() and stamp.read_text() == content:
            return
        shutil.rmtree(wheels, ignore_errors=True)
        build = (str(self.bin / "python"), "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels))
        variables = self._variables({"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"})
        self.session.run_install(*build, env=variables, external=True, silent=True)
        self._install("--no-deps", "--force-reinstall", *map(str, wheels.glob("*.whl")))
        stamp.write_text(content)

    def _variables(self, more: dict[str, str]) -> dict[str, str]:
        # Compiled modules are kept, whatever the shell sets: every test process and every program that a test starts
        # would compile the packages it imports again.
        return {"PATH": self.path, "VIRTUAL_ENV": str(self.folder), "PYTHONDONTWRITEBYTECODE": "", **more}

    def _fill(self, *wanted: str, lock: str, edition: str, editable: bool) -> None:
        stamp = self.folder / "filled-from"
        recipe = [sys.version, self.python, edition or str(PYPROJECT["project"]), *wanted]
        content = hashlib.sha256("\n".join(recipe).encode()).hexdigest()
        if stamp.is_file() and stamp.read_text() == content:
            return
        if self.folder.is_dir():
            shutil.rmtree(self.folder)
        self.session.log(f"filling {self.folder.relative_to(ROOT)}")
        self.session.run_install(self.python, "-m", "venv", str(self.folder), external=True, silent=True)
        if lock:
            self.add(lock)
            if editable:  # what builds it is in the lock too
                self._install("--no-deps", "--no-build-isolation", "-e", ".")
        else:
            self._install(*wanted)
        stamp.write_text(content)

    def _install(self, *wanted: str) -> None:
        uv, python = _uv(), str(self.bin / "python")
        if uv:
            try:
                self.session.run_install(uv, "pip", "install", "-q", "--python", python, *wanted, external=True)
                return
            except CommandFailed:
                self.session.warn("uv could not install; trying pip")
        self.session.run_install(python, "-m", "pip", "install", "-q", *wanted, external=True)


@nox.session
def demo(session: nox.Session) -> None:
    """Structured calls on a real model, with their code: `toolcast demo`."""
    Environment(session, "demo", lock="demo").script("examples/demo.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """The fast part of the suite: sync and asyncio, few examples of Hypothesis, no test marked slow; in CI, nearly all.

    Posargs are tests, and then they alone are run: all of those, if posargs have `--suite=all`.
    """
    env = Environment(session, "tests", lock="tests")
    part = (*WHOLE, "--suite=ci") if IN_STEPS else ("--suite=fast", *PARALLEL)
    env.run("pytest", *(("--suite=fast", *session.posargs) if session.posargs else (*part, *SUITE)))


@nox.session
def affected(session: nox.Session) -> None:
    """What a change can have broken, the nearest first, for a minute (posargs: `--base REV`, `--seconds SECONDS`).

    It says what it did not run. `main` needs more: lint, types and tests.
    """
    script = (str(Environment(session, "tests", lock="tests").bin / "python"), "tests/affected.py", *session.posargs)
    changed = str(session.run(*script, "--files", external=True, silent=True)).split()
    if changed:
        lint_environment(session).run("ruff", "check", *changed)
        lint_environment(session).run("ruff", "format", "--check", *changed)
    session.run(*script, external=True)


@nox.session
def compiled(session: nox.Session) -> None:
    """The fast part of the suite against a wheel whose hot modules are compiled; in CI, the tests of those modules.

    Posargs are tests, and then they alone are run: all of those, if posargs say so with `--suite=all`.
    """
    suite = COMPILED if IN_STEPS else SUITE
    _compiled(session).run("pytest", "--suite=fast", *(session.posargs or (*PARALLEL, *suite)))


@nox.session
def wheels(session: nox.Session) -> None:
    """Compiled wheels, in `.nox/dist/`, for every Python from 3.11 to 3.13 that is installed, and their tests.

    The tests are those of the compiled modules, or the posargs.
    """
    for version in ("3.11", "3.12", "3.13"):
        if (python := _interpreter(version)) is None:
            session.warn(f"Python {version} is not installed: NO WHEEL")
            continue
        env = _compiled(session, f"wheels/{version}", python)
        env.run("pytest", "--suite=fast", *(session.posargs or COMPILED))


@nox.session(name="tests-full")
def tests_full(session: nox.Session) -> None:
    """The whole suite. Posargs are tests, and then they alone are run."""
    env = Environment(session, "tests", lock="tests")
    env.run("pytest", *(session.posargs or (*WHOLE, *SUITE)))


@nox.session
def coverage(session: nox.Session) -> None:
    """The whole suite, with the gates: 99.9 % of the library's branches are covered, and 95 % of those of its apps."""
    env = Environment(session, "tests", lock="tests")
    for command in (("erase",), ("run", "-m", "pytest", *WHOLE, *SUITE), ("combine", "-q")):
        env.run("coverage", *command)
    # All of it is reached; a tenth of a percent is left for lines that only a race between two threads leads to.
    env.run("coverage", "report", "--fail-under=99.9", f"--omit={APPS}")
    env.run("coverage", "report", "--fail-under=95", f"--include={APPS}")


@nox.session
def lint(session: nox.Session) -> None:
    """Check rules, format and layers, then conventions, public names and the wheel (posargs: of these, some tests)."""
    env = lint_environment(session)
    env.run("ruff", "check", ".")
    env.run("ruff", "format", "--check", ".")
    env.tool("lint-imports", "--no-cache")
    env.run("pytest", *(session.posargs or ["tests/project"]))


@nox.session
def types(session: nox.Session) -> None:
    """mypy and pyright, both strict, over the library and tests/typing; that every public type is known."""
    env = lint_environment(session)
    known = ("pyright", "--verifytypes", "toolcast", "--ignoreexternal", "--outputjson")

    def check(command: tuple[str, ...]) -> Any | None:  # None while the environments are prepared
        return env.run(*command, silent=True, success_codes=(0, 1) if command is known else (0,))

    with ThreadPoolExecutor() as threads:  # each has little use for a second core
        verified, *others = threads.map(check, (known, ("mypy",), ("pyright",)))
    if verified is None:
        return
    print(*others, sep="\n")
    _verify_types(session, json.loads(verified)["typeCompleteness"])
    env.run("pytest", *(session.posargs or ["tests/typing"]))


def _verify_types(session: nox.Session, found: dict[str, Any]) -> None:
    """Fail if pyright does not know the type of a symbol, but for the containers of parsing and what refers to them.

    mypyc would give a container a second place for an inherited attribute that is annotated again, as pyright wants.
    """
    unknown = [
        each["name"]
        for each in found["symbols"]
        if each["isExported"] and (not each["isTypeKnown"] or each["isTypeAmbiguous"])
    ]
    unknown = [name for name in unknown if not name.startswith("toolcast.parsing.")]
    if unknown or not found["symbols"]:
        session.error(f"pyright does not know the types of: {', '.join(unknown)}")
    session.log(f"verifytypes: {len(found['symbols'])} symbols, {found['completenessScore']:.2%} of the exported known")


@nox.session
def networked(session: nox.Session) -> None:
    """The tests against real servers, which they start: llmock, aimock, llama.cpp with a real model; in CI, the fast.

    Posargs are tests, and then they alone are run.
    """
    env = local(session)
    _weights(session, env)
    elsewhere = {Path("tests", folder) for folder in ELSEWHERE if folder != "project"}
    wanted = [
        str(path)
        for path in sorted(Path("tests").rglob("test_*.py"))
        if "mark.networked" in path.read_text(encoding="utf-8") and not elsewhere & {*path.parents}
    ]
    part = (*PARALLEL, "--suite=fast" if IN_STEPS else "--suite=all")
    env.run("pytest", "--networked", "-m", "networked", *(session.posargs or (*part, *wanted)), **_aimock(session, env))


@nox.session
def browser(session: nox.Session) -> None:
    """The web page in a real Chromium; in CI, without tests marked nightly.

    TOOLCAST_SCREENSHOTS=docs/images takes the pictures of the documentation.
    """
    env = local(session)
    _weights(session, env)
    part = (*WAITING, "--suite=ci" if IN_STEPS else "--suite=all", "tests/browser")
    env.run("pytest", *(session.posargs or part), TOOLCAST_CHROMIUM=_chromium(session))


@nox.session(name="browser-bench")
def browser_bench(session: nox.Session) -> None:
    """The page while an answer streams, in a real Chromium (posargs: see benchmarks/web_page.py)."""
    env = local(session)
    env.run("python", "benchmarks/web_page.py", *session.posargs, TOOLCAST_CHROMIUM=_chromium(session))


@nox.session
def ray(session: nox.Session) -> None:
    """Data sets and grids of experiments on local Ray clusters."""
    folders = ["tests/batch/ray", "tests/experiments/grids/ray"]
    Environment(session, "ray", lock="ray").run("pytest", *(session.posargs or folders))


@nox.session
def sdks(session: nox.Session) -> None:
    """toolcast beside the services' official clients: both are given the same answers, and must read the same."""
    env = Environment(session, "sdks", lock="sdks")
    env.run("pytest", "--networked", *(session.posargs or ["tests/sdks"]), **_aimock(session, env))


@nox.session
def clients(session: nox.Session) -> None:
    """The clients of the protocols that toolcast speaks to front ends, from npm, and what it exports for them."""
    env = Environment(session, "tests", lock="tests")
    env.run("pytest", *(session.posargs or ["tests/clients"]), TOOLCAST_CLIENTS=str(_clients(session, env)))


@nox.session
def docs(session: nox.Session) -> None:
    """Every snippet of README.md and docs/, every example and notebook, executed."""
    env = local(session)
    _jq(session)
    _weights(session, env)
    env.run("pytest", "--networked", *(session.posargs or ["tests/docs"]), **_aimock(session, env))


@nox.session
def site(session: nox.Session) -> None:
    """The documentation as a web site, `.nox/site/html/index.html`, links checked (posargs `serve`: a local server)."""
    env = Environment(session, "site", lock="site")
    mermaid = _npm(session, env, MERMAID) / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"
    env.run("mkdocs", *(session.posargs or ("build", "--strict")), MERMAID_JS=str(mermaid))


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmark, with the limit rows beside it (posargs `--write`: writes docs/explanation/performance.md)."""
    local(session).script("benchmarks/bench.py", *session.posargs)


@nox.session(name="bench-peers")
def bench_peers(session: nox.Session) -> None:
    """The benchmark of other libraries beside toolcast (posargs: some of them, `--write`), in their newest releases."""
    env = Environment(session, "bench", "-e", ".", "httpx2", "aiohttp")
    peers, render = _peers(), "--render-only" in session.posargs
    named = {*session.posargs} & {*peers, "toolcast"}
    for name in () if render else sorted(named & {*peers} if named else peers):
        Environment(session, f"peers/{name}", *_requirements(peers[name]), edition=_week())
    env.script("benchmarks/bench_peers.py", *session.posargs)
    if render or "--write" in session.posargs:
        plots = ROOT / "benchmarks" / "plots.py"
        Environment(session, "peers/plots", *_requirements(plots), edition=_week()).script(str(plots))


@nox.session(name="bench-batch")
def bench_batch(session: nox.Session) -> None:
    """The benchmark of many inputs, beside the openai SDK and instructor (posargs: see benchmarks/batch.py)."""
    env = Environment(session, "bench", "-e", ".", "httpx2", "aiohttp")
    peers = _peers()
    for name in ("openai", "instructor"):
        Environment(session, f"peers/{name}", *_requirements(peers[name]), edition=_week())
    env.script("benchmarks/batch.py", *session.posargs)


@nox.session
def goals(session: nox.Session) -> None:
    """The goals of speed, beside what both builds and other libraries reach (posargs `--write`: into the page)."""
    peers = _peers()
    for name in ("pydantic-ai", "mirascope", "instructor", "langgraph", "openai-agents", "llm"):
        Environment(session, f"peers/{name}", *_requirements(peers[name]), edition=_week())
    compiled = ("--compiled", str(_compiled(session).bin / "python"))
    Environment(session, "tests", lock="tests").script("benchmarks/goals.py", *compiled, *session.posargs)


@nox.session
def live(session: nox.Session) -> None:
    """Checks of the real services whose keys are in the environment, with a cap of $0.50 (posargs: see the script)."""
    Environment(session, "tests", lock="tests").script("tests/live_checks.py", *session.posargs)


@nox.session
def vendors(session: nox.Session) -> None:
    """The types of the vendors' newest SDKs, beside what toolcast knows (posargs: see tests/vendor_sdks.py)."""
    packages = [each["package"] for each in nox.project.load_toml(ROOT / "tests" / "vendor_sdks.toml").values()]
    env = Environment(session, "vendors", "-e", ".", *packages, edition=_today())
    env.script("tests/vendor_sdks.py", *session.posargs)


@nox.session
def nightly(session: nox.Session) -> None:
    """The whole suite on both builds with far longer fuzzing, 10,000 streams, a soak, and a fuzzer.

    Posargs are tests, and then they alone are run.
    """
    env = Environment(session, "tests", lock="tests")
    if not session.posargs:
        env.script("tests/cross_fuzz.py", "--inputs", "5000000")
        for gate in ("coverage", "networked", "browser", "audit", "mutation", "vendors"):
            session.notify(gate)
    soak = os.environ.get("TOOLCAST_SOAK_SECONDS", "1800")
    more = {"HYPOTHESIS_PROFILE": "nightly", "TOOLCAST_SOAK_SECONDS": soak}
    for each in (env, _compiled(session)):
        each.run("pytest", "--timeout=5400", *(session.posargs or SUITE), **more)


@nox.session
def flakes(session: nox.Session) -> None:
    """The whole suite in ten random orders, or as many as TOOLCAST_ORDERS sets; the first failure ends it."""
    env = Environment(session, "tests", lock="tests")
    for seed in range(int(os.environ.get("TOOLCAST_ORDERS", "10"))):
        env.run("pytest", "-x", *WHOLE, f"--shuffle={seed}", *(session.posargs or SUITE))


@nox.session
def matrix(session: nox.Session) -> None:
    """The whole suite on every other Python from 3.11 on that is installed; one that is missing is skipped."""
    for version in ("3.11", "3.12", "3.13", "3.14"):
        if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
            continue
        if (python := _interpreter(version)) is None:
            session.warn(f"Python {version} is not installed: NOT TESTED")
            continue
        env = Environment(session, f"matrix/{version}", lock="tests", python=python)
        env.run("pytest", *WHOLE, *(session.posargs or SUITE))


@nox.session
def mutation(session: nox.Session) -> None:
    """Change the modules without I/O, one place at a time, and count the changes that their tests detect.

    Posargs are options and modules of `tests/mutate.py`; `--write` keeps the counts for the page on reliability.
    """
    Environment(session, "tests", lock="tests").script("tests/mutate.py", *session.posargs)


@nox.session
def audit(session: nox.Session) -> None:
    """Known vulnerabilities of the run-time dependencies, and an SBOM of them, `.nox/sbom.cdx.json`."""
    library = Environment(session, "audit/library", "-e", ".")
    tools = Environment(session, "audit/tools", lock="audit")
    packages = next(library.folder.glob("lib*/**/site-packages"))
    bill = ROOT / ".nox" / "sbom.cdx.json"
    tools.run("cyclonedx_py", "environment", str(library.bin / "python"), "--of", "JSON", "-o", str(bill))
    command = [str(tools.bin / "python"), "-m", "pip_audit", "--path", str(packages), "-f", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        audited = json.loads(done.stdout)["dependencies"]
    except ValueError:
        if not re.search(r"(?i)connect|time(d )?out|resolve|http|service", done.stderr):
            session.error(f"the audit failed: {done.stderr[-1000:]}")
        session.warn(f"the service of the audit cannot be reached: NOT AUDITED\n{done.stderr[-1000:]}")
        return
    if vulnerable := [found for found in audited if found.get("vulns")]:
        session.error(json.dumps(vulnerable, indent=1))
    if missed := [found["name"] for found in audited if "skip_reason" in found and found["name"] != "toolcast"]:
        session.warn(f"NOT AUDITED, as the service does not list them: {', '.join(missed)}")


@nox.session
def lock(session: nox.Session) -> None:
    """Renew the files in `requirements/` (posargs: some of them) with the newest releases. Needs uv."""
    uv = _uv() or session.error("uv is not here: python -m pip install --require-hashes -r requirements/uv.txt")
    ways = ("--universal", "--python-version=3.11", "--generate-hashes", "--no-annotate", "--no-header", "--upgrade")
    for name in session.posargs or LOCKS:
        session.run(uv, "pip", "compile", "-q", *ways, *LOCKS[name], "-o", str(_lock(name)), external=True)


def lint_environment(session: nox.Session) -> Environment:
    """Return the environment of lint and types."""
    return Environment(session, "lint", lock="lint")


def local(session: nox.Session) -> Environment:
    """The environment with the embedded llama.cpp server and the mock servers."""
    return Environment(session, "local", lock="local")


def _compiled(session: nox.Session, name: str = "compiled", python: str = sys.executable) -> Environment:
    """Return an environment with a wheel whose hot modules are compiled."""
    env = Environment(session, name, lock="compiled", python=python, editable=False)
    env.add_compiled(ROOT / ".nox" / "dist" / name.rpartition("/")[2])
    env.script("-c", "import toolcast; assert toolcast.__compiled__, toolcast.__file__")
    return env


def _sources() -> list[Path]:
    """Return the files that a wheel is built from."""
    code = sorted((ROOT / "src").rglob("*.py"))
    return [ROOT / "pyproject.toml", ROOT / "hatch_build.py", *code]


def _lock(name: str) -> Path:
    return ROOT / "requirements" / f"{name}.txt"


def _peers() -> dict[str, Path]:
    """The scripts that name packages of their own, by the peer's name."""
    scripts = sorted((ROOT / "benchmarks" / "peers").glob("*.py"))
    return {path.stem.replace("_", "-"): path for path in scripts if "# /// script" in path.read_text(encoding="utf-8")}


def _requirements(script: Path) -> list[str]:
    """The packages named at the head of a script (PEP 723)."""
    return list(nox.project.load_toml(script)["dependencies"])


def _week() -> str:
    """This week: what was the newest release in another may not be it any more."""
    return f"{datetime.now(UTC):%G, week %V}"


def _today() -> str:
    """This day: what was the newest release on another may not be it any more."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def _weights(session: nox.Session, env: Environment) -> None:
    """Fetch the embedded model's weights here, where no test's time limit runs."""
    session.run_install(str(env.bin / "toolcast"), "pull", "smollm2", external=True)


def _interpreter(version: str) -> str | None:
    """Return a Python of this version that runs: of the path, or one that pyenv has installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    for python in (shutil.which(f"python{version}"), *map(str, installed)):
        # A shim of pyenv is there for every version, and fails for those that are not chosen.
        if python and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    return None


def _uv() -> str | None:
    beside = Path(sys.executable).with_name("uv.exe" if os.name == "nt" else "uv")
    return str(beside) if beside.is_file() else shutil.which("uv")


def _chromium(session: nox.Session) -> str:
    """Where Chromium is, without a window if possible: it needs half the time. It is installed if that can be done."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    if not any(map(shutil.which, names[:1] if _has_debian() else names)):
        _install_from_debian(session, names[0], "the page is tested in it")
    return next(filter(None, map(shutil.which, names)), names[0])


def _jq(session: nox.Session) -> None:
    """Have jq, with which the documentation reads the log of an experiment."""
    if shutil.which("jq") is None:
        _install_from_debian(session, "jq", "docs/reference/experiment-log.md is executed with it")


def _has_debian() -> bool:
    """Whether packages of Debian can be installed."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def _install_from_debian(session: nox.Session, package: str, why: str) -> None:
    if not _has_debian():
        session.error(f"{package} is not here, and {why}: sudo apt-get install {package}")
    apt = ("apt-get", "-q", "-y", "-o", "Dpkg::Use-Pty=0")
    session.run_install(*apt, "update", external=True, silent=True)
    session.run_install(*apt, "install", "--no-install-recommends", package, external=True, silent=True)


def _aimock(session: nox.Session, env: Environment) -> dict[str, str]:
    """Install aimock; return the variable that names its folder."""
    return {"TOOLCAST_AIMOCK": str(_npm(session, env, AIMOCK))}


def _npm(session: nox.Session, env: Environment, package: str) -> Path:
    """Install a package of npm; return the folder it is in."""
    name = package.rpartition("@")[0]
    folder = ROOT / ".nox" / name.rpartition("/")[2]
    npm = _node(env)
    if not (folder / "node_modules" / name).is_dir():
        command = (npm, "install", "--silent", "--prefix", str(folder), package)
        session.run_install(*command, env={"PATH": env.path}, external=True)
    return folder


def _clients(session: nox.Session, env: Environment) -> Path:
    """Install what tests/clients/package-lock.json names, when it has changed; return the folder it is in."""
    folder, stamp = ROOT / ".nox" / "clients", ROOT / ".nox" / "clients" / "filled-from"
    npm = _node(env)
    content = (CLIENTS / "package-lock.json").read_text(encoding="utf-8")
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != content:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(CLIENTS / name, folder)
        with session.chdir(folder):
            session.run_install(npm, "ci", "--silent", "--ignore-scripts", env={"PATH": env.path}, external=True)
        stamp.write_text(content, encoding="utf-8")
    return folder


def _node(env: Environment) -> str:
    """Have Node, from PyPI where this machine has none; return where npm is."""
    if not _has_node() and not (env.bin / "npm").exists():
        env.add("node")
    return shutil.which("npm", path=env.path) or "npm"


def _has_node() -> bool:
    """Whether this machine has npm and a Node that aimock runs on (20 or later)."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return version.startswith("v") and int(version[1:].split(".")[0]) >= 20
