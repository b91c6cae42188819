"""Tests of the requests of a job after Ctrl-C, or after an error that all items get: none is sent any more."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.number_server import Number, NumberServer, response
from toolcast import Budget, OpenAI, Settings, ToolOrchestratingLLM
from toolcast.batch import JobInterrupted, JobStopped, Outcome, read_status
from toolcast.batch.pacing.pace import _registry
from toolcast.errors import AuthFailed

Seen = tuple[list[Outcome[Number]], BaseException | None]
Run = Callable[..., Seen]


class Server(NumberServer):
    """A server that may refuse: `refusal` is its response, without which it answers."""

    refusal: bytes | None = None

    def respond(self, connection: Any) -> None:
        if self.refusal is None:
            super().respond(connection)
        else:
            connection.answer(self.refusal)


@pytest.fixture
def server() -> Generator[Server]:
    _registry.clear()
    with Server() as server:
        yield server


def waiting() -> int:
    """The number of requests that wait to be admitted, of all jobs."""
    return sum(len(shared.queue) for shared in tuple(_registry.values()))


def run_sync(network: Any) -> Run:
    """Return a function that runs a job and presses Ctrl-C once `is_time`, and then calls `after`."""

    def run(
        server: NumberServer,
        texts: Iterable[str],
        is_time: Callable[[], bool],
        after: Callable[[], object],
        max_attempts: int = 1,
        **options: Any,
    ) -> Seen:
        call = numbers(server, network, max_attempts=max_attempts)
        seen: list[Outcome[Number]] = []
        outcomes = call.map(texts, **options)

        def stop() -> None:
            until(is_time)
            signal.raise_signal(signal.SIGINT)
            until(lambda: outcomes._job._run.schedule.stopped)  # the main thread runs the handler
            after()

        stops = threading.Thread(target=stop)
        try:
            with outcomes:
                stops.start()
                seen.extend(outcomes)
        except BaseException as error:
            return seen, error
        finally:
            stops.join()
            call.llm.close()
        return seen, None

    return run


def run_in(backend: str) -> Run:
    def run(
        server: NumberServer,
        texts: Iterable[str],
        is_time: Callable[[], bool],
        after: Callable[[], object],
        max_attempts: int = 1,
        **options: Any,
    ) -> Seen:
        call = numbers(server, max_attempts=max_attempts)
        seen: list[Outcome[Number]] = []

        async def stop() -> None:
            await anyio.to_thread.run_sync(until, is_time)
            signal.raise_signal(signal.SIGINT)
            await anyio.to_thread.run_sync(after)

        async def main() -> BaseException | None:
            caught: BaseException | None = None
            async with anyio.create_task_group() as group, call.amap(texts, **options) as outcomes:
                group.start_soon(stop)
                try:
                    async for outcome in outcomes:
                        seen.append(outcome)
                except (Exception, KeyboardInterrupt) as error:
                    caught = error
            await call.llm.aclose()
            return caught

        return seen, anyio.run(main, backend=backend)

    return run


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.001)


WAYS = {
    "threads": run_sync(None),
    "loop": run_sync("aiohttp"),
    "asyncio": run_in("asyncio"),
    "trio": run_in("trio"),
}


@pytest.fixture(params=WAYS)
def run(request: pytest.FixtureRequest) -> Run:
    return WAYS[request.param]


def numbers(server: NumberServer, network: Any = None, **options: Any) -> ToolOrchestratingLLM[Number]:
    llm = OpenAI("m", api_key="none", base_url=server.url, network=network)
    return ToolOrchestratingLLM(Number, "{text}", llm, settings=Settings(max_tokens=100), **options)


@pytest.mark.parametrize(
    ("options", "sent"),
    [({}, 4), ({"rpm": 1}, 1), ({"budget": Budget(tokens=200), "max_concurrency": 3}, 1)],
    ids=["concurrency", "rpm", "budget"],
)
def test_items_that_wait_are_not_sent_after_ctrl_c(
    options: dict[str, Any], sent: int, server: Server, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "numbers.checkpoint"
    server.hold()
    seen, error = run(
        server,
        map(str, range(50)),
        lambda: server.running == sent and (waiting() >= 4 or "budget" in options),
        server.release,
        checkpoint=path,
        **options,
    )
    assert isinstance(error, KeyboardInterrupt)
    assert len(seen) == sent  # in trio, tasks start in any order
    assert all(outcome.ok for outcome in seen)
    assert server.requests == sent
    status = read_status(path)
    assert (status.done, status.failed) == (sent, 0)
    rest = list(numbers(server).map(map(str, range(50)), checkpoint=path))
    assert [outcome.output for outcome in rest] == [Number(value=number) for number in range(50)]
    assert server.requests == 50


def test_an_invalid_answer_is_not_asked_about_after_ctrl_c(server: Server, run: Run, tmp_path: Path) -> None:
    """The item has an outcome, as its tokens were spent, and the next run asks for it again."""
    path = tmp_path / "numbers.checkpoint"
    server.hold()
    both = ["1", "bad"]
    seen, error = run(server, both, lambda: server.running == 2, server.release, max_attempts=2, checkpoint=path)
    assert isinstance(error, KeyboardInterrupt)
    assert [outcome.output for outcome in seen] == [Number(value=1), None]
    assert isinstance(seen[1].error, JobInterrupted)
    assert "the request was not sent, as the job ends early" in str(seen[1].error)
    assert (seen[1].attempts, seen[1].usage.total_tokens) == (1, 15)
    assert server.requests == 2
    status = read_status(path)
    assert (status.done, status.failed, status.spent.total_tokens) == (1, 1, 30)


def test_a_failed_request_is_not_repeated_after_ctrl_c(server: Server, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "numbers.checkpoint"
    server.hold()
    failed = response("500 Internal Server Error", {"error": {"message": "oops"}})

    def fail() -> None:
        server._loop.call_soon_threadsafe(lambda: [each.answer(failed) for each in tuple(server.connections)])

    seen, error = run(server, ["1", "2"], lambda: server.running == 2, fail, checkpoint=path)
    assert isinstance(error, KeyboardInterrupt)
    assert seen == []
    assert server.requests == 2
    assert (read_status(path).done, read_status(path).failed) == (0, 0)


def test_a_refused_request_is_not_waited_for_after_ctrl_c(
    server: Server, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """The service asks to wait for ten minutes."""
    server.refusal = response("429 Too Many Requests", {"error": {"message": "slow down"}}, "retry-after: 590\r\n")
    seen, error = run(server, ["1", "2", "3"], lambda: server.requests > 0 and waiting() == 3, lambda: None)
    assert isinstance(error, KeyboardInterrupt)
    assert seen == []
    assert 1 <= server.requests <= 3
    assert "no request is under way. Without a checkpoint another run asks for all items again." in caplog.text


@pytest.mark.parametrize("network", [None, "aiohttp"])
def test_items_that_wait_are_not_sent_after_an_error_that_all_get(server: Server, network: Any) -> None:
    """One request a minute: the job ends with the first one."""
    call = numbers(server, network)
    seen: list[Outcome[Number]] = []
    with pytest.raises(JobStopped) as caught:
        seen.extend(call.map(["refuse", *map(str, range(1_000))], rpm=1))
    assert isinstance(caught.value.__cause__, AuthFailed)
    assert [(outcome.index, type(outcome.error)) for outcome in seen] == [(0, AuthFailed)]
    assert server.requests == 1
