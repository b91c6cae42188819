"""Live requests after invalid responses of a batch: the workers and limits of a live job, beside the batches."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from batch.remote.test_remote_run import Out, Pair, once_invalid, sayings, texts, without_batches
from support.openai_batches import CHAT, completion, last_text
from toolcast.batch import JobStopped
from toolcast.batch.remote import reasks
from toolcast.errors import AuthFailed, ServerError, TryAgain
from toolcast.values.hooks import Hooks

COUNT = 3  # not more than a job begins with


def invalid_pair(**options: Any) -> Pair:
    """A service whose first response to each request is invalid."""
    pair = Pair(max_attempts=2, **options)
    pair.service.answer = once_invalid({"Say"})
    return pair


def test_live_requests_are_sent_at_the_same_time() -> None:
    pair = invalid_pair()
    together = threading.Barrier(COUNT)

    def wait_for_the_others(method: str, target: str, body: bytes) -> list[bytes | Exception]:
        if target.endswith(CHAT):
            together.wait(30)  # without the others it breaks, which fails the request
        return [body]

    pair.service.cut = wait_for_the_others
    outcomes = pair.map(COUNT)
    assert texts(outcomes) == sayings(*range(COUNT))
    assert {outcome.attempts for outcome in outcomes} == {2}
    assert len(pair.service.batches) == 1
    assert not pair.service.files


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_live_requests_are_sent_at_the_same_time_by_tasks(backend: str) -> None:
    pair = invalid_pair()
    original = pair.service.aopen
    together: list[Any] = []

    async def aopen(request: Any, *, connect: Any, read: Any) -> Any:
        if request.target.endswith(CHAT):
            together.append(request)
            while len(together) < COUNT:
                await anyio.lowlevel.checkpoint()
        return await original(request, connect=connect, read=read)

    pair.service.aopen = aopen  # type: ignore[method-assign]  # it waits for the others

    async def main() -> list[Any]:
        rows = [{"x": number} for number in range(COUNT)]
        return [outcome async for outcome in pair.call.amap(rows, via="batch")]

    assert texts(anyio.run(main, backend=backend)) == sayings(*range(COUNT))


def test_the_limits_of_the_job_are_those_of_its_live_requests() -> None:
    pair = invalid_pair()
    under_way = threading.Lock()
    sent = 0

    def watch(method: str, target: str, body: bytes) -> list[bytes | Exception]:
        nonlocal sent
        if target.endswith(CHAT):
            assert under_way.acquire(blocking=False)
            sent += 1
            under_way.release()
        return [body]

    pair.service.cut = watch
    assert texts(pair.map(20, max_concurrency=1)) == sayings(*range(20))
    assert sent == 20


def test_results_are_read_as_fast_as_live_requests_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = invalid_pair()
    may_answer = threading.Event()
    asked: list[int] = []
    wait = reasks.LiveReasks.wait

    async def watched(self: Any, seconds: float | None = None) -> None:
        asked.append(len(self._asked))
        may_answer.set()
        await wait(self, seconds)

    def cut(method: str, target: str, body: bytes) -> list[bytes | Exception]:
        if target.endswith(CHAT):
            assert may_answer.wait(30)
        return [*body.splitlines(keepends=True)] if target.endswith("/content") else [body]

    monkeypatch.setattr(reasks.LiveReasks, "wait", watched)
    pair.service.cut = cut
    assert texts(pair.map(20, max_concurrency=1)) == sayings(*range(20))
    assert asked[0] == 2  # one that runs, and the next one


@pytest.mark.parametrize("slow", [True, False])
def test_batches_are_waited_for_while_live_requests_run(slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A live request ends in the wait for a batch, or if it is `slow` after the results of the batch were read."""
    pair = Pair(max_attempts=2)
    pair.limit(requests=1)
    pair.service.answer = once_invalid({"Say 0"})
    may_answer = threading.Event()
    wait = reasks.LiveReasks.wait
    unavailable = 6

    async def watched(self: Any, seconds: float | None = None) -> None:
        if not slow:
            may_answer.set()
        await wait(self, seconds)

    def fail(method: str, path: str) -> tuple[int, bytes] | None:
        """Let the second batch end after the first."""
        nonlocal unavailable
        if path == "/v1/batches/batch_4" and unavailable:
            unavailable -= 1
            return 503, b"{}"
        return None

    def cut(method: str, target: str, body: bytes) -> list[bytes | Exception]:
        if target.endswith(CHAT):
            assert may_answer.wait(30)
        if target.endswith("/content") and b"Say 1" in body:
            may_answer.set()
        return [body]

    monkeypatch.setattr(reasks.LiveReasks, "wait", watched)
    pair.service.before, pair.service.cut = fail, cut
    assert texts(pair.map(2, poll=0.01 if slow else None)) == sayings(0, 1)
    assert not pair.service.files


def test_the_outcomes_of_live_requests_that_run_are_returned_before_the_error_that_ends_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(max_attempts=2)
    pair.limit(requests=1)
    pair.service.answer = once_invalid({"Say 0"})
    may_answer = without_batches(monkeypatch)

    def cut(method: str, target: str, body: bytes) -> list[bytes | Exception]:
        if target.endswith(CHAT):
            assert may_answer.wait(30)
        return [body]

    def fail(method: str, path: str) -> tuple[int, bytes] | None:
        """Refuse the status of the second batch while the live request for an item of the first one runs."""
        if path != "/v1/batches/batch_4":
            return None
        return (403, b"{}") if pair.service.live else (503, b"{}")

    pair.service.before, pair.service.cut = fail, cut
    outcomes: list[Any] = []
    with pytest.raises(JobStopped, match="it gets no further"):
        for outcome in pair.call.map([{"x": 0}, {"x": 1}], via="batch", poll=0.01):
            outcomes.append(outcome)
    assert texts(outcomes) == sayings(0)


def test_an_error_of_a_live_request_is_that_of_its_item() -> None:
    pair = invalid_pair()
    pair.llm.retry_policy = type(pair.llm.retry_policy)(max_retries=0)

    def fail(method: str, path: str) -> tuple[int, bytes] | None:
        return (500, b"{}") if path == CHAT and b"Say 1" in pair.service.received[-1][2] else None

    pair.service.before = fail
    outcomes = pair.map(3)
    assert texts(outcomes) == ["Say 0", "ServerError", "Say 2"]
    assert isinstance(outcomes[1].error, ServerError)
    assert [outcome.attempts for outcome in outcomes] == [2, 2, 2]
    assert outcomes[1].usage.total_tokens == 110


@pytest.mark.parametrize("stored", [True, False])
def test_a_refused_key_of_live_requests_stops_the_job(tmp_path: Path, stored: bool) -> None:
    pair = Pair(max_attempts=2)
    pair.service.answer = once_invalid({"Say 0"})
    pair.limit(requests=1)
    pair.service.before = lambda method, path: (401, b"{}") if path == CHAT else None
    options: dict[str, Any] = {"checkpoint": tmp_path / "job.db"} if stored else {}
    got: list[Any] = []
    with pytest.raises(JobStopped, match="every other item would fail likewise") as caught:
        got.extend(pair.call.map([{"x": 0}, {"x": 1}], via="batch", ordered=False, **options))
    assert isinstance(caught.value.__cause__, AuthFailed)
    pair.service.before = lambda method, path: None
    if stored:
        assert texts(pair.map(2, **options)) == sayings(0, 1)
        assert len(pair.service.batches) == 3  # the refused item has failed, and is submitted again
    assert not pair.service.files


def test_items_that_were_not_asked_again_are_asked_by_the_next_run(tmp_path: Path) -> None:
    pair = invalid_pair()
    path = tmp_path / "job.db"
    pair.service.before = lambda method, at: (401, b"{}") if at == CHAT else None
    with pytest.raises(JobStopped):
        pair.map(40, checkpoint=path, max_concurrency=1)
    pair.service.before = lambda method, at: None
    outcomes = pair.map(40, checkpoint=path)
    assert texts(outcomes) == sayings(*range(40))
    assert len(pair.service.batches) == 1  # its results are read again
    assert not pair.service.files


class Exit(BaseException):
    """An exit that a function demands."""


def test_an_exit_that_a_function_demands_ends_the_job() -> None:
    calls: list[str] = []

    def store(text: str) -> str:
        calls.append(text)
        if len(calls) == 1:
            raise TryAgain("louder, please")
        raise Exit

    pair = Pair(output=store, max_attempts=2)
    pair.service.answer = lambda body: (200, completion(body, {"text": last_text(body)}))
    with pytest.raises(Exit):
        pair.map(1)
    assert not pair.service.files


def closed(pair: Pair, end: Any, **options: Any) -> None:
    """Take the first outcome of a job, and end it while the live request for the other one waits."""
    answered = threading.Event()
    pair.service.answer = once_invalid({"Say 1"})
    pair.service.cut = lambda method, target, body: (
        [body] if not target.endswith(CHAT) or answered.wait(30) else [ServerError("late")]
    )
    outcomes = pair.call.map([{"x": 0}, {"x": 1}], via="batch", **options)
    assert next(outcomes).output == Out(text="Say 0")
    threading.Timer(0.1, answered.set).start()
    end(outcomes)


def test_a_job_is_closed_while_a_live_request_runs(tmp_path: Path) -> None:
    pair = Pair(max_attempts=2)
    closed(pair, lambda outcomes: outcomes.close())
    assert not pair.service.files
    path = tmp_path / "job.db"
    closed(pair, lambda outcomes: outcomes.close(), checkpoint=path)
    assert pair.service.files
    assert texts(pair.map(2, checkpoint=path)) == sayings(0, 1)
    assert not pair.service.files


def test_an_abandoned_job_aborts_its_live_requests(tmp_path: Path) -> None:
    pair = Pair(max_attempts=2)
    path = tmp_path / "job.db"
    closed(pair, lambda outcomes: outcomes.__del__(), checkpoint=path)
    assert texts(pair.map(2, checkpoint=path)) == sayings(0, 1)
    assert len(pair.service.batches) == 1


def test_hooks_of_the_call_observe_the_live_requests() -> None:
    seen: list[Any] = []

    class Watch(Hooks):
        def request(self, call: Any, request: Any) -> None:
            seen.append(request)

    pair = invalid_pair(hooks=Watch())
    assert texts(pair.map(2)) == sayings(0, 1)
    assert len(seen) == 2
