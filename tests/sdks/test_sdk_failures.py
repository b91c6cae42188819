"""toolcast beside the official SDKs where something goes wrong: what one calls a failure, the other does too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sdks import ours
from sdks.addresses import at_llmock, at_loopback, streamed_twice
from sdks.answers import ANSWERS, FAR
from sdks.official import SDKS
from servers.aimock_server import Aimock
from support.aws_event_messages import exception
from support.loopback import CLOSE, Loopback, head, whole
from toolcast import LLMError
from toolcast.errors import MalformedEvent, StreamInterrupted, StreamTruncated

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

pytestmark = pytest.mark.networked

WHY = "because of the weather"
MOCKED = ["openai", "responses", "anthropic", "gemini", "mistral"]
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def both_fail(protocol: str, url: str, *, stream: bool) -> tuple[Exception, LLMError]:
    """The errors of the SDK and of toolcast, which mean the same."""
    sdk = SDKS[protocol]
    theirs, mine = sdk.failure(url, stream=stream), ours.failure(protocol, url, stream=stream)
    assert sdk.meaning(theirs).matches(type(mine).__name__, mine.status)
    return theirs, mine


@either_way
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503, 529])
@pytest.mark.parametrize("protocol", MOCKED)
def test_a_status(llmock: LLMock, protocol: str, status: int, stream: bool) -> None:
    llmock.fail(status, message=WHY, times=2)
    theirs, mine = both_fail(protocol, at_llmock(llmock, protocol), stream=stream)
    assert mine.status == status
    assert WHY in str(theirs)
    assert WHY in str(mine)


@either_way
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_a_status_of_ollama(aimock: Aimock, status: int, stream: bool) -> None:
    aimock.answer({}, {"error": {"message": WHY}, "status": status})
    theirs, mine = both_fail("ollama", aimock.url, stream=stream)
    assert mine.status == status
    assert WHY in str(theirs)
    assert WHY in str(mine)


# An answer that begins well, and what comes in the middle of it.
BREAKS: dict[str, tuple[str, Any]] = {
    "openai": ("chat: text and calls", {"error": {"message": WHY, "type": "server_error", "param": None}}),
    "responses": (
        "responses: texts and calls",
        {"type": "error", "code": "server_error", "message": WHY, "param": None, "sequence_number": 9},
    ),
    "anthropic": (
        "anthropic: calls and text",
        {"type": "error", "error": {"type": "overloaded_error", "message": WHY}},
    ),
    "gemini": ("gemini: text and a call", {"error": {"code": 503, "message": WHY, "status": "UNAVAILABLE"}}),
    "mistral": ("mistral: a thought and text", {"object": "error", "message": WHY, "type": "server_error"}),
    "ollama": ("ollama: a thought and text", {"error": WHY}),
}
# What comes as an event in a stream of Bedrock.
EXCEPTIONS = [
    "throttlingException",
    "validationException",
    "internalServerException",
    "modelStreamErrorException",
    "serviceUnavailableException",
]


@pytest.mark.parametrize("protocol", BREAKS)
def test_an_error_in_the_middle(protocol: str) -> None:
    name, error = BREAKS[protocol]
    written = ANSWERS[name]
    with Loopback() as server:
        url = streamed_twice(server, written, [*written.events()[:3], written.event(error)])
        theirs, mine = both_fail(protocol, url, stream=True)
    assert WHY in f"{theirs} {getattr(theirs, 'body', '')}"  # mistralai does not know its own errors in a stream
    assert WHY in str(mine)


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_an_exception_in_the_middle_of_an_event_stream(kind: str) -> None:
    written = ANSWERS["bedrock: text and calls"]
    with Loopback() as server:
        url = streamed_twice(server, written, [*written.events()[:3], exception(kind, {"message": WHY})])
        theirs, mine = both_fail("bedrock", url, stream=True)
    assert WHY in str(theirs)
    assert WHY in str(mine)


@either_way
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "ValidationException"),
        (403, "AccessDeniedException"),
        (404, "ResourceNotFoundException"),
        (408, "ModelTimeoutException"),
        (424, "ModelErrorException"),
        (429, "ThrottlingException"),
        (500, "InternalServerException"),
        (503, "ServiceUnavailableException"),
    ],
)
def test_a_status_of_bedrock(status: int, kind: str, stream: bool) -> None:
    body = json.dumps({"message": WHY}).encode()
    with Loopback() as server:
        for _ in range(2):
            server.answer(whole(body, status, "content-type: application/json", f"x-amzn-errortype: {kind}:http://x/"))
        theirs, mine = both_fail("bedrock", at_loopback(server, "bedrock"), stream=stream)
    assert type(theirs).__name__ == kind
    assert mine.status == status
    assert WHY in str(theirs)
    assert WHY in str(mine)


@pytest.mark.parametrize("protocol", BREAKS)
def test_a_connection_that_breaks(protocol: str) -> None:
    written = ANSWERS[BREAKS[protocol][0]]
    with Loopback() as server:
        for _ in range(2):
            start = head(200, f"content-type: {written.kind}", "content-length: 9999")
            server.answer(start + b"".join(written.events()[:3]), CLOSE)
        url = at_loopback(server, protocol)
        theirs, mine = SDKS[protocol].failure(url, stream=True), ours.failure(protocol, url, stream=True)
    assert "peer closed connection" in f"{theirs} {theirs.__cause__}"
    assert type(mine) is StreamInterrupted


DAMAGES = {
    "openai": (4, "JSONDecodeError", MalformedEvent),
    "anthropic": (3, "JSONDecodeError", MalformedEvent),
    "gemini": (0, "UnknownApiResponseError", StreamTruncated),  # it was the last
    "mistral": (1, "ResponseValidationError", MalformedEvent),
}


@pytest.mark.parametrize("protocol", DAMAGES)
def test_a_damaged_event(llmock: LLMock, protocol: str) -> None:
    events, theirs, mine = DAMAGES[protocol]
    damage(llmock, events)
    url = at_llmock(llmock, protocol)
    assert type(SDKS[protocol].failure(url, stream=True)).__name__ == theirs
    assert type(ours.failure(protocol, url, stream=True)) is mine


def test_a_damaged_event_whose_content_comes_again(llmock: LLMock) -> None:
    """The Responses protocol repeats every piece as a part of a whole: toolcast reads it there, the SDK gives up."""
    damage(llmock, 4)
    url = at_llmock(llmock, "responses")
    assert type(SDKS["responses"].failure(url, stream=True)).__name__ == "JSONDecodeError"
    assert ours.ask("responses", url, stream=True).calls == (("weather", FAR),)


def damage(llmock: LLMock, events: int) -> None:
    """Two answers in which an event after so many others is no JSON."""
    for _ in range(2):
        llmock.call_tool("weather", FAR)
        llmock.corrupt(after_chunks=events)
