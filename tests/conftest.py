"""What every test stands on: async backends, Hypothesis profiles, the parts of the suite, real servers, and skips.

* `async def` tests run on asyncio and on trio.
* `--suite=fast` leaves out what takes long: tests marked `slow` or `nightly` (kills, soaks, every cut), the sessions of
  users in `tests/user/` except the first steps (they start many programs), tests on trio (those with the word in their
  id, as `test_x[trio-1]`), and most examples of Hypothesis. `--suite=slow` runs just that: the two together are the
  whole suite, which pytest runs without the option. `--suite=ci` is the whole without tests marked `nightly`, with a
  third of the examples, and with sync code in the thread of one kind of loop.
* A test marked `networked` needs a real server. It runs with `--networked` (`nox -s networked`), where a
  server that does not start is a failure; elsewhere it is skipped.
* A test marked `pure_only` counts or replaces functions of modules that a wheel for one platform has compiled. It is
  skipped there (`nox -s compiled`).
* With TOOLCAST_REQUIRE_SHARED=1 a test that was skipped for want of `../shared` is a failure.
"""

from __future__ import annotations

import gc
import os
import random
import re
import shutil
import signal
import tempfile
from collections.abc import Generator
from itertools import count

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

import toolcast
from support.example_counts import FEW

pytest_plugins = (
    "support.sync_and_async",
    "support.notebooks",
    "support.process",
    "support.second_look",
    "support.warm_python",
    "servers.aimock_server",
    "servers.llama_server",
)

REQUIRE_SHARED = os.environ.get("TOOLCAST_REQUIRE_SHARED") == "1"

slow_is_fine = [HealthCheck.too_slow]  # two cores and coverage on: slow input is no fault of a test
settings.register_profile("dev", deadline=None, suppress_health_check=slow_is_fine)
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("nightly", parent=settings.get_profile("dev"), max_examples=20_000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
settings.register_profile("fast", parent=settings.get_profile(PROFILE), max_examples=FEW)
settings.register_profile("steps", parent=settings.get_profile(PROFILE), max_examples=33)
PROFILES = {"fast": "fast", "ci": "steps"}  # of the parts of the suite that have their own

IN_A_LOOP = re.compile(r"\[.*\b(trio|sync-in-asyncio)\b")
"""The name of a test that runs on trio, or that calls sync code in the thread of a loop."""
IN_A_TRIO_LOOP = re.compile(r"\[.*\bsync-in-trio\b")
FAST_SESSIONS = {"test_first_steps.py"}  # of tests/user
BETWEEN_COLLECTIONS = 100  # tests
number_of_tests = count(1)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop of an async test: each runs on both."""
    return str(request.param)


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile of Hypothesis, hide the developer's settings, and let SIGINT interrupt the tests' processes.

    A program that is started with SIGINT ignored (in the background of a shell script, by some CI runners) passes
    that on.
    """
    os.environ["TOOLCAST_CONFIG"] = os.devnull  # no test reads the developer's own config file
    os.environ.pop("TOOLCAST_MODEL", None)
    os.environ["TOOLCAST_HOME"] = tempfile.mkdtemp(prefix="toolcast-tests-")  # nor writes into their sessions
    config.add_cleanup(lambda: shutil.rmtree(os.environ["TOOLCAST_HOME"], ignore_errors=True))
    settings.load_profile(PROFILES.get(config.getoption("--suite"), PROFILE))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--networked", action="store_true", help="run the tests that start real servers")
    parts = ("all", "ci", "fast", "slow")
    parser.addoption("--suite", choices=parts, default="all", help="the part of the suite to run")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in the random order of this seed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    select(config, items)
    if (seed := config.getoption("--shuffle")) is not None:
        random.Random(seed).shuffle(items)
    if toolcast.__compiled__:
        compiled = pytest.mark.skip(reason="counts or replaces functions, which a compiled module does not allow")
        for item in items:
            if item.get_closest_marker("pure_only"):
                item.add_marker(compiled)
    if config.getoption("--networked"):
        return
    elsewhere = pytest.mark.skip(reason="needs a real server, run `nox -s networked`: NOT TESTED HERE")
    for item in items:
        if item.get_closest_marker("networked"):
            item.add_marker(elsewhere)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that are not in the part of the suite that `--suite` names."""
    suite = config.getoption("--suite")
    if suite == "all":
        return
    keep = {"ci": is_in_ci, "fast": is_fast, "slow": is_slow}[suite]
    config.hook.pytest_deselected(items=[item for item in items if not keep(item)])
    items[:] = [item for item in items if keep(item)]


def is_fast(item: pytest.Item) -> bool:
    """Return whether a test is in the fast part of the suite."""
    if item.path.parent.name == "user" and item.path.name not in FAST_SESSIONS:
        return False
    takes_long = item.get_closest_marker("slow") or item.get_closest_marker("nightly")
    return not (takes_long or IN_A_LOOP.search(item.name))


def is_in_ci(item: pytest.Item) -> bool:
    """Return whether a test decides about changes. Sync code does not see which kind of loop runs in its thread."""
    return not (item.get_closest_marker("nightly") or IN_A_TRIO_LOOP.search(item.name))


def is_slow(item: pytest.Item) -> bool:
    """Return whether a test is in the slow part of the suite, as a test of Hypothesis is, with all of its examples."""
    return not is_fast(item) or is_hypothesis_test(getattr(item, "obj", None))


def pytest_collection_finish() -> None:
    forget_the_past()


@pytest.hookimpl(tryfirst=True)  # before the fixtures: what belongs to this test has to stay collectable
def pytest_runtest_setup() -> None:
    if next(number_of_tests) % BETWEEN_COLLECTIONS == 0:
        forget_the_past()


def forget_the_past() -> None:
    """Take all objects out of the garbage collector's sight.

    Many tests collect garbage to see that nothing is left over. Going through all that was made before them, other
    tests and modules above all, would take most of their time.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_missing_data(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_missing_data(report)
    return report


def refuse_missing_data(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip for want of `../shared` into a failure where that folder must be there."""
    if not (REQUIRE_SHARED and report.outcome == "skipped" and isinstance(report.longrepr, tuple)):
        return
    reason = str(report.longrepr[2])
    # A test that is parametrized over the files of ../shared has no parameters without them.
    if "../shared" in reason or "got empty parameter set" in reason:
        report.outcome = "failed"
        report.longrepr = f"{reason}\nTOOLCAST_REQUIRE_SHARED=1: this must not be skipped here"
