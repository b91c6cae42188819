"""A job through a batch API, from the request to the outcome, over the double of OpenAI's without a socket."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel

import toolcast
from support.openai_batches import CHAT, Dropped, OpenAIBatchService, VirtualClock, completion, echo, last_text
from toolcast.batch import JobStopped
from toolcast.batch.job_errors import ProviderBatchError
from toolcast.batch.remote import open_batches, reasks, recovery, remote_run
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    ConnectFailed,
    NotFound,
    PromptError,
    RateLimited,
    ServerError,
    StreamInterrupted,
    TryAgain,
    UnsupportedLLMError,
    ValidationError,
)


class Out(BaseModel):
    text: str


class Pair:
    """A service, and a call that uses it."""

    def __init__(self, *, output: Any = Out, **options: Any) -> None:
        self.service = OpenAIBatchService()
        self.clock = VirtualClock()
        self.service.now = self.clock.now
        self.llm = toolcast.OpenAI(
            "gpt-4o-mini", api_key="sk-secret-key", base_url=self.service.url, network=self.service
        )
        self.llm.clock = self.clock
        self.call: Any = toolcast.ToolOrchestratingLLM(output, "Say {x}", self.llm, **options)

    def map(self, count: int | list[Any], **options: Any) -> list[Any]:
        rows = [{"x": number} for number in range(count)] if isinstance(count, int) else count
        return list(self.call.map(rows, via="batch", **options))

    def limit(self, **limits: Any) -> None:
        """Change the limits of the service's batches."""
        adapter: Any = self.llm.adapter
        adapter._service = replace(adapter._service, batches=replace(adapter._service.batches, **limits))

    def count(self, line: str) -> int:
        return sum(each.startswith(line) for each in self.service.log)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def texts(outcomes: list[Any]) -> list[str | None]:
    return [outcome.output.text if outcome.ok else type(outcome.error).__name__ for outcome in outcomes]


def sayings(*numbers: int) -> list[str]:
    return [f"Say {number}" for number in numbers]


def test_a_job_is_one_batch_at_half_the_price(pair: Pair) -> None:
    outcomes = pair.map(3)
    assert texts(outcomes) == sayings(0, 1, 2)
    assert [outcome.index for outcome in outcomes] == [0, 1, 2]
    assert [outcome.input for outcome in outcomes] == [{"x": 0}, {"x": 1}, {"x": 2}]
    assert {outcome.attempts for outcome in outcomes} == {1}
    live = pair.call.run(x=1)
    assert [outcome.cost * 2 for outcome in outcomes] == [live.cost] * 3
    assert pair.service.log == [
        "POST /v1/files",
        "POST /v1/batches",
        *["GET /v1/batches/batch_2"] * 3,
        "GET /v1/files/file-output-3/content",
        "DELETE /v1/files/file-input-1",
        "DELETE /v1/files/file-output-3",
        f"POST {CHAT}",
    ]
    assert not pair.service.files


def test_a_cost_that_the_service_reports_is_not_changed(pair: Pair) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, found = echo(body)
        return status, found | {"usage": found["usage"] | {"cost": 0.125}}

    pair.service.answer = answer
    assert pair.map(1)[0].cost == Decimal("0.125")


def test_its_requests_are_those_of_live_calls(pair: Pair) -> None:
    pair.map(1)
    pair.call(x=0)
    [batched] = pair.service.submitted.values()
    assert [batched] == pair.service.live


def test_the_ids_begin_with_the_tag_in_the_metadata(pair: Pair) -> None:
    pair.map(2)
    [batch] = pair.service.batches.values()
    tag = batch["metadata"]["toolcast"]
    assert [*pair.service.submitted] == [f"{tag}-0", f"{tag}-1"]
    assert pair.service.names[batch["input_file_id"]] == f"{tag}.jsonl"


def test_the_waits_between_polls_grow_or_are_those_of_the_caller(pair: Pair) -> None:
    pair.map(1)
    assert pair.clock.sleeps == [5.0, 7.5, 11.25]
    pair.clock.sleeps.clear()
    pair.map(1, poll=2.0)
    assert pair.clock.sleeps == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_large_job_is_several_batches(pair: Pair, ordered: bool) -> None:
    pair.limit(requests=2)
    pair.service.edit = lambda kind, lines: lines[::-1]
    outcomes = pair.map(5, ordered=ordered)
    assert [batch["request_counts"]["total"] for batch in pair.service.batches.values()] == [2, 2, 1]
    assert texts(outcomes) == (sayings(0, 1, 2, 3, 4) if ordered else sayings(1, 0, 3, 2, 4))


@pytest.mark.parametrize("limit", [1_000, 1_500, 2_311])
def test_a_batch_is_not_larger_than_the_limit_of_bytes(pair: Pair, limit: int) -> None:
    pair.limit(bytes=limit)
    uploaded: list[bytes] = []

    def note(method: str, path: str) -> None:
        if (method, path) == ("POST", "/v1/files"):
            uploaded.append([*pair.service.files.values()][-1])

    pair.service.after = note
    rows = [{"x": "ü" * (7 * number % 40)} for number in range(20)]  # a character of two bytes
    assert texts(pair.map(rows)) == [f"Say {row['x']}" for row in rows]
    assert max(map(len, uploaded)) <= limit
    assert len(uploaded) > 1
    # No batch could have had the first request of the next one too.
    for file, following in itertools.pairwise(uploaded):
        assert len(file) + len(following.splitlines(keepends=True)[0]) > limit


@pytest.mark.parametrize("limits", [{"bytes": 300}, {"line_bytes": 300}])
def test_a_request_that_is_too_long_is_the_error_of_its_item(pair: Pair, limits: dict[str, int]) -> None:
    pair.limit(**limits)
    [outcome] = pair.map(1)
    assert isinstance(outcome.error, ProviderBatchError)
    assert "may have 300" in str(outcome.error)
    assert not pair.service.log


def test_only_so_many_batches_are_open(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_run, "OPEN_BATCHES", 2)
    pair.limit(requests=1)
    most = 0

    def watch(method: str, path: str) -> None:
        nonlocal most
        most = max(most, len(pair.service.running))

    pair.service.after = watch
    assert texts(pair.map(6)) == sayings(*range(6))
    assert most == 2


def test_inputs_that_need_no_request(pair: Pair) -> None:
    unreadable = toolcast.batch.BadRow("???", ValueError("no JSON"))
    outcomes = pair.map([{"x": 1}, {"y": 2}, unreadable, {"x": 3}], key=lambda row: str(row["x"]))
    assert texts(outcomes) == ["Say 1", "PromptError", "ValueError", "Say 3"]
    assert len({outcome.key for outcome in outcomes}) == 4  # also of the rows that have no `x`
    assert (outcomes[0].key, outcomes[3].key) == ("1", "3")
    assert isinstance(outcomes[1].error, PromptError)
    assert [outcome.attempts for outcome in outcomes] == [1, 0, 0, 1]


def test_a_request_that_cannot_be_encoded_is_the_error_of_its_item() -> None:
    pair = Pair(settings=toolcast.Settings(extra={"no": object()}))
    assert texts(pair.map(1)) == ["BadRequest"]
    assert not pair.service.log


def test_a_request_that_cannot_fit_is_not_submitted(pair: Pair) -> None:
    outcomes = pair.map([{"x": 1}, {"x": "word " * 200_000}])  # the model has a window of 128,000 tokens
    assert texts(outcomes) == ["Say 1", "ContextTooLong"]
    assert "nothing was sent" in str(outcomes[1].error)
    assert [batch["request_counts"]["total"] for batch in pair.service.batches.values()] == [1]


def test_a_job_that_is_closed_before_it_begins(pair: Pair) -> None:
    with pair.call.map([{"x": 0}], via="batch") as outcomes:
        pass
    assert list(outcomes) == []
    assert not pair.service.log
    for make in (pair.call.map, pair.call.amap):
        with pytest.raises(TypeError, match="one text"):
            make("text", via="batch")


def test_an_error_is_raised_if_that_is_asked_for(pair: Pair) -> None:
    pair.service.answer = lambda body: (400, {"error": {"message": "no", "type": "invalid_request_error"}})
    with pytest.raises(BadRequest) as raised:
        pair.map(2, on_error="raise")
    assert re.fullmatch(r"the input at index \d of the job failed \(key \w+\)", raised.value.__notes__[0])


@pytest.mark.parametrize("stored", [True, False])
def test_no_more_batches_are_submitted_after_an_error_that_is_raised(pair: Pair, tmp_path: Path, stored: bool) -> None:
    """The outcome of the first item, which is the next to return, is not available when the second one fails."""
    unavailable = 3

    def fail(method: str, path: str) -> tuple[int, bytes] | None:
        nonlocal unavailable
        if path != "/v1/batches/batch_2" or not unavailable:
            return None
        unavailable -= 1
        return 503, b"{}"

    pair.limit(requests=1)
    pair.service.answer = lambda body: (400, {"error": {"message": "no"}}) if last_text(body) == "Say 1" else echo(body)
    pair.service.before = fail
    options: dict[str, Any] = {"checkpoint": tmp_path / "job.db"} if stored else {}
    outcomes: list[Any] = []
    with pytest.raises(BadRequest):
        outcomes.extend(iter(pair.call.map(range(20), via="batch", on_error="raise", **options)))
    assert len(pair.service.batches) == remote_run.OPEN_BATCHES
    assert texts(outcomes) == ([] if stored else sayings(0))  # with a checkpoint the next run fetches it


@pytest.mark.parametrize("ordered", [True, False])
def test_an_error_that_every_item_would_get_stops_the_job(pair: Pair, ordered: bool) -> None:
    pair.limit(requests=2)
    pair.service.answer = lambda body: (404, {"error": {"message": "no such model"}})
    outcomes: list[Any] = []
    states: list[str] = []
    job = pair.call.map([{"x": number} for number in range(40)], via="batch", ordered=ordered)
    with pytest.raises(JobStopped, match="every other item would fail likewise") as caught:
        for outcome in job:
            outcomes.append(outcome)
            states.append(job._job._run.progress.snapshot(0.0).state)
    assert isinstance(caught.value.__cause__, NotFound)
    assert texts(outcomes) == ["NotFound"] * 2 * remote_run.OPEN_BATCHES  # of all batches that were open
    assert set(states) == {"finishing"}


# Requests that fail


def test_an_expired_batch_is_continued_in_a_further_one(pair: Pair) -> None:
    ends = iter(["expired", "completed"])
    pair.service.ends = lambda batch: next(ends)
    outcomes = pair.map(4)
    assert texts(outcomes) == sayings(0, 1, 2, 3)
    assert [batch["request_counts"]["total"] for batch in pair.service.batches.values()] == [4, 2]
    assert not pair.service.files


def test_what_expires_again_and_again_fails(pair: Pair) -> None:
    pair.service.ends = lambda batch: "expired"
    outcomes = pair.map(1)
    assert len(pair.service.batches) == 1 + pair.llm.retry_policy.max_retries
    assert texts(outcomes) == ["ServerError"]
    assert "not executed" in str(outcomes[0].error)


def test_a_cancelled_batch_is_not_submitted_again(pair: Pair) -> None:
    pair.service.ends = lambda batch: "cancelled"
    outcomes = pair.map(2)
    assert texts(outcomes) == ["Say 0", "ServerError"]
    assert len(pair.service.batches) == 1


def test_failed_requests_are_errors_or_sent_again(pair: Pair) -> None:
    busy = {"Say 1", "Say 2"}

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text = last_text(body)
        if text in busy:
            busy.remove(text)
            return (429 if text == "Say 1" else 500), {"error": {"message": "busy", "type": "rate_limit"}}
        if text == "Say 3":
            return 400, {"error": {"message": "bad image", "type": "invalid_request_error"}}
        return echo(body)

    pair.service.answer = answer
    outcomes = pair.map(5)
    assert texts(outcomes) == ["Say 0", "Say 1", "Say 2", "BadRequest", "Say 4"]
    assert outcomes[3].error.request_id == "req_3"
    assert [batch["request_counts"]["total"] for batch in pair.service.batches.values()] == [5, 2]


def test_a_request_without_a_result_is_sent_again(pair: Pair) -> None:
    pair.service.edit = lambda kind, lines: lines[1:] if lines and lines[0]["custom_id"].endswith("-0") else lines
    outcomes = pair.map(2)
    assert texts(outcomes) == ["StreamTruncated", "Say 1"]
    assert len(pair.service.batches) == 1 + pair.llm.retry_policy.max_retries


@pytest.mark.parametrize("response", [None, {"status_code": None}])
def test_a_result_with_neither_response_nor_error(pair: Pair, response: Any) -> None:
    pair.service.edit = lambda kind, lines: [line | {"response": response} for line in lines]
    [outcome] = pair.map(1)
    assert isinstance(outcome.error, ServerError)
    assert "neither a response nor an error" in str(outcome.error)


def test_a_body_that_is_no_response_is_the_error_of_its_item(pair: Pair) -> None:
    pair.service.answer = lambda body: (200, {"hello": "world"})
    assert texts(pair.map(1)) == ["MalformedEvent"]


def foreign(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*lines[:-1], lines[-1] | {"custom_id": "another-0"}]


def beyond(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*lines[:-1], lines[-1] | {"custom_id": lines[-1]["custom_id"][:-1] + "7"}]


def unnumbered(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*lines[:-1], lines[-1] | {"custom_id": lines[-1]["custom_id"][:-1] + "x"}]


def unreadable(lines: list[dict[str, Any]]) -> list[Any]:
    return [*lines[:-1], "not an object"]


def doubled(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*lines, lines[0]]


@pytest.mark.parametrize("edit", [foreign, beyond, unnumbered, doubled, unreadable])
def test_results_that_cannot_be_used(pair: Pair, edit: Callable[[Any], Any], caplog: pytest.LogCaptureFixture) -> None:
    """The request without a result is sent again, once; the others are outcomes."""
    edits = iter([edit])
    pair.service.edit = lambda kind, lines: next(edits, list)(lines) if lines else lines
    assert texts(pair.map(2)) == ["Say 0", "Say 1"]
    assert len(pair.service.batches) == (1 if edit is doubled else 2)
    assert re.search(
        r"1 results of batch \S+ cannot be used: .*(none of its requests|two results|no JSON)", caplog.text
    )


def test_a_file_of_results_that_ends_inside_a_line(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    store, cuts = pair.service._store, iter([-20])

    def cut(kind: str, content: bytes, name: str) -> str:
        return store(kind, content[: next(cuts, None)] if kind == "output" else content, name)

    pair.service._store = cut  # type: ignore[method-assign]  # the fault of this service
    assert texts(pair.map(2)) == ["Say 0", "Say 1"]
    assert len(pair.service.batches) == 2
    assert "broke off inside a line" in caplog.text


@pytest.mark.parametrize("edit", [foreign, unreadable])
def test_no_result_can_be_used(pair: Pair, edit: Callable[[Any], Any]) -> None:
    pair.service.edit = lambda kind, lines: edit(lines) if lines else lines
    with pytest.raises(ProviderBatchError, match=r"1 results of batch \S+ cannot be used: .*There are no others"):
        pair.map(1)


def test_the_outcomes_before_an_error_are_returned_first(pair: Pair) -> None:
    pair.limit(requests=1)
    kinds = iter([lambda lines: lines, foreign])
    pair.service.edit = lambda kind, lines: next(kinds)(lines) if lines else lines
    outcomes = pair.call.map([{"x": 0}, {"x": 1}], via="batch")
    assert next(outcomes).output == Out(text="Say 0")
    with pytest.raises(ProviderBatchError):
        next(outcomes)
    assert list(outcomes) == []


# Batches that are refused


def test_a_refused_batch_stops_the_job(pair: Pair) -> None:
    problem = {"code": "invalid", "message": "no", "line": 7, "param": None}
    pair.service._validate = lambda batch: ([], [problem])  # type: ignore[method-assign]  # the fault of this service
    with pytest.raises(JobStopped, match="refused the batch") as caught:
        pair.map(2)
    assert isinstance(caught.value.__cause__, BadRequest)
    assert "invalid no (line 7)" in str(caught.value)
    assert not pair.service.files


def test_a_refusal_without_a_reason(pair: Pair) -> None:
    pair.service.ends = lambda batch: "failed"
    with pytest.raises(JobStopped, match="no reason given"):
        pair.map(1)


def test_a_batch_too_many_is_submitted_when_another_has_ended(pair: Pair) -> None:
    pair.limit(requests=1)
    pair.service.one_at_a_time = True
    assert texts(pair.map(3)) == sayings(0, 1, 2)
    assert not pair.service.files


def test_a_limit_that_no_batch_fits_in_stops_the_job(pair: Pair) -> None:
    over = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}
    pair.service._validate = lambda batch: ([], [over])  # type: ignore[method-assign]  # the fault of this service
    with pytest.raises(JobStopped) as caught:
        pair.map(1)
    assert isinstance(caught.value.__cause__, RateLimited)


@pytest.mark.parametrize("path", ["POST /v1/files", "POST /v1/batches"])
def test_a_wrong_key_stops_the_job(pair: Pair, path: str) -> None:
    def refuse(method: str, at: str) -> tuple[int, bytes] | None:
        return (401, b'{"error": {"message": "bad key sk-secret-key"}}') if f"{method} {at}" == path else None

    pair.service.before = refuse
    with pytest.raises(JobStopped) as caught:
        pair.map(1)
    assert isinstance(caught.value.__cause__, AuthFailed)
    assert "sk-secret-key" not in str(caught.value)
    assert not pair.service.files


def test_the_other_batches_end_before_a_job_without_checkpoint_is_stopped(pair: Pair) -> None:
    pair.limit(requests=1)
    pair.service.before = lambda method, path: (
        (403, b"{}") if pair.count("POST /v1/batches") == 2 and (method, path) == ("POST", "/v1/batches") else None
    )
    outcomes = pair.call.map([{"x": 0}, {"x": 1}], via="batch")
    assert next(outcomes).output == Out(text="Say 0")
    with pytest.raises(JobStopped):
        next(outcomes)
    assert not pair.service.running
    assert not pair.service.files


# The network


def test_an_upload_is_tried_again(pair: Pair) -> None:
    replies = iter([(500, b"{}"), None])
    pair.service.before = lambda method, path: next(replies) if path == "/v1/files" and method == "POST" else None
    assert texts(pair.map(1)) == sayings(0)


def test_a_missing_key_stops_the_job(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    pair.call = pair.call.with_(llm=toolcast.OpenAI("gpt-4o-mini", network=pair.service))
    with pytest.raises(JobStopped, match="it gets no further at the service") as caught:
        pair.map(1)
    assert isinstance(caught.value.__cause__, AuthFailed)


def test_a_service_that_cannot_be_reached_stops_the_job(pair: Pair) -> None:
    def refuse(method: str, path: str) -> None:
        if (method, path) == ("POST", "/v1/batches"):
            raise ConnectFailed("connection refused")

    pair.service.before = refuse
    with pytest.raises(JobStopped, match="connection refused"):
        pair.map(1)
    assert pair.count("GET /v1/batches") == 0
    assert not pair.service.files


class Once:
    """A fault of the first request that matches."""

    def __init__(self, line: str, error: Exception | None = None) -> None:
        self.line = line
        self.error = error or Dropped()
        self.times = 1

    def __call__(self, method: str, path: str) -> None:
        if self.times and f"{method} {path}".startswith(self.line):
            self.times -= 1
            raise self.error


def test_a_batch_whose_response_was_lost_is_found_and_not_submitted_again(pair: Pair) -> None:
    pair.service.after = Once("POST /v1/batches")
    assert texts(pair.map(2)) == sayings(0, 1)
    assert pair.count("POST /v1/batches") == 1
    assert len(pair.service.batches) == 1


def test_a_batch_that_was_not_created_is_submitted_again_after_the_list_was_read_twice(pair: Pair) -> None:
    pair.service.before = Once("POST /v1/batches")
    assert texts(pair.map(2)) == sayings(0, 1)
    assert len(pair.service.batches) == 1
    assert pair.service.log[:5] == [
        "POST /v1/files",
        "POST /v1/batches",
        "GET /v1/batches",
        "GET /v1/batches",
        "POST /v1/batches",
    ]
    assert pair.clock.sleeps[0] == recovery.GRACE


def test_a_batch_that_is_never_created_stops_the_job(pair: Pair) -> None:
    def drop(method: str, path: str) -> None:
        if (method, path) == ("POST", "/v1/batches"):
            raise Dropped

    pair.service.before = drop
    with pytest.raises(JobStopped) as caught:
        pair.map(1)
    assert isinstance(caught.value.__cause__, StreamInterrupted)
    assert not pair.service.files


def test_the_list_is_read_page_by_page_up_to_the_time_of_the_batch(pair: Pair) -> None:
    pair.service.page = 2
    pair.clock.seconds -= 10_000
    pair.map(1)
    pair.clock.seconds += 10_000
    for _ in range(3):
        pair.map(1)
    pair.service.log.clear()
    pair.service.before = Once("POST /v1/batches")
    assert texts(pair.map([{"x": 9}])) == sayings(9)
    assert pair.count("GET /v1/batches") - pair.count("GET /v1/batches/") == 4


def test_a_status_that_is_not_available_is_waited_for(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    failing = 10

    def fail(method: str, path: str) -> tuple[int, bytes] | None:
        nonlocal failing
        if method == "GET" and path.startswith("/v1/batches/") and failing:
            failing -= 1
            return 503, b"{}"
        return None

    pair.service.before = fail
    assert texts(pair.map(1)) == sayings(0)
    assert "is not available" in caplog.text


def test_a_status_that_stays_unavailable_stops_the_job(pair: Pair) -> None:
    def fail(method: str, path: str) -> tuple[int, bytes] | None:
        return (503, b"{}") if method == "GET" and path.startswith("/v1/batches/") else None

    pair.service.before = fail
    with pytest.raises(JobStopped, match="gets no further"):
        pair.map(1)
    assert sum(pair.clock.sleeps) > open_batches.PATIENCE


def test_a_download_that_breaks_off_is_read_again(pair: Pair) -> None:
    cuts = 1

    def cut(method: str, path: str, body: bytes) -> list[bytes | Exception]:
        nonlocal cuts
        if not path.endswith("/content"):
            return [body]
        if cuts:
            cuts -= 1
            return [body[: len(body) * 2 // 3], StreamInterrupted("cut")]
        return [bytes([each]) for each in body]

    pair.service.cut = cut
    assert texts(pair.map(3)) == sayings(0, 1, 2)
    assert pair.count("GET /v1/files/") == 2


def test_a_download_that_ends_inside_a_line_is_read_again(pair: Pair) -> None:
    cuts = 1

    def cut(method: str, path: str, body: bytes) -> list[bytes | Exception]:
        nonlocal cuts
        shorter = cuts if path.endswith("/content") else 0
        cuts -= shorter
        return [body[: len(body) - 5 * shorter]]

    pair.service.cut = cut
    assert texts(pair.map(2)) == sayings(0, 1)


def test_a_download_that_always_breaks_off_stops_the_job(pair: Pair) -> None:
    pair.service.cut = lambda method, path, body: (
        [body[:10], StreamInterrupted("cut")] if path.endswith("/content") else [body]
    )
    with pytest.raises(JobStopped) as caught:
        pair.map(1)
    assert isinstance(caught.value.__cause__, StreamInterrupted)


def test_a_file_that_is_not_deleted_is_logged(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    pair.service.before = lambda method, path: (403, b"{}") if method == "DELETE" else None
    assert texts(pair.map(1)) == sayings(0)
    assert "DELETE" in caplog.text
    pair.service.before = lambda method, path: (404, b"{}") if method == "DELETE" else None
    caplog.clear()
    assert texts(pair.map(1)) == sayings(0)
    assert "DELETE" not in caplog.text


# Invalid answers


def without_batches(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set once a job waits for live requests, and for no batch any more."""
    found, wait = threading.Event(), reasks.LiveReasks.wait

    async def watched(self: Any, seconds: float | None = None) -> None:
        if seconds is None:
            found.set()
        await wait(self, seconds)

    monkeypatch.setattr(reasks.LiveReasks, "wait", watched)
    return found


def once_invalid(invalid: set[str]) -> Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text = last_text(body)
        if any(each in json.dumps(body) for each in invalid) and len(body["messages"]) == 1:
            return 200, completion(body, {"wrong": 1})
        return 200, completion(body, {"text": text})

    return answer


@pytest.mark.parametrize("reask", ["live", "batch"])
def test_an_invalid_answer_is_asked_about_again(reask: Literal["live", "batch"]) -> None:
    pair = Pair(max_attempts=2)
    pair.service.answer = once_invalid({"Say 1"})
    outcomes = pair.map(3, reask=reask)
    assert texts(outcomes) == sayings(0, 1, 2)
    assert [outcome.attempts for outcome in outcomes] == [1, 2, 1]
    assert [outcome.usage.total_tokens for outcome in outcomes] == [110, 220, 110]
    single = outcomes[0].cost
    assert outcomes[1].cost == (single * 3 if reask == "live" else single * 2)
    assert len(pair.service.live) == (reask == "live")
    assert len(pair.service.batches) == (1 if reask == "live" else 2)


@pytest.mark.parametrize("reask", ["live", "batch"])
def test_both_ways_ask_with_the_same_messages(reask: Literal["live", "batch"]) -> None:
    pair = Pair(max_attempts=2)
    pair.service.answer = once_invalid({"Say"})
    assert texts(pair.map(1, reask=reask)) == sayings(0)
    again = pair.service.live[0] if reask == "live" else [*pair.service.submitted.values()][-1]
    assert [message["role"] for message in again["messages"]] == ["user", "assistant", "tool"]
    assert "Field required" in again["messages"][-1]["content"]


@pytest.mark.parametrize("reask", ["live", "batch"])
def test_an_answer_that_stays_invalid_fails(reask: Literal["live", "batch"]) -> None:
    pair = Pair(max_attempts=3)
    pair.service.answer = lambda body: (200, completion(body, {"wrong": 1}))
    [outcome] = pair.map(1, reask=reask)
    assert isinstance(outcome.error, ValidationError)
    assert outcome.attempts == 3
    assert outcome.usage.total_tokens == 330


def test_without_further_attempts_an_invalid_answer_fails(pair: Pair) -> None:
    pair.service.answer = lambda body: (200, completion(body, {"wrong": 1}))
    [outcome] = pair.map(1)
    assert isinstance(outcome.error, ValidationError)
    assert outcome.attempts == 1
    assert outcome.usage.total_tokens == 110


@pytest.mark.parametrize("reask", ["live", "batch"])
def test_functions_run_and_may_ask_again(reask: Literal["live", "batch"]) -> None:
    calls: list[str] = []

    def store(text: str) -> str:
        calls.append(text)
        if len(calls) == 1:
            raise TryAgain("louder, please")
        return text.upper()

    pair = Pair(output=store, max_attempts=2)
    pair.service.answer = lambda body: (200, completion(body, {"text": f"{len(body['messages'])} messages"}))
    [outcome] = pair.map(1, reask=reask)
    assert (outcome.output, calls) == ("3 MESSAGES", ["1 messages", "3 messages"])


def test_the_error_of_a_function_is_that_of_its_item() -> None:
    def fail(text: str) -> str:
        raise KeyError(text)

    pair = Pair(output=fail)
    [outcome] = pair.map(1)
    assert isinstance(outcome.error, KeyError)
    assert outcome.usage.total_tokens == 110


# Without a checkpoint


def test_without_a_checkpoint_batches_are_cancelled_when_the_job_is_closed(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.limit(requests=1)
    pair.service.before = lambda method, path: (
        (503, b"{}") if len(pair.service.batches) == 2 and path == "/v1/batches/batch_4" else None
    )
    outcomes = pair.call.map([{"x": 0}, {"x": 1}], via="batch")
    assert next(outcomes).ok
    outcomes.close()
    assert pair.count("POST /v1/batches/batch_4/cancel") == 1
    assert "without a checkpoint" in caplog.text
    assert list(outcomes) == []
    outcomes.close()


def test_an_abandoned_job_is_logged(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    pair.limit(requests=1)
    outcomes = pair.call.map([{"x": 0}, {"x": 1}], via="batch")
    next(outcomes)
    del outcomes
    assert "their results are lost" in caplog.text
    unused = pair.call.map([], via="batch")
    del unused


# APIs


def test_under_an_event_loop(pair: Pair, anyio_backend: Any) -> None:
    async def main() -> list[Any]:
        return [outcome async for outcome in pair.call.amap([{"x": 0}, {"x": 1}], via="batch")]

    assert texts(anyio.run(main, backend="asyncio")) == sayings(0, 1)


def test_async_inputs(pair: Pair) -> None:
    async def rows() -> Any:
        for number in range(3):
            yield {"x": number}

    async def main(backend: str) -> list[Any]:
        async with pair.call.amap(rows(), via="batch") as outcomes:
            return [outcome async for outcome in outcomes]

    for backend in ("asyncio", "trio"):
        assert texts(anyio.run(main, backend, backend=backend)) == sayings(0, 1, 2)
    with pytest.raises(TypeError, match="amap"):
        pair.call.map(rows(), via="batch")


def test_a_cancelled_job_cancels_its_batches(pair: Pair) -> None:
    async def main() -> None:
        with anyio.CancelScope() as scope:

            def cancel(method: str, path: str) -> None:
                if method == "GET":
                    scope.cancel()

            pair.service.after = cancel
            async for _ in pair.call.amap([{"x": 0}], via="batch"):
                raise AssertionError("the job was cancelled")

    anyio.run(main)
    assert pair.count("POST /v1/batches/batch_2/cancel") == 1


def test_a_replacement_of_the_llm_is_called_live(pair: Pair) -> None:
    with toolcast.testing.use_llm(toolcast.testing.AutoLLM()):
        [outcome] = pair.map(1)
        assert outcome.ok

        async def main() -> list[Any]:
            return [outcome async for outcome in pair.call.amap([{"x": 0}], via="batch")]

        assert anyio.run(main)[0].ok
    assert not pair.service.log


def test_the_responses_api() -> None:
    pair = Pair()

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        arguments = json.dumps({"text": body["input"][-1]["content"]})
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "Out", "status": "completed"}
        usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
        base = {"id": "resp_1", "object": "response", "status": "completed", "model": body["model"], "error": None}
        return 200, {**base, "output": [call | {"arguments": arguments}], "usage": usage}

    pair.service.answer = answer
    llm = toolcast.OpenAIResponses("gpt-4o-mini", api_key="k", base_url=pair.service.url, network=pair.service)
    llm.clock = pair.clock
    outcomes = list(pair.call.with_(llm=llm).map([{"x": 0}, {"x": 1}], via="batch"))
    assert texts(outcomes) == sayings(0, 1)
    assert [outcome.usage.total_tokens for outcome in outcomes] == [110, 110]
    assert {batch["endpoint"] for batch in pair.service.batches.values()} == {"/v1/responses"}


# Progress


def test_the_progress_counts_the_items_in_batches(pair: Pair, tmp_path: Path) -> None:
    seen: list[Any] = []
    asked = threading.Event()

    def show(snapshot: Any) -> None:
        seen.append(snapshot)
        if snapshot.running:
            asked.set()

    pair.limit(requests=2)
    pair.service.after = lambda method, path: asked.wait(30) and None if method == "GET" else None
    path = tmp_path / "job.db"
    pair.map(3, checkpoint=path, progress=show)
    assert asked.is_set()
    assert {snapshot.total for snapshot in seen} == {3}
    assert max(snapshot.running for snapshot in seen) == 3
    assert "batch API" in {snapshot.limited_by for snapshot in seen}
    last = seen[-1]
    assert (last.state, last.done, last.failed, last.running, last.from_checkpoint) == ("done", 3, 0, 0, 0)
    pair.map(4, checkpoint=path, progress=seen.append)
    assert (seen[-1].done, seen[-1].from_checkpoint) == (4, 3)


# LLMs without a batch API


def test_a_service_without_a_batch_api(pair: Pair) -> None:
    llm = toolcast.OpenAICompatible("m", service="deepseek", api_key="k")
    call = toolcast.ToolOrchestratingLLM(Out, "Say {x}", llm)
    with pytest.raises(ProviderBatchError, match="deepseek has no batch API"):
        list(call.map([{"x": 1}], via="batch"))


def test_an_llm_without_http() -> None:
    call = toolcast.ToolOrchestratingLLM(Out, "Say {x}", toolcast.testing.ScriptedLLM([]))
    with pytest.raises(UnsupportedLLMError, match="ScriptedLLM"):
        list(call.map([{"x": 1}], via="batch"))
