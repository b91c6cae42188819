"""A job through a batch API that ends at any step and is started again: nothing is submitted twice, nothing is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batch.remote.test_remote_run import Once, Pair, once_invalid, sayings, texts
from support.openai_batches import last_text
from toolcast.batch import JobStopped
from toolcast.batch.checkpoint import Checkpoint
from toolcast.batch.job_errors import CheckpointError, ProviderBatchError
from toolcast.batch.remote.journal import Journal
from toolcast.providers.batch_codec import BatchStatus
from toolcast.providers.chat_completions.batches import OpenAIBatches
from toolcast.values.http_request import HTTPResponse


class Killed(BaseException):
    """The end of the process, as far as the job can notice it."""


class Killer:
    """Ends the process at a step: each request, before and after the service processes it, and each write."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.where = ""

    def step(self, name: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.where = name
            raise Killed

    def watch(self, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
        pair.service.before = lambda method, path: self.step(f"before {method} {path}")
        pair.service.after = lambda method, path: self.step(f"after {method} {path}")
        writes = {Journal: ("plan", "submitting", "submitted", "settled", "drop", "add_answer", "drop_answers")}
        for owner, names in (*writes.items(), (Checkpoint, ("write",))):
            for name in names:
                monkeypatch.setattr(owner, name, self._around(f"{owner.__name__}.{name}", getattr(owner, name)))

    def _around(self, name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any) -> Any:
            self.step(f"before {name}")
            result = write(*args)
            self.step(f"after {name}")
            return result

        return watched


def submitted(pair: Pair) -> Counter[str]:
    """Count the requests of all batches that were created, by their text and the number of messages."""
    return Counter(f"{last_text(body)}/{len(body['messages'])}" for body in pair.service.submitted.values())


@pytest.mark.nightly
@pytest.mark.parametrize("reask", ["live", "batch"])
def test_a_job_that_ends_at_any_step_goes_on_there(tmp_path: Path, reask: str) -> None:
    last = next(step for step in range(1, 1_000) if not goes_on_after(step, tmp_path / f"{step}.db", reask))
    assert last > 60


@pytest.mark.parametrize("reask", ["live", "batch"])
def test_a_job_that_ends_at_some_steps_goes_on_there(tmp_path: Path, reask: str) -> None:
    for step in range(3, 60, 11):
        assert goes_on_after(step, tmp_path / f"{step}.db", reask)


def goes_on_after(step: int, path: Path, reask: str) -> bool:
    """Check a job that ends at this step and is started again. Return False if it has fewer steps."""
    pair = Pair(max_attempts=2)
    pair.limit(requests=2)
    pair.service.answer = once_invalid({"Say 1"})
    options: dict[str, Any] = {"checkpoint": path, "reask": reask, "key": "x"}
    killer = Killer(step)
    got: list[Any] = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        killer.watch(pair, monkeypatch)
        with suppress(Killed):
            for outcome in pair.call.map([{"x": number} for number in range(3)], via="batch", **options):
                got.append(outcome)
    pair.service.before = pair.service.after = lambda method, path: None
    if not killer.where:
        return False
    asked = submitted(pair)
    outcomes = pair.map(3, **options)
    assert texts(outcomes) == sayings(0, 1, 2), killer.where
    assert texts(got) == texts(outcomes)[: len(got)]
    assert set(submitted(pair).values()) == {1}, killer.where
    assert asked <= submitted(pair)
    # An uploaded file whose id was not recorded is lost; nothing is charged for it.
    assert not pair.service.files or killer.where in ("after POST /v1/files", "before Journal.submitting")
    with Checkpoint(path, pair.call) as checkpoint:
        assert Journal(checkpoint.file).plans() == []
    return True


def test_outcomes_that_were_stored_are_not_asked_for_again(tmp_path: Path) -> None:
    pair = Pair()
    path = tmp_path / "job.db"
    first = pair.map(3, checkpoint=path)
    requests = len(pair.service.log)
    again = pair.map(3, checkpoint=path)
    assert [outcome.output for outcome in again] == [outcome.output for outcome in first]
    assert len(pair.service.log) == requests
    assert texts(pair.map(4, checkpoint=path)) == sayings(0, 1, 2, 3)
    assert submitted(pair).total() == 4


def test_failed_items_are_submitted_again_by_the_next_run(tmp_path: Path) -> None:
    pair = Pair()
    path = tmp_path / "job.db"
    pair.service.answer = lambda body: (400, {"error": {"message": "no", "type": "invalid_request_error"}})
    assert texts(pair.map(2, checkpoint=path)) == ["BadRequest", "BadRequest"]
    pair.service.answer = once_invalid(set())
    assert texts(pair.map(2, checkpoint=path)) == sayings(0, 1)


def test_batches_go_on_when_a_job_with_a_checkpoint_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pair = Pair()
    pair.limit(requests=1)
    path = tmp_path / "job.db"
    with pair.call.map([{"x": 0}, {"x": 1}], via="batch", checkpoint=path) as outcomes:
        next(outcomes)
    assert pair.count("POST /v1/batches") == 2
    assert "start the job again with the same checkpoint" in caplog.text
    assert texts(pair.map(2, checkpoint=path)) == sayings(0, 1)
    assert pair.count("POST /v1/batches") == 2


def test_inputs_in_another_order(tmp_path: Path) -> None:
    pair = Pair()
    pair.limit(requests=2)
    path = tmp_path / "job.db"
    stop(pair, path, 4)
    outcomes = pair.map([{"x": 3}, {"x": 4}, {"x": 1}, {"x": 0}, {"x": 2}], checkpoint=path)
    assert texts(outcomes) == sayings(3, 4, 1, 0, 2)
    assert set(submitted(pair).values()) == {1}


def test_inputs_that_are_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pair = Pair()
    path = tmp_path / "job.db"
    stop(pair, path, 3)
    pair.service.edit = lambda kind, lines: lines[:-1]
    assert texts(pair.map([{"x": 1}], checkpoint=path)) == sayings(1)
    assert "2 items of batches" in caplog.text


def stop(pair: Pair, path: Path, count: int | list[Any], **options: Any) -> None:
    """Start a job, and end it at the first request for the status of a batch."""
    end = Once("GET /v1/batches/", Killed())  # type: ignore[arg-type]  # a fault that nothing handles
    pair.service.before = end
    with pytest.raises(Killed):
        pair.map(count, checkpoint=path, **options)
    pair.service.before = lambda method, path: None


def test_a_live_run_warns_of_batches_that_it_does_not_fetch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pair = Pair()
    path = tmp_path / "job.db"
    assert all(outcome.ok for outcome in pair.call.map([{"x": 7}], checkpoint=path))
    assert "via='batch'" not in caplog.text
    stop(pair, path, 1)
    assert all(outcome.ok for outcome in pair.call.map([{"x": 0}], checkpoint=path))
    assert "batch_2" in caplog.text
    assert "via='batch'" in caplog.text


def test_an_error_of_the_inputs_is_raised_after_the_outcomes_before_it(tmp_path: Path) -> None:
    def rows() -> Iterator[Any]:
        yield {"x": 0}
        yield {"x": 1}
        raise OSError("the disk is gone")

    pair = Pair()
    outcomes = pair.call.map(rows(), via="batch")
    assert texts([next(outcomes), next(outcomes)]) == sayings(0, 1)
    with pytest.raises(OSError, match="the disk is gone"):
        next(outcomes)


def test_no_batch_is_settled_whose_outcomes_could_not_be_stored(tmp_path: Path) -> None:
    def fail(checkpoint: Checkpoint, outcome: Any) -> None:
        if outcome.index:
            raise CheckpointError("the disk is full")
        write(checkpoint, outcome)

    pair = Pair()
    path = tmp_path / "job.db"
    write = Checkpoint.write
    outcomes: list[Any] = []
    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(CheckpointError, match="the disk is full"):
        monkeypatch.setattr(Checkpoint, "write", fail)
        outcomes.extend(iter(pair.call.map([{"x": 0}, {"x": 1}, {"x": 2}], via="batch", checkpoint=path)))
    assert texts(outcomes) == sayings(0, 1)  # also the one that was paid for and could not be stored
    assert texts(pair.map(3, checkpoint=path)) == sayings(0, 1, 2)
    assert len(pair.service.batches) == 1


def test_a_batch_that_is_gone_is_an_error(tmp_path: Path) -> None:
    pair = Pair()
    path = tmp_path / "job.db"
    stop(pair, path, 1)
    pair.service.batches.clear()
    with pytest.raises(ProviderBatchError, match="use the key of the same account"):
        pair.map(1, checkpoint=path)


def test_the_files_of_a_settled_batch_that_is_gone_are_nothing_to_delete(tmp_path: Path) -> None:
    pair = Pair()
    path = tmp_path / "job.db"
    pair.service.before = Once("DELETE", Killed())  # type: ignore[arg-type]  # a fault that nothing handles
    with pytest.raises(Killed):
        pair.map(1, checkpoint=path)
    pair.service.before = lambda method, path: (503, b"{}") if "batches/" in path else None
    assert texts(pair.map(1, checkpoint=path)) == sayings(0)
    assert pair.service.files


def test_a_lookup_that_fails_leaves_the_batch_for_the_next_run(tmp_path: Path) -> None:
    pair = Pair()
    path = tmp_path / "job.db"
    lost = Once("POST /v1/batches")

    def lose(method: str, at: str) -> tuple[int, bytes] | None:
        lost(method, at)
        return (503, b"{}") if (method, at) == ("GET", "/v1/batches") else None

    pair.service.after = lose
    with pytest.raises(JobStopped, match="goes on from here"):
        pair.map(1, checkpoint=path)
    pair.service.after = lambda method, path: None
    assert texts(pair.map(1, checkpoint=path)) == sayings(0)
    assert len(pair.service.batches) == 1


# A provider that stores no tags with its batches


@pytest.mark.parametrize("state", ["running", "ended", "not created", "without results"])
def test_without_tags_a_batch_is_recognized_by_the_ids_of_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(OpenAIBatches, "lists_tags", False)
    pair = Pair()
    path = tmp_path / "job.db"
    pair.clock.seconds -= 1_000
    pair.map(2)  # too old
    pair.clock.seconds += 1_000
    pair.map(2)  # of another job
    pair.map(3)  # of another size
    fault = Once("POST /v1/batches", Killed())  # type: ignore[arg-type]  # a fault that nothing handles
    if state == "not created":
        pair.service.before = fault
    else:
        pair.service.after = fault
    with pytest.raises(Killed):
        pair.map([{"x": 7}, {"x": 8}], checkpoint=path)
    pair.service.before = pair.service.after = lambda method, path: None
    before = len(pair.service.batches)
    if state == "without results":
        pair.service.edit = lambda kind, lines: [] if kind == "output" else LINES
        pair.service.cut = lambda method, path, body: [
            b"" if path.endswith("/content") and b"another" in body else body
        ]
    if state in ("ended", "without results"):
        for _ in range(3):
            pair.service.handle("GET", f"/v1/batches/{last_batch(pair)['id']}", pair.service.headers[-1], b"")
    pair.service.edit = lambda kind, lines: lines
    assert texts(pair.map([{"x": 7}, {"x": 8}], checkpoint=path)) == sayings(7, 8)
    assert len(pair.service.batches) - before == (state in ("not created", "without results"))


def test_without_tags_the_first_result_may_be_all_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenAIBatches, "lists_tags", False)
    pair = Pair()
    pair.limit(requests=1)
    path = tmp_path / "job.db"
    pair.service.cut = lambda method, path, body: [body.removesuffix(b"\n")]
    fault = Once("POST /v1/batches")
    for moment in ("after", "before"):  # the first batch is known when the second, which was not created, is looked for
        setattr(pair.service, moment, fault)
        with pytest.raises(Killed):
            fault.error, fault.times = Killed(), 1  # type: ignore[assignment]  # a fault that nothing handles
            pair.map(2, checkpoint=path)
        setattr(pair.service, moment, lambda method, path: None)
    assert texts(pair.map(2, checkpoint=path)) == sayings(0, 1)
    assert len(pair.service.batches) == 2


def test_without_tags_results_may_be_in_the_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenAIBatches, "lists_tags", False)
    pair = Pair()
    path = tmp_path / "job.db"
    read = OpenAIBatches.read_status

    def read_status(self: OpenAIBatches, response: HTTPResponse) -> BatchStatus:
        status = read(self, response)
        found = tuple(
            [result for file in status.files for result in self.result_decoder().feed(pair.service.files[file])]
        )
        return replace(status, results=found)

    monkeypatch.setattr(OpenAIBatches, "read_status", read_status)
    monkeypatch.setattr(OpenAIBatches, "downloads", lambda self, status: [])
    pair.service.after = Once("POST /v1/batches", Killed())  # type: ignore[arg-type]  # a fault that nothing handles
    with pytest.raises(Killed):
        pair.map(2, checkpoint=path)
    pair.service.after = lambda method, path: None
    assert texts(pair.map(2, checkpoint=path)) == sayings(0, 1)
    assert len(pair.service.batches) == 1


LINES = [{"custom_id": "another-0"}]


def last_batch(pair: Pair) -> dict[str, Any]:
    return [*pair.service.batches.values()][-1]
