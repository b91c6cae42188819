"""Batches of OpenAI and Groq through the official client and through toolcast's codec, at the double of the service.

The client checks the double: it parses all responses of a batch's life. Each step of toolcast is the same request.
"""

from __future__ import annotations

import io
import json
from typing import Any, Literal

import pytest

import toolcast
from support.batch_client import BatchClient
from support.openai_batches import CHAT, USAGE, OpenAIBatchServer, parts_of
from toolcast.errors import BadRequest, LLMError

pytestmark = pytest.mark.networked

TEXTS = {"tag-0": "Rivers bend.", "tag-1": "fail", "tag-2": "É"}
Service = Literal["openai", "groq"]
SERVICES = pytest.mark.parametrize("service", ["openai", "groq"])


def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    text = body["messages"][-1]["content"]
    if text == "fail":
        return 400, {"error": {"message": "bad", "type": "invalid_request_error", "param": None, "code": None}}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", "logprobs": None}
    base = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"], "usage": USAGE}
    return 200, {**base, "choices": [choice]}


def server_of(service: Service) -> OpenAIBatchServer:
    return OpenAIBatchServer(answer, "/openai" if service == "groq" else "")


def client_of(service: Service, url: str) -> BatchClient:
    return BatchClient(toolcast.OpenAICompatible("model-1", service=service, api_key="key", base_url=url))


def official(url: str, lines: list[bytes]) -> dict[str, str | None]:
    """Live the life of two batches with the client of OpenAI; return the texts of the first by id."""
    from openai import OpenAI

    found: dict[str, str | None] = {}
    with OpenAI(base_url=url, api_key="key", max_retries=0) as sdk:

        def create() -> Any:
            content = ("tag.jsonl", io.BytesIO(b"\n".join((*lines, b""))), "application/jsonl")
            file = sdk.files.create(file=content, purpose="batch")
            assert (file.purpose, file.filename) == ("batch", "tag.jsonl")
            return sdk.batches.create(
                input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"toolcast": "tag"}
            )

        first = create()
        assert (first.status, first.metadata) == ("validating", {"toolcast": "tag"})
        for status in ("in_progress", "finalizing", "completed"):
            batch = sdk.batches.retrieve(first.id)
            assert batch.status == status
        counts = batch.request_counts
        assert counts is not None
        assert (counts.total, counts.completed, counts.failed) == (3, 2, 1)
        for id in (batch.output_file_id, batch.error_file_id):
            assert id is not None
            for line in sdk.files.content(id).text.splitlines():
                each = json.loads(line)
                body = each["response"]["body"]
                found[each["custom_id"]] = body["choices"][0]["message"]["content"] if "choices" in body else None
        second = create()
        assert sdk.batches.cancel(second.id).status == "cancelling"
        assert sdk.batches.retrieve(second.id).status == "cancelled"
        assert [each.id for each in sdk.batches.list(limit=100)] == [second.id, first.id]
        for id in (batch.input_file_id, batch.output_file_id, batch.error_file_id):
            assert id is not None
            assert sdk.files.delete(id).deleted
    return found


def ours(client: BatchClient, lines: list[bytes]) -> dict[str, str | None]:
    """Live the same life with toolcast's codec."""
    first = client.submit("tag", lines)
    assert (first.raw, first.tag, first.total) == ("validating", "tag", 3)
    for state in ("running", "running", "ended"):
        batch = client.status(first.id)
        assert batch.state == state
    assert (batch.done, batch.failed) == (2, 1)
    found = {each.id: client.decode(each.body).text if each.body else None for each in client.results(batch)}
    second = client.submit("tag", lines)
    assert client.codec.read_status(client.send(client.codec.cancel(second.id))).raw == "cancelling"
    cancelled = client.status(second.id)
    assert (cancelled.state, cancelled.cancelled) == ("ended", True)
    assert [each.id for each in client.list()] == [second.id, first.id]
    for request in client.codec.delete_files(batch):
        client.send(request)
    return found


def meanings(server: OpenAIBatchServer) -> list[Any]:
    """Return the method, the target and the decoded body of each request."""
    found: list[Any] = []
    for (method, target, body), headers in zip(server.received, server.headers, strict=True):
        decoded: Any = None
        if (headers["content-type"] or "").startswith("multipart/"):
            parts = parts_of(headers, body)
            decoded = {name: (part.get_filename(), part.get_payload(decode=True)) for name, part in parts.items()}
        elif body:
            decoded = json.loads(body)
        found.append((method, target, headers["authorization"], decoded))
    return found


@SERVICES
def test_the_same_life(service: Service) -> None:
    """A batch that ends with an error in it, one that is cancelled, and both in the list."""
    with server_of(service) as theirs, server_of(service) as other:
        client = client_of(service, other.url)
        lines = client.lines(TEXTS)
        found = official(theirs.url, lines)
        assert ours(client, lines) == found == {"tag-0": "Rivers bend.", "tag-1": None, "tag-2": "É"}
        assert meanings(theirs) == meanings(other)


@SERVICES
def test_the_same_errors(service: Service) -> None:
    import openai

    with server_of(service) as server:
        client = client_of(service, server.url)
        with openai.OpenAI(base_url=server.url, api_key="key", max_retries=0) as sdk:
            with pytest.raises(openai.NotFoundError):
                sdk.batches.retrieve("batch_unknown")
            with pytest.raises(LLMError) as caught:
                client.status("batch_unknown")
            assert caught.value.status == 404
            with pytest.raises(openai.BadRequestError):
                sdk.batches.create(input_file_id="file-none", endpoint=CHAT, completion_window="24h")
            with pytest.raises(BadRequest):
                client.send(client.codec.submit("tag", [], "file-none"))
