"""What every test stands on: async backends, Hypothesis profiles, real servers, and skips that cannot hide.

* `async def` tests run on asyncio and on trio.
* A test marked `networked` needs a real server. It runs with `--networked` (`nox -s networked`), where a
  server that does not start is a failure; elsewhere it is skipped.
* With TOOLCAST_REQUIRE_SHARED=1 a test that was skipped for want of `../shared` is a failure.
"""

from __future__ import annotations

import gc
import os
import random
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("support.sync_and_async", "servers.aimock_server", "servers.llama_server")

REQUIRE_SHARED = os.environ.get("TOOLCAST_REQUIRE_SHARED") == "1"

slow_is_fine = [HealthCheck.too_slow]  # two cores and coverage on: slow input is no fault of a test
settings.register_profile("dev", deadline=None, suppress_health_check=slow_is_fine)
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("nightly", parent=settings.get_profile("dev"), max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop of an async test: each runs on both."""
    return str(request.param)


def pytest_configure() -> None:
    """Have this process and those that tests start interrupted by SIGINT.

    A program that is started with SIGINT ignored (in the background of a shell script, by some CI runners) passes
    that on.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--networked", action="store_true", help="run the tests that start real servers")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in the random order of this seed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (seed := config.getoption("--shuffle")) is not None:
        random.Random(seed).shuffle(items)
    if config.getoption("--networked"):
        return
    elsewhere = pytest.mark.skip(reason="needs a real server, run `nox -s networked`: NOT TESTED HERE")
    for item in items:
        if item.get_closest_marker("networked"):
            item.add_marker(elsewhere)


def pytest_collection_finish() -> None:
    """Many tests collect garbage to see that nothing is left over; they need not go through all other tests for it."""
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
