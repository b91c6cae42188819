"""Jobs with `via="batch"` at doubles of Anthropic, Gemini and Mistral over real connections: results, faults, kills."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from support import warm_python
from support.batch_double import BatchDouble
from support.batch_services import SERVICES
from support.google_batches import GoogleBatches
from support.loopback import whole
from support.openai_batches import VirtualClock
from toolcast import ToolOrchestratingLLM
from toolcast.batch import JobStopped, Outcome
from toolcast.batch.checkpoint import Checkpoint
from toolcast.batch.remote.journal import Journal
from toolcast.errors import BadRequest, LLMError, Timeout
from toolcast.llms.client import client_of
from toolcast.providers.anthropic.batches import AnthropicBatches
from toolcast.providers.google import batches as google_batches
from toolcast.providers.mistral.batches import MistralBatches
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.transport.network import Response
from toolcast.values.http_request import HTTPRequest
from toolcast.values.usage import Usage

CODECS = {
    "anthropic": AnthropicBatches,
    "google": google_batches.GoogleBatches,
    "google-file": google_batches.GoogleBatches,
    "mistral": MistralBatches,
}


class Killed(BaseException):
    """The end of the process, as far as the job can notice it."""


class KillingNetwork(HttpxNetwork):
    """A network that ends the process at a step: before a request is sent, or when its response arrives."""

    def __init__(self, at: int = 0) -> None:
        super().__init__()
        self.left = at
        self.where = ""

    def step(self, name: str) -> None:
        """Count a step, and end the process at the last one."""
        self.left -= 1
        if self.left == 0:
            self.where = name
            raise Killed

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        self.step(f"before {request.method} {request.url}")
        response = super().open(request, connect=connect, read=read)
        try:
            self.step(f"after {request.method} {request.url}")
        except Killed:
            response.close()
            raise
        return response


class Text(BaseModel):
    text: str


class Setting:
    """A service, and a call that uses it."""

    def __init__(self, name: str, server: BatchDouble, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = name
        self.server = server
        self.clock = VirtualClock()
        server.clock = self.clock.now
        server.reply = lambda text: {"text": text}
        if name == "google-file":
            monkeypatch.setattr(google_batches, "INLINE_BYTES", 0)
        monkeypatch.setattr(CODECS[name], "limits", replace(CODECS[name].limits, requests=2))
        self.network = HttpxNetwork()
        self.call = self.make()

    def make(self, network: HttpxNetwork | None = None, **options: Any) -> Any:
        service = SERVICES[self.name.partition("-")[0]]
        llm = service.llm(self.server.base, network=network or self.network, max_retries=2)
        llm.clock = self.clock
        return ToolOrchestratingLLM(Text, "{x}", llm, **options)

    def map(self, count: int, call: Any = None, **options: Any) -> list[Outcome[Text]]:
        return list((call or self.call).map([{"x": f"No. {at}"} for at in range(count)], via="batch", **options))


@pytest.fixture(params=CODECS)
def setting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    name = str(request.param)
    with SERVICES[name.partition("-")[0]].double() as server:
        found = Setting(name, server, monkeypatch)
        yield found
        found.network.close()


def texts(outcomes: list[Outcome[Text]]) -> list[str]:
    return [outcome.output.text if outcome.output else type(outcome.error).__name__ for outcome in outcomes]


def wanted(count: int) -> list[str]:
    return [f"No. {at}" for at in range(count)]


def assert_asked_once(server: BatchDouble, count: int) -> None:
    """Check that no request is in two batches."""
    assert len(server.submitted) == count
    assert set(Counter(repr(body) for _, body in server.submitted).values()) == {1}


def test_a_job_of_several_batches(setting: Setting) -> None:
    setting.server.shuffled = 1
    outcomes = setting.map(5)
    assert texts(outcomes) == wanted(5)
    assert_asked_once(setting.server, 5)
    assert not setting.server.files
    usage = outcomes[0].usage
    assert (usage.input_tokens, usage.output_tokens) == (20, 10)
    usual = client_of(setting.call.llm).price(Usage(20, 10)).cost
    assert usual
    assert {outcome.cost for outcome in outcomes} == {usual / 2}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_async_job(setting: Setting, backend: str) -> None:
    async def collect() -> list[Outcome[Text]]:
        call = setting.make(HttpxNetwork())
        try:
            return [each async for each in call.amap([{"x": text} for text in wanted(3)], via="batch")]
        finally:
            await call.llm.aclose()

    assert texts(anyio.run(collect, backend=backend)) == wanted(3)
    assert_asked_once(setting.server, 3)


def test_requests_that_fail_for_good(setting: Setting) -> None:
    setting.server.outcome = lambda id, body: "errored" if "No. 1" in repr(body) else "succeeded"
    outcomes = setting.map(3)
    assert texts([outcomes[0], outcomes[2]]) == ["No. 0", "No. 2"]
    assert isinstance(outcomes[1].error, LLMError)
    asked = Counter(repr(body) for _, body in setting.server.submitted)
    # Mistral's is an error of the request, which is not sent again.
    assert max(asked.values()) == (1 if isinstance(outcomes[1].error, BadRequest) else 3)


def test_an_expired_batch(setting: Setting) -> None:
    setting.server.fate = "expired"

    outcomes = setting.map(1)
    assert outcomes[0].error is not None
    assert len(setting.server.submitted) == 3
    setting.server.fate = "completed"
    assert texts(setting.map(1)) == ["No. 0"]


def test_a_batch_that_another_client_cancels(setting: Setting) -> None:
    hold, server = setting.server.hold, setting.server

    def cancelled(id: str, requests: dict[str, dict[str, Any]], **fields: Any) -> Any:
        batch = hold(id, requests, **fields)
        batch.status = "canceling"
        return batch

    server.hold = cancelled  # type: ignore[method-assign]  # cancelled by another client
    outcomes = setting.map(1)
    assert outcomes[0].error is not None
    assert len(server.submitted) == 1


@pytest.mark.parametrize(
    "setting", sorted(CODECS.keys() - {"anthropic"}), indirect=True
)  # its batches are checked when they are created
def test_a_batch_that_is_refused_as_a_whole(setting: Setting) -> None:
    setting.server.fate = "failed"
    with pytest.raises(JobStopped):
        setting.map(1)
    assert not setting.server.files


@pytest.mark.parametrize("fault", ["foreign", "doubled"])
def test_results_that_do_not_fit(setting: Setting, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    if fault == "foreign":
        setting.server.foreign = ["tc123-0"]
    else:
        setting.server.outcome = lambda id, body: setting.server.doubled.append(id) or "succeeded"  # type: ignore[func-returns-value]  # remembers the id
    assert texts(setting.map(2)) == wanted(2)
    assert re.search(r"\d results of batch .* cannot be used: ", caplog.text)
    assert_asked_once(setting.server, 2)


@pytest.mark.parametrize("setting", sorted(CODECS.keys() - {"google"}), indirect=True)  # its results are in the status
def test_a_download_that_breaks_off_is_fetched_again(setting: Setting) -> None:
    setting.server.cuts.append(450)
    assert texts(setting.map(2)) == wanted(2)
    assert not setting.server.cuts
    assert_asked_once(setting.server, 2)


def test_too_many_requests_while_polling(setting: Setting) -> None:
    setting.server.polls = 3
    setting.server.fail("^GET .*batch", whole(b"{}", 429, "retry-after: 7"), times=2)
    assert texts(setting.map(1)) == wanted(1)
    assert len([seconds for seconds in setting.clock.sleeps if 7 <= seconds < 7.5]) == 2  # a little later than allowed


def test_a_batch_at_the_end_of_a_long_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemini's list has no order that is documented: all of its pages are read."""
    with GoogleBatches() as server:
        setting = Setting("google", server, monkeypatch)
        setting.clock.seconds -= 1_000_000
        for _ in range(25):
            server.hold(
                f"batches/{server.number():04}", {}, model="models/m", displayName="old", file=None, metadata=True
            )
        server.submitted.clear()
        setting.clock.seconds += 1_000_000
        server.oldest_first = True
        network = LosingNetwork(killed=True)
        with pytest.raises(Killed):
            setting.map(2, setting.make(network), checkpoint=tmp_path / "job.db")
        network.close()
        assert texts(setting.map(2, checkpoint=tmp_path / "job.db")) == wanted(2)
        assert_asked_once(server, 2)
        setting.network.close()


def test_invalid_responses_are_asked_about_in_the_next_batch(setting: Setting) -> None:
    replies: list[Any] = [{"text": "No. 0"}, {"wrong": "No. 1"}, {"text": "No. 1"}]
    # Two are submitted first; the third is the second one again.
    setting.server.reply = lambda text: replies[2 if len(setting.server.submitted) == 3 else "No. 1" in text]
    outcomes = setting.map(2, setting.make(max_attempts=2), reask="batch")
    assert len(setting.server.submitted) == 3
    first, second, again = [body for _, body in setting.server.submitted]
    name = "contents" if "contents" in first else "messages"
    assert (len(first[name]), len(second[name]), len(again[name])) == (1, 1, 3)
    assert [outcome.attempts for outcome in outcomes] == [1, 2]
    assert texts(outcomes) == wanted(2)
    assert outcomes[1].usage.input_tokens == 40


class LosingNetwork(KillingNetwork):
    """A network that loses the response to the first request that creates a batch, or ends the process then."""

    def __init__(self, *, killed: bool = False) -> None:
        super().__init__()
        self.killed = killed

    def step(self, name: str) -> None:
        if not self.where and name.startswith("after POST") and name.endswith(("/batches", "/jobs", "GenerateContent")):
            self.where = name
            raise Killed if self.killed else Timeout("the response is lost", phase="first_token")


def test_a_lost_response_to_the_submission(setting: Setting) -> None:
    """The batch was created: it is found, and not created again."""
    network = LosingNetwork()
    assert texts(setting.map(1, setting.make(network))) == wanted(1)
    assert network.where
    assert_asked_once(setting.server, 1)
    network.close()


def goes_on_after(setting: Setting, step: int, path: Path) -> bool:
    """Check a job that ends at this step and is started again. Return False if it has fewer steps."""
    server, network = setting.server, KillingNetwork(step)
    with suppress(Killed):
        setting.map(3, setting.make(network), checkpoint=path)
    network.close()
    if not network.where:
        return False
    outcomes = setting.map(3, checkpoint=path)
    assert texts(outcomes) == wanted(3), network.where
    assert_asked_once(server, 3)
    server.submitted.clear()
    lost = network.where.startswith("after POST") and "files" in network.where
    assert lost or not server.files, network.where
    server.files.clear()
    with Checkpoint(path, setting.call) as checkpoint:
        assert Journal(checkpoint.file).plans() == []
    return True


@pytest.mark.nightly
def test_a_job_that_ends_at_any_request_goes_on_there(setting: Setting, tmp_path: Path) -> None:
    steps = next(step for step in range(1, 1_000) if not goes_on_after(setting, step, tmp_path / f"{step}.db"))
    assert steps > 12


def test_a_job_that_ends_at_some_requests_goes_on_there(setting: Setting, tmp_path: Path) -> None:
    for step in range(2, 9, 3):
        assert goes_on_after(setting, step, tmp_path / f"{step}.db")


PROGRAM = """
import sys
from pydantic import BaseModel
from support.batch_services import SERVICES
from toolcast import ToolOrchestratingLLM

class Text(BaseModel):
    text: str

name, url, path = sys.argv[1:]
call = ToolOrchestratingLLM(Text, "{x}", SERVICES[name].llm(url))
for outcome in call.map([{"x": f"No. {at}"} for at in range(3)], via="batch", checkpoint=path, poll=0.01):
    print(outcome.output.text, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize(
    "moment", ["POST .*batch", "POST .*files", "GET .*batch", "GET .*(result|content|download)", "DELETE"]
)
def test_a_killed_process(name: str, moment: str, tmp_path: Path) -> None:
    """The process is killed after the service has processed its request, and before it has the response."""
    path = tmp_path / "job.db"
    arguments = [sys.executable, "-c", PROGRAM, name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with SERVICES[name].double() as server:
        server.clock = time.time
        server.reply = lambda text: {"text": text}
        with warm_python.Popen(
            [*arguments, server.base, str(path)], env=environment, stdout=subprocess.PIPE, text=True
        ) as process:

            def kill(line: str) -> None:
                if re.search(moment, line) and process.poll() is None:
                    process.kill()
                    process.wait()

            server.processed = kill
            first, _ = process.communicate()
        killed = process.returncode == -signal.SIGKILL
        assert killed or not server.count(moment)
        server.processed = lambda line: None
        again = warm_python.run(
            [*arguments, server.base, str(path)], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        assert again.stdout.splitlines() == wanted(3)
        assert first.splitlines() == wanted(len(first.splitlines()))
        assert_asked_once(server, 3)
