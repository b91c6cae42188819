"""Rules that the batch codecs of all providers keep, at doubles of the services."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

import pytest
from hypothesis import given, strategies as st

from support.batch_client import BatchClient
from support.batch_double import BatchDouble
from support.batch_services import SERVICES
from support.loopback import whole
from toolcast.async_support.sync_driver import run
from toolcast.errors import AuthFailed, LLMError, MalformedEvent, NotFound, StreamInterrupted, StreamTruncated
from toolcast.llms.client import client_of
from toolcast.llms.http.service import service_of
from toolcast.providers.batch_codec import BatchCodec, BatchResult
from toolcast.values.http_request import HTTPResponse

TEXTS = {"t1-0": "Rivers bend.", "t1-1": "I like chess.", "t1-2": "É\u2028\u0085"}
TAG = "toolcast-t1"


@pytest.fixture(params=SERVICES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(name: str) -> Iterator[BatchDouble]:
    with SERVICES[name].double() as server:
        yield server


@pytest.fixture
def client(name: str, server: BatchDouble) -> BatchClient:
    return BatchClient(SERVICES[name].llm(server.base, max_retries=1))


def codec_of(name: str) -> BatchCodec:
    """Return a codec without a service."""
    llm = SERVICES[name].llm("https://service.example")
    codec = run(service_of(llm, client_of(llm).sync_backend())).adapter.batches()
    assert codec is not None
    return codec


def texts_of(client: BatchClient, results: list[BatchResult]) -> dict[str, str | None]:
    """Return the text of each response, None for an error."""
    return {each.id: client.decode(each.body).text if each.body is not None else None for each in results}


def test_results(client: BatchClient, server: BatchDouble) -> None:
    server.shuffled = 3
    server.outcome = lambda id, body: "errored" if id == "t1-1" else "succeeded"
    began = client.submit(TAG, client.lines(TEXTS))
    ended = client.status(began.id)
    assert (began.state, ended.state) == ("running", "ended")
    assert (ended.total, ended.done, ended.failed) == (3, 2, 1)
    assert (
        began.created
        == ended.created
        == next(iter(server.held.values())).created + (0.123456 if ended.created % 1 else 0)
    )
    results = client.results(ended)
    assert texts_of(client, results) == {"t1-0": "Re: Rivers bend.", "t1-1": None, "t1-2": "Re: É\u2028\u0085"}
    [error] = [each for each in results if each.error]
    assert not error.unprocessed
    assert isinstance(error.error, LLMError)


def test_a_batch_that_takes_time(client: BatchClient, server: BatchDouble) -> None:
    server.polls = 3
    began = client.submit(TAG, client.lines(TEXTS))
    states = [client.status(began.id).state for _ in range(4)]
    assert states == ["running", "running", "ended", "ended"]


def test_a_cancelled_batch(client: BatchClient, server: BatchDouble) -> None:
    server.polls = 2
    began = client.submit(TAG, client.lines(TEXTS))
    client.send(client.codec.cancel(began.id))
    assert client.status(began.id).state == "running"
    ended = client.status(began.id)
    assert ended.state == "ended"
    results = client.results(ended)
    assert all(each.unprocessed and each.cancelled for each in results)
    assert ended.cancelled or len(results) == len(TEXTS)


def test_an_expired_batch(client: BatchClient, server: BatchDouble) -> None:
    server.fate = "expired"
    began = client.submit(TAG, client.lines(TEXTS))
    ended = client.status(began.id)
    assert ended.state == "ended"
    assert all(each.unprocessed and each.error for each in client.results(ended))


def test_doubled_and_foreign_ids_are_returned(client: BatchClient, server: BatchDouble) -> None:
    server.doubled, server.foreign = ["t1-0"], ["t2-0"]
    ended = client.status(client.submit(TAG, client.lines(TEXTS)).id)
    assert sorted(each.id for each in client.results(ended)) == ["t1-0", "t1-0", "t1-1", "t1-2", "t2-0"]


def test_a_list_of_several_pages(client: BatchClient, server: BatchDouble) -> None:
    ids = [client.submit(f"{TAG}-{at}", client.lines({"a": "A"})).id for at in range(103)]
    found = client.list()
    assert [each.id for each in found] == ids[::-1]
    if client.codec.lists_tags:
        assert [each.tag for each in found] == [f"{TAG}-{at}" for at in reversed(range(103))]
    else:
        assert {each.tag for each in found} == {None}


def test_a_full_last_page(client: BatchClient, server: BatchDouble) -> None:
    ids = [client.submit(TAG, client.lines({"a": "A"})).id for _ in range(100)]
    assert [each.id for each in client.list()] == ids[::-1]


def test_no_batches(client: BatchClient) -> None:
    assert client.list() == []


def test_nothing_is_left_at_the_service(client: BatchClient, server: BatchDouble) -> None:
    ended = client.status(client.submit(TAG, client.lines(TEXTS)).id)
    client.results(ended)
    for request in client.codec.delete_files(ended):
        client.send(request)
    assert not server.files
    if server.held:  # a service whose batches cannot be deleted
        [batch] = server.held.values()
        assert batch.files


def test_too_many_requests_while_polling(client: BatchClient, server: BatchDouble) -> None:
    began = client.submit(TAG, client.lines(TEXTS))
    server.fail("^GET", whole(b"{}", 429, "retry-after: 0"))
    assert client.status(began.id).state == "ended"
    assert server.count("^GET") == 2


def test_a_batch_is_not_submitted_again_after_an_error(client: BatchClient, server: BatchDouble) -> None:
    lines = client.lines(TEXTS)
    server.fail("POST .*batch", whole(b"", 502))
    with pytest.raises(LLMError):
        client.submit(TAG, lines)
    assert server.count("POST .*batch") == 1


def test_the_wrong_key(name: str, server: BatchDouble) -> None:
    llm = SERVICES[name].llm(server.base)
    llm = type(llm)(llm.model, base_url=llm.base_url, api_key="wrong", max_retries=0)
    client = BatchClient(llm)
    with pytest.raises(AuthFailed) as failed:
        client.list()
    assert "wrong" not in str(failed.value).replace("is wrong", "")


def test_a_batch_that_is_gone(client: BatchClient, server: BatchDouble) -> None:
    began = client.submit(TAG, client.lines(TEXTS))
    server.held.clear()
    with pytest.raises(NotFound):
        client.status(began.id)


@pytest.mark.parametrize("id", ["", ".", "..", "../batches", "batches/..", "files/a/b"])
def test_ids_do_not_change_the_path(name: str, id: str) -> None:
    codec = codec_of(name)
    try:
        url = codec.status(id).url
    except MalformedEvent:
        return
    assert ".." not in url.split("/")
    assert url.count("/") == codec.status("batches/a" if name == "google" else "a").url.count("/")


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"a": 1}', b"\xff", b"[" * 100_000])
def test_responses_that_are_no_batch(name: str, body: bytes) -> None:
    codec = codec_of(name)
    with pytest.raises(MalformedEvent):
        codec.read_status(HTTPResponse(200, {}, body))


NAMES = (
    *("id", "name", "status", "state", "processing_status", "metadata", "batchStats", "request_counts", "created_at"),
    *("results_url", "output", "inlinedResponses", "responsesFile", "done", "error", "errors", "input_files", "data"),
    *("custom_id", "key", "result", "type", "response", "status_code", "body", "message", "code", "operations"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "ended", "FAILED", "succeeded", "errored", "a/b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=12,
)


@given(st.sampled_from(sorted(SERVICES)), st.dictionaries(st.sampled_from(NAMES), JSON))
def test_any_document_is_read_or_malformed(name: str, document: dict[str, object]) -> None:
    codec, body = codec_of(name), json.dumps(document).encode()
    with suppress(MalformedEvent):
        codec.read_status(HTTPResponse(200, {}, body))
    with suppress(MalformedEvent):
        codec.read_page(HTTPResponse(200, {}, body), None)
    with suppress(MalformedEvent):
        codec.result_decoder().feed(body + b"\n")


@pytest.mark.parametrize("line", [b"[]", b"1", b"{}", b'{"custom_id": 1}', b"nonsense"])
def test_lines_that_are_no_result(name: str, line: bytes) -> None:
    """Each is a result without an id, so that the others are read."""
    [result] = codec_of(name).result_decoder().feed(line + b"\n")
    assert (result.id, type(result.error)) == ("", MalformedEvent)


@cache
def download(name: str) -> tuple[bytes, list[BatchResult]]:
    """Return a download of results, and what it is."""
    with SERVICES[name].double() as server:
        server.outcome = lambda id, body: "errored" if id == "t1-1" else "succeeded"
        client = BatchClient(SERVICES[name].llm(server.base))
        lines = client.lines(TEXTS if name != "google" else TEXTS | {"t1-3": "x" * 2_000_000})
        ended = client.status(client.submit(TAG, lines).id)
        data = b"".join(client.download(each) for each in client.codec.downloads(ended))
        if name == "google":  # requests in a file, as results in files are longer than those with a status
            data = b"".join(line + b"\n" for line in data.splitlines() if len(line) < 10_000)
        decoder = client.codec.result_decoder()
        return data, decoder.feed(data) + decoder.close()


def shown(results: list[BatchResult]) -> list[tuple[str, bytes | None, str]]:
    return [(each.id, each.body, str(each.error)) for each in results]


@pytest.mark.slow
def test_every_cut_of_a_download(name: str) -> None:
    data, wanted = download(name)
    assert sorted(each.id for each in wanted) == ["t1-0", "t1-1", "t1-2"]
    for at in range(len(data) + 1):
        decoder = codec_of(name).result_decoder()
        assert shown(decoder.feed(data[:at]) + decoder.feed(data[at:]) + decoder.close()) == shown(wanted)


@pytest.mark.slow
def test_every_end_of_a_download(name: str) -> None:
    """A download that ends early has the first results, and is an error unless it ends after a line."""
    data, wanted = download(name)
    for at in range(len(data)):
        decoder = codec_of(name).result_decoder()
        found = decoder.feed(data[:at])
        try:
            found += decoder.close()
        except StreamTruncated:
            assert not data[:at].endswith(b"\n")
        else:
            assert data[at - 1 : at] in (b"", b"\n", b"}")
        assert shown(found) == shown(wanted[: len(found)])


def test_a_download_that_ends_inside_a_line(name: str) -> None:
    decoder = codec_of(name).result_decoder()
    assert decoder.feed(b'{"custom_id": "a", "key": "a", "res') == []
    with pytest.raises(StreamTruncated, match="Fetch them again"):
        decoder.close()


@given(name=st.sampled_from(sorted(SERVICES)), places=st.lists(st.integers(0, 2000), max_size=6))
def test_cuts_of_a_download(name: str, places: list[int]) -> None:
    data, wanted = download(name)
    decoder, found, start = codec_of(name).result_decoder(), list[BatchResult](), 0
    for end in (*sorted(places), len(data)):
        found += decoder.feed(data[start:end])
        start = max(start, end)
    assert shown(found + decoder.close()) == shown(wanted)


def test_a_download_that_breaks_off(name: str, server: BatchDouble, client: BatchClient) -> None:
    texts = TEXTS | ({"t1-3": "x" * 2_000_000} if name == "google" else {})
    ended = client.status(client.submit(TAG, client.lines(texts)).id)
    server.cuts.append(300)
    with pytest.raises(StreamInterrupted):
        client.results(ended)
    assert len(client.results(ended)) == len(texts)


def test_lines_are_json(name: str, client: BatchClient) -> None:
    for line, (id, text) in zip(client.lines(TEXTS), TEXTS.items(), strict=True):
        assert b"\n" not in line
        found = json.loads(line)
        assert id in (found.get("custom_id"), found.get("key"))
        assert text in json.dumps(found, ensure_ascii=False)


def test_limits(name: str) -> None:
    codec = codec_of(name)
    assert codec.limits.requests == 100_000
    assert codec.limits.bytes >= 200_000_000
    assert codec.price_factor * 2 == 1
    assert codec.provider == name
