"""Batches through the official clients and through toolcast's codecs, at doubles of the services.

The clients check the doubles: they parse all responses of a batch's life. Each step of toolcast is the same request.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from support.anthropic_batches import KEY as ANTHROPIC_KEY
from support.batch_client import BatchClient
from support.batch_services import SERVICES
from support.google_batches import KEY as GOOGLE_KEY, GoogleBatches
from support.loopback import Loopback, Request, whole
from support.mistral_batches import KEY as MISTRAL_KEY, form_of
from support.service_double import Received
from support.service_files import describe_file, fetch_file, upload_file
from toolcast import OpenAI
from toolcast.errors import BadRequest

pytestmark = pytest.mark.networked

TEXTS = {"t1-0": "Rivers bend.", "t1-1": "I like chess.", "t1-2": "É"}
OUTCOMES = {"t1-0": "succeeded", "t1-1": "errored", "t1-2": "succeeded"}
TAG = "toolcast-t1"


class Life(NamedTuple):
    """The results of a batch by id (None for an error), and the ids of all batches."""

    results: dict[str, str | None]
    listed: list[str]


def lines_of(client: BatchClient, name: str) -> dict[str, Any]:
    """Return the body of each request of the batch by id, as toolcast writes it."""
    found = [json.loads(line) for line in client.lines(TEXTS)]
    return {each.get("custom_id") or each["key"]: each[name] for each in found}


def anthropic(url: str, client: BatchClient) -> Life:
    from anthropic import Anthropic as Client

    requests: Any = [{"custom_id": id, "params": body} for id, body in lines_of(client, "params").items()]
    with Client(base_url=url, api_key=ANTHROPIC_KEY, max_retries=0) as sdk:
        batches = sdk.messages.batches
        first = batches.create(requests=requests)
        assert first.processing_status == "in_progress"
        assert first.request_counts.processing == len(TEXTS)
        status = batches.retrieve(first.id)
        assert (status.processing_status, status.request_counts.succeeded) == ("ended", 2)
        found: dict[str, str | None] = {}
        for line in batches.results(first.id):
            result = line.result
            assert result.type == OUTCOMES[line.custom_id]
            found[line.custom_id] = result.message.content[0].text if result.type == "succeeded" else None
        second = batches.create(requests=requests)
        assert batches.cancel(second.id).processing_status == "canceling"
        assert batches.retrieve(second.id).request_counts.canceled == len(TEXTS)
        listed = [each.id for each in batches.list(limit=100)]
        assert batches.delete(first.id).type == "message_batch_deleted"
    return Life(found, listed)


def google(url: str, client: BatchClient) -> Life:
    from google import genai

    requests: Any = [
        {"model": body["model"], "contents": body["contents"], "metadata": {"key": id}}
        for id, body in lines_of(client, "request").items()
    ]
    options: Any = {"base_url": url, "api_version": "v1beta"}
    with genai.Client(api_key=GOOGLE_KEY, http_options=options) as sdk:
        model = "models/gemini-2.5-flash"
        first = sdk.batches.create(model=model, src=requests, config={"display_name": TAG})
        assert (first.state, first.display_name) == ("JOB_STATE_RUNNING", TAG)
        status = sdk.batches.get(name=first.name)
        assert status.state == "JOB_STATE_SUCCEEDED"
        found = {
            each.metadata["key"]: each.response.text if each.response else None
            for each in status.dest.inlined_responses
        }
        second = sdk.batches.create(model=model, src=requests, config={"display_name": TAG})
        sdk.batches.cancel(name=second.name)
        assert sdk.batches.get(name=second.name).state == "JOB_STATE_CANCELLED"
        listed = [each.name for each in sdk.batches.list(config={"page_size": 10})]
        sdk.batches.delete(name=first.name)
    return Life(found, listed)


def mistral(url: str, client: BatchClient) -> Life:
    from mistralai.client import Mistral as Client

    lines = client.lines(TEXTS)
    content = b"\n".join((*lines, b""))
    with Client(server_url=url, api_key=MISTRAL_KEY) as sdk:

        def create() -> Any:
            file = sdk.files.upload(
                file={"file_name": f"{TAG}.jsonl", "content": content, "content_type": "application/jsonl"},
                purpose="batch",
            )
            assert file.num_lines == len(TEXTS)
            return sdk.batch.jobs.create(
                input_files=[file.id],
                endpoint="/v1/chat/completions",
                model="mistral-small-latest",
                metadata={"toolcast": TAG},
                timeout_hours=24,
            )

        first = create()
        assert (first.status, first.total_requests) == ("RUNNING", len(TEXTS))
        status = sdk.batch.jobs.get(job_id=first.id)
        assert (status.status, status.succeeded_requests, status.failed_requests) == ("SUCCESS", 2, 1)
        found: dict[str, str | None] = {}
        for file in (status.output_file, status.error_file):
            for line in sdk.files.download(file_id=file).read().splitlines():
                each = json.loads(line)
                body = each["response"]["body"]
                found[each["custom_id"]] = body["choices"][0]["message"]["content"] if not each["error"] else None
        second = create()
        assert sdk.batch.jobs.cancel(job_id=second.id).status == "CANCELLATION_REQUESTED"
        assert sdk.batch.jobs.get(job_id=second.id).status == "CANCELLED"
        listed = [each.id for each in sdk.batch.jobs.list(page=0, page_size=100).data]
        for file in (status.input_files[0], status.output_file, status.error_file):
            assert sdk.files.delete(file_id=file).deleted
    return Life(found, listed)


def ours(client: BatchClient) -> Life:
    """Live the same life with toolcast's codec."""
    lines = client.lines(TEXTS)
    first = client.submit(TAG, lines)
    status = client.status(first.id)
    assert (first.state, status.state) == ("running", "ended")
    found = {each.id: text_of(client, each.body) if each.body else None for each in client.results(status)}
    second = client.submit(TAG, lines)
    client.send(client.codec.cancel(second.id))
    assert client.status(second.id).state == "ended"
    listed = [each.id for each in client.list()]
    for request in client.codec.delete_files(status):
        client.send(request)
    return Life(found, listed)


def text_of(client: BatchClient, body: bytes) -> str:
    """Return the text of a response, as the adapter's decoder reads it."""
    return client.decode(body).text


OFFICIAL: dict[str, Callable[[str, BatchClient], Life]] = {
    "anthropic": anthropic,
    "google": google,
    "mistral": mistral,
}


def meant(request: Request, base: str) -> Any:
    """Return the meaning of a request: method, path, parameters that are no defaults, and body."""
    method, target, _ = request.line.split()
    path, _, query = target.partition("?")
    headers = request.headers
    body: Any = request.body
    if "x-goog-upload-command" in headers:
        uploading = {name: value for name, value in headers.items() if name.startswith("x-goog-upload")}
        if "x-goog-upload-offset" in headers:  # a part, in which the client repeats the headers of the start
            return method, path, headers["x-goog-upload-command"], headers["x-goog-upload-offset"], body
        return method, path, uploading
    if headers.get("content-type", "").startswith("multipart/"):
        body = form_of(Received(method, path, {}, headers, body))
        body.pop("visibility", None)  # the client repeats the default
    elif body:
        body = json.loads(body.decode().replace(base, "BASE"))
    parameters = set(query.split("&")) - {"created_by_me=false"}  # a default
    return method, path, parameters, body or None


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_same_life(name: str) -> None:
    """A batch that ends with an error in it, one that is cancelled, and both in the list."""
    (double, llm), official = SERVICES[name], OFFICIAL[name]
    with double() as theirs, double() as other:
        for server in (theirs, other):
            server.outcome = lambda id, body: OUTCOMES[id]
        theirs_found = official(theirs.base, BatchClient(llm(theirs.base)))
        ours_found = ours(BatchClient(llm(other.base)))
        assert ours_found == theirs_found
        assert theirs_found.results == {"t1-0": "Re: Rivers bend.", "t1-1": None, "t1-2": "Re: É"}
        assert len(theirs_found.listed) == 2
        requests = [meant(each, theirs.base) for each in theirs.requests]
        wanted = [each for at, each in enumerate(requests) if at == 0 or each != requests[at - 1]]
        assert [meant(each, other.base) for each in other.requests] == wanted


def test_a_batch_from_a_file_of_gemini() -> None:
    """The upload in parts, the batch of the file, and the download of its results."""
    from google import genai

    with GoogleBatches() as theirs, GoogleBatches() as other:
        for server in (theirs, other):
            server.outcome = lambda id, body: OUTCOMES.get(id, "succeeded")
        llm = SERVICES["google"].llm
        lines = BatchClient(llm(other.base)).lines(TEXTS | {f"t1-{at}": "x" * 1000 for at in range(3, 10_000)})
        content = b"\n".join((*lines, b""))
        assert 8 * 1024 * 1024 < len(content) < 16 * 1024 * 1024

        options: Any = {"base_url": theirs.base, "api_version": "v1beta"}
        with genai.Client(api_key=GOOGLE_KEY, http_options=options) as sdk:
            about: Any = {"mime_type": "application/jsonl", "display_name": f"{TAG}.jsonl"}
            file = sdk.files.upload(file=io.BytesIO(content), config=about)
            assert (file.size_bytes, file.state, file.source) == (len(content), "ACTIVE", "UPLOADED")
            first = sdk.batches.create(model="models/gemini-2.5-flash", src=file.name, config={"display_name": TAG})
            status = sdk.batches.get(name=first.name)
            found = {}
            for line in sdk.files.download(file=status.dest.file_name).splitlines():
                each = json.loads(line)
                response = each.get("response")
                found[each["key"]] = response["candidates"][0]["content"]["parts"][0]["text"] if response else None
            for name in (file.name, status.dest.file_name):
                sdk.files.delete(name=name)
            sdk.batches.delete(name=first.name)

        client = BatchClient(llm(other.base))
        began = client.submit(TAG, lines)
        ended = client.status(began.id)
        assert {each.id: text_of(client, each.body) if each.body else None for each in client.results(ended)} == found
        assert (ended.tag, ended.total, ended.failed) == (TAG, 10_000, 1)
        for request in client.codec.delete_files(replace(ended, input_file=file.name)):
            client.send(request)
        assert not theirs.files
        assert not other.files
        assert [meant(each, other.base) for each in other.requests] == [
            meant(each, theirs.base) for each in theirs.requests
        ]


FILE = b"%PDF-1.7 not really"


def mistral_file(url: str) -> tuple[int | None, bytes]:
    from mistralai.client import Mistral as Client

    with Client(server_url=url, api_key=MISTRAL_KEY) as sdk:
        content: Any = {"file_name": "a b.pdf", "content": FILE, "content_type": "application/pdf"}
        file = sdk.files.upload(file=content, purpose="ocr")
        size = sdk.files.retrieve(file_id=file.id).size_bytes
        data = sdk.files.download(file_id=file.id).read()
        sdk.files.delete(file_id=file.id)
    return size, data


def google_file(url: str) -> tuple[int | None, bytes]:
    from google import genai

    options: Any = {"base_url": url, "api_version": "v1beta"}
    with genai.Client(api_key=GOOGLE_KEY, http_options=options) as sdk:
        about: Any = {"mime_type": "application/pdf", "display_name": "a b.pdf"}
        file = sdk.files.upload(file=io.BytesIO(FILE), config=about)
        size = sdk.files.get(name=str(file.name)).size_bytes
        with pytest.raises(genai.errors.ClientError):
            sdk.files.download(file=str(file.name))
        sdk.files.delete(name=str(file.name))
    return size, b""


@pytest.mark.parametrize(("name", "official"), [("mistral", mistral_file), ("google", google_file)])
def test_files(name: str, official: Callable[[str], tuple[int | None, bytes]]) -> None:
    """Upload, description, download and deletion of a file."""
    double, make = SERVICES[name]
    with double() as theirs, double() as other:
        wanted = official(theirs.base)
        llm = make(other.base)
        file = upload_file(llm, FILE, "a b.pdf")
        size, data = describe_file(llm, file.id).size, b""
        if name == "google":
            with pytest.raises(BadRequest, match="only generated files"):
                fetch_file(llm, file.id)
        else:
            data = fetch_file(llm, file.id)
        llm.delete_file(file.id)
        assert (size, data) == wanted == (len(FILE), b"" if name == "google" else FILE)
        assert [meant(each, other.base) for each in other.requests] == [
            meant(each, theirs.base) for each in theirs.requests
        ]


def test_files_of_openai() -> None:
    """Upload, description, download and deletion of a file, with the same responses for both."""
    from openai import OpenAI as Client

    file = {"id": "file-1", "object": "file", "bytes": len(FILE), "created_at": 1, "filename": "a b.pdf"}
    document = json.dumps({**file, "purpose": "user_data", "status": "processed", "expires_at": None}).encode()
    deleted = json.dumps({"id": "file-1", "object": "file", "deleted": True}).encode()
    with Loopback() as server:
        base = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            for answer in (document, document, FILE, deleted):
                server.answer(whole(answer, 200, "content-type: application/json"))
        with Client(base_url=f"{base}/v1", api_key="any", max_retries=0) as sdk:
            theirs = sdk.files.create(file=("a b.pdf", FILE, "application/pdf"), purpose="user_data")
            assert sdk.files.retrieve(theirs.id) == theirs
            assert sdk.files.content(theirs.id).read() == FILE
            assert sdk.files.delete(theirs.id).deleted
        llm = OpenAI("gpt-4o", base_url=f"{base}/v1", api_key="any")
        ours = upload_file(llm, FILE, "a b.pdf")
        assert (ours.id, ours.name, ours.size, ours.created) == (
            theirs.id,
            theirs.filename,
            theirs.bytes,
            theirs.created_at,
        )
        assert describe_file(llm, ours.id) == ours
        assert fetch_file(llm, ours.id) == FILE
        llm.delete_file(ours.id)
        requests = [meant(each, base) for each in server.requests]
        assert requests[4:] == requests[:4]
