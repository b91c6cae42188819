"""Stored responses, conversations and background responses through OpenAI's client and through toolcast.

Each is sent to a double of the service by both: the same requests, to the same paths with the same queries and bodies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from support.responses_service import ResponsesService
from toolcast import Engine, OpenAIResponses, Settings
from toolcast.llms.http import background_responses

pytestmark = pytest.mark.networked

INCLUDE: Any = ["reasoning.encrypted_content"]
Sent = tuple[str, str, dict[str, list[str]], Any]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ResponsesService]:
    monkeypatch.setattr(background_responses, "_FIRST_WAIT", 0.001)
    with ResponsesService() as double:
        yield double


def requests_of(service: ResponsesService, run: Callable[[str], object]) -> list[Sent]:
    """Return the method, the path, the query and the body of each request that `run` sends."""
    before = len(service.requests)
    run(f"{service.base}/v1")
    return [_parsed(request.line, request.body) for request in service.requests[before:]]


def _parsed(line: str, body: bytes) -> Sent:
    method, target, _ = line.split()
    parts = urlsplit(target)
    return method, parts.path, parse_qs(parts.query), json.loads(body) if body else None


def client(url: str) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=url, api_key="any", max_retries=0)


def gpt(url: str, **settings: Any) -> OpenAIResponses:
    return OpenAIResponses("gpt-5.4", api_key="any", base_url=url, settings=Settings(**settings), max_retries=0)


def test_a_conversation_by_response_ids(service: ResponsesService) -> None:
    def official(url: str) -> None:
        with client(url) as openai:
            options: Any = {"model": "gpt-5.4", "store": True, "include": INCLUDE, "stream": True}
            for text, previous in (("One?", None), ("Two?", "resp_1")):
                more = {"previous_response_id": previous} if previous else {}
                items = [{"role": "user", "content": text}]
                list(openai.responses.create(input=items, instructions="Be brief.", **options, **more))

    def ours(url: str) -> None:
        engine = Engine(gpt(url, previous_response_id="auto"), instructions="Be brief.")
        for text in ("One?", "Two?"):
            engine.submit(text)

    theirs = requests_of(service, official)
    service.created.clear()
    assert requests_of(service, ours) == theirs


def test_an_explicit_id_and_a_conversation_of_the_service(service: ResponsesService) -> None:
    with client(f"{service.base}/v1") as openai:
        openai.responses.create(model="gpt-5.4", input=[{"role": "user", "content": "One?"}], store=True, stream=False)
    for settings in ({"previous_response_id": "resp_1"}, {"conversation": "conv_1"}):

        def official(url: str, given: Any = settings) -> None:
            items: Any = [{"role": "user", "content": "Two?"}]
            options: Any = {"model": "gpt-5.4", "store": True, "include": INCLUDE, "stream": False, **given}
            with client(url) as openai:
                openai.responses.create(input=items, **options)

        def ours(url: str, given: Any = settings) -> None:
            gpt(url, **given).chat("Two?")

        assert requests_of(service, ours) == requests_of(service, official)


def test_a_background_response_that_is_polled_and_one_that_is_resumed(service: ResponsesService) -> None:
    def official(url: str) -> None:
        options: Any = {"model": "gpt-5.4", "store": True, "background": True, "include": INCLUDE}
        items: Any = [{"role": "user", "content": "Hi"}]
        with client(url) as openai:
            response = openai.responses.create(input=items, stream=False, **options)
            while response.status in ("queued", "in_progress"):
                response = openai.responses.retrieve(response.id, include=INCLUDE)
            id = f"resp_{len(service.created) + 1}"
            with openai.responses.create(input=items, stream=True, **options) as stream:
                numbers = [event.sequence_number for _, event in zip(range(3), stream, strict=False)]
            after = numbers[-1]
            list(openai.responses.retrieve(id, include=INCLUDE, stream=True, starting_after=after))

    def ours(url: str) -> None:
        llm = gpt(url, background=True)
        llm.chat("Hi")
        service.cuts.append(3)
        list(llm.stream_chat("Hi"))

    service.polls = ["queued", "in_progress"]
    theirs = requests_of(service, official)
    service.created.clear()
    assert requests_of(service, ours) == theirs


def test_a_cancelled_response(service: ResponsesService) -> None:
    with client(f"{service.base}/v1") as openai:
        items: Any = [{"role": "user", "content": "Hi"}]
        openai.responses.create(model="gpt-5.4", input=items, store=True, background=True, stream=False)
    from toolcast.providers.chat_completions.services import OPENAI
    from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
    from toolcast.providers.openai.background_requests import BackgroundRequests
    from toolcast.values.credentials import Secret

    (theirs,) = requests_of(service, lambda url: client(url).responses.cancel("resp_1"))
    adapter = OpenAIResponsesAdapter(OPENAI, api_key=Secret("any"), base_url=f"{service.base}/v1")
    ours = BackgroundRequests(adapter, b"{}").cancel("resp_1")
    parts = urlsplit(ours.target)
    assert (ours.method, parts.path, parse_qs(parts.query), ours.body) == (*theirs[:3], b"")
    assert theirs[3] is None
